use super::*;

#[test]
fn codes_are_those_of_serde_and_unique() {
    let sample = Diagnostic::QueuesGone { queues: 1 };
    assert_eq!(serde_json::to_value(&sample).unwrap()["code"], sample.code());
    assert_eq!(sample.code(), "queues_gone");
    let mut codes = Diagnostic::CODES.to_vec();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), Diagnostic::CODES.len());
}

#[test]
fn a_cause_has_the_number_of_the_system_error() {
    let refused = wirecap_sys::memory::MemoryError::Map {
        needed: 1 << 20,
        source: std::io::Error::from_raw_os_error(12),
    };
    let cause = Cause::from(refused);
    assert_eq!(cause.errno, Some(12));
    assert!(cause.text.contains("os error 12"), "{cause}");
    assert_eq!(Cause::words("no such thing").errno, None);
}

#[test]
fn the_reason_why_the_kernel_rejects_a_filter_is_short() {
    let cause = std::io::Error::from_raw_os_error(7);
    let (name, log) = ("wirecap".into(), "line\n".repeat(1_000));
    let refused = wirecap_sys::bpf::Error::Rejected { name, cause, log, lacks_perfmon: false };
    let refusal = KernelRefusal::from(&wirecap_filter::Error::from(refused));
    let KernelRefusal::Rejected(Cause { errno: Some(7), text }) = refusal else { panic!("{refusal:?}") };
    assert!(text.len() < 120, "{text}");
}
