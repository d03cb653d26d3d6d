//! Reports about interfaces that the host, or another program on it, uses.

use serde_json::Value;
use wirecap_lab::{Namespace, VethOptions, require_root};
use wirecap_sys::{bpf::Link, netdev};
use wirecap_traffic::LiveOptions;

use crate::{
    forward::{Cable, routes},
    lab::{CommandOutput, Lab, READY, RunningCommand, WIRECAP},
};

const FRAMES: u64 = 1_000;

/// A program that listens like an intrusion detection system, once it is ready.
fn tcpdump(host: &Namespace, interface: &str) -> RunningCommand {
    let mut command = host.command("tcpdump");
    command.args(["-U", "-i", interface, "-w", "/dev/null", "udp"]);
    let running = RunningCommand::spawn(command);
    running.wait_for(&format!("listening on {interface}"));
    running
}

fn named(listener: &RunningCommand) -> String {
    format!("listener tcpdump (pid {})", listener.pid())
}

fn port(ended: &CommandOutput) -> Value {
    ended.account().0["ports"][0].clone()
}

#[test]
fn a_listener_keeps_the_interface_and_is_named_where_it_goes_blind() {
    if !require_root("a_listener_keeps_the_interface_and_is_named_where_it_goes_blind") {
        return;
    }
    let lab = Lab::with_queues("blind", 1);
    // Without GRO, a veth takes no live frames while it has no XDP program.
    lab.pairs[0].b().set_gro(true).unwrap();
    let ids = tcpdump(&lab.right, "r0");
    let beside = lab.capture(&["r0"]);
    beside.wait_for(&format!("captured passively, because the host uses it ({})", named(&ids)));
    lab.send(0, 0, FRAMES, LiveOptions::default());
    let beside = port(&beside.stop());
    assert_eq!(beside["queues"][0]["delivered"], FRAMES);
    let host_use = &beside["host_use"][0];
    assert_eq!((&host_use["kind"], &host_use["protocol"]), (&"listener".into(), &3.into()), "{beside:#}");
    assert_eq!(host_use["processes"][0]["pid"], ids.pid());

    let taken = lab.capture(&["xdp:r0"]);
    taken.wait_for(&format!(
        "WARNING: r0: the host uses it ({}) but gets none of the packets that wirecap takes",
        named(&ids)
    ));
    taken.stop();
    let heard = ids.stop().stderr;
    let all = format!("{FRAMES} packets received by filter");
    assert!(heard.contains(&all), "the listener gets all frames captured beside it: {heard}");
}

#[test]
fn a_listener_that_comes_while_an_interface_is_taken_is_named() {
    if !require_root("a_listener_that_comes_while_an_interface_is_taken_is_named") {
        return;
    }
    let lab = Lab::with_queues("later", 1);
    let running = lab.capture(&["r0"]);
    let ids = tcpdump(&lab.right, "r0");
    running.wait_for(&format!("WARNING: r0: the host now uses it ({})", named(&ids)));
    lab.right.ip(&["address", "add", "192.0.2.1/24", "dev", "r0"]).unwrap();
    running.wait_for("WARNING: r0: the host now uses it (address 192.0.2.1/24)");
    let ended = running.stop();
    assert_eq!(ended.stderr.matches("the host now uses it").count(), 2, "one warning each: {ended:#?}");
    let kinds: Vec<_> =
        port(&ended)["host_use"].as_array().unwrap().iter().map(|one| one["kind"].clone()).collect();
    assert_eq!(kinds, ["listener", "address"]);
}

#[test]
fn a_cable_and_a_router_name_the_listeners_they_blind() {
    if !require_root("a_cable_and_a_router_name_the_listeners_they_blind") {
        return;
    }
    let cable = Cable::new("blindcable", VethOptions::default());
    let ids = tcpdump(&cable.middle, "m0");
    let running = cable.spawn(&["forward", "m0", "m1", "--json"]);
    running.wait_for(&format!("WARNING: m0: the host uses it ({}) but gets none", named(&ids)));
    running.wait_for(READY);
    running.stop();
    drop(ids);

    // The router leaves its own addresses to the host.
    let cable = routes::networks("blindrouter");
    let ids = tcpdump(&cable.middle, "m1");
    let running = routes::route(&cable, "192.0.2.0/24 dev m0\n198.51.100.0/24 dev m1\n", &[]);
    running.wait_for(&format!("WARNING: m1: the host uses it ({}) but gets none", named(&ids)));
    let ended = running.stop();
    assert!(!ended.stderr.contains("WARNING: m0"), "{ended:#?}");
    ids.stop();
}

#[test]
fn frames_are_sent_beside_a_listener() {
    if !require_root("frames_are_sent_beside_a_listener") {
        return;
    }
    let lab = Lab::with_queues("beside", 1);
    let ids = tcpdump(&lab.left, "l0");
    let run = |arguments: &[&str]| {
        let mut command = lab.left.command(WIRECAP);
        command.args(arguments);
        RunningCommand::spawn(command).wait()
    };
    let trace = lab.path("beside.pcapng");
    let capture = lab.capture(&["r0", "-w", trace.to_str().unwrap(), "-c", "10"]);
    let generated = run(&["generate", "-i", "l0", "-c", "10"]);
    let beside = format!("the host uses it ({}): frames are sent beside the host's own\n", named(&ids));
    assert!(generated.stderr.contains(&beside), "{beside}: {generated:#?}");
    capture.wait();
    let replayed = run(&["replay", trace.to_str().unwrap(), "l0"]);
    let said = format!("zero-copy was not tried, because the host uses it ({})", named(&ids));
    for sent in [generated, replayed] {
        assert!(sent.stderr.contains(&said), "{sent:#?}");
    }
    ids.stop();
}

#[test]
fn a_program_that_is_detached_by_force_is_reported() {
    if !require_root("a_program_that_is_detached_by_force_is_reported") {
        return;
    }
    let lab = Lab::with_queues("forced", 1);
    let running = lab.capture(&["r0"]);
    let program = lab.right.enter(|| netdev::interface("r0")).unwrap().xdp_programs[0].program_id;
    Link::of_program(program).unwrap().unwrap().detach().unwrap();
    running.wait_for(
        "WARNING: r0: another program detached the XDP program; packets went to the host, uncounted, until it was attached again",
    );
    lab.send(0, 0, FRAMES, LiveOptions::default());
    let port = port(&running.stop());
    assert_eq!(port["queues"][0]["seen"], FRAMES);
    let warning = &port["warnings"][0];
    assert_eq!(
        (&warning["code"], &warning["recovery"]),
        (&"detached".into(), &"restored".into()),
        "{port:#}"
    );
    assert!(warning["text"].as_str().unwrap().contains("detached the XDP program"), "{port:#}");
}
