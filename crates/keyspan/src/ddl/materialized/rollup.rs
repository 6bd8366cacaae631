//! Rollups.
//!
//! A rollup can be read before its rows are stored: what is not stored yet is computed when it is read. So one made
//! inside a transaction, or WITH NO DATA, answers like any other.

use std::sync::Arc;

use keyspan_cql::{CreateView, PrimaryKey};
use keyspan_model::{ColumnType, Error, ErrorKind, Materialized, Result, RollupDef, TableDef, TableId, ViewDef};
use keyspan_query::rollup::Definition;

use super::super::table::{NewColumn, NewTable};
use super::super::{change, check_free, view};
use crate::context::ClientContext;
use crate::{names, rollup};

/// Makes a rollup, and computes its rows unless in a transaction.
pub(super) async fn create(
    context: &mut ClientContext,
    statement: &CreateView,
    definition: &Definition,
    shape: NewTable,
    with_data: bool,
) -> Result<()> {
    let path = context.settings.search_path();
    let shape = NewTable { primary_key: Some(key(definition, &shape.columns)), ..shape };
    let id = change(context, |catalog| {
        names::expect_keyspace(catalog, &shape.keyspace)?;
        check_free(catalog, &shape.keyspace, &statement.name)?;
        let rollup = RollupDef {
            rows: TableDef { gc_grace: 0, ..shape.build(catalog)? },
            progress: progress_table(&shape).build(catalog)?,
            source: definition.source.id,
        };
        let id = catalog.new_table_id();
        let view = view::definition(catalog, statement, id, (shape.keyspace.clone(), path.clone()));
        let view = ViewDef { materialized: Some(Materialized::Rollup(rollup)), ..view };
        catalog.views.insert(id, Arc::new(view));
        Ok(id)
    })
    .await?;
    rollup::begin(&context.database)?;
    if with_data && context.transaction.is_none() { fill(context, id).await } else { Ok(()) }
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

/// Computes what is stale.
pub(super) async fn refresh(context: &mut ClientContext, view: TableId, with_data: bool) -> Result<()> {
    if !with_data {
        let error = Error::not_supported("REFRESH … WITH NO DATA of a rollup is not supported");
        return Err(error.with_hint("Drop the view, or leave it: what is not computed is computed when it is read."));
    }
    if context.in_transaction_block() {
        let message = "REFRESH MATERIALIZED VIEW of a rollup cannot run inside a transaction block";
        return Err(Error::new(ErrorKind::ActiveTransaction, message));
    }
    let database = context.database.clone();
    context.running.guard(rollup::refresh(&database, view)).await
}
