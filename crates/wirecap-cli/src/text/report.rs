//! Names in reports in words.

use wirecap::{
    Timestamp, TimestampReport,
    report::{FilterPlace, Pages},
};

/// Where a filter runs.
pub(crate) fn place(place: FilterPlace) -> &'static str {
    match place {
        FilterPlace::Kernel => "in the kernel",
        FilterPlace::NativeCode => "in user space, as native code",
        FilterPlace::Interpreter => "in user space, interpreted",
    }
}

/// Which packets have a time of their own.
pub(crate) fn source(source: Timestamp) -> &'static str {
    match source {
        Timestamp::Hardware => "of each packet by the NIC",
        Timestamp::Kernel => "of each packet in the kernel",
        Timestamp::Batch => "one per look at the ring",
        Timestamp::File => "of each packet as the file has it",
    }
}

/// What is certain of times at the start, in one line: source, clock, resolution. Bounds are measured and reported at the end.
pub(crate) fn timestamps(
    TimestampReport { source: from, clock, resolution_ns, .. }: &TimestampReport,
) -> String {
    format!("{from}, {}: {clock}; resolution {resolution_ns} ns", source(*from))
}

/// Which pages the packet memory is on.
pub(crate) fn pages(pages: Pages) -> &'static str {
    match pages {
        Pages::Huge => "huge (2 MiB, reserved)",
        Pages::Normal => "normal (4 KiB, transparent huge pages asked for)",
    }
}
