//! Which files of a series are older.
//!
//! ```text
//!   x_00007  x_00008  x_00009              numbers without an end: by number
//!   20261126-12.pcap  20261126-13.pcap     dates and times:        by time
//!   x_00001  x_00002                       a ring with free names: by number, it has not gone round yet
//!   x_00001  x_00002  x_00003              a full ring:            by the first packet of each file
//! ```
//!
//! Rule: what other programs change easily, the time of the last modification, decides only where nothing
//! else does: where names have times without a date, or files of a full ring have no packets or are
//! compressed.

use super::{
    earlier_file::{EarlierFile, first_packet_ns},
    names::Names,
};

/// Sorts files of a series, the oldest first.
pub(super) fn sort(files: &mut Vec<EarlierFile>, names: &Names) {
    if names.is_ordered_by_number() || names.ring().is_some_and(|ring| has_not_gone_round(files, ring)) {
        return files.sort_by_key(|file| (file.number, file.modified));
    }
    let is_sorted = sort_by(files, |file| names.time_in(&file.complete_name))
        || (names.ring().is_some() && sort_ring_by_packets(files));
    if !is_sorted {
        files.sort_by_key(|file| (file.modified, file.number));
    }
}

/// Sorts files by something that each of them has. Returns whether it has.
fn sort_by<K: Ord>(files: &mut Vec<EarlierFile>, key: impl Fn(&EarlierFile) -> Option<K>) -> bool {
    let Some(keys) = files.iter().map(&key).collect::<Option<Vec<K>>>() else { return false };
    let mut keyed: Vec<_> = keys.into_iter().zip(std::mem::take(files)).collect();
    keyed.sort_by(|(a, one), (b, other)| {
        a.cmp(b).then_with(|| (one.number, one.modified).cmp(&(other.number, other.modified)))
    });
    files.extend(keyed.into_iter().map(|(_, file)| file));
    true
}

/// Whether the files are the first ones of a ring, each there once, and the last one has never been written.
fn has_not_gone_round(files: &[EarlierFile], ring: u64) -> bool {
    let mut numbers: Vec<_> = files.iter().map(|file| file.number).collect();
    numbers.sort_unstable();
    let len = numbers.len() as u64;
    len < ring && numbers.into_iter().eq(1..=len)
}

