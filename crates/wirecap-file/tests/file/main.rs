//! Tests of whole files: written and read back, built by hand, damaged, and judged by other tools.

mod compressed;
mod damage;
mod layouts;
mod mutation;
mod pipe;
mod round_trip;
mod skip;
mod traces;
mod wireshark;
