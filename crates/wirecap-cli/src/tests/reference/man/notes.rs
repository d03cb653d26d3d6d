//! What the pages say about each command that neither its flags nor its schema has.

/// Terms, each with its explanation.
type List = &'static [[&'static str; 2]];

/// What is written by hand about a command.
#[derive(Default)]
pub(super) struct Notes {
    /// Its exit codes, if they are not those of all commands.
    pub(super) exit: List,
    /// Its signals, if they are not those of all commands; empty if it does not run long.
    pub(super) signals: Option<List>,
    pub(super) environment: List,
    pub(super) files: List,
    pub(super) see_also: &'static [&'static str],
}

const TZ: [&str; 2] = ["TZ", "The time zone of the times in names of files (`-G`)."];

/// The notes about a command; without any, its page has what all pages have.
pub(super) fn of(command: &str) -> Notes {
    match command {
        "capture" => Notes {
            environment: &[TZ],
            files: &[
                ["/etc/wirecap/capture/NAME.toml", "The settings of the service wirecap-capture@NAME."],
                ["/var/lib/wirecap", "Where that service writes files."],
                ["/run/wirecap/PID.sock", "The control socket of a capture of root; see wirecap-status(1)."],
            ],
            see_also: &["pcap-filter(7)", "strftime(3)", "tcpdump(8)", "wirecap-setcap(8)"],
            ..Notes::default()
        },
        "forward" => Notes {
            files: &[
                [
                    "/etc/wirecap/forward/NAME.conf",
                    "INTERFACES and OPTIONS of the service wirecap-forward@NAME.",
                ],
                ["/run/wirecap/PID.sock", "The control socket; see wirecap-status(1)."],
            ],
            see_also: &["pcap-filter(7)", "ip-route(8)"],
            ..Notes::default()
        },
        "profile" => Notes {
            files: &[[
                "FILE.partial",
                "A file of --csv or --picture before it is complete, which then replaces FILE.",
            ]],
            see_also: &["wirecap-capture(1)", "wirecap-replay(1)", "ethtool(8)"],
            ..Notes::default()
        },
        "handle" => Notes {
            files: &[["/run/wirecap/PID.sock", "The control socket; see wirecap-status(1)."]],
            see_also: &["wirecap-forward(1)", "wirecap-profile(1)", "wirecap-size(1)", "pcap-filter(7)"],
            ..Notes::default()
        },
        "replay" => Notes { see_also: &["tcpreplay(1)", "mergecap(1)"], ..Notes::default() },
        "run" => Notes {
            exit: &[
                [
                    "that of PROGRAM",
                    "The program has ended; 128 and the number of the signal if one ended it.",
                ],
                ["1", "The program could not be started, or its account could not be read."],
                ["2", "The command line is wrong, or there is no such program in PATH."],
            ],
            signals: Some(&[[
                "SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH",
                "Are passed on to the program.",
            ]]),
            environment: &[
                ["WIRECAP_LIBRARY", "The file of the library, if it is not where wirecap looks for it."],
                [
                    "WIRECAP_M, WIRECAP_R, ...",
                    "Settings of the library, which the flags above set; wirecap-libpcap(7) has all.",
                ],
            ],
            files: &[["/etc/wirecap/libpcap.toml", "Settings of the library."]],
            see_also: &["wirecap-libpcap(7)", "pcap(3PCAP)"],
        },
        "extcap" => Notes { see_also: &["wireshark(1)", "extcap(4)"], ..Notes::default() },
        "status" => Notes {
            signals: Some(&[]),
            environment: &[[
                "XDG_RUNTIME_DIR",
                "Captures of this user are looked for in its directory wirecap.",
            ]],
            files: &[
                ["/run/wirecap/PID.sock", "The control socket of a capture of root."],
                ["/run/wirecap/capture, /run/wirecap/forward", "Those of services."],
            ],
            ..Notes::default()
        },
        "top" => Notes {
            exit: &[
                ["0", "The user or the capture has ended it."],
                ["1", "There is no such capture, it was killed, or a capture of its own failed."],
                ["2", "The command line is wrong, or there is no terminal."],
                ["3", "A capture of its own has lost packets, with --fail-on-loss."],
            ],
            signals: Some(&[["SIGHUP, SIGINT, SIGTERM", "End the command, and a capture of its own."]]),
            environment: &[
                ["NO_COLOR", "Without colours, if it is not empty."],
                ["LC_ALL, LC_CTYPE, LANG", "Bars are of ASCII characters unless the locale is of UTF-8."],
            ],
            see_also: &["wirecap-capture(1)", "wirecap-status(1)"],
            ..Notes::default()
        },
        "stop" => Notes {
            exit: &[
                ["that of the capture", "It has ended: 0, 1 or 3."],
                ["0", "The capture has ended as asked."],
                [
                    "1",
                    "The capture failed or does not exist, this user may not stop it, or the timeout expired (--timeout).",
                ],
                ["2", "The command line is wrong; nothing was done."],
                ["3", "The capture has ended as asked, but lost packets, with --fail-on-loss."],
            ],
            signals: Some(&[]),
            ..Notes::default()
        },
        "size" => Notes {
            exit: &[
                ["0", "Pools of some size do it."],
                ["1", "No pool is large enough, as the output says, or it could not be printed."],
                ["2", "The command line is wrong."],
            ],
            signals: Some(&[]),
            see_also: &["wirecap-capture(1)"],
            ..Notes::default()
        },
        "rotate" | "set" => Notes { signals: Some(&[]), ..Notes::default() },
        "interfaces" => {
            Notes { signals: Some(&[]), see_also: &["ip-link(8)", "ethtool(8)"], ..Notes::default() }
        }
        _ => Notes::default(),
    }
}
