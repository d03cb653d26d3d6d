//! What a process costs.

use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeVal,
};

/// CPU time the process has used so far, user and system, in seconds.
pub fn process_cpu_seconds() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("every Linux knows it");
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}
