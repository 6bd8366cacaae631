//! `COMMENT ON`.

use keyspan_model::Result;

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
    let mut name = reader.object_name()?;
    let mut column = None;
    if kind == "column" {
        let Some(table) = name.keyspace.take() else {
            return Err(crate::source::syntax("column name must be qualified: table.column", name.position - 1));
        };
        column = Some(name.name);
        name = ObjectName { database: None, keyspace: name.database, name: table, position: name.position };
    }
    let comment = text(reader)?;
    Ok(Statement::Comment(Comment { kind: kind.to_owned(), name, column, comment }))
}

fn text(reader: &mut Reader) -> Result<Option<String>> {
    reader.expect("is")?;
    if reader.eat("null") { Ok(None) } else { reader.string().map(Some) }
}
