//! Switching stamping on and restoring the setting, with a NIC that this machine does not have.

use std::{cell::Cell, rc::Rc};

use super::*;

fn info(abilities: u32, clock: i32, receive_filters: u32) -> TimestampInfo {
    TimestampInfo { abilities, clock, receive_filters, ..TimestampInfo::new(ETHTOOL_GET_TS_INFO) }
}

#[test]
fn abilities_are_read_bit_by_bit() {
    let software = StampAbilities { software: true, ..StampAbilities::default() };
    assert_eq!(StampAbilities::of(&info(0b11010, -1, 0)), software);
    // A hardware stamp does not count unless the NIC's raw time is available.
    assert!(!StampAbilities::of(&info(0b0000100, 0, 0b11)).hardware);
    let all = StampAbilities { hardware: true, all_packets: true, software: true, clock: Some(3) };
    assert_eq!(StampAbilities::of(&info(0b1011111, 3, 0b11)), all);
    assert!(!StampAbilities::of(&info(0b1011111, 3, 0b01)).all_packets, "only 'none' is a filter");
}

/// A NIC whose clock stamps, with its defects.
#[derive(Debug, Clone)]
struct FakeNic {
    setting: Rc<Cell<StampConfig>>,
    /// The filter that the driver sets when asked to stamp every packet.
    filter_for_all: u32,
    errno: Rc<Cell<Option<i32>>>,
}

const EARLIER: StampConfig = StampConfig { flags: 0, send_kind: 1, receive_filter: 12 };

impl FakeNic {
    fn new() -> Self {
        Self {
            setting: Rc::new(Cell::new(EARLIER)),
            filter_for_all: HWTSTAMP_FILTER_ALL,
            errno: Rc::default(),
        }
    }
}

impl Device for FakeNic {
    fn get(&mut self) -> io::Result<StampConfig> {
        self.errno.get().map_or(Ok(self.setting.get()), |errno| Err(io::Error::from_raw_os_error(errno)))
    }

    fn set(&mut self, config: &mut StampConfig) -> io::Result<()> {
        self.get()?;
        if config.receive_filter == HWTSTAMP_FILTER_ALL {
            config.receive_filter = self.filter_for_all;
        }
        self.setting.set(*config);
        Ok(())
    }

    fn name(&mut self) -> Result<String> {
        Ok("eth7".into())
    }
}

#[test]
fn the_earlier_setting_is_restored_unless_another_process_has_changed_it() {
    let nic = FakeNic::new();
    let mut kept = SettingGuard::enable(nic.clone()).unwrap();
    assert_eq!(nic.setting.get(), StampConfig { receive_filter: HWTSTAMP_FILTER_ALL, ..EARLIER });
    kept.restore().unwrap();
    assert_eq!(nic.setting.get(), EARLIER);

    let kept = SettingGuard::enable(nic.clone()).unwrap();
    let others = StampConfig { receive_filter: 0, ..EARLIER };
    nic.setting.set(others);
    drop(kept);
    assert_eq!(nic.setting.get(), others);

    let less = FakeNic { filter_for_all: 14, ..FakeNic::new() };
    SettingGuard::enable(less.clone()).unwrap_err();
    assert_eq!(less.setting.get(), EARLIER, "even after a failure");
}

#[test]
fn a_failure_to_restore_is_reported_with_the_command() {
    let nic = FakeNic::new();
    let mut kept = SettingGuard::enable(nic.clone()).unwrap();
    nic.errno.set(Some(libc::EBUSY));
    let error = kept.restore().unwrap_err().to_string();
    assert!(error.contains("hwstamp_ctl -i eth7 -r 12"), "{error}");
    kept.restore().expect("reported once");

    let nic = FakeNic::new();
    let mut kept = SettingGuard::enable(nic.clone()).unwrap();
    nic.errno.set(Some(libc::ENODEV));
    kept.restore().expect("the NIC is gone");
}

#[test]
fn a_renamed_nic_is_found_again() {
    if !wirecap_lab::require_root("stamping::a_renamed_nic_is_found_again") {
        return;
    }
    let space = wirecap_lab::Namespace::new("stampname").unwrap();
    let other = wirecap_lab::Namespace::new("stampnam2").unwrap();
    let options = wirecap_lab::VethOptions::default();
    let _veth = wirecap_lab::VethPair::new(&space, "before0", &other, "far0", options).unwrap();
    let mut nic = space.enter(|| {
        let ifindex = super::super::interface("before0").unwrap().ifindex;
        DriverByIndex::open(ifindex).unwrap()
    });
    let answer = nic.get().unwrap_err().raw_os_error();
    space.ip(&["link", "set", "before0", "down"]).unwrap();
    space.ip(&["link", "set", "before0", "name", "after0"]).unwrap();
    assert_eq!(nic.name().unwrap(), "after0");
    assert_eq!(nic.get().unwrap_err().raw_os_error(), answer, "the same driver still answers");
    assert_ne!(answer, Some(libc::ENODEV));
    nic.ifindex = 999_999;
    assert_eq!(nic.get().unwrap_err().raw_os_error(), Some(libc::ENODEV));
}

#[test]
fn the_loopback_interface_is_stamped_by_software_and_cannot_be_switched_on() {
    let abilities = stamp_abilities("lo").unwrap();
    assert!(!abilities.hardware && abilities.clock.is_none(), "{abilities:?}");
    let error = HardwareStamping::enable(&super::super::interface("lo").unwrap()).unwrap_err();
    assert!(error.to_string().contains("timestamps of lo"), "{error}");
}
