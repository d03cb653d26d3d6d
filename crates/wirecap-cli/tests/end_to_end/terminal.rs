//! What a user at a terminal sees.

use std::{
    fs,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use wirecap_lab::require_root;
use wirecap_sys::netdev;
use wirecap_traffic::LiveOptions;

use crate::lab::{Lab, RunningCommand, WIRECAP};

const CLEAR: &str = "\r\x1b[K";
/// Part of the progress line after the first thousand frames.
const THOUSAND: &str = "  1000 packets  ";

fn wait_until(mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline);
        thread::sleep(Duration::from_millis(20));
    }
}

/// Runs a capture of `r0` on a terminal, sends a thousand frames, waits for `progress` or for a while, sends
/// the missing frames, and returns everything that was on the screen.
fn on_a_terminal(lab: &Lab, flags: &str, progress: bool) -> String {
    let mut command = lab.right.command("script");
    let capture = format!("{WIRECAP} capture r0 --count 1500 {flags}");
    let screen = lab.path("screen");
    command.args(["--quiet", "--flush", "--return", "--command", &capture]).arg(&screen);
    let running = RunningCommand::spawn(command);
    wait_until(|| lab.right.enter(|| !netdev::interface("r0").unwrap().xdp_programs.is_empty()));
    lab.send(0, 0, 1_000, LiveOptions::default());
    if progress {
        wait_until(|| String::from_utf8_lossy(&fs::read(&screen).unwrap_or_default()).contains(THOUSAND));
    } else {
        thread::sleep(Duration::from_millis(1_200));
    }
    lab.send_some(0, 0, 1_000);
    let ended = running.wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    String::from_utf8(ended.stdout).unwrap()
}

#[test]
fn a_terminal_gets_one_line_of_progress_that_is_gone_at_the_end() {
    if !require_root("a_terminal_gets_one_line_of_progress_that_is_gone_at_the_end") {
        return;
    }
    let lab = Lab::with_queues("terminal", 1);
    let screen = on_a_terminal(&lab, "", true);
    let lines: Vec<_> = screen.split(CLEAR).collect();
    // Start lines, a line every half second, and the account where the last one was.
    for line in &lines[1..lines.len() - 1] {
        assert!(
            !line.contains('\n') && line.contains(" packets  ") && line.contains(" s  lost 0  "),
            "{line:?}"
        );
    }
    assert!(lines[1..lines.len() - 1].iter().any(|line| line.contains(THOUSAND)), "{screen:?}");
    assert!(lines[0].contains("wirecap: packets are only counted: --print prints"), "{screen:?}");
    assert!(lines[0].contains("wirecap: M = ") && lines[lines.len() - 1].starts_with("port "), "{screen:?}");

    for flags in ["--quiet", "--json"] {
        let screen = on_a_terminal(&lab, flags, false);
        assert!(!screen.contains(CLEAR), "{flags}: {screen:?}");
        assert_eq!(screen.contains("only counted"), flags == "--json", "{flags}: {screen:?}");
    }
}

#[test]
fn a_narrow_terminal_gets_lines_that_fit_and_shows_a_slow_end() {
    if !require_root("a_narrow_terminal_gets_lines_that_fit_and_shows_a_slow_end") {
        return;
    }
    const COLUMNS: usize = 50;
    let lab = Lab::with_queues("narrow", 1);
    let mut command = lab.right.command("script");
    // The reader waits until the end is shown.
    let (shown, read) = (lab.path("shown"), lab.path("read"));
    let reader = format!("(until test -e {}; do sleep 0.1; done; cat >/dev/null)", read.display());
    let capture = format!("{WIRECAP} capture r0 -w - --duration 2s | {reader}");
    let shell = format!("stty columns {COLUMNS} rows 24; {capture}");
    command.args(["--quiet", "--flush", "--return", "--command", &shell, shown.to_str().unwrap()]);
    let running = RunningCommand::spawn(command);
    wait_until(|| lab.right.enter(|| !netdev::interface("r0").unwrap().xdp_programs.is_empty()));
    lab.send(0, 0, 10_000, LiveOptions::default());
    wait_until(|| fs::read(&shown).is_ok_and(|screen| String::from_utf8_lossy(&screen).contains("ended; ")));
    fs::write(&read, "").unwrap();
    let screen = String::from_utf8(running.wait().stdout).unwrap();
    let statuses: Vec<_> = screen.split(CLEAR).skip(1).collect();
    assert!(statuses.iter().any(|line| line.starts_with("ended; ")), "{screen:?}");
    for line in statuses.iter().filter(|line| !line.contains('\n')) {
        assert!(line.chars().count() < COLUMNS, "{line:?}");
        assert!(line.is_empty() || line.starts_with("ended; ") || line.contains(" s  lost 0"), "{line:?}");
    }
    let said = screen.lines().take_while(|line| !line.starts_with("wirecap: M = "));
    // A path is a word, and stays whole.
    for line in said.map(str::trim_end).filter(|line| line.trim_start().contains(' ')) {
        assert!(line.chars().count() <= COLUMNS, "{line:?}: {screen:?}");
    }
}

#[test]
fn help_has_styles_except_on_a_terminal_that_takes_none() {
    for (terminal, has_styles) in [("xterm", true), ("dumb", false)] {
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--command", &format!("{WIRECAP} capture --help"), "/dev/null"]);
        let printed = command.env("TERM", terminal).output().unwrap();
        let text = String::from_utf8(printed.stdout).unwrap();
        assert!(text.contains("Examples:"), "{text}");
        assert_eq!(text.contains('\x1b'), has_styles, "{terminal}: {text:?}");
    }
}
