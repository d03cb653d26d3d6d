//! Errors of a replay, with their remedies.

use std::{io, path::PathBuf};

use wirecap_send::SendError;

/// Why a replay did not start, or did not reach its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A trace cannot be read, or not to its end.
    #[error("{name}: {source}")]
    Trace {
        /// The file, as given.
        name: String,
        /// The error.
        source: wirecap_file::Error,
    },
    /// The packets of a trace are not Ethernet frames.
    #[error(
        "{name}: the packets of {interface} begin with link type {link_type}{}, and an interface sends Ethernet frames (1); {}",
        .known.map(|(name, _)| format!(" ({name})")).unwrap_or_default(),
        .known.map_or(CONVERT, |(_, hint)| hint)
    )]
    LinkType {
        /// The file, as given.
        name: String,
        /// The interface of the file, as text.
        interface: String,
        /// Its link type.
        link_type: u16,
        /// Its name, and the remedy, if known.
        known: Option<(&'static str, &'static str)>,
    },
    /// A trace has packets of another link type after Ethernet frames.
    #[error(
        "{name}: the packet at byte {offset} is of {interface}, whose link type is {link_type}, and an interface sends Ethernet \
         frames (1); everything before it was read; split the file: tshark -r FILE -Y 'frame.interface_id == 0' -w ONE"
    )]
    OtherLinkType {
        /// The file, as given.
        name: String,
        /// The interface of the file, as text.
        interface: String,
        /// Its link type.
        link_type: u16,
        /// Offset in the file, in bytes.
        offset: u64,
    },
    /// Standard input is given twice.
    #[error("standard input (-) can be read only once; name it once")]
    StdinTwice,
    /// Several passes over input that can be read only once.
    #[error(
        "{name} can be read only once, and its packets do not fit into {memory_mib} MiB for several passes"
    )]
    OnePass {
        /// The pipe, as given.
        name: String,
        /// Memory for cells, in MiB.
        memory_mib: u64,
    },
    /// Files had packets in one pass, and none in a later one.
    #[error("pass {0} found no packets: the files changed during replay; replay a copy")]
    Emptied(u64),
    /// The side file cannot be read.
    #[error(
        "cannot read the side file {path:?}: {source}; it must be a text file with one queue number per packet"
    )]
    Side {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A line of the side file is not a queue number.
    #[error(
        "{path:?}, line {line}: {text:?} is not a queue number; write one number from 0 to 65535 per line, one line per packet"
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
        "{path:?} has queue numbers for {lines} packets, but there are more; the packets before that were sent; write one \
         number for each packet"
    )]
    SideShort {
        /// The file.
        path: PathBuf,
        /// Numbers in it.
        lines: u64,
    },
    /// The side file is empty.
    #[error("{0:?} has no queue numbers; write one per line, one for each packet")]
    SideEmpty(PathBuf),
    /// The interface cannot be found or queried.
    #[error(transparent)]
    Interface(#[from] wirecap_sys::netdev::Error),
    /// Packets cannot be sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The thread that reads ahead panicked.
    #[error("the thread that reads ahead panicked; this is a defect of wirecap")]
    Reader,
    /// A thread could not be started.
    #[error("cannot start the thread that reads ahead: {0}")]
    Thread(io::Error),
}

const CONVERT: &str = "convert the file, or capture again on an Ethernet interface";
const REWRITE: &str = "give them Ethernet headers: tcprewrite --dlt=enet --enet-smac=… --enet-dmac=… --infile=FILE --outfile=NEW";

/// Name and remedy of known link types.
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
    fn an_unsupported_link_type_comes_with_a_remedy() {
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
