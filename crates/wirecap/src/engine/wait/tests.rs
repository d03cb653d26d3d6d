//! How a thread waits, in virtual time; and that a doze ends in time.

use std::sync::Arc;

use wirecap_sys::wake::Wakers;

use super::*;

const MS: Duration = Duration::from_millis(1);

fn waiter(wait: Wait, ring_cells: u32, own_wakers: usize) -> Waiter {
    let sleeper = Sleeper::new().unwrap();
    Waiter::new(wait, ring_cells, sleeper.watch(&Arc::new(Wakers::new(vec![])), []), own_wakers)
}

#[test]
fn a_small_pool_shortens_the_sleep() {
    let sleep = |chunks: u32| longest_sleep(256 * chunks);
    assert_eq!(sleep(500), LONGEST_SLEEP);
    assert!(sleep(4) < Duration::from_micros(20));
    assert!(sleep(1) >= Duration::from_micros(4));
}

#[test]
fn silence_leads_to_longer_and_longer_dozes_and_a_batch_starts_over() {
    for wait in [Wait::Sleep, Wait::Block] {
        let (mut waiter, start) = (waiter(wait, 256, 1), Instant::now());
        for round in 0..2 {
            let now = start + 10_000 * MS * round;
            let awake = waiter.plan(now, 0);
            assert!(matches!(awake, Plan::Sleep(_) | Plan::Block), "{awake:?}");
            assert_eq!(waiter.plan(now + MS, 0), awake);
            let dozes: Vec<_> = (0..8)
                .map(|_| {
                    let plan = waiter.plan(now + SILENCE, 0);
                    waiter.dozed(WakeCause::Timeout);
                    plan
                })
                .collect();
            let lengths = [10, 20, 40, 80, 160, 320, 500, 500];
            assert_eq!(dozes, lengths.map(|ms| Plan::Doze(ms * MS)), "{wait:?}");
            waiter.reset();
        }
    }
}

#[test]
fn traffic_of_a_buddy_or_a_spurious_wake_up_ends_the_silence() {
    let (mut waiter, start) = (waiter(Wait::Sleep, 1 << 16, 1), Instant::now());
    for ms in 0..100 {
        let plan = waiter.plan(start + ms * MS, u64::from(ms / 2));
        assert!(matches!(plan, Plan::Sleep(_)), "after {ms} ms: {plan:?}");
    }
    let silent = start + 200 * MS;
    assert_eq!(waiter.plan(silent, 49), Plan::Doze(FIRST_DOZE));
    waiter.dozed(WakeCause::Timeout);
    waiter.dozed(WakeCause::Waker);
    assert!(matches!(waiter.plan(silent + MS, 49), Plan::Sleep(_)), "the thread stays awake for a while");
    assert_eq!(waiter.plan(silent + MS + SILENCE, 49), Plan::Doze(FIRST_DOZE));
}

#[test]
fn a_busy_thread_never_dozes_and_one_without_wakers_dozes_at_once() {
    let start = Instant::now();
    let mut busy = waiter(Wait::Busy, 256, 1);
    assert_eq!((busy.plan(start, 0), busy.plan(start + 1_000 * MS, 0)), (Plan::Spin, Plan::Spin));
    assert_eq!(waiter(Wait::Block, 256, 0).plan(start, 0), Plan::Doze(FIRST_DOZE));
    assert!(matches!(waiter(Wait::Sleep, 256, 0).plan(start, 0), Plan::Sleep(_)));
}

/// A thread whose ports hold packets back, if they are asked at all.
struct HoldingThread(Sleeper, Option<Duration>);

impl EngineView for HoldingThread {
    fn activity(&self) -> u64 {
        0
    }

    fn hold(&self) -> Duration {
        self.1.expect("a thread that spins does not ask")
    }

    fn rest(&self) -> Option<Rest> {
        unreachable!("it does not doze")
    }

    fn sleeper(&self) -> &Sleeper {
        &self.0
    }
}

#[test]
fn a_thread_sleeps_as_long_as_packets_are_held_back() {
    let (start, us) = (Instant::now(), Duration::from_micros);
    let holding = |hold| HoldingThread(Sleeper::new().unwrap(), hold);
    for wait in [Wait::Sleep, Wait::Block] {
        let mut waiter = waiter(wait, 1 << 17, 1);
        // Longer than a sleep without packets, but not too long for the room.
        let longest = longest_safe(1 << 17);
        assert!(longest > LONGEST_SLEEP);
        for (hold, sleep) in [(us(200), us(200)), (us(1), SHORTEST_SLEEP), (2 * longest, longest)] {
            assert_eq!(waiter.next_plan(start, &holding(Some(hold))), Plan::Sleep(sleep), "{wait:?}");
        }
        let silent = start + SILENCE;
        assert!(matches!(waiter.next_plan(start, &holding(Some(us(0)))), Plan::Sleep(_) | Plan::Block));
        assert_eq!(waiter.next_plan(silent, &holding(Some(us(0)))), Plan::Doze(FIRST_DOZE));
    }
    assert_eq!(waiter(Wait::Busy, 1 << 17, 1).next_plan(start, &holding(None)), Plan::Spin);
}

