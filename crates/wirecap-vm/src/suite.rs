//! Runs the cases, one after the other, and prints their results on the console.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
    time::{Duration, Instant},
};

use crate::{
    boot::Plan,
    cases::{self, Case},
    host,
    kernel_log::{self, KernelLog},
    machine::Machine,
    watchdog,
};

/// How long after the last case the suite waits for late complaints of the kernel.
const AFTERMATH: Duration = Duration::from_secs(1);

/// Runs the cases of the plan and prints the lines that `vm/steps.sh` and `vm/guest.sh` read.
pub(crate) fn run(plan: &Plan, machine: &Machine) {
    let mut log = KernelLog::open();
    let is_wanted = |name: &str| plan.cases.is_empty() || plan.cases.iter().any(|part| name.contains(part));
    let mut all: Vec<Case> = cases::of(machine).into_iter().filter(|(name, _)| is_wanted(name)).collect();
    // `boot` checks only that the drivers load and that the host can use its interface. `aftermath` collects
    // complaints from the deferred destruction of sockets and programs.
    all.insert(0, ("boot", |_| ()));
    all.push(("aftermath", |_| thread::sleep(AFTERMATH)));
    let mut has_passed = |name, case| watchdog::watch(name, || run_case(name, case, machine, &mut log));
    let passed = all.iter().filter(|&&(name, case)| has_passed(name, case)).count();
    let all = all.len();
    kernel_log::log_to_console();
    let sums = machine.ledger.sums();
    println!(
        "vm: row {} | {} | {} | {} | {} | {passed} of {all} | {} | {}",
        machine.captured.driver,
        machine.kernel,
        machine.captured.queues,
        mode_summary(&sums.reported),
        mode_summary(&sums.of_kernel),
        sums.packets,
        format_args!("{} of {}", sums.accounts, sums.captures),
    );
    println!("vm: end {passed} of {all}");
}

/// The mode of each queue, shortened to `MODE × QUEUES` if all have the same.
fn mode_summary(modes: &[&str]) -> String {
    match modes {
        [first, rest @ ..] if rest.iter().all(|mode| mode == first) => format!("{first} × {}", modes.len()),
        _ => modes.join(", "),
    }
}

/// Runs a case. Returns whether it passed.
fn run_case(name: &str, case: fn(&Machine), machine: &Machine, log: &mut KernelLog) -> bool {
    let begun = Instant::now();
    let was_tainted = name != "boot" && kernel_log::is_tainted();
    // Unwinding drops what a failed case has opened, so the next case finds the machine as it was.
    let returned = catch_unwind(AssertUnwindSafe(|| {
        case(machine);
        host::has_its_interface(machine);
    }));
    let lines = log.lines();
    let complaints = kernel_log::complaints(&lines);
    let passed = returned.is_ok() && complaints.is_empty() && (was_tainted || !kernel_log::is_tainted());
    if returned.is_err() {
        machine.recover();
        lines.iter().for_each(|line| println!("kernel: {line}"));
    } else {
        complaints.iter().for_each(|line| println!("kernel: {line}"));
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("vm: case {name} {} {seconds:.1}", if passed { "passed" } else { "FAILED" });
    passed
}
