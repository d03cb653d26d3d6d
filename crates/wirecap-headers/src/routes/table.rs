//! From an address to the most specific prefix it is in.
//!
//! ```text
//!   prefixes          ├────────── /8 ──────────┤
//!                          ├ /24 ┤
//!   intervals    none ├ /8 ┼ /24 ┼──── /8 ─────┼ none …
//!   starts       0    10.0…  10.7…  10.7…       11.0…        sorted; routes beside them
//!   buckets      for each value of the first 16 bits, the last interval that starts before all addresses with it
//! ```
//!
//! Prefixes lie within each other or apart, so that they cut the addresses into intervals, at most two for each. A look-up
//! is a binary search among those that start in one bucket: for most addresses a few, next to each other in memory.
//! The table is made once and not changed.

/// Bits of an address that choose the bucket.
const BUCKET_BITS: u32 = 16;

/// The bits of an address of IPv4 or IPv6, as a number.
pub(super) trait Bits: Copy + Ord {
    /// All zeros.
    const MIN: Self;

    /// The first [`BUCKET_BITS`].
    fn bucket(self) -> usize;

    /// The next address; `None` after the greatest.
    fn next(self) -> Option<Self>;
}

impl Bits for u32 {
    const MIN: Self = 0;

    fn bucket(self) -> usize {
        (self >> (Self::BITS - BUCKET_BITS)) as usize
    }

    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
}

impl Bits for u128 {
    const MIN: Self = 0;

    fn bucket(self) -> usize {
        (self >> (Self::BITS - BUCKET_BITS)) as usize
    }

    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
}

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
/// INVARIANT: `starts` begins with the least address, increases, and is as long as `routes`; `buckets` has one more than there are,
/// increases, and its last is the last interval.
#[derive(Clone, Debug)]
pub(super) struct Table<A> {
    starts: Vec<A>,
    /// Index of the route of each interval, or [`NONE`].
    routes: Vec<u32>,
    buckets: Vec<u32>,
}

impl<A: Bits> Table<A> {
    /// The table of prefixes, no two of which are the same.
    pub(super) fn new(mut entries: Vec<Entry<A>>) -> Self {
        // Each before those within it.
        entries.sort_by(|one, other| one.first.cmp(&other.first).then(other.last.cmp(&one.last)));
        let mut table = Self { starts: vec![A::MIN], routes: vec![NONE], buckets: Vec::new() };
        let mut around: Vec<Entry<A>> = Vec::new();
        for entry in entries {
            table.leave(&mut around, Some(entry.first));
            table.begin(entry.first, entry.route);
            around.push(entry);
        }
        table.leave(&mut around, None);
        table.fill_buckets();
        table
    }

    /// Index of the route to an address.
    pub(super) fn look_up(&self, address: A) -> Option<u32> {
        let bucket = address.bucket();
        let first = *self.buckets.get(bucket)? as usize;
        let last = *self.buckets.get(bucket + 1)? as usize;
        // The first starts before the bucket; in the first bucket, with it.
        let behind = self.starts.get(first + 1..=last)?;
        let route = *self.routes.get(first + behind.partition_point(|start| *start <= address))?;
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

    fn fill_buckets(&mut self) {
        let mut last = 0;
        for bucket in 0..1usize << BUCKET_BITS {
            // Up to the one that starts with the bucket or before.
            while self.starts.get(last + 1).is_some_and(|start| start.bucket() < bucket) {
                last += 1;
            }
            self.buckets.push(last as u32);
        }
        self.buckets.push(self.starts.len() as u32 - 1);
    }
}
