//! `protochain`, which loops: it runs in user space on every port, and no packet makes it run forever.

use wirecap::{Diagnostic, Dispatch, UnmatchedPolicy, diagnostic::KernelRefusal, report::FilterPlace};

use crate::filters::{run, runs, small_pool, wanted};
use wirecap_testing::{chains, need_root, wire::Wire};

#[test]
fn chains_of_headers_are_followed_in_user_space_and_that_is_reported() {
    need_root!("filters_loops::chains_of_headers_are_followed_in_user_space_and_that_is_reported");
    let frames = chains::frames(700);
    for (port, dispatch, unmatched, expression) in [
        ("xdp:in0", Dispatch::Pull, UnmatchedPolicy::Pass, "ip6 protochain 17"),
        ("xdp:in0", Dispatch::Push, UnmatchedPolicy::Drop, "protochain 6"),
        ("xdp:in0", Dispatch::Pull, UnmatchedPolicy::Pass, "vlan and ip6 protochain 43"),
        ("packet:in0", Dispatch::Pull, UnmatchedPolicy::Pass, "ip6 protochain 17"),
        ("packet:in0", Dispatch::Pull, UnmatchedPolicy::Pass, "vlan 5 and protochain 44"),
        ("packet:in0", Dispatch::Push, UnmatchedPolicy::Pass, "inbound and not ip6 protochain 6"),
    ] {
        let wire = Wire::with_queues("loops", 1);
        let builder = small_pool().chunks_per_pool(64).dispatch(dispatch).unmatched(unmatched);
        let (got, report) = run(&wire, builder.filter(expression), port, &frames);
        runs(&report, FilterPlace::NativeCode, expression);
        let drops_unwanted = port.starts_with("xdp") && unmatched == UnmatchedPolicy::Pass;
        let reason = KernelRefusal::Loops;
        let fallback = Diagnostic::FilterNotInKernel { reason, interpreted: None, drops_unwanted };
        assert!(report.ports[0].fallbacks.contains(&fallback), "{:?}", report.ports[0].fallbacks);
        let by_bytes = expression.strip_prefix("inbound and ").unwrap_or(expression);
        assert!(got == wanted(&frames, by_bytes), "{port}, {expression}: {}", got.len());
    }
}

/// Only frames with an endless chain: each is refused and counted, and the capture goes on.
#[test]
fn endless_chains_delay_no_packet() {
    need_root!("filters_loops::endless_chains_delay_no_packet");
    let endless = chains::frames(1).remove(0);
    let mut frames = vec![endless; 2_000];
    frames.push(chains::frames(3).remove(2));
    for port in ["xdp:in0", "packet:in0"] {
        let wire = Wire::with_queues("endless", 1);
        let builder =
            small_pool().chunks_per_pool(64).filter("ip6 protochain 17 or (vlan and ip6 protochain 17)");
        let (got, report) = run(&wire, builder, port, &frames);
        assert!(got == frames[2_000..], "{port}: {}", got.len());
        assert_eq!(report.total().filtered, 2_000, "{port}");
    }
}
