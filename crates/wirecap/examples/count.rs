//! Counts the packets of an interface for some seconds, and shows the account.
//!
//! ```text
//! sudo cargo run --release --example count -- eth1 10
//! ```
//!
//! `xdp:eth1` takes an interface although it has an IP address; the host is cut off from it until the end.
#![allow(clippy::print_stdout, reason = "it is what an example is for")]

use std::{env, process::ExitCode, thread, time::Duration};

use wirecap::{Capture, Error, Report};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let seconds = arguments.get(1).map_or(Ok(10), |text| text.parse());
    let (Some(port), Ok(seconds)) = (arguments.first(), seconds) else {
        eprintln!("usage: count INTERFACE [SECONDS]");
        return ExitCode::from(2);
    };
    match count(port, Duration::from_secs(seconds)) {
        Ok(report) => {
            print(&report);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn count(port: &str, time: Duration) -> Result<Report, Error> {
    let mut capture = Capture::builder().port(port).open()?;
    let workers = capture.take_workers();
    let stopper = capture.stopper();
    thread::scope(|scope| {
        for mut worker in workers {
            scope.spawn(move || {
                let (mut packets, mut bytes) = (0, 0);
                while let Some(batch) = worker.next_batch() {
                    packets += batch.len();
                    bytes += batch.bytes();
                } // the batch goes home here
                println!("worker {}: {packets} packets, {bytes} bytes", worker.index());
            });
        }
        thread::sleep(time);
        stopper.stop();
    });
    Ok(capture.finish())
}

fn print(report: &Report) {
    for port in &report.ports {
        for queue in &port.queues {
            println!(
                "{} queue {} ({}): {} seen, {} delivered, {} lost, {} unexplained",
                port.name,
                queue.queue,
                queue.mode,
                queue.account.seen,
                queue.account.delivered,
                queue.account.lost.total(),
                queue.unexplained
            );
        }
    }
}
