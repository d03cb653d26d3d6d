//! The page `wirecap(1)`: what there is, and what all commands share.

use clap::Command;

use super::{
    super::flags::commands,
    command::{about, add_list, name_line, references},
    examples,
    help_text::list_of,
    json_output,
    roff::{ManPage, bold, italic},
};

pub(super) fn page(flags: &Command) -> String {
    let mut page = ManPage::new("wirecap", 1);
    page.section("NAME");
    page.raw(&name_line("wirecap", &about(flags)));
    page.section("SYNOPSIS");
    page.raw(&format!("{} {} [{}]...", bold("wirecap"), italic("COMMAND"), italic("ARGUMENTS")));
    page.line_break();
    page.raw(&format!("{} {} [{}]", bold("wirecap"), bold("help"), italic("COMMAND")));
    page.section("DESCRIPTION");
    page.text(
        "wirecap captures the packets of all receive queues of a network interface. Large pools absorb bursts, and idle threads help \
         busy ones. Each packet is accounted for: delivered, filtered, or lost for a named cause.",
    );
    page.paragraph(
        "An interface that the host uses is captured beside it, as by tcpdump(8). An interface that the host does not use is taken \
         while the command runs: the host does not see its packets.",
    );
    page.section("COMMANDS");
    for command in commands(flags) {
        let term = bold(&format!("wirecap {}", command.get_name()));
        page.item(
            &term,
            &format!("{}. See wirecap-{}(1).", about(command).trim_end_matches('.'), command.get_name()),
        );
    }
    page.item(
        &format!("{} [{}]", bold("wirecap help"), italic("COMMAND")),
        "Show the manual page of the command if it is installed beside the program, else its long help.",
    );
    page.section("OPTIONS");
    page.item(
        &format!("{}, {}", bold("-h"), bold("--help")),
        "Print the commands; after a command, its flags.",
    );
    page.item(
        &format!("{}, {}", bold("-V"), bold("--version")),
        "Print the version. With `-v`, also the kernel, libpcap and the privileges: what a report of a defect needs.",
    );
    page.section("EXAMPLES");
    for (code, explanation) in examples::of_all() {
        page.paragraph(explanation);
        page.example(code);
    }
    add_list(&mut page, "EXIT STATUS", &list_of(flags, "Exit codes"));
    add_list(&mut page, "SIGNALS", &list_of(flags, "Signals"));
    json_output::add_messages(&mut page);
    page.section("PRIVILEGES");
    page.text(
        "Capturing needs root, or CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF, CAP_PERFMON and CAP_IPC_LOCK. The Debian package gives them to \
         members of the group wirecap on request: see wirecap-setcap(8). From then on, only root and these members can execute wirecap at \
         all. Reading trace files needs no capability, but the right to execute wirecap.",
    );
    page.section("SEE ALSO");
    let own: Vec<_> = commands(flags).map(|command| format!("wirecap-{}(1)", command.get_name())).collect();
    let others = ["wirecap-setcap(8)", "wirecap-libpcap(7)", "pcap-filter(7)", "tcpdump(8)"];
    page.raw(&references(own.iter().map(String::as_str).chain(others)));
    page.into_text()
}
