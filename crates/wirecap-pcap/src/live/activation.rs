//! From the settings of a handle to a capture that runs.

use std::{
    ffi::c_int,
    os::fd::BorrowedFd,
    ptr::NonNull,
    sync::atomic::{AtomicUsize, Ordering},
};

use wirecap::{
    Access, Builder, Capture, Config, Diagnostic, Error, Homes, Mode, PoolSize, PortSpec, Report, Timestamp,
    Wait, report::QueueMode,
};
use wirecap_reasons::refusal;
use wirecap_sys::{cpu, netdev::bind_packet_socket};

use super::{
    Live,
    account::AccountedCapture,
    counts::Counts,
    failure::{Failure, failure},
    group::{MAX_MEMBERS, Membership, Share},
    held::{SETTLED, SETTLED_SOON},
    inject::Injector,
    options::{self, OptionError, Options},
    ring_sender::RingSender,
    running::{Format, Running},
    sieve::Sieve,
    workers::Workers,
};
use crate::{
    abi::{
        ACTIVATED, ERROR, ERROR_ACTIVATED, ERROR_BYTES, MAX_SNAPLEN, TSTAMP_ADAPTER, TSTAMP_ADAPTER_UNSYNCED,
        TSTAMP_HOST, TSTAMP_PRECISION_NANO, WARNING_TSTAMP_TYPE_NOTSUP,
    },
    account_file,
    text::{self, ErrorText},
};

impl Live {
    /// What `pcap_activate` does. Returns its status.
    pub(crate) fn activate(&self, error: &ErrorText) -> c_int {
        if self.running.get().is_some() {
            error.set(ACTIVATED);
            return ERROR_ACTIVATED;
        }
        if self.is_passed_on() || self.settings.monitor.get() != 0 {
            error.clear();
            // SAFETY: it is libpcap's own handle, and open.
            let status = unsafe { (self.libpcap.pcap_activate)(self.shadow()) };
            if status >= 0 && !self.is_passed_on.swap(true, Ordering::Relaxed) {
                account_file::note_passed_on(&self.device.name);
            }
            return status;
        }
        match self.open() {
            Ok((running, warning)) => {
                self.breaker.set_interrupter(running.interrupter());
                if !error.is_set() {
                    // The last text stays the last, also if it was libpcap's.
                    // SAFETY: it is libpcap's own handle, and open.
                    let before = unsafe { text::read((self.libpcap.pcap_geterr)(self.shadow())) };
                    error.set(before.unwrap_or_default());
                }
                let _ = self.running.set(running);
                match warning {
                    Some((status, text)) => {
                        error.set(text.unwrap_or_else(|| self.status_text(status)));
                        status
                    }
                    None => 0,
                }
            }
            Err((status, text)) => {
                error.set(text.unwrap_or_else(|| self.status_text(status)));
                status
            }
        }
    }

    fn status_text(&self, status: c_int) -> String {
        // SAFETY: libpcap returns a constant text for every status.
        unsafe { text::read((self.libpcap.pcap_statustostr)(status)) }.unwrap_or_default()
    }

