//! Who has the cells that a live pool has attached: one socket, or one writer, at a time.
//!
//! ```text
//!   free ── lease ──► held ── dropped ──┬─ nothing fills a cell any more ──► left ── LivePool::renew ──► free, for the same queue
//!                                       └─ the socket is still open ──► lost, for good
//! ```
//!
//! Rule: the kernel may fill the cells of a socket until its last descriptor is closed, and a driver in
//! zero-copy until the queue can be bound again. So the cells of a closed socket go to a socket of the same
//! queue only, which cannot be bound earlier.

use std::{
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError},
};

use wirecap_core::{Pool, PoolNumber};

/// A receive queue, whichever network namespace it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueName {
    /// `SO_NETNS_COOKIE`: of all namespaces since the machine was started.
    pub(crate) namespace: u64,
    pub(crate) ifindex: u32,
    pub(crate) queue_id: u32,
}

/// Who fills cells.
#[derive(Debug)]
pub(crate) enum Tenant {
    /// A socket and its queue; `None` if the kernel does not report the namespace.
    Socket(Arc<OwnedFd>, Option<QueueName>),
    /// This process.
    Writer,
}

/// What has become of the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not leased. If a queue had them before the pool was renewed, by a socket of that queue only.
    Free(Option<QueueName>),
    /// A socket or writer has the lease.
    Held,
    /// The lease has ended, but the pool still counts cells as attached.
    Left(Option<QueueName>),
    /// The lease has ended, and the kernel may go on filling cells.
    Lost,
}

/// The state of the lease of one pool, shared by the pool and the lease.
#[derive(Debug, Clone)]
pub(crate) struct Tenancy(Arc<Mutex<State>>);

impl Tenancy {
    pub(crate) fn new() -> Self {
        Self::of(State::Free(None))
    }

    fn of(state: State) -> Self {
        Self(Arc::new(Mutex::new(state)))
    }

    /// For a new pool over the same cells; `None` while the cells may still be filled.
    pub(crate) fn renewed(&self) -> Option<Self> {
        match *self.lock() {
            State::Free(queue) | State::Left(queue) => Some(Self::of(State::Free(queue))),
            State::Held | State::Lost => None,
        }
    }

    /// The right to the cells of `pool`, whose tenancy this is; `None` if it cannot be given.
    pub(crate) fn lease(&self, pool: &Pool, tenant: Tenant) -> Option<PoolLease> {
        let mut state = self.lock();
        let wanted = match &tenant {
            Tenant::Socket(_, queue) => *queue,
            Tenant::Writer => None,
        };
        match *state {
            State::Free(None) => {}
            State::Free(only) if only == wanted => {}
            _ => return None,
        }
        *state = State::Held;
        let (number, place) = (pool.number(), PoolPlace::of(pool));
        Some(PoolLease { number, place, tenant: Some(tenant), tenancy: self.clone() })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right of one socket or writer to fill the cells that a pool has attached. Dropping it gives the right
/// back.
#[derive(Debug)]
pub(crate) struct PoolLease {
    number: PoolNumber,
    place: PoolPlace,
    /// INVARIANT: `Some` until it is dropped.
    tenant: Option<Tenant>,
    tenancy: Tenancy,
}

impl PoolLease {
    /// The pool whose cells these are. No lease of them had the same before, and none will.
    #[inline]
    pub(crate) fn number(&self) -> PoolNumber {
        self.number
    }

    /// Where the pool's cells lie.
    #[inline]
    pub(crate) fn place(&self) -> PoolPlace {
        self.place
    }
}

impl Drop for PoolLease {
    fn drop(&mut self) {
        let state = match self.tenant.take() {
            None | Some(Tenant::Writer) => State::Left(None),
            // Closes the socket, if this is its last descriptor: nothing gives others out than the clones of
            // this one.
            Some(Tenant::Socket(fd, queue)) => match (Arc::into_inner(fd), queue) {
                (Some(_closed), Some(queue)) => State::Left(Some(queue)),
                _ => State::Lost,
            },
        };
        *self.tenancy.lock() = state;
    }
}

/// Where the cells of a pool lie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolPlace {
    base: u64,
    bytes: u64,
    cell_bytes: u64,
}

impl PoolPlace {
    fn of(pool: &Pool) -> Self {
        let geometry = pool.geometry();
        Self { base: pool.base(), bytes: geometry.pool_bytes(), cell_bytes: geometry.cell_bytes().into() }
    }

    /// Size of a cell in bytes.
    pub(crate) fn cell_bytes(&self) -> u64 {
        self.cell_bytes
    }

    /// Whether the range lies within one cell of the pool.
    #[inline]
    pub(crate) fn holds(&self, address: u64, len: u32) -> bool {
        let offset = address.wrapping_sub(self.base);
        offset < self.bytes && (offset & (self.cell_bytes - 1)) + u64::from(len) <= self.cell_bytes
    }

    /// Where the cell begins that the address lies in, if it is one of this pool.
    #[inline]
    pub(crate) fn cell(&self, address: u64) -> Option<u64> {
        let offset = address.wrapping_sub(self.base);
        (offset < self.bytes).then(|| self.base + (offset & !(self.cell_bytes - 1)))
    }
}
