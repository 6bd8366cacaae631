//! `SHOW` and `DESCRIBE`.

use keyspan_model::Result;
use sqlparser::tokenizer::Token;

use crate::reader::Reader;
use crate::statement::{Describe, Show, Statement};

/// `SHOW …`.
pub(crate) fn show(reader: &mut Reader) -> Result<Statement> {
    reader.skip();
    let show = if reader.eat("all") {
        Show::All
    } else if reader.eat("tables") {
        let from = reader.eat_any(&["from", "in"]).is_some();
        Show::Tables { keyspace: if from { Some(reader.name()?) } else { None } }
    } else if reader.eat_any(&["keyspaces", "schemas", "databases"]).is_some() {
        Show::Keyspaces
    } else if reader.eat("views") {
        Show::Views
    } else if reader.eat("functions") {
        Show::Functions
    } else if reader.eat("columns") {
        if reader.eat_any(&["from", "in"]).is_none() {
            return Err(reader.unexpected());
        }
        Show::Columns(reader.object_name()?)
    } else if reader.eat("files") {
        if reader.eat_any(&["from", "in"]).is_none() {
            return Err(reader.unexpected());
        }
        Show::Files(reader.object_name()?)
    } else if reader.eat("create") {
        if !reader.eat_all(&["materialized", "view"]) && reader.eat_any(&["table", "view"]).is_none() {
            return Err(reader.unexpected());
        }
        Show::Create(reader.object_name()?)
    } else if reader.eat_all(&["time", "zone"]) {
        Show::Setting("timezone".to_owned())
    } else if reader.eat_all(&["transaction", "isolation", "level"]) {
        Show::Setting("transaction_isolation".to_owned())
    } else if reader.eat_all(&["session", "authorization"]) {
        Show::Setting("session_authorization".to_owned())
    } else {
        Show::Setting(setting(reader)?)
    };
    Ok(Statement::Show(show))
}

/// A setting's name, perhaps with a prefix and a period, in lower case.
pub(crate) fn setting(reader: &mut Reader) -> Result<String> {
    let mut name = reader.name()?;
    while reader.eat_token(&Token::Period) {
        name = format!("{name}.{}", reader.name()?);
    }
    Ok(name.to_lowercase())
}

/// `DESCRIBE | DESC …`.
pub(crate) fn statement(reader: &mut Reader) -> Result<Statement> {
    reader.skip();
    let names_it = matches!(reader.token(1), Token::Word(_));
    let describe = if reader.eat("cluster") {
        Describe::Cluster
    } else if reader.eat_all(&["full", "schema"]) || (reader.at("schema") && !names_it && reader.eat("schema")) {
        Describe::Schema
    } else if reader.eat_any(&["keyspaces", "schemas"]).is_some() {
        Describe::Keyspaces
    } else if reader.eat_any(&["keyspace", "schema"]).is_some() {
        Describe::Keyspace(if reader.at_end() { None } else { Some(reader.name()?) })
    } else if reader.eat("tables") {
        Describe::Tables
    } else if reader.eat("types") {
        Describe::Types
    } else if names_it && reader.eat("type") {
        Describe::Type(reader.object_name()?)
    } else if reader.eat_all(&["materialized", "view"])
        || (names_it && reader.eat_any(&["table", "view", "columnfamily"]).is_some())
    {
        Describe::Table(reader.object_name()?)
    } else if names_it && reader.eat("index") {
        Describe::Index(reader.object_name()?)
    } else {
        Describe::Any(reader.object_name()?)
    };
    Ok(Statement::Describe(describe))
}