    fn open(&self) -> Result<(Running, Option<Failure>), Failure> {
        let Options { mut config, group, insists_on_timestamp } =
            self.options().map_err(|error| (ERROR, Some(error.to_string())))?;
        let core = next_core(&std::mem::take(&mut config.worker_cores))?;
        let (is_alone, has_ring) = (group.is_none(), config.transmit_entries > 0);
        let injector = self.injector();
        let sender = injector.as_ref().ok().and_then(Injector::cookie);
        let (mut capture, warning) = match self.open_capture(config, sender, insists_on_timestamp) {
            Ok(opened) => opened,
            // Where libpcap fails as well, its code and its text are those that programs know.
            Err(failure) => return Err(self.libpcaps_failure(&failure).unwrap_or(failure)),
        };
        let snaplen = u32::try_from(self.settings.snaplen.get()).ok();
        let snaplen = snaplen.filter(|bytes| (1..=MAX_SNAPLEN).contains(bytes)).unwrap_or(MAX_SNAPLEN);
        let sieve = Sieve::new(snaplen, self.settings.protocol());
        let mut spares = capture.take_workers();
        let own = spares.remove(0);
        let report = capture.report();
        let queues = report.ports.iter().map(|port| port.queues.len()).sum::<usize>();
        let is_immediate = self.settings.immediate.get() != 0;
        let counts = Counts::default();
        let interrupter = own.interrupter();
        let mut injector = injector?;
        if let Some(socket) = capture.take_sender() {
            injector.use_socket(socket);
        }
        if has_ring {
            let ring = RingSender::take(&mut capture);
            let ring = ring.map_err(|error| (ERROR, Some(format!("mmap: {error}"))))?;
            injector.use_ring(ring.ok_or_else(|| (ERROR, Some(self.no_ring())))?);
        }
        let membership = group.as_ref().map(|name| {
            let full = || {
                (ERROR, Some(format!("the group {name} is full ({MAX_MEMBERS} members); use another name")))
            };
            let share =
                Share { spares, counts: counts.clone(), interrupter, filter: sieve.selection().mark() };
            Membership::join(name, injector.ifindex(), share).ok_or_else(full)
        });
        let workers = Workers::new(own, counts.clone(), core, membership.transpose()?);
        self.activate_shadow()?;
        let capture = AccountedCapture::new(&self.device.name, capture, counts);
        let capture = capture.map_err(|error| (ERROR, Some(format!("mmap: {error}"))))?;
        let format = Format {
            has_nanoseconds: self.settings.timestamp_precision.get() == TSTAMP_PRECISION_NANO,
            is_nonblocking: self.settings.is_nonblocking.get(),
            // Members of a group have no order among them.
            merged_queues: if is_alone && queues > 1 { queues } else { 0 },
            settled: if is_immediate && publishes_at_once(&report) { SETTLED_SOON } else { SETTLED },
        };
        Ok((Running::new((capture, workers), injector, format, sieve), warning))
    }

    fn no_ring(&self) -> String {
        let interface = self.device.interface.to_string_lossy();
        format!(
            "transmit, in the name, the environment or the settings: {interface} is captured beside the host, without \
             a transmit ring; leave it out, or take {interface} from the host (xdp:{interface})"
        )
    }

    fn injector(&self) -> Result<Injector, Failure> {
        // SAFETY: the name ends with a zero byte.
        let ifindex = unsafe { libc::if_nametoindex(self.device.interface.as_ptr()) };
        Injector::open(ifindex).map_err(|(call, error)| (ERROR, Some(format!("{call}: {error}"))))
    }

    /// Activates libpcap's handle of the same interface, without packets for it, so that it costs nothing.
    fn activate_shadow(&self) -> Result<(), Failure> {
        const UNUSED_TYPE: c_int = 0x88b6;
        const LITTLE_MEMORY: c_int = 65_536;
        /// Index of the loopback interface in every network namespace.
        const LOOPBACK: u32 = 1;
        let (libpcap, shadow) = (self.libpcap, self.shadow());
        // SAFETY: it is libpcap's own handle, and open.
        let status = unsafe {
            (libpcap.pcap_set_protocol_linux)(shadow, UNUSED_TYPE);
            (libpcap.pcap_set_buffer_size)(shadow, LITTLE_MEMORY);
            (libpcap.pcap_set_promisc)(shadow, 0);
            (libpcap.pcap_set_tstamp_type)(shadow, TSTAMP_HOST);
            (libpcap.pcap_activate)(shadow)
        };
        if status >= 0 {
            // Bound to the captured interface, it would count as a listener there, and other captures of it
            // would be passive; they are if this fails. SAFETY: as above; the socket is open as long as the
            // handle.
            let socket = unsafe { BorrowedFd::borrow_raw((libpcap.pcap_fileno)(shadow)) };
            let _ = bind_packet_socket(socket, LOOPBACK);
            return Ok(());
        }
        // SAFETY: as above.
        let text = unsafe { text::read((libpcap.pcap_geterr)(shadow)) };
        Err((status, text.filter(|text| !text.is_empty())))
    }

    /// The failure of libpcap for the same interface, if it fails and the engine's is one that it knows.
    fn libpcaps_failure(&self, failure: &Failure) -> Option<Failure> {
        if failure.0 == ERROR {
            return None;
        }
        let failure = self.activate_shadow().err();
        // Whatever became of it, the next attempt begins with the program's settings.
        self.renew_shadow();
        failure
    }

