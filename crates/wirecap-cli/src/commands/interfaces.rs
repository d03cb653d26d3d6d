//! `wirecap interfaces`: a list of the interfaces, and what XDP can do on each.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use wirecap::{Access, HostUse, HostView, QueueDevice, QueueSet, Timestamp};
use wirecap_sys::{
    bpf::{self, Program, XdpLink},
    netdev::{self, AttachedProgram, Interface, XdpFeatures},
    process::Process,
};

use crate::{
    flags::INTERFACE,
    print::{printable::json, stdio::print_stdout, table::Table},
    text::{host_use, refusal},
};

/// How the interfaces are listed.
#[derive(Debug, Default, Args)]
pub(crate) struct InterfacesFlags {
    /// Only these interfaces, by name or alternative name.
    #[arg(value_name = INTERFACE)]
    names: Vec<String>,
    /// Print one JSON array.
    #[arg(long)]
    pub(crate) json: bool,
}

/// One interface, as it is listed. `None`: unknown or not available.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct InterfaceRecord {
    /// Name of the interface.
    name: String,
    /// Alternative names, which are accepted wherever the name is.
    alternative_names: Vec<String>,
    /// Driver; null if the kernel names none.
    driver: Option<String>,
    /// Receive queues in use.
    queues: u32,
    /// Receive queues that can be configured.
    queues_max: u32,
    /// Its receive queues, each of which can be captured alone; empty where AF_XDP cannot capture.
    devices: Vec<Device>,
    /// Speed of the link in Mbit/s; null while it is unknown.
    speed_mbps: Option<u32>,
    /// Memory node of the NIC.
    numa_node: Option<u32>,
    /// MTU: the most bytes of a packet without its Ethernet header.
    mtu: u32,
    /// State of the link.
    #[cfg_attr(test, schemars(extend("enum" = ["up", "no carrier", "down"])))]
    state: &'static str,
    /// IP addresses of the host.
    addresses: Vec<String>,
    /// What XDP can do; null before Linux 6.3.
    xdp: Option<XdpFeatures>,
    /// XDP programs that are attached now.
    holders: Vec<Holder>,
    /// How `wirecap capture NAME` receives its packets; null if that is unknown.
    #[cfg_attr(test, schemars(extend("enum" = ["xdp", "tap", "packet", serde_json::Value::Null])))]
    captured_over: Option<&'static str>,
    /// Why it is left to the host; null if it is not.
    left_to_host: Option<String>,
    /// How the host and others use it; empty if it is not an Ethernet interface.
    host_use: Vec<HostUse>,
    /// Why the NIC's timestamps are not available over AF_XDP; null if they are.
    no_hardware_timestamps: Option<String>,
}

/// A receive queue as something to capture from.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Device {
    /// Its name, as `wirecap capture` accepts it.
    name: String,
    #[serde(skip)]
    queue: u16,
    /// Whether a process captures it; null without the privilege to find out.
    in_use: Option<bool>,
    /// The processes that capture it, as far as they are visible.
    pids: Vec<u32>,
}

/// An XDP program that is attached now.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Holder {
    #[serde(flatten)]
    attached: AttachedProgram,
    /// Its name; null without the privilege to find out.
    program: Option<String>,
    /// The processes that keep it attached, as far as they are visible.
    processes: Vec<Process>,
}

/// Prints the list.
///
/// # Errors
/// There is no such interface, the kernel cannot be asked, or standard output is closed.
pub(crate) fn run(flags: &InterfacesFlags) -> Result<()> {
    let interfaces = match flags.names.as_slice() {
        [] => netdev::interfaces()?,
        names => names.iter().map(|name| netdev::interface(name)).collect::<Result<_, _>>()?,
    };
    // Without the privilege, only the processes that attached programs are unknown.
    let links = bpf::links().unwrap_or_default();
    let host = HostView::read()?;
    let listed: Vec<_> =
        interfaces.into_iter().map(|interface| InterfaceRecord::new(interface, &links, &host)).collect();
    let text = if flags.json { json(&listed) } else { table(&listed).to_string() };
    print_stdout("the list", &text)
}

impl InterfaceRecord {
    fn new(interface: Interface, links: &[XdpLink], host: &HostView) -> Self {
        let holders = interface.xdp_programs.iter().map(|&attached| Holder::new(attached, links));
        let no_hardware_timestamps = Timestamp::no_hardware(&interface.name)
            .map(|reason| reason.map(|reason| refusal::nic_data(reason).to_owned()))
            .unwrap_or_else(|error| Some(format!("the interface cannot be queried: {error}")));
        let choice = host.choose_for(&interface).ok();
        let access = choice.as_ref().map(|choice| choice.access);
        let devices = wirecap::queue_devices(&interface.name).unwrap_or_default().into_iter();
        let devices =
            devices.map(|QueueDevice { name, queue, in_use, pids, .. }| Device { name, queue, in_use, pids });
        Self {
            holders: holders.collect(),
            name: interface.name,
            alternative_names: interface.alternative_names,
            driver: interface.driver.map(|driver| driver.name),
            queues: interface.queues.current,
            queues_max: interface.queues.max,
            devices: devices.collect(),
            speed_mbps: interface.speed_mbps,
            numa_node: interface.numa_node,
            mtu: interface.mtu,
            state: match (interface.up, interface.carrier) {
                (true, true) => "up",
                (true, false) => "no carrier",
                (false, _) => "down",
            },
            addresses: interface.addresses.iter().map(ToString::to_string).collect(),
            xdp: interface.xdp_features,
            captured_over: access.map(|access| match access {
                Access::Tap => "tap",
                Access::Packet => "packet",
                Access::Xdp | Access::Auto => "xdp",
            }),
            left_to_host: choice
                .as_ref()
                .and_then(|choice| choice.left_to_host.as_ref())
                .map(host_use::reason),
            host_use: choice.map(|choice| choice.uses).unwrap_or_default(),
            no_hardware_timestamps,
        }
    }
}

