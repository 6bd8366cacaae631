//! TLS: the server's certificate and key, read from files, and read again when they have changed.
//!
//! The rule: it fails closed. A server that was told to serve TLS does not start without a good certificate, and a bad
//! one that is read later leaves the last good one in its place.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use keyspan_model::{Error, ErrorKind, Result};
use parking_lot::RwLock;
use pgwire::api::auth::sasl::scram::ScramServerAuth;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

/// The protocol's name in a TLS handshake.
const ALPN: &[u8] = b"postgresql";

/// The files of a certificate, and what was last read from them. Clones share it.
#[derive(Clone, Debug)]
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    state: Arc<RwLock<Arc<TlsState>>>,
}

/// A certificate with its key, ready to be used.
pub(crate) struct TlsState {
    acceptor: TlsAcceptor,
    /// SCRAM bound to this certificate.
    scram: ScramServerAuth,
}

impl std::fmt::Debug for TlsState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsState").finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads a certificate (PEM, the server's own first, then those that signed it) and its private key (PEM).
    ///
    /// # Errors
    /// 58030 for files that cannot be read, 22023 for what is no certificate, or whose key is another's.
    pub fn load(certificate: &Path, key: &Path) -> Result<Tls> {
        let state = Arc::new(RwLock::new(Arc::new(TlsState::load(certificate, key)?)));
        Ok(Tls { certificate: certificate.to_owned(), key: key.to_owned(), state })
    }

    /// Reads the files again; connections that begin from now on get what is in them.
    ///
    /// # Errors
    /// As [`Tls::load`]; then the last good certificate stays.
    pub fn reload(&self) -> Result<()> {
        *self.state.write() = Arc::new(TlsState::load(&self.certificate, &self.key)?);
        Ok(())
    }

    /// What new connections get.
    pub(crate) fn current(&self) -> Arc<TlsState> {
        self.state.read().clone()
    }
}

impl TlsState {
    fn load(certificate: &Path, key: &Path) -> Result<TlsState> {
        let pem = std::fs::read(certificate).map_err(|error| unreadable(certificate, &error))?;
        let wrong = |what: &str, path: &Path, error: &dyn std::fmt::Display| {
            let message = format!("\"{}\" is no {what} in PEM form: {error}", path.display());
            Error::new(ErrorKind::InvalidParameter, message)
        };
        let chain = CertificateDer::pem_slice_iter(&pem)
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(|error| wrong("certificate", certificate, &error))?;
        if chain.is_empty() {
            return Err(wrong("certificate", certificate, &"it holds none"));
        }
        let bytes = std::fs::read(key).map_err(|error| unreadable(key, &error))?;
        check_private(key)?;
        let private = PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| wrong("private key", key, &error))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::internal(error.to_string()))?
            .with_no_client_auth()
            .with_single_cert(chain, private)
            .map_err(|error| wrong("certificate of this key", certificate, &error))?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        let mut scram = ScramServerAuth::new();
        scram.configure_certificate(&pem).map_err(|error| wrong("certificate", certificate, &error))?;
        Ok(TlsState { acceptor: TlsAcceptor::from(Arc::new(config)), scram })
    }

    /// Shakes hands. A client that begins with TLS `direct`ly must say that it means this protocol.
    pub(crate) async fn accept(&self, socket: TcpStream, direct: bool) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = self.acceptor.accept(socket).await?;
        match direct && stream.get_ref().1.alpn_protocol() != Some(ALPN) {
            true => Err(std::io::ErrorKind::InvalidData.into()),
            false => Ok(stream),
        }
    }

    /// SCRAM bound to this certificate.
    pub(crate) fn scram(&self) -> &ScramServerAuth {
        &self.scram
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("could not read \"{}\": {error}", path.display()))
}

/// As PostgreSQL: nobody but the owner, or root and its group, may read the key.
fn check_private(key: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(key).map_err(|error| unreadable(key, &error))?;
    let forbidden = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    if metadata.mode() & forbidden == 0 {
        return Ok(());
    }
    let message = format!("private key file \"{}\" has group or world access", key.display());
    Err(Error::new(ErrorKind::InvalidParameter, message).with_hint("chmod 600, or 640 if root owns it."))
}
