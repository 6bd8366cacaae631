//! COMMENT ON: kept among the table's options, where Cassandra keeps it too.

use std::sync::Arc;

use keyspan_cql::Comment;
use keyspan_model::{Error, ErrorKind, Result, TableDef};

use super::change;
use crate::context::ClientContext;
use crate::names;
use crate::outcome::{Outcome, Tag};

/// The option that holds the comment of a constraint.
pub(super) fn of_constraint(name: &str) -> String {
    format!("comment on constraint.{name}")
}

/// `COMMENT ON TABLE | COLUMN | CONSTRAINT … IS …`.
pub(crate) async fn run(context: &mut ClientContext, statement: &Comment) -> Result<Outcome> {
    let path = context.settings.search_path();
    if !matches!(statement.kind.as_str(), "table" | "column" | "constraint") {
        let error = Error::not_supported(format!("COMMENT ON {} is not supported", statement.kind.to_uppercase()));
        return Err(error.with_hint("Tables, columns and constraints can have comments."));
    }
    change(context, |catalog| {
        let table = names::table(catalog, &path, &statement.name)?;
        let mut table: TableDef = (*table).clone();
        let option = match &statement.column {
            None => "comment".to_string(),
            Some(name) if statement.kind == "constraint" => {
                expect_constraint(&table, name)?;
                of_constraint(name)
            }
            Some(column) => format!("comment.{}", table.expect_column(column)?.name),
        };
        match &statement.comment {
            Some(comment) => table.options.insert(option, format!("'{}'", comment.replace('\'', "''"))),
            None => table.options.remove(&option),
        };
        catalog.tables.insert(table.id, Arc::new(table));
        Ok(())
    })
    .await?;
    Ok(Outcome::done(Tag::plain("COMMENT")))
}

fn expect_constraint(table: &TableDef, name: &str) -> Result<()> {
    let is_key = table.has_key() && table.key_name() == name;
    let is_unique = table.indexes.iter().any(|index| index.name == name && index.is_constraint());
    let is_check = table.checks.iter().any(|check| check.name == name);
    if is_key || is_unique || is_check || table.foreign_keys.iter().any(|key| key.name == name) {
        return Ok(());
    }
    let message = format!("constraint \"{name}\" for table \"{}\" does not exist", table.name);
    Err(Error::new(ErrorKind::UndefinedObject, message))
}
