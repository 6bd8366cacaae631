//! What a password is kept as: PostgreSQL's SCRAM-SHA-256 verifier (RFC 5802, RFC 7677), from which nobody can log in.
//!
//! `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`, all but the iterations in base64.

use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use keyspan_model::{Error, ErrorKind, Result};
use ring::{digest, hmac, pbkdf2, rand};

const METHOD: &str = "SCRAM-SHA-256";
/// As PostgreSQL 15.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).expect("not zero");
const SALT_BYTES: usize = 16;
const KEY_BYTES: usize = 32;

/// What a login is checked with.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    /// How often the password is hashed.
    pub iterations: u32,
    /// Hashed with it.
    pub salt: Vec<u8>,
    /// The hash of the client's key.
    pub stored_key: Vec<u8>,
    /// With which the server proves itself.
    pub server_key: Vec<u8>,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

impl Verifier {
    /// Reads a verifier as a role keeps it.
    pub fn parse(text: &str) -> Option<Verifier> {
        let (cost, keys) = text.strip_prefix(METHOD)?.strip_prefix('$')?.split_once('$')?;
        let ((iterations, salt), (stored, server)) = (cost.split_once(':')?, keys.split_once(':')?);
        let decoded = |text: &str| STANDARD.decode(text).ok();
        let verifier = Verifier {
            iterations: iterations.parse().ok().filter(|iterations| *iterations > 0)?,
            salt: decoded(salt).filter(|salt| !salt.is_empty())?,
            stored_key: decoded(stored).filter(|key| key.len() == KEY_BYTES)?,
            server_key: decoded(server).filter(|key| key.len() == KEY_BYTES)?,
        };
        Some(verifier)
    }

    /// One that no password fits, but always the same for the same name: who asks for a role that there is not learns
    /// nothing from the answer. `secret` is the server's own.
    pub fn of_nobody(name: &str, secret: &[u8]) -> Verifier {
        let salt = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), name.as_bytes());
        let salt = salt.as_ref()[..SALT_BYTES].to_vec();
        // Nobody knows a client's key whose hash would be this.
        Verifier { iterations: ITERATIONS.get(), salt, stored_key: vec![0; KEY_BYTES], server_key: vec![0; KEY_BYTES] }
    }
}

/// The verifier of a password; a text that is one already stays as it is.
///
/// # Errors
/// 0A000 for PostgreSQL's MD5 hashes, 22023 for an empty password.
pub(crate) fn verifier(password: &str) -> Result<String> {
    if Verifier::parse(password).is_some() {
        return Ok(password.to_owned());
    }
    let is_md5 = password.strip_prefix("md5").is_some_and(|rest| rest.len() == 32 && rest.bytes().all(hexadecimal));
    if is_md5 {
        let error = Error::not_supported("MD5 passwords are not supported");
        return Err(error.with_hint("Give the password itself, or a SCRAM-SHA-256 verifier."));
    }
    if password.is_empty() {
        return Err(Error::new(ErrorKind::InvalidParameter, "the password is empty"));
    }
    let mut salt = [0; SALT_BYTES];
    rand::SecureRandom::fill(&rand::SystemRandom::new(), &mut salt)
        .map_err(|_| Error::new(ErrorKind::Io, "the operating system gave no random bytes"))?;
    // As in PostgreSQL a password that cannot be normalized is taken as it is.
    let normalized = stringprep::saslprep(password).unwrap_or(password.into());
    let mut salted = [0; KEY_BYTES];
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ITERATIONS, &salt, normalized.as_bytes(), &mut salted);
    let key = hmac::Key::new(hmac::HMAC_SHA256, &salted);
    let stored = digest::digest(&digest::SHA256, hmac::sign(&key, b"Client Key").as_ref());
    let server = hmac::sign(&key, b"Server Key");
    let [salt, stored, server] = [&salt, stored.as_ref(), server.as_ref()].map(|bytes| STANDARD.encode(bytes));
    Ok(format!("{METHOD}${ITERATIONS}:{salt}${stored}:{server}"))
}

fn hexadecimal(byte: u8) -> bool {
    byte.is_ascii_hexdigit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verifiers_are_salted_and_read_back() {
        let (one, two) = (verifier("secret").expect("one"), verifier("secret").expect("two"));
        assert_ne!(one, two, "each has a salt of its own");
        assert!(!one.contains("secret"));
        assert_eq!(verifier(&one).expect("kept"), one);
        let parsed = Verifier::parse(&one).expect("a verifier");
        assert_eq!((parsed.iterations, parsed.salt.len()), (4096, 16));
        assert!(!format!("{parsed:?}").contains("key"));
        assert!(verifier("").is_err() && verifier("md5aabbccddeeff00112233445566778899").is_err());
    }

    #[test]
    fn broken_verifiers_are_passwords() {
        for text in ["SCRAM-SHA-256$", "SCRAM-SHA-256$0:YQ==$YQ==:YQ==", "SCRAM-SHA-256$4096:YQ==$YQ==:YQ=="] {
            assert!(Verifier::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn nobody_has_the_same_salt_each_time() {
        let salt = |name: &str| Verifier::of_nobody(name, b"own").salt;
        assert_eq!(salt("ann"), salt("ann"));
        assert_ne!(salt("ann"), salt("bob"));
    }
}
