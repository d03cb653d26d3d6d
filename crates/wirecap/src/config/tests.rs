//! Every setting is read back from its text; invalid settings are refused.

use std::{
    fmt::{Debug, Display},
    str::FromStr,
};

use super::*;
use crate::Error;

/// Each name yields its value, as text and in serde's form.
fn check_names<T>()
where
    T: Choice + Debug + Display + FromStr<Err = UnknownName> + Serialize + for<'de> Deserialize<'de>,
{
    for NamedValue { value, name, explanation } in T::ALL {
        assert_eq!(name.parse::<T>().as_ref(), Ok(value));
        assert_eq!(value.to_string(), *name);
        assert_eq!(serde_json::to_value(value).unwrap(), *name);
        assert_eq!(serde_json::from_value::<T>((*name).into()).unwrap(), *value);
        assert!(explanation.ends_with('.') && explanation.starts_with(char::is_uppercase), "{explanation}");
        let misspelt = format!("{name}x").parse::<T>().unwrap_err();
        assert_eq!(misspelt.names.len(), T::ALL.len());
        assert!(misspelt.nearest.is_some() || name.len() < 3, "{misspelt}");
    }
}

#[test]
fn every_name_is_read_back() {
    check_names::<Dispatch>();
    check_names::<Homes>();
    check_names::<Reach>();
    check_names::<UnmatchedPolicy>();
    check_names::<Rss>();
    check_names::<Modes>();
    check_names::<Wait>();
    check_names::<Timestamp>();
    check_names::<Fanout>();
}

#[test]
fn sizes_of_pools_are_read_back() {
    for (text, size) in [
        ("at-most:128", PoolSize::AtMost(128)),
        ("chunks:1", PoolSize::Chunks(1)),
        ("memory:512M", PoolSize::Memory(512 << 20)),
        ("memory:1025K", PoolSize::Memory(1025 << 10)),
        ("memory:4097", PoolSize::Memory(4097)),
        ("memory:3T", PoolSize::Memory(3 << 40)),
    ] {
        assert_eq!((text.parse(), size.to_string().as_str()), (Ok(size), text));
    }
    for (text, bytes) in [("1.5G", 3 << 29), ("64k", 64 << 10), ("512MiB", 512 << 20)] {
        assert_eq!(format!("memory:{text}").parse(), Ok(PoolSize::Memory(bytes)), "{text}");
    }
    for bad in
        ["", "128", "chunks:", "chunks:-1", "memory:0M", "memory:-5", "memory:.5G", "memory:1.G", "most:3"]
    {
        assert!(bad.parse::<PoolSize>().unwrap_err().to_string().contains("memory:2G"), "{bad}");
    }
    assert_eq!(parse_bytes("99999999999T"), None);
}

#[test]
fn ports_are_read_back_from_their_text() {
    for text in
        ["eth1", "xdp:eth1", "packet:eth1", "tap:eth1", "eth1@2", "xdp:eth1@0-3,6", "trace:a.pcap", "trace:-"]
    {
        let port: PortSpec = text.parse().unwrap();
        assert_eq!((port.to_string().as_str(), &port), (text, &PortSpec::from(text)));
        assert_eq!(serde_json::from_value::<PortSpec>(text.into()).unwrap(), port);
        assert_eq!(serde_json::to_value(&port).unwrap(), text);
    }
    for (text, words) in
        [("", "names no port"), ("xdp:", "names no port"), ("dpdk:eth1", "begins with dpdk:")]
    {
        assert!(text.parse::<PortSpec>().unwrap_err().to_string().contains(words), "{text}");
    }
    let null = PortSpec::from(NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 0 });
    assert!(serde_json::to_value(&null).unwrap_err().to_string().contains("null cannot be written down"));
}

