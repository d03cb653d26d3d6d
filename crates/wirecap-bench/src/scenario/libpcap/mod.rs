//! Programs that use libpcap, on the system's and on wirecap.
//!
//! | file | program | target |
//! |---|---|---|
//! | [`dispatch`] | a counting loop over `pcap_dispatch` | twice libpcap's rate at 64 bytes, no less at others; 0.9 of the Rust library's |
//! | [`tcpdump`] | unmodified tcpdump, to /dev/null and to memory, one queue and four | twice its lossless rate at 64 bytes, no less at 512 |
//! | [`threads`] | the paper's slow handler in four threads, skewed traffic | no loss in a buddy group |
//!
//! libpcap has a buffer of 64 MiB.

mod dispatch;
mod tcpdump;
mod threads;

use std::path::PathBuf;

use anyhow::Result;

use super::{Context, SHORT_FRAME};

/// The part of libpcap's rate that has to be reached with frames of this length.
fn target(frame_len: usize) -> f64 {
    if frame_len == SHORT_FRAME { 2.0 } else { 1.0 }
}

/// The path of wirecap's library, which is beside this program.
fn library_path() -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("libwirecap_pcap.so"))
}

pub(super) fn run(context: &mut Context) -> Result<()> {
    dispatch::run(context)?;
    tcpdump::run(context)?;
    threads::run(context)
}
