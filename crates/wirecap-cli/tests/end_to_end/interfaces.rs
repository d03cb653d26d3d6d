//! `wirecap interfaces`.

use serde_json::Value;
use wirecap_lab::{VethOptions, require_root};
use wirecap_testing::kernel_is_at_least;

use crate::lab::Lab;

#[test]
fn interfaces_are_listed_with_their_use_of_xdp_and_its_holders() {
    if !require_root("interfaces_are_listed_with_their_use_of_xdp_and_its_holders") {
        return;
    }
    let options =
        VethOptions { queues: 3, addresses_b: vec!["192.0.2.1/24".into()], ..VethOptions::default() };
    let lab = Lab::new("listed", &[options]);
    lab.pairs[0].b().set_channels(2, 2).unwrap();
    lab.pairs[0].a().set_channels(2, 2).unwrap();
    lab.right.ip(&["link", "property", "add", "dev", "r0", "altname", "the-port-of-the-monitor"]).unwrap();
    let list = || -> Value {
        let ended = lab.spawn(&["interfaces", "--json"]).wait();
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
        serde_json::from_slice(&ended.stdout).unwrap()
    };
    let free = list();
    assert_eq!(free.as_array().unwrap().len(), 2, "lo and r0: {free:#}");
    let r0 = &free[1];
    assert_eq!((&r0["name"], &r0["driver"], &r0["state"]), (&"r0".into(), &"veth".into(), &"up".into()));
    assert_eq!((&r0["queues"], &r0["queues_max"], &r0["mtu"]), (&2.into(), &3.into(), &1500.into()));
    assert_eq!(r0["addresses"], serde_json::json!(["192.0.2.1/24"]));
    assert_eq!(r0["holders"], serde_json::json!([]));
    assert_eq!(r0["captured_over"], if kernel_is_at_least(6, 6) { "tap" } else { "packet" });
    assert_eq!(r0["left_to_host"], "the host uses it (address 192.0.2.1/24)");
    assert_eq!(r0["host_use"], serde_json::json!([{ "kind": "address", "address": "192.0.2.1/24" }]));
    assert_eq!(r0["no_hardware_timestamps"], "its driver stamps by software only");
    assert_eq!(r0["alternative_names"], serde_json::json!(["the-port-of-the-monitor"]));

    let named = lab.spawn(&["interfaces", "the-port-of-the-monitor", "--json"]).wait();
    let named: Value = serde_json::from_slice(&named.stdout).unwrap();
    assert_eq!(named, serde_json::json!([r0]));
    let missing = lab.spawn(&["interfaces", "r9"]).wait();
    assert!(missing.code == Some(1) && missing.stderr.contains("\"r9\""), "{missing:#?}");

    let misspelt = lab.spawn(&["capture", "the-port-of-a-monitor"]).wait();
    assert!(misspelt.stderr.contains("did you mean \"the-port-of-the-monitor\"?"), "{misspelt:#?}");
    let running = lab.capture(&["xdp:the-port-of-the-monitor"]);
    let held = list();
    let holder = &held[1]["holders"][0];
    assert_eq!(holder["mode"], "native", "{held:#}");
    assert!(holder["program"].as_str().unwrap().starts_with("wirecap"), "{holder:#}");
    assert_eq!(holder["processes"], serde_json::json!([{ "pid": running.pid(), "name": "wirecap" }]));
    let table = String::from_utf8(lab.spawn(&["interfaces"]).wait().stdout).unwrap();
    assert!(table.contains(&format!("by wirecap (pid {})", running.pid())), "{table}");
    assert!(table.lines().next().unwrap().starts_with("name"), "{table}");
    running.stop().account();
}
