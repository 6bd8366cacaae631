//! COMMENT ON: kept among the table's options, where Cassandra keeps it too.

use std::sync::Arc;

use keyspan_cql::Comment;
use keyspan_model::{COMMENT_ON_COLUMN, COMMENT_ON_CONSTRAINT, Error, ErrorKind, Result, TableDef};

use super::change;
use crate::context::ClientContext;
use crate::names;
use crate::outcome::{Outcome, Tag};

fn of_constraint(name: &str) -> String {
    format!("{COMMENT_ON_CONSTRAINT}{name}")
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
            Some(column) => format!("{COMMENT_ON_COLUMN}{}", table.expect_column(column)?.name),
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
    if table.has_constraint(name) {
        return Ok(());
    }
    let message = format!("constraint \"{name}\" for table \"{}\" does not exist", table.name);
    Err(Error::new(ErrorKind::UndefinedObject, message))
}

/// Drops the comments on constraints that are gone.
pub(super) fn settle(table: &mut TableDef) {
    let constraint = |option: &String| option.strip_prefix(COMMENT_ON_CONSTRAINT).map(str::to_owned);
    let gone = |option: &&String| constraint(option).is_some_and(|name| !table.has_constraint(&name));
    let gone: Vec<String> = table.options.keys().filter(gone).cloned().collect();
    for option in gone {
        table.options.remove(&option);
    }
}

/// A constraint has another name.
pub(super) fn rename_constraint(table: &mut TableDef, from: &str, to: &str) {
    if let Some(comment) = table.options.remove(&of_constraint(from)) {
        table.options.insert(of_constraint(to), comment);
    }
}
