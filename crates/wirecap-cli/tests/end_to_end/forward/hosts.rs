//! Programs of two hosts talk as if over a cable.

use std::{
    fs,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use wirecap_lab::{VethOptions, require_root};

use super::{Cable, dropped, have, way};
use crate::lab::read;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A process that is killed on drop.
struct Server(Child);

impl Server {
    fn start(mut command: Command) -> Self {
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a command until it succeeds, since its server may not listen yet. Returns its output.
fn until_served(mut command: impl FnMut() -> Command) -> String {
    until(&mut command, |_| true)
}

/// Runs a command until it succeeds with the wanted output.
fn until(command: &mut impl FnMut() -> Command, wanted: impl Fn(&str) -> bool) -> String {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let output = command().output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        if output.status.success() && wanted(&printed) {
            return printed.into_owned();
        }
        assert!(Instant::now() < deadline, "{output:?}");
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn hosts_ping_each_other_and_the_interfaces_are_given_back() {
    if !require_root("forward::hosts_ping_each_other_and_the_interfaces_are_given_back") {
        return;
    }
    for (mtu, queues) in [(1_500, 1), (9_000, 2)] {
        let cable = Cable::new("ping", VethOptions { mtu, queues, ipv6: true, ..VethOptions::default() });
        let running = cable.forward(&[]);
        let largest = (mtu - 28).to_string();
        cable.assert_ping(30, &["192.0.2.2"]);
        cable.assert_ping(30, &["-s", &largest, "-M", "do", "192.0.2.2"]);
        // In fragments.
        cable.assert_ping(10, &["-s", "20000", "192.0.2.2"]);
        // Until duplicate address detection is over, the address does not answer.
        until_served(|| {
            let mut ping = cable.left.command("ping");
            ping.args(["-c", "1", "-W", "1", "fd00::2"]);
            ping
        });
        cable.assert_ping(20, &["-s", "1000", "fd00::2"]);
        let ended = running.stop();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        for from in ["m0", "m1"] {
            let way = way(&ended, from);
            assert_eq!(dropped(&way), 0, "{way:#}");
            assert!(way["forwarded"].as_u64().unwrap() >= 90, "{way:#}");
            assert!(way["latency"]["p50_ns"].as_u64().unwrap() > 100, "{way:#}");
            assert!(way["latency"]["max_ns"].as_u64() >= way["latency"]["p99_ns"].as_u64());
        }
        for interface in ["m0", "m1"] {
            let shown = cable.middle.ip(&["link", "show", interface]).unwrap();
            assert!(!shown.contains("xdp") && !shown.contains("PROMISC"), "{shown}");
        }
    }
}

#[test]
fn a_file_is_fetched_over_both_versions_of_ip_while_all_is_captured() {
    const TEST: &str = "forward::a_file_is_fetched_over_both_versions_of_ip_while_all_is_captured";
    if !require_root(TEST) || !have("curl", TEST) || !have("python3", TEST) {
        return;
    }
    let cable = Cable::new("curl", VethOptions { ipv6: true, ..VethOptions::default() });
    let captured = cable.path("all.pcapng");
    let running = cable.forward(&["-w", captured.to_str().unwrap()]);
    let (served, fetched) = (cable.path("www"), cable.path("fetched"));
    fs::create_dir(&served).unwrap();
    let contents: Vec<u8> =
        (0..3_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(served.join("file"), &contents).unwrap();
    let mut server = cable.right.command("python3");
    server.args(["-m", "http.server", "--bind", "::", "--directory", served.to_str().unwrap(), "80"]);
    let _server = Server::start(server);
    for url in ["http://192.0.2.2/file", "http://[fd00::2]/file"] {
        until_served(|| {
            let mut curl = cable.left.command("curl");
            curl.args(["-sf", "-m", "20", "-o", fetched.to_str().unwrap(), url]);
            curl
        });
        assert!(fs::read(&fetched).unwrap() == contents, "{url}");
    }
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let (there, back) = (way(&ended, "m0"), way(&ended, "m1"));
    assert!(back["bytes"].as_u64().unwrap() > 6_000_000, "{back:#}");
    assert_eq!(dropped(&there) + dropped(&back), 0, "{there:#} {back:#}");
    let forwarded = there["forwarded"].as_u64().unwrap() + back["forwarded"].as_u64().unwrap();
    assert_eq!(read(&captured).packets.len() as u64, forwarded);
    for port in ended.account().0["ports"].as_array().unwrap() {
        let queues = port["transmitted"].as_array().unwrap();
        assert!(queues.iter().all(|queue| queue["copied_bytes"] == 0), "{port:#}");
        assert!(queues.iter().any(|queue| queue["packets"].as_u64() > Some(0)), "{port:#}");
    }
}

#[test]
fn iperf3_runs_over_the_cable() {
    const TEST: &str = "forward::iperf3_runs_over_the_cable";
    if !require_root(TEST) || !have("iperf3", TEST) {
        return;
    }
    let cable = Cable::new("iperf", VethOptions { queues: 2, ..VethOptions::default() });
    let running = cable.forward(&[]);
    let mut server = cable.right.command("iperf3");
    server.args(["-s"]);
    let _server = Server::start(server);
    for arguments in [&["-P", "2"][..], &["-R"], &["-u", "-b", "20M", "-l", "1200"]] {
        let mut client = || {
            let mut client = cable.left.command("iperf3");
            client.args(["-c", "192.0.2.2", "-t", "1", "-J"]).args(arguments);
            client
        };
        // While the server is busy with the client before, the output has an error.
        let is_measured = |printed: &str| !printed.contains("\"error\":");
        let said: serde_json::Value = serde_json::from_str(&until(&mut client, is_measured)).unwrap();
        let (sums, bytes) = (&said["end"], |sum: &serde_json::Value| sum["bytes"].as_f64().unwrap_or(0.0));
        let received = if sums["sum"].is_null() { bytes(&sums["sum_received"]) } else { bytes(&sums["sum"]) };
        assert!(received > 1e6, "{arguments:?}: {sums:#}");
    }
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    for from in ["m0", "m1"] {
        let way = way(&ended, from);
        assert_eq!(dropped(&way), 0, "{way:#}");
        // The stack of a host behind a veth computes no checksums itself.
        assert!(way["checksums_completed"].as_u64().unwrap() > 100, "{way:#}");
    }
}
