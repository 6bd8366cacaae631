//! The writing side of a connection: messages gather in a buffer and leave by bytes.

use std::sync::Arc;

use bytes::{Buf, BytesMut};
use keyspan_model::{Error, ErrorKind, Result};
use pgwire::messages::Message;
use tokio::io::AsyncWriteExt;

use crate::traffic::Traffic;
use crate::transport::Writing;

/// Bytes that gather before they are sent.
const FLUSH_BYTES: usize = 64 * 1024;
/// A buffer that a large row has grown beyond this is given back.
const KEPT_CAPACITY: usize = 1024 * 1024;

/// Messages on their way to the client.
#[derive(Debug)]
pub(crate) struct Output {
    socket: Writing,
    buffer: BytesMut,
    traffic: Arc<Traffic>,
}

impl Output {
    /// Writes to this socket.
    pub(crate) fn new(socket: Writing, traffic: Arc<Traffic>) -> Output {
        Output { socket, buffer: BytesMut::with_capacity(8 * 1024), traffic }
    }

    /// The socket, for another to be put in its place.
    pub(crate) fn socket(&mut self) -> &mut Writing {
        &mut self.socket
    }

    /// Adds a message.
    ///
    /// # Errors
    /// 54000 if it is longer than the protocol allows; nothing of it is added.
    pub(crate) fn message(&mut self, message: &impl Message) -> Result<()> {
        let start = self.buffer.len();
        message.encode(&mut self.buffer).map_err(|error| {
            self.buffer.truncate(start);
            Error::new(ErrorKind::LimitExceeded, format!("an answer does not fit the protocol: {error}"))
        })
    }

    /// Adds a frame of this kind whose body `write` writes. On an error nothing is added.
    pub(crate) fn frame(&mut self, kind: u8, write: impl FnOnce(&mut BytesMut) -> Result<()>) -> Result<()> {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[kind, 0, 0, 0, 0]);
        let written = write(&mut self.buffer).and_then(|()| {
            i32::try_from(self.buffer.len() - start - 1)
                .map_err(|_| Error::new(ErrorKind::LimitExceeded, "a row is too long to be sent: the limit is 2 GB"))
        });
        match written {
            Ok(length) => {
                self.buffer[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
                Ok(())
            }
            Err(error) => {
                self.buffer.truncate(start);
                Err(error)
            }
        }
    }

    /// Adds bytes that are no message: the answer to SSLRequest.
    pub(crate) fn byte(&mut self, byte: u8) {
        self.buffer.extend_from_slice(&[byte]);
    }

    /// Whether enough has gathered to be sent.
    pub(crate) fn is_full(&self) -> bool {
        self.buffer.len() >= FLUSH_BYTES
    }

    /// Sends all that has gathered. Cancel-safe: what was not sent stays.
    pub(crate) async fn flush(&mut self) -> std::io::Result<()> {
        while self.buffer.has_remaining() {
            match self.socket.write_buf(&mut self.buffer).await? {
                0 => return Err(std::io::ErrorKind::WriteZero.into()),
                written => self.traffic.sent(written),
            }
        }
        // TLS keeps what is written until it is told.
        self.socket.flush().await?;
        if self.buffer.capacity() > KEPT_CAPACITY {
            self.buffer = BytesMut::with_capacity(FLUSH_BYTES);
        }
        Ok(())
    }

    /// Closes the sending side.
    pub(crate) async fn close(&mut self) {
        // The client may have gone first; there is nothing to do about it.
        let _ = self.socket.shutdown().await;
    }
}
