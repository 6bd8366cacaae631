//! Which rows an UPDATE or DELETE is about, and how they are found: by keys, by spans, or by a query.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::{concat_batches, filter, filter_record_batch, is_not_null};
use futures::StreamExt;
use keyspan_cql::{Statement, ast, quoted};
use keyspan_model::array::coerce;
use keyspan_model::{ColumnType, Error, Result, Span, Value};
use keyspan_query::{KeyMatch, QueryContext, key_of};
use keyspan_seam::Snapshot;

use super::existing;
use crate::context::ClientContext;
use crate::expression::Evaluator;
use crate::names;
use crate::query;
use crate::row::TableHandle;

/// Which rows a statement writes.
#[derive(Clone, Debug)]
pub(crate) enum WriteTarget {
    /// The row with this whole key.
    Key(Vec<Value>),
    /// The rows with these whole keys.
    Keys(Vec<Vec<Value>>),
    /// The rows of these spans.
    Spans(Vec<Span>),
    /// None: the condition cannot be met.
    Nothing,
    /// Those that a query finds.
    Query(Box<FoundRows>),
}

/// A query for the rows that a statement writes.
#[derive(Clone, Debug)]
pub(crate) struct FoundRows {
    /// All columns of the table, then what is computed for each row.
    pub(crate) query: ast::Query,
    /// Whether a row may come several times: it is written once.
    repeats: bool,
    /// Whether WHERE gives keys, more than are written one by one.
    pub(crate) of_many_keys: bool,
    /// How many columns the table has.
    columns: usize,
}

impl FoundRows {
    /// The context of the query: what the statement may read of its own table's rows it judges itself.
    pub(crate) fn context(
        &self,
        context: &mut ClientContext,
        snapshot: Arc<dyn Snapshot>,
        types: &[Option<ColumnType>],
    ) -> QueryContext {
        QueryContext { unjudged_columns: self.columns, ..context.query_context(snapshot, types) }
    }
}

/// What a statement reads beside its table.
#[derive(Clone, Copy, Default)]
pub(crate) struct Beside<'a> {
    /// Tables that are joined with it.
    pub(crate) from: &'a [ast::TableWithJoins],
    /// Values that only a query can compute.
    pub(crate) values: &'a [&'a ast::Expr],
}

/// The rows that the WHERE of an UPDATE or DELETE is about.
pub(crate) fn find_target(
    context: &mut ClientContext,
    handle: &TableHandle,
    alias: Option<&str>,
    filter: Option<&ast::Expr>,
    beside: Beside<'_>,
    parameters: &[Value],
) -> Result<WriteTarget> {
    if !beside.from.is_empty() || !beside.values.is_empty() {
        return Ok(WriteTarget::Query(Box::new(found_rows(handle, alias, filter, beside)?)));
    }
    let Some(filter) = filter else { return Ok(WriteTarget::Spans(vec![Span::all()])) };
    let matched = match alias {
        // The alias hides the table's name; the recognition knows only that.
        Some(alias) if alias != handle.table.name => {
            key_of_write(context, handle, &without_qualifier(filter, alias), parameters)
        }
        _ => key_of_write(context, handle, filter, parameters),
    };
    Ok(match matched {
        KeyMatch::WholeKey(key) => match key.iter().map(|part| part.bind(parameters)).collect::<Result<Vec<_>>>()? {
            key if key.iter().any(Value::is_null) => WriteTarget::Nothing,
            key => WriteTarget::Key(key),
        },
        KeyMatch::WholeKeys(ranges) => WriteTarget::Keys(ranges.keys(&handle.table, parameters)?),
        KeyMatch::SpansOnly(ranges) => match ranges.bind(&handle.table, parameters)? {
            spans if spans.is_empty() => WriteTarget::Nothing,
            spans => WriteTarget::Spans(spans),
        },
        KeyMatch::TooMany => {
            let found = found_rows(handle, alias, Some(filter), beside)?;
            WriteTarget::Query(Box::new(FoundRows { of_many_keys: true, ..found }))
        }
        KeyMatch::Other => WriteTarget::Query(Box::new(found_rows(handle, alias, Some(filter), beside)?)),
    })
}

