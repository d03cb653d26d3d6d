//! The control of a running capture: other processes ask it, stop it, and change it, over a Unix socket.
//!
//! ```text
//!   wirecap status, top, stop, rotate, set ─► client ─► socket ─► dialogue, in the server's thread
//!                                                              │ commands        ▲ snapshots, the end
//!                                                              ▼                 │
//!                                                             desk ─────────── board
//!                                              in the thread that watches the capture
//! ```
//!
//! | to read about | open |
//! |---|---|
//! | what is said | [`protocol`], [`version`]; refusals and their codes: [`refusal`] |
//! | where the sockets are | [`place`]; connecting to them: [`connect`] |
//! | who may do what | [`access`] |
//! | a client's request, from the line to the answer | [`dialogue`] |
//! | what the capture does for it | [`desk`], [`board`] |
//! | a sample of its packets | [`sample`] |
//! | starting and ending all that | [`running`] |
//! | the other end | [`client`] |
//!
//! Rule: this stays off the packet path, except that workers sample a few packets while a client requests
//! samples. The watching thread serves the desk once per tick, and never waits for a client.

mod access;
pub(crate) mod board;
pub(crate) mod client;
mod connect;
pub(crate) mod desk;
mod dialogue;
pub(crate) mod place;
pub(crate) mod protocol;
pub(crate) mod refusal;
pub(crate) mod running;
pub(crate) mod sample;
mod version;
