//! Which clients must prove themselves, and how: rules in the form of PostgreSQL's `pg_hba.conf`.
//!
//! ```text
//! # kind     database  user        address       method
//! local      all       all                       scram-sha-256
//! hostssl    all       +dashboards 10.0.0.0/8    scram-sha-256
//! host       all       all         127.0.0.1/32  trust
//! ```
//! The first rule that fits decides; where none does, the client is refused. Without rules every client needs a password.

use std::net::IpAddr;
use std::sync::Arc;

use keyspan_model::{Catalog, Error, ErrorKind, Principal, Result};
use parking_lot::RwLock;

use crate::transport::Peer;

/// The rules that a server goes by, and the secret with which it answers for roles that there are not. Clones share them.
#[derive(Clone, Debug)]
pub struct Access {
    rules: Arc<RwLock<Arc<AccessRules>>>,
    secret: Arc<[u8]>,
}

impl Default for Access {
    fn default() -> Self {
        Access::new(AccessRules::default())
    }
}

impl Access {
    /// These rules.
    pub fn new(rules: AccessRules) -> Access {
        let secret = [uuid::Uuid::new_v4().into_bytes(), uuid::Uuid::new_v4().into_bytes()].concat();
        Access { rules: Arc::new(RwLock::new(Arc::new(rules))), secret: secret.into() }
    }

    /// Puts other rules in their place; connections that begin from now on go by them.
    pub fn replace(&self, rules: AccessRules) {
        *self.rules.write() = Arc::new(rules);
    }

    /// How this client must prove who it is.
    pub(crate) fn method(&self, catalog: &Catalog, user: &str, database: &str, peer: &Peer) -> Method {
        let rules = self.rules.read().clone();
        rules.method(catalog, user, database, peer)
    }

    /// The server's own secret, another one after each start.
    pub(crate) fn secret(&self) -> &[u8] {
        &self.secret
    }
}

/// How a client proves who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// Not at all.
    Trust,
    /// It may not connect.
    Reject,
    /// By its password.
    Scram,
}

/// The rules, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRules(Vec<Rule>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    kind: Kind,
    databases: Vec<String>,
    users: Vec<String>,
    addresses: Addresses,
    method: Method,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Local,
    Host,
    HostTls,
    HostPlain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Addresses {
    All,
    Network(IpAddr, u8),
}

impl Default for AccessRules {
    fn default() -> Self {
        let rule = |kind| Rule {
            kind,
            databases: vec!["all".into()],
            users: vec!["all".into()],
            addresses: Addresses::All,
            method: Method::Scram,
        };
        AccessRules(vec![rule(Kind::Local), rule(Kind::Host)])
    }
}

impl AccessRules {
    /// Reads rules, one on each line; `#` begins a comment.
    ///
    /// # Errors
    /// 22023 with the line's number for what is no rule, 0A000 for methods that there are not.
    pub fn parse(text: &str) -> Result<AccessRules> {
        let mut rules = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.split_once('#').map_or(line, |(rule, _)| rule);
            let words: Vec<&str> = line.split_whitespace().collect();
            if !words.is_empty() {
                let located = |error: Error| {
                    let message = format!("line {} of the rules of access: {}", at + 1, error.message);
                    Error { message, ..error }
                };
                rules.push(rule(&words).map_err(located)?);
            }
        }
        match rules.is_empty() {
            true => Err(Error::new(ErrorKind::InvalidParameter, "the rules of access are empty: nobody could connect")),
            false => Ok(AccessRules(rules)),
        }
    }

    /// How this client must prove who it is.
    pub(crate) fn method(&self, catalog: &Catalog, user: &str, database: &str, peer: &Peer) -> Method {
        let fits =
            |rule: &&Rule| rule.fits_peer(peer) && rule.fits_database(user, database) && rule.fits_user(catalog, user);
        self.0.iter().find(fits).map_or(Method::Reject, |rule| rule.method)
    }
}

impl Rule {
    fn fits_peer(&self, peer: &Peer) -> bool {
        let kind = match (self.kind, peer.address, &peer.tls) {
            (Kind::Local, address, _) => address.is_none(),
            (Kind::Host, Some(_), _) | (Kind::HostTls, Some(_), Some(_)) | (Kind::HostPlain, Some(_), None) => true,
            _ => false,
        };
        kind && match (self.addresses, peer.address) {
            (Addresses::Network(network, bits), Some(address)) => contains(network, bits, address),
            (Addresses::All, _) | (_, None) => true,
        }
    }

    fn fits_database(&self, user: &str, database: &str) -> bool {
        self.databases.iter().any(|name| match name.as_str() {
            "all" => true,
            "sameuser" => database == user,
            name => name == database,
        })
    }

    /// `all`, a role's name, or `+role`: its members.
    fn fits_user(&self, catalog: &Catalog, user: &str) -> bool {
        self.users.iter().any(|name| match name.strip_prefix('+') {
            Some(group) => {
                let (group, role) = (catalog.rights.role(group), catalog.rights.role(user));
                let member = |of, id| catalog.rights.memberships(id).contains(&of);
                group.zip(role).is_some_and(|(group, role)| member(group.id, role.id))
            }
            None if name == "superusers" => {
                let role = catalog.rights.role(user);
                role.is_some_and(|role| catalog.rights.is_superuser(Principal::Role(role.id)))
            }
            None => name == "all" || name == user,
        })
    }
}

