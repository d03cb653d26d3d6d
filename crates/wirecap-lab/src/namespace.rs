//! A network namespace, and threads and commands inside it.

use std::fs::{self, File};
use std::io;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};

use crate::error::Error;
use crate::run::{ip, run};
use crate::sweep;

/// Longest label, in bytes.
const LABEL_MAX: usize = 32;

/// A network namespace. Clones are the same namespace, which is deleted with the last of them.
#[derive(Debug, Clone)]
pub struct Namespace {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: String,
    /// The namespace, open so that entering it does not depend on its name.
    file: File,
}

impl Namespace {
    /// Makes a namespace with the loopback interface up and IPv6 off. `label` (1 to 32 letters, digits, `_`)
    /// is part of the name that `ip netns` shows.
    ///
    /// First removes namespaces of dead processes ([`sweep`](crate::sweep())). Costs a few milliseconds.
    ///
    /// # Errors
    /// [`Error::BadLabel`], [`Error::Failed`] without root, [`Error::NotFound`] without ip(8).
    pub fn new(label: &str) -> Result<Self, Error> {
        let valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if label.is_empty() || label.len() > LABEL_MAX || !label.bytes().all(valid) {
            return Err(Error::BadLabel { label: label.into() });
        }
        sweep::sweep();
        // Relaxed: the counter only has to be unique.
        static COUNTER: AtomicUsize = AtomicUsize::new(0);
        let name = sweep::name(std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed), label);
        ip(&["netns", "add", &name])?;
        let path = format!("{}/{name}", sweep::NAMESPACES);
        let file = File::open(&path).map_err(|cause| {
            sweep::remove(&name);
            Error::Setting { action: format!("open {path}"), cause }
        })?;
        let namespace = Self { inner: Arc::new(Inner { name, file }) };
        for scope in ["all", "default"] {
            namespace.disable_ipv6(scope, true)?;
        }
        namespace.ip(&["link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// Its name, as `ip netns` shows it.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Runs `work` in a thread inside the namespace and returns its result; the calling thread stays outside
    /// and waits.
    ///
    /// Everything the thread creates (sockets, BPF links, child processes, threads) belongs to the namespace
    /// and may be used outside afterwards. The thread also sees the namespace's `/sys/class/net`. But
    /// `/proc/net` is always that of the process's first thread: use `/proc/thread-self/net`.
    ///
    /// # Panics
    /// If `work` panics, with its payload; if entering fails, for instance without root.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let inside = || {
            self.switch().unwrap_or_else(|errno| panic!("cannot enter namespace {}: {errno}", self.name()));
            work()
        };
        let result = thread::scope(|scope| scope.spawn(inside).join());
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// A command that will run inside the namespace. Its process is the program itself, not a wrapper, so
    /// signals and exit codes are the program's; it is killed when the namespace is deleted.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.name(), program]);
        command
    }

    /// Runs ip(8) on the namespace, for operations without a method here, and returns its output.
    ///
    /// # Errors
    /// [`Error::Failed`] with its output.
    pub fn ip(&self, arguments: &[&str]) -> Result<String, Error> {
        ip(&[&["-n", self.name()], arguments].concat())
    }

    /// Runs ethtool(8) inside the namespace and returns its output.
    ///
    /// # Errors
    /// [`Error::Failed`] with its output.
    pub fn ethtool(&self, arguments: &[&str]) -> Result<String, Error> {
        let mut command = self.command("ethtool");
        command.args(arguments);
        run(command, "ethtool")
    }

    /// Turns IPv6 off or on for an interface, or for `all` or `default`.
    pub(crate) fn disable_ipv6(&self, scope: &str, off: bool) -> Result<(), Error> {
        match self.set_ipv6(scope, "disable_ipv6", if off { "1" } else { "0" }) {
            // A kernel without IPv6 has nothing to turn off.
            Err(Error::Setting { cause, .. }) if off && cause.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    /// Uses addresses of an interface at once, without checking whether another host has them: on a busy
    /// machine the check takes longer than its neighbours wait.
    pub(crate) fn trust_ipv6_addresses(&self, interface: &str) -> Result<(), Error> {
        self.set_ipv6(interface, "accept_dad", "0")
    }

    fn set_ipv6(&self, scope: &str, setting: &str, value: &str) -> Result<(), Error> {
        let path = format!("/proc/sys/net/ipv6/conf/{scope}/{setting}");
        let written = self.enter(|| fs::write(&path, value));
        written.map_err(|cause| Error::Setting { action: format!("write {path}"), cause })
    }

    /// Moves the calling thread inside.
    fn switch(&self) -> nix::Result<()> {
        setns(&self.inner.file, CloneFlags::CLONE_NEWNET)?;
        // A sysfs shows the interfaces of the namespace it was mounted in: mount one, for this thread alone.
        unshare(CloneFlags::CLONE_NEWNS)?;
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_SLAVE, none)?;
        match mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), none) {
            // The caller is already inside and has mounted this sysfs.
            Err(Errno::EBUSY) => Ok(()),
            result => result,
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // If this fails, a sweep removes the namespace once this process is dead.
        sweep::remove(&self.name);
    }
}
