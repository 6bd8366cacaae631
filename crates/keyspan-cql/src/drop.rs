//! `DROP` and `TRUNCATE`.

use keyspan_model::Result;

use crate::reader::Reader;
use crate::refuse;
use crate::statement::{Drop, DropKind, Statement, Truncate};

/// `DROP TABLE | VIEW | MATERIALIZED VIEW | INDEX | SEQUENCE | TYPE | KEYSPACE | SCHEMA [IF EXISTS] name, …
/// [CASCADE | RESTRICT]`.
pub(crate) fn statement(reader: &mut Reader) -> Result<Statement> {
    if let Some(error) = refuse::known(reader) {
        return Err(error);
    }
    reader.skip();
    let said_keyspace = reader.at("keyspace");
    let materialized = reader.eat("materialized");
    let kind = match reader.eat_any(&["table", "view", "index", "sequence", "type", "keyspace", "schema"]) {
        Some("view") if materialized => DropKind::MaterializedView,
        _ if materialized => return Err(reader.unexpected()),
        Some("table") => DropKind::Table,
        Some("view") => DropKind::View,
        Some("index") => DropKind::Index,
        Some("sequence") => DropKind::Sequence,
        Some("type") => DropKind::Type,
        Some(_) => DropKind::Keyspace,
        None => return Err(reader.unexpected()),
    };
    if kind == DropKind::Index {
        reader.eat("concurrently");
    }
    let if_exists = reader.eat_all(&["if", "exists"]);
    let names = reader.list(Reader::object_name)?;
    let behavior = reader.eat_any(&["cascade", "restrict"]);
    let (cascade, restrict) = (behavior == Some("cascade"), behavior == Some("restrict"));
    Ok(Statement::Drop(Drop { kind, if_exists, names, cascade, restrict, said_keyspace }))
}

/// `TRUNCATE [TABLE] [ONLY] name, … [RESTART | CONTINUE IDENTITY] [CASCADE | RESTRICT]`.
pub(crate) fn truncate(reader: &mut Reader) -> Result<Statement> {
    reader.skip();
    reader.eat_any(&["table", "columnfamily"]);
    reader.eat("only");
    let names = reader.list(Reader::object_name)?;
    let restart_identity = reader.eat_all(&["restart", "identity"]);
    reader.eat_all(&["continue", "identity"]);
    // There are no referencing tables to empty.
    reader.eat_any(&["cascade", "restrict"]);
    Ok(Statement::Truncate(Truncate { names, restart_identity }))
}
