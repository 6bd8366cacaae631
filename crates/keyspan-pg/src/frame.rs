//! Frames: messages cut out of the bytes from the socket.
//!
//! ```text
//! startup packet:  i32 length (itself included) · body
//! frame:           u8 kind · i32 length (itself included, the kind not) · body
//! ```
//! The rule: a length is compared with the limit of its kind before it is used, and memory is reserved for the bytes
//! that have arrived, never for the bytes announced.

use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use keyspan_model::{Error, ErrorKind};
use tokio::io::AsyncReadExt;

use crate::failure::{Failure, protocol};
use crate::traffic::Traffic;
use crate::transport::Reading;

/// The longest startup packet, as in Postgres.
const STARTUP_LIMIT: usize = 10_000;
/// The longest frame of the kinds that carry only names and numbers, as in Postgres.
const SMALL_LIMIT: usize = 30_000;
/// The longest frame of a client that has not yet proved who it is.
const STRANGER_LIMIT: usize = 8 * 1024;
/// Bytes read ahead while a statement runs; beyond them the client waits.
const READ_AHEAD: usize = 64 * 1024;
/// A read buffer that grew beyond this is given back once it is empty.
const KEPT_CAPACITY: usize = 1024 * 1024;

/// A message of the client: its kind and body.
#[derive(Debug)]
pub(crate) struct Frame {
    /// The first byte.
    pub(crate) kind: u8,
    /// All after the length.
    pub(crate) body: Bytes,
}

/// The reading side of a connection.
#[derive(Debug)]
pub(crate) struct FrameReader {
    socket: Reading,
    buffer: BytesMut,
    limit: usize,
    traffic: Arc<Traffic>,
}

impl FrameReader {
    /// Reads from this socket, short frames only.
    pub(crate) fn new(socket: Reading, traffic: Arc<Traffic>) -> FrameReader {
        FrameReader { socket, buffer: BytesMut::new(), limit: STRANGER_LIMIT, traffic }
    }

    /// Reads frames of at most `limit` bytes from now on.
    pub(crate) fn allow(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// The socket, for another to be put in its place.
    pub(crate) fn socket(&mut self) -> &mut Reading {
        &mut self.socket
    }

    /// Whether bytes have arrived that no frame has used.
    pub(crate) fn has_unread(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// The body of the next startup packet; none if the client closed instead. Cancel-safe.
    pub(crate) async fn startup_packet(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            if let Some(length) = self.length_at(0) {
                if !(8..=STARTUP_LIMIT).contains(&length) {
                    return Err(Failure::Fatal(protocol("invalid length of startup packet")));
                }
                if self.buffer.len() >= length {
                    self.buffer.advance(4);
                    return Ok(Some(self.buffer.split_to(length - 4).freeze()));
                }
            }
            if !self.fill().await? {
                return Ok(None);
            }
        }
    }

    /// The next frame; none if the client closed instead. Cancel-safe.
    pub(crate) async fn frame(&mut self) -> Result<Option<Frame>, Failure> {
        loop {
            if let Some(frame) = self.buffered_frame()? {
                return Ok(Some(frame));
            }
            if !self.fill().await? {
                return Ok(None);
            }
        }
    }

    /// The next frame, if all of it has arrived.
    fn buffered_frame(&mut self) -> Result<Option<Frame>, Failure> {
        let Some(length) = self.checked_length()? else { return Ok(None) };
        if self.buffer.len() < 1 + length {
            return Ok(None);
        }
        let kind = self.buffer.get_u8();
        self.buffer.advance(4);
        let body = self.buffer.split_to(length - 4).freeze();
        if self.buffer.is_empty() && body.len() > KEPT_CAPACITY {
            self.buffer = BytesMut::new();
        }
        Ok(Some(Frame { kind, body }))
    }

    /// The kind of the next frame, if all of it has arrived.
    pub(crate) fn next_kind(&self) -> Option<u8> {
        let length = self.length_at(1)?;
        (self.buffer.len() > length).then(|| self.buffer[0])
    }

    /// Resolves when the client has closed the connection. What it sends meanwhile is kept, up to a limit. Cancel-safe.
    pub(crate) async fn closed(&mut self) {
        while self.buffer.len() < READ_AHEAD {
            if !matches!(self.fill().await, Ok(true)) {
                return;
            }
        }
        std::future::pending().await
    }

    /// Reads and discards until the client closes. Cancel-safe.
    pub(crate) async fn drain(&mut self) {
        while let Ok(true) = self.fill().await {
            self.buffer.clear();
        }
    }

    /// Reads what has arrived; false at the end of the stream.
    async fn fill(&mut self) -> Result<bool, Failure> {
        self.buffer.reserve(8 * 1024);
        let read = self.socket.read_buf(&mut self.buffer).await?;
        self.traffic.received(read);
        Ok(read > 0)
    }

    fn length_at(&self, offset: usize) -> Option<usize> {
        let bytes = self.buffer.get(offset..offset + 4)?;
        // A negative length becomes a huge one, which no limit allows.
        Some(u32::from_be_bytes(bytes.try_into().ok()?) as usize)
    }

    /// The length of the next frame, once it is known to be allowed.
    fn checked_length(&self) -> Result<Option<usize>, Failure> {
        let Some(kind) = self.buffer.first() else { return Ok(None) };
        let limit = match kind {
            b'Q' | b'P' | b'B' | b'd' | b'F' => self.limit,
            b'D' | b'E' | b'C' | b'H' | b'S' | b'X' | b'c' | b'f' | b'p' => SMALL_LIMIT.min(self.limit),
            other => return Err(Failure::Fatal(protocol(format!("invalid frontend message type {other}")))),
        };
        let Some(length) = self.length_at(1) else { return Ok(None) };
        match length {
            0..4 => Err(Failure::Fatal(protocol("invalid message length"))),
            _ if length > i32::MAX as usize => Err(Failure::Fatal(protocol("invalid message length"))),
            _ if length > limit => Err(Failure::Fatal(
                Error::new(
                    ErrorKind::LimitExceeded,
                    format!("a message of {length} bytes is longer than the limit of {limit}"),
                )
                .with_hint("Send the data in smaller statements or with COPY, or raise the server's message limit."),
            )),
            _ => Ok(Some(length)),
        }
    }
}
