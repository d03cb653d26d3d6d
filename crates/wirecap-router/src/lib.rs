//! A small router: routes, next hops, ICMP errors.
#![forbid(unsafe_code)]

mod error;
mod icmp;
mod routes;
mod validity;

pub use error::Error;
pub use icmp::{ICMP_ERROR_MAX, IcmpProblem, Offender};
pub use routes::{NextHop, Route, RouteProblem, Routes};
pub use validity::{Invalid, valid_ip};
