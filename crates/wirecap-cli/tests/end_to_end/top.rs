//! `wirecap top` in a terminal of tmux, whose screens are compared.

use std::{
    cell::RefCell,
    fs,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use wirecap_lab::{Namespace, require_root};
use wirecap_sys::netdev;
use wirecap_testing::{wait_or_explain, wait_until};
use wirecap_traffic::LiveOptions;

use crate::lab::{Lab, WIRECAP};

/// In front of the exit code.
const EXIT: &str = "exit code of the command: ";

/// A separate tmux server in a namespace, with one window of 80 columns and 24 rows. Dropping it ends the
/// server.
struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    /// Runs a line of the shell in it.
    fn run(lab: &Lab, namespace: &Namespace, line: &str) -> Self {
        // A server that ends still has its socket for a moment.
        static COUNTER: AtomicUsize = AtomicUsize::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let terminal = Self { socket: lab.path(&format!("tmux{number}")) };
        let mut command = namespace.command("tmux");
        command.arg("-S").arg(&terminal.socket).args(["-f", "/dev/null"]);
        let line = format!("{line}; echo \"{EXIT}$?;\"; exec sleep 1000");
        command.args(["new-session", "-d", "-x", "80", "-y", "24", &line]);
        // As over ssh from a rare type of terminal.
        command.env("TERM", "xterm").env("LC_ALL", "C").env_remove("NO_COLOR");
        assert!(command.status().unwrap().success(), "{command:?}");
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux").arg("-S").arg(&self.socket).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits for words that the command has printed, even if tmux has scrolled them off the screen.
    fn wait_for_printed(&self, words: &str) -> String {
        self.wait_within(words, &["-J", "-S", "-200"])
    }

    fn keys(&self, keys: &str) {
        self.tmux(&["send-keys", keys]);
    }

    fn wait_for(&self, words: &str) -> String {
        self.wait_within(words, &[])
    }

    fn wait_within(&self, words: &str, range: &[&str]) -> String {
        let screen = RefCell::new(String::new());
        let explain = || format!("{words:?} is on the screen: {}", screen.borrow());
        wait_or_explain(explain, || {
            screen.replace(self.tmux(&[&["capture-pane", "-p"], range].concat()));
            screen.borrow().contains(words)
        });
        screen.into_inner()
    }

    fn format(&self, format: &str) -> String {
        self.tmux(&["display-message", "-p", format]).trim_end().to_owned()
    }

    /// Waits for the end of the command; returns its exit code.
    fn exit_code(&self) -> i32 {
        let printed = self.wait_for_printed(EXIT);
        printed.split_once(EXIT).and_then(|(_, code)| code.split_once(';')?.0.parse().ok()).expect("a number")
    }

    /// The process of the command: the child of the shell.
    fn pid(&self) -> Pid {
        let shell = self.format("#{pane_pid}");
        let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
        Pid::from_raw(children.trim().parse().unwrap())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux").arg("-S").arg(&self.socket).arg("kill-server").output();
    }
}

/// A screen without what depends on time: figures of the first seconds, and the picture of the rates.
fn masked(screen: &str) -> Vec<String> {
    let rows = screen.lines().enumerate().map(|(row, line)| match row {
        1 => line.split_once(" s  ").map_or(line, |(_, rest)| rest).to_owned(),
        3 => line.split(", at most").next().unwrap_or_default().to_owned(),
        4 | 5 => String::new(),
        _ => line.trim_end().to_owned(),
    });
    rows.collect()
}

#[test]
fn a_running_capture_is_shown_on_80_by_24_and_goes_on() {
    if !require_root("a_running_capture_is_shown_on_80_by_24_and_goes_on") {
        return;
    }
    let lab = Lab::with_queues("top", 2);
    let socket = lab.path("control.sock");
    let (socket, file) = (socket.to_str().unwrap(), lab.path("x.pcapng"));
    let flags = ["--xdp-mode", "packed", "--workers", "2", "-w", file.to_str().unwrap()];
    let running = lab.capture(&[&["r0", "--name", "uplink", "--control", socket], &flags[..]].concat());
    let terminal = Terminal::run(&lab, &lab.right, &format!("{WIRECAP} top {socket} --interval 100ms"));
    terminal.wait_for("0 packets to ");
    // While packets come, the sample has them.
    wait_until("the sample is shown", || {
        lab.send(0, 0, 500, LiveOptions::default());
        terminal.screen().contains("100 %  udp 9")
    });
    let talkers = terminal.screen();
    assert!(talkers.lines().any(|line| line.contains("%  198.18.") && line.contains(" > ")), "{talkers}");
    // Then only the time changes.
    let account = |terminal: &Terminal| masked(&terminal.screen());
    terminal.wait_for("of a sample of 0 packets");
    let captured = running.pid();
    let sent = {
        let line = account(&terminal)[2].clone();
        line.split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let expected = [
        &format!("wirecap top  r0  (capture {captured}, uplink)  running  T 60 %"),
        "0 packets/s  0.00 Mbit/s  lost 0  pool 0 % (peak # %)",
        &format!("{sent} packets to "),
        "packets per second in two minutes",
        "",
        "",
        "port        queue mode        seen/s   lost/s        lost  pool",
        "r0              0 packed           0        0           0  ",
        "r0              1 packed           0        0           0  ",
        "worker  core packets/s    Mbit/s                  who helps whom, and in all",
        "     0     -         0       0.0                  no help needed so far",
        "     1     -         0       0.0",
        "       lost  cause              where                last",
        "    nothing",
        "talkers, of a sample of 0 packets                 protocols, by bytes",
    ];
    let shown = account(&terminal);
    for (shown, expected) in shown.iter().zip(expected) {
        match expected.split_once('#') {
            Some((begin, end)) => assert!(shown.starts_with(begin) && shown.ends_with(end), "{shown}"),
            None => assert!(shown.starts_with(expected), "{shown:?} is not {expected:?}"),
        }
    }
    assert_eq!(shown[23], "q quits, the capture goes on  p pauses  arrows scroll  every 100 ms");
    terminal.keys("q");
    assert_eq!(terminal.exit_code(), 0);
    assert_eq!(terminal.format("#{alternate_on}"), "0", "the terminal is as before");
    running.stop().account().assert_lossless(sent);
}

#[test]
fn losses_are_shown_with_cause_place_and_time() {
    if !require_root("losses_are_shown_with_cause_place_and_time") {
        return;
    }
    let lab = Lab::with_queues("toploss", 1);
    let socket = lab.path("control.sock");
    let small = ["r0", "-M", "64", "-R", "4", "--xdp-mode", "packed", "--control", socket.to_str().unwrap()];
    let running = lab.capture(&small);
    let terminal = Terminal::run(&lab, &lab.right, &format!("{WIRECAP} top {}", socket.display()));
    terminal.wait_for("0 packets, counted and not written");
    running.signal(Signal::SIGSTOP);
    lab.send(0, 0, 20_000, LiveOptions::default());
    running.signal(Signal::SIGCONT);
    let screen = terminal.wait_for("no_free_block");
    let row = screen.lines().find(|line| line.contains("no_free_block")).unwrap();
    assert!(
        row.contains("  r0, queue 0 ") && (row.contains(" now, ") || row.contains(" s ago, ")),
        "{screen}"
    );
    terminal.wait_for(" 3 s ago, ");
    // The end of the capture ends the command, which says how.
    let ended = running.stop();
    assert_eq!(terminal.exit_code(), 0);
    terminal.wait_for_printed("the capture has ended with exit code 0");
    let lost = ended.account().0["ports"][0]["queues"][0]["lost"]["no_free_block"].as_u64().unwrap();
    assert!(row.trim_start().starts_with(&lost.to_string()), "{lost}: {row}");
}

#[test]
fn an_interface_that_nobody_captures_is_captured_until_the_end() {
    if !require_root("an_interface_that_nobody_captures_is_captured_until_the_end") {
        return;
    }
    let lab = Lab::with_queues("topown", 1);
    let is_captured = || !lab.right.enter(|| netdev::interface("r0")).unwrap().xdp_programs.is_empty();
    let terminal = Terminal::run(&lab, &lab.right, &format!("{WIRECAP} top r0 -- -T 40"));
    let screen = terminal.wait_for("0 packets, counted and not written");
    assert!(screen.contains("(own capture ") && screen.contains("T 40 %") && is_captured(), "{screen}");
    lab.send(0, 0, 1_000, LiveOptions::default());
    terminal.wait_for("1000 packets, counted");
    terminal.keys("q");
    assert_eq!(terminal.exit_code(), 0);
    assert!(!is_captured());
    // The account stays on the terminal.
    terminal.wait_for_printed("1000 packets in ");
    drop(terminal);

    // A terminal that is gone takes the command and its capture with it.
    let terminal = Terminal::run(&lab, &lab.right, &format!("{WIRECAP} top r0"));
    terminal.wait_for("0 packets, counted and not written");
    let pid = terminal.pid();
    drop(terminal);
    lab.wait_until_given_back("r0");
    wait_until("the command is gone", || kill(pid, None).is_err());

    // A loss is reported once.
    let small = "-- -M 64 -R 4 --xdp-mode packed";
    let terminal = Terminal::run(&lab, &lab.right, &format!("{WIRECAP} top r0 {small}"));
    let screen = terminal.wait_for("0 packets, counted and not written");
    let own = screen.split_once("(own capture ").unwrap().1.split(')').next().unwrap().parse().unwrap();
    kill(Pid::from_raw(own), Signal::SIGSTOP).unwrap();
    lab.send(0, 0, 20_000, LiveOptions::default());
    kill(Pid::from_raw(own), Signal::SIGCONT).unwrap();
    terminal.wait_for("r0 lost ");
    terminal.keys("q");
    assert_eq!(terminal.exit_code(), 0);
    let printed = terminal.wait_for_printed("WARNING: r0 lost ");
    assert_eq!(printed.matches("WARNING: r0 lost ").count(), 1, "{printed}");
    drop(terminal);

    // If it is killed, it cannot end its capture, which still ends, whichever user it has become.
    for user in ["", "-- -Z nobody"] {
        let terminal = Terminal::run(&lab, &lab.right, &format!("{WIRECAP} top r0 {user}"));
        terminal.wait_for("0 packets, counted and not written");
        kill(terminal.pid(), Signal::SIGKILL).unwrap();
        lab.wait_until_given_back("r0");
    }

    // A signal ends it like the key, and gives the terminal back.
    let terminal = Terminal::run(&lab, &lab.right, &format!("{WIRECAP} top r0"));
    terminal.wait_for("0 packets, counted and not written");
    kill(terminal.pid(), Signal::SIGTERM).unwrap();
    assert_eq!(terminal.exit_code(), 0);
    assert_eq!(terminal.format("#{alternate_on}"), "0");
    drop(terminal);

    let terminal = Terminal::run(&lab, &lab.right, &format!("{WIRECAP} top no-such-if"));
    assert_eq!(terminal.exit_code(), 1);
    terminal.wait_for_printed("no-such-if");
    drop(terminal);
    let terminal = Terminal::run(&lab, &lab.right, &format!("{WIRECAP} top r0 -- --no-such-flag"));
    assert_eq!(terminal.exit_code(), 2);
    terminal.wait_for_printed("--no-such-flag");
}

#[test]
fn a_command_that_is_stopped_and_continued_has_its_terminal_again() {
    if !require_root("a_command_that_is_stopped_and_continued_has_its_terminal_again") {
        return;
    }
    let lab = Lab::with_queues("topstop", 1);
    let running = lab.capture(&["r0"]);
    let top = format!("{WIRECAP} top {}", running.pid());
    let shown = "0 packets, counted and not written";
    // By another process, after which a shell restores the modes of the terminal.
    let terminal = Terminal::run(&lab, &lab.right, &top);
    terminal.wait_for(shown);
    kill(terminal.pid(), Signal::SIGSTOP).unwrap();
    let device = terminal.format("#{pane_tty}");
    assert!(Command::new("stty").args(["-F", &device, "sane"]).status().unwrap().success());
    kill(terminal.pid(), Signal::SIGCONT).unwrap();
    let modes = || Command::new("stty").args(["-F", &device, "-a"]).output().unwrap().stdout;
    wait_until("keys are read one by one", || String::from_utf8(modes()).unwrap().contains("-icanon"));
    terminal.keys("q");
    assert_eq!(terminal.exit_code(), 0);
    drop(terminal);

    // By Ctrl-Z in a shell with job control, which gets its screen back in between.
    let line = format!("set -m; {top}; echo it is stopped; read line; fg");
    let terminal = Terminal::run(&lab, &lab.right, &line);
    terminal.wait_for(shown);
    terminal.keys("C-z");
    terminal.wait_for("it is stopped");
    assert_eq!(terminal.format("#{alternate_on}"), "0");
    terminal.keys("Enter");
    terminal.wait_for(shown);
    terminal.keys("q");
    assert_eq!(terminal.exit_code(), 0);
    running.stop();
}

#[test]
fn a_command_that_was_stopped_for_long_connects_again() {
    if !require_root("a_command_that_was_stopped_for_long_connects_again") {
        return;
    }
    let lab = Lab::with_queues("toplong", 1);
    let running = lab.capture(&["r0"]);
    let descriptors = || fs::read_dir(format!("/proc/{}/fd", running.pid())).unwrap().count();
    let unwatched = descriptors();
    let terminal =
        Terminal::run(&lab, &lab.right, &format!("{WIRECAP} top --interval 100ms {}", running.pid()));
    terminal.wait_for("0 packets, counted and not written");
    kill(terminal.pid(), Signal::SIGSTOP).unwrap();
    wait_until("the capture disconnects it", || descriptors() == unwatched);
    lab.send(0, 0, 5, LiveOptions::default());
    kill(terminal.pid(), Signal::SIGCONT).unwrap();
    terminal.wait_for("5 packets, counted and not written");
    terminal.keys("q");
    assert_eq!(terminal.exit_code(), 0);
    running.stop();
}

#[test]
fn nothing_is_coloured_with_no_color_and_nothing_is_shown_off_a_terminal() {
    if !require_root("nothing_is_coloured_with_no_color_and_nothing_is_shown_off_a_terminal") {
        return;
    }
    let lab = Lab::with_queues("topplain", 1);
    // In the usual place, where other namespaces have captures of an `r0`, too.
    let running = lab.capture(&["r0"]);
    let pid = running.pid().to_string();
    for (variables, target, is_coloured) in [("", "r0", true), ("NO_COLOR=1 ", pid.as_str(), false)] {
        let line = format!("{variables}{WIRECAP} top {target}");
        let terminal = Terminal::run(&lab, &lab.right, &line);
        let screen = terminal.wait_for("0 packets, counted and not written");
        assert!(screen.contains(&format!("(capture {pid})")), "{screen}");
        let escaped = terminal.tmux(&["capture-pane", "-p", "-e"]);
        let has_colour = escaped.contains("\u{1b}[38;5;") || escaped.contains("\u{1b}[36m");
        assert_eq!(has_colour, is_coloured, "{escaped:?}");
        terminal.keys("p");
        terminal.wait_for("p resumes (paused)");
        // A smaller window shows less, and a larger one all again.
        terminal.tmux(&["resize-window", "-x", "60", "-y", "10"]);
        wait_until("the screen is smaller", || !terminal.screen().contains("talkers"));
        assert!(terminal.screen().contains("q quits"), "{}", terminal.screen());
        terminal.tmux(&["resize-window", "-x", "120", "-y", "40"]);
        terminal.wait_for("talkers");
        terminal.keys("Escape");
        assert_eq!(terminal.exit_code(), 0);
    }
    let mut command = lab.right.command(WIRECAP);
    let output = command.args(["top", &pid]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("top needs a terminal"), "{output:?}");
    running.stop();
}
