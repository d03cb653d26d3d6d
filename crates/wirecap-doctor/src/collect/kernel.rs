//! The kernel: its version, settings, counts and clocks; and daemons.

use std::{collections::BTreeMap, fs};

use wirecap_core::Choice;
use wirecap_sys::clock::is_synchronised;

use super::files::Files;
use crate::snapshot::{Clock, KernelVersion, Softirq, Sysctl};

const CLOCKS: &str = "/sys/devices/system/clocksource/clocksource0";

pub(super) fn version(files: &Files) -> KernelVersion {
    let release = files.text("/proc/sys/kernel/osrelease");
    release.as_deref().and_then(KernelVersion::parse).unwrap_or_default()
}

/// Settings of this network namespace, or of the machine; other namespaces than the first lack some.
pub(super) fn sysctls(files: &Files) -> BTreeMap<Sysctl, String> {
    let read = |name: Sysctl| Some((name, files.text(&name.path())?));
    Sysctl::ALL.iter().filter_map(|sysctl| read(sysctl.value)).collect()
}

/// The sums of `/proc/net/softnet_stat`, which has a line of hexadecimal numbers for each processor.
pub(super) fn softirq(files: &Files) -> Option<Softirq> {
    let text = files.text("/proc/net/softnet_stat")?;
    let mut sum = Softirq::default();
    for line in text.lines() {
        let mut numbers = line.split_whitespace().map(|number| u64::from_str_radix(number, 16));
        let mut next = || numbers.next()?.ok();
        sum.processed += next()?;
        sum.dropped += next()?;
        sum.squeezed += next()?;
    }
    Some(sum)
}

pub(super) fn clock(files: &Files) -> Clock {
    let available = files.text(&format!("{CLOCKS}/available_clocksource")).unwrap_or_default();
    Clock {
        source: files.text(&format!("{CLOCKS}/current_clocksource")),
        available: available.split_whitespace().map(ToOwned::to_owned).collect(),
        synchronised: is_synchronised().ok(),
    }
}

/// Whether a process of this name runs.
pub(super) fn runs(files: &Files, name: &str) -> Option<bool> {
    let processes = fs::read_dir(files.path("/proc")).ok()?.flatten();
    let comm = |pid: &str| files.text(&format!("/proc/{pid}/comm"));
    let is_pid = |name: &str| name.bytes().all(|digit| digit.is_ascii_digit());
    let names = processes.filter_map(|entry| entry.file_name().into_string().ok());
    Some(names.filter(|pid| is_pid(pid)).any(|pid| comm(&pid).as_deref() == Some(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::files::tests::root;

    #[test]
    fn the_kernel_is_read() {
        let (_directory, files) = root(&[
            ("/proc/sys/kernel/osrelease", "6.12.41+deb13-amd64\n"),
            ("/proc/sys/net/core/netdev_budget", "300\n"),
            ("/proc/sys/kernel/bpf_stats_enabled", "1\n"),
            ("/proc/net/softnet_stat", "00000010 00000001 00000002 0\n00000020 00000000 00000001 0\n"),
            ("/proc/7/comm", "irqbalance\n"),
            ("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
            ("/sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet \n"),
        ]);
        assert_eq!(version(&files), KernelVersion::new(6, 12));
        let expected = [(Sysctl::NetdevBudget, "300".into()), (Sysctl::BpfStatistics, "1".into())];
        assert_eq!(sysctls(&files), expected.into());
        assert_eq!(softirq(&files), Some(Softirq { processed: 0x30, dropped: 1, squeezed: 3 }));
        assert_eq!((runs(&files, "irqbalance"), runs(&files, "chronyd")), (Some(true), Some(false)));
        let clock = clock(&files);
        assert_eq!((clock.source.as_deref(), clock.available.len()), (Some("hpet"), 2));
    }
}
