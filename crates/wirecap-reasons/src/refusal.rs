//! Why a mode is not used, packets are not packed, an interface is not tapped, and data of the NIC are
//! missing.

use wirecap::diagnostic::{ModeRefusal, NicDataRefusal, PackingRefusal, TapRefusal};
use wirecap_sys::packed::{MIN_BLOCK_BYTES, MIN_BLOCKS};

/// Why a mode of AF_XDP is not used.
pub fn mode(reason: &ModeRefusal) -> String {
    match reason {
        ModeRefusal::NotOffered => "the driver does not offer it".into(),
        ModeRefusal::ShortCells { driver, cell_bytes, room, longest } => format!(
            "{driver} puts at most {room} bytes of a frame into a cell of {cell_bytes} bytes, and frames here have up to \
             {longest}"
        ),
        ModeRefusal::NotPacked(reason) => packing(reason),
        ModeRefusal::OnMembers { driver } => format!(
            "its driver {driver} runs the program on its members, whose packets reach none of its own queues; a tap \
             (tap:NAME) is faster"
        ),
        ModeRefusal::NoRxHash => "drivers provide the NIC's hash in native mode only".into(),
        ModeRefusal::Failed(cause) => cause.to_string(),
        _ => "the reason is unknown".into(),
    }
}

/// Why an interface cannot be tapped.
pub fn tap(reason: TapRefusal) -> String {
    match reason {
        TapRefusal::NoTcx => "this kernel has no TCX programs (Linux 6.6)".into(),
        TapRefusal::NotPermitted => {
            "the kernel lets only CAP_NET_ADMIN, CAP_BPF and CAP_PERFMON together load its programs".into()
        }
        TapRefusal::SeveralWorkers { fanout } => {
            format!("a tap spreads packets over workers by core, not by {fanout}")
        }
        TapRefusal::SmallChunks { least_bytes } => {
            format!("a tap needs chunks (M cells) of at least {least_bytes} bytes")
        }
        TapRefusal::FewChunks => format!("a tap needs {MIN_BLOCKS} chunks (R) for each core"),
        TapRefusal::OffloadsOff => {
            "transmit offloads are off, and a tap would capture packets that the host sends before the \
             kernel cuts them up and fills in their checksums"
                .into()
        }
        _ => "the reason is unknown".into(),
    }
}

/// Why packets are not packed.
pub fn packing(reason: &PackingRefusal) -> String {
    match reason {
        PackingRefusal::Sending => "packets in blocks cannot be sent".into(),
        PackingRefusal::Keeping => "packets in blocks cannot be kept one by one".into(),
        PackingRefusal::Rings => "a ring size is set, and blocks have no receive ring".into(),
        PackingRefusal::NotPermitted => "packing needs CAP_PERFMON".into(),
        PackingRefusal::SeveralWriters { driver } => {
            format!("its driver {driver} may receive several packets of a queue at a time")
        }
        PackingRefusal::SmallBlocks { block_bytes } => format!(
            "a chunk of {block_bytes} bytes (M cells) is too small for a block: it takes {MIN_BLOCK_BYTES}"
        ),
        PackingRefusal::FewBlocks { blocks } => {
            format!("a pool of {blocks} chunk (R) is too small: it takes {MIN_BLOCKS}")
        }
        PackingRefusal::ZeroCopyOffered => {
            "the memory was allocated for zero-copy, which its driver offers".into()
        }
        PackingRefusal::ZeroCopyNotKnown => {
            "this kernel does not say whether its driver has zero-copy (Linux 6.3)".into()
        }
        PackingRefusal::NotNative => "its driver does not offer native XDP at present".into(),
        PackingRefusal::NotLoaded(cause) => {
            format!("the kernel does not take the program, which needs Linux 5.18: {cause}")
        }
        _ => "the reason is unknown".into(),
    }
}

/// Why the NIC's own data about packets are not available.
pub fn nic_data(reason: NicDataRefusal) -> &'static str {
    match reason {
        NicDataRefusal::Passive => "it is captured passively",
        NicDataRefusal::SomeQueues => "that is for the whole interface only, not for queues of it",
        NicDataRefusal::NoInterface => "it is no interface",
        NicDataRefusal::NoCall => "this kernel has no call for it (Linux 6.3)",
        NicDataRefusal::NotKnown => {
            "this kernel does not say whether its driver hands it to XDP programs (Linux 6.7)"
        }
        NicDataRefusal::NoHash => "its driver hands none to XDP programs",
        NicDataRefusal::NoTime => {
            "the NIC stamps packets, but its driver does not hand the times to XDP programs"
        }
        NicDataRefusal::SoftwareOnly => "its driver stamps by software only",
        NicDataRefusal::NotStamped => "its driver stamps nothing",
        NicDataRefusal::PtpOnly => "the NIC stamps packets of the precision time protocol only",
        NicDataRefusal::ClockNotKnown => "its driver does not say by which clock the NIC stamps",
        _ => "the reason is unknown",
    }
}
