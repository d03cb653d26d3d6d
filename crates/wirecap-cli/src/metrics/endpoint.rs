//! Where metrics are served: a TCP address or a Unix socket, which are opened before the capture starts.

use std::{io::ErrorKind, net::TcpListener, path::Path, sync::Arc, time::Instant};

use anyhow::{Result, anyhow};

use super::{
    encoding, families,
    http::{self, MetricsRequest, Status},
};
use crate::{
    control::{
        board::{Board, SnapshotAnswer},
        place::ControlSocket,
    },
    serve::endpoint::{Dialogue, Endpoint, Listener, Step, Stream},
    settings::MetricsAddress,
};

/// The endpoint of metrics.
#[derive(Debug)]
pub(crate) struct MetricsEndpoint {
    address: Address,
    board: Arc<Board>,
}

/// Where metrics are served.
#[derive(Debug)]
enum Address {
    Tcp(Listener),
    /// Removed at the end.
    Unix(ControlSocket),
}

impl MetricsEndpoint {
    /// Opens the address.
    ///
    /// # Errors
    /// It is in use, not of this machine, or not allowed.
    pub(crate) fn open(address: &MetricsAddress, board: &Arc<Board>) -> Result<Self> {
        let board = Arc::clone(board);
        match address {
            MetricsAddress::Tcp(address) => {
                let cannot = |cause: std::io::Error| {
                    let hint = match cause.kind() {
                        ErrorKind::AddrInUse => "; another program serves there, so choose another port",
                        ErrorKind::AddrNotAvailable => "; no interface that is up has this address",
                        ErrorKind::PermissionDenied => "; choose a port from 1024 on",
                        _ => "",
                    };
                    anyhow!("cannot serve metrics on {address}: {cause}{hint}")
                };
                let listener = TcpListener::bind(address).map_err(cannot)?;
                listener.set_nonblocking(true)?;
                Ok(Self { address: Address::Tcp(Listener::Tcp(listener)), board })
            }
            MetricsAddress::Unix(path) => {
                Ok(Self { address: Address::Unix(ControlSocket::at(path)?), board })
            }
        }
    }
}

impl Endpoint for MetricsEndpoint {
    fn listener(&self) -> &Listener {
        match &self.address {
            Address::Tcp(listener) => listener,
            Address::Unix(socket) => socket.listener(),
        }
    }

    fn directory(&self) -> Option<&Path> {
        match &self.address {
            Address::Tcp(_) => None,
            Address::Unix(socket) => Some(socket.directory()),
        }
    }

    fn connect(&self, _: &Stream) -> Option<Box<dyn Dialogue>> {
        Some(Box::new(Scrape { board: Arc::clone(&self.board), request: None }))
    }
}

/// A scrape.
struct Scrape {
    board: Arc<Board>,
    /// What was requested, and when.
    request: Option<(MetricsRequest, Instant)>,
}

impl Dialogue for Scrape {
    fn receive(&mut self, input: &mut Vec<u8>, output: &mut Vec<u8>) -> Step {
        let Some(len) = http::head_len(input) else { return Step::Listen };
        let (parsed, head_only) = (http::parse(&input[..len]), http::is_head_only(&input[..len]));
        // Nothing more of it is read.
        input.clear();
        match parsed {
            Ok(request) => {
                self.request = Some((request, Instant::now()));
                self.proceed(output)
            }
            Err(status) => {
                output.extend(http::refusal(status, head_only));
                Step::Close
            }
        }
    }

    fn proceed(&mut self, output: &mut Vec<u8>) -> Step {
        let Some((request, asked)) = self.request else { return Step::Listen };
        let snapshot = match self.board.answer_for(asked, Instant::now()) {
            SnapshotAnswer::Now(snapshot) => snapshot,
            SnapshotAnswer::At(deadline) => return Step::Wait(deadline),
            SnapshotAnswer::Stuck => {
                output.extend(http::refusal(Status::Unavailable, request.head_only));
                return Step::Close;
            }
        };
        let status = self.board.status(snapshot.as_deref());
        let families = families::of(self.board.identity(), &status, snapshot.as_deref());
        output.extend(http::metrics(request, &encoding::text(families, request.format)));
        Step::Close
    }

    fn refuse_length(&mut self, output: &mut Vec<u8>) {
        output.extend(http::refusal(Status::HeadTooLarge, false));
    }
}
