//! From flags to a plan: checks the command line, then looks up the interface.

use anyhow::{Result, bail, ensure};
use wirecap::{AccessChoice, HostView, PassiveReason, QueueSet};
use wirecap_send::check_link;
use wirecap_sys::netdev::{self, HardwareType, Interface};
use wirecap_traffic::{
    Bursts, FCS_LEN, FrameSpec, LiveOptions, Popularity, QueueReport, QueueShare, Random, Rate, Sizes,
    Timing, Transport, Unit, XdpOptions,
};

use super::{
    flags::{EngineChoice, GenerateFlags},
    values::RateValue,
};
use crate::{exit::Usage, flags::SendMode, text::sending::Fallback};

/// What is sent, and from where.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) interface: Interface,
    pub(super) engine: EngineOptions,
    pub(super) timing: Timing,
    pub(super) frame: FrameSpec,
    pub(super) sizes: Sizes,
    pub(super) flags: GenerateFlags,
    /// How the host uses the interface.
    pub(super) choice: AccessChoice,
    /// Why frames are sent beside those of the host.
    pub(super) host_use: Option<PassiveReason>,
}

/// The engine, with its options.
#[derive(Debug)]
pub(super) enum EngineOptions {
    Xdp(XdpOptions),
    Live(LiveOptions),
}

impl Plan {
    /// Checks the flags, then looks at the interface.
    ///
    /// # Errors
    /// [`Usage`]; an interface that is unknown, down, not Ethernet, or whose MTU is too small.
    pub(super) fn new(flags: GenerateFlags) -> Result<Self> {
        check_engine(&flags)?;
        let (name, queues) = interface_and_queues(&flags)?;
        let frame = frame(&flags, [0; 6]);
        let sizes = sizes(&flags, &frame)?;
        let interface = netdev::interface(name).map_err(wirecap::Error::from)?;
        check_interface(&interface, &frame, &sizes)?;
        let choice = HostView::read()?.choose_for(&interface)?;
        let host_use = choice.against_zero_copy_sending();
        let frame = FrameSpec { source_mac: source_mac(&flags, &interface), ..frame };
        let engine = match flags.engine {
            EngineChoice::Xdp => EngineOptions::Xdp(XdpOptions {
                frame,
                sizes: sizes.clone(),
                flows: flags.flows,
                popularity: flags.popularity,
                seed: flags.seed,
                queues,
                bind: SendMode::bind(flags.send.tx_mode, host_use.is_some()),
            }),
            EngineChoice::Live => EngineOptions::Live(LiveOptions {
                frame: FrameSpec { len: sizes.longest(), ..frame },
                flows: flags.flows,
                ..LiveOptions::default()
            }),
        };
        Ok(Self {
            timing: timing(&flags, &interface)?,
            engine,
            frame,
            sizes,
            choice,
            host_use,
            interface,
            flags,
        })
    }
}

impl Plan {
    /// Why a queue is not zero-copy.
    pub(super) fn fallback(&self, queue: &QueueReport) -> Option<Fallback> {
        let spared = self.host_use.clone().filter(|_| self.flags.send.tx_mode.is_none());
        let spared = spared.map(|reason| Fallback::ZeroCopySpared { reason });
        spared.or_else(|| queue.fallback.clone().map(Fallback::Sending))
    }
}

/// Refuses flags that live frames do not support.
fn check_engine(flags: &GenerateFlags) -> Result<()> {
    if flags.engine == EngineChoice::Xdp {
        return Ok(());
    }
    for (given, flag) in [
        (flags.size.as_ref().is_some_and(|sizes| sizes.list().len() > 1), "--size with several sizes"),
        (flags.popularity != Popularity::RoundRobin, "--popularity"),
        (flags.protocol == Transport::Tcp, "--protocol tcp"),
        (flags.queue_share.is_some(), "--queue-share"),
        (flags.interface().contains('@'), flags.interface()),
        (flags.send.tx_mode.is_some(), "--tx-mode"),
    ] {
        ensure!(
            !given,
            usage!(
                "{flag} does not work with --engine live, which sends UDP frames of one size, flows in turn, from the queue that \
                 the core (--core) determines; omit --engine live"
            )
        );
    }
    Ok(())
}

/// The name of the interface, and the shares of its queues.
fn interface_and_queues(flags: &GenerateFlags) -> Result<(&str, Vec<QueueShare>)> {
    let shares = flags.queue_share.as_ref().map(|shares| shares.0.as_slice());
    let (name, queues): (_, Vec<u16>) = match flags.interface().rsplit_once('@') {
        Some((name, queues)) => {
            let queues: QueueSet =
                queues.parse().map_err(|error| usage!("{}: {error}", flags.interface()))?;
            (name, queues.iter().collect())
        }
        None => (flags.interface(), (0..shares.map_or(1, |shares| shares.len() as u16)).collect()),
    };
    let weights = shares.map_or_else(|| vec![1; queues.len()], Vec::from);
    ensure!(
        weights.len() == queues.len(),
        usage!(
            "--queue-share has {} shares for the {} queues of {}; write one for each",
            weights.len(),
            queues.len(),
            flags.interface()
        )
    );
    let queues =
        queues.into_iter().zip(weights).map(|(queue, weight)| QueueShare { queue, weight }).collect();
    Ok((name, queues))
}

