//! Runs the cases, one after the other, and tells on the console what came of them.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Instant,
};

use crate::{
    boot::Plan,
    cases,
    kernel_log::{self, KernelLog},
    machine::Machine,
};

/// Runs the cases of the plan and prints the lines that `vm/steps.sh` and `vm/guest.sh` read.
pub(crate) fn run(plan: &Plan, machine: &Machine) {
    let mut log = KernelLog::open();
    let boot = kernel_log::complaints(&log.lines());
    boot.iter().for_each(|line| println!("kernel: {line}"));
    let (mut passed, mut all) = (0, 0);
    // The firmware has left half a line.
    println!();
    for (name, case) in cases::of(machine) {
        if !plan.cases.is_empty() && !plan.cases.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        all += 1;
        if run_case(name, case, machine, &mut log) {
            passed += 1;
        }
    }
    let sums = machine.ledger.sums();
    println!(
        "vm: row {} | {} | {} | {} | {} | {passed} of {all} | {} | {}",
        machine.captured.driver,
        machine.kernel,
        machine.captured.queues,
        of_each(&sums.reported),
        of_each(&sums.of_kernel),
        sums.packets,
        if passed == all { format!("{} of {}", sums.accounts, sums.accounts) } else { "no".into() },
    );
    println!("vm: end {passed} of {all}");
}

/// The mode of each queue: one word if all have the same.
fn of_each(modes: &[&str]) -> String {
    match modes {
        [first, rest @ ..] if rest.iter().all(|mode| mode == first) => format!("{first} × {}", modes.len()),
        _ => modes.join(", "),
    }
}

/// Runs a case; whether it passed.
fn run_case(name: &str, case: fn(&Machine), machine: &Machine, log: &mut KernelLog) -> bool {
    let begun = Instant::now();
    let tainted = kernel_log::is_tainted();
    // A case that fails drops what it has opened, so that the next one finds the machine as it was.
    let came_to_its_end = catch_unwind(AssertUnwindSafe(|| {
        case(machine);
        machine.settle();
    }));
    let lines = log.lines();
    let complaints = kernel_log::complaints(&lines);
    let passed = came_to_its_end.is_ok() && complaints.is_empty() && (tainted || !kernel_log::is_tainted());
    if came_to_its_end.is_err() {
        lines.iter().for_each(|line| println!("kernel: {line}"));
    } else {
        complaints.iter().for_each(|line| println!("kernel: {line}"));
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("vm: case {name} {} {seconds:.1}", if passed { "passed" } else { "FAILED" });
    passed
}
