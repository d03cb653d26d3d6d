//! An interface: what netlink, ethtool and sysfs know of it.

use wirecap_sys::{
    bpf::{self, Program},
    netdev::{self, AttachedProgram, HashTransform, LinkStatistics, NicSettings, RssReader},
};

use super::{files::Files, interrupts};
use crate::{
    setting::NapiFile,
    snapshot::{Counters, HostUse, Interface, Napi, Rss, Xdp, XdpProgram},
};

/// VIRTIO_F_ACCESS_PLATFORM, a bit of the file `features`, which has a character for each.
const ACCESS_PLATFORM: usize = 33;

pub(super) fn read(files: &Files, name: &str) -> Result<Interface, netdev::Error> {
    let interface = netdev::interface(name)?;
    let settings = NicSettings::open()?;
    // By its first name: alternative ones are no names for ethtool and sysfs.
    let name = interface.name.clone();
    let directory = directory(files, &name, interface.ifindex);
    let host_use = HostUse {
        addresses: interface
            .addresses
            .iter()
            .filter(|address| !address.is_ipv6_link_local())
            .map(ToString::to_string)
            .collect(),
        is_member: interface.master.is_some(),
    };
    let xdp = interface.xdp_features.map(|features| Xdp {
        native: features.native && features.redirect,
        zero_copy: features.zero_copy,
        multi_buffer: features.multi_buffer,
        zero_copy_max_segments: features.zero_copy_max_segments,
        vlan_tags: features.rx_metadata.is_some_and(|metadata| metadata.vlan_tag),
    });
    let counters = LinkStatistics::of_index(interface.ifindex).map(|statistics| Counters {
        received: statistics.rx_packets,
        missed: statistics.rx_missed_errors + statistics.rx_fifo_errors,
    });
    Ok(Interface {
        driver: interface.driver.map(|driver| driver.name),
        mtu: interface.mtu,
        speed_mbps: interface.speed_mbps,
        numa_node: interface.numa_node,
        host_use,
        queues: interface.queues.current,
        channels: settings.channels(&name).ok(),
        rings: settings.rings(&name).ok(),
        coalescing: settings.coalescing(&name).ok(),
        pause: settings.pause(&name).ok(),
        offloads: settings.offloads(&name).unwrap_or_default(),
        rss: rss(&settings, &name, interface.ifindex),
        xdp,
        programs: interface.xdp_programs.into_iter().map(program).collect(),
        napi: directory.as_deref().map(|directory| napi(files, directory)).unwrap_or_default(),
        interrupts: directory.as_deref().map(|_| interrupts::read(files, &name)).unwrap_or_default(),
        access_platform: directory.and_then(|directory| access_platform(files, &directory)),
        counters: counters.unwrap_or_default(),
        name,
    })
}

/// The directory of the interface in sysfs, which shows the network namespace that it was mounted in.
fn directory(files: &Files, name: &str, ifindex: u32) -> Option<String> {
    let directory = format!("/sys/class/net/{name}");
    (files.value::<u32>(&format!("{directory}/ifindex"))? == ifindex).then_some(directory)
}

fn napi(files: &Files, directory: &str) -> Napi {
    let file = |file: NapiFile| format!("{directory}/{file}");
    let queues = files.numbered(&format!("{directory}/queues"), "rx-");
    let mask = |queue| Some((queue, files.text(&format!("{directory}/queues/rx-{queue}/rps_cpus"))?));
    Napi {
        defer_hard_irqs: files.value(&file(NapiFile::DeferHardIrqs)),
        gro_flush_timeout_ns: files.value(&file(NapiFile::GroFlushTimeout)),
        threaded: files.value::<u32>(&file(NapiFile::Threaded)).map(|threaded| threaded != 0),
        rps: queues.into_iter().filter_map(mask).collect(),
    }
}

fn access_platform(files: &Files, directory: &str) -> Option<bool> {
    let bits = files.text(&format!("{directory}/device/features"))?;
    Some(bits.as_bytes().get(ACCESS_PLATFORM)? == &b'1')
}

fn rss(settings: &NicSettings, name: &str, ifindex: u32) -> Option<Rss> {
    let mut reader = RssReader::open(ifindex).ok()?;
    let hash = reader.get().ok();
    let table = settings.indirection(name).unwrap_or_default();
    let names = |flows: netdev::Result<Vec<&str>>| {
        flows.unwrap_or_default().into_iter().map(ToOwned::to_owned).collect()
    };
    (hash.is_some() || !table.is_empty()).then(|| Rss {
        table,
        key: hash.iter().flat_map(|hash| &hash.key).map(|byte| format!("{byte:02x}")).collect(),
        is_joined: hash.is_some_and(|hash| hash.transform != HashTransform::NONE),
        lopsided_flows: names(reader.lopsided_flows()),
        flows_without_ports: names(reader.flows_without_ports()),
    })
}

fn program(attached: AttachedProgram) -> XdpProgram {
    // Without the privilege, only the processes are unknown.
    let links = bpf::links().unwrap_or_default();
    let links = links.iter().filter(|link| link.prog_id == attached.program_id);
    XdpProgram {
        id: attached.program_id,
        name: Program::name_by_id(attached.program_id).ok(),
        processes: links
            .flat_map(|link| bpf::link_holders(link.id))
            .map(|process| process.to_string())
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::files::tests::root;

    #[test]
    fn sysfs_of_another_namespace_is_not_believed() {
        let (_directory, files) = root(&[("/sys/class/net/eth1/ifindex", "7\n")]);
        assert_eq!(directory(&files, "eth1", 7).as_deref(), Some("/sys/class/net/eth1"));
        assert_eq!((directory(&files, "eth1", 8), directory(&files, "eth2", 7)), (None, None));
    }

    #[test]
    fn the_settings_of_polling_are_read() {
        let bits = format!("{}1{}", "0".repeat(33), "0".repeat(30));
        let (_directory, files) = root(&[
            ("/sys/class/net/eth1/napi_defer_hard_irqs", "2\n"),
            ("/sys/class/net/eth1/gro_flush_timeout", "200000\n"),
            ("/sys/class/net/eth1/threaded", "1\n"),
            ("/sys/class/net/eth1/queues/rx-0/rps_cpus", "3\n"),
            ("/sys/class/net/eth1/device/features", &bits),
        ]);
        let expected = Napi {
            defer_hard_irqs: Some(2),
            gro_flush_timeout_ns: Some(200_000),
            threaded: Some(true),
            rps: vec![(0, "3".into())],
        };
        assert_eq!(napi(&files, "/sys/class/net/eth1"), expected);
        assert_eq!(access_platform(&files, "/sys/class/net/eth1"), Some(true));
        assert_eq!(napi(&files, "/sys/class/net/eth2"), Napi::default());
    }

    #[test]
    fn the_loopback_interface_is_described() {
        let interface = read(&Files::new("/"), "lo").unwrap();
        assert_eq!((interface.name.as_str(), interface.queues, interface.rings), ("lo", 1, None));
        assert!(interface.offload("rx-gro").is_some(), "{:?}", interface.offloads);
        assert!(read(&Files::new("/"), "none0").is_err());
    }
}