fn rule(words: &[&str]) -> Result<Rule> {
    let wrong = |message: String| Error::new(ErrorKind::InvalidParameter, message);
    let kind = match words[0] {
        "local" => Kind::Local,
        "host" => Kind::Host,
        "hostssl" => Kind::HostTls,
        "hostnossl" => Kind::HostPlain,
        other => return Err(wrong(format!("invalid connection type \"{other}\""))),
    };
    let (database, user, addresses, method) = match (kind, &words[1..]) {
        (Kind::Local, [database, user, method]) => (database, user, Addresses::All, method),
        (Kind::Local, _) => return Err(wrong("a rule of kind local is database, user and method".into())),
        (_, [database, user, address, method]) => (database, user, addresses(address, None)?, method),
        (_, [database, user, address, mask, method]) => (database, user, addresses(address, Some(mask))?, method),
        _ => return Err(wrong("a rule is database, user, address and method".into())),
    };
    let method = match *method {
        "scram-sha-256" => Method::Scram,
        "trust" => Method::Trust,
        "reject" => Method::Reject,
        other => {
            let error = Error::not_supported(format!("the method \"{other}\" is not supported"));
            return Err(error.with_hint("Methods are scram-sha-256, trust and reject."));
        }
    };
    let names = |list: &str| list.split(',').map(|name| name.trim_matches('"').to_owned()).collect();
    Ok(Rule { kind, databases: names(database), users: names(user), addresses, method })
}

/// `all`, an address, a network as `address/bits`, or an address and a mask.
fn addresses(text: &str, mask: Option<&str>) -> Result<Addresses> {
    if text == "all" && mask.is_none() {
        return Ok(Addresses::All);
    }
    let wrong = || Error::new(ErrorKind::InvalidParameter, format!("invalid address \"{text}\""));
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = match (bits, mask) {
        (Some(bits), None) => bits.parse().map_err(|_| wrong())?,
        (None, Some(mask)) => mask_bits(mask.parse().map_err(|_| wrong())?).ok_or_else(wrong)?,
        (None, None) => most,
        (Some(_), Some(_)) => return Err(wrong()),
    };
    if bits > most { Err(wrong()) } else { Ok(Addresses::Network(address, bits)) }
}

/// The length of a mask of leading ones.
fn mask_bits(mask: IpAddr) -> Option<u8> {
    let (value, width) = number(mask);
    let ones = (value << (128 - width)).leading_ones();
    let expected = if ones == 0 { 0 } else { u128::MAX << (128 - ones) };
    ((value << (128 - width)) == expected).then(|| u8::try_from(ones).ok())?
}

fn number(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

fn contains(network: IpAddr, bits: u8, address: IpAddr) -> bool {
    // A client of IPv4 on a socket of IPv6.
    let address = address.to_canonical();
    let ((network, width), (address, other)) = (number(network), number(address));
    width == other && (bits == 0 || (network ^ address) >> (width - u32::from(bits)) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str) -> Peer {
        Peer { address: address.parse().ok(), port: 0, tls: None }
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rules = AccessRules::parse(
            "# comment\nhost all ann 10.0.0.0/8 trust\nhost shop,all +team 192.168.1.0 255.255.255.0 reject\n\
             hostssl all all all trust # never here\nlocal sameuser all scram-sha-256\nhost all superusers ::1/128 trust",
        )
        .expect("rules");
        let mut catalog = Catalog::initial();
        let team = catalog.rights.add_role("team");
        let bob = catalog.rights.add_role("bob");
        catalog.rights.roles.get_mut(&bob).expect("bob").member_of.insert(team, false);
        let method = |user: &str, database: &str, address: &str| rules.method(&catalog, user, database, &peer(address));
        assert_eq!(method("ann", "d", "10.1.2.3"), Method::Trust);
        assert_eq!(method("ann", "d", "::ffff:10.1.2.3"), Method::Trust);
        assert_eq!(method("ann", "d", "11.1.2.3"), Method::Reject);
        assert_eq!(method("bob", "d", "192.168.1.9"), Method::Reject);
        assert_eq!(method("bob", "bob", ""), Method::Scram);
        assert_eq!(method("bob", "d", ""), Method::Reject);
        assert_eq!(AccessRules::default().method(&catalog, "bob", "d", &peer("1.2.3.4")), Method::Scram);
    }

    #[test]
    fn what_is_no_rule_is_refused_with_its_line() {
        for (text, part) in [
            ("", "empty"),
            ("host all all 10.0.0.0/33 trust", "invalid address"),
            ("host all all 10.0.0.0 255.0.255.0 trust", "invalid address"),
            ("\nhost all all trust", "line 2"),
            ("door all all trust", "connection type"),
            ("host all all all md5", "\"md5\" is not supported"),
            ("local all all 10.0.0.1 trust", "kind local"),
        ] {
            let error = AccessRules::parse(text).expect_err(text);
            assert!(error.message.contains(part), "{text}: {error}");
        }
    }
}
