//! The engines that are compared.

pub mod copy;
pub mod ring;
pub mod wirecap;
