//! Settings, their values, and the commands that change them by hand.

use wirecap_doctor::{Change, Disturbance, Setting, Value};
use wirecap_sys::netdev::{ChannelCounts, Coalescing, PauseFrames, RingSizes};

use crate::text::ranges;

/// The name of a setting.
pub(crate) fn name(setting: &Setting) -> String {
    match setting {
        Setting::Rings { interface } => format!("rings of {interface}"),
        Setting::Channels { interface } => format!("numbers of queues of {interface}"),
        Setting::Coalescing { interface } => format!("interrupt coalescing of {interface}"),
        Setting::Pause { interface } => format!("flow control of {interface}"),
        Setting::Offload { interface, name } => format!("{name} of {interface}"),
        Setting::RssTable { interface } => format!("RSS table of {interface}"),
        Setting::Napi { .. }
        | Setting::Rps { .. }
        | Setting::InterruptMask { .. }
        | Setting::Governor { .. }
        | Setting::IdleState { .. } => path(setting),
        Setting::Kernel { name } => name.to_string(),
    }
}

/// The file of a setting that is one.
fn path(setting: &Setting) -> String {
    match setting {
        Setting::Napi { interface, file } => format!("/sys/class/net/{interface}/{file}"),
        Setting::Rps { interface, queue } => format!("/sys/class/net/{interface}/queues/rx-{queue}/rps_cpus"),
        Setting::InterruptMask { number } => format!("/proc/irq/{number}/smp_affinity"),
        Setting::Governor { cpu } => format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"),
        Setting::IdleState { cpu, state } => {
            format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}/disable")
        }
        _ => String::new(),
    }
}

/// A value, in a few words.
pub(crate) fn value(value: &Value) -> String {
    match value {
        Value::Rings(rings) => words(&rings_of(rings)),
        Value::Channels(channels) => words(&channels_of(channels)),
        Value::Coalescing(coalescing) => words(&coalescing_of(coalescing)),
        Value::Pause(pause) => words(&pause_of(pause)),
        Value::Switch(on) => switch(u32::from(*on)),
        Value::Table(table) => {
            let mut queues: Vec<_> = table.iter().map(|queue| u64::from(*queue)).collect();
            queues.sort_unstable();
            queues.dedup();
            format!("{} entries for queues {}", table.len(), ranges(queues))
        }
        Value::Text(text) => text.clone(),
    }
}

/// The command that makes a change.
pub(crate) fn command(change: &Change) -> String {
    to(&change.setting, &change.from, &change.to).unwrap_or_default()
}

/// The command that undoes a change; `None` if only the journal can.
pub(crate) fn undo(change: &Change) -> Option<String> {
    to(&change.setting, &change.to, &change.from)
}

/// What a change interrupts, for an interface that the host may use.
pub(crate) fn disturbance(setting: &Setting, host_uses_it: bool) -> Option<&'static str> {
    setting.disturbs().map(|Disturbance::Link| match host_uses_it {
        true => "the link may be down for some seconds, and the host uses it",
        false => "the link may be down for some seconds",
    })
}

/// The command that sets a setting, with what differs.
/// `None` if no command writes such a value.
fn to(setting: &Setting, from: &Value, to: &Value) -> Option<String> {
    Some(match (setting, from, to) {
        (Setting::Rings { interface }, Value::Rings(from), Value::Rings(to)) => {
            format!("ethtool -G {interface} {}", difference(&rings_of(from), &rings_of(to)))
        }
        (Setting::Channels { interface }, Value::Channels(from), Value::Channels(to)) => {
            format!("ethtool -L {interface} {}", difference(&channels_of(from), &channels_of(to)))
        }
        (Setting::Coalescing { interface }, Value::Coalescing(from), Value::Coalescing(to)) => {
            format!("ethtool -C {interface} {}", difference(&coalescing_of(from), &coalescing_of(to)))
        }
        (Setting::Pause { interface }, Value::Pause(from), Value::Pause(to)) => {
            format!("ethtool -A {interface} {}", difference(&pause_of(from), &pause_of(to)))
        }
        (Setting::Offload { interface, name }, _, Value::Switch(on)) => {
            format!("ethtool -K {interface} {name} {}", switch(u32::from(*on)))
        }
        (Setting::RssTable { interface }, _, Value::Table(table)) => {
            format!("ethtool -X {interface} equal {}", evenly(table)?)
        }
        (Setting::Kernel { name }, _, Value::Text(text)) => format!("sysctl -w {name}={text}"),
        (setting, _, Value::Text(text)) => format!("echo {text} > {}", path(setting)),
        _ => return None,
    })
}

