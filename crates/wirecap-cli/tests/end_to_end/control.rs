//! The control of running captures by other processes.

use std::{
    collections::VecDeque,
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::Path,
    process::{Command, Output},
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use wirecap_lab::require_root;
use wirecap_testing::wait_until;
use wirecap_traffic::{LiveOptions, Marks};

use crate::lab::{Lab, READY, RunningCommand, WIRECAP, install, read};

/// Runs a command for captures.
fn wirecap(arguments: &[&str]) -> Output {
    Command::new(WIRECAP).args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A capture of `r0` with a socket in the directory of the laboratory.
fn capture(lab: &Lab, arguments: &[&str]) -> (RunningCommand, String) {
    let socket = lab.path("control.sock");
    let socket = socket.to_str().unwrap();
    (lab.capture(&[&["r0", "--control", socket], arguments].concat()), socket.into())
}

/// A connection to a control socket.
struct Client(BufReader<UnixStream>);

impl Client {
    fn connect(socket: &str) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self(BufReader::new(stream))
    }

    fn ask(&mut self, mut request: Value) -> Value {
        request["protocol"] = 1.into();
        self.0.get_mut().write_all(format!("{request}\n").as_bytes()).unwrap();
        self.answer()
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        assert_eq!(answer["protocol"], 1, "{answer}");
        answer
    }
}

#[test]
fn a_capture_whose_name_another_one_has_warns() {
    if !require_root("a_capture_whose_name_another_one_has_warns") {
        return;
    }
    let lab = Lab::with_queues("twonames", 2);
    let name = format!("twonames-{}", std::process::id());
    let first = lab.capture(&["r0@0", "--name", &name]);
    let second = lab.capture(&["r0@1", "--name", &name]);
    let words = format!("the capture of process {} is named {name}, too", first.pid());
    assert!(second.said().contains(&words), "{}", second.said());
    let refused = wirecap(&["stop", &name]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains(&second.pid().to_string()), "{refused:?}");
    let third = lab.spawn(&["capture", "r0@7", "--name", &format!("{name}-3")]).wait();
    assert!(!third.stderr.contains("is named"), "{third:#?}");
    assert!(!first.stop().stderr.contains("is named"));
    second.stop();
}

#[test]
fn a_capture_is_listed_described_and_stopped_by_pid_name_and_path() {
    if !require_root("a_capture_is_listed_described_and_stopped_by_pid_name_and_path") {
        return;
    }
    let lab = Lab::with_queues("status", 2);
    let name = format!("status-{}", std::process::id());
    let file = lab.path("x.pcapng");
    // In the usual place.
    let running = lab.capture(&["r0", "--name", &name, "-w", file.to_str().unwrap()]);
    lab.send(0, 0, 1_000, LiveOptions::default());
    let pid = running.pid().to_string();
    let socket = format!("/run/wirecap/{pid}.sock");
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o660);
    wait_until("the packets are counted", || {
        let listed: Value = serde_json::from_str(&stdout(&wirecap(&["status", "--json"]))).unwrap();
        let own = listed.as_array().unwrap().iter().find(|one| one["pid"] == running.pid()).cloned();
        own.is_some_and(|own| {
            assert_eq!((&own["name"], &own["command"]), (&json!(name), &json!("capture")), "{own}");
            assert_eq!(
                (&own["state"], &own["ports"], &own["lost"]),
                (&json!("running"), &json!(["r0"]), &json!(0))
            );
            assert_eq!((&own["socket"], &own["output"]), (&json!(socket), &json!(file.to_str().unwrap())));
            own["delivered"] == 1_000
        })
    });
    let listed = stdout(&wirecap(&["status"]));
    assert!(listed.lines().any(|line| line.contains(&pid) && line.contains(&name)), "{listed}");
    for target in [&pid, &name, &socket] {
        let account = wirecap(&["status", target]);
        let text = stdout(&account);
        assert!(
            text.starts_with("port") && text.contains("1000 packets in "),
            "{target}: {text}{}",
            stderr(&account)
        );
    }
    let record: Value = serde_json::from_str(&stdout(&wirecap(&["status", &name, "--json"]))).unwrap();
    let schema = include_str!("../../../../docs/schemas/capture.json");
    let schema: Value = serde_json::from_str(schema).unwrap();
    assert_eq!(wirecap_testing::schema::mistakes(&schema, &record), Vec::<String>::new());
    assert_eq!((&record["name"], &record["end"]), (&json!(name), &Value::Null));

    let stopped = wirecap(&["stop", &name]);
    assert_eq!(stopped.status.code(), Some(0), "{stopped:?}");
    let words = format!("the capture has ended with exit code 0; 1000 packets in {}\n", file.display());
    assert_eq!(stdout(&stopped), words);
    let ended = running.wait();
    let account = ended.account();
    account.assert_lossless(1_000);
    assert_eq!((ended.code, &account.0["end"]), (Some(0), &json!("stop")));
    assert!(!Path::new(&socket).exists());
    let gone = wirecap(&["stop", &pid]);
    assert!(
        gone.status.code() == Some(1)
            && stderr(&gone).contains("no capture that wirecap status lists has process id"),
        "{gone:?}"
    );
}