    /// A handle of libpcap that is not activated, with the same settings.
    fn renew_shadow(&self) {
        let (libpcap, settings) = (self.libpcap, &self.settings);
        let mut error = [0; ERROR_BYTES];
        // SAFETY: the name ends with a zero byte, and the buffer has room for a text.
        let renewed = unsafe { (libpcap.pcap_create)(self.device.interface.as_ptr(), error.as_mut_ptr()) };
        let Some(renewed) = NonNull::new(renewed) else { return };
        let before = self.shadow.replace(renewed);
        let shadow = renewed.as_ptr();
        // SAFETY: both are libpcap's own handles, and open; the one before is closed once. libpcap has
        // accepted these values for it.
        unsafe {
            super::close_shadow(libpcap, before.as_ptr(), true);
            (libpcap.pcap_set_snaplen)(shadow, settings.snaplen.get());
            (libpcap.pcap_set_promisc)(shadow, settings.promiscuous.get());
            (libpcap.pcap_set_rfmon)(shadow, settings.monitor.get());
            (libpcap.pcap_set_timeout)(shadow, settings.timeout_ms.get());
            (libpcap.pcap_set_immediate_mode)(shadow, settings.immediate.get());
            (libpcap.pcap_set_buffer_size)(shadow, settings.buffer_bytes.get());
            (libpcap.pcap_set_tstamp_type)(shadow, settings.timestamp_type.get());
            (libpcap.pcap_set_tstamp_precision)(shadow, settings.timestamp_precision.get());
            (libpcap.pcap_set_protocol_linux)(shadow, settings.protocol.get());
        }
    }

    /// The settings of the machine, the environment and the name, with those that the program has set.
    fn options(&self) -> Result<Options, OptionError> {
        let Options { mut config, group, insists_on_timestamp } = options::read(&self.device.options)?;
        config.ports = vec![self.device.port.clone()];
        config.workers = Some(1);
        config.allocators = u16::from(config.transmit_entries > 0);
        if group.is_some() {
            // All but one are for the other members.
            config.workers = Some(MAX_MEMBERS);
            config.homes = Homes::First;
            if config.mode == Mode::Basic {
                config.mode = Mode::advanced(Mode::DEFAULT_THRESHOLD_PERCENT.into())
                    .expect("the default is a percentage");
            }
        }
        // Daemons fork once they have opened a device; servers fork for each client.
        config.readable_in_children = true;
        config.promiscuous = self.settings.promiscuous.get() != 0;
        if self.settings.immediate.get() != 0 && config.wait == Wait::Sleep {
            config.wait = Wait::Block;
        }
        if config.timestamp.is_none() {
            match self.settings.timestamp_type.get() {
                TSTAMP_ADAPTER | TSTAMP_ADAPTER_UNSYNCED => config.timestamp = Some(Timestamp::Hardware),
                _ => config.stamp_packets = true,
            }
        }
        Ok(Options { config, group, insists_on_timestamp })
    }

    /// Opens the capture; returns it with a warning for the program, if there is one.
    fn open_capture(
        &self,
        config: Config,
        sender: Option<u64>,
        insists_on_timestamp: bool,
    ) -> Result<(Capture, Option<Failure>), Failure> {
        let buffer = u64::try_from(self.settings.buffer_bytes.get()).unwrap_or(0);
        let open = |config: &Config| open_with_buffer(config, sender, buffer);
        match open(&config) {
            Ok(capture) => {
                let text = not_tapped(&capture);
                Ok((capture, text.map(|text| self.by_packet_socket(text))))
            }
            // As in libpcap, the kernel stamps the packets, and `pcap_activate` returns a warning.
            Err(Error::NoHardwareTimestamps { .. }) if !insists_on_timestamp => {
                let config = Config { timestamp: None, stamp_packets: true, ..config };
                let capture = open(&config).map_err(|error| failure(&error))?;
                Ok((capture, Some((WARNING_TSTAMP_TYPE_NOTSUP, None))))
            }
            // A program that may use packet sockets alone still captures, as with libpcap.
            Err(Error::NotPermitted(_)) if self.device.is_any_access() => {
                let PortSpec::Interface { name, .. } = &self.device.port else {
                    unreachable!("only interfaces are served")
                };
                let port = PortSpec::Interface { name: name.clone(), access: Access::Packet, queues: None };
                let config = Config { ports: vec![port], ..config };
                let capture = open(&config).map_err(|error| failure(&error))?;
                let text =
                    "captured by a packet socket, since CAP_BPF, CAP_PERFMON or CAP_NET_ADMIN is missing";
                Ok((capture, Some(self.by_packet_socket(text.into()))))
            }
            Err(error) => Err(failure(&error)),
        }
    }