/// What the WHERE of a write says of the key. As in CQL any constant gives a key: `WHERE day = current_date`.
pub(crate) fn key_of_write(
    context: &mut ClientContext,
    handle: &TableHandle,
    filter: &ast::Expr,
    parameters: &[Value],
) -> KeyMatch {
    let time_zone = context.settings.time_zone().to_owned();
    let types = context.types_of(parameters);
    let evaluator = Evaluator::new(context);
    let mut constants = |expression: &ast::Expr, ty| evaluator.compared(context, expression, ty, parameters);
    key_of(filter, &handle.table, &time_zone, &types, &mut constants)
}

/// `SELECT every column, values FROM table, others WHERE filter`, the trees being the statement's own.
pub(crate) fn found_rows(
    handle: &TableHandle,
    alias: Option<&str>,
    filter: Option<&ast::Expr>,
    beside: Beside<'_>,
) -> Result<FoundRows> {
    let table = &handle.table;
    let alias = quote(alias.unwrap_or(&table.name));
    let columns: Vec<String> = table.columns.iter().map(|column| format!("{alias}.{}", quote(&column.name))).collect();
    let from = format!("{}.{} AS {alias}", quoted(&table.keyspace), quote(&table.name));
    let text = format!("SELECT {} FROM {from}", columns.join(", "));
    let Statement::Query(query) = keyspan_cql::parse_one(&text)?.statement else {
        return Err(Error::internal("a SELECT is not a query"));
    };
    let mut query = query.query;
    if let ast::SetExpr::Select(select) = &mut *query.body {
        select.selection = filter.cloned();
        select.from.extend(beside.from.iter().cloned());
        let value = |(place, value): (usize, &&ast::Expr)| ast::SelectItem::ExprWithAlias {
            expr: ast::Expr::clone(value),
            alias: ast::Ident::with_quote('"', format!("\u{1}value{place}")),
        };
        select.projection.extend(beside.values.iter().enumerate().map(value));
    }
    let repeats = !beside.from.is_empty() || handle.is_of_statics();
    Ok(FoundRows { query: *query, repeats, of_many_keys: false, columns: table.columns.len() })
}

fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The condition with `alias.column` as `column`.
fn without_qualifier(filter: &ast::Expr, alias: &str) -> ast::Expr {
    let mut filter = filter.clone();
    let _ = ast::visit_expressions_mut(&mut filter, |expression| {
        if let ast::Expr::CompoundIdentifier(parts) = expression
            && let [qualifier, column] = parts.as_slice()
            && names::fold_case(qualifier) == alias
        {
            *expression = ast::Expr::Identifier(column.clone());
        }
        ControlFlow::<()>::Continue(())
    });
    filter
}

/// The rows of a target.
#[derive(Debug)]
pub(crate) struct ReadRows {
    /// All columns.
    pub(crate) rows: RecordBatch,
    /// What a query has computed for each.
    pub(crate) computed: Vec<Computed>,
    /// The partitions that a query has found, those without rows among them, if the table has static columns.
    pub(crate) partitions: Vec<Vec<Value>>,
}

impl ReadRows {
    /// Rows that no query has found.
    fn plain(rows: RecordBatch) -> ReadRows {
        ReadRows { rows, computed: Vec::new(), partitions: Vec::new() }
    }
}

