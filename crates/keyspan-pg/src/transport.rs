//! The bytes under a connection: TCP, a Unix socket, or TLS over TCP.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, ReadHalf, WriteHalf};
use tokio::net::{TcpStream, UnixStream, tcp, unix};
use tokio_rustls::server::TlsStream;

use crate::tls::TlsState;

/// The reading half.
#[derive(Debug)]
pub(crate) enum Reading {
    Tcp(tcp::OwnedReadHalf),
    Unix(unix::OwnedReadHalf),
    Tls(ReadHalf<TlsStream<TcpStream>>),
    /// Taken away, for TLS to be put in its place.
    Taken,
}

/// The writing half.
#[derive(Debug)]
pub(crate) enum Writing {
    Tcp(tcp::OwnedWriteHalf),
    Unix(unix::OwnedWriteHalf),
    Tls(WriteHalf<TlsStream<TcpStream>>),
    /// Taken away, for TLS to be put in its place.
    Taken,
}

/// Where a client comes from, and how.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// Its address; none: by the Unix socket.
    pub(crate) address: Option<IpAddr>,
    /// Its port, where it has an address.
    pub(crate) port: u16,
    /// The TLS that protects the connection.
    pub(crate) tls: Option<Arc<TlsState>>,
}

impl Peer {
    /// Its address and port, for those who look at sessions.
    pub(crate) fn client(&self) -> Option<(String, u16)> {
        self.address.map(|address| (address.to_string(), self.port))
    }
}

/// A socket's halves.
pub(crate) fn of_tcp(socket: TcpStream) -> (Reading, Writing) {
    // Answers are whole when they are sent; waiting for more bytes would only delay them.
    let _ = socket.set_nodelay(true);
    let (read, write) = socket.into_split();
    (Reading::Tcp(read), Writing::Tcp(write))
}

/// A socket's halves.
pub(crate) fn of_unix(socket: UnixStream) -> (Reading, Writing) {
    let (read, write) = socket.into_split();
    (Reading::Unix(read), Writing::Unix(write))
}

/// The halves of a TCP connection with TLS on it, once the client has shaken hands.
///
/// # Errors
/// Whatever is wrong with the handshake.
pub(crate) async fn with_tls(
    reading: Reading,
    writing: Writing,
    tls: &TlsState,
    direct: bool,
) -> std::io::Result<(Reading, Writing)> {
    let (Reading::Tcp(read), Writing::Tcp(write)) = (reading, writing) else {
        return Err(std::io::ErrorKind::InvalidInput.into());
    };
    let socket = read.reunite(write).map_err(std::io::Error::other)?;
    let stream = tls.accept(socket, direct).await?;
    let (read, write) = tokio::io::split(stream);
    Ok((Reading::Tls(read), Writing::Tls(write)))
}

impl Reading {
    /// Whether the client begins with a TLS handshake instead of asking for TLS first. Waits for its first byte.
    pub(crate) async fn begins_with_tls(&mut self) -> std::io::Result<bool> {
        /// The kind of a TLS record that holds a handshake. No startup packet is so long.
        const HANDSHAKE: u8 = 0x16;
        match self {
            Reading::Tcp(read) => {
                let mut first = [0];
                Ok(read.peek(&mut first).await? == 1 && first == [HANDSHAKE])
            }
            _ => Ok(false),
        }
    }
}

impl AsyncRead for Reading {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Reading::Tcp(read) => Pin::new(read).poll_read(cx, buf),
            Reading::Unix(read) => Pin::new(read).poll_read(cx, buf),
            Reading::Tls(read) => Pin::new(read).poll_read(cx, buf),
            Reading::Taken => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for Writing {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        match self.get_mut() {
            Writing::Tcp(write) => Pin::new(write).poll_write(cx, buf),
            Writing::Unix(write) => Pin::new(write).poll_write(cx, buf),
            Writing::Tls(write) => Pin::new(write).poll_write(cx, buf),
            Writing::Taken => Poll::Ready(Ok(0)),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Writing::Tcp(write) => Pin::new(write).poll_flush(cx),
            Writing::Unix(write) => Pin::new(write).poll_flush(cx),
            Writing::Tls(write) => Pin::new(write).poll_flush(cx),
            Writing::Taken => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Writing::Tcp(write) => Pin::new(write).poll_shutdown(cx),
            Writing::Unix(write) => Pin::new(write).poll_shutdown(cx),
            Writing::Tls(write) => Pin::new(write).poll_shutdown(cx),
            Writing::Taken => Poll::Ready(Ok(())),
        }
    }
}
