//! Parts of groups of records: as many as fit into a file.

use std::ops::Range;

use super::{
    alignment::Part,
    records::{Entry, Position, Records, Room},
};

/// Some records of a group.
#[derive(Debug, Clone)]
pub(crate) struct Piece<'g> {
    pub(crate) records: &'g Records,
    pub(crate) run: Range<Position>,
}

impl<'g> Piece<'g> {
    pub(crate) fn whole(records: &'g Records) -> Self {
        Self { records, run: Position::default()..records.end() }
    }

    pub(crate) fn bytes(&self) -> &'g [u8] {
        &self.records.bytes()[self.run.start.bytes..self.run.end.bytes]
    }

    pub(crate) fn part(&self) -> Part<'g> {
        Part { bytes: self.bytes(), is_in_place: self.records.in_place.is_some() }
    }

    pub(crate) fn entries(&self) -> &'g [Entry] {
        &self.records.entries[self.run.start.entries..self.run.end.entries]
    }

    pub(crate) fn first_ns(&self) -> Option<u64> {
        self.entries().first().map(|entry| entry.time_ns)
    }

    pub(crate) fn first_len(&self) -> Option<u64> {
        self.entries().first().map(|entry| entry.len.into())
    }
}

/// Takes the first pieces away, as many records as fit. The first of those left in `pieces` does not fit.
pub(crate) fn split<'g>(pieces: &mut Vec<Piece<'g>>, mut room: Room) -> Vec<Piece<'g>> {
    let mut taken = Vec::new();
    let mut rest = std::mem::take(pieces).into_iter();
    for mut piece in rest.by_ref() {
        let Range { start, end } = piece.run;
        let full = piece.records.run_within(start, room);
        room.packets -= (full.entries - start.entries) as u64;
        room.bytes = room.bytes.saturating_sub((full.bytes - start.bytes) as u64);
        if let Some(last) = piece.records.entries[start.entries..full.entries].last() {
            room.follows_early = room.is_early(last.time_ns);
        }
        if full == end {
            taken.push(piece);
            continue;
        }
        taken.push(Piece { records: piece.records, run: start..full });
        piece.run.start = full;
        pieces.push(piece);
        break;
    }
    pieces.extend(rest);
    taken
}

/// Cuts a group to its first packets.
pub(crate) fn cut(group: &mut [Records], mut packets: u64) {
    for records in group {
        if records.packets() > packets {
            records.truncate(records.prefix(packets, usize::MAX));
        }
        packets -= records.packets();
    }
}