/// The live rows of the target, as the snapshot has them.
pub(crate) async fn read(
    context: &mut ClientContext,
    handle: &TableHandle,
    target: &WriteTarget,
    snapshot: &Arc<dyn Snapshot>,
    parameters: &[Value],
) -> Result<ReadRows> {
    let mut batches = Vec::new();
    match target {
        WriteTarget::Nothing => {}
        WriteTarget::Key(key) => return Ok(ReadRows::plain(handle.read(snapshot, std::slice::from_ref(key)).await?)),
        WriteTarget::Keys(keys) => return Ok(ReadRows::plain(handle.read(snapshot, keys).await?)),
        WriteTarget::Spans(spans) => {
            let columns = handle.scan_columns();
            let (snapshot, relation) = (context.watched(snapshot.clone()), handle.relation.id);
            let read = existing::visit(context, &snapshot, relation, spans.clone(), columns, |batch| {
                batches.push(batch);
                Ok(false)
            });
            read.await?;
        }
        WriteTarget::Query(found) => {
            let types = context.types_of(parameters);
            let query_context = found.context(context, snapshot.clone(), &types);
            let (schema, stream) = query::run_on(context, &found.query, parameters, query_context).await?;
            let mut stream = context.running.guard_stream(stream);
            while let Some(batch) = stream.next().await {
                batches.push(batch?);
            }
            let mut all = concat_batches(&schema, &batches)?;
            if found.repeats {
                all = first_of_each(handle, &all)?;
            }
            let columns = handle.table.columns.len();
            let computed = schema.fields().iter().zip(all.columns()).skip(columns);
            let computed = computed.map(|(field, array)| {
                let ty = ColumnType::of_field(field).unwrap_or(ColumnType::Text);
                Computed { array: array.clone(), ty }
            });
            return of_rows(handle, with_table_types(handle, &all)?, computed.collect());
        }
    }
    let mut whole = Vec::with_capacity(batches.len());
    for batch in batches {
        whole.push(with_table_types(handle, &handle.with_statics(snapshot, batch).await?)?);
    }
    Ok(ReadRows::plain(concat_batches(&handle.schema, &whole)?))
}

/// What a query has found, without the rows that stand for partitions without rows.
fn of_rows(handle: &TableHandle, rows: RecordBatch, computed: Vec<Computed>) -> Result<ReadRows> {
    if handle.statics.is_none() {
        return Ok(ReadRows { rows, computed, partitions: Vec::new() });
    }
    let partition = |row| Ok(handle.partition(&handle.key(&rows, row)?));
    let mut partitions = (0..rows.num_rows()).map(partition).collect::<Result<Vec<_>>>()?;
    partitions.dedup();
    let exist = is_not_null(rows.column(handle.relation.partition_len))?;
    let of_existing = |each: Computed| Ok(Computed { array: filter(&each.array, &exist)?, ..each });
    let computed = computed.into_iter().map(of_existing).collect::<Result<_>>()?;
    Ok(ReadRows { rows: filter_record_batch(&rows, &exist)?, computed, partitions })
}

/// A value for each row.
#[derive(Debug)]
pub(crate) struct Computed {
    pub(crate) array: ArrayRef,
    pub(crate) ty: ColumnType,
}

impl Computed {
    /// A field of a value that is a row, as a column of type `to` stores it.
    pub(crate) fn field(&self, field: usize, row: usize, evaluator: &Evaluator, to: ColumnType) -> Result<Value> {
        field_of(&self.array, field, row, evaluator, to)
    }
}

/// A field of a value of an array of rows, as a column of type `to` stores it.
pub(crate) fn field_of(
    rows: &ArrayRef,
    field: usize,
    row: usize,
    evaluator: &Evaluator,
    to: ColumnType,
) -> Result<Value> {
    let Some(rows) = rows.as_struct_opt() else { return Err(Error::internal("a row that is none")) };
    if rows.is_null(row) {
        return Ok(Value::Null);
    }
    let ty = ColumnType::of_field(&rows.fields()[field]).unwrap_or(ColumnType::Text);
    evaluator.assign(rows.column(field), row, ty, to)
}

/// Each row of the table once: where it is joined with several, any of them will do. What stands for a partition without
/// rows stays.
fn first_of_each(handle: &TableHandle, rows: &RecordBatch) -> Result<RecordBatch> {
    let typed = with_table_types(handle, rows)?;
    let mut seen = HashSet::new();
    let mut first = |row: usize| {
        let key = handle.key(&typed, row)?;
        Ok(key.iter().any(Value::is_null) || seen.insert(handle.name(&key)?))
    };
    let keep = (0..rows.num_rows()).map(&mut first).collect::<Result<Vec<bool>>>()?;
    Ok(filter_record_batch(rows, &BooleanArray::from(keep))?)
}

/// The batch with exactly the table's types and no column declared NOT NULL.
fn with_table_types(handle: &TableHandle, batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = handle.table.columns.iter().zip(batch.columns());
    let arrays = columns.map(|(column, array)| coerce(array, column.ty)).collect::<Result<Vec<_>>>()?;
    Ok(RecordBatch::try_new(handle.schema.clone(), arrays)?)
}
