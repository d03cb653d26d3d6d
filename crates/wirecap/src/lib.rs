//! wirecap
