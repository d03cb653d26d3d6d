//! Any bytes as a frame for a router: addresses that are never forwarded have no route, ICMP errors are
//! correct, and no error answers a damaged packet or another error.
//!
//! ```text
//!   input: which error, kind of EtherTypes, frame
//! ```
#![no_main]

mod typed_frame;

use std::{net::IpAddr, sync::LazyLock};

use libfuzzer_sys::fuzz_target;
use wirecap_headers::checksum::{self, Verdict};
use wirecap_headers::{IpVersion, Layout, MacAddress, SourceMac};
use wirecap_router::{DropCause, IcmpProblem, IcmpSource, MAX_ICMP_ERROR_LEN, Offender, Routes, valid_ip};

use typed_frame::with_type;

/// Made once, because that takes longer than the rest of an iteration.
static ROUTES: LazyLock<Routes> = LazyLock::new(|| "default drop\n::/0 drop".parse().unwrap());

fuzz_target!(|input: &[u8]| {
    let Some(([which, kind], rest)) = input.split_first_chunk() else { return };
    let bytes = with_type(*kind, rest);
    look(&bytes);
    answer(*which, &bytes);
    answer(*which, &mended(bytes));
});

fn look(bytes: &[u8]) {
    let Some(layout) = Layout::of(bytes) else { return };
    if let Some(destination) = layout.ip().and_then(|ip| ip.destination(bytes)) {
        assert!(ROUTES.to(destination).is_none() == ROUTES.is_martian(destination));
    }
    let valid = valid_ip(&layout, bytes, bytes.len());
    // No error answers a damaged packet.
    if Offender::of(bytes, bytes.len()).is_some() {
        assert!(matches!(valid, Ok(_) | Err(DropCause::StrictSourceRoute)), "{valid:?}");
    }
}

/// The frame with a correct IP length and correct checksums, so that more packets can be answered.
fn mended(mut bytes: Vec<u8>) -> Vec<u8> {
    let Some(ip) = Layout::of(&bytes).and_then(|layout| layout.ip().copied()) else { return bytes };
    let packet = &mut bytes[ip.start()..];
    let len = packet.len();
    match ip.version() {
        IpVersion::V4 => packet[2..4].copy_from_slice(&(len as u16).to_be_bytes()),
        IpVersion::V6 => packet[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes()),
    }
    let _ = checksum::fill(packet);
    bytes
}

/// Asserts that an ICMP error is valid, fits, and is not answered itself.
fn answer(which: u8, bytes: &[u8]) {
    let Some(offender) = Offender::of(bytes, bytes.len()) else { return };
    let problems = [
        IcmpProblem::Expired,
        IcmpProblem::NoRoute,
        IcmpProblem::BeyondScope,
        IcmpProblem::HostUnreachable,
        IcmpProblem::TooLong { mtu: 60 },
        IcmpProblem::TooLong { mtu: 1280 },
    ];
    let address: IpAddr = match offender.sender() {
        IpAddr::V4(_) => [192, 0, 2, 254].into(),
        IpAddr::V6(_) => [0xfd; 16].into(),
    };
    let mac = SourceMac::try_from(MacAddress([2, 0, 0, 0, 0, 1])).unwrap();
    let mut error = Vec::new();
    if offender.answer(problems[usize::from(which) % problems.len()], IcmpSource { mac, address }, &mut error)
    {
        let start = Layout::of(&error).unwrap().network();
        assert!(error.len() - start <= MAX_ICMP_ERROR_LEN);
        assert_eq!(checksum::verify(&error[start..]), Verdict::Right);
        assert!(Offender::of(&error, error.len()).is_none());
    }
}
