//! `GRANT` and `REVOKE`, in PostgreSQL's and CQL's forms.

use keyspan_model::{Error, Result};
use sqlparser::tokenizer::Token;

use crate::reader::Reader;
use crate::statement::{GrantObjects, GrantRights, GrantRoles, GrantedRight, RightWord, RoleName, Statement};

/// `GRANT right, … ON object, … TO role, … [WITH GRANT OPTION]`, `GRANT role, … TO role, … [WITH ADMIN OPTION]`.
pub(crate) fn grant(reader: &mut Reader) -> Result<Statement> {
    reader.skip();
    if !grants_rights(reader) {
        let roles = reader.list(Reader::name)?;
        reader.expect("to")?;
        let members = grantees(reader)?;
        let admin = reader.eat_all(&["with", "admin", "option"]) || reader.eat_all(&["with", "admin", "true"]);
        granted_by(reader)?;
        return Ok(Statement::GrantRoles(GrantRoles { revoke: false, roles, members, admin }));
    }
    let rights = rights(reader)?;
    reader.expect("on")?;
    let objects = objects(reader)?;
    reader.expect("to")?;
    let grantees = grantees(reader)?;
    let grant_option = reader.eat_all(&["with", "grant", "option"]);
    granted_by(reader)?;
    Ok(Statement::GrantRights(GrantRights { revoke: false, rights, objects, grantees, grant_option, cascade: false }))
}

/// `REVOKE [GRANT OPTION FOR] right, … ON object, … FROM role, … [CASCADE | RESTRICT]`,
/// `REVOKE [ADMIN OPTION FOR] role, … FROM role, …`: memberships do not depend on each other.
pub(crate) fn revoke(reader: &mut Reader) -> Result<Statement> {
    reader.skip();
    let admin = reader.eat_all(&["admin", "option", "for"]);
    let grant_option = reader.eat_all(&["grant", "option", "for"]);
    if admin || !grants_rights(reader) {
        let roles = reader.list(Reader::name)?;
        reader.expect("from")?;
        let members = grantees(reader)?;
        granted_by(reader)?;
        reader.eat_any(&["cascade", "restrict"]);
        return Ok(Statement::GrantRoles(GrantRoles { revoke: true, roles, members, admin }));
    }
    let rights = rights(reader)?;
    reader.expect("on")?;
    let objects = objects(reader)?;
    reader.expect("from")?;
    let grantees = grantees(reader)?;
    granted_by(reader)?;
    let cascade = reader.eat_any(&["cascade", "restrict"]) == Some("cascade");
    Ok(Statement::GrantRights(GrantRights { revoke: true, rights, objects, grantees, grant_option, cascade }))
}

/// Whether there is an ON before TO or FROM, so that these are rights and not roles.
fn grants_rights(reader: &Reader) -> bool {
    let mut words = (0..).map_while(|n| (*reader.token(n) != Token::EOF).then(|| reader.word(n)));
    words.find_map(|word| word.filter(|word| matches!(*word, "on" | "to" | "from"))) == Some("on")
}

/// `ALL [PRIVILEGES | PERMISSIONS]` as none, or `right [(column, …)], …`.
fn rights(reader: &mut Reader) -> Result<Option<Vec<GrantedRight>>> {
    if reader.eat("all") {
        reader.eat_any(&["privileges", "permissions"]);
        return Ok(None);
    }
    let rights = reader.list(|reader| {
        let right = right(reader)?;
        let columns = if *reader.token(0) == Token::LParen { reader.names()? } else { Vec::new() };
        Ok(GrantedRight { right, columns })
    })?;
    reader.eat_any(&["permission", "permissions"]);
    Ok(Some(rights))
}

fn right(reader: &mut Reader) -> Result<RightWord> {
    let refused = |hint: &str| -> Error {
        let word = reader.word(0).unwrap_or_default().to_uppercase();
        reader.not_supported(format!("the privilege {word} is not supported")).with_hint(hint)
    };
    let right = match reader.word(0) {
        Some("select") => RightWord::Select,
        Some("insert") => RightWord::Insert,
        Some("update") => RightWord::Update,
        Some("delete") => RightWord::Delete,
        Some("truncate") => RightWord::Truncate,
        Some("usage") => RightWord::Usage,
        Some("create") => RightWord::Create,
        Some("modify") => RightWord::Modify,
        Some("alter" | "drop" | "authorize" | "maintain") => {
            return Err(refused("The owner of a table may do this: write ALTER TABLE … OWNER TO."));
        }
        Some("connect") => return Err(refused("A role with LOGIN may connect.")),
        Some("temporary" | "temp") => return Err(refused("There are no temporary tables.")),
        Some("describe") => return Err(refused("What a role has a right to is described to it.")),
        Some("execute") => return Err(refused("Everybody may call every function.")),
        Some("references" | "trigger" | "set") => return Err(refused("There is nothing that it would allow.")),
        _ => return Err(reader.unexpected()),
    };
    reader.skip();
    Ok(right)
}

fn objects(reader: &mut Reader) -> Result<GrantObjects> {
    if reader.at_all(&["all", "keyspaces"]) {
        let error = reader.not_supported("privileges on ALL KEYSPACES are not supported");
        return Err(error.with_hint("Write ON KEYSPACE and name each."));
    }
    if reader.eat_all(&["all", "tables", "in"]) {
        reader.eat_any(&["schema", "keyspace"]);
        return reader.list(Reader::name).map(GrantObjects::AllRelationsIn);
    }
    match reader.eat_any(&["schema", "keyspace"]) {
        Some("schema") => return reader.list(Reader::name).map(GrantObjects::Schemas),
        Some(_) => return reader.list(Reader::name).map(GrantObjects::Keyspaces),
        None => {}
    }
    let other = ["database", "sequence", "function", "type", "language", "domain", "tablespace", "foreign", "all"];
    if let Some(word) = reader.word(0).filter(|word| other.contains(word)) {
        let what = word.to_uppercase();
        let error = reader.not_supported(format!("privileges on {what} are not supported"));
        return Err(error.with_hint("Grant rights on tables, views, columns and keyspaces."));
    }
    reader.eat("table");
    reader.list(Reader::object_name).map(GrantObjects::Relations)
}

fn grantees(reader: &mut Reader) -> Result<Vec<RoleName>> {
    reader.list(|reader| {
        reader.eat("group");
        reader.role_name()
    })
}

/// `GRANTED BY role`: PostgreSQL takes only the current one, so it says nothing.
fn granted_by(reader: &mut Reader) -> Result<()> {
    if reader.eat_all(&["granted", "by"]) {
        reader.role_name()?;
    }
    Ok(())
}
