//! Traces whose packets have no times.

use std::{fs, process::Command};

use serde_json::Value;
use wirecap_lab::trace_bytes::{Order, SPB, pad};

use super::frame;
use crate::lab::WIRECAP;

#[test]
fn packets_without_a_time_are_in_the_shares_and_named() {
    let directory = tempfile::tempdir().unwrap();
    let (order, path) = (Order::Little, directory.path().join("simple.pcapng"));
    let mut bytes = [order.section(&[]), order.interface(1, 0, &[])].concat();
    for number in 0..30 {
        let data = frame(number % 3);
        bytes.extend(order.block(SPB, &[order.u32(data.len() as u32), pad(&data)]));
    }
    fs::write(&path, bytes).unwrap();
    let profile = |arguments: &[&str]| {
        let mut command = Command::new(WIRECAP);
        command.args(["profile", &format!("trace:{}", path.display()), "--queues", "4"]).args(arguments);
        let ended = command.output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
        String::from_utf8(ended.stdout).unwrap()
    };
    let said = profile(&[]);
    assert!(said.contains("the trace has no time for 30 packets: the bin of 1970 has them"), "{said}");
    let record: Value = serde_json::from_str(&profile(&["--json"])).unwrap();
    assert_eq!((&record["profile"]["untimed"], &record["profile"]["packets"]), (&30.into(), &30.into()));
}
