//! One question to the kernel over a netlink socket, and all of its answers.
//!
//! ```text
//!  Request { type, header of the family, attributes } ──► kernel
//!  Vec<Reply { type, payload }>                       ◄── one message, or a dump that ends with NLMSG_DONE
//! ```
//!
//! Only the attributes that are wanted are decoded, one by one. A decoder that insists on understanding every
//! attribute of a message would let an unusual driver, or a newer kernel, make an interface impossible to
//! open.

use std::io;

use libc::{EAGAIN, EINTR, EIO};
use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_EXCL,
    NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader, NetlinkMessage, NetlinkPayload, NetlinkSerializable,
    NlasIterator,
};
use netlink_sys::{Socket, SocketAddr};

use super::error::{Error, Result};

/// Bytes of the receive buffer. The kernel makes a dump's datagrams 32 KiB at most.
const RECEIVE_BYTES: usize = 64 * 1024;

/// Attempts at a dump during which nothing changes; after that the last one is used.
const DUMP_ATTEMPTS: usize = 8;

/// A message in one direction or the other: its type, and what follows the netlink header.
#[derive(Clone, Debug)]
pub(super) struct Message {
    /// `nlmsg_type`: RTM_NEWLINK, or the number of a generic netlink family.
    pub kind: u16,
    /// The header of the family (ifinfomsg, genlmsghdr, …) and the attributes.
    pub payload: Vec<u8>,
}

impl Message {
    /// A message with the fixed header of its family and no attributes yet.
    pub fn new(kind: u16, family_header: &[u8]) -> Self {
        Self { kind, payload: family_header.to_vec() }
    }

    /// Appends an attribute.
    pub fn with(mut self, kind: u16, value: &[u8]) -> Self {
        let attribute = DefaultNla::new(kind, value.to_vec());
        let start = self.payload.len();
        self.payload.resize(start + attribute.buffer_len(), 0);
        attribute.emit(&mut self.payload[start..]);
        self
    }
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        self.payload.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.payload);
    }
}

impl NetlinkDeserializable for Message {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> std::result::Result<Self, DecodeError> {
        Ok(Self { kind: header.message_type, payload: payload.to_vec() })
    }
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// To read the object that it names.
    One,
    /// To read all objects of the namespace.
    All,
    /// To change an object, or to make it if it does not exist.
    Change,
    /// To make an object; refused (EEXIST) if it exists.
    Create,
    /// To remove an object.
    Remove,
}

/// A blocking netlink socket for questions and answers, in the namespace of the thread that opened it.
#[derive(Debug)]
pub(super) struct Conversation {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Conversation {
    /// Opens a socket of a protocol of `netlink_sys::protocols`. Needs no privilege.
    pub fn open(protocol: isize) -> Result<Self> {
        let open = || {
            let mut socket = Socket::new(protocol)?;
            socket.bind_auto()?;
            Ok(socket)
        };
        let socket = open().map_err(|source| Error::system("opening a netlink socket", source))?;
        Ok(Self { socket, sequence: 0, buffer: Vec::with_capacity(RECEIVE_BYTES) })
    }

    /// Has the kernel check requests for dumps strictly: it limits a dump to what the request asks for, and
    /// refuses what it does not know (`NETLINK_GET_STRICT_CHK`, Linux 4.20).
    pub fn strict(self) -> Result<Self> {
        let strict = self.socket.set_netlink_get_strict_chk(true);
        strict.map_err(|source| Error::system("asking for strict answers of the kernel", source))?;
        Ok(self)
    }

    /// Asks for all objects of `request` until `wanted` takes one. Ends the conversation: the rest of the
    /// answer is not read.
    ///
    /// # Errors
    /// As [`Conversation::ask`], and those of `wanted`.
    pub fn find<T>(
        mut self,
        action: &str,
        request: &Message,
        mut wanted: impl FnMut(&Message) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        for _ in 0..DUMP_ATTEMPTS {
            self.send(Scope::All, request).map_err(|source| Error::system(action, source))?;
            let mut found = None;
            let whole = self.each(action, Scope::All, |reply| {
                found = wanted(&reply)?;
                Ok(found.is_none())
            })?;
            if whole || found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Sends `request` and collects the answers. `action` names the purpose in error messages.
    ///
    /// # Errors
    /// [`Error::System`] with the kernel's errno where it refused; [`Error::Malformed`].
    pub fn ask(&mut self, action: &str, scope: Scope, request: &Message) -> Result<Vec<Message>> {
        let mut replies = Vec::new();
        for _ in 0..DUMP_ATTEMPTS {
            replies.clear();
            self.send(scope, request).map_err(|source| Error::system(action, source))?;
            let whole = self.each(action, scope, |reply| {
                replies.push(reply);
                Ok(true)
            })?;
            if whole {
                break;
            }
        }
        Ok(replies)
    }

    fn send(&mut self, scope: Scope, request: &Message) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.sequence_number = self.sequence;
        header.flags = NLM_F_REQUEST
            | match scope {
                Scope::One => 0,
                Scope::All => NLM_F_DUMP,
                Scope::Change => NLM_F_ACK | NLM_F_CREATE,
                Scope::Create => NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL,
                Scope::Remove => NLM_F_ACK,
            };
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(request.clone()));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send_to(&bytes, &SocketAddr::new(0, 0), 0).map(drop)
    }

