//! Trace files as ports: packets come out as they went in. Needs no root and no network.
//!
//! | what | where |
//! |---|---|
//! | files of every kind, in every dispatch mode | `round_trip` |
//! | the end: of one trace, of all, early, at damage | `end` |
//! | filters, and the source of times | `filter` |
//! | pipes | `pipe` |
//! | real traces, whole and damaged | `traces` |
//! | refusals | `refusals` |

mod end;
mod filter;
mod pipe;
mod refusals;
mod round_trip;
mod run;
mod traces;