/// Sorts the files of a ring by their packets. Returns whether that is an order in which a ring is written:
/// one number after the other, beginning anywhere.
fn sort_ring_by_packets(files: &mut Vec<EarlierFile>) -> bool {
    sort_by(files, |file| file.is_file.then(|| first_packet_ns(&file.path)).flatten()) && {
        let next = files.iter().cycle().skip(1);
        files.iter().zip(next).filter(|(file, next)| file.number > next.number).count() <= 1
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        time::{Duration, SystemTime},
    };

    use tempfile::TempDir;
    use wirecap_file::{PacketHeader, pcap};

    use super::*;
    use crate::{capture::series::earlier::EarlierFiles, settings::OutputSettings};

    /// Files of a series, each with the second of its packet, copied in this order.
    fn copied(template: &str, settings: &OutputSettings, files: &[(&str, Option<u64>)]) -> (TempDir, Names) {
        let directory = tempfile::tempdir().unwrap();
        for (age, (name, second)) in files.iter().enumerate() {
            let path = directory.path().join(name);
            let mut bytes = Vec::new();
            pcap::file_header(&mut bytes, 1, 0);
            if let Some(second) = second {
                let timestamp_ns = second * 1_000_000_000;
                let header = PacketHeader { original_len: 4, timestamp_ns, ..PacketHeader::default() };
                pcap::packet(&mut bytes, &header, 0, [&[0_u8; 4][..]]);
            }
            fs::write(&path, bytes).unwrap();
            let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(2_000_000_000 + age as u64);
            File::options().append(true).open(&path).unwrap().set_modified(modified).unwrap();
        }
        let names = Names::new(&directory.path().join(template), settings);
        (directory, names)
    }

    /// The names in order, and the number behind which the series goes on.
    fn found(names: &Names) -> (Vec<String>, u64) {
        let files = EarlierFiles::find(names).unwrap();
        let name = |file: &EarlierFile| file.path.file_name().unwrap().to_str().unwrap().to_owned();
        (files.0.iter().map(name).collect(), files.last_number(names))
    }

    fn ring(files: u64) -> OutputSettings {
        OutputSettings { rotate_size: Some(1), rotate_files: Some(files), ..OutputSettings::default() }
    }

    fn by_time() -> OutputSettings {
        OutputSettings { rotate_time: Some(Duration::from_secs(1)), ..OutputSettings::default() }
    }

    #[test]
    fn a_copied_ring_goes_on_behind_its_newest_packets() {
        // Copied in the order of the names; the ring had gone round to 2.
        let files = [
            ("x_00001.pcap", Some(50)),
            ("x_00002.pcap", Some(60)),
            ("x_00003.pcap", Some(30)),
            ("x_00004.pcap", Some(40)),
        ];
        let (_directory, names) = copied("x.pcap", &ring(4), &files);
        let expected = ["x_00003.pcap", "x_00004.pcap", "x_00001.pcap", "x_00002.pcap"];
        assert_eq!(found(&names), (expected.map(String::from).to_vec(), 2));
        // Killed while it replaced 3, and copied in the opposite order.
        let mut files = files.to_vec();
        files.push(("x_00003.pcap.partial", Some(70)));
        files.reverse();
        let (_directory, names) = copied("x.pcap", &ring(4), &files);
        assert_eq!(found(&names).1, 3);
    }

    #[test]
    fn a_ring_that_has_not_gone_round_is_in_the_order_of_its_numbers() {
        let files = [("x_00003.pcap", None), ("x_00001.pcap", None), ("x_00002.pcap", Some(1))];
        let (_directory, names) = copied("x.pcap", &ring(4), &files);
        assert_eq!(found(&names).0, ["x_00001.pcap", "x_00002.pcap", "x_00003.pcap"]);
    }

    #[test]
    fn a_full_ring_without_packets_is_in_the_order_of_its_modifications() {
        let files = [("x_00002.pcap", Some(9)), ("x_00003.pcap", None), ("x_00001.pcap", Some(2))];
        let (_directory, names) = copied("x.pcap", &ring(3), &files);
        assert_eq!(found(&names).0, files.map(|(name, _)| name));
        // Traces in an order of their own: no ring is written like this.
        let files = [4, 2, 3, 1]
            .map(|second| (format!("x_0000{second}.pcap"), Some([0, 1, 3, 2, 4][second as usize])));
        let files = files.each_ref().map(|(name, second)| (name.as_str(), *second));
        let (_directory, names) = copied("x.pcap", &ring(4), &files);
        assert_eq!(found(&names).0, files.map(|(name, _)| name));
    }

    #[test]
    fn dates_and_times_in_names_decide_and_times_alone_do_not() {
        let copied = |template, files: &[&str]| {
            let files: Vec<_> = files.iter().map(|name| (*name, None)).collect();
            let (_directory, names) = copied(template, &by_time(), &files);
            found(&names).0
        };
        let files = ["20261127_000000.pcap", "20261126_235900.pcap", "20261126_235900_00002.pcap"];
        assert_eq!(copied("%Y%m%d_%H%M%S.pcap", &files), [files[1], files[2], files[0]]);
        assert_eq!(copied("%s.pcap", &["1790000060.pcap", "1790000000.pcap"])[0], "1790000000.pcap");
        assert_eq!(copied("%Y-%j.pcap", &["2026-300.pcap", "2026-299.pcap"])[0], "2026-299.pcap");
        // After midnight.
        assert_eq!(copied("%H%M%S.pcap", &["235900.pcap", "000000.pcap"]), ["235900.pcap", "000000.pcap"]);
    }
}