    /// Receives until the answer is complete, or `visit` returns false. Returns false for a dump during which
    /// something changed, so that objects may be missing or there twice.
    fn each(
        &mut self,
        action: &str,
        scope: Scope,
        mut visit: impl FnMut(Message) -> Result<bool>,
    ) -> Result<bool> {
        let mut whole = true;
        loop {
            let datagram = receive(&self.socket, &mut self.buffer)
                .map_err(|source| Error::system(action, source))?
                .unwrap_or_default();
            for message in messages(action, datagram) {
                let (header, payload) = message?.into_parts();
                if header.sequence_number != self.sequence {
                    continue; // the rest of an answer that was abandoned
                }
                whole &= header.flags & NLM_F_DUMP_INTR == 0;
                let refused = |errno: i32| Error::system(action, io::Error::from_raw_os_error(errno));
                match payload {
                    // The flag NLM_F_MULTIPART would not do: the family "netdev" leaves it out of its dumps.
                    NetlinkPayload::InnerMessage(reply) => match visit(reply)? {
                        true if scope != Scope::One => {}
                        _ => return Ok(whole),
                    },
                    NetlinkPayload::Done(done) if done.code < 0 => return Err(refused(-done.code)),
                    NetlinkPayload::Error(error) if error.code.is_some() => {
                        return Err(refused(-error.raw_code()));
                    }
                    NetlinkPayload::Done(_) | NetlinkPayload::Error(_) => return Ok(whole),
                    NetlinkPayload::Overrun(_) => return Err(refused(EIO)),
                    _ => {}
                }
            }
        }
    }
}

/// The next datagram that the kernel sent, in `buffer`; `None` on a non-blocking socket that has none.
///
/// Datagrams of other processes are passed over: one with the privilege may send to any netlink socket.
pub(super) fn receive<'b>(socket: &Socket, buffer: &'b mut Vec<u8>) -> io::Result<Option<&'b [u8]>> {
    loop {
        buffer.clear();
        buffer.reserve(RECEIVE_BYTES);
        match socket.recv_from(buffer, libc::MSG_TRUNC) {
            Ok((_, sender)) if sender.port_number() != 0 => {}
            Ok((length, _)) if length > buffer.len() => {
                return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
            }
            Ok(_) => return Ok(Some(buffer)),
            Err(error) if error.raw_os_error() == Some(EINTR) => {}
            Err(error) if error.raw_os_error() == Some(EAGAIN) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// The messages of a datagram, in order; ends after the first that cannot be decoded.
pub(super) fn messages(
    action: &str,
    datagram: &[u8],
) -> impl Iterator<Item = Result<NetlinkMessage<Message>>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let message =
            NetlinkMessage::<Message>::deserialize(rest).map_err(|source| malformed(action, source));
        let length = message.as_ref().map_or(rest.len(), |message| message.header.length as usize);
        // Messages begin at multiples of 4 bytes; the last one need not be padded.
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

/// Calls `visit` with type and value of every attribute of `bytes`; the flags in the type are masked off.
pub(super) fn each_attribute(
    action: &str,
    bytes: &[u8],
    mut visit: impl FnMut(u16, &[u8]) -> std::result::Result<(), DecodeError>,
) -> Result<()> {
    for attribute in NlasIterator::new(bytes) {
        attribute
            .and_then(|attribute| visit(attribute.kind(), attribute.value()))
            .map_err(|source| malformed(action, source))?;
    }
    Ok(())
}

/// A decoding error in the answer to `action`.
pub(super) fn malformed(action: &str, source: DecodeError) -> Error {
    Error::Malformed { action: action.to_owned(), source }
}

/// Splits a payload into the fixed header of the family and the attributes behind it.
pub(super) fn split_header<'p, const N: usize>(
    action: &str,
    payload: &'p [u8],
) -> Result<(&'p [u8; N], &'p [u8])> {
    payload
        .split_first_chunk()
        .ok_or_else(|| malformed(action, DecodeError::buffer_too_small(payload.len(), N)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_read_back() {
        let message = Message::new(18, &[0; 16]).with(3, b"eth0\0").with(29, &8_u32.to_ne_bytes());
        assert_eq!(message.payload.len(), 16 + 12 + 8);
        let (header, attributes) = split_header::<16>("test", &message.payload).unwrap();
        assert_eq!(header, &[0; 16]);
        let mut seen = Vec::new();
        each_attribute("test", attributes, |kind, value| {
            seen.push((kind, value.to_vec()));
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, [(3, b"eth0\0".to_vec()), (29, 8_u32.to_ne_bytes().to_vec())]);
    }

    #[test]
    fn a_broken_message_is_an_error_and_ends_the_reading() {
        assert!(split_header::<16>("test", &[0; 15]).is_err());
        // An attribute that claims 100 bytes and has none; then one that claims to be shorter than its own
        // header.
        assert!(each_attribute("test", &[100, 0, 1, 0], |_, _| Ok(())).is_err());
        assert!(each_attribute("test", &[1, 0, 1, 0], |_, _| Ok(())).is_err());
        // A message that claims 64 bytes, one that claims 0, and half a header.
        for length in [64_u32, 0] {
            let mut datagram = [0_u8; 20];
            datagram[..4].copy_from_slice(&length.to_ne_bytes());
            let read: Vec<_> = messages("test", &datagram).collect();
            assert_eq!(read.len(), 1, "length {length}");
            assert!(read[0].is_err(), "length {length}");
        }
        assert!(messages("test", &[0; 7]).next().unwrap().is_err());
    }
}
