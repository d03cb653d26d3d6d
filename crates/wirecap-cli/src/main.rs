//! wirecap
fn main() {}
