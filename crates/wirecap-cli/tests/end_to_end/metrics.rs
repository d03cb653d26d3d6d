//! Metrics of running captures.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use wirecap_lab::require_root;
use wirecap_router::DropCause;
use wirecap_testing::wait_until;
use wirecap_traffic::LiveOptions;

use crate::lab::{Lab, RunningCommand, WIRECAP};

const OPEN_METRICS: &str = "Accept: application/openmetrics-text; version=1.0.0\r\n";

/// A capture of `r0` with metrics on a socket.
fn capture(lab: &Lab, arguments: &[&str]) -> (RunningCommand, PathBuf) {
    let socket = lab.path("metrics.sock");
    let address = format!("unix:{}", socket.display());
    (lab.capture(&[&["r0", "--control", "off", "--metrics", &address], arguments].concat()), socket)
}

/// The head and the body of an answer.
fn exchange(mut stream: impl Read + Write, request: &str) -> (String, String) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    (head.into(), body.into())
}

fn connect(socket: &Path) -> UnixStream {
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

fn scrape(socket: &Path, headers: &str) -> String {
    let (head, body) = exchange(connect(socket), &format!("GET /metrics HTTP/1.1\r\n{headers}\r\n"));
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    body
}

/// The sum of the samples whose lines begin like this.
fn sum(metrics: &str, name: &str) -> f64 {
    let values =
        metrics.lines().filter(|line| line.starts_with(name)).filter_map(|line| line.rsplit(' ').next());
    values.map(|value| value.parse::<f64>().unwrap()).sum()
}

#[test]
fn each_figure_of_the_account_is_a_metric() {
    if !require_root("each_figure_of_the_account_is_a_metric") {
        return;
    }
    let lab = Lab::with_queues("metrics", 2);
    let file = lab.path("x.pcapng");
    let (running, socket) = capture(&lab, &["-w", file.to_str().unwrap(), "--name", "uplink", "udp"]);
    lab.send(0, 0, 1_000, LiveOptions::default());
    wait_until("the packets are written", || {
        sum(&scrape(&socket, OPEN_METRICS), "wirecap_written_packets_total") == 1_000.0
    });
    let metrics = scrape(&socket, OPEN_METRICS);
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    for (name, expected) in [
        ("wirecap_seen_packets_total{port=\"r0\",queue=\"0\"}", 1_000.0),
        ("wirecap_seen_packets_total{port=\"r0\",queue=\"1\"}", 0.0),
        ("wirecap_delivered_packets_total", 1_000.0),
        ("wirecap_worker_packets_total", 1_000.0),
        ("wirecap_lost_packets_total", 0.0),
        ("wirecap_lost_packets_total{port=\"r0\",queue=\"1\",cause=\"rx_ring_full\"}", 0.0),
        ("wirecap_running ", 1.0),
        ("wirecap_offload_threshold_ratio ", 0.6),
    ] {
        assert!(metrics.lines().any(|line| line.starts_with(name)), "{name}: {metrics}");
        assert!((sum(&metrics, name) - expected).abs() < 1e-9, "{name}: {metrics}");
    }
    let info = "wirecap_capture_info{name=\"uplink\",command=\"capture\",ports=\"r0\"} 1";
    assert!(metrics.contains(info), "{metrics}");
    // Each family has its head.
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let family = name.trim_end_matches("_total").trim_end_matches("_info");
        for head in ["HELP", "TYPE"] {
            assert!(metrics.contains(&format!("# {head} {family} ")), "{head} {family}");
        }
    }
    promtool("metrics", &["check", "metrics"], &scrape(&socket, ""));
    running.stop().account().assert_lossless(1_000);
    assert!(!socket.exists());
}

/// Has promtool check something. `./dev` unpacks it, from the package `prometheus`, beside the programs
/// that are built.
fn promtool(what: &str, arguments: &[&str], input: &str) {
    let unpacked = Path::new(WIRECAP).ancestors().nth(2).unwrap().join("prometheus/usr/bin/promtool");
    let mut command = Command::new(if unpacked.exists() { unpacked } else { "promtool".into() });
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(cause) => {
            wirecap_lab::skip(what, &format!("promtool cannot be run: {cause}"));
            return;
        }
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{what}: {output:?}\n{input}");
}

/// Every metric that `dist/prometheus` uses exists, in a capture that produces all of them.
#[test]
fn the_rules_and_the_dashboard_use_metrics_that_exist() {
    if !require_root("the_rules_and_the_dashboard_use_metrics_that_exist") {
        return;
    }
    let lab = Lab::with_queues("dashboard", 2);
    let file = lab.path("x.pcapng");
    let (running, socket) = capture(&lab, &["-T", "0", "--workers", "2", "-w", file.to_str().unwrap()]);
    let mut sent = 0;
    // Until a buddy has helped.
    wait_until("a worker helps another one", || {
        lab.send(0, 0, 50_000, LiveOptions::default());
        sent += 50_000;
        scrape(&socket, "").contains("wirecap_offloaded_packets_total{")
    });
    let metrics = scrape(&socket, "");
    let exposed: BTreeSet<_> = metrics.lines().filter_map(|line| line.split(['{', ' ']).next()).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/prometheus");
    let mut used = BTreeSet::new();
    for file in ["wirecap.rules.yml", "wirecap-dashboard.json"] {
        let text = fs::read_to_string(root.join(file)).unwrap();
        for (at, _) in text.match_indices("wirecap_") {
            let name: String = text[at..]
                .chars()
                .take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '_')
                .collect();
            // What only `wirecap forward` has.
            let is_exposed =
                exposed.contains(name.as_str()) || name == "wirecap_forward_dropped_packets_total";
            assert!(is_exposed, "{file} uses {name}, which is not in {exposed:#?}");
            used.insert(name);
        }
    }
    assert!(used.len() > 10, "{used:?}");
    promtool("rules", &["check", "rules", root.join("wirecap.rules.yml").to_str().unwrap()], "");
    running.stop();
}

