//! CREATE MATERIALIZED VIEW: a view whose rows are stored in a table that has no name of its own.
//!
//! The view can be read before its rows are stored: what is not stored yet is computed when it is read. So a view made
//! inside a transaction, or WITH NO DATA, answers like any other.

use std::sync::Arc;

use keyspan_cql::{CreateView, Materialized, PrimaryKey};
use keyspan_model::{ColumnType, Error, ErrorKind, Object, Result, RollupDef, TableDef, TableId, ViewDef};
use keyspan_query::rollup::Definition;

use super::create_as::typed_columns;
use super::table::{NewColumn, NewTable, is_taken};
use super::{change, check_free, skipping, temporary, view};
use crate::context::ClientContext;
use crate::names::{self, TableOrView};
use crate::outcome::{Outcome, Tag};
use crate::rollup;

/// `CREATE MATERIALIZED VIEW`.
pub(crate) async fn create(
    context: &mut ClientContext,
    statement: &CreateView,
    materialized: &Materialized,
) -> Result<Outcome> {
    let path = context.settings.search_path();
    let catalog = context.catalog();
    let keyspace = names::keyspace_for(&catalog, &path, &statement.name)?;
    let name = &statement.name.name;
    if statement.if_not_exists && is_taken(&catalog, &keyspace, name) {
        skipping(context, "relation", name);
        return Ok(Outcome::done(Tag::plain("CREATE MATERIALIZED VIEW")));
    }
    check_free(&catalog, &keyspace, &statement.name)?;
    if temporary::is_read(&catalog, &path, &statement.query.query) {
        let message = "a materialized view of a temporary table or view is not supported";
        return Err(Error::not_supported(message).with_hint("Write CREATE TEMP VIEW, or CREATE TEMP TABLE … AS."));
    }
    let planned = view::plan_checked(context, statement).await?;
    let snapshot = context.snapshot()?;
    let query_context = context.query_context(snapshot, &[]);
    let definition = context.queries.definition(&planned, &query_context)?;
    let whole = catalog.tables.get(&definition.source.id).is_some_and(|table| table.rows == definition.source.rows);
    if !whole || !definition.source.families.is_empty() || definition.source.statics.is_some() {
        let what = if definition.source.statics.is_some() { "static columns" } else { "families" };
        let message = format!("a materialized view of a table with {what} is not yet supported");
        return Err(Error::not_supported(message).with_hint("Write CREATE VIEW."));
    }
    let columns = typed_columns(&statement.columns, &planned.schema)?;
    let shape = NewTable {
        keyspace: keyspace.clone(),
        name: name.clone(),
        primary_key: Some(key(&definition, &columns)),
        columns,
        families: Vec::new(),
        clustering_order: Vec::new(),
        options: materialized.options.clone(),
    };
    let id = change(context, |catalog| {
        names::expect_keyspace(catalog, &keyspace)?;
        check_free(catalog, &keyspace, &statement.name)?;
        let rollup = RollupDef {
            rows: TableDef { gc_grace: 0, ..shape.build(catalog)? },
            progress: progress_table(&shape).build(catalog)?,
            source: definition.source.id,
        };
        let id = catalog.new_table_id();
        let view = view::definition(statement, id, keyspace.clone(), path.clone());
        let view = ViewDef { rollup: Some(rollup), ..view };
        catalog.views.insert(id, Arc::new(view));
        Ok(id)
    })
    .await?;
    rollup::begin(&context.database)?;
    if materialized.with_data && context.transaction.is_none() {
        fill(context, id).await?;
    }
    Ok(Outcome::done(Tag::plain("CREATE MATERIALIZED VIEW")))
}

/// Computes the rows. A view whose query fails on the rows that are there is not made.
async fn fill(context: &mut ClientContext, id: TableId) -> Result<()> {
    let database = context.database.clone();
    let filled = context.running.guard(rollup::refresh(&database, id)).await;
    if filled.is_err() {
        change(context, |catalog| Ok(catalog.views.remove(&id).is_some())).await?;
    }
    filled
}

/// The groups, the bucket last: rows of a group are together, in order of time.
fn key(definition: &Definition, columns: &[NewColumn]) -> PrimaryKey {
    let mut names = definition.key.iter().map(|place| columns[*place].name.clone());
    PrimaryKey { name: None, partition: names.by_ref().take(1).collect(), clustering: names.collect(), position: 1 }
}

/// One row: the relation of the source, and the batch.
fn progress_table(rows: &NewTable) -> NewTable {
    let column = |name: &str, ty| NewColumn::plain(name.to_string(), ty);
    NewTable {
        columns: vec![
            column("id", ColumnType::Int),
            column("relation", ColumnType::BigInt),
            column("seq", ColumnType::BigInt),
        ],
        primary_key: Some(PrimaryKey { name: None, partition: vec!["id".into()], clustering: Vec::new(), position: 1 }),
        options: Vec::new(),
        ..rows.clone()
    }
}

/// `REFRESH MATERIALIZED VIEW`.
pub(crate) async fn refresh(context: &mut ClientContext, name: &keyspan_cql::ObjectName) -> Result<()> {
    let path = context.settings.search_path();
    let wrong = || {
        let message = format!("\"{}\" is not a materialized view", names::display(name));
        Error::new(ErrorKind::WrongObjectType, message)
    };
    match names::expect(&context.catalog(), &path, name)? {
        TableOrView::View(view) if view.rollup.is_some() => {
            context.require_owner(&Object::Relation(view.id), &format!("materialized view {}", view.name))?;
            let database = context.database.clone();
            context.running.guard(rollup::refresh(&database, view.id)).await
        }
        _ => Err(wrong()),
    }
}
