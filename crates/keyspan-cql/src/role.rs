//! `CREATE | ALTER | DROP ROLE`, in PostgreSQL's and CQL's forms.

use keyspan_model::{Error, ErrorKind, Result};
use sqlparser::tokenizer::Token;

use crate::keyspace::value;
use crate::reader::Reader;
use crate::statement::{AlterRole, CreateRole, DropRole, OptionValue, RoleOption, Statement};

/// Whether a statement about roles begins with this word after its verb.
pub(crate) fn at(reader: &Reader) -> bool {
    matches!(reader.word(1), Some("role" | "user" | "group")) && !reader.at_all(&["alter", "user", "mapping"])
}

/// `CREATE ROLE | USER | GROUP [IF NOT EXISTS] name [[WITH] option …]`, CQL's `WITH option = value AND …`.
pub(crate) fn create(reader: &mut Reader) -> Result<Statement> {
    reader.skip();
    let is_user = reader.at("user");
    reader.skip();
    let if_not_exists = reader.eat_all(&["if", "not", "exists"]);
    let mut role = CreateRole {
        name: new_name(reader)?,
        if_not_exists,
        options: if is_user { vec![RoleOption::Login(true)] } else { Vec::new() },
        member_of: Vec::new(),
        members: Vec::new(),
    };
    reader.eat("with");
    while !reader.at_end() {
        if reader.eat_all(&["in", "role"]) || reader.eat_all(&["in", "group"]) {
            role.member_of.extend(reader.list(Reader::name)?);
        } else if let Some(word) = reader.eat_any(&["role", "user", "admin"]) {
            let names = reader.list(Reader::name)?;
            role.members.extend(names.into_iter().map(|name| (name, word == "admin")));
        } else {
            option(reader, &mut role.options)?;
        }
        reader.eat("and");
    }
    Ok(Statement::CreateRole(role))
}

/// `ALTER ROLE | USER | GROUP [IF EXISTS] name [WITH] option … | RENAME TO name`.
pub(crate) fn alter(reader: &mut Reader) -> Result<Statement> {
    reader.skip();
    reader.skip();
    let if_exists = reader.eat_all(&["if", "exists"]);
    let role = reader.role_name()?;
    if reader.eat_all(&["rename", "to"]) {
        let rename_to = Some(new_name(reader)?);
        return Ok(Statement::AlterRole(AlterRole { role, if_exists, options: Vec::new(), rename_to }));
    }
    if matches!(reader.word(0), Some("set" | "reset" | "in")) {
        let error = reader.not_supported("settings of a role are not supported");
        return Err(error.with_hint("Write SET in the session, or the options of the connection string."));
    }
    reader.eat("with");
    let mut options = Vec::new();
    while !reader.at_end() {
        option(reader, &mut options)?;
        reader.eat("and");
    }
    if options.is_empty() {
        return Err(reader.unexpected());
    }
    Ok(Statement::AlterRole(AlterRole { role, if_exists, options, rename_to: None }))
}

/// `DROP ROLE | USER | GROUP [IF EXISTS] name, …`.
pub(crate) fn drop(reader: &mut Reader) -> Result<Statement> {
    reader.skip();
    reader.skip();
    let if_exists = reader.eat_all(&["if", "exists"]);
    Ok(Statement::DropRole(DropRole { if_exists, names: reader.list(Reader::name)? }))
}

fn new_name(reader: &mut Reader) -> Result<String> {
    let position = reader.position();
    let name = reader.word_or_string()?;
    let reserved = matches!(name.as_str(), "public" | "none" | "current_user" | "current_role" | "session_user");
    if reserved || name.starts_with("pg_") || name.is_empty() {
        let error = Error::new(ErrorKind::ReservedName, format!("role name \"{name}\" is reserved"));
        return Err(error.at(position));
    }
    Ok(name)
}

/// Makes an option of its value.
type FlagOption = fn(bool) -> RoleOption;

/// One option; in CQL's form with `=`.
fn option(reader: &mut Reader, options: &mut Vec<RoleOption>) -> Result<()> {
    let flag = |reader: &mut Reader, name: &'static str| -> Result<Option<bool>> {
        let negated = format!("no{name}");
        if reader.at(&negated) {
            reader.skip();
            return Ok(Some(false));
        }
        if !reader.eat(name) {
            return Ok(None);
        }
        if !reader.eat_token(&Token::Eq) {
            return Ok(Some(true));
        }
        match value(reader)? {
            OptionValue::Boolean(value) => Ok(Some(value)),
            _ => Err(Error::new(ErrorKind::InvalidParameter, format!("{} must be true or false", name.to_uppercase()))),
        }
    };
    let flags: [(&'static str, FlagOption); 5] = [
        ("superuser", RoleOption::Superuser),
        ("login", RoleOption::Login),
        ("createrole", RoleOption::CreateRole),
        ("createdb", RoleOption::CreateKeyspace),
        ("inherit", RoleOption::Inherit),
    ];
    for (name, make) in flags {
        if let Some(value) = flag(reader, name)? {
            options.push(make(value));
            return Ok(());
        }
    }
    // What no role has need not be taken away.
    if reader.eat_any(&["noreplication", "nobypassrls"]).is_none() {
        options.push(other_option(reader)?);
    }
    Ok(())
}

fn other_option(reader: &mut Reader) -> Result<RoleOption> {
    reader.eat("encrypted");
    if reader.eat("password") {
        reader.eat_token(&Token::Eq);
        let password = if reader.eat("null") { None } else { Some(reader.string()?) };
        return Ok(RoleOption::Password(password));
    }
    if reader.eat_all(&["connection", "limit"]) {
        let limit = reader.integer()?;
        return match u32::try_from(limit) {
            Ok(limit) => Ok(RoleOption::ConnectionLimit(Some(limit))),
            Err(_) if limit == -1 => Ok(RoleOption::ConnectionLimit(None)),
            Err(_) => Err(Error::new(ErrorKind::InvalidParameter, format!("invalid connection limit: {limit}"))),
        };
    }
    if reader.eat_all(&["valid", "until"]) {
        return reader.string().map(RoleOption::ValidUntil);
    }
    if matches!(reader.word(0), Some("replication" | "bypassrls" | "options" | "access" | "hashed" | "unencrypted")) {
        let word = reader.word(0).unwrap_or_default().to_uppercase();
        return Err(reader.not_supported(format!("the option {word} of a role is not supported")));
    }
    Err(reader.unexpected())
}
