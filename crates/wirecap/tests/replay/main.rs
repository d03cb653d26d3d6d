//! Trace files as ports: what comes out is what went in. Needs no root and no network.
//!
//! | what | where |
//! |---|---|
//! | files of every kind, through every way of dispatch | `round_trip` |
//! | the end: of one, of all, early, in damage | `end` |
//! | filters, and whose the times are | `filter` |
//! | pipes | `pipe` |
//! | real traces, whole and damaged | `traces` |
//! | what is refused | `refusals` |

#[allow(dead_code, reason = "the tests of the file crate use the rest")]
#[path = "../../../wirecap-file/tests/file/build.rs"]
mod build;
#[allow(unused_imports, unused_macros, reason = "no test needs root here")]
#[path = "../support/mod.rs"]
mod support;

mod end;
mod filter;
mod pipe;
mod refusals;
mod round_trip;
mod run;
mod traces;
