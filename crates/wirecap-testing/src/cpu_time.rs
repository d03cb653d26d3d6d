//! What a process costs.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use nix::{
    sys::{
        resource::{UsageWho, getrusage},
        time::TimeVal,
    },
    unistd::{SysconfVar, sysconf},
};

/// CPU time the process has used so far, user and system, in seconds.
pub fn process_cpu_seconds() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("every Linux knows it");
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

/// CPU time that another process has used so far, user and system, in seconds; to a hundredth.
///
/// # Panics
/// If there is no such process.
pub fn cpu_seconds_of(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process runs");
    // The name of the process may contain anything.
    let behind_name = stat.rsplit_once(')').expect("it has a name").1;
    let ticks = |index| behind_name.split_whitespace().nth(index).and_then(|ticks| ticks.parse::<f64>().ok());
    let (user, system) = (ticks(11).expect("user time"), ticks(12).expect("system time"));
    let per_second = sysconf(SysconfVar::CLK_TCK).ok().flatten().expect("every Linux knows it");
    (user + system) / per_second as f64
}

/// The least share of a core by which `used`, in seconds, grows in one of up to five windows of time, which
/// end with the first below `bound`. Other work on the machine, or on its host, makes a wake-up dearer, never
/// cheaper.
pub fn least_share(used: impl Fn() -> f64, window: Duration, bound: f64) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..5 {
        let (begun, before) = (Instant::now(), used());
        thread::sleep(window);
        least = least.min((used() - before) / begun.elapsed().as_secs_f64());
        if least < bound {
            break;
        }
    }
    least
}
