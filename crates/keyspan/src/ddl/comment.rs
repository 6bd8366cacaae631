//! COMMENT ON: kept among the table's options, where Cassandra keeps it too.

use std::sync::Arc;

use keyspan_cql::Comment;
use keyspan_model::{Error, Result, TableDef};

use super::change;
use crate::context::ClientContext;
use crate::names;
use crate::outcome::{Outcome, Tag};

/// `COMMENT ON TABLE | COLUMN … IS …`.
pub(crate) async fn run(context: &mut ClientContext, statement: &Comment) -> Result<Outcome> {
    let path = context.settings.search_path();
    if !matches!(statement.kind.as_str(), "table" | "column") {
        let error = Error::not_supported(format!("COMMENT ON {} is not supported", statement.kind.to_uppercase()));
        return Err(error.with_hint("Tables and columns can have comments."));
    }
    change(context, |catalog| {
        let table = names::table(catalog, &path, &statement.name)?;
        let mut table: TableDef = (*table).clone();
        let option = match &statement.column {
            None => "comment".to_string(),
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
