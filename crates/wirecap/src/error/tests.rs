use super::*;

fn process() -> Process {
    Process { pid: 7, name: "x".into() }
}

#[test]
fn only_a_program_without_a_link_is_detached_by_ip_and_in_its_mode() {
    let held = |attachment, holders: &[Process]| {
        let (name, program) = ("in0".into(), "stranger".into());
        Error::Held { name, program, holders: holders.into(), attachment }.to_string()
    };
    let (known, unknown) = ([process()], []);
    for (attachment, holders, end) in [
        (XdpAttachment::Link, known.as_slice(), "program stranger of x (pid 7); end that process"),
        (XdpAttachment::Unknown, &unknown, "bpftool link show the program"),
        (XdpAttachment::Netlink(AttachedMode::Native), &unknown, ": ip link set in0 xdp off"),
        (XdpAttachment::Netlink(AttachedMode::Generic), &unknown, ": ip link set in0 xdpgeneric off"),
    ] {
        let text = held(attachment, holders);
        assert!(text.ends_with(end), "{text:?} does not end with {end:?}");
    }
}

#[test]
fn only_a_free_queue_is_suggested() {
    let shared = |free| Error::Shared { name: "in0".into(), holders: vec![process()], free }.to_string();
    assert!(shared(Some(3)).ends_with("name queues that are free, as in in0@3"));
    assert!(shared(None).ends_with("captured by x (pid 7); end that"));
}

#[test]
fn too_many_ports_have_a_remedy() {
    let many = |what| Error::TooMany { what, given: 70, most: 63 }.to_string();
    assert_eq!(
        many("ports"),
        "ports: 70 is more than the 63 an engine can have; use several captures, or merge trace files first (mergecap)"
    );
    assert_eq!(many("allocators"), "allocators: 70 is more than the 63 an engine can have");
}
