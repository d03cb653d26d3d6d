//! Bounds on the arrival times of packets without their own timestamp: each came between two looks at its
//! ring.
//!
//! ```text
//!   the ring        ██████ 6                  ██████████ 10               10: nothing new
//!   the reader      └ look A ┘                └ look B ┘                  └ look C ┘
//!                   ▲                                  ▲
//!                   since                              seen      cells 6 to 9: look A did not see them, look B did
//! ```
//!
//! Rule: the reader reads the clock before each look at the ring, and again after it. So a cell that a look
//! sees for the first time came after the previous look began and before this one ended, wherever the reader
//! stalled.
//!
//! A look is remembered until its cells are taken. When there is no room for another one, pairs of looks are
//! merged: their windows stay true and become wider.

use std::{collections::VecDeque, ops::Range};

/// Number of looks that are remembered.
const ROOM: usize = 64;

/// The looks at one ring. `T` is a moment.
#[derive(Debug)]
pub struct Arrivals<T> {
    /// Oldest first. INVARIANT: `end` and the moments increase; each look saw cells that the one before had
    /// not seen.
    looks: VecDeque<Look<T>>,
    /// When the last look began, or the ring was opened: cells that no look has seen came later.
    since: T,
}

/// What one look saw for the first time.
#[derive(Debug, Clone, Copy)]
struct Look<T> {
    /// Number of the first cell behind those that were seen.
    end: u64,
    window: Window<T>,
}

/// Some cells came between these two moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window<T> {
    /// None of them was in the ring yet.
    pub since: T,
    /// All of them were in the ring.
    pub seen: T,
}

impl<T: Copy> Arrivals<T> {
    /// For a ring that was empty at `opened`. Allocates everything it will ever need.
    pub fn new(opened: T) -> Self {
        Self { looks: VecDeque::with_capacity(ROOM), since: opened }
    }

    /// Notes a look that began at `before` and found `cells`: from the oldest that was not taken to the
    /// newest, by their numbers in the ring. Asks `after` for the time if the look found new ones.
    pub fn looked(&mut self, before: T, cells: Range<u64>, after: impl FnOnce() -> T) {
        while self.looks.front().is_some_and(|oldest| oldest.end <= cells.start) {
            self.looks.pop_front();
        }
        let known = self.looks.back().map_or(cells.start, |newest| newest.end);
        if cells.end > known {
            if self.looks.len() == ROOM {
                self.thin_out();
            }
            let window = Window { since: self.since, seen: after() };
            self.looks.push_back(Look { end: cells.end, window });
        }
        self.since = before;
    }

    /// Merges pairs of looks.
    fn thin_out(&mut self) {
        for pair in 0..ROOM / 2 {
            let (first, second) = (self.looks[2 * pair], self.looks[2 * pair + 1]);
            let window = Window { since: first.window.since, seen: second.window.seen };
            self.looks[pair] = Look { end: second.end, window };
        }
        self.looks.truncate(ROOM / 2);
    }

    /// When the oldest cells came that waited at the last look.
    pub fn oldest(&self) -> Option<Window<T>> {
        self.looks.front().map(|look| look.window)
    }

