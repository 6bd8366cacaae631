//! `COMMENT ON`.

use keyspan_model::Result;
use sqlparser::tokenizer::Token;

use crate::reader::Reader;
use crate::statement::{Comment, ObjectName, Statement};

/// `COMMENT ON kind name IS 'text' | NULL`, `COMMENT ON CONSTRAINT name ON table IS …`.
pub(crate) fn statement(reader: &mut Reader) -> Result<Statement> {
    reader.expect_all(&["comment", "on"])?;
    if reader.eat("constraint") {
        let constraint = reader.name()?;
        reader.expect("on")?;
        if reader.at("domain") {
            return Err(
                reader.not_supported("COMMENT ON CONSTRAINT … ON DOMAIN is not supported: there are no domains")
            );
        }
        let name = reader.object_name()?;
        let comment = text(reader)?;
        return Ok(Statement::Comment(Comment { kind: "constraint".into(), name, column: Some(constraint), comment }));
    }
    if reader.at_all(&["materialized", "view"]) {
        reader.skip();
    }
    let kinds = ["table", "column", "view", "index", "sequence", "keyspace", "schema", "database", "extension"];
    let Some(kind) = reader.eat_any(&kinds) else { return Err(reader.unexpected()) };
    let (name, column) = match kind {
        "column" => column(reader).map(|(table, column)| (table, Some(column)))?,
        _ => (reader.object_name()?, None),
    };
    let comment = text(reader)?;
    Ok(Statement::Comment(Comment { kind: kind.to_owned(), name, column, comment }))
}

/// `[[database.]keyspace.]table.column`.
fn column(reader: &mut Reader) -> Result<(ObjectName, String)> {
    let position = reader.position();
    let mut parts = vec![reader.name()?];
    while reader.eat_token(&Token::Period) {
        parts.push(reader.name()?);
    }
    let (column, of_table) = (parts.pop().unwrap_or_default(), parts);
    let (database, keyspace, name) = match of_table.as_slice() {
        [name] => (None, None, name),
        [keyspace, name] => (None, Some(keyspace), name),
        [database, keyspace, name] => (Some(database), Some(keyspace), name),
        [] => return Err(crate::source::syntax("column name must be qualified: table.column", position - 1)),
        [..] => return Err(crate::source::syntax("improper qualified name (too many dotted names)", position - 1)),
    };
    Ok((ObjectName { database: database.cloned(), keyspace: keyspace.cloned(), name: name.clone(), position }, column))
}

fn text(reader: &mut Reader) -> Result<Option<String>> {
    reader.expect("is")?;
    if reader.eat("null") { Ok(None) } else { reader.string().map(Some) }
}
