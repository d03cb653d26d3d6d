//! What can go wrong, and what to do about it.

use std::{io, path::PathBuf};

use wirecap_send::SendError;

/// Why a replay did not start, or did not get to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A trace cannot be read, or not to its end.
    #[error("{name}: {source}")]
    Trace {
        /// The file as it was given.
        name: String,
        /// What is wrong with it.
        source: wirecap_file::Error,
    },
    /// The packets of a trace begin with something that no Ethernet interface sends.
    #[error(
        "{name}: the packets of {interface} begin with link type {link_type}{}, and an interface sends Ethernet frames (1); {}",
        .known.map(|(name, _)| format!(" ({name})")).unwrap_or_default(),
        .known.map_or(CONVERT, |(_, hint)| hint)
    )]
    LinkType {
        /// The file as it was given.
        name: String,
        /// Which interface of the file, in words.
        interface: String,
        /// Its link type.
        link_type: u16,
        /// What it is called, and what can be done, where that is known.
        known: Option<(&'static str, &'static str)>,
    },
    /// A trace has packets of another link type behind others.
    #[error(
        "{name}: the packet at byte {offset} is of {interface}, whose link type is {link_type}, and an interface sends Ethernet \
         frames (1); everything before it was read; take the file apart: tshark -r FILE -Y 'frame.interface_id == 0' -w ONE"
    )]
    OtherLinkType {
        /// The file as it was given.
        name: String,
        /// Which interface of the file, in words.
        interface: String,
        /// Its link type.
        link_type: u16,
        /// Where in the file, in bytes.
        offset: u64,
    },
    /// Standard input, twice.
    #[error("standard input (-) can be read once only; name it once")]
    StdinTwice,
    /// More passes over what can be read once only.
    #[error(
        "{name} can be read once only, and for several passes its packets do not fit into {memory_mib} MiB; raise --memory, \
         or write it to a file first"
    )]
    OnePass {
        /// The pipe as it was given.
        name: String,
        /// Memory for cells, in MiB.
        memory_mib: u64,
    },
    /// Files had packets in one pass, and none in a later one.
    #[error("pass {0} found no packets: the files changed during replay; replay a copy")]
    Emptied(u64),
    /// The side file cannot be read.
    #[error("cannot read the side file {path:?}: {source}; it is a text file with one queue number a packet")]
    Side {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A line of the side file is no number of a queue.
    #[error(
        "{path:?}, line {line}: {text:?} is no queue number; write one number from 0 to 65535 a line, one for each packet"
    )]
    SideLine {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: u64,
        /// The text of the line.
        text: String,
    },
    /// The side file has fewer lines than there are packets.
    #[error(
        "{path:?} has queue numbers for {lines} packets, and there are more; everything before the next one was taken; write \
         one number for each packet"
    )]
    SideShort {
        /// The file.
        path: PathBuf,
        /// Numbers in it.
        lines: u64,
    },
    /// The side file has nothing.
    #[error("{0:?} has no queue numbers; write one a line, one for each packet")]
    SideEmpty(PathBuf),
    /// The interface cannot be found or asked.
    #[error(transparent)]
    Interface(#[from] wirecap_sys::netdev::Error),
    /// Packets are not sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The thread that reads ahead has panicked.
    #[error("the thread that reads ahead has panicked; this is a defect of wirecap")]
    Reader,
    /// A thread could not be started.
    #[error("cannot start the thread that reads ahead: {0}")]
    Thread(io::Error),
}

const CONVERT: &str = "convert the file, or capture it anew on an Ethernet interface";
const REWRITE: &str = "give them Ethernet headers: tcprewrite --dlt=enet --enet-smac=… --enet-dmac=… --infile=FILE --outfile=NEW";

/// What link types that are met are called, and what can be done.
pub(crate) fn known_link_type(link_type: u16) -> Option<(&'static str, &'static str)> {
    Some(match link_type {
        0 => ("BSD loopback", REWRITE),
        12 | 14 | 101 | 228 | 229 => ("raw IP, without an Ethernet header", REWRITE),
        113 => (
            "Linux cooked capture",
            "capture one interface by its name, not -i any; or tcprewrite --dlt=enet --enet-dmac=…",
        ),
        276 => ("Linux cooked capture v2", "capture one interface by its name, not -i any"),
        105 | 119 | 127 => ("802.11 radio frames", CONVERT),
        104 => ("Cisco HDLC", REWRITE),
        9 => ("PPP", CONVERT),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_type_is_named_with_what_can_be_done() {
        let message = |link_type| {
            let known = known_link_type(link_type);
            Error::LinkType { name: "x.pcap".into(), interface: "interface 0".into(), link_type, known }
                .to_string()
        };
        assert!(
            message(113).contains("link type 113 (Linux cooked capture)") && message(113).contains("-i any")
        );
        assert!(message(101).contains("tcprewrite --dlt=enet"));
        assert!(message(189).contains("link type 189,") && message(189).contains("convert the file"));
    }
}
