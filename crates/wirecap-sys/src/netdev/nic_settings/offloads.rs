//! Offloads, by the kernel's names for them: `rx-lro`, `rx-gro-hw`, `rx-vlan-hw-parse`.
//!
//! ```text
//!   ETHTOOL_GSSET_INFO ──► how many names     ETHTOOL_GSTRINGS ──► name of each bit
//!   ETHTOOL_GFEATURES  ──► 32 bits a block: available, requested, active, never changed
//! ```

use std::io;
use std::mem;

use serde::{Deserialize, Serialize};

#[cfg(doc)]
use super::super::Error;
use super::super::error::Result;
use super::super::ethtool::Request;
use super::{NicSettings, reading, setting};

// linux/ethtool.h; not in libc.
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
/// `ETH_SS_FEATURES`
const FEATURE_NAMES: u32 = 4;
const NAME_BYTES: usize = 32;
/// Most offloads that are read: four times as many as the 64 that the kernel has room for.
const MAX_OFFLOADS: usize = 256;
const MAX_BLOCKS: usize = MAX_OFFLOADS / 32;

/// `struct ethtool_sset_info` with room for one count.
#[repr(C)]
struct SetInfo {
    command: u32,
    reserved: u32,
    sets: u64,
    count: u32,
}
const _: () = assert!(mem::offset_of!(SetInfo, count) == 16);

/// `struct ethtool_gstrings` with room for `MAX_OFFLOADS` names.
#[repr(C)]
struct Names {
    command: u32,
    set: u32,
    count: u32,
    names: [[u8; NAME_BYTES]; MAX_OFFLOADS],
}
const _: () = assert!(mem::offset_of!(Names, names) == 12);

/// `struct ethtool_get_features_block`
#[repr(C)]
#[derive(Clone, Copy)]
struct Block {
    available: u32,
    requested: u32,
    active: u32,
    never_changed: u32,
}

/// `struct ethtool_gfeatures` with room for `MAX_BLOCKS` blocks.
#[repr(C)]
struct Features {
    command: u32,
    blocks: u32,
    features: [Block; MAX_BLOCKS],
}
const _: () = assert!(mem::offset_of!(Features, features) == 8);

/// `struct ethtool_sfeatures` with room for `MAX_BLOCKS` blocks of (valid, requested).
#[repr(C)]
struct Change {
    command: u32,
    blocks: u32,
    features: [[u32; 2]; MAX_BLOCKS],
}
const _: () = assert!(mem::offset_of!(Change, features) == 8);

// SAFETY: as the trait demands; the kernel copies 16 bytes and a count for each of the sets asked for: one.
unsafe impl Request for SetInfo {}
// SAFETY: as the trait demands; the kernel copies 12 bytes and as many names as the set has, which `names`
// has found to be at most `MAX_OFFLOADS`; it is the same number for as long as the kernel runs.
unsafe impl Request for Names {}
// SAFETY: as the trait demands; the kernel copies 8 bytes and at most as many blocks as `blocks` says, which
// is `MAX_BLOCKS`.
unsafe impl Request for Features {}
// SAFETY: as the trait demands; the kernel reads 8 bytes and as many blocks as `blocks` says, which is at
// most `MAX_BLOCKS`.
unsafe impl Request for Change {}

/// One offload of an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offload {
    /// The kernel's name.
    pub name: String,
    /// Whether it is on.
    pub active: bool,
    /// Whether it can be switched.
    pub changeable: bool,
}

impl NicSettings {
    /// All offloads that the kernel knows, in its order.
    ///
    /// # Errors
    /// [`Error::System`] if the interface is gone.
    pub fn offloads(&self, interface: &str) -> Result<Vec<Offload>> {
        let read = || {
            let names = self.names(interface)?;
            let mut request = Features::new(ETHTOOL_GFEATURES);
            request.blocks = MAX_BLOCKS as u32;
            self.ethtool.request(interface, &mut request)?;
            let offload = |(index, name): (usize, String)| {
                let (block, bit) = (&request.features[index / 32], 1 << (index % 32));
                let changeable = block.available & bit != 0 && block.never_changed & bit == 0;
                Offload { name, active: block.active & bit != 0, changeable }
            };
            Ok(names.into_iter().enumerate().filter(|(_, name)| !name.is_empty()).map(offload).collect())
        };
        read().map_err(|source| reading(interface, "offloads", source))
    }

    /// Switches one offload. The driver may refuse without an error: read it again.
    ///
    /// # Errors
    /// [`Error::NotPermitted`], or [`Error::System`] if the kernel does not know it or the driver refuses.
    pub fn set_offload(&self, interface: &str, name: &str, on: bool) -> Result<()> {
        let write = || {
            let names = self.names(interface)?;
            let index = names.iter().position(|known| known == name);
            let index = index.ok_or_else(|| io::Error::from_raw_os_error(libc::EOPNOTSUPP))?;
            let mut request = Change::new(ETHTOOL_SFEATURES);
            request.blocks = names.len().div_ceil(32) as u32;
            let bit = 1 << (index % 32);
            request.features[index / 32] = [bit, if on { bit } else { 0 }];
            self.ethtool.request(interface, &mut request)
        };
        write().map_err(|source| setting(interface, &format!("offload {name}"), source))
    }

    fn names(&self, interface: &str) -> io::Result<Vec<String>> {
        let mut info = SetInfo::new(ETHTOOL_GSSET_INFO);
        info.sets = 1 << FEATURE_NAMES;
        self.ethtool.request(interface, &mut info)?;
        let count = info.count as usize;
        if count > MAX_OFFLOADS {
            return Err(io::Error::other(format!(
                "this kernel knows {count} offloads, more than any before"
            )));
        }
        let mut request = Box::new(Names::new(ETHTOOL_GSTRINGS));
        (request.set, request.count) = (FEATURE_NAMES, info.count);
        self.ethtool.request(interface, &mut *request)?;
        let text = |bytes: &[u8; NAME_BYTES]| {
            let bytes = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(bytes).into_owned()
        };
        Ok(request.names[..count.min(request.count as usize)].iter().map(text).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_has_offloads_with_names() {
        let offloads = NicSettings::open().unwrap().offloads("lo").unwrap();
        let find = |name: &str| offloads.iter().find(|offload| offload.name == name).unwrap();
        assert!(find("loopback").active && !find("loopback").changeable, "it never changes");
        assert!(!find("rx-lro").active, "no driver to merge packets");
        assert!(find("rx-gro").changeable, "software does that");
    }

    #[test]
    fn an_offload_that_no_kernel_has_is_refused() {
        let error = NicSettings::open().unwrap().set_offload("lo", "rx-nonsense", true).unwrap_err();
        assert_eq!(error.errno(), Some(libc::EOPNOTSUPP), "{error}");
    }
}