fn frame(flags: &GenerateFlags, source_mac: [u8; 6]) -> FrameSpec {
    FrameSpec {
        ip: flags.ip,
        transport: flags.protocol,
        vlan: flags.vlan,
        source_mac,
        destination_mac: flags.destination_mac.0,
        run: flags.run.unwrap_or_else(random_run),
        ..FrameSpec::default()
    }
}

/// The sizes of frames: those of `--size`, else the shortest frame that holds the headers and the marks.
fn sizes(flags: &GenerateFlags, frame: &FrameSpec) -> Result<Sizes> {
    match &flags.size {
        Some(sizes) => Ok(sizes.for_frames(frame).map_err(|error| Usage(with_fcs(&error)))?),
        None => Ok(Sizes::fixed(frame.len_min())),
    }
}

/// A number that another run is unlikely to have.
fn random_run() -> u16 {
    let seed = wirecap_sys::clock::system_ns() ^ (u64::from(std::process::id()) << 20);
    Random::new(seed).next() as u16
}

fn source_mac(flags: &GenerateFlags, interface: &Interface) -> [u8; 6] {
    flags.source_mac.or(interface.mac).map_or(FrameSpec::default().source_mac, |mac| mac.0)
}

/// The message of a frame that is too short or too long, in sizes with FCS, as they were given.
fn with_fcs(error: &wirecap_traffic::Error) -> String {
    match error {
        wirecap_traffic::Error::FrameLen { len, min, max } => format!(
            "frames of {} bytes are impossible with these headers: choose --size {} to {} (with the 4 bytes of FCS)",
            len + FCS_LEN,
            min + FCS_LEN,
            max + FCS_LEN
        ),
        error => error.to_string(),
    }
}

fn check_interface(interface: &Interface, frame: &FrameSpec, sizes: &Sizes) -> Result<()> {
    let name = &interface.name;
    ensure!(
        interface.hardware_type == HardwareType::ETHERNET,
        "{name} is not an Ethernet interface ({}), and generated frames are Ethernet frames; choose another one",
        interface.hardware_type
    );
    check_link(interface)?;
    let (longest, headers) = (sizes.longest(), frame.link_header_len());
    let needed = longest - headers;
    ensure!(
        needed <= interface.mtu as usize,
        "frames of {} bytes need an MTU of {needed}, and {name} has {}; lower --size to {}, or raise it: ip link set {name} mtu \
             {needed}",
        longest + FCS_LEN,
        interface.mtu,
        interface.mtu as usize + headers + FCS_LEN,
    );
    Ok(())
}

fn timing(flags: &GenerateFlags, interface: &Interface) -> Result<Timing> {
    let rate = match flags.rate {
        None => None,
        Some(RateValue::Packets(packets)) => Some(Rate::frames(packets)),
        Some(RateValue::Bits(bits)) => Some(Rate { per_second: bits, unit: Unit::Bits }),
        Some(RateValue::Percent(percent)) => {
            let own = interface.speed_mbps.map(|mbps| u64::from(mbps) * 1_000_000);
            let speed = flags.link_speed.or(own).ok_or_else(|| {
                let name = &interface.name;
                usage!("the speed of {name} is unknown, so --rate {percent}% needs a link speed: --link-speed 10G")
            })?;
            let per_second = ((speed as f64 * percent / 100.0).round() as u64).max(1);
            Some(Rate { per_second, unit: Unit::WireBits })
        }
    };
    if flags.link_speed.is_some() && !matches!(flags.rate, Some(RateValue::Percent(_))) {
        bail!(usage!("--link-speed is for a --rate in percent: write --rate 80%, or leave it out"));
    }
    let bursts = flags.burst.zip(flags.gap).map(|(frames, gap)| Bursts { frames, gap });
    Ok(Timing { rate, bursts, frames: flags.count, time: flags.limit.duration })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::commands::{Command, Flags};

    fn size(arguments: &str) -> Result<usize> {
        let words = "wirecap generate -i eth0".split(' ').chain(arguments.split_whitespace());
        let Command::Generate(flags) = Flags::try_parse_from(words).expect("flags").command else {
            unreachable!()
        };
        let sizes = sizes(&flags, &frame(&flags, [0; 6]))?;
        Ok(sizes.longest() + FCS_LEN)
    }

    #[test]
    fn the_default_size_fits_the_headers_and_a_smaller_one_is_refused() {
        for (arguments, least) in [
            ("", 64),
            ("--vlan 5", 68),
            ("--ip 6", 84),
            ("--protocol tcp", 76),
            ("--vlan 5 --ip 6 --protocol tcp", 100),
            ("--engine live --ip 6", 84),
        ] {
            assert_eq!(size(arguments).unwrap(), least, "{arguments}");
            let refused = (least > 64).then(|| size(&format!("{arguments} --size {}", least - 1)));
            assert!(refused.is_none_or(|refused| {
                refused.unwrap_err().to_string().contains(&format!("--size {least} to"))
            }));
        }
    }
}
