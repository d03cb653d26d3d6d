//! When the kernel looks at a queue, and how much can come until then.
//!
//! ```text
//!   frames that can come = line rate × delay        more than the ring has descriptors: they are lost
//! ```

use wirecap_sys::netdev::{Coalescing, RingSizes};

use super::of;
use crate::{
    finding::{Evidence, Finding, Severity},
    setting::{Change, NapiFile, Setting, Value},
    snapshot::{Interface, Snapshot},
};

/// As many descriptors as bridge some hundred microseconds at 10 Gbit/s; more costs cache.
const ENOUGH_DESCRIPTORS: u32 = 4096;
/// What most drivers begin with.
const USUAL_DESCRIPTORS: u32 = 512;
/// A delay that costs few interrupts and little time, in microseconds.
const USUAL_USECS: u32 = 20;
const NS_PER_S: u128 = 1_000_000_000;

pub(super) fn examine(_: &Snapshot, interface: &Interface) -> Vec<Finding> {
    let rules = [ring_size, adaptive, long_coalescing, napi_defer, gro_flush_timeout, threaded, rps];
    rules.iter().filter_map(|rule| rule(interface)).collect()
}

fn ring_size(interface: &Interface) -> Option<Finding> {
    let now = interface.rings.filter(|rings| rings.rx > 0)?;
    let wanted = now.rx_max.min(ENOUGH_DESCRIPTORS);
    (now.rx < wanted).then(|| {
        let change = Change {
            setting: Setting::Rings { interface: interface.name.clone() },
            from: Value::Rings(now),
            to: Value::Rings(RingSizes { rx: wanted, ..now }),
        };
        let evidence = Evidence::RingSize { descriptors: now.rx, possible: now.rx_max };
        of(interface, Severity::Warning, evidence, vec![change])
    })
}

fn adaptive(interface: &Interface) -> Option<Finding> {
    let now = interface.coalescing.filter(|coalescing| coalescing.adaptive_rx != 0)?;
    let rx_usecs = if now.rx_usecs == 0 { USUAL_USECS } else { now.rx_usecs };
    let change = coalescing(interface, now, Coalescing { adaptive_rx: 0, rx_usecs, ..now });
    let evidence = Evidence::AdaptiveCoalescing { rx_usecs: now.rx_usecs };
    Some(of(interface, Severity::Hint, evidence, vec![change]))
}

fn long_coalescing(interface: &Interface) -> Option<Finding> {
    let now = interface.coalescing.filter(|coalescing| coalescing.adaptive_rx == 0)?;
    let (rx_usecs, descriptors) = (now.rx_usecs, interface.rx_ring()?);
    let frames = frames_in(interface.line_rate_pps()?, u64::from(rx_usecs) * 1000);
    (frames > u64::from(descriptors)).then(|| {
        let change = coalescing(interface, now, Coalescing { rx_usecs: rx_usecs.min(USUAL_USECS), ..now });
        let evidence = Evidence::LongCoalescing { rx_usecs, frames, descriptors };
        of(interface, Severity::Warning, evidence, vec![change])
    })
}

fn coalescing(interface: &Interface, from: Coalescing, to: Coalescing) -> Change {
    let setting = Setting::Coalescing { interface: interface.name.clone() };
    Change { setting, from: Value::Coalescing(from), to: Value::Coalescing(to) }
}

fn napi_defer(interface: &Interface) -> Option<Finding> {
    let polls = interface.napi.defer_hard_irqs.filter(|polls| *polls > 0)?;
    (interface.napi.gro_flush_timeout_ns? == 0).then(|| {
        let change = napi(interface, NapiFile::DeferHardIrqs, polls, 0);
        of(interface, Severity::Hint, Evidence::NapiDefer { polls }, vec![change])
    })
}

fn gro_flush_timeout(interface: &Interface) -> Option<Finding> {
    let timeout_ns = interface.napi.gro_flush_timeout_ns.filter(|timeout| *timeout > 0)?;
    let is_deferred = interface.napi.defer_hard_irqs? > 0;
    let descriptors = interface.rx_ring().unwrap_or(USUAL_DESCRIPTORS);
    let frames = frames_in(interface.line_rate_pps()?, timeout_ns);
    (is_deferred && frames > u64::from(descriptors)).then(|| {
        let evidence = Evidence::GroFlushTimeout { timeout_ns, frames, descriptors };
        let ns = u64::from(USUAL_USECS) * 1000;
        let change = napi(interface, NapiFile::GroFlushTimeout, timeout_ns, timeout_ns.min(ns));
        of(interface, Severity::Warning, evidence, vec![change])
    })
}

/// Frames that come at a rate in a time.
fn frames_in(pps: u64, ns: u64) -> u64 {
    u64::try_from(u128::from(pps) * u128::from(ns) / NS_PER_S).unwrap_or(u64::MAX)
}

