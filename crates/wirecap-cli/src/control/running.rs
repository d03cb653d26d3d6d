//! The control of this process's capture, from its start to its end.

use std::{
    sync::{Arc, mpsc::channel},
    time::SystemTime,
};

use anyhow::{Result, anyhow};
use wirecap_sandbox::Sandbox;
use wirecap_sys::signals::Escalation;

use super::{
    board::{Board, Identity},
    desk::Desk,
    dialogue::ControlEndpoint,
    place::ControlSocket,
    protocol::EndRecord,
};
use crate::{
    print::head::rfc3339,
    serve::{endpoint::Endpoint, server::Server, waker::Waker},
    settings::SocketChoice,
};

/// The control of a capture. Dropping it sends the last answers and removes the socket.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) board: Arc<Board>,
    /// `None` if nothing is served.
    server: Option<Server>,
    /// Why there is no control socket, though there should be one.
    pub(crate) missing: Option<String>,
}

impl Control {
    /// Begins to serve the clients of a capture that starts: those of the control socket, and those of
    /// `more`, which is given the board. Returns the desk as well.
    ///
    /// # Errors
    /// A socket that the user has named cannot be made; there are too many threads or files.
    pub(crate) fn start(
        identity: Identity,
        choice: Option<&SocketChoice>,
        escalation: &Arc<Escalation>,
        sandbox: &Sandbox,
        more: impl FnOnce(&Arc<Board>) -> Result<Option<Box<dyn Endpoint>>>,
    ) -> Result<(Self, Desk)> {
        let waker = Arc::new(
            Waker::new()
                .map_err(|cause| anyhow!("cannot make an eventfd for the control socket: {cause}"))?,
        );
        let board = Arc::new(Board::new(identity, rfc3339(SystemTime::now()), Arc::clone(&waker)));
        let (commands, received) = channel();
        let mut missing = None;
        let socket = match choice {
            Some(SocketChoice::Off) => None,
            Some(SocketChoice::At(path)) => Some(ControlSocket::at(path)?),
            None => match ControlSocket::usual() {
                Ok(socket) => Some(socket),
                Err(cause) => {
                    missing = Some(format!("{cause:#}"));
                    None
                }
            },
        };
        let mut endpoints: Vec<Box<dyn Endpoint>> = Vec::new();
        if let Some(socket) = socket {
            let (board, waker) = (Arc::clone(&board), Arc::clone(&waker));
            let endpoint = ControlEndpoint::new(socket, board, commands, waker, Arc::clone(escalation));
            endpoints.push(Box::new(endpoint));
        }
        endpoints.extend(more(&board)?);
        let server = match endpoints.is_empty() {
            true => None,
            false => Some(Server::start(endpoints, waker, sandbox.clone())?),
        };
        let desk = Desk::new(Arc::clone(&board), received);
        Ok((Self { board, server, missing }, desk))
    }

    /// The capture has ended like this.
    pub(crate) fn end(&self, end: EndRecord) {
        if self.server.is_some() {
            self.board.end(end);
        }
    }
}
