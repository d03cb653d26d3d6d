//! What each thread of wirecap gives up once it has what it needs.
//!
//! ```text
//!   opening, with all privileges ──► threads begin to work, each by Sandbox::enter(profile):
//!
//!            user ─► capabilities ─► no new privileges ─► files (Landlock) ─► system calls (seccomp)
//!   worker   -Z      none            yes                  none                its rings, memory, waiting
//!   writer   -Z      none, or some   yes                  its directories     also files
//!   main     -Z      some            yes                  none written        also sockets, BPF, no programs
//!   …
//! ```
//!
//! Capabilities, users, filters and rules are those of single threads. All threads share memory, so what one
//! thread keeps, an attacker in another may get: the process as a whole is as strong as the sum of its
//! threads. Only the thread of `-z` can start programs, send to the network other than by the rings, or load
//! code into memory.
//!
//! | to read about | open |
//! |---|---|
//! | entering, in order | [`Sandbox`] |
//! | the kinds of threads, and what each needs | [`Profile`], [`Need`] |
//! | which system calls each may make | `calls/`; how refused ones end: `filter.rs` |
//! | which files | `files.rs` |
//! | the user of `-Z` | [`User`] |
//! | what was given up, and why not more | [`SandboxReport`], [`Support`] |
//!
//! Rule: a step that the kernel does not offer is left out and reported; one that it refuses against
//! expectation, too. Only the user is a promise: a thread that cannot become it does not go on.
#![forbid(unsafe_code)]

mod calls;
mod directory;
mod files;
mod filter;
mod need;
mod profile;
mod report;
mod sandbox;
mod support;
mod user;

pub use self::{
    directory::output_directory,
    need::{KeptCapability, Need},
    profile::{Profile, ThreadKind, WritePaths},
    report::{Measure, MeasureState, Reason, SandboxReport, SandboxState, ThreadReport},
    sandbox::Sandbox,
    support::Support,
    user::{User, UserError},
};