    /// When these cells came. `None` if there are none, or a look has not seen all of them.
    pub fn window(&self, cells: Range<u64>) -> Option<Window<T>> {
        if cells.is_empty() {
            return None;
        }
        let of = |cell: u64| self.looks.get(self.looks.partition_point(|look| look.end <= cell));
        let (first, last) = (of(cells.start)?, of(cells.end - 1)?);
        Some(Window { since: first.window.since, seen: last.window.seen })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_cell_came_between_the_look_that_missed_it_and_the_one_that_saw_it() {
        let mut arrivals = Arrivals::new(100);
        assert_eq!(arrivals.window(0..1), None, "before the first look");
        arrivals.looked(200, 0..0, || unreachable!("the ring was empty"));
        assert_eq!(arrivals.oldest(), None);
        arrivals.looked(300, 0..6, || 301);
        assert_eq!(arrivals.window(0..6), Some(Window { since: 200, seen: 301 }));
        arrivals.looked(400, 2..10, || 401);
        arrivals.looked(500, 4..10, || unreachable!("all cells were seen before"));
        assert_eq!(arrivals.oldest(), Some(Window { since: 200, seen: 301 }));
        assert_eq!(
            arrivals.window(4..6),
            Some(Window { since: 200, seen: 301 }),
            "however long the cells wait"
        );
        assert_eq!(arrivals.window(6..10), Some(Window { since: 300, seen: 401 }));
        assert_eq!(arrivals.window(4..10), Some(Window { since: 200, seen: 401 }), "cells of both looks");
        assert_eq!(arrivals.window(9..11), None, "the last cell was not seen");
        // All cells are taken; any cell that comes now came after the last look.
        arrivals.looked(600, 10..11, || 601);
        assert_eq!(arrivals.window(10..11), Some(Window { since: 500, seen: 601 }));
        assert_eq!(arrivals.window(10..10), None);
    }

    #[test]
    fn without_room_the_windows_of_two_looks_become_one() {
        let mut arrivals = Arrivals::new(0);
        let looks = ROOM as u64 + 1;
        for look in 1..=looks {
            arrivals.looked(10 * look, 0..look, || 10 * look + 1);
        }
        // Each look but the last, which found no room, saw one cell.
        for cell in 0..looks - 1 {
            let first = 10 * (cell - cell % 2);
            let window = Window { since: first, seen: first + 21 };
            assert_eq!(arrivals.window(cell..cell + 1), Some(window), "{cell}");
        }
        let last = Window { since: 10 * (looks - 1), seen: 10 * looks + 1 };
        assert_eq!(arrivals.window(looks - 1..looks), Some(last));
    }

    /// One event of a ring.
    #[derive(Debug, Clone)]
    enum Event {
        Comes(u64),
        Takes(u64),
        /// Cells that come between reading the clock and looking, and between looking and reading the clock
        /// again.
        Looks(u64, u64),
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let event = prop_oneof![
            3 => (0..4_u64).prop_map(Event::Comes),
            1 => (0..3_u64).prop_map(Event::Takes),
            3 => (0..3_u64, 0..3_u64).prop_map(|(before, behind)| Event::Looks(before, behind)),
        ];
        prop::collection::vec(event, 0..if cfg!(miri) { 8 } else { 400 })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 256 }, ..ProptestConfig::default() })]

        /// In any order of events, each waiting cell came in its window, even when looks were merged.
        #[cfg(not(miri))] // No unsafe code, and it takes minutes under miri.
        #[test]
        fn every_cell_came_in_its_window(events in events()) {
            let mut now = 0_u64;
            let mut tick = || { now += 1; now };
            let mut arrivals = Arrivals::new(tick());
            let (mut came, mut taken, mut seen): (Vec<u64>, u64, u64) = (Vec::new(), 0, 0);
            for event in events {
                match event {
                    Event::Comes(cells) => came.extend((0..cells).map(|_| tick())),
                    Event::Takes(cells) => taken = (taken + cells).min(seen),
                    Event::Looks(before, behind) => {
                        let began = tick();
                        came.extend((0..before).map(|_| tick()));
                        seen = came.len() as u64;
                        came.extend((0..behind).map(|_| tick()));
                        arrivals.looked(began, taken..seen, &mut tick);
                    }
                }
                for cell in taken..seen {
                    let Window { since, seen } = arrivals.window(cell..cell + 1).expect("the cell was seen");
                    let at = came[cell as usize];
                    prop_assert!(since < at && at < seen, "{since} {at} {seen}");
                }
                prop_assert!(arrivals.looks.len() <= ROOM);
            }
        }
    }
}
