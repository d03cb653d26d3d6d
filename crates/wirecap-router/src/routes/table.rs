//! From an address to the most specific prefix it is in.
//!
//! ```text
//!   prefixes          ├────────── /8 ──────────┤
//!                          ├ /24 ┤
//!   intervals    none ├ /8 ┼ /24 ┼──── /8 ─────┼ none …
//!   starts       0    10.0…  10.7…  10.7…       11.0…        sorted; routes beside them
//!   slots        by the first 16 bits of the address, then by 8 more: how many start in the slot, and which is before them
//! ```
//!
//! Prefixes lie within each other or apart, so that they cut the addresses into intervals, at most two for
//! each. A look-up takes the slot of the address, and there a binary search among few, next to each other in
//! memory. Where more than [`FEW`] start in a slot, it has slots of its own. The table is made once and not
//! changed.

use std::ops::Range;

/// Bits of an address that choose the slot, first of all.
const ROOT_BITS: u32 = 16;

/// Bits that choose among the slots of a slot.
const SLOT_BITS: u32 = 8;

/// Intervals that are searched through.
const FEW: usize = 16;

/// The bits of an address of IPv4 or IPv6, as a number.
pub(super) trait Bits: Copy + Ord {
    /// How many there are.
    const BITS: u32;

    /// All zeros.
    const MIN: Self;

    /// The `count` bits before the last `behind`.
    fn bits(self, behind: u32, count: u32) -> usize;

    /// The next address; `None` after the greatest.
    fn next(self) -> Option<Self>;
}

/// Numbers as wide as an address.
macro_rules! bits {
    ($($address:ty),+) => {$(
        impl Bits for $address {
            const BITS: u32 = Self::BITS;
            const MIN: Self = 0;

            fn bits(self, behind: u32, count: u32) -> usize {
                (self >> behind) as usize & ((1 << count) - 1)
            }

            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }
        }
    )+};
}

bits!(u32, u128);

/// A prefix with its route.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<A> {
    /// Its first address.
    pub first: A,
    /// Its last address.
    pub last: A,
    /// Index of its route; `None` for one that has none, whatever is around it.
    pub route: Option<u32>,
}

/// Stands for no route.
const NONE: u32 = u32::MAX;

/// Routes by intervals of addresses.
///
/// INVARIANT: `starts` begins with the least address, increases, and is as long as `routes`. Slots of a slot
/// stand behind it.
#[derive(Clone, Debug)]
pub(super) struct Table<A> {
    starts: Vec<A>,
    /// Index of the route of each interval, or [`NONE`].
    routes: Vec<u32>,
    slots: Vec<Slot>,
}

/// Addresses that begin with the same bits.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The interval before those that start here; with [`SLOTS`], index of the first of its slots.
    first: u32,
    /// How many start here, or [`SLOTS`].
    count: u32,
}

/// Stands for a slot that has slots of its own.
const SLOTS: u32 = u32::MAX;

impl<A: Bits> Table<A> {
    /// The table of prefixes, no two of which are the same.
    pub(super) fn new(mut entries: Vec<Entry<A>>) -> Self {
        // Each before those within it.
        entries.sort_by(|one, other| one.first.cmp(&other.first).then(other.last.cmp(&one.last)));
        let mut table = Self { starts: vec![A::MIN], routes: vec![NONE], slots: Vec::new() };
        let mut around: Vec<Entry<A>> = Vec::new();
        for entry in entries {
            table.leave(&mut around, Some(entry.first));
            table.begin(entry.first, entry.route);
            around.push(entry);
        }
        table.leave(&mut around, None);
        table.divide(0..table.starts.len(), A::BITS, ROOT_BITS);
        table
    }

    /// Index of the route to an address.
    pub(super) fn look_up(&self, address: A) -> Option<u32> {
        let mut behind = A::BITS - ROOT_BITS;
        let mut slot = self.slots.get(address.bits(behind, ROOT_BITS))?;
        while slot.count == SLOTS {
            behind = behind.checked_sub(SLOT_BITS)?;
            slot = self.slots.get(slot.first as usize + address.bits(behind, SLOT_BITS))?;
        }
        let first = slot.first as usize;
        let starts = self.starts.get(first + 1..first + 1 + slot.count as usize)?;
        let route = *self.routes.get(first + starts.partition_point(|start| *start <= address))?;
        (route != NONE).then_some(route)
    }

    /// Ends the prefixes that end before an address; all of them, without one.
    fn leave(&mut self, around: &mut Vec<Entry<A>>, before: Option<A>) {
        while let Some(&inner) = around.last() {
            if before.is_some_and(|before| before <= inner.last) {
                return;
            }
            around.pop();
            if let Some(next) = inner.last.next() {
                self.begin(next, around.last().and_then(|entry| entry.route));
            }
        }
    }

    /// An interval begins.
    fn begin(&mut self, start: A, route: Option<u32>) {
        let route = route.unwrap_or(NONE);
        if self.starts.last() == Some(&start) {
            // The one before is empty.
            self.starts.pop();
            self.routes.pop();
        }
        if self.routes.last() != Some(&route) {
            self.starts.push(start);
            self.routes.push(route);
        }
    }

    /// Makes slots for the intervals that start in a slot of which `behind` bits are not decided, by the
    /// first `count` of those bits. Gives back the index of the first one.
    fn divide(&mut self, intervals: Range<usize>, behind: u32, count: u32) -> usize {
        let slots = self.slots.len();
        self.slots.resize(slots + (1 << count), Slot { first: 0, count: 0 });
        let behind = behind - count;
        let mut start = intervals.start;
        for slot in 0..1 << count {
            let rest = &self.starts[start..intervals.end];
            let end = start + rest.partition_point(|start| start.bits(behind, count) <= slot);
            self.slots[slots + slot] = self.slot(start..end, behind);
            start = end;
        }
        slots
    }

    fn slot(&mut self, intervals: Range<usize>, behind: u32) -> Slot {
        if intervals.len() > FEW {
            return Slot { first: self.divide(intervals, behind, SLOT_BITS) as u32, count: SLOTS };
        }
        // The very first has none before it, and is in force from where it starts.
        let first = intervals.start.max(1) - 1;
        Slot { first: first as u32, count: (intervals.end - first - 1) as u32 }
    }
}
