//! `wirecap help COMMAND`: the manual page of a command.
//!
//! ```text
//!   bin/wirecap ─► ../share/man/man1/wirecap-COMMAND.1 ─┬─ there, and man(1) as well ─► man
//!                                                       └─ not ─► the long help, which clap prints
//! ```
//!
//! Rule: the page is the one beside this program. Another one that man(1) finds may be of another version.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use clap::CommandFactory;

use super::Flags;
use crate::process::executable;

/// Shows the page that these arguments ask for. `None` if there is nothing to show it with, or if they ask
/// for something else.
pub(crate) fn show(arguments: &[String]) -> Option<ExitCode> {
    let [_, help, command] = arguments else { return None };
    if help != "help" || Flags::command().find_subcommand(command).is_none() {
        return None;
    }
    let page = page_beside(&env::current_exe().ok()?, command)?;
    let shown = Command::new(executable::in_path("man".as_ref())?).arg("-l").arg(page).status().ok()?;
    Some(if shown.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The page of a command of this program, if it is installed.
fn page_beside(program: &Path, command: &str) -> Option<PathBuf> {
    let directory = program.parent()?.parent()?.join("share/man/man1");
    let page = |suffix| directory.join(format!("wirecap-{command}.1{suffix}"));
    [page(".gz"), page("")].into_iter().find(|page| page.is_file())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_page_is_the_one_beside_the_program() {
        let root = tempfile::tempdir().unwrap();
        let program = root.path().join("bin/wirecap");
        let pages = root.path().join("share/man/man1");
        fs::create_dir_all(&pages).unwrap();
        assert_eq!(page_beside(&program, "capture"), None);
        fs::write(pages.join("wirecap-run.1"), "").unwrap();
        fs::write(pages.join("wirecap-capture.1.gz"), "").unwrap();
        assert_eq!(page_beside(&program, "capture"), Some(pages.join("wirecap-capture.1.gz")));
        assert_eq!(page_beside(&program, "run"), Some(pages.join("wirecap-run.1")));
        assert_eq!(page_beside(&program, "replay"), None);
    }

    #[test]
    fn other_arguments_are_not_for_the_manual() {
        for words in ["wirecap help", "wirecap help sing", "wirecap capture help", "wirecap help capture now"]
        {
            let words: Vec<_> = words.split(' ').map(String::from).collect();
            assert_eq!(show(&words), None, "{words:?}");
        }
    }
}
