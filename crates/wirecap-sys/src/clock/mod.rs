//! Clocks: what time it is, cheaply, and what time another clock meant, in UTC.
//!
//! ```text
//!   the CPU's counter ── BatchClock ──────────────► UTC, once per batch
//!   the kernel's TAI clock, ┐
//!   a NIC's clock           ├─ StampClock ────────► UTC of a stamp that was taken earlier
//!                           │      ▲
//!                           └── LeapSeconds: how far UTC was behind TAI at that time
//! ```
//!
//! Rule: UTC is the system clock (CLOCK_REALTIME). Nothing here sets a clock, and nothing here is shared:
//! each queue has clocks of its own, which look at the system clock again from time to time.

mod batch;
mod description;
mod discipline;
mod error;
mod leap;
mod namespace;
mod reading;
mod stamps;
mod units;

pub use batch::{BatchClock, Moment};
pub use description::{Clock, ClockScale, CounterRefusal};
pub use discipline::is_synchronised;
pub use error::ClockError;
pub use leap::{LeapSeconds, date};
pub use namespace::is_in_time_namespace;
pub(crate) use reading::monotonic_ns;
pub use reading::{ClockSource, PtpClock, resolution_ns, system_ahead_of_monotonic_ns, system_ns};
pub use stamps::{StampClock, StampShift};
pub use units::LOOK_INTERVAL_NS;
use units::NS_PER_S;
