//! The RSS table: which receive queue each hash value leads to.

use std::io;

#[cfg(doc)]
use super::super::Error;
use super::super::error::Result;
use super::super::ethtool::Request;
use super::{NicSettings, reading, setting};

// linux/ethtool.h; not in libc.
const ETHTOOL_GRXFHINDIR: u32 = 0x38;
const ETHTOOL_SRXFHINDIR: u32 = 0x39;
/// Most entries that are read; the largest known tables have 2,048.
const MAX_ENTRIES: usize = 8192;

/// `struct ethtool_rxfh_indir` with room for `MAX_ENTRIES` entries.
#[repr(C)]
struct Table {
    command: u32,
    entries: u32,
    queues: [u32; MAX_ENTRIES],
}

// SAFETY: as the trait demands; the kernel copies 8 bytes, and as many entries as the table has only if
// `entries` is not less, which `indirection` and `set_indirection` let be at most `MAX_ENTRIES`.
unsafe impl Request for Table {}

impl NicSettings {
    /// The table: the receive queue of each hash value.
    ///
    /// # Errors
    /// [`Error::System`] if the driver has none.
    pub fn indirection(&self, interface: &str) -> Result<Vec<u32>> {
        let read = || {
            // The first answer has the number of entries, which the second question has to repeat.
            let mut table = Box::new(Table::new(ETHTOOL_GRXFHINDIR));
            self.ethtool.request(interface, &mut *table)?;
            let entries = table.entries as usize;
            if entries > MAX_ENTRIES {
                return Err(io::Error::other(format!(
                    "its table of {entries} entries is longer than any known"
                )));
            }
            let mut table = Box::new(Table::new(ETHTOOL_GRXFHINDIR));
            table.entries = entries as u32;
            if entries > 0 {
                self.ethtool.request(interface, &mut *table)?;
            }
            Ok(table.queues[..entries].to_vec())
        };
        read().map_err(|source| reading(interface, "RSS table", source))
    }

    /// Sets the table, which must have as many entries as before.
    ///
    /// # Errors
    /// [`Error::NotPermitted`], or [`Error::System`] if the driver refuses.
    pub fn set_indirection(&self, interface: &str, queues: &[u32]) -> Result<()> {
        let write = || {
            let mut table = Box::new(Table::new(ETHTOOL_SRXFHINDIR));
            // None at all would mean the driver's default.
            let room = table.queues.get_mut(..queues.len()).filter(|room| !room.is_empty());
            room.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?.copy_from_slice(queues);
            table.entries = queues.len() as u32;
            self.ethtool.request(interface, &mut *table)
        };
        write().map_err(|source| setting(interface, "RSS table", source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_no_or_too_many_entries_is_refused() {
        let settings = NicSettings::open().unwrap();
        for entries in [0, MAX_ENTRIES + 1] {
            let error = settings.set_indirection("lo", &vec![0; entries]).unwrap_err();
            assert_eq!(error.errno(), Some(libc::EINVAL), "{entries}: {error}");
        }
        assert!(settings.indirection("lo").is_err(), "it has no RSS");
    }
}
