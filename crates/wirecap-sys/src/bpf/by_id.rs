//! Objects of other processes, found by their numbers.
//!
//! ```text
//!   id of an attached program ──► numbers of its maps ──► the one of the name and kind we look for ──► SharedMap
//! ```
//!
//! All of it needs CAP_SYS_ADMIN: numbers are the same in all containers of a machine.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;

use super::attr::{Command, MapInfo, ProgInfo};
use super::error::Error;
use super::link::holders;
use super::map::{Map, MapKind};
use super::program::Program;
use super::syscall::{address_mut, if_there, object_info, open_by_id, text};
use crate::process::Process;

/// Most maps of a program that are looked at.
const MAX_MAPS: usize = 64;

/// A map that another process has made; held by us, too.
#[derive(Debug)]
pub struct SharedMap {
    /// The map.
    pub map: Map,
    /// Entries it has.
    pub max_entries: u32,
}

/// The program array called `name` that the program `prog_id` uses. `None` if it uses none of that name, or
/// if the program is gone.
///
/// # Errors
/// [`Error::NotPermitted`] without CAP_SYS_ADMIN, [`Error::Call`].
pub fn shared_map(prog_id: u32, name: &str) -> Result<Option<SharedMap>, Error> {
    let failed = |cause| Error::call(format!("look up the maps of the BPF program with id {prog_id}"), cause);
    // The program, or its map, may have gone away since its number was learned.
    let found = if_there(map_ids(prog_id).and_then(|ids| first_of(&ids, name)));
    found.map(Option::flatten).map_err(failed)
}

/// The processes that hold the program `prog_id`, as [`link_holders`](super::link_holders) does for links.
pub fn program_holders(prog_id: u32) -> Vec<Process> {
    holders_of_programs(&[prog_id]).remove(&prog_id).unwrap_or_default()
}

/// For each of these programs the processes that hold it, if there are any; at the price of one
/// [`program_holders`].
pub fn holders_of_programs(prog_ids: &[u32]) -> BTreeMap<u32, Vec<Process>> {
    // A link's fdinfo has the number of its program as well.
    holders("prog_id:", prog_ids)
}

fn first_of(ids: &[u32], name: &str) -> io::Result<Option<SharedMap>> {
    for &id in ids {
        // SAFETY: the command goes from a number to a descriptor.
        let fd = unsafe { open_by_id(Command::MapGetFdById, id) }?;
        // SAFETY: there are no addresses in it.
        let info = unsafe { object_info(fd.as_fd(), MapInfo::default()) }?;
        if info.map_type == MapKind::ProgArray as u32 && text(&info.name) == name {
            let map = Map::from_program_array(fd, name.into());
            return Ok(Some(SharedMap { map, max_entries: info.max_entries }));
        }
    }
    Ok(None)
}

fn map_ids(prog_id: u32) -> io::Result<Vec<u32>> {
    let program = Program::open_by_id(prog_id)?;
    let mut ids = [0; MAX_MAPS];
    let info =
        ProgInfo { nr_map_ids: MAX_MAPS as u32, map_ids: address_mut(&mut ids), ..ProgInfo::default() };
    // SAFETY: the one address in it is that of `ids`, which is live, ours alone and as long as it says.
    let ProgInfo { nr_map_ids, .. } = unsafe { object_info(program.as_fd(), info) }?;
    Ok(ids.into_iter().take(nr_map_ids as usize).collect())
}
