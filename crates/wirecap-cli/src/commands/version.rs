//! `wirecap --version -v`: what a report of a defect needs.

use std::{env::consts, fmt::Write, fs, thread};

use wirecap_sandbox::Support;
use wirecap_sys::{bpf, pcap};

/// The details, if these arguments ask for them: a version, and more than that, and nothing else.
pub(crate) fn asked(arguments: &[String]) -> Option<String> {
    const VERSIONS: [&str; 2] = ["-V", "--version"];
    const MORE: [&str; 3] = ["-v", "-vv", "--verbose"];
    let words: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
    let is_asked = |names: &[&str]| words.iter().any(|word| names.contains(word));
    let are_known = words.iter().all(|word| VERSIONS.contains(word) || MORE.contains(word));
    (are_known && is_asked(&VERSIONS) && is_asked(&MORE)).then(details)
}

fn details() -> String {
    let build = if cfg!(debug_assertions) { "with assertions" } else { "optimised" };
    let kernel = |name: &str| {
        fs::read_to_string(format!("/proc/sys/{name}"))
            .map_or_else(|error| error.to_string(), |text| text.trim().into())
    };
    let libpcap = match pcap::library() {
        Ok(library) => library.version(),
        Err(error) => format!("no filters: {error}"),
    };
    let has = bpf::capabilities().map(|(name, has)| format!("{}{name}", if has { "" } else { "no " }));
    let cores =
        thread::available_parallelism().map_or_else(|error| error.to_string(), |cores| cores.to_string());
    let facts = [
        ("build", format!("{build}, {} {}, by {}", consts::ARCH, consts::OS, env!("WIRECAP_COMPILER"))),
        ("commit", env!("WIRECAP_COMMIT").into()),
        ("kernel", format!("{} {}", kernel("kernel/osrelease"), kernel("kernel/version"))),
        ("libpcap", libpcap),
        ("this process has", has.join(", ")),
        ("the sandbox restricts", Support::find().to_string()),
        ("cores", cores),
        ("net.core.bpf_jit_enable", kernel("net/core/bpf_jit_enable")),
        ("net.core.bpf_jit_harden", kernel("net/core/bpf_jit_harden")),
    ];
    let mut text = format!("wirecap {}\n", env!("CARGO_PKG_VERSION"));
    for (name, value) in facts {
        writeln!(text, "{name}: {value}").expect("a String takes all");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_are_printed_only_if_nothing_else_is_asked() {
        let asked = |words: &str| asked(&words.split_whitespace().map(String::from).collect::<Vec<_>>());
        for words in ["wirecap --version -v", "wirecap -v -V", "wirecap -V --verbose"] {
            let details = asked(words).expect(words);
            for name in [
                "build: ",
                ", by rustc ",
                "commit: ",
                "kernel: ",
                "libpcap: ",
                "CAP_BPF",
                "seccomp",
                "bpf_jit_harden: ",
            ] {
                assert!(details.contains(name), "{details}");
            }
        }
        for words in ["wirecap", "wirecap -V", "wirecap -v", "wirecap capture -V -v"] {
            assert_eq!(asked(words), None, "{words}");
        }
    }
}
