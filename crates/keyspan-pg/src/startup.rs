//! From the first byte of a connection to its first ReadyForQuery.
//!
//! The rule: every error here is FATAL and ends the connection; no request is looked at before a session exists, and
//! nothing that was sent ahead of a negotiation's answer is ever taken for part of what follows.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use keyspan_model::{Error, ErrorKind, Result};
use pgwire::messages::response::{ReadyForQuery, TransactionStatus};
use pgwire::messages::startup::{Authentication, BackendKeyData, NegotiateProtocolVersion, ParameterStatus, SecretKey};

use crate::encoding::Encoding;
use crate::engine::Session;
use crate::failure::{Failure, protocol};
use crate::frame::FrameReader;
use crate::output::Output;
use crate::tls::TlsState;
use crate::transport::{self, Peer, Reading, Writing};

const CANCEL_REQUEST: u32 = 80_877_102;
const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;
/// The setting that names the client's encoding.
pub(crate) const CLIENT_ENCODING: &str = "client_encoding";
/// The newest minor version of protocol 3 that is spoken.
const NEWEST_MINOR: u16 = 2;

/// What a new client asks for.
#[derive(Debug)]
pub(crate) enum Wish {
    /// A session.
    Session(Startup),
    /// To cancel the statement of another connection.
    Cancel {
        /// Its process number.
        process: i32,
        /// Its secret.
        secret: Bytes,
    },
    /// Nothing: it closed.
    Nothing,
}

/// The start-up packet.
#[derive(Debug)]
pub(crate) struct Startup {
    minor: u16,
    parameters: Vec<(String, String)>,
}

/// Reads up to the start-up packet or the cancel request. TLS is begun where the client asks for it, or begins with it,
/// and the server has a certificate; then the peer says so.
pub(crate) async fn greet(
    reader: &mut FrameReader,
    out: &mut Output,
    peer: &mut Peer,
    tls: Option<Arc<TlsState>>,
) -> Result<Wish, Failure> {
    let (mut asked_ssl, mut asked_gss) = (false, false);
    if let Some(tls) = &tls
        && reader.socket().begins_with_tls().await?
    {
        begin_tls(reader, out, peer, tls, true).await?;
        asked_ssl = true;
    }
    loop {
        let Some(mut packet) = reader.startup_packet().await? else { return Ok(Wish::Nothing) };
        match packet.get_u32() {
            SSL_REQUEST if !asked_ssl => asked_ssl = true,
            GSS_REQUEST if !asked_gss => {
                asked_gss = true;
                refuse_early_bytes(reader)?;
                out.byte(b'N');
                out.flush().await?;
                continue;
            }
            CANCEL_REQUEST => return cancel(packet).map_err(Failure::Fatal),
            version => return startup(version, packet).map(Wish::Session).map_err(Failure::Fatal),
        }
        refuse_early_bytes(reader)?;
        match &tls {
            Some(tls) if asked_ssl && peer.tls.is_none() && peer.address.is_some() => {
                out.byte(b'S');
                out.flush().await?;
                begin_tls(reader, out, peer, tls, false).await?;
            }
            _ => {
                out.byte(b'N');
                out.flush().await?;
            }
        }
    }
}

async fn begin_tls(
    reader: &mut FrameReader,
    out: &mut Output,
    peer: &mut Peer,
    tls: &Arc<TlsState>,
    direct: bool,
) -> Result<(), Failure> {
    let reading = std::mem::replace(reader.socket(), Reading::Taken);
    let writing = std::mem::replace(out.socket(), Writing::Taken);
    (*reader.socket(), *out.socket()) = transport::with_tls(reading, writing, tls, direct).await?;
    peer.tls = Some(tls.clone());
    Ok(())
}

fn refuse_early_bytes(reader: &FrameReader) -> Result<(), Failure> {
    if !reader.has_unread() {
        return Ok(());
    }
    let error = protocol("received unencrypted data after encryption request").with_detail(
        "This could be either a client-software bug or evidence of an attempted man-in-the-middle attack.",
    );
    Err(Failure::Fatal(error))
}

fn cancel(mut packet: Bytes) -> Result<Wish> {
    if !(8..=260).contains(&packet.len()) {
        return Err(protocol("invalid length of cancel request packet"));
    }
    let process = packet.get_i32();
    Ok(Wish::Cancel { process, secret: packet })
}

fn startup(version: u32, packet: Bytes) -> Result<Startup> {
    let (major, minor) = ((version >> 16) as u16, version as u16);
    if major != 3 {
        return Err(Error::not_supported(format!(
            "unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.2"
        )));
    }
    let malformed = || protocol("invalid startup packet layout: expected terminator as last byte");
    let body = packet.strip_suffix(&[0]).ok_or_else(malformed)?;
    let mut parameters = Vec::new();
    if !body.is_empty() {
        let body = body.strip_suffix(&[0]).ok_or_else(malformed)?;
        let mut words = body.split(|byte| *byte == 0);
        while let Some(name) = words.next() {
            let value = words.next().ok_or_else(malformed)?;
            if name.is_empty() {
                return Err(malformed());
            }
            let text = |bytes| Encoding::UTF8.decode(bytes).map(Cow::into_owned);
            parameters.push((text(name)?, text(value)?));
        }
    }
    Ok(Startup { minor, parameters })
}

