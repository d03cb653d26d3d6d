//! Receive queues as devices: `eth1@2` beside `eth1`.

use wirecap_core::chunk::MAX_RINGS;
use wirecap_sys::{
    bpf,
    netdev::{self, HardwareType},
    process::Process,
};

use super::holders;
use crate::{Error, config::device_name};

/// A receive queue of an interface, as something to capture from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueDevice {
    /// Its name: `eth1@2`.
    pub name: String,
    /// Its number.
    pub queue: u16,
    /// Whether a process captures it now, or has XDP on the whole interface; `None` if this process may not
    /// know.
    pub in_use: Option<bool>,
    /// Processes that do, as far as they can be seen.
    pub pids: Vec<u32>,
}

/// The receive queues of an interface as devices, in order; none where AF_XDP cannot take them. Those from
/// 1,024 on are left out, as they cannot be captured.
///
/// Finding the processes takes CAP_SYS_ADMIN and, if the interface is shared, a look at the open files of all
/// processes.
///
/// ```no_run
/// for device in wirecap::queue_devices("eth1")? {
///     println!("{}: {}", device.name, if device.in_use == Some(true) { "in use" } else { "free" });
/// }
/// # Ok::<(), wirecap::Error>(())
/// ```
///
/// # Errors
/// When there is no such interface, or the kernel cannot be asked.
pub fn queue_devices(interface: &str) -> Result<Vec<QueueDevice>, Error> {
    let interface = netdev::interface(interface)?;
    if interface.hardware_type != HardwareType::ETHERNET {
        return Ok(Vec::new());
    }
    let pids = |holders: &[Process]| holders.iter().map(|holder| holder.pid).collect::<Vec<_>>();
    let attached = interface.xdp_programs.first().copied();
    // Each queue with its own processes, of an interface that is shared.
    let shared = attached.and_then(holders::holders_of_queues);
    // An interface that is not shared has the same answer for all queues.
    let of_all = match attached.filter(|_| shared.is_none()) {
        None => (Some(false), Vec::new()),
        // A process that may not ask for the name may not see the table of a shared interface either.
        Some(attached) if bpf::Program::name_by_id(attached.program_id).is_err() => (None, Vec::new()),
        Some(attached) => (Some(true), pids(&bpf::program_holders(attached.program_id))),
    };
    let holders_of = |queue: u16| {
        let Some(queues) = &shared else { return of_all.clone() };
        let entry = queues.iter().find(|(number, _)| *number == u32::from(queue));
        // An entry without a holder is of a process that was killed.
        let pids = entry.map(|(_, holders)| pids(holders)).unwrap_or_default();
        (Some(!pids.is_empty()), pids)
    };
    let device = |queue: u16| {
        let (in_use, pids) = holders_of(queue);
        QueueDevice { name: device_name(&interface.name, Some(&queue.into())), queue, in_use, pids }
    };
    let queues = interface.queues.current.clamp(1, MAX_RINGS.into()) as u16;
    Ok((0..queues).map(device).collect())
}