    /// Has the program and `wirecap run` told that packets come by a packet socket.
    fn by_packet_socket(&self, text: String) -> Failure {
        account_file::note_packet_socket(&self.device.name, &text);
        // Not a warning: Suricata takes each for a failure.
        (0, Some(text))
    }
}

/// Opens a capture whose pools have at least `buffer` bytes together, as far as the memory allows. Passive
/// ports leave out what `sender` sends.
fn open_with_buffer(config: &Config, sender: Option<u64>, buffer: u64) -> Result<Capture, Error> {
    let builder = |config: Config| match sender {
        Some(cookie) => Builder::from(config).own_sender(cookie),
        None => Builder::from(config),
    };
    let prepared = builder(config.clone()).prepare()?;
    let PoolSize::AtMost(chunks) = config.pool_size else { return prepared.open() };
    let geometry = prepared.geometry();
    let sizes = (geometry.chunks_per_pool(), geometry.max_chunks());
    let enough = chunks_for(buffer, sizes, prepared.cells_bytes());
    if enough > chunks {
        let larger = Config { pool_size: PoolSize::AtMost(enough), ..config.clone() };
        // The program has not asked for so much that it does without packets: if this fails, the default
        // decides.
        if let Ok(capture) = builder(larger).open() {
            return Ok(capture);
        }
    }
    prepared.open()
}

/// Chunks per pool with which all pools have `buffer` bytes together; `all_bytes` is what they have with
/// `chunks` each.
fn chunks_for(buffer: u64, (chunks, most): (u32, u32), all_bytes: u64) -> u32 {
    let enough = buffer.checked_div(all_bytes / u64::from(chunks)).unwrap_or(0);
    u32::try_from(enough).unwrap_or(u32::MAX).min(most)
}

/// Whether packets can be read as soon as they have their times. A NIC that stamps them lets them wait until
/// its next interrupt, and drivers and packet sockets publish several at a time.
fn publishes_at_once(report: &Report) -> bool {
    report.ports.iter().all(|port| {
        port.timestamp.source != Timestamp::Hardware
            && port.queues.iter().all(|queue| matches!(queue.mode, QueueMode::Packed | QueueMode::Tap))
    })
}

/// Why packets come by a packet socket where a tap would be faster, if they do.
fn not_tapped(capture: &Capture) -> Option<String> {
    let report = capture.report();
    let mut fallbacks = report.ports.iter().flat_map(|port| &port.fallbacks);
    fallbacks.find_map(|fallback| match fallback {
        Diagnostic::NotTapped { reason } => {
            Some(format!("captured by a packet socket, since {}", refusal::tap(*reason)))
        }
        _ => None,
    })
}

/// The core for the thread of this handle: handles get those of the list in turn.
///
/// # Errors
/// The process may not use it.
fn next_core(cores: &[usize]) -> Result<Option<usize>, Failure> {
    static OPENED: AtomicUsize = AtomicUsize::new(0);
    if cores.is_empty() {
        return Ok(None);
    }
    let core = cores[OPENED.fetch_add(1, Ordering::Relaxed) % cores.len()];
    let tried = cpu::keeping_affinity(|| cpu::pin_to_core(core)).and_then(|pinned| pinned);
    tried.map(|()| Some(core)).map_err(|source| {
        let text =
            format!("cores={core}: this process cannot run there ({source}); taskset -p shows where it can");
        (ERROR, Some(text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_shared_by_all_pools() {
        let with = |pools: u64, buffer| chunks_for(buffer, (128, 1_000), pools * 128 * (128 << 10));
        let megabytes = |count: u64| count << 20;
        assert_eq!((with(1, megabytes(16)), with(4, megabytes(16))), (128, 32));
        assert_eq!((with(4, megabytes(128)), with(4, 0)), (256, 0));
        // No capture fails because of it.
        assert_eq!((with(1, u64::MAX), with(0, u64::MAX)), (1_000, 0));
    }
}
