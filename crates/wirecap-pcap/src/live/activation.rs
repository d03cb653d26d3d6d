//! From the settings of a handle to a capture that runs.

use std::{
    ffi::c_int,
    io,
    sync::atomic::{AtomicUsize, Ordering},
};

use wirecap::{Access, Builder, Capture, Config, Error, Mode, PoolSize, PortSpec, Timestamp};
use wirecap_sys::{cpu, netdev};

use super::{
    Live,
    group::{MAX_MEMBERS, Membership},
    inject::Injector,
    options::{self, OptionError, Options},
    running::{Format, Running},
    sieve::Sieve,
    workers::Workers,
};
use crate::{
    abi::{
        ACTIVATED, ERROR, ERROR_ACTIVATED, ERROR_IFACE_NOT_UP, ERROR_NO_SUCH_DEVICE, ERROR_PERM_DENIED,
        MAX_SNAPLEN, TSTAMP_ADAPTER, TSTAMP_ADAPTER_UNSYNCED, TSTAMP_PRECISION_NANO, WARNING,
        WARNING_TSTAMP_TYPE_NOTSUP,
    },
    text::{self, ErrorText},
};

/// A status of libpcap, and the text that goes with it; `None`: the status's own.
type Failure = (c_int, Option<String>);

impl Live {
    /// What `pcap_activate` does. Returns its status.
    pub(crate) fn activate(&self, error: &ErrorText) -> c_int {
        if self.running.get().is_some() {
            error.set(ACTIVATED);
            return ERROR_ACTIVATED;
        }
        if self.is_passed_on() || self.settings.monitor.get() != 0 {
            error.clear();
            self.is_passed_on.store(true, Ordering::Relaxed);
            // SAFETY: it is libpcap's own handle, and open.
            return unsafe { (self.libpcap.pcap_activate)(self.shadow.as_ptr()) };
        }
        match self.open() {
            Ok((running, warning)) => {
                self.breaker.watch(running.interrupter());
                if !error.is_set() {
                    // The last text stays the last, also if it was libpcap's.
                    // SAFETY: it is libpcap's own handle, and open.
                    let before = unsafe { text::read((self.libpcap.pcap_geterr)(self.shadow.as_ptr())) };
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
        // SAFETY: libpcap returns a text of its own for every status.
        unsafe { text::read((self.libpcap.pcap_statustostr)(status)) }.unwrap_or_default()
    }

    fn open(&self) -> Result<(Running, Option<Failure>), Failure> {
        let Options { mut config, group } =
            self.options().map_err(|error| (ERROR, Some(error.to_string())))?;
        let core = next_core(&std::mem::take(&mut config.worker_cores)).map_err(failure)?;
        let (mut capture, warning) = self.open_capture(config)?;
        let mut spares = capture.take_workers();
        let own = spares.remove(0);
        let membership = group.as_ref().map(|name| {
            let full =
                || (ERROR, Some(format!("the group {name} has {MAX_MEMBERS} members, which is the most")));
            Membership::join(name, spares).ok_or_else(full)
        });
        let workers = Workers::new(own, core, membership.transpose()?);
        let injector = self.injector()?;
        let format = self.format();
        let sieve = Sieve::new(format.snaplen, self.settings.protocol());
        let running =
            Running::new(self.libpcap, &self.device.name, (capture, workers), injector, format, sieve);
        let no_memory = || (ERROR, Some("libpcap has no memory for a handle".into()));
        Ok((running.ok_or_else(no_memory)?, warning))
    }

    /// What the program has set on libpcap's handle, as libpcap understands it.
    fn format(&self) -> Format {
        // SAFETY: it is libpcap's own handle, and open.
        let precision = unsafe { (self.libpcap.pcap_get_tstamp_precision)(self.shadow.as_ptr()) };
        let snaplen = u32::try_from(self.settings.snaplen.get()).ok();
        Format {
            snaplen: snaplen.filter(|bytes| (1..=MAX_SNAPLEN).contains(bytes)).unwrap_or(MAX_SNAPLEN),
            has_nanoseconds: precision == TSTAMP_PRECISION_NANO,
            is_nonblocking: self.settings.is_nonblocking.get(),
        }
    }

    /// The settings of the machine, the environment and the name, with those that the program has set.
    fn options(&self) -> Result<Options, OptionError> {
        let Options { mut config, group } = options::read(&self.device.options)?;
        config.ports = vec![self.device.port.clone()];
        config.workers = Some(1);
        if group.is_some() {
            // All but one are for the other members.
            config.workers = Some(MAX_MEMBERS);
            if config.mode == Mode::Basic {
                config.mode = Mode::advanced(Mode::DEFAULT_THRESHOLD_PERCENT.into())
                    .expect("the default is a percentage");
            }
        }
        config.promiscuous = self.settings.promiscuous.get() != 0;
        if config.timestamp.is_none() {
            match self.settings.timestamp_type.get() {
                TSTAMP_ADAPTER | TSTAMP_ADAPTER_UNSYNCED => config.timestamp = Some(Timestamp::Hardware),
                _ => config.stamp_packets = true,
            }
        }
        // A buffer that is smaller than the pools have by themselves takes nothing away: programs set one
        // that libpcap needs.
        let buffer = u64::try_from(self.settings.buffer_bytes.get()).unwrap_or(0);
        if let PoolSize::AtMost(chunks) = config.pool_size {
            let by_default =
                u64::from(chunks) * u64::from(config.cells_per_chunk) * u64::from(config.cell_bytes);
            if buffer > by_default {
                config.pool_size = PoolSize::Memory(buffer);
            }
        }
        Ok(Options { config, group })
    }

    /// Opens the capture, with what the program should be warned of.
    fn open_capture(&self, config: Config) -> Result<(Capture, Option<Failure>), Failure> {
        let open = |config: &Config| Builder::from(config.clone()).open();
        match open(&config) {
            Ok(capture) => Ok((capture, None)),
            // As libpcap: the times are the kernel's, and the program is told.
            Err(Error::NoHardwareTimestamps { .. }) => {
                let config = Config { timestamp: None, stamp_packets: true, ..config };
                let capture = open(&config).map_err(failure)?;
                Ok((capture, Some((WARNING_TSTAMP_TYPE_NOTSUP, None))))
            }
            // A program that may use packet sockets alone still captures, as with libpcap.
            Err(Error::NotPermitted(reason)) if self.device.is_any_access() => {
                let PortSpec::Interface { name, .. } = &self.device.port else {
                    unreachable!("only interfaces are served")
                };
                let port = PortSpec::Interface { name: name.clone(), access: Access::Packet, queues: None };
                let config = Config { ports: vec![port], ..config };
                let capture = open(&config).map_err(failure)?;
                let text =
                    format!("captured passively, by a packet socket: more takes privileges ({reason})");
                Ok((capture, Some((WARNING, Some(text)))))
            }
            Err(error) => Err(failure(error)),
        }
    }

    fn injector(&self) -> Result<Injector, Failure> {
        // SAFETY: the name ends with a zero byte.
        let ifindex = unsafe { libc::if_nametoindex(self.device.interface.as_ptr()) };
        Injector::open(ifindex).map_err(|(call, error)| match error.kind() {
            io::ErrorKind::PermissionDenied => (
                ERROR_PERM_DENIED,
                Some("Attempt to create packet socket failed - CAP_NET_RAW may be required".into()),
            ),
            _ => (ERROR, Some(format!("{call}: {error}"))),
        })
    }
}

/// The core for the thread of this handle: handles get those of the list in turn.
///
/// # Errors
/// The process may not use it.
fn next_core(cores: &[usize]) -> Result<Option<usize>, Error> {
    static OPENED: AtomicUsize = AtomicUsize::new(0);
    if cores.is_empty() {
        return Ok(None);
    }
    let core = cores[OPENED.fetch_add(1, Ordering::Relaxed) % cores.len()];
    let tried = cpu::keeping_affinity(|| cpu::pin_to_core(core)).and_then(|pinned| pinned);
    tried.map(|()| Some(core)).map_err(|source| Error::Core { core, source })
}

/// How libpcap names an error of the engine.
fn failure(error: Error) -> Failure {
    match &error {
        // libpcap has no more to say about it.
        Error::Down(_) => (ERROR_IFACE_NOT_UP, None),
        Error::Interface(netdev::Error::NoSuchInterface { .. } | netdev::Error::NoSuchIndex(_)) => {
            (ERROR_NO_SUCH_DEVICE, None)
        }
        Error::NotPermitted(_) => (ERROR_PERM_DENIED, Some(error.to_string())),
        _ => (ERROR, Some(error.to_string())),
    }
}
