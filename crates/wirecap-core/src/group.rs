//! Buddy groups: who gets a chunk when a worker is behind.
//!
//! ```text
//!   push: a capture thread has a chunk for worker `home`        pull: worker `thief` is idle
//!     backlog(home) over T,                                       which buddies are over T?
//!     or its queue full?  ── no ──► home                            └──► the one furthest over
//!            │ yes
//!            └──► the least busy of the others, if less busy
//! ```
//!
//! Rule: a chunk never leaves its buddy group, so that traffic of an application stays with that
//! application (section 3.2.1 of the paper). The functions are pure: backlogs come in, a worker
//! comes out. T alone may change while they are called: each decision reads it once.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::mode::Mode;

/// How busy a worker is, at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Cells that wait for the worker.
    pub backlog_cells: u64,
    /// Cells of one of its pools: what T is a percentage of.
    pub capacity_cells: u64,
    /// Whether its capture queue has no room. Each hand-over takes an entry, however short, so few cells may
    /// fill it; the packets behind them wait in the ring, where no backlog counts them. Never in `pull`.
    pub full: bool,
    /// Whether the worker is gone, so that only its buddies will empty its queues.
    pub gone: bool,
}

impl Load {
    /// Whether the backlog exceeds `threshold_percent` of the capacity. A worker that is gone is
    /// over every threshold as soon as it has a backlog.
    pub fn is_over(&self, threshold_percent: u8) -> bool {
        if self.gone {
            return self.backlog_cells > 0;
        }
        self.backlog_cells * 100 > self.capacity_cells * u64::from(threshold_percent)
    }

    fn share(&self) -> f64 {
        self.backlog_cells as f64 / self.capacity_cells.max(1) as f64
    }
}

/// The workers of one application, which may help each other.
#[derive(Debug)]
pub struct BuddyGroup {
    members: Vec<usize>,
    /// T in percent; `None` in basic mode. Written by whichever thread changes it, read once per decision. It
    /// guards no other memory, so all accesses are relaxed; not an atomic of loom's, since no order matters.
    threshold_percent: Option<AtomicU8>,
}

impl BuddyGroup {
    /// A group of workers, given by their numbers.
    pub fn new(members: Vec<usize>, mode: Mode) -> Self {
        let threshold_percent = match mode {
            Mode::Basic => None,
            Mode::Advanced { threshold_percent } => Some(threshold_percent.into()),
        };
        Self { members, threshold_percent }
    }

    /// The workers of the group.
    pub fn members(&self) -> &[usize] {
        &self.members
    }

    /// Basic, or advanced with T as it is now.
    pub fn mode(&self) -> Mode {
        self.threshold_percent().map_or(Mode::Basic, |threshold_percent| Mode::Advanced { threshold_percent })
    }

    /// T as it is now; `None` in basic mode.
    pub fn threshold_percent(&self) -> Option<u8> {
        self.threshold_percent.as_ref().map(|percent| percent.load(Ordering::Relaxed))
    }

    /// Changes T, from any thread: the next decisions use it. Does nothing in basic mode.
    pub fn set_threshold_percent(&self, percent: u8) {
        if let Some(threshold_percent) = &self.threshold_percent {
            threshold_percent.store(percent, Ordering::Relaxed);
        }
    }

