//! Files that are no traces are refused before anything is opened, with a hint.

use std::path::Path;

use wirecap::{Capture, Error, port::trace};

use wirecap_lab::trace_bytes::Order;

use crate::run::{file, port};

/// The error for a file: from opening a capture, and from the early check, which must agree.
fn refusal(path: &Path) -> String {
    let early = trace::check(path).expect_err("refused").to_string();
    let error = Capture::builder().port(port(path)).open().expect_err("refused");
    assert!(matches!(error, Error::Trace { .. }), "{error:?}");
    assert_eq!(error.to_string(), early);
    assert!(early.starts_with(&format!("trace:{}: ", path.display())), "{early}");
    early
}

#[test]
fn a_file_that_is_no_trace_is_refused_with_a_hint() {
    let directory = tempfile::tempdir().unwrap();
    for (bytes, hint) in [
        (&b""[..], "the capture file is empty"),
        (b"PK\x03\x04 and more", "unpack it first"),
        (b"\x1f\x8b\x08\x00 and more", "gunzip"),
        (b"Hello, world", "not a pcap or pcapng file"),
        (b"hi\n", "not a pcap or pcapng file"),
        (
            b"\xd4\xc3\xb2\xa1\x02\x00",
            "at byte 0: 6 of 24 bytes are there; no packet was read; capture again",
        ),
        (&Order::Big.section(&[])[..20], "cut off in the block at byte 0"),
    ] {
        let error = refusal(&file(&directory, "odd", bytes));
        assert!(error.contains(hint), "{error}");
    }
    let error = refusal(&directory.path().join("missing.pcap"));
    assert!(error.contains("No such file") && error.contains("check the name"), "{error}");
    assert!(refusal(directory.path()).contains("is a directory"));
}

#[test]
fn a_readable_trace_passes_the_check() {
    let directory = tempfile::tempdir().unwrap();
    let header = Order::Little.pcap_header(0xa1b2_c3d4, (2, 4), 0, 1);
    trace::check(&file(&directory, "good.pcap", &header)).unwrap();
    trace::check(Path::new("-")).unwrap();
}
