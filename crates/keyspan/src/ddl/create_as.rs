//! CREATE TABLE AS: columns typed from the query; the table and its rows appear in one atomic step.

use std::sync::Arc;

use futures::StreamExt;
use keyspan_cql::CreateTableAs;
use keyspan_model::{Catalog, ColumnType, Error, Mutation, Result, TableDef, Value, WriteBatch};

use super::table::{NewColumn, Shape, is_taken, no_key};
use super::{change_with, check_free, skipping};
use crate::dml::intake::Intake;
use crate::names;
use crate::outcome::{Outcome, Tag};
use crate::query;
use crate::session::Session;

/// `CREATE TABLE … AS`.
pub(crate) async fn run(session: &mut Session, statement: &CreateTableAs, parameters: &[Value]) -> Result<Outcome> {
    let path = session.settings.search_path();
    let catalog = session.catalog();
    let keyspace = names::keyspace_for(&catalog, &path, &statement.name)?;
    if statement.if_not_exists && is_taken(&catalog, &keyspace, &statement.name.name) {
        skipping(session, "relation", &statement.name.name);
        return Ok(Outcome::done(Tag::plain("CREATE TABLE AS")));
    }
    check_free(&catalog, &keyspace, &statement.name)?;
    let planned = query::plan(session, &statement.query.query, &[]).await?;
    let shape = Shape {
        keyspace,
        name: statement.name.name.clone(),
        columns: columns(statement, &planned.schema)?,
        primary_key: statement.primary_key.clone(),
        clustering_order: statement.clustering_order.clone(),
        options: statement.options.clone(),
    };
    let draft = shape.build(&mut Catalog::initial())?;
    let batches = match statement.with_data {
        true => collect(session, &planned, parameters).await?,
        false => Vec::new(),
    };
    let names: Vec<String> = shape.columns.iter().map(|column| column.name.clone()).collect();
    let stamp = session.stamp();
    let intakes = Arc::new(session.zone());
    let rows = change_with(session, |catalog| {
        names::expect_keyspace(catalog, &shape.keyspace)?;
        check_free(catalog, &shape.keyspace, &statement.name)?;
        let table: Arc<TableDef> = Arc::new(shape.build(catalog)?);
        catalog.tables.insert(table.id, table.clone());
        let mut intake = Intake::new(table, &names, intakes.clone())?.numbered_from(1);
        let mut batch = WriteBatch::default();
        let mut rows = 0;
        for source in &batches {
            rows += source.num_rows() as u64;
            batch.mutations.push(Mutation::Batch(intake.write(source, stamp)?));
        }
        Ok((rows, Some(batch)))
    })
    .await?;
    if statement.primary_key.is_none() {
        session.notice(no_key(&draft));
    }
    Ok(Outcome::done(Tag::counted("SELECT", rows)))
}

fn columns(statement: &CreateTableAs, schema: &arrow::datatypes::Schema) -> Result<Vec<NewColumn>> {
    if statement.columns.len() > schema.fields().len() {
        let message = "CREATE TABLE AS specifies too many column names";
        return Err(Error::new(keyspan_model::ErrorKind::Syntax, message));
    }
    let fields = schema.fields().iter().enumerate();
    fields
        .map(|(index, field)| {
            let name = statement.columns.get(index).unwrap_or(field.name()).clone();
            let ty = ColumnType::of_field(field).ok_or_else(|| {
                let message =
                    format!("column \"{name}\" has a type that tables cannot hold yet: {}", field.data_type());
                Error::not_supported(message).with_hint("Cast it, for instance to json or text.")
            })?;
            Ok(NewColumn { name, ty, not_null: false, default: None, max_length: None, position: None })
        })
        .collect()
}

async fn collect(
    session: &mut Session,
    planned: &keyspan_query::PlannedQuery,
    parameters: &[Value],
) -> Result<Vec<arrow::array::RecordBatch>> {
    let mut stream = query::execute(session, planned, parameters).await?;
    let mut batches = Vec::new();
    while let Some(batch) = stream.next().await {
        batches.push(batch?);
    }
    Ok(batches)
}
