//! What a thread gives up once it has what it needs: capabilities, its user, system calls, files.
//!
//! ```text
//!   thread of root ── capabilities::keep_only ──► the same user, fewer capabilities
//!                  └─ user::become ─────────────► another user; capabilities only if it asked to keep some
//!                       … system calls filtered ─► refused_calls: a refused call is named, and fails with EPERM
//! ```
//!
//! Rule: everything here is of the calling thread alone. The kernel keeps users and capabilities for each
//! thread; only the C library's wrappers change all threads at once.

pub mod capabilities;
pub mod file_rules;
pub mod refused_calls;
pub mod user;