/// A thread that may not doze, or only briefly.
struct RestlessThread(Sleeper, Option<Rest>);

impl EngineView for RestlessThread {
    fn activity(&self) -> u64 {
        0
    }

    fn hold(&self) -> Duration {
        Duration::ZERO
    }

    fn rest(&self) -> Option<Rest> {
        self.1
    }

    fn sleeper(&self) -> &Sleeper {
        &self.0
    }
}

#[test]
fn a_thread_with_work_sleeps_and_one_that_takes_cells_back_dozes_briefly() {
    let mut waiter = waiter(Wait::Sleep, 1 << 16, 0);
    let start = Instant::now();
    waiter.plan(start, 0);
    waiter.next_doze = LONGEST_DOZE;
    let mut pause = |rest, limit| {
        let begun = Instant::now();
        waiter.pause(start + SILENCE, limit, &RestlessThread(Sleeper::new().unwrap(), rest));
        begun.elapsed()
    };
    assert!(pause(Some(Rest::Short), MS * 1_000_000) >= FIRST_DOZE);
    assert!(pause(Some(Rest::Long), MS) >= MS, "no longer than the caller wants");
    assert!(pause(Some(Rest::Long), MS * 1_000_000) >= LONGEST_DOZE);
    pause(None, MS);
    assert_eq!(waiter.next, 2 * SHORTEST_SLEEP, "the thread slept as before the silence");
}

#[test]
fn a_thread_that_blocks_looks_for_cells_that_come_home_and_hears_the_bell() {
    let pause = |idler: &RestlessThread| {
        let watch = idler.0.watch(&Arc::new(Wakers::new(vec![])), []);
        let mut waiter = Waiter::new(Wait::Block, 1 << 16, watch, 1);
        let begun = Instant::now();
        waiter.pause(begun, LONG, idler);
        begun.elapsed()
    };
    let idler = |rest| RestlessThread(Sleeper::new().unwrap(), rest);
    assert!(pause(&idler(Some(Rest::Long))) >= BLOCK);
    // Of several, since a busy machine may make one of them long.
    let least = (0..20).map(|_| pause(&idler(None))).min().unwrap();
    assert!(least >= LONGEST_SLEEP && least < BLOCK, "{least:?} while cells are away");
    let rung = idler(Some(Rest::Long));
    let least = (0..20).map(|_| {
        std::thread::scope(|scope| {
            let paused = scope.spawn(|| pause(&rung));
            while !paused.is_finished() {
                rung.0.wake();
            }
            paused.join().unwrap()
        })
    });
    assert!(least.min().unwrap() < BLOCK, "an interrupt ends it");
}

#[test]
fn a_thread_that_waits_elsewhere_is_armed_in_silence_alone() {
    let idler = |rest| RestlessThread(Sleeper::new().unwrap(), rest);
    let long = idler(Some(Rest::Long));
    let mut busy = waiter(Wait::Busy, 1 << 16, 1);
    assert_eq!(busy.wait_elsewhere(Instant::now(), &long), Some(Elsewhere::Later(LONGEST_SLEEP)));
    for wait in [Wait::Sleep, Wait::Block] {
        let (mut waiter, start) = (waiter(wait, 1 << 16, 0), Instant::now());
        let armed = |limit| Some(Elsewhere::Armed(limit));
        assert_eq!(waiter.wait_elsewhere(start, &long), armed(FIRST_DOZE), "nothing has ever come");
        waiter.reset();
        let now = start + MS;
        if wait == Wait::Sleep {
            let later = Some(Elsewhere::Later(LONGEST_SLEEP));
            assert_eq!(
                (waiter.wait_elsewhere(now, &long), waiter.wait_elsewhere(now + MS, &long)),
                (later, later)
            );
        } else {
            assert_eq!(waiter.wait_elsewhere(now, &long), armed(FIRST_DOZE), "{wait:?}");
            waiter.next_doze = FIRST_DOZE;
        }
        let silent = now + SILENCE;
        // An event that was missed is looked for soon, then seldom.
        assert_eq!(waiter.wait_elsewhere(silent, &long), armed(FIRST_DOZE), "{wait:?}");
        assert_eq!(waiter.wait_elsewhere(silent + FIRST_DOZE, &long), armed(LONGEST_DOZE), "{wait:?}");
        assert_eq!(waiter.wait_elsewhere(silent + FIRST_DOZE, &idler(Some(Rest::Short))), armed(FIRST_DOZE));
        assert_eq!(
            waiter.wait_elsewhere(silent + FIRST_DOZE, &idler(None)),
            None,
            "there is something to do"
        );
    }
}