#[test]
fn a_capture_that_hangs_does_not_hold_clients_up() {
    if !require_root("a_capture_that_hangs_does_not_hold_clients_up") {
        return;
    }
    let lab = Lab::with_queues("hangs", 1);
    let socket = lab.path("control.sock");
    let socket = socket.to_str().unwrap();
    let running = lab.capture(&["r0", "--control", socket]);
    running.signal(Signal::SIGSTOP);
    let begun = Instant::now();
    let stopped = wirecap(&["stop", socket, "--timeout", "500ms"]);
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(4), "{took:?}");
    let words = format!("wirecap: the capture of {socket} does not answer\n");
    assert_eq!((stopped.status.code(), stderr(&stopped)), (Some(1), words));
    let status = wirecap(&["status", socket]);
    assert!(status.status.code() == Some(1) && stderr(&status).contains("does not answer"), "{status:?}");
    running.signal(Signal::SIGCONT);
    // It has got the request.
    let ended = running.wait();
    let by = "wirecap: stopped by user 0, process ";
    assert!(ended.code == Some(0) && ended.stderr.contains(by), "{ended:#?}");
}

#[test]
fn stopping_waits_for_a_slow_output_and_gives_the_code_of_the_capture() {
    if !require_root("stopping_waits_for_a_slow_output_and_gives_the_code_of_the_capture") {
        return;
    }
    let lab = Lab::with_queues("slowstop", 1);
    let socket = lab.path("control.sock");
    let mut command = lab.right.command(WIRECAP);
    command.args(["capture", "r0", "--json", "-w", "-", "--control"]).arg(&socket);
    let mut running = RunningCommand::spawn_unread(command);
    running.wait_for(READY);
    lab.send(0, 0, 10_000, LiveOptions::default());
    let unread = running.take_stdout();
    let socket = socket.to_str().unwrap();
    let late = wirecap(&["stop", socket, "--timeout", "500ms"]);
    assert!(late.status.code() == Some(1) && stderr(&late).contains("still writes"), "{late:?}");
    let mut client = Client::connect(socket);
    assert_eq!(client.ask(json!({ "request": "status" }))["state"], "ending");
    assert_eq!(client.ask(json!({ "request": "rotate" }))["code"], "ending");
    assert_eq!(client.ask(json!({ "request": "account" }))["account"]["end"], Value::Null);
    // Its reader goes: the capture fails, and so does a `wirecap stop` that waits for it.
    let waiting = std::thread::spawn({
        let socket = socket.to_owned();
        move || wirecap(&["stop", &socket])
    });
    std::thread::sleep(Duration::from_millis(200));
    drop(unread);
    let stopped = waiting.join().unwrap();
    assert_eq!(stopped.status.code(), Some(1), "{stopped:?}");
    assert!(
        stdout(&stopped).contains("exit code 1: ") && stdout(&stopped).contains("broken pipe"),
        "{stopped:?}"
    );
    assert_eq!(running.wait().code, Some(1));
}

