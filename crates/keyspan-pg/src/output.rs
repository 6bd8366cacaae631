//! The writing side of a connection: messages gather in a buffer, their texts in the client's encoding, and leave by bytes.

use std::sync::Arc;

use bytes::{Buf, BufMut, BytesMut};
use keyspan_model::{Error, ErrorKind, Result};
use pgwire::messages::Message;
use tokio::io::AsyncWriteExt;

use crate::encoding::Encoding;
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
    encoding: Encoding,
}

impl Output {
    /// Writes to this socket.
    pub(crate) fn new(socket: Writing, traffic: Arc<Traffic>) -> Output {
        Output { socket, buffer: BytesMut::with_capacity(8 * 1024), traffic, encoding: Encoding::UTF8 }
    }

    /// The socket, for another to be put in its place.
    pub(crate) fn socket(&mut self) -> &mut Writing {
        &mut self.socket
    }

    /// The encoding of the client's texts.
    pub(crate) fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Texts are in this encoding from now on.
    pub(crate) fn set_encoding(&mut self, encoding: Encoding) {
        self.encoding = encoding;
    }

    /// Adds a message.
    ///
    /// # Errors
    /// 54000 if it is longer than the protocol allows, 22P05 if it has characters that the client's encoding has not;
    /// nothing of it is added.
    pub(crate) fn message(&mut self, message: &impl Message) -> Result<()> {
        let start = self.buffer.len();
        let encoded = message.encode(&mut self.buffer).map_err(|error| {
            Error::new(ErrorKind::LimitExceeded, format!("an answer does not fit the protocol: {error}"))
        });
        let added = encoded.and_then(|()| self.encode_texts(start));
        if added.is_err() {
            self.buffer.truncate(start);
        }
        added
    }

    /// Puts the texts of the message that stands in the buffer from here on into the client's encoding.
    fn encode_texts(&mut self, start: usize) -> Result<()> {
        let body = start + 5;
        if self.encoding.is_utf8() || self.buffer.len() <= body {
            return Ok(());
        }
        let kind = self.buffer[start];
        let message = self.buffer[body..].to_vec();
        self.buffer.truncate(body);
        let encoded = encoded_message(kind, &message, self.encoding)?;
        self.buffer.extend_from_slice(&encoded);
        let length = (self.buffer.len() - start - 1) as i32;
        self.buffer[start + 1..body].copy_from_slice(&length.to_be_bytes());
        Ok(())
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

/// The body of a message of this kind with its texts in another encoding. What an error, a notice or another session
/// says may lose characters: nobody is there to be told of an error. What else is said may not.
fn encoded_message(kind: u8, body: &[u8], encoding: Encoding) -> Result<BytesMut> {
    /// Bytes behind the name in a field of a RowDescription.
    const OF_FIELD: usize = 18;
    let mut encoded = BytesMut::with_capacity(body.len());
    // Bytes before the first text, and those between one and the next; whether characters may be lost.
    let (first, between, is_lossy) = match kind {
        b'E' | b'N' => (1, 1, true),
        b'T' => (2, OF_FIELD, false),
        b'A' => (4, 0, true),
        b'S' => (0, 0, false),
        _ => (body.len(), 0, false),
    };
    let mut rest = body;
    let mut plain = first;
    while rest.len() >= plain && !rest.is_empty() {
        encoded.put_slice(&rest[..plain]);
        rest = &rest[plain..];
        let Some(end) = rest.iter().position(|byte| *byte == 0) else { break };
        let text = Encoding::UTF8.decode(&rest[..end])?;
        let bytes = if is_lossy { encoding.encode_lossy(&text) } else { encoding.encode(&text)? };
        encoded.put_slice(&bytes);
        encoded.put_u8(0);
        rest = &rest[end + 1..];
        plain = between;
    }
    encoded.put_slice(rest);
    Ok(encoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_messages_are_encoded_and_nothing_else() {
        let latin = Encoding::of_setting("LATIN1");
        let of = |kind, body: &[u8]| encoded_message(kind, body, latin).expect("encodes").to_vec();
        let field = [0xc3, 0xa9, 0, 0, 0, 0, 0, 0, 0, 0xc3, 0xa9, 0xff, 0xff, 0, 0, 0, 0];
        let columns = [&[0, 2][..], "é".as_bytes(), &[0], &field, &[0], "bü".as_bytes(), &[0], &field, &[0]].concat();
        let expected = [&[0, 2, 0xe9, 0][..], &field, &[0], b"b\xfc\0", &field, &[0]].concat();
        assert_eq!(of(b'T', &columns), expected);
        assert_eq!(of(b'E', "SERROR\0Mé €\0\0".as_bytes()), b"SERROR\0M\xe9 ?\0\0");
        assert_eq!(of(b'A', "\0\0\0\u{7}é\0ü €\0".as_bytes()), b"\0\0\0\x07\xe9\0\xfc ?\0");
        assert_eq!(of(b'S', "application_name\0é\0".as_bytes()), b"application_name\0\xe9\0");
        assert_eq!(of(b'Z', b"I"), b"I");
        assert_eq!(of(b'R', &[0, 0, 0, 0]), [0, 0, 0, 0]);
        assert_eq!(
            encoded_message(b'T', &["\0\u{1}€\0".as_bytes(), &[0; 18]].concat(), latin).expect_err("no €").sqlstate(),
            "22P05"
        );
    }
}