impl Startup {
    fn get(&self, name: &str) -> Option<&str> {
        self.parameters.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whom the client says it is.
    pub(crate) fn user(&self) -> Result<&str> {
        self.get("user").filter(|user| !user.is_empty()).ok_or_else(|| {
            Error::new(ErrorKind::InvalidAuthorization, "no PostgreSQL user name specified in startup packet")
        })
    }

    /// The database that it asks for: the one of its own name unless it says another.
    pub(crate) fn database<'a>(&'a self, user: &'a str) -> &'a str {
        self.get("database").filter(|name| !name.is_empty()).unwrap_or(user)
    }

    /// Whether the client reads secrets longer than four bytes.
    pub(crate) fn has_long_secrets(&self) -> bool {
        self.minor >= NEWEST_MINOR
    }

    /// Gives the session what the client asked for: its user, its database, its settings.
    pub(crate) fn apply(&self, session: &mut Session) -> Result<()> {
        let user = self.user()?;
        if self.get("replication").is_some_and(|value| !matches!(value, "false" | "off" | "no" | "0")) {
            return Err(Error::not_supported("replication connections are not supported"));
        }
        session.connect_as(user, self.database(user))?;
        for (name, value) in options(self.get("options").unwrap_or_default())? {
            session.set(&name, &value)?;
        }
        for (name, value) in &self.parameters {
            let own =
                matches!(name.as_str(), "user" | "database" | "options" | "replication") || name.starts_with("_pq_.");
            if !own {
                session.set(name, value)?;
            }
        }
        Ok(())
    }

    /// Sends AuthenticationOk, the parameters of the session, and the key for cancel requests.
    pub(crate) fn welcome(&self, session: &mut Session, process: i32, secret: &Bytes, out: &mut Output) -> Result<()> {
        let unknown: Vec<String> =
            self.parameters.iter().map(|(name, _)| name.clone()).filter(|name| name.starts_with("_pq_.")).collect();
        if self.minor > NEWEST_MINOR || !unknown.is_empty() {
            let version = 3 << 16 | i32::from(self.minor.min(NEWEST_MINOR));
            out.message(&NegotiateProtocolVersion::new(version, unknown))?;
        }
        out.message(&Authentication::Ok)?;
        for (name, value) in session.settings().reported() {
            if name == CLIENT_ENCODING {
                out.set_encoding(Encoding::of_setting(&value));
            }
            out.message(&ParameterStatus::new(name.to_string(), value))?;
        }
        // They have all just been told.
        drop(session.take_parameter_changes());
        let secret = match self.has_long_secrets() {
            true => SecretKey::Bytes(secret.clone()),
            false => SecretKey::I32(secret.clone().get_i32()),
        };
        out.message(&BackendKeyData::new(process, secret))?;
        out.message(&ReadyForQuery::new(TransactionStatus::Idle))
    }
}

/// The settings of the `options` parameter: `-c name=value` and `--name=value`, where a backslash protects a blank.
fn options(text: &str) -> Result<Vec<(String, String)>> {
    let mut words = words(text).into_iter();
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        let assignment = match (word.strip_prefix("--"), word.strip_prefix("-c")) {
            (Some(rest), _) => pair(rest).map(|(name, value)| (name.replace('-', "_"), value)),
            (_, Some("")) => words.next().as_deref().and_then(pair),
            (_, Some(rest)) => pair(rest),
            _ => None,
        };
        let Some(assignment) = assignment else {
            let message = format!("invalid command-line argument for server process: {word}");
            return Err(Error::new(ErrorKind::Syntax, message));
        };
        settings.push(assignment);
    }
    Ok(settings)
}

fn pair(text: &str) -> Option<(String, String)> {
    text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
}

fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => word.get_or_insert_default().extend(characters.next()),
            blank if blank.is_ascii_whitespace() => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_as_postgres_reads_them() {
        let pairs = options(r"-c search_path=a\ b,c -cdatestyle=ISO --statement-timeout=5s").expect("options");
        let expected = [("search_path", "a b,c"), ("datestyle", "ISO"), ("statement_timeout", "5s")];
        assert_eq!(pairs, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert!(options("-x").is_err());
        assert!(options("-c").is_err());
    }

    #[test]
    fn startup_packets_are_pairs_and_a_terminator() {
        let startup = |body: &'static [u8]| startup(3 << 16, Bytes::from_static(body));
        let good = startup(b"user\0ann\0database\0\0\0").expect("well formed");
        assert_eq!((good.get("user"), good.get("database")), (Some("ann"), Some("")));
        assert!(startup(b"\0").expect("no parameters").parameters.is_empty());
        for bad in [&b""[..], b"user", b"user\0ann", b"user\0ann\0", b"user\0\0", b"\0x\0\0", b"u\0\xff\0\0"] {
            assert!(startup(bad).is_err(), "{bad:?}");
        }
    }
}
