//! Why a thread keeps a capability.

use serde::Serialize;
use wirecap_sys::confinement::capabilities::{Capability, CapabilitySet};

/// What a thread has to do later that takes a capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// Give settings of the NIC back, and attach programs again that others detached.
    Interfaces,
    /// Read counters and attach programs, which Linux before 5.19 allows with this capability only.
    Counters,
    /// Have the kernel find out neighbours.
    Neighbours,
    /// Look at BPF programs of other processes that share an interface, or get its packets first.
    ProgramsOfOthers,
    /// Name the processes that begin to use an interface which was taken.
    NamesOfProcesses,
    /// Name, replace and give away files in directories of other users, as root may.
    FilesOfOthers,
    /// End the program that prints packets.
    EndPrograms,
}

impl Need {
    /// The capabilities that it takes.
    pub fn capabilities(self) -> &'static [Capability] {
        match self {
            Need::Interfaces => &[Capability::NetAdmin, Capability::Bpf],
            Need::Counters => &[Capability::Bpf],
            Need::Neighbours => &[Capability::NetAdmin],
            Need::ProgramsOfOthers => &[Capability::SysAdmin],
            Need::NamesOfProcesses => &[Capability::SysPtrace],
            Need::FilesOfOthers => &[Capability::Chown, Capability::DacOverride, Capability::Fowner],
            Need::EndPrograms => &[Capability::Kill],
        }
    }
}

/// A capability that a thread keeps, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeptCapability {
    /// Its name in the kernel.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub capability: Capability,
    /// What it is for.
    pub reason: Need,
}

/// The capabilities that these needs take.
pub(crate) fn wanted(needs: &[Need]) -> CapabilitySet {
    needs.iter().flat_map(|need| need.capabilities().iter().copied()).collect()
}

/// Those among `kept`, each once for each need.
pub(crate) fn reasons(needs: &[Need], kept: CapabilitySet) -> Vec<KeptCapability> {
    let of_need = |&reason: &Need| {
        reason.capabilities().iter().map(move |&capability| KeptCapability { capability, reason })
    };
    let mut reasons: Vec<_> =
        needs.iter().flat_map(of_need).filter(|reason| kept.has(reason.capability)).collect();
    reasons.sort_unstable();
    reasons.dedup();
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capability_is_kept_for_each_of_its_needs() {
        let needs = [Need::Neighbours, Need::Interfaces, Need::Interfaces];
        let kept = reasons(&needs, wanted(&needs));
        let named: Vec<_> = kept.iter().map(|kept| (kept.capability.name(), kept.reason)).collect();
        assert_eq!(
            named,
            [
                ("CAP_NET_ADMIN", Need::Interfaces),
                ("CAP_NET_ADMIN", Need::Neighbours),
                ("CAP_BPF", Need::Interfaces)
            ]
        );
        assert_eq!(reasons(&needs, CapabilitySet::default()), [], "what a process has not, it cannot keep");
        assert!(wanted(&[]).is_empty());
    }
}