#[test]
fn a_rotation_divides_the_packets_at_its_time_and_names_the_complete_file() {
    if !require_root("a_rotation_divides_the_packets_at_its_time_and_names_the_complete_file") {
        return;
    }
    let lab = Lab::with_queues("rotate", 2);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("x.pcapng");
    let (running, socket) = capture(&lab, &["-w", file.to_str().unwrap(), "-C", "100M"]);
    let path = |number: u32| directory.path().join(format!("x_{number:05}.pcapng"));
    // In silence, and while packets come.
    lab.send(0, 0, 1_000, LiveOptions::default());
    let words = |number: u32, packets: &str| {
        format!(
            "{} is complete with {packets}; {} follows\n",
            path(number).display(),
            path(number + 1).display()
        )
    };
    let rotated = wirecap(&["rotate", &socket]);
    assert_eq!(stdout(&rotated), words(1, "1000 packets"), "{rotated:?}");
    assert_eq!(read(&path(1)).packets.len(), 1_000);
    assert_eq!(stdout(&wirecap(&["rotate", &socket])), words(2, "0 packets"));
    let rotated = std::thread::scope(|scope| {
        scope.spawn(|| lab.send_at(Some(20_000), 0, 0, 60_000, LiveOptions::default()));
        let mut client = Client::connect(&socket);
        let mut seen = || {
            let account = client.ask(json!({ "request": "account" }));
            let queues = account["account"]["ports"][0]["queues"].as_array().unwrap();
            queues.iter().map(|queue| queue["seen"].as_u64().unwrap()).sum::<u64>()
        };
        while seen() < 3_000 {
            std::thread::sleep(Duration::from_millis(10));
        }
        wirecap(&["rotate", &socket])
    });
    assert_eq!(rotated.status.code(), Some(0), "{rotated:?}");
    let ended = running.stop();
    let account = ended.account();
    account.assert_lossless(61_000);
    assert_eq!((account.written("packets"), account.written("output_files")), (61_000, 4));
    let (before, after) = (read(&path(3)).packets, read(&path(4)).packets);
    assert!(!before.is_empty() && !after.is_empty(), "{} {}", before.len(), after.len());
    let sequences = before.iter().chain(&after).map(|packet| Marks::read(&packet.data).unwrap().sequence);
    assert!(sequences.eq(0..60_000), "none is lost or doubled, and all are in order");
    let newest = before.iter().filter_map(|packet| packet.timestamp_ns).max();
    assert!(newest < after[0].timestamp_ns, "{newest:?}");
}

#[test]
fn without_a_series_a_rotation_is_refused_with_what_to_do() {
    if !require_root("without_a_series_a_rotation_is_refused_with_what_to_do") {
        return;
    }
    let lab = Lab::with_queues("noseries", 1);
    let file = lab.path("x.pcapng");
    // Nothing is written, or one file that ends at a size.
    for arguments in [&[][..], &["-w", file.to_str().unwrap(), "-a", "filesize:100M"]] {
        let (running, socket) = capture(&lab, arguments);
        let refused = wirecap(&["rotate", &socket]);
        assert!(
            refused.status.code() == Some(1) && stderr(&refused).contains("start it with -C SIZE"),
            "{refused:?}"
        );
        let account = running.stop().account();
        account.assert_lossless(0);
        assert_eq!(account.0["end"], "signal");
    }
}

#[test]
fn a_threshold_is_changed_printed_and_in_the_account() {
    if !require_root("a_threshold_is_changed_printed_and_in_the_account") {
        return;
    }
    let lab = Lab::with_queues("set", 2);
    for dispatch in ["pull", "push"] {
        let (running, socket) = capture(&lab, &["-T", "60", "--dispatch", dispatch]);
        let set = wirecap(&["set", &socket, "-T", "40"]);
        assert_eq!(stdout(&set), "threshold_percent is 40; it was 60\n", "{set:?}");
        running.wait_for("wirecap: T is now 40 %; it was 60 % (set by user 0, process ");
        let mut client = Client::connect(&socket);
        assert_eq!(client.ask(json!({ "request": "status" }))["threshold_percent"], 40);
        let refused = client.ask(json!({ "request": "set", "settings": { "workers": 3 } }));
        assert_eq!(
            (&refused["reply"], &refused["code"]),
            (&json!("error"), &json!("fixed_setting")),
            "{refused}"
        );
        // Over at once.
        let set = wirecap(&["set", &socket, "--duration", "1ms"]);
        assert_eq!(stdout(&set), "duration_ms is 1; it was not set\n", "{set:?}");
        let account = running.wait().account().0;
        assert_eq!((&account["end"], &account["threshold_percent"]), (&json!("duration"), &json!(40)));
        let changes = account["changes"].as_array().unwrap();
        assert_eq!((changes.len(), &changes[0]["before"], &changes[0]["after"]), (2, &json!(60), &json!(40)));
        assert_eq!(changes[0]["uid"], 0);
    }
    let (running, socket) = capture(&lab, &["--mode", "basic"]);
    let refused = wirecap(&["set", &socket, "-T", "40"]);
    assert!(
        refused.status.code() == Some(1) && stderr(&refused).contains("no T in basic mode"),
        "{refused:?}"
    );
    running.stop();
    let nothing = wirecap(&["set", "1"]);
    assert_eq!(nothing.status.code(), Some(2), "{nothing:?}");
}

