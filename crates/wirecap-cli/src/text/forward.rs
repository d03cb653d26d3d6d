//! The warnings of `wirecap forward`, and their texts.

use super::ranges;

/// Behaviour that a user may not expect.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ForwardWarning {
    /// Packets of these queues are left to the host.
    QueuesLeftOut { interface: String, queues: Vec<u64> },
    /// One side accepts longer packets than the other, and a cable notifies no sender.
    NarrowerMtu { wide: String, wide_mtu: u32, narrow: String, narrow_mtu: u32 },
    /// Generic XDP receives packets that the other end of a virtual interface has not segmented.
    Unsegmented { interface: String },
}

/// The text of a warning.
pub(crate) fn describe(warning: &ForwardWarning) -> String {
    match warning {
        ForwardWarning::QueuesLeftOut { interface, queues } => format!(
            "{interface}: packets of its other queues ({}) are left to the host, not forwarded",
            ranges(queues.iter().copied())
        ),
        ForwardWarning::NarrowerMtu { wide, wide_mtu, narrow, narrow_mtu } => format!(
            "{wide} has an MTU of {wide_mtu} and {narrow} of {narrow_mtu}: longer packets from {wide} are dropped (too_long), and no \
             sender is notified; give both the same"
        ),
        ForwardWarning::Unsegmented { interface } => format!(
            "{interface}: in generic XDP, packets that the other end has not segmented (TSO) arrive whole, and those longer than a cell \
             are lost as too_long; at the other end: ethtool -K IFACE tso off gso off"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_names_the_interface_and_the_figures() {
        let queues = ForwardWarning::QueuesLeftOut { interface: "m0".into(), queues: vec![0, 2, 3] };
        assert!(describe(&queues).starts_with("m0: packets of its other queues (0,2-3) are left"));
        let (wide, narrow) = ("m0".into(), "m1".into());
        let mtu = ForwardWarning::NarrowerMtu { wide, wide_mtu: 9000, narrow, narrow_mtu: 1500 };
        assert!(describe(&mtu).starts_with("m0 has an MTU of 9000 and m1 of 1500: longer packets from m0"));
        let whole = ForwardWarning::Unsegmented { interface: "m1".into() };
        assert!(describe(&whole).starts_with("m1: in generic XDP"));
    }
}
