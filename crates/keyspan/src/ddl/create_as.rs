//! CREATE TABLE AS: columns typed from the query; the table and its rows appear in one atomic step.

use std::sync::Arc;

use keyspan_cql::CreateTableAs;
use keyspan_model::types::DECIMAL_SCALE;
use keyspan_model::{Catalog, ColumnType, Error, Result, TableDef, Value, WriteBatch};
use keyspan_query::{Origin, PlannedQuery};

use super::table::{NewColumn, NewTable, is_taken, no_key_notice};
use super::{TRIES_MAX, check_free, install, kept_changing, skipping, temporary, user_type};
use crate::context::ClientContext;
use crate::intake::Intake;
use crate::intake::gather::Gather;
use crate::outcome::{Notice, Outcome, Tag};
use crate::query;
use crate::row::TableHandle;

/// `CREATE TABLE … AS`.
pub(crate) async fn run(
    context: &mut ClientContext,
    statement: &CreateTableAs,
    parameters: &[Value],
) -> Result<Outcome> {
    let path = context.settings.search_path();
    let catalog = context.catalog();
    let keyspace = temporary::keyspace_for(context, &catalog, &path, &statement.name, statement.on_commit.is_some())?;
    if statement.if_not_exists && is_taken(&catalog, &keyspace, &statement.name.name) {
        skipping(context, "relation", &statement.name.name);
        return Ok(Outcome::done(Tag::plain("CREATE TABLE AS")));
    }
    check_free(&catalog, &keyspace, &statement.name)?;
    let planned = query::plan(context, &statement.query.query, &[]).await?;
    let shape = NewTable {
        keyspace,
        name: statement.name.name.clone(),
        columns: declared_columns(&statement.columns, &planned.schema)?,
        families: Vec::new(),
        primary_key: statement.primary_key.clone(),
        clustering_order: statement.clustering_order.clone(),
        options: statement.options.clone(),
    };
    let draft = shape.build(&mut Catalog::initial())?;
    let rows = fill(context, statement, &shape, &planned, parameters).await?;
    if let Some(notice) = scale_notice(&shape.columns, &planned.schema) {
        context.notice(notice);
    }
    if statement.primary_key.is_none() && statement.on_commit.is_none() {
        context.notice(no_key_notice(&draft));
    }
    Ok(Outcome::done(Tag::counted("SELECT", rows)))
}

/// Makes the table together with its rows. Does both again when another session has changed the catalog meanwhile,
/// since the table then gets other ids. Answers the number of rows.
async fn fill(
    context: &mut ClientContext,
    statement: &CreateTableAs,
    shape: &NewTable,
    planned: &PlannedQuery,
    parameters: &[Value],
) -> Result<u64> {
    for _ in 0..TRIES_MAX {
        let before = context.catalog_to_change();
        let mut next = (*before).clone();
        temporary::expect_keyspace(&mut next, &shape.keyspace)?;
        check_free(&next, &shape.keyspace, &statement.name)?;
        let mut table = shape.build(&mut next)?;
        user_type::settle(&next, &mut table)?;
        temporary::note(&mut table, statement.on_commit);
        let table: Arc<TableDef> = Arc::new(table);
        next.tables.insert(table.id, table.clone());
        let relation = table.rows;
        let gather = gather(context, statement, shape, table, planned, parameters).await?;
        let rows = gather.rows();
        if statement.primary_key.is_none() {
            context.database.learn_row_ids(relation, rows);
        }
        let mutations = gather.finish().await?;
        let mut batch = WriteBatch { mutations, ..WriteBatch::default() };
        if context.transaction.is_none() {
            batch.forget(&next.emptied_at_commit(&shape.keyspace));
        }
        let check = temporary::check(statement.on_commit.is_some());
        if temporary::goes_at_once(context, statement.on_commit)
            || install(context, &before, next, Some(batch), check).await?
        {
            return Ok(rows);
        }
    }
    Err(kept_changing())
}

async fn gather(
    context: &mut ClientContext,
    statement: &CreateTableAs,
    shape: &NewTable,
    table: Arc<TableDef>,
    planned: &PlannedQuery,
    parameters: &[Value],
) -> Result<Gather> {
    let names: Vec<String> = shape.columns.iter().map(|column| column.name.clone()).collect();
    let (stamp, zone) = (context.stamp(), Arc::new(context.zone()));
    let mut intake = Intake::new(TableHandle::new(table), &names, zone)?.numbered_from(1);
    let mut gather = Gather::new(context.database.store(), intake.target());
    if statement.with_data {
        gather.take(query::execute(context, planned, parameters).await?, &mut intake, stamp).await?;
    }
    Ok(gather)
}

/// [`typed_columns`], those that are columns of a table as they were declared.
fn declared_columns(names: &[String], schema: &arrow::datatypes::Schema) -> Result<Vec<NewColumn>> {
    let mut columns = typed_columns(names, schema)?;
    for (column, field) in columns.iter_mut().zip(schema.fields()) {
        if let (ColumnType::Text, Some(origin)) = (column.ty, Origin::of_field(field)) {
            (column.text_type, column.max_length) = origin.text_type();
        }
    }
    Ok(columns)
}

/// What computed numerics keep of later values: in PostgreSQL they have all digits.
fn scale_notice(columns: &[NewColumn], schema: &arrow::datatypes::Schema) -> Option<Notice> {
    let computed = columns.iter().zip(schema.fields()).filter(|(_, field)| Origin::of_field(field).is_none());
    let rounding = computed.filter_map(|(column, _)| match column.ty {
        ColumnType::Decimal { scale, .. } if scale < DECIMAL_SCALE => Some(format!("\"{}\" {scale}", column.name)),
        ColumnType::VarInt => Some(format!("\"{}\" 0", column.name)),
        _ => None,
    });
    let rounding = rounding.collect::<Vec<_>>().join(", ");
    let notice = Notice::plain(format!("digits after the point that later values keep: {rounding}"));
    (!rounding.is_empty())
        .then(|| notice.with_hint("Others are rounded away. Cast what needs more: x::numeric(38, 10)."))
}

/// Columns of the query's types; the first have the names given.
pub(super) fn typed_columns(names: &[String], schema: &arrow::datatypes::Schema) -> Result<Vec<NewColumn>> {
    if names.len() > schema.fields().len() {
        let message = "CREATE TABLE AS specifies too many column names";
        return Err(Error::new(keyspan_model::ErrorKind::Syntax, message));
    }
    let fields = schema.fields().iter().enumerate();
    fields
        .map(|(index, field)| {
            let name = names.get(index).unwrap_or(field.name()).clone();
            let ty = ColumnType::of_field(field).ok_or_else(|| {
                let message =
                    format!("column \"{name}\" has a type that tables cannot hold yet: {}", field.data_type());
                Error::not_supported(message).with_hint("Cast it, for instance to json or text.")
            })?;
            Ok(NewColumn::plain(name, ty))
        })
        .collect()
}
