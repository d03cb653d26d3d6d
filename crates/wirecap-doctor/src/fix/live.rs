//! The settings of this machine.

use std::{fs, io, path::PathBuf};

use wirecap_sys::netdev::{self, NicSettings};

use super::Settings;
use crate::setting::{Setting, Value};

/// Reads and writes the settings of this machine, in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct LiveSettings {
    nic: NicSettings,
    /// Where the files of the kernel are; another directory in tests.
    root: PathBuf,
}

impl LiveSettings {
    /// Opens what they are read through.
    ///
    /// # Errors
    /// When there is no socket.
    pub fn open() -> Result<Self, netdev::Error> {
        Ok(Self { nic: NicSettings::open()?, root: PathBuf::from("/") })
    }

    /// The file of a setting that is one. Names of interfaces have no slash: the kernel allows none, and what
    /// is in a journal is not believed.
    fn file(&self, setting: &Setting) -> io::Result<PathBuf> {
        let path = match setting {
            Setting::Napi { interface, file } => format!("{}/{file}", self.directory(interface)?),
            Setting::Rps { interface, queue } => {
                format!("{}/queues/rx-{queue}/rps_cpus", self.directory(interface)?)
            }
            Setting::Kernel { name } => name.path().trim_start_matches('/').to_owned(),
            Setting::InterruptMask { number } => format!("proc/irq/{number}/smp_affinity"),
            Setting::Governor { cpu } => format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"),
            Setting::IdleState { cpu, state } => {
                format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}/disable")
            }
            _ => return Err(mismatch()),
        };
        Ok(self.root.join(path))
    }

    /// The directory of an interface in sysfs, which shows the network namespace that it was mounted in:
    /// another interface may have the name there.
    fn directory(&self, interface: &str) -> io::Result<String> {
        let directory = format!("sys/class/net/{}", one_name(interface)?);
        let index = netdev::interface(interface).map_err(answer)?.ifindex;
        let shown = fs::read_to_string(self.root.join(&directory).join("ifindex"));
        match shown.ok().and_then(|shown| shown.trim().parse::<u32>().ok()) {
            Some(shown) if shown == index => Ok(directory),
            _ => Err(io::Error::other(
                "/sys shows another network namespace; run it with ip netns exec, or mount /sys in this one",
            )),
        }
    }
}

impl Settings for LiveSettings {
    fn read(&self, setting: &Setting) -> io::Result<Value> {
        let nic = &self.nic;
        let value = match setting {
            Setting::Rings { interface } => Value::Rings(nic.rings(interface).map_err(answer)?),
            Setting::Channels { interface } => Value::Channels(nic.channels(interface).map_err(answer)?),
            Setting::Coalescing { interface } => {
                Value::Coalescing(nic.coalescing(interface).map_err(answer)?)
            }
            Setting::Pause { interface } => Value::Pause(nic.pause(interface).map_err(answer)?),
            Setting::RssTable { interface } => Value::Table(nic.indirection(interface).map_err(answer)?),
            Setting::Offload { interface, name } => {
                let offloads = nic.offloads(interface).map_err(answer)?;
                let offload = offloads.iter().find(|offload| offload.name == *name);
                Value::Switch(offload.ok_or(io::ErrorKind::NotFound)?.active)
            }
            _ => Value::Text(fs::read_to_string(self.file(setting)?)?.trim_end().to_owned()),
        };
        Ok(value)
    }

    fn write(&self, setting: &Setting, value: &Value) -> io::Result<()> {
        let nic = &self.nic;
        match (setting, value) {
            (Setting::Rings { interface }, Value::Rings(rings)) => nic.set_rings(interface, rings),
            (Setting::Channels { interface }, Value::Channels(channels)) => {
                nic.set_channels(interface, channels)
            }
            (Setting::Coalescing { interface }, Value::Coalescing(coalescing)) => {
                nic.set_coalescing(interface, coalescing)
            }
            (Setting::Pause { interface }, Value::Pause(pause)) => nic.set_pause(interface, pause),
            (Setting::RssTable { interface }, Value::Table(table)) => nic.set_indirection(interface, table),
            (Setting::Offload { interface, name }, Value::Switch(on)) => {
                nic.set_offload(interface, name, *on)
            }
            (setting, Value::Text(text)) => return fs::write(self.file(setting)?, text),
            _ => return Err(mismatch()),
        }
        .map_err(answer)
    }

    fn ifindex(&self, interface: &str) -> Option<u32> {
        netdev::interface(interface).ok().map(|interface| interface.ifindex)
    }

    fn name(&self, ifindex: u32) -> io::Result<Option<String>> {
        match netdev::interface_with_index(ifindex) {
            Err(netdev::Error::NoSuchIndex(_)) => Ok(None),
            interface => Ok(Some(interface.map_err(answer)?.name)),
        }
    }

    /// The kernel makes interrupts and queues with their own values anew. A processor that is switched off
    /// keeps its own.
    fn is_void(&self, setting: &Setting) -> bool {
        let (directory, beside) = match setting {
            Setting::InterruptMask { number } => {
                (format!("proc/irq/{number}"), "proc/irq/default_smp_affinity".to_owned())
            }
            Setting::Rps { interface, queue } => {
                let queues = format!("sys/class/net/{interface}/queues");
                (format!("{queues}/rx-{queue}"), format!("{queues}/rx-0"))
            }
            _ => return false,
        };
        self.root.join(beside).exists() && !self.root.join(directory).exists()
    }
}

