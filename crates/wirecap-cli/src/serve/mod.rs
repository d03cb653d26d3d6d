//! Serves clients beside a capture, from one thread that waits for all of them together.
//!
//! ```text
//!   Endpoint: control socket ──┐                        ┌─► Dialogue of a client: bytes in ─► requests ─► bytes out
//!   Endpoint: metrics ─────────┼─► poll(2) ─► accept ───┤
//!   Waker: the capture has an answer ─┘                 └─► …
//! ```
//!
//! | to read about | open |
//! |---|---|
//! | what is served | [`endpoint`] |
//! | the thread | [`server`] |
//! | a client: its buffers and its time limits | [`client`] |
//! | waking the thread | [`waker`] |
//!
//! Rule: no client holds up another one or the capture. Sockets do not block, requests and the number of
//! clients are bounded, and a client that stalls is disconnected. Without a client the thread sleeps. It is
//! in the sandbox from its start: it opens nothing, and removes only its sockets.

mod client;
pub(crate) mod endpoint;
pub(crate) mod server;
pub(crate) mod waker;