/// The number of queues that a table is spread over evenly, as ethtool does it.
fn evenly(table: &[u32]) -> Option<u32> {
    let queues = table.iter().max()? + 1;
    table.iter().zip((0..queues).cycle()).all(|(entry, queue)| *entry == queue).then_some(queues)
}

/// A word of ethtool's, and its value.
type Word = (&'static str, String);

fn words(words: &[Word]) -> String {
    words.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(" ")
}

fn difference(from: &[Word], to: &[Word]) -> String {
    let differs = to.iter().filter(|word| !from.contains(word)).cloned();
    words(&differs.collect::<Vec<_>>())
}

fn rings_of(rings: &RingSizes) -> Vec<Word> {
    vec![("rx", rings.rx.to_string()), ("tx", rings.tx.to_string())]
}

fn channels_of(channels: &ChannelCounts) -> Vec<Word> {
    let ChannelCounts { rx, tx, combined, .. } = channels;
    let all = [("rx", rx), ("tx", tx), ("combined", combined)];
    all.into_iter().filter(|(_, count)| **count > 0).map(|(name, count)| (name, count.to_string())).collect()
}

fn coalescing_of(coalescing: &Coalescing) -> Vec<Word> {
    vec![
        ("adaptive-rx", switch(coalescing.adaptive_rx)),
        ("rx-usecs", coalescing.rx_usecs.to_string()),
        ("rx-frames", coalescing.rx_frames.to_string()),
    ]
}

fn pause_of(pause: &PauseFrames) -> Vec<Word> {
    vec![("autoneg", switch(pause.autoneg)), ("rx", switch(pause.rx)), ("tx", switch(pause.tx))]
}

fn switch(value: u32) -> String {
    if value == 0 { "off".into() } else { "on".into() }
}

#[cfg(test)]
mod tests {
    use wirecap_doctor::setting::NapiFile;

    use super::*;

    #[test]
    fn commands_name_what_differs() {
        let interface = || "eth1".to_owned();
        let ring = |rx| Value::Rings(RingSizes { rx, tx: 512, rx_max: 4096, ..RingSizes::default() });
        let pause = |autoneg, tx| Value::Pause(PauseFrames { autoneg, rx: 1, tx });
        let table = |queues: u32| Value::Table((0..16).map(|entry| entry % queues).collect());
        let cases = [
            (Setting::Rings { interface: interface() }, ring(512), ring(4096), "ethtool -G eth1 rx 4096"),
            (
                Setting::Pause { interface: interface() },
                pause(1, 1),
                pause(0, 0),
                "ethtool -A eth1 autoneg off tx off",
            ),
            (
                Setting::Offload { interface: interface(), name: "rx-lro".into() },
                Value::Switch(true),
                Value::Switch(false),
                "ethtool -K eth1 rx-lro off",
            ),
            (Setting::RssTable { interface: interface() }, table(2), table(8), "ethtool -X eth1 equal 8"),
            (
                Setting::Napi { interface: interface(), file: NapiFile::Threaded },
                Value::Text("1".into()),
                Value::Text("0".into()),
                "echo 0 > /sys/class/net/eth1/threaded",
            ),
        ];
        for (setting, from, to, expected) in cases {
            let change = Change { setting, from: from.clone(), to: to.clone() };
            assert_eq!(command(&change), expected);
            let back = Change { setting: change.setting.clone(), from: to, to: from };
            assert_eq!(undo(&change), Some(command(&back)));
        }
        assert_eq!(evenly(&[0, 1, 3]), None);
        let uneven = Value::Table(vec![0, 1, 3]);
        let change =
            Change { setting: Setting::RssTable { interface: interface() }, from: uneven, to: table(2) };
        assert_eq!(undo(&change), None);
        assert_eq!(value(&table(2)), "16 entries for queues 0-1");
    }
}