fn one_name(interface: &str) -> io::Result<&str> {
    let is_one = !interface.contains('/') && !matches!(interface, "" | "." | "..");
    if is_one { Ok(interface) } else { Err(mismatch()) }
}

fn mismatch() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "this is not a value of this setting")
}

/// The kernel's answer, with its number if it has one.
fn answer(error: netdev::Error) -> io::Error {
    match error {
        netdev::Error::NotPermitted { .. } => io::Error::new(io::ErrorKind::PermissionDenied, error),
        netdev::Error::System { source, .. } => source,
        netdev::Error::NoSuchInterface { .. } => io::Error::new(io::ErrorKind::NotFound, error),
        error => io::Error::other(error),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{setting::NapiFile, snapshot::Sysctl};

    /// Has sysfs show the loopback interface, which has the index 1 everywhere, with an index.
    fn show_loopback(root: &Path, index: u32) {
        let directory = root.join("sys/class/net/lo");
        fs::create_dir_all(directory.join("queues/rx-0")).unwrap();
        fs::write(directory.join("ifindex"), format!("{index}\n")).unwrap();
        for file in ["threaded", "queues/rx-0/rps_cpus"] {
            fs::write(directory.join(file), "1\n").unwrap();
        }
    }

    #[test]
    fn files_of_another_network_namespace_are_not_touched() {
        let directory = tempfile::tempdir().unwrap();
        let settings = LiveSettings { root: directory.path().into(), ..LiveSettings::open().unwrap() };
        let interface = || "lo".to_owned();
        let all = [
            Setting::Napi { interface: interface(), file: NapiFile::Threaded },
            Setting::Rps { interface: interface(), queue: 0 },
        ];
        let value = Value::Text("0".into());
        for setting in &all {
            assert_eq!(settings.read(setting).unwrap_err().kind(), io::ErrorKind::Other, "no sysfs");
        }
        show_loopback(directory.path(), 2);
        for setting in &all {
            assert_eq!(settings.read(setting).unwrap_err().kind(), io::ErrorKind::Other, "{setting:?}");
            assert_eq!(settings.write(setting, &value).unwrap_err().kind(), io::ErrorKind::Other);
        }
        show_loopback(directory.path(), 1);
        assert!(all.iter().all(|setting| settings.write(setting, &value).is_ok()));
    }

    #[test]
    fn interrupts_and_queues_that_are_gone_have_nothing_to_restore() {
        let directory = tempfile::tempdir().unwrap();
        let settings = LiveSettings { root: directory.path().into(), ..LiveSettings::open().unwrap() };
        let interrupt = Setting::InterruptMask { number: 38 };
        assert!(!settings.is_void(&interrupt), "no interrupt is visible here");
        show_loopback(directory.path(), 1);
        fs::create_dir_all(directory.path().join("proc/irq")).unwrap();
        fs::write(directory.path().join("proc/irq/default_smp_affinity"), "3\n").unwrap();
        assert!(settings.is_void(&interrupt));
        assert!(settings.is_void(&Setting::Rps { interface: "lo".into(), queue: 1 }));
        assert!(!settings.is_void(&Setting::Rps { interface: "lo".into(), queue: 0 }));
        assert!(!settings.is_void(&Setting::Governor { cpu: 1 }), "it is off");
    }

    #[test]
    fn settings_that_are_files_are_read_and_written() {
        let directory = tempfile::tempdir().unwrap();
        let settings = LiveSettings { root: directory.path().into(), ..LiveSettings::open().unwrap() };
        let interface = || "lo".to_owned();
        show_loopback(directory.path(), 1);
        for (setting, path) in [
            (Setting::Kernel { name: Sysctl::NetdevBudget }, "proc/sys/net/core/netdev_budget"),
            (
                Setting::Napi { interface: interface(), file: NapiFile::GroFlushTimeout },
                "sys/class/net/lo/gro_flush_timeout",
            ),
            (Setting::Rps { interface: interface(), queue: 3 }, "sys/class/net/lo/queues/rx-3/rps_cpus"),
            (Setting::InterruptMask { number: 38 }, "proc/irq/38/smp_affinity"),
            (Setting::Governor { cpu: 2 }, "sys/devices/system/cpu/cpu2/cpufreq/scaling_governor"),
            (Setting::IdleState { cpu: 2, state: 3 }, "sys/devices/system/cpu/cpu2/cpuidle/state3/disable"),
        ] {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "300\n").unwrap();
            assert_eq!(settings.read(&setting).unwrap(), Value::Text("300".into()));
            settings.write(&setting, &Value::Text("600".into())).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "600");
            assert!(settings.write(&setting, &Value::Switch(true)).is_err(), "of another setting");
        }
    }

    #[test]
    fn a_journal_cannot_name_another_file() {
        let settings = LiveSettings::open().unwrap();
        for name in ["../../etc", "a/b", "", ".."] {
            let setting = Setting::Napi { interface: name.into(), file: NapiFile::Threaded };
            assert_eq!(settings.read(&setting).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name}");
        }
    }
}
