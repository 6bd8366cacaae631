//! CREATE and REFRESH MATERIALIZED VIEW: a view whose rows are stored in a table that has no name of its own.
//!
//! A query that can be kept up to date becomes a rollup, any other a stored view, which says so.

mod rollup;
mod stored;

use keyspan_cql::{CreateView, MaterializedOptions, ObjectName, quoted};
use keyspan_model::{Catalog, Error, ErrorKind, Materialized, Object, Result, TableId, ViewDef};
use keyspan_query::rollup::{Definition, NoRollup};

use super::create_as::typed_columns;
use super::table::{NewTable, is_taken};
use super::{check_free, skipping, temporary, view};
use crate::context::ClientContext;
use crate::names::{self, TableOrView};
use crate::outcome::{Notice, Outcome, Tag};

/// `CREATE MATERIALIZED VIEW`.
pub(crate) async fn create(
    context: &mut ClientContext,
    statement: &CreateView,
    materialized: &MaterializedOptions,
) -> Result<Outcome> {
    let done = Outcome::done(Tag::plain("CREATE MATERIALIZED VIEW"));
    let path = context.settings.search_path();
    let catalog = context.catalog();
    let keyspace = names::keyspace_for(&catalog, &path, &statement.name)?;
    let name = &statement.name.name;
    if statement.if_not_exists && is_taken(&catalog, &keyspace, name) {
        skipping(context, "relation", name);
        return Ok(done);
    }
    check_free(&catalog, &keyspace, &statement.name)?;
    if temporary::is_read(&catalog, &path, &statement.query.query) {
        let message = "a materialized view of a temporary table or view is not supported";
        return Err(Error::not_supported(message).with_hint("Write CREATE TEMP VIEW, or CREATE TEMP TABLE … AS."));
    }
    let planned = view::plan_checked(context, statement).await?;
    let shape = NewTable {
        keyspace,
        name: name.clone(),
        primary_key: None,
        columns: typed_columns(&statement.columns, &planned.schema)?,
        families: Vec::new(),
        clustering_order: Vec::new(),
        options: materialized.options.clone(),
    };
    let view = view::definition(&catalog, statement, TableId(0), (shape.keyspace.clone(), path));
    match definition(context, &catalog, &view)? {
        Ok(definition) => rollup::create(context, statement, &definition, shape, materialized.with_data).await?,
        Err(no) => {
            stored::create(context, statement, &shape, materialized.with_data).await?;
            context.notice(stored_notice(name, &no));
        }
    }
    Ok(done)
}

/// What a rollup of the view's query is made of, or why it is none.
fn definition(
    context: &mut ClientContext,
    catalog: &Catalog,
    view: &ViewDef,
) -> Result<std::result::Result<Definition, NoRollup>> {
    let snapshot = context.snapshot()?;
    let query_context = context.query_context(snapshot, &[]);
    let definition = match context.queries.definition(view, &query_context)? {
        Ok(definition) => definition,
        Err(no) => return Ok(Err(no)),
    };
    let source = &definition.source;
    Ok(match catalog.tables.get(&source.id) {
        // The rows of another view have a table that is not among those with names.
        None => Err(NoRollup::new("it reads a materialized view")),
        Some(_) if source.statics.is_some() => Err(NoRollup::new("its table has static columns")),
        Some(table) if table.rows != source.rows || !source.families.is_empty() => {
            Err(NoRollup::new("its table has families"))
        }
        Some(_) => Ok(definition),
    })
}

fn stored_notice(name: &str, no: &NoRollup) -> Notice {
    let message = format!("materialized view \"{name}\" shows its rows as of its last REFRESH: {}", no.why);
    let rollup = no.hint.map(|hint| format!(" For a rollup, which is never out of date: {hint}")).unwrap_or_default();
    Notice::plain(message).with_hint(format!("Write REFRESH MATERIALIZED VIEW {}.{rollup}", quoted(name)))
}

/// `REFRESH MATERIALIZED VIEW`.
pub(crate) async fn refresh(context: &mut ClientContext, name: &ObjectName, with_data: bool) -> Result<()> {
    let path = context.settings.search_path();
    let TableOrView::View(view) = names::expect(&context.catalog(), &path, name)? else {
        return Err(not_materialized(name));
    };
    context.require_owner(&Object::Relation(view.id), &format!("{} {}", view.kind(), view.name))?;
    match &view.materialized {
        Some(Materialized::Rollup(_)) => rollup::refresh(context, view.id, with_data).await,
        Some(Materialized::Stored(_)) => stored::refresh(context, view.id, with_data).await,
        None => Err(not_materialized(name)),
    }
}

fn not_materialized(name: &ObjectName) -> Error {
    let message = format!("\"{}\" is not a materialized view", names::display(name));
    Error::new(ErrorKind::WrongObjectType, message)
}
