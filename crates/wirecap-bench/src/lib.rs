//! wirecap-bench
