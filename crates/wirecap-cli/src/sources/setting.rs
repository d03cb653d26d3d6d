//! Settings that errors are about: the key and the flag of each.

macro_rules! settings {
    ($($name:ident = $key:literal, $flag:literal;)*) => {
        /// A setting that an error can be about.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Setting {
            $($name,)*
        }

        impl Setting {
            pub(crate) const ALL: &[Self] = &[$(Self::$name),*];

            /// Its key in files.
            pub(crate) fn key(self) -> &'static str {
                match self {
                    $(Self::$name => $key,)*
                }
            }

            /// Its flag, as messages write it.
            pub(crate) fn flag(self) -> &'static str {
                match self {
                    $(Self::$name => $flag,)*
                }
            }
        }
    };
}

settings! {
    Ports = "ports", "IFACE";
    Filter = "filter", "--filter";
    Unmatched = "unmatched", "--unmatched";
    Mode = "mode", "-T";
    XdpMode = "xdp_mode", "--xdp-mode";
    Fanout = "fanout", "--fanout";
    CaptureThreads = "capture_threads", "--capture-threads";
    CaptureCores = "capture_cores", "--capture-cores";
    CellsPerChunk = "cells_per_chunk", "-M";
    PoolSize = "pool_size", "-R";
    CellBytes = "cell_bytes", "--cell-bytes";
    RingEntries = "ring_entries", "--ring";
    Workers = "workers", "--workers";
    TransmitEntries = "transmit_entries", "--transmit-ring";
    Pass = "pass", "--pass";
    Drop = "drop", "--drop";
    Write = "write", "-w";
    DirectIo = "direct_io", "--direct-io";
    FilePerQueue = "file_per_queue", "--file-per-queue";
    Print = "print", "--print";
    CopyTo = "copy_to", "--copy-to";
    Verify = "verify", "--verify";
    Expect = "expect", "--expect";
    Count = "count", "-c";
    Duration = "duration", "--duration";
    RotateSize = "rotate_size", "-C";
    RotateTime = "rotate_time", "-G";
    RotatePackets = "rotate_packets", "-b packets:";
    RotateFiles = "rotate_files", "-W";
    KeepFiles = "keep_files", "-b files:";
    StopFiles = "stop_files", "-a files:";
    StopSize = "stop_size", "-a filesize:";
    RotateCommand = "rotate_command", "-z";
}
