//! Who a client is: by the rules of access, and SCRAM-SHA-256 where they ask for a password (RFC 5802, RFC 7677).
//!
//! ```text
//! AuthenticationSASL: mechanisms ─▶ SASLInitialResponse ─▶ SASLContinue ─▶ SASLResponse ─▶ SASLFinal
//! ```
//! The rule: a role that there is not, that may not log in, or that has no password, is asked for one as any other, and
//! is refused in the same words. Over TLS the exchange is bound to the certificate where the client can do that, so that
//! nobody in between can pass it on.

use bytes::{Buf, Bytes};
use keyspan::password::Verifier;
use keyspan_model::{Catalog, Error, ErrorKind, RoleDef};
use pgwire::api::auth::sasl::scram::{ScramSecret, ScramServerAuth};
use pgwire::error::PgWireError;
use pgwire::messages::startup::Authentication;

use crate::access::{Access, Method};
use crate::failure::{Failure, protocol};
use crate::frame::FrameReader;
use crate::output::Output;
use crate::startup::Startup;
use crate::transport::Peer;

const PLAIN: &str = "SCRAM-SHA-256";
const BOUND: &str = "SCRAM-SHA-256-PLUS";

/// Settles that the client is who it says. Without roles everybody on this machine is the owner.
pub(crate) async fn authenticate(
    access: &Access,
    catalog: &Catalog,
    startup: &Startup,
    peer: &Peer,
    reader: &mut FrameReader,
    out: &mut Output,
) -> Result<(), Failure> {
    let user = startup.user().map_err(Failure::Fatal)?;
    let host = peer.address.map_or_else(|| "[local]".to_owned(), |address| address.to_string());
    let refused = |message: String| {
        tracing::warn!(user, host, "{message}");
        Failure::Fatal(Error::new(ErrorKind::InvalidAuthorization, message))
    };
    if !catalog.rights.has_roles() {
        return match peer.address.is_none_or(|address| address.is_loopback()) {
            true => Ok(()),
            false => Err(refused("there are no roles: only clients of this machine are served".into())),
        };
    }
    match access.method(catalog, user, startup.database(user), peer) {
        Method::Trust => {
            tracing::info!(user, host, "connection trusted");
            Ok(())
        }
        Method::Reject => {
            let tls = if peer.tls.is_some() { "SSL encryption" } else { "no encryption" };
            Err(refused(format!("no rule of access for host \"{host}\", user \"{user}\", {tls}")))
        }
        Method::Scram => {
            let verifier = verifier(access, catalog.rights.role(user), user);
            match exchange(verifier, peer, reader, out).await {
                Ok(()) => {
                    tracing::info!(user, host, tls = peer.tls.is_some(), "connection authenticated");
                    Ok(())
                }
                Err(Failure::Fatal(error)) if error.kind == ErrorKind::InvalidPassword => {
                    let message = format!("password authentication failed for user \"{user}\"");
                    tracing::warn!(user, host, "{message}");
                    Err(Failure::Fatal(Error::new(ErrorKind::InvalidPassword, message)))
                }
                Err(failure) => Err(failure),
            }
        }
    }
}

/// With what the role's password is checked; nobody's where no password would do.
fn verifier(access: &Access, role: Option<&RoleDef>, user: &str) -> Verifier {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
    let usable = role.filter(|role| role.login && role.valid_until.is_none_or(|until| until > now));
    let verifier = usable.and_then(|role| Verifier::parse(role.password.as_deref()?));
    verifier.unwrap_or_else(|| Verifier::of_nobody(user, access.secret()))
}

async fn exchange(verifier: Verifier, peer: &Peer, reader: &mut FrameReader, out: &mut Output) -> Result<(), Failure> {
    let mut mechanisms = vec![PLAIN.to_owned()];
    if peer.tls.is_some() {
        mechanisms.insert(0, BOUND.to_owned());
    }
    out.message(&Authentication::SASL(mechanisms))?;
    out.flush().await?;
    let (mechanism, first) = initial_response(answer(reader).await?).map_err(Failure::Fatal)?;
    let is_bound = first.starts_with(b"p=");
    if mechanism != if is_bound { BOUND } else { PLAIN } || (is_bound && peer.tls.is_none()) {
        return Err(Failure::Fatal(protocol("client selected an invalid SASL authentication mechanism")));
    }
    let secret = ScramSecret::Verifier {
        salt: verifier.salt,
        iterations: verifier.iterations as usize,
        stored_key: verifier.stored_key,
        server_key: verifier.server_key,
    };
    let unbound = ScramServerAuth::new();
    let scram = peer.tls.as_ref().map_or(&unbound, |tls| tls.scram());
    let (challenge, waiting) = scram.on_client_first_message_with_secret(&first, secret).map_err(failed)?;
    out.message(&Authentication::SASLContinue(challenge.into()))?;
    out.flush().await?;
    let last = answer(reader).await?;
    let proof = waiting.on_client_final_message(&last).map_err(failed)?;
    out.message(&Authentication::SASLFinal(proof.into()))?;
    Ok(())
}

/// The body of the client's next message, which must be of the kind of passwords.
async fn answer(reader: &mut FrameReader) -> Result<Bytes, Failure> {
    match reader.frame().await? {
        Some(frame) if frame.kind == b'p' => Ok(frame.body),
        Some(frame) => {
            let message = format!("expected SASL response, got message type {}", frame.kind);
            Err(Failure::Fatal(protocol(message)))
        }
        None => Err(Failure::Gone),
    }
}

/// The mechanism and the first message of a SASLInitialResponse.
fn initial_response(mut body: Bytes) -> keyspan_model::Result<(String, Bytes)> {
    let malformed = || protocol("malformed SASL response");
    let end = body.iter().position(|byte| *byte == 0).ok_or_else(malformed)?;
    let mechanism = String::from_utf8(body.split_to(end).to_vec()).map_err(|_| malformed())?;
    body.advance(1);
    if body.len() < 4 {
        return Err(malformed());
    }
    let length = usize::try_from(body.get_i32()).map_err(|_| malformed())?;
    if length != body.len() {
        return Err(malformed());
    }
    Ok((mechanism, body))
}

fn failed(error: PgWireError) -> Failure {
    Failure::Fatal(match error {
        PgWireError::InvalidPassword(_) => Error::new(ErrorKind::InvalidPassword, "password authentication failed"),
        other => protocol(format!("malformed SCRAM message: {other}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initial_responses_are_checked() {
        let read = |body: &'static [u8]| initial_response(Bytes::from_static(body));
        assert_eq!(read(b"M\0\0\0\0\x02ab").expect("good"), ("M".to_owned(), Bytes::from_static(b"ab")));
        for bad in
            [&b""[..], b"M", b"M\0", b"M\0\0\0\0", b"M\0\0\0\0\x03ab", b"M\0\xff\xff\xff\xffab", b"\xff\0\0\0\0\0"]
        {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