#[test]
fn reports_follow_each_other_until_the_end() {
    if !require_root("reports_follow_each_other_until_the_end") {
        return;
    }
    let lab = Lab::with_queues("watch", 2);
    let (running, socket) = capture(&lab, &[]);
    let mut client = Client::connect(&socket);
    let begun = Instant::now();
    let first = client.ask(json!({ "request": "watch", "interval_ms": 200 }));
    assert_eq!((&first["reply"], &first["sequence"]), (&json!("report"), &json!(0)), "{first}");
    lab.send(0, 0, 1_000, LiveOptions::default());
    let mut sequence = 0;
    let counted = loop {
        let report = client.answer();
        sequence += 1;
        assert_eq!(report["sequence"], sequence, "{report}");
        assert!(
            report["offloads"].is_array() && report["account"]["ports"][0]["queues"].is_array(),
            "{report}"
        );
        if report["status"]["delivered"] == 1_000 {
            break report;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{report}");
    };
    assert!(begun.elapsed() >= Duration::from_millis(150) * sequence as u32, "{counted}");
    assert_eq!(wirecap(&["stop", &socket]).status.code(), Some(0));
    let ended = loop {
        let answer = client.answer();
        if answer["reply"] != "report" {
            break answer;
        }
    };
    assert_eq!(
        (&ended["reply"], &ended["exit_code"], &ended["end"]),
        (&json!("ended"), &json!(0), &json!("stop"))
    );
    running.wait().account().assert_lossless(1_000);
}

/// Clients of every bad kind, while packets come at a rate that one core just sends.
#[test]
fn hostile_clients_do_not_disturb_a_capture_or_others() {
    if !require_root("hostile_clients_do_not_disturb_a_capture_or_others") {
        return;
    }
    const FRAMES: u64 = 300_000;
    let lab = Lab::with_queues("hostile", 1);
    let (running, socket) =
        capture(&lab, &["-R", "1024", "--metrics", &format!("unix:{}.metrics", lab.path("m").display())]);
    // A thousand, of which 300 stay open: a process has a limit on open files.
    let mut idle = VecDeque::new();
    for _ in 0..1_000 {
        idle.push_back(UnixStream::connect(&socket).unwrap());
        idle.truncate(300);
    }
    let mut silent = Client::connect(&socket);
    let line = json!({ "protocol": 1, "request": "watch", "interval_ms": 100 }).to_string() + "\n";
    // Never read.
    silent.0.get_mut().write_all(line.as_bytes()).unwrap();
    let mut garbage = UnixStream::connect(&socket).unwrap();
    let _ = garbage.write_all(&[0xff; 100_000]);
    std::thread::scope(|scope| {
        scope.spawn(|| lab.send_at(Some(100_000), 0, 0, FRAMES, LiveOptions::default()));
        for _ in 0..20 {
            let begun = Instant::now();
            let status = wirecap(&["status", &socket]);
            assert_eq!(status.status.code(), Some(0), "{status:?}");
            assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        }
        for line in [
            "\n",
            "{}\n",
            "null\n",
            "{\"protocol\":1,\"request\":\"set\",\"settings\":{\"threshold_percent\":1e99}}\n",
        ] {
            let mut client = Client::connect(&socket);
            client.0.get_mut().write_all(line.as_bytes()).unwrap();
            assert_eq!(client.answer()["reply"], "error", "{line}");
        }
    });
    drop(idle);
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    ended.account().assert_lossless(FRAMES);
    assert!(!ended.stderr.contains("WARNING"), "{}", ended.stderr);
}

/// With its own path: other tests start captures, which remove left-over sockets in the usual place.
#[test]
fn a_socket_of_a_killed_capture_is_recognised_and_replaced_by_the_next() {
    if !require_root("a_socket_of_a_killed_capture_is_recognised_and_replaced_by_the_next") {
        return;
    }
    let lab = Lab::with_queues("leftover", 1);
    let (killed, socket) = capture(&lab, &[]);
    killed.kill();
    assert!(Path::new(&socket).exists());
    let asked = wirecap(&["status", &socket]);
    assert!(asked.status.code() == Some(1) && stderr(&asked).contains("was killed"), "{asked:?}");
    let (next, socket) = capture(&lab, &[]);
    assert_eq!(wirecap(&["status", &socket]).status.code(), Some(0));
    next.stop().account().assert_lossless(0);
    assert!(!Path::new(&socket).exists());
}

#[test]
fn other_users_are_kept_out_and_those_let_in_may_only_ask() {
    if !require_root("other_users_are_kept_out_and_those_let_in_may_only_ask") {
        return;
    }
    let lab = Lab::with_queues("users", 1);
    let directory = tempfile::tempdir().unwrap();
    // A copy that another user may execute, in a directory that it may search.
    let program = directory.path().join("wirecap");
    install(WIRECAP, &program);
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let socket = directory.path().join("control.sock");
    let socket = socket.to_str().unwrap();
    let running = lab.capture(&["r0", "--control", socket]);
    let as_nobody = |arguments: &[&str]| {
        let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
        Command::new("setpriv").args(nobody).arg(&program).args(arguments).output().unwrap()
    };
    let refused = as_nobody(&["status", socket]);
    assert!(refused.status.code() == Some(1) && stderr(&refused).contains("may not connect"), "{refused:?}");
    fs::set_permissions(socket, fs::Permissions::from_mode(0o666)).unwrap();
    let asked = as_nobody(&["status", socket]);
    assert_eq!(asked.status.code(), Some(0), "{asked:?}");
    for arguments in [&["stop", socket][..], &["set", socket, "-T", "1"], &["rotate", socket]] {
        let refused = as_nobody(arguments);
        assert!(
            refused.status.code() == Some(1) && stderr(&refused).contains("user 65534 may not change"),
            "{refused:?}"
        );
    }
    let ended = running.stop();
    assert_eq!((ended.code, ended.account().0["threshold_percent"].clone()), (Some(0), json!(60)));
}

#[test]
fn a_capture_without_a_socket_runs_and_one_whose_socket_cannot_be_made_does_not() {
    if !require_root("a_capture_without_a_socket_runs_and_one_whose_socket_cannot_be_made_does_not") {
        return;
    }
    let lab = Lab::with_queues("nosocket", 1);
    let running = lab.capture(&["r0", "--control", "off"]);
    assert!(!Path::new(&format!("/run/wirecap/{}.sock", running.pid())).exists());
    running.stop();
    let failed = lab.spawn(&["capture", "r0", "--control", "/nowhere/control.sock"]).wait();
    let words = "wirecap: cannot make the socket /nowhere/control.sock: No such file or directory (os error 2); \
                 make the directory first: mkdir -p /nowhere";
    assert_eq!((failed.code, failed.stderr.as_str()), (Some(1), words));
    let long = lab.path(&"a".repeat(90));
    let failed = lab.spawn(&["capture", "r0", "--control", long.to_str().unwrap()]).wait();
    assert!(failed.code == Some(1) && failed.stderr.ends_with("; choose a shorter name"), "{failed:#?}");
    let refused = lab.spawn(&["capture", "r0", "--control", "of"]).wait();
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    // Two of one name: the second one does not start.
    let (first, socket) = capture(&lab, &[]);
    let second = lab.spawn(&["capture", "r0", "--control", &socket]).wait();
    assert!(second.code == Some(1) && second.stderr.contains("of another program that runs"), "{second:#?}");
    first.signal(Signal::SIGINT);
    assert_eq!(first.wait().code, Some(0));
}

#[test]
fn a_client_that_asks_for_the_end_and_leaves_has_asked_for_it() {
    if !require_root("a_client_that_asks_for_the_end_and_leaves_has_asked_for_it") {
        return;
    }
    let lab = Lab::with_queues("leaves", 1);
    let (running, socket) = capture(&lab, &[]);
    let mut client = UnixStream::connect(&socket).unwrap();
    client.write_all(b"{\"protocol\":1,\"request\":\"stop\"}\n").unwrap();
    drop(client);
    assert_eq!(running.wait().account().0["end"], "stop");
}
