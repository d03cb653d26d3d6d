//! Maps of programs.

use wirecap_sys::bpf::{self, Map, MapKind, MapSpec};

/// A map whose keys are the numbers from 0 on.
pub(crate) fn array(kind: MapKind, value_size: u32, max_entries: u32, name: &str) -> Result<Map, bpf::Error> {
    Map::create(&MapSpec { kind, key_size: 4, value_size, max_entries, name })
}