fn threaded(interface: &Interface) -> Option<Finding> {
    interface.napi.threaded.filter(|threaded| *threaded)?;
    let change = napi(interface, NapiFile::Threaded, 1, 0);
    let evidence = Evidence::ThreadedNapi { queues: interface.queues };
    Some(of(interface, Severity::Hint, evidence, vec![change]))
}

fn rps(interface: &Interface) -> Option<Finding> {
    let is_on = |mask: &str| mask.bytes().any(|digit| !matches!(digit, b'0' | b','));
    let on: Vec<_> = interface.napi.rps.iter().filter(|(_, mask)| is_on(mask)).collect();
    let change = |(queue, mask): &&(u32, String)| {
        let setting = Setting::Rps { interface: interface.name.clone(), queue: *queue };
        let off: String = mask.chars().map(|digit| if digit == ',' { ',' } else { '0' }).collect();
        Change::text(setting, mask, off)
    };
    let queues = on.iter().map(|(queue, _)| *queue).collect();
    let changes = on.iter().map(change).collect();
    (!on.is_empty()).then(|| of(interface, Severity::Hint, Evidence::Rps { queues }, changes))
}

fn napi(interface: &Interface, file: NapiFile, from: impl ToString, to: impl ToString) -> Change {
    Change::text(Setting::Napi { interface: interface.name.clone(), file }, from, to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        finding::Rule,
        rules::tuned_tests::found_after,
        snapshot::{Interface, Napi},
    };

    fn after(change: impl Fn(&mut Interface)) -> Vec<Finding> {
        found_after(|snapshot| change(&mut snapshot.interfaces[0]))
    }

    #[test]
    fn a_ring_is_raised_to_what_is_enough_or_possible() {
        let with = |rx, rx_max| {
            after(|interface| interface.rings = Some(RingSizes { rx, rx_max, ..RingSizes::default() }))
        };
        for (rx, rx_max, wanted) in [(512, 4096, 4096), (512, 8160, 4096), (64, 256, 256)] {
            let findings = with(rx, rx_max);
            let ring = findings.iter().find(|finding| finding.rule() == Rule::RingSize).unwrap();
            assert_eq!(ring.evidence, Evidence::RingSize { descriptors: rx, possible: rx_max });
            let Value::Rings(to) = &ring.changes[0].to else { panic!("{ring:?}") };
            assert_eq!(to.rx, wanted, "{rx} of {rx_max}");
        }
        assert_eq!((with(4096, 8160), with(0, 0)), (Vec::new(), Vec::new()));
    }

    #[test]
    fn a_delay_is_too_long_if_more_frames_come_than_the_ring_has_descriptors() {
        let with = |adaptive_rx, rx_usecs| {
            after(|interface| {
                let coalescing = Coalescing { adaptive_rx, rx_usecs, ..Coalescing::default() };
                interface.coalescing = Some(coalescing);
            })
        };
        // 14.88 frames a microsecond into 4,096 descriptors: 275 µs.
        assert_eq!(with(0, 275), []);
        let expected = Evidence::LongCoalescing { rx_usecs: 276, frames: 4107, descriptors: 4096 };
        assert_eq!(with(0, 276)[0].evidence, expected);
        let findings = with(1, 0);
        assert_eq!(findings[0].evidence, Evidence::AdaptiveCoalescing { rx_usecs: 0 });
        let Value::Coalescing(to) = &findings[0].changes[0].to else { panic!("{findings:?}") };
        assert_eq!((to.adaptive_rx, to.rx_usecs), (0, 20));
    }

    #[test]
    fn deferred_interrupts_need_a_timer_and_a_short_one() {
        let with = |polls, timeout| {
            after(|interface| {
                let defer_hard_irqs = Some(polls);
                interface.napi =
                    Napi { defer_hard_irqs, gro_flush_timeout_ns: Some(timeout), ..Napi::default() };
            })
        };
        assert_eq!(with(2, 0)[0].evidence, Evidence::NapiDefer { polls: 2 });
        assert_eq!(with(2, 0)[0].changes[0].to, Value::Text("0".into()));
        assert_eq!(with(2, 50_000_000)[0].rule(), Rule::GroFlushTimeout);
        for (polls, timeout) in [(0, 0), (2, 200_000), (0, 50_000_000)] {
            assert_eq!(with(polls, timeout), [], "{polls} polls, {timeout} ns");
        }
    }

    #[test]
    fn threads_and_masks_are_found_if_they_are_on() {
        assert_eq!(after(|interface| interface.napi.threaded = Some(true))[0].rule(), Rule::ThreadedNapi);
        let findings = after(|interface| {
            interface.napi.rps = vec![(0, "00000000,00000000".into()), (3, "00000000,0000000f".into())];
        });
        assert_eq!(findings[0].evidence, Evidence::Rps { queues: vec![3] });
        assert_eq!(findings[0].changes[0].to, Value::Text("00000000,00000000".into()));
        assert_eq!(after(|interface| interface.napi.threaded = None), []);
    }
}
