//! Stored views: they answer what their query answered when it was run last.
//!
//! The rule: each run writes to a relation of its own, which the catalog names in the same atomic step. Readers see the
//! rows of one run, never of two; those before go as those of a truncated table do.

use std::sync::Arc;

use keyspan_cql::CreateView;
use keyspan_model::{
    Catalog, Error, ErrorKind, Materialized, Mutation, Result, StoredDef, TableId, ViewDef, WriteBatch,
};
use keyspan_query::session::recompute;

use super::super::table::NewTable;
use super::super::{Check, TRIES_MAX, check_free, install, kept_changing, user_type, view};
use crate::context::ClientContext;
use crate::intake::Intake;
use crate::intake::gather::Gather;
use crate::names;
use crate::row::TableHandle;

/// Makes a stored view together with its rows.
pub(super) async fn create(
    context: &mut ClientContext,
    statement: &CreateView,
    shape: &NewTable,
    with_data: bool,
) -> Result<()> {
    let path = context.settings.search_path();
    put(context, Check::ByDifference, |catalog| {
        names::expect_keyspace(catalog, &shape.keyspace)?;
        check_free(catalog, &shape.keyspace, &statement.name)?;
        let mut rows = shape.build(catalog)?;
        user_type::settle(catalog, &mut rows)?;
        let view = view::definition(catalog, statement, rows.id, (shape.keyspace.clone(), path.clone()));
        Ok((view, StoredDef { rows, populated: with_data }))
    })
    .await
}

/// Runs the query anew and puts its rows in the place of those before; without data nothing is left to read.
pub(super) async fn refresh(context: &mut ClientContext, id: TableId, with_data: bool) -> Result<()> {
    let database = context.database.clone();
    let lock = async { Ok(database.lock_refresh(id).await) };
    let _lock = context.running.guard(lock).await?;
    put(context, Check::Done, |catalog| {
        let Some(view) = catalog.views.get(&id).cloned() else {
            let message = "the materialized view was dropped while it was refreshed";
            return Err(Error::new(ErrorKind::UndefinedTable, message));
        };
        let Some(stored) = view.stored() else {
            return Err(Error::internal("a stored view is none any more"));
        };
        let mut rows = stored.rows.clone();
        rows.rows = catalog.new_relation_id();
        rows.version += 1;
        Ok((ViewDef::clone(&view), StoredDef { rows, populated: with_data }))
    })
    .await
}

/// Puts a view and its rows into the catalog. Runs the query again when another session has changed the catalog
/// meanwhile: what it reads may have changed, too.
async fn put(
    context: &mut ClientContext,
    check: Check,
    make: impl Fn(&mut Catalog) -> Result<(ViewDef, StoredDef)>,
) -> Result<()> {
    for _ in 0..TRIES_MAX {
        let before = context.catalog_to_change();
        let mut next = (*before).clone();
        let (view, stored) = make(&mut next)?;
        let mutations = if stored.populated { rows(context, &view, &stored).await? } else { Vec::new() };
        let view = ViewDef { materialized: Some(Materialized::Stored(stored)), ..view };
        next.views.insert(view.id, Arc::new(view));
        let batch = WriteBatch { mutations, ..WriteBatch::default() };
        if install(context, &before, next, Some(batch), check).await? {
            return Ok(());
        }
    }
    Err(kept_changing())
}

/// Runs the query: what writes its rows.
async fn rows(context: &mut ClientContext, view: &ViewDef, stored: &StoredDef) -> Result<Vec<Mutation>> {
    let snapshot = context.snapshot()?;
    let query_context = context.query_context(snapshot, &[]);
    let (queries, of, into) = (context.queries.clone(), view.clone(), stored.clone());
    let work = Box::pin(async move { recompute(&queries, &of, &into, &query_context).await });
    let rows = context.running.guard(context.database.threads().stream(work)).await?;
    let rows = context.running.guard_stream(rows);
    let names: Vec<String> = stored.rows.shown_columns().map(|column| column.name.clone()).collect();
    let (stamp, zone) = (context.stamp(), Arc::new(context.zone()));
    let handle = TableHandle::new(Arc::new(stored.rows.clone()));
    let mut intake = Intake::new(handle, &names, zone)?.numbered_from(1);
    let mut gather = Gather::new(context.database.store(), intake.target());
    gather.take(rows, &mut intake, stamp).await?;
    gather.finish().await
}
