//! `wirecap-paper`: the laboratory. It repeats experiments of the WireCAP paper (Wu and DeMar, IMC 2014) with
//! the engines of today, at the paper's own rates.
//!
//! ```text
//!   workload: a trace, and the queue of each packet ─► trial: one engine, one workload ─► figures, by queue ─► tables
//!                                    └──────────────► wirecap-sim: the same packets, simulated ──────────────┘
//! ```
//!
//! | to read about | open |
//! |---|---|
//! | the traffic | [`workload`], [`stand_in`] |
//! | the engines | [`engine`]; their programs: `bench/peers`, `wirecap-bench` |
//! | one run | [`trial`] |
//! | Table 1, Figures 11 and 12 | [`skew`] |
//! | Figure 13 | [`forwarding`] |
//! | Figures 9 and 10 | [`burst`] |
//! | cycles by stage | [`stages`] |
//!
//! Rule: measured and simulated figures are in tables of their own, and the titles say which.
#![forbid(unsafe_code)]

mod arguments;
mod burst;
mod engine;
mod forwarding;
mod laboratory;
mod samples;
mod skew;
mod stages;
mod stand_in;
mod trial;
mod workload;

use std::{collections::BTreeSet, io::BufWriter, path::Path, process::ExitCode};

use anyhow::{Context, Result};
use clap::{CommandFactory, Parser, error::ErrorKind};
use wirecap_bench::child;
use wirecap_record::PlainFile;

use crate::{arguments::Arguments, laboratory::Laboratory};

/// Queues of the trace that `--write-trace` writes: those of the paper's Figure 3.
const TRACE_QUEUES: usize = 6;

fn main() -> ExitCode {
    let result = child::of_command_line().unwrap_or_else(|| run(Arguments::parse()));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("wirecap-paper: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<()> {
    if let Some(path) = &arguments.write_trace {
        return write_trace(path, arguments.seed);
    }
    let names: BTreeSet<_> = skew::engines().chain(burst::engines()).map(engine::Engine::name).collect();
    if !names.iter().any(|name| arguments.measures(name)) {
        let known = names.into_iter().collect::<Vec<_>>().join("; ");
        let message = format!("no engine has {} in its name: {known}\n", arguments.only.join(" or "));
        Arguments::command().error(ErrorKind::InvalidValue, message).exit();
    }
    let mut laboratory = Laboratory::open(arguments)?;
    skew::run(&mut laboratory)?;
    forwarding::run(&mut laboratory)?;
    burst::run(&mut laboratory)?;
    stages::run(&mut laboratory)?;
    laboratory.close();
    Ok(())
}

fn write_trace(path: &Path, seed: u64) -> Result<()> {
    let write = || {
        let mut file = PlainFile::create(path)?;
        let traffic = workload::stand_in(TRACE_QUEUES, workload::END_S, seed);
        let rss = workload::rss_of(TRACE_QUEUES)?;
        let packets = stand_in::write(&traffic, &rss, seed, BufWriter::new(&mut file))?;
        file.complete()?;
        anyhow::Ok(packets)
    };
    let packets = write().with_context(|| path.display().to_string())?;
    eprintln!("{packets} packets in {}", path.display());
    Ok(())
}
