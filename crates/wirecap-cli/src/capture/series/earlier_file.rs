//! A file that an earlier run of a series left.

use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use wirecap_file::{Reader, Record};
use wirecap_record::complete_name;

use super::names::Names;

/// A file without packets has only a description and an account, which are shorter than this.
const LONGEST_WITHOUT_PACKETS: u64 = 1 << 16;

/// A file of an earlier run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EarlierFile {
    pub(super) path: PathBuf,
    /// Its name, or for a partial file the name it would have got.
    pub(super) complete_name: PathBuf,
    pub(super) number: u64,
    pub(super) modified: SystemTime,
    /// Whether it is a regular file. Anything else only occupies its name.
    pub(super) is_file: bool,
}

impl EarlierFile {
    pub(super) fn is_complete(&self) -> bool {
        self.path == self.complete_name
    }

    /// Whether it is a complete file without a packet.
    pub(super) fn is_without_packets(&self) -> bool {
        let is_short = self.path.metadata().is_ok_and(|file| file.len() <= LONGEST_WITHOUT_PACKETS);
        let has_none = || {
            let mut reader = Reader::open(&self.path)?;
            while let Some(record) = reader.next()? {
                if matches!(record, Record::Packet(_)) {
                    return Ok(false);
                }
            }
            Ok::<_, wirecap_file::Error>(true)
        };
        self.is_complete() && self.is_file && is_short && has_none().unwrap_or(false)
    }
}

/// The time of the first packet of a file; `None` of one without packets, or that cannot be read.
pub(super) fn first_packet_ns(path: &Path) -> Option<u64> {
    let mut reader = Reader::open(path).ok()?;
    loop {
        if let Record::Packet(packet) = reader.next().ok()?? {
            return packet.timestamp_ns;
        }
    }
}

/// The file at this path, if its name is one of the series.
pub(super) fn earlier_file(names: &Names, path: PathBuf) -> Option<EarlierFile> {
    let complete_name = complete_name(&path).unwrap_or_else(|| path.clone());
    let number = names.number_in(&complete_name)?;
    let metadata = fs::symlink_metadata(&path).ok()?;
    let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    Some(EarlierFile { path, complete_name, number, modified, is_file: metadata.is_file() })
}
