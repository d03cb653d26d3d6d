//! `wirecap extcap`: the engine as a source of packets for Wireshark and tshark, which run it.
//!
//! ```text
//!   Wireshark ── --extcap-interfaces, -dlts, -config ─► sentences on standard output
//!             ── --capture --fifo FILE ───────────────► packets into the pipe, until its reader ends
//! ```
//!
//! A link to the program in Wireshark's directory of such sources is enough: its calls are known by their
//! flags. doc/extcap.adoc of Wireshark describes them.

pub(crate) mod flags;
mod sentences;

use std::ffi::{OsStr, OsString};

use anyhow::Result;
use wirecap::HostView;
use wirecap_filter::{DEFAULT_SNAPLEN, Filter};
use wirecap_sys::netdev::{self, HardwareType};

use self::flags::{Action, ExtcapFlags};
use super::capture::settings::CaptureSettings;
use crate::{
    capture::{self, job::Job, known_interfaces::KnownInterfaces, plan::Plan, written_files::FilesProgress},
    exit::Exit,
    print::stdio::print_stdout,
    process::{sandbox, signals::Signals},
    settings::OutputSettings,
    values::ports,
};

/// In front of the name of an interface, which Wireshark lists by itself as well.
const PREFIX: &str = "wirecap-";

/// The arguments of a call by Wireshark with the name of the command added.
pub(crate) fn with_command(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let begins = |argument: &OsString, with: &str| argument.as_encoded_bytes().starts_with(with.as_bytes());
    let is_call = arguments.get(1).is_some_and(|first| begins(first, "--"))
        && arguments.iter().any(|argument| begins(argument, "--extcap-"));
    if is_call {
        arguments.insert(1, "extcap".into());
    }
    arguments
}

/// Answers a call.
///
/// # Errors
/// [`Usage`](crate::exit::Usage), or whatever keeps a capture from starting.
pub(crate) fn run(flags: ExtcapFlags, signals: Signals) -> Result<Exit> {
    let print = |sentences: &[String]| print_stdout("the answer", &sentences.concat()).map(|()| Exit::Fine);
    match flags.action()? {
        Action::Interfaces => print(&interfaces()?),
        Action::LinkTypes => print(&[sentences::link_type()]),
        Action::Settings => print(&sentences::settings()),
        Action::Check(filter) => {
            // Wireshark takes any output for a fault of the filter.
            let wrong = Filter::compile(filter, ETHERNET, DEFAULT_SNAPLEN).err();
            print(&wrong.map(|error| format!("{error}\n")).into_iter().collect::<Vec<_>>())
        }
        Action::Capture { interface, pipe } => capture(&flags, interface, pipe, signals),
    }
}

/// The data link type of Ethernet.
const ETHERNET: u16 = 1;

/// The interfaces that the engine captures better than libpcap.
fn interfaces() -> Result<Vec<String>> {
    let host = HostView::read()?;
    let mut sentences = vec![sentences::program()];
    for interface in netdev::interfaces()? {
        // Others have link types of their own, or are captured by libpcap as well.
        let choice =
            host.choose_for(&interface).ok().filter(|_| interface.hardware_type == HardwareType::ETHERNET);
        if let Some(choice) = choice {
            let name = &interface.name;
            sentences.push(sentences::interface(&format!("{PREFIX}{name}"), name, choice.access));
        }
    }
    Ok(sentences)
}

fn capture(flags: &ExtcapFlags, interface: &str, pipe: &OsStr, signals: Signals) -> Result<Exit> {
    let interface = interface.strip_prefix(PREFIX).ok_or_else(|| {
        usage!("there is no interface {interface}; wirecap extcap --extcap-interfaces lists them")
    })?;
    let name = if flags.take { format!("xdp:{interface}") } else { interface.into() };
    let mut settings = CaptureSettings::default();
    let CaptureSettings { capture, output, .. } = &mut settings;
    capture.ports = ports(&[name])?;
    capture.filter = flags.filter.clone();
    flags.apply(capture)?;
    *output = OutputSettings {
        write: Some(pipe.into()),
        snaplen: flags.snaplen,
        // What is printed, Wireshark shows as an error.
        quiet: true,
        ..OutputSettings::default()
    };
    capture.stamp_packets |= output.keeps_times();
    let CaptureSettings { capture: config, output, process, .. } = settings;
    let sandbox = sandbox::open(&process, output.quiet)?;
    let plan = Plan::new(config, output, KnownInterfaces::default(), sandbox)?;
    capture::run(plan, ExtcapJob, signals)
}

/// A capture that ends when the reader of its pipe does.
#[derive(Debug)]
struct ExtcapJob;

impl Job for ExtcapJob {
    const COMMAND: &'static str = "extcap";
    const READER_ENDS_IT: bool = true;
    type BatchHandler = ();

    fn begin(
        &mut self,
        _: &mut wirecap::Capture,
        workers: usize,
        _: Option<FilesProgress>,
    ) -> Result<Vec<()>> {
        Ok(vec![(); workers])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_wireshark_are_known_by_their_flags() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        for (given, expected) in [
            (
                "w --extcap-interfaces --extcap-version=4.0",
                "w extcap --extcap-interfaces --extcap-version=4.0",
            ),
            ("w --capture --extcap-interface x --fifo f", "w extcap --capture --extcap-interface x --fifo f"),
            ("w extcap --extcap-interfaces", "w extcap --extcap-interfaces"),
            ("w capture eth1 --fifo", "w capture eth1 --fifo"),
            ("w --version", "w --version"),
            ("w", "w"),
        ] {
            assert_eq!(with_command(words(given)), words(expected));
        }
    }
}
