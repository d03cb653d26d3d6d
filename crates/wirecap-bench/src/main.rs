//! `wirecap-bench`: the benchmarks.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use wirecap_bench::{arguments, child, scenario};

fn main() -> ExitCode {
    let result = child::of_command_line().unwrap_or_else(|| scenario::run(arguments::parse()));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("wirecap-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
