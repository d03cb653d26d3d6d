//! Settings of interfaces are read as ethtool(8) shows them, set, and set back: of a veth pair with four
//! queues each way, and of a tap.

use wirecap_lab::{Namespace, VethOptions, VethPair, require_root};
use wirecap_sys::netdev::{Coalescing, NicSettings};

#[test]
fn settings_are_those_of_ethtool_before_and_after_a_change() {
    if !require_root("settings_are_those_of_ethtool_before_and_after_a_change") {
        return;
    }
    let namespace = Namespace::new("nicsettings").unwrap();
    let options = VethOptions { queues: 4, ..VethOptions::default() };
    let _pair = VethPair::new(&namespace, "a0", &namespace, "b0", options).unwrap();
    let settings = namespace.enter(|| NicSettings::open().unwrap());
    let shown = |flag: &str| namespace.ethtool(&[flag, "b0"]).unwrap();
    let before = ["-k", "-l"].map(shown);

    let channels = settings.channels("b0").unwrap();
    assert_eq!((channels.max_rx, channels.rx, channels.combined), (4, 4, 0));
    let mut fewer = channels;
    fewer.rx = 2;
    settings.set_channels("b0", &fewer).unwrap();
    assert_eq!(settings.channels("b0").unwrap(), fewer);
    assert_ne!(shown("-l"), before[1]);
    settings.set_channels("b0", &channels).unwrap();

    let is_on = |name: &str| {
        let offloads = settings.offloads("b0").unwrap();
        offloads.iter().find(|offload| offload.name == name).unwrap().active
    };
    // ethtool says the same of each offload that it calls by the kernel's name.
    for offload in settings.offloads("b0").unwrap() {
        let line = format!("\n{}: {}", offload.name, if offload.active { "on" } else { "off" });
        if before[0].contains(&format!("\n{}: ", offload.name)) {
            assert!(before[0].contains(&line), "{line} is not in {}", before[0]);
        }
    }
    let gro = is_on("rx-gro");
    settings.set_offload("b0", "rx-gro", !gro).unwrap();
    assert_eq!(is_on("rx-gro"), !gro);
    assert_ne!(shown("-k"), before[0]);
    settings.set_offload("b0", "rx-gro", gro).unwrap();
    assert_eq!(["-k", "-l"].map(shown), before);
}

#[test]
fn coalescing_is_set_as_a_whole() {
    if !require_root("coalescing_is_set_as_a_whole") {
        return;
    }
    let namespace = Namespace::new("coalescing").unwrap();
    namespace.ip(&["tuntap", "add", "dev", "tap0", "mode", "tap"]).unwrap();
    let settings = namespace.enter(|| NicSettings::open().unwrap());
    let before = settings.coalescing("tap0").unwrap();
    let wanted = Coalescing { rx_frames: 16, ..before };
    settings.set_coalescing("tap0", &wanted).unwrap();
    assert_eq!(settings.coalescing("tap0").unwrap(), wanted);
    let shown = namespace.ethtool(&["-c", "tap0"]).unwrap();
    assert!(shown.lines().any(|line| line.split_whitespace().eq(["rx-frames:", "16"])), "{shown}");
    settings.set_coalescing("tap0", &before).unwrap();
    assert_eq!(settings.coalescing("tap0").unwrap(), before);
}

#[test]
fn what_may_not_be_set_is_refused() {
    if !require_root("what_may_not_be_set_is_refused") {
        return;
    }
    let namespace = Namespace::new("nicrefused").unwrap();
    let _pair = VethPair::new(&namespace, "a0", &namespace, "b0", VethOptions::default()).unwrap();
    let settings = namespace.enter(|| NicSettings::open().unwrap());
    for error in [
        settings.rings("b0").map(drop).unwrap_err(),
        settings.pause("b0").map(drop).unwrap_err(),
        settings.coalescing("b0").map(drop).unwrap_err(),
    ] {
        assert_eq!(error.errno(), Some(libc::EOPNOTSUPP), "{error}");
    }
    let mut many = settings.channels("b0").unwrap();
    many.rx = 64;
    assert_eq!(settings.set_channels("b0", &many).unwrap_err().errno(), Some(libc::EINVAL));
}