impl Device {
    /// The text of the queues, equal ones together: `eth1@0-1, eth1@2-3 in use (pid 7)`.
    fn describe(interface: &str, devices: &[Self]) -> String {
        let alike = devices.chunk_by(|a, b| (a.in_use, &a.pids) == (b.in_use, &b.pids));
        let words = alike.map(|run| {
            let queues = QueueSet::new(run.iter().map(|device| device.queue)).expect("a run is not empty");
            let mut text = format!("{interface}@{queues}");
            text += match run[0].in_use {
                Some(false) => "",
                Some(true) => " in use",
                None => " in use?",
            };
            let pids: Vec<_> = run[0].pids.iter().map(|pid| format!("pid {pid}")).collect();
            if pids.is_empty() { text } else { format!("{text} ({})", pids.join(", ")) }
        });
        let words = words.collect::<Vec<_>>().join(", ");
        if words.is_empty() { "-".into() } else { words }
    }
}

fn describe_features(features: &XdpFeatures) -> String {
    // AF_XDP needs the redirect; without it only generic XDP works.
    if !features.native || !features.redirect {
        return "generic only".into();
    }
    let extras = [(features.zero_copy, "zero-copy"), (features.multi_buffer, "multi-buffer")];
    let names = extras.iter().filter(|(there, _)| *there).map(|(_, name)| *name);
    ["native"].into_iter().chain(names).collect::<Vec<_>>().join(" ")
}

impl Holder {
    fn new(attached: AttachedProgram, links: &[XdpLink]) -> Self {
        // By program: its id is the same in all namespaces, the index of an interface is not.
        let links = links.iter().filter(|link| link.prog_id == attached.program_id);
        let holders = links.flat_map(|link| bpf::link_holders(link.id));
        Self {
            attached,
            program: Program::name_by_id(attached.program_id).ok(),
            processes: holders.collect(),
        }
    }

    fn describe(&self) -> String {
        let program = host_use::spaced(self.program.as_deref());
        let AttachedProgram { mode, program_id } = self.attached;
        let by = self.processes.iter().map(|process| format!(" by {process}")).collect::<String>();
        format!("{mode}{program} (id {program_id}){by}")
    }
}

fn table(listed: &[InterfaceRecord]) -> Table {
    let heads = [
        "name",
        "driver",
        "queues",
        "Mbit/s",
        "NUMA",
        "MTU",
        "state",
        "XDP",
        "held by",
        "queue devices",
        "captured over",
    ];
    let mut table = Table::new(&heads);
    for interface in listed {
        let holders: Vec<_> = interface.holders.iter().map(Holder::describe).collect();
        table.row(vec![
            [&interface.name]
                .into_iter()
                .chain(&interface.alternative_names)
                .cloned()
                .collect::<Vec<_>>()
                .join(", "),
            or_dash(interface.driver.clone()),
            format!("{}/{}", interface.queues, interface.queues_max),
            or_dash(interface.speed_mbps),
            or_dash(interface.numa_node),
            interface.mtu.to_string(),
            interface.state.into(),
            interface.xdp.as_ref().map_or_else(|| "unknown".into(), describe_features),
            if holders.is_empty() { "-".into() } else { holders.join(", ") },
            Device::describe(&interface.name, &interface.devices),
            match (interface.captured_over, &interface.left_to_host) {
                (Some(port), Some(reason)) => format!("{port}: {reason}"),
                (port, _) => or_dash(port),
            },
        ]);
    }
    table
}

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_with_the_same_use_are_listed_together() {
        let device = |queue, in_use, pids: &[u32]| {
            let (name, pids) = (format!("eth1@{queue}"), pids.to_vec());
            Device { name, queue, in_use, pids }
        };
        let devices = [
            device(0, Some(false), &[]),
            device(1, Some(false), &[]),
            device(2, Some(true), &[7]),
            device(3, Some(true), &[9, 11]),
            device(4, None, &[]),
        ];
        let words = "eth1@0-1, eth1@2 in use (pid 7), eth1@3 in use (pid 9, pid 11), eth1@4 in use?";
        assert_eq!(Device::describe("eth1", &devices), words);
        assert_eq!(Device::describe("lo", &[]), "-");
    }
}
