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

mod end;
mod filter;
mod pipe;
mod refusals;
mod round_trip;
mod run;
mod traces;
