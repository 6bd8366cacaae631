//! CREATE VIEW: a query kept as its source text, with the search path its names were meant in.

use std::sync::Arc;

use arrow::datatypes::Schema;
use keyspan_cql::{CreateView, Statement, quoted};
use keyspan_model::schema::temporary::is_temporary;
use keyspan_model::{Catalog, ColumnId, ColumnType, Error, ErrorKind, Result, TableId, ViewDef};
use keyspan_query::PlannedQuery;

use super::{change_with, check_free, exists, materialized, skipping, table, temporary};
use crate::context::ClientContext;
use crate::depend;
use crate::outcome::{Notice, Outcome, Tag};
use crate::query;

/// `CREATE [OR REPLACE] [TEMP] VIEW`, `CREATE MATERIALIZED VIEW`. A view over something temporary is temporary, too.
pub(crate) async fn create(context: &mut ClientContext, statement: &CreateView) -> Result<Outcome> {
    if let Some(materialized) = &statement.materialized {
        return materialized::create(context, statement, materialized).await;
    }
    let path = context.settings.search_path();
    let catalog = context.catalog();
    let reads_temporary = temporary::is_read(&catalog, &path, &statement.query.query);
    let temporary = statement.temporary || reads_temporary;
    let keyspace = temporary::keyspace_for(context, &catalog, &path, &statement.name, temporary)?;
    let name = &statement.name.name;
    let taken = table::is_taken(&catalog, &keyspace, name);
    if statement.if_not_exists && taken {
        skipping(context, "relation", name);
        return Ok(Outcome::done(Tag::plain("CREATE VIEW")));
    }
    if !statement.or_replace {
        check_free(&catalog, &keyspace, &statement.name)?;
    } else if catalog.table(&keyspace, name).is_some() || catalog.view(&keyspace, name).is_some_and(is_materialized) {
        return Err(Error::new(ErrorKind::WrongObjectType, format!("\"{name}\" is not a view")));
    }
    let planned = plan_checked(context, statement).await?;
    if catalog.view(&keyspace, name).is_some() {
        let old = keyspan_cql::parse_one(&format!("SELECT * FROM {}.{}", quoted(&keyspace), quoted(name)))?;
        if let Statement::Query(old) = old.statement
            // One that can no longer be read has no columns to keep.
            && let Ok(old) = query::plan(context, &old.query, &[]).await
        {
            check_columns_stay(&old.schema, &planned.schema, &statement.columns)?;
        }
    }
    change_with(context, temporary::check(temporary), |catalog| {
        temporary::expect_keyspace(catalog, &keyspace)?;
        let old = catalog.view(&keyspace, name).cloned();
        let id = match &old {
            Some(old) if statement.or_replace && !is_materialized(old) => old.id,
            Some(_) => return Err(exists(name)),
            None => catalog.new_table_id(),
        };
        check_not_circular(catalog, statement, &path, id)?;
        catalog.views.insert(id, Arc::new(definition(catalog, statement, id, (keyspace.clone(), path.clone()))));
        Ok(())
    })
    .await?;
    if temporary && !statement.temporary {
        context.notice(Notice::plain(format!("view \"{name}\" will be a temporary view")));
    }
    Ok(Outcome::done(Tag::plain("CREATE VIEW")))
}

/// The view as it is kept, in this keyspace: its query is read again, by names looked up along this path, whenever the view
/// is.
pub(super) fn definition(
    catalog: &Catalog,
    statement: &CreateView,
    id: TableId,
    (keyspace, search_path): (String, Vec<String>),
) -> ViewDef {
    // What is not temporary may be read by sessions that have temporary tables of the same names.
    let own = is_temporary(&keyspace);
    ViewDef {
        id,
        keyspace,
        name: statement.name.name.clone(),
        columns: statement.columns.clone(),
        sql: statement.query.text.clone(),
        search_path: search_path.into_iter().filter(|keyspace| own || !is_temporary(keyspace)).collect(),
        columns_before: Some(ColumnId(catalog.next_column)),
        materialized: None,
    }
}

/// What reads a view reads its columns by their names and types: another query gives it at least these, in this order.
///
/// # Errors
/// 42P16, as PostgreSQL has it.
fn check_columns_stay(old: &Schema, new: &Schema, names: &[String]) -> Result<()> {
    let refused = |message: String| {
        let error = Error::new(ErrorKind::InvalidTableDefinition, message);
        Err(error.with_hint("DROP VIEW and CREATE VIEW make one of other columns."))
    };
    if new.fields().len() < old.fields().len() {
        return refused("cannot drop columns from view".into());
    }
    for (place, (old, new)) in old.fields().iter().zip(new.fields()).enumerate() {
        let name = names.get(place).unwrap_or(new.name());
        if name != old.name() {
            return refused(format!("cannot change name of view column \"{}\" to \"{name}\"", old.name()));
        }
        let [from, to] = [old, new].map(|field| ColumnType::of_field(field));
        if from != to {
            let [from, to] =
                [from, to].map(|ty| ty.map_or_else(|| "another type".to_owned(), ColumnType::postgres_name));
            let message = format!("cannot change data type of view column \"{name}\" from {from} to {to}");
            return refused(message);
        }
    }
    Ok(())
}

/// A view that reads itself, perhaps through others, could never be read.
fn check_not_circular(catalog: &Catalog, statement: &CreateView, path: &[String], id: TableId) -> Result<()> {
    let reads = depend::query_reads(catalog, path, &statement.query.query);
    let dependents = depend::all_views_of(catalog, id);
    if reads.contains(&id) || dependents.iter().any(|view| reads.contains(&view.id)) {
        let message = format!("infinite recursion detected in view \"{}\"", statement.name.name);
        return Err(Error::new(ErrorKind::InvalidTableDefinition, message));
    }
    Ok(())
}

fn is_materialized(view: &Arc<ViewDef>) -> bool {
    view.materialized.is_some()
}

/// The view's query, planned: it has no parameters, and each of its columns a name of its own.
pub(super) async fn plan_checked(context: &mut ClientContext, statement: &CreateView) -> Result<PlannedQuery> {
    let reads = depend::query_reads(&context.catalog(), &context.settings.search_path(), &statement.query.query);
    if reads.iter().any(|id| id.is_attached()) {
        let error = Error::not_supported("a view of tables of an attached keyspace is not supported");
        return Err(error.with_hint("It would be kept longer than they are attached. Write CREATE TABLE … AS SELECT."));
    }
    let planned = query::plan(context, &statement.query.query, &[]).await?;
    if !planned.parameters.is_empty() {
        return Err(Error::new(ErrorKind::UndefinedParameter, "there is no parameter $1"));
    }
    let fields = planned.schema.fields();
    if statement.columns.len() > fields.len() {
        return Err(Error::new(ErrorKind::Syntax, "CREATE VIEW specifies more column names than columns"));
    }
    let own = statement.columns.iter().map(String::as_str);
    let labels: Vec<&str> = own.chain(fields.iter().skip(statement.columns.len()).map(|f| f.name().as_str())).collect();
    for (index, label) in labels.iter().enumerate() {
        if labels[..index].contains(label) {
            let message = format!("column \"{label}\" specified more than once");
            return Err(Error::new(ErrorKind::DuplicateColumn, message));
        }
    }
    Ok(planned)
}