    /// The buddies that worker `helper` may help: none in basic mode.
    pub fn helped_by(&self, helper: usize) -> impl Iterator<Item = usize> + '_ {
        self.others(helper).filter(|_| self.threshold_percent.is_some())
    }

    /// All members but one.
    fn others(&self, than: usize) -> impl Iterator<Item = usize> + '_ {
        self.members.iter().copied().filter(move |&member| member != than)
    }

    /// Where a chunk of worker `home` goes (steps 1.b to 1.d in section 3.2.2 of the paper): home,
    /// unless its backlog is over T, or its capture queue full, and a buddy with room has a smaller backlog.
    pub fn destination(&self, home: usize, load: impl Fn(usize) -> Load) -> usize {
        let Some(threshold_percent) = self.threshold_percent() else { return home };
        let home_load = load(home);
        if !home_load.gone && !home_load.full && !home_load.is_over(threshold_percent) {
            return home;
        }
        let takes = |buddy: &Load| !buddy.gone && !buddy.full;
        self.others(home)
            .map(|member| (load(member), member))
            .filter(|(buddy, _)| takes(buddy) && (home_load.gone || buddy.share() < home_load.share()))
            .min_by(|(a, _), (b, _)| a.share().total_cmp(&b.share()))
            .map_or(home, |(_, member)| member)
    }

    /// Whom an idle worker helps: the buddy that is over T, and furthest in relation to its pools.
    /// `None` in basic mode and when no worker is over the threshold.
    pub fn buddy_in_need(&self, idle: usize, load: impl Fn(usize) -> Load) -> Option<usize> {
        let threshold_percent = self.threshold_percent()?;
        self.others(idle)
            .map(|member| (load(member), member))
            .filter(|(buddy, _)| buddy.is_over(threshold_percent))
            .max_by(|(a, _), (b, _)| a.share().total_cmp(&b.share()))
            .map(|(_, member)| member)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn group(threshold_percent: u8) -> BuddyGroup {
        BuddyGroup::new(vec![0, 1, 2], Mode::Advanced { threshold_percent })
    }

    fn loads(backlogs: [u64; 3]) -> impl Fn(usize) -> Load {
        move |worker| Load { backlog_cells: backlogs[worker], capacity_cells: 1000, full: false, gone: false }
    }

    #[test]
    fn a_chunk_stays_home_up_to_the_threshold_and_goes_to_the_least_busy_buddy_over_it() {
        assert_eq!(group(60).destination(0, loads([600, 0, 0])), 0);
        assert_eq!(group(60).destination(0, loads([601, 40, 30])), 2);
        assert_eq!(group(60).destination(0, loads([601, 900, 700])), 0, "no worker is less busy");
        assert_eq!(group(60).destination(0, loads([601, 601, 601])), 0, "equally busy is not less busy");
        assert_eq!(group(0).destination(0, loads([1, 0, 0])), 1);
        assert_eq!(group(100).destination(0, loads([1000, 0, 0])), 0);
    }

    #[test]
    fn a_changed_threshold_decides_from_then_on() {
        let group = group(60);
        assert_eq!(group.destination(0, loads([500, 0, 100])), 0);
        assert_eq!(group.buddy_in_need(1, loads([500, 0, 100])), None);
        group.set_threshold_percent(40);
        assert_eq!(group.mode(), Mode::Advanced { threshold_percent: 40 });
        assert_eq!(group.destination(0, loads([500, 0, 100])), 1);
        assert_eq!(group.buddy_in_need(1, loads([500, 0, 100])), Some(0));
        let basic = BuddyGroup::new(vec![0, 1], Mode::Basic);
        basic.set_threshold_percent(0);
        assert_eq!((basic.mode(), basic.destination(0, loads([1000, 0, 0]))), (Mode::Basic, 0));
    }

    #[test]
    fn basic_mode_never_offloads() {
        let basic = BuddyGroup::new(vec![0, 1, 2], Mode::Basic);
        assert_eq!(basic.destination(0, loads([1000, 0, 0])), 0);
        assert_eq!(basic.buddy_in_need(1, loads([1000, 0, 0])), None);
    }

    #[test]
    fn a_chunk_does_not_leave_its_group() {
        let pair = BuddyGroup::new(vec![0, 1], Mode::Advanced { threshold_percent: 10 });
        assert_eq!(pair.destination(0, loads([900, 500, 0])), 1);
        assert_eq!(pair.buddy_in_need(1, loads([0, 0, 1000])), None);
    }

    #[test]
    fn an_idle_worker_helps_the_buddy_in_greatest_need() {
        assert_eq!(group(60).buddy_in_need(2, loads([601, 700, 0])), Some(1));
        assert_eq!(group(60).buddy_in_need(2, loads([600, 600, 0])), None);
        assert_eq!(group(60).buddy_in_need(1, loads([0, 1000, 0])), None, "a worker is not its own buddy");
    }

    #[test]
    fn how_busy_a_worker_is_is_in_relation_to_its_pools() {
        let loads = |worker: usize| Load {
            backlog_cells: [900, 700, 90][worker],
            capacity_cells: [1000, 1000, 100][worker],
            full: false,
            gone: false,
        };
        assert_eq!(
            group(60).destination(0, loads),
            1,
            "worker 2 has fewer cells, but is as busy as worker 0"
        );
        assert_eq!(group(60).buddy_in_need(0, loads), Some(2));
    }

    #[test]
    fn a_chunk_goes_to_a_less_busy_buddy_with_room_where_the_own_queue_has_none() {
        let full = |full: [bool; 3], backlogs| {
            move |worker: usize| Load { full: full[worker], ..loads(backlogs)(worker) }
        };
        assert_eq!(group(60).destination(0, full([true, false, false], [50, 40, 30])), 2);
        assert_eq!(group(60).destination(0, full([true, false, true], [50, 40, 30])), 1);
        assert_eq!(group(60).destination(0, full([true, false, false], [50, 50, 60])), 0, "sooner at home");
        assert_eq!(group(60).destination(0, full([true; 3], [50, 40, 30])), 0, "room comes at home, too");
        assert_eq!(group(60).destination(0, full([false, false, true], [601, 40, 30])), 1);
        let basic = BuddyGroup::new(vec![0, 1, 2], Mode::Basic);
        assert_eq!(basic.destination(0, full([true, false, false], [50, 0, 0])), 0);
    }

    #[test]
    fn a_gone_worker_gets_nothing_and_buddies_take_what_it_left() {
        let loads = |worker: usize| Load {
            backlog_cells: [5, 100, 90][worker],
            capacity_cells: 1000,
            full: false,
            gone: worker == 0,
        };
        assert_eq!(group(60).destination(0, loads), 2);
        assert_eq!(group(60).buddy_in_need(1, loads), Some(0));
        assert_eq!(group(5).destination(1, loads), 2, "worker 0 has the smallest backlog, but is gone");
    }

    #[test]
    fn a_worker_may_help_all_its_buddies_but_none_in_basic_mode() {
        let helped = |group: BuddyGroup| group.helped_by(1).collect::<Vec<_>>();
        assert_eq!(helped(group(60)), [0, 2]);
        assert_eq!(helped(BuddyGroup::new(vec![0, 1, 2], Mode::Basic)), Vec::<usize>::new());
    }

    #[test]
    fn a_gone_worker_is_over_any_threshold_while_cells_wait_for_it() {
        let load = |backlog_cells| Load { backlog_cells, capacity_cells: 1000, full: false, gone: true };
        assert!(!load(0).is_over(0));
        assert!(load(1).is_over(100));
    }

    #[test]
    fn a_group_knows_its_members_and_its_mode() {
        let pair = BuddyGroup::new(vec![3, 5], Mode::Basic);
        assert_eq!((pair.members(), pair.mode()), (&[3, 5][..], Mode::Basic));
    }
}
