//! What the flags of tcpdump and dumpcap are here.

use clap::{Arg, CommandFactory};

use super::markdown::{head, row};
use crate::commands::{
    Flags,
    capture::habits::{Answer, HABITS, Program},
};

pub(super) fn page() -> String {
    let about = "Each flag of tcpdump 4.99 and of dumpcap 4, and what it is in `wirecap capture`. [`wirecap run`](../existing-programs.md) \
                 runs tcpdump on the engine, with all its flags.";
    let mut page = head("From tcpdump and dumpcap", about);
    for (program, name) in [(Program::Tcpdump, "tcpdump"), (Program::Dumpcap, "dumpcap")] {
        page += &format!("\n## {name}\n\n| {name} | here | |\n|---|---|---|\n");
        for habit in HABITS.iter().filter(|habit| habit.program == program) {
            let flag = format!("`{}`", habit.flag);
            page += &match habit.answer {
                Answer::Same(remark) => row(&[&flag, &flag, remark]),
                Answer::Instead(what) => row(&[&flag, "-", what]),
            };
        }
    }
    page
}

/// A flag that is said to be there is, and one that is not is answered.
#[test]
fn the_table_of_habits_is_true() {
    let flags = Flags::command();
    let capture = flags.find_subcommand("capture").unwrap();
    let known = |flag: &str| {
        let is = |argument: &Arg| {
            let short = argument.get_short().map(|short| format!("-{short}"));
            let long = argument.get_long().map(|long| format!("--{long}"));
            [short, long].iter().flatten().any(|name| name == flag)
        };
        matches!(flag, "-h" | "--help") || capture.get_arguments().any(is)
    };
    for habit in HABITS {
        let other = habit.program == Program::Tcpdump && matches!(habit.flag, "-B" | "-f" | "-b")
            || matches!(habit.flag, "-M" | "-T" | "-C" | "--count");
        match habit.answer {
            Answer::Same(_) => assert!(known(habit.flag), "{habit:?}"),
            // Some mean something else here.
            Answer::Instead(_) => assert_eq!(known(habit.flag), other, "{habit:?}"),
        }
    }
}