/// Of three captures, one cannot be reached, one neither starts nor ends, and one captures.
const DOWN: &str = r#"
evaluation_interval: 30s
tests:
  - interval: 30s
    input_series:
      - { series: 'up{job="wirecap",instance="gone"}', values: '0x10' }
      - { series: 'up{job="wirecap",instance="ending"}', values: '1x10' }
      - { series: 'wirecap_running{job="wirecap",instance="ending"}', values: '0x10' }
      - { series: 'up{job="wirecap",instance="well"}', values: '1x10' }
      - { series: 'wirecap_running{job="wirecap",instance="well"}', values: '1x10' }
    promql_expr_test:
      - expr: count by (instance) (ALERTS{alertname="WirecapDown",alertstate="firing"})
        eval_time: 3m
        exp_samples:
          - { labels: '{instance="gone"}', value: 1 }
          - { labels: '{instance="ending"}', value: 1 }
"#;

#[test]
fn an_alert_notices_a_capture_that_is_down() {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/prometheus/wirecap.rules.yml");
    let rules = rules.canonicalize().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let test = directory.path().join("test.yml");
    fs::write(&test, format!("rule_files: [{}]\n{DOWN}", rules.display())).unwrap();
    promtool("an_alert_notices_a_capture_that_is_down", &["test", "rules", test.to_str().unwrap()], "");
}

#[test]
fn an_alert_has_each_cause_of_a_loss_in_forwarding() {
    let rules = include_str!("../../../../dist/prometheus/wirecap.rules.yml");
    let (_, rest) = rules.split_once("wirecap_forward_dropped_packets_total{cause=~\"").unwrap();
    let causes: BTreeSet<_> = rest.split('"').next().unwrap().split('|').collect();
    let losses = DropCause::ALL.into_iter().filter(|cause| cause.is_loss());
    assert_eq!(causes, losses.map(DropCause::name).collect());
}

#[test]
fn the_book_has_metrics_that_exist() {
    let book = include_str!("../../../../docs/book/metrics.md");
    let sources = include_str!("../../src/metrics/families.rs");
    for name in book.split('`').filter(|name| name.starts_with("wirecap_") && !name.contains(' ')) {
        let stem = name.trim_start_matches("wirecap_").trim_end_matches("_total").trim_end_matches("_info");
        let units = ["_packets", "_bytes", "_ratio", "_seconds", ""];
        let is_known = |unit: &&str| {
            stem.strip_suffix(*unit).is_some_and(|stem| sources.contains(&format!("\"{stem}\"")))
        };
        assert!(units.iter().any(is_known), "{name}");
    }
}

#[test]
fn requests_that_are_no_scrapes_are_refused_and_hold_nobody_up() {
    if !require_root("requests_that_are_no_scrapes_are_refused_and_hold_nobody_up") {
        return;
    }
    let lab = Lab::with_queues("http", 1);
    let (running, socket) = capture(&lab, &[]);
    // Half a request, a slow one, and a client that does not read: none of them ends here.
    let half: Vec<_> = (0..100)
        .map(|_| {
            let mut stream = connect(&socket);
            let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: ");
            stream
        })
        .collect();
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "404 Not Found"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
        ("GET /metrics HTTP/3\r\n\r\n", "505 HTTP Version Not Supported"),
        ("\u{16}\u{3}\u{1}\r\n\r\n", "400 Bad Request"),
    ] {
        let (head, _) = exchange(connect(&socket), request);
        assert!(head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request:?}: {head}");
    }
    let (head, body) = exchange(connect(&socket), "HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK") && body.is_empty(), "{head}");
    let mut long = connect(&socket);
    // The server closes before it has read everything.
    let _ = long.write_all(&[b'a'; 64 << 10]);
    let mut bytes = [0; 12];
    long.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"HTTP/1.1 431");
    drop(half);
    running.stop().account().assert_lossless(0);
}

#[test]
fn curl_scrapes_a_tcp_address_and_a_busy_one_is_an_error_before_the_start() {
    if !require_root("curl_scrapes_a_tcp_address_and_a_busy_one_is_an_error_before_the_start") {
        return;
    }
    let lab = Lab::with_queues("tcp", 1);
    let up = lab.right.command("ip").args(["link", "set", "lo", "up"]).status().unwrap();
    assert!(up.success());
    let running = lab.capture(&["r0", "--control", "off", "--metrics", "9417"]);
    let scraped = lab.right.command("curl").args(["-sSf", "http://127.0.0.1:9417/metrics"]).output().unwrap();
    assert!(scraped.status.success(), "{scraped:?}");
    assert!(String::from_utf8(scraped.stdout).unwrap().contains("wirecap_seen_packets_total{"));
    let busy = lab.spawn(&["capture", "r0", "--control", "off", "--metrics", "9417"]).wait();
    assert!(
        busy.code == Some(1) && busy.stderr.contains("cannot serve metrics on 127.0.0.1:9417"),
        "{busy:#?}"
    );
    assert!(busy.stderr.contains("choose another port") && !busy.stderr.contains("M = "), "{busy:#?}");
    let wrong = lab.spawn(&["capture", "r0", "--metrics", "nowhere"]).wait();
    assert!(wrong.code == Some(2) && wrong.stderr.contains("write a loopback port"), "{wrong:#?}");
    // Clients that only connect end with the capture.
    let idle = lab.right.enter(|| TcpStream::connect("127.0.0.1:9417").unwrap());
    running.stop().account().assert_lossless(0);
    drop(idle);
}
