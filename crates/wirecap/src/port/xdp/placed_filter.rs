//! Where the filter of an AF_XDP port runs: in the program, or in front of the pool.

use std::sync::Arc;

use wirecap_filter::UserFilter;

use super::sieve::Sieve;
use crate::{
    Diagnostic, UnmatchedPolicy,
    diagnostic::{Cause, KernelRefusal},
    filter::PortFilter,
    report::FilterPlace,
};

/// Where the filter of a port runs, if it has one.
#[derive(Debug)]
pub(crate) struct PlacedFilter {
    /// Where it runs.
    pub(crate) runs: Option<FilterPlace>,
    /// Why it runs in user space, and what it cannot know.
    pub(crate) fallbacks: Vec<Diagnostic>,
    user: Option<Arc<UserFilter>>,
}

impl PlacedFilter {
    /// `not_in_kernel` says why, if it is not. With `frags`, the kernel sees only the first buffer of a
    /// packet, and lets through what it cannot decide from that.
    pub(crate) fn new(
        filter: Option<&PortFilter>,
        not_in_kernel: Option<KernelRefusal>,
        frags: bool,
    ) -> Self {
        let Some(filter) = filter else { return Self { runs: None, fallbacks: Vec::new(), user: None } };
        let one_way = filter.one_way.then_some(Diagnostic::FilterInboundOnly);
        if not_in_kernel.is_none() && !frags {
            return Self { runs: Some(FilterPlace::Kernel), fallbacks: Vec::from_iter(one_way), user: None };
        }
        let user = UserFilter::new(&filter.filter);
        let runs = not_in_kernel.as_ref().map_or(FilterPlace::Kernel, |_| FilterPlace::of(&user));
        let passes = filter.unmatched == UnmatchedPolicy::Pass;
        let split = (not_in_kernel.is_none() && passes).then_some(Diagnostic::FilterDropsLongPackets);
        let fallback = not_in_kernel.map(|reason| Diagnostic::FilterNotInKernel {
            reason,
            interpreted: user.interpreted().map(Cause::of),
            drops_unwanted: passes,
        });
        let fallbacks = fallback.or(split).into_iter().chain(one_way).collect();
        Self { runs: Some(runs), fallbacks, user: Some(Arc::new(user)) }
    }

    /// The filter that decides in user space what the kernel has not, if it is needed.
    pub(crate) fn user(&self) -> Option<Arc<UserFilter>> {
        self.user.clone()
    }

    /// What a queue of cells needs of it in user space.
    pub(crate) fn sieve(&self, cells_per_pool: u32) -> Option<Sieve> {
        self.user.as_ref().map(|user| Sieve::new(Arc::clone(user), cells_per_pool))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::OriginInfo;

    #[test]
    fn a_filter_that_asks_for_directions_is_reported() {
        for (expression, reported) in
            [("inbound and ifindex 5", true), ("outbound", true), ("ifindex 6", false)]
        {
            let origin = OriginInfo::Incoming { ifindex: 5 };
            let filter = PortFilter::compile(expression, 1, UnmatchedPolicy::Drop, origin).unwrap();
            let placed = PlacedFilter::new(Some(&filter), None, false);
            let expected = Vec::from_iter(reported.then_some(Diagnostic::FilterInboundOnly));
            assert_eq!(placed.fallbacks, expected, "{expression}");
        }
    }
}
