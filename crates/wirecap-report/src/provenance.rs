//! The command line, the machine and the date, without which figures mean nothing.

use std::{env, fs, thread};

use jiff::Timestamp;

/// What made the figures, where and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// The command line that repeats the experiment.
    pub command: String,
    /// The machine: processor, cores, kernel.
    pub machine: String,
    /// The date and the time.
    pub date: String,
}

impl Provenance {
    /// The command line of this process, this machine, and now.
    pub fn of_this_process() -> Self {
        let words: Vec<_> = env::args_os().map(|word| quoted(&word.to_string_lossy())).collect();
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let cpu = processor(&read("/proc/cpuinfo"));
        let kernel = read("/proc/sys/kernel/osrelease");
        Self {
            command: words.join(" "),
            machine: format!("{cores} × {cpu}, Linux {}", kernel.trim()),
            date: Timestamp::now().strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        }
    }
}

/// The model in `/proc/cpuinfo`, or the architecture where the kernel names no model.
fn processor(cpuinfo: &str) -> String {
    let fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let mut models = fields.filter(|(name, _)| name.trim() == "model name");
    models.next().map_or_else(|| env::consts::ARCH.to_owned(), |(_, model)| model.trim().to_owned())
}

/// A word of a command line as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_the_machine_and_the_time_are_named() {
        let provenance = Provenance::of_this_process();
        assert!(provenance.command.contains("wirecap_report"), "{provenance:?}");
        assert!(
            provenance.machine.contains(" × ") && provenance.machine.contains("Linux "),
            "{provenance:?}"
        );
        assert!(provenance.date.starts_with("20") && provenance.date.ends_with(" UTC"), "{provenance:?}");
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("--ring=1024"), "--ring=1024");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn a_processor_without_a_name_is_its_architecture() {
        assert_eq!(processor("processor\t: 0\nmodel name\t: A: B\n"), "A: B");
        assert_eq!(processor("BogoMIPS: 50\n"), env::consts::ARCH);
    }
}