/// Settings that differ from the default in every field.
fn unusual() -> Config {
    Config {
        ports: vec!["xdp:eth1@0-3".into(), "trace:a.pcap".into()],
        filter: Some("tcp port 443".into()),
        excluded: None,
        unmatched: Some(UnmatchedPolicy::Drop),
        mode: Mode::Basic,
        dispatch: Dispatch::Push,
        grouping: Grouping::Sets(vec![vec![0, 1], vec![2]]),
        homes: Homes::ByQueue,
        cells_per_chunk: 64,
        pool_size: PoolSize::Memory(1 << 30),
        cell_bytes: 4096,
        ring_entries: Some(1024),
        workers: Some(3),
        worker_cores: vec![0, 2],
        wait: Wait::Block,
        capture_threads: 2,
        capture_cores: vec![1],
        xdp_mode: Modes::Copy,
        promiscuous: false,
        rss: Rss::Symmetric,
        fanout: Some(Fanout::Cpu),
        tap_hook: TapHook::Xdp,
        timestamp: Some(Timestamp::Kernel),
        stamp_packets: true,
        rx_hash: true,
        keep_packets: true,
        readable_in_children: true,
        transmit_entries: 512,
        allocators: 1,
        reach: Reach::Worker,
    }
}

#[test]
fn settings_are_read_back_and_missing_ones_get_their_default() {
    for config in [Config::default(), unusual()] {
        let json = serde_json::to_value(&config).unwrap();
        assert_eq!(serde_json::from_value::<Config>(json).unwrap(), config);
    }
    let (usual, unusual) = (serde_json::to_value(Config::default()).unwrap(), unusual());
    for (key, value) in serde_json::to_value(&unusual).unwrap().as_object().unwrap() {
        assert_ne!(usual[key], *value, "{key}");
        let one =
            serde_json::from_value::<Config>([(key.clone(), value.clone())].into_iter().collect()).unwrap();
        let changed: Vec<_> = serde_json::to_value(one)
            .unwrap()
            .as_object()
            .unwrap()
            .iter()
            .filter(|(key, value)| usual[*key] != **value)
            .map(|(key, _)| key.clone())
            .collect();
        assert_eq!(changed, std::slice::from_ref(key));
    }
    let unknown = serde_json::from_str::<Config>(r#"{"cells": 3}"#).unwrap_err().to_string();
    assert!(unknown.contains("unknown field `cells`"), "{unknown}");
}

#[test]
fn impossible_settings_are_refused() {
    let with = |change: fn(&mut Config)| {
        let mut config = Config { ports: vec!["eth1".into()], ..Config::default() };
        change(&mut config);
        config.check()
    };
    assert!(with(|_| ()).is_ok() && unusual().check().is_ok());
    assert!(matches!(with(|config| config.ports.clear()), Err(Error::NoPort)));
    let twice = with(|config| config.ports.push("xdp:eth1@3".into()));
    assert!(matches!(twice, Err(Error::PortTwice(name)) if name == "eth1@3"));
    assert!(with(|config| config.ports = vec!["eth1@0".into(), "eth1@1".into()]).is_ok());
    assert!(matches!(with(|config| config.workers = Some(0)), Err(Error::NoWorker)));
    assert!(matches!(with(|config| config.cells_per_chunk = 100), Err(Error::Geometry(_))));
    assert!(matches!(with(|config| config.pool_size = PoolSize::Chunks(0)), Err(Error::Geometry(_))));
    let little = with(|config| config.pool_size = PoolSize::Memory(32));
    assert!(matches!(little, Err(Error::LittleMemory { bytes: 32, least: 524_288 })), "{little:?}");
    assert!(matches!(with(|config| config.ring_entries = Some(1000)), Err(Error::Geometry(_))));
    assert!(matches!(
        with(|config| config.allocators = u16::MAX),
        Err(Error::TooMany { what: "allocators", .. })
    ));
    let many = (0..5_000).map(|number| PortSpec::from(format!("eth{number}"))).collect();
    let ports = Config { ports: many, ..Config::default() }.check();
    assert!(matches!(ports, Err(Error::TooMany { what: "ports", .. })), "{ports:?}");
}
