//! INSERT: an upsert. It is blind (reads nothing) unless a clause, a CHECK, a unique index or
//! `write_semantics = postgres` needs the old rows.

use std::collections::HashMap;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use futures::StreamExt;
use keyspan_cql::{ColumnName, Insert, InsertSource, InsertValue};
use keyspan_model::array::{array_of, value_at};
use keyspan_model::{
    BatchWrite, ColumnDef, Error, ErrorKind, Identity, Mutation, Result, SequenceDef, TableDef, Value,
};
use keyspan_query::Sequences;
use keyspan_seam::{BatchStream, Snapshot};
use std::sync::Arc;

use super::assign::{literal_for_a_column, no_family};
use super::change::{After, change_seen};
use super::conflict;
use super::existing;
use super::family::{self, FamilyAssignments, FamilyCells, FamilyInput};
use super::json;
use super::new_keys::NewKeys;
use super::new_values::NewValues;
use super::returning::{FromColumns, Returning};
use super::rights;
use super::shape::PendingValues;
use super::statics;
use super::target::WriteTarget;
use super::using::{self, Timing};
use crate::constraint::{Checks, kept_value};
use crate::context::ClientContext;
use crate::database::count;
use crate::expression::{Evaluator, compile, rows_without_columns, with_cql_now};
use crate::intake::gather::Gather;
use crate::intake::{GatheredCells, Intake};
use crate::locks::HeldLocks;
use crate::names;
use crate::outcome::{Outcome, Tag};
use crate::query;
use crate::row::{NewRow, TableHandle, or_null, overlaid};
use crate::violation::null_value;

/// From so many rows on they are written as one columnar batch.
const COLUMNAR_MIN: usize = 256;
/// How often an INSERT … SELECT is tried whose keys must be new, while others write near them.
const COLUMNAR_TRIES_MAX: usize = 10;

/// An INSERT whose rows are known.
pub(super) struct InsertRows {
    pub(super) handle: TableHandle,
    pub(super) rows: Vec<NewRow>,
    pub(super) checks: Checks,
    pub(super) returning: Option<Returning>,
    pub(super) timing: Timing,
    /// What each row writes to families; empty where none does.
    pub(super) cells: Vec<FamilyCells>,
}

/// `INSERT`.
pub(crate) async fn run(context: &mut ClientContext, statement: &Insert, parameters: &[Value]) -> Result<Outcome> {
    let table = names::table(&context.catalog(), &context.settings.search_path(), &statement.table)?;
    let expanded;
    let statement = match &statement.source {
        InsertSource::Json { json, unset } => {
            expanded = json::expanded(context, &table, statement, (json, *unset), parameters)?;
            &expanded
        }
        _ if !statement.places.is_empty() => {
            expanded = with_named_columns(&table, statement)?;
            &expanded
        }
        _ => statement,
    };
    rights::insert(context, &table, statement)?;
    let handle = statics::inserted(&context.handle(table), statement);
    if handle.table.has_counters() {
        return Err(no_insert());
    }
    let conditional = statement.if_not_exists || statement.on_conflict.is_some();
    let refuses = !conditional && context.settings.postgres_writes() && handle.table.has_key();
    let timing = using::timing(context, &statement.using, &handle.table, parameters)?;
    if conditional && timing.custom {
        let message = "Cannot provide custom timestamp for conditional updates";
        return Err(Error::new(ErrorKind::InvalidParameter, message));
    }
    if refuses && timing.custom {
        let message = "Cannot provide custom timestamp where write_semantics is postgres";
        return Err(Error::new(ErrorKind::InvalidParameter, message).with_hint("SET write_semantics = 'cql'."));
    }
    let split;
    let (statement, assigned) = match &statement.source {
        InsertSource::Values(rows) if !handle.table.families.is_empty() => {
            split = without_families(context, &handle.table, statement, rows, parameters)?;
            (&split.0, split.1.as_slice().to_vec())
        }
        _ => (statement, Vec::new()),
    };
    let places = places(&handle, statement)?;
    check_identities(&handle, statement, &places)?;
    let checks = Checks::new(context, &handle)?;
    let mut found_cells = Vec::new();
    let row = match &statement.source {
        InsertSource::Query(_)
            if !conditional && statement.returning.is_none() && decides_checks(&handle, &checks, &places) =>
        {
            return again_if_disturbed(context, statement, &handle, timing, parameters).await;
        }
        InsertSource::Query(_) => {
            let found = from_query(context, statement, &handle, parameters).await?;
            found_cells = found.1;
            found.0
        }
        InsertSource::Json { .. } => return Err(Error::internal("JSON was not expanded")),
        InsertSource::DefaultValues => from_values(context, &handle, &[], &[vec![]], parameters)?,
        InsertSource::Values(values) => from_values(context, &handle, &places, values, parameters)?,
    };
    let types = context.types_of(parameters);
    let (alias, list) = (statement.alias.as_deref(), statement.returning.as_deref());
    let returning = Returning::new(context, &handle, alias, &FromColumns::of_insert(&handle, alias, list), &types)?;
    if matches!(statement.source, InsertSource::Values(_) | InsertSource::DefaultValues) {
        count(&context.database.counts().point_writes);
    }
    // All rows are written at once, after what any of them replaces.
    let timing = match found_cells.is_empty() {
        true => assigned.iter().map(|cells| cells.timing(timing)).find(|of| of.stamp != timing.stamp).unwrap_or(timing),
        false => timing.replacing(),
    };
    let cells = match found_cells.is_empty() {
        true => assigned.iter().map(FamilyAssignments::constant).collect::<Result<_>>()?,
        false => found_cells,
    };
    let mut insert = InsertRows { handle, rows: row, checks, returning, timing, cells };
    insert.complete(context).await?;
    match (&statement.on_conflict, statement.if_not_exists) {
        (Some(_), true) => Err(Error::new(ErrorKind::Syntax, "IF NOT EXISTS and ON CONFLICT exclude each other")),
        (None, true) => conflict::if_not_exists(context, insert, parameters).await,
        (Some(clause), false) => conflict::on_conflict(context, statement, clause, insert, parameters).await,
        (None, false) if refuses => {
            let (inserted, state) = conflict::insert_new(context, &insert, parameters).await?;
            let tag = Tag::counted("INSERT", inserted.len() as u64);
            insert.outcome(tag, (&inserted, &[]), state.as_ref(), parameters).await
        }
        (None, false) => upsert(context, insert, parameters).await,
    }
}

/// 0A000 for rows that are inserted into a table with counters. The text is Cassandra's.
pub(crate) fn no_insert() -> Error {
    let error = Error::not_supported("INSERT statements are not allowed on counter tables, use UPDATE instead");
    error.with_hint("Write UPDATE table SET counter = counter + n WHERE …; it makes the row.")
}

/// The places of the columns the statement names; all that are not hidden where it names none.
fn places(handle: &TableHandle, statement: &Insert) -> Result<Vec<usize>> {
    if statement.columns.is_empty() {
        return Ok(handle.shown().map(|(place, _)| place).collect());
    }
    let is_query = matches!(statement.source, InsertSource::Query(_));
    let mut places = Vec::with_capacity(statement.columns.len());
    for name in &statement.columns {
        if let (true, Some(family)) = (is_query, family::family_of(&handle.table, name)) {
            if name.qualifier.is_some() {
                let message = "INSERT … SELECT into single cells is not supported";
                let hint =
                    format!("Select a value for the whole of it: jsonb_build_object('q', …) into {}.", family.name);
                return Err(Error::not_supported(message).with_hint(hint).at(name.position));
            }
            continue;
        }
        let column = handle.table.expect_column(&name.name).map_err(|error| error.at(name.position))?;
        if name.qualifier.is_some() {
            return Err(no_family(column).at(name.position));
        }
        let place = handle.table.columns.iter().position(|other| other.id == column.id);
        let place = place.ok_or_else(|| Error::internal("a column without a place"))?;
        if places.contains(&place) {
            let message = format!("column \"{}\" specified more than once", name.name);
            return Err(Error::new(ErrorKind::DuplicateColumn, message).at(name.position));
        }
        places.push(place);
    }
    Ok(places)
}

/// A statement that says only the places of the columns that its source has, with their names.
pub(crate) fn with_named_columns(table: &TableDef, statement: &Insert) -> Result<Insert> {
    let names = table.shown_names();
    let columns = statement.places.iter().map(|place| {
        let more = || Error::new(ErrorKind::Syntax, "INSERT has more expressions than target columns");
        let name = names.get(*place).cloned().ok_or_else(more)?;
        Ok(ColumnName { name, qualifier: None, position: statement.table.position })
    });
    Ok(Insert { columns: columns.collect::<Result<_>>()?, places: Vec::new(), ..statement.clone() })
}

/// The columns and families that a query of so many columns writes to.
fn query_targets(handle: &TableHandle, statement: &Insert, columns: usize) -> Vec<String> {
    if !statement.columns.is_empty() {
        return statement.columns.iter().map(|column| column.name.clone()).collect();
    }
    // Without a column list a query may have fewer columns than the table.
    let mut names = handle.table.shown_names();
    names.truncate(columns.max(1));
    names
}

/// 428C9 where the statement gives numbers of columns that are GENERATED ALWAYS, without saying so.
fn check_identities(handle: &TableHandle, statement: &Insert, places: &[usize]) -> Result<()> {
    let given = |at: usize| match &statement.source {
        InsertSource::Values(rows) => rows.iter().any(|row| row.get(at).is_some_and(|v| *v != InsertValue::Default)),
        InsertSource::Query(_) | InsertSource::Json { .. } => true,
        InsertSource::DefaultValues => false,
    };
    let always = |(_, place): &(usize, &usize)| handle.table.columns[**place].identity == Some(Identity::Always);
    match places.iter().enumerate().filter(always).find(|(at, _)| given(*at)) {
        Some((_, place)) if !statement.overriding => {
            let name = &handle.table.columns[*place].name;
            let message = format!("cannot insert a non-DEFAULT value into column \"{name}\"");
            Err(Error::new(ErrorKind::GeneratedAlways, message)
                .with_detail(format!("Column \"{name}\" is an identity column defined as GENERATED ALWAYS."))
                .with_hint("Use OVERRIDING SYSTEM VALUE to override."))
        }
        _ => Ok(()),
    }
}

/// The statement without what it writes to families, and that, for each of its rows.
fn without_families(
    context: &mut ClientContext,
    table: &TableDef,
    statement: &Insert,
    rows: &[Vec<InsertValue>],
    parameters: &[Value],
) -> Result<(Insert, Vec<FamilyAssignments>)> {
    let mut columns = statement.columns.clone();
    if columns.is_empty() {
        let column = |name| ColumnName { name, qualifier: None, position: statement.table.position };
        columns = table.shown_names().into_iter().map(column).collect();
    }
    let is_family = |column: &ColumnName| family::family_of(table, column).is_some();
    if !columns.iter().any(is_family) {
        return Ok((statement.clone(), Vec::new()));
    }
    let (mut all, mut rest) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
    for row in rows {
        check_width(!statement.columns.is_empty(), columns.len(), row.len())?;
        let (mut cells, mut others) = (FamilyAssignments::none(context), Vec::with_capacity(row.len()));
        for (column, value) in columns.iter().zip(row) {
            match family::family_of(table, column) {
                Some(family) => cells.add(context, family, column, value, &|_| None, parameters)?,
                None => others.push(value.clone()),
            }
        }
        if cells.read_rows() {
            let error = Error::new(ErrorKind::UndefinedColumn, "VALUES cannot read the row that it inserts");
            return Err(error.with_hint("Write UPDATE."));
        }
        all.push(cells);
        rest.push(others);
    }
    columns.retain(|column| !is_family(column));
    columns.truncate(rest.iter().map(Vec::len).max().unwrap_or(0));
    Ok((Insert { columns, source: InsertSource::Values(rest), ..statement.clone() }, all))
}

/// How many values a row may have: as many as columns are named, or fewer than the table has.
fn check_width(statement_names_columns: bool, columns: usize, values: usize) -> Result<()> {
    let message = match values.cmp(&columns) {
        std::cmp::Ordering::Greater => "INSERT has more expressions than target columns",
        std::cmp::Ordering::Less if statement_names_columns => "INSERT has more target columns than expressions",
        _ => return Ok(()),
    };
    Err(Error::new(ErrorKind::Syntax, message))
}

fn from_values(
    context: &mut ClientContext,
    handle: &TableHandle,
    places: &[usize],
    values: &[Vec<InsertValue>],
    parameters: &[Value],
) -> Result<Vec<NewRow>> {
    let evaluator = Evaluator::new(context);
    let named = places.len() < handle.shown().count() || !handle.shown().map(|(p, _)| p).eq(places.iter().copied());
    let types: Vec<_> = handle.table.columns.iter().map(|column| column.ty).collect();
    let given = context.types_of(parameters);
    let mut pending = PendingValues::default();
    let mut rows = Vec::with_capacity(values.len());
    for source in values {
        check_width(named, places.len(), source.len())?;
        let mut row: NewRow = vec![None; types.len()];
        for (place, value) in places.iter().zip(source) {
            let column = &handle.table.columns[*place];
            let literal;
            let expression = match value {
                // DEFAULT leaves the entry open: it is filled in with those of columns not named.
                InsertValue::Default => continue,
                InsertValue::Expression(expression) => expression,
                value => {
                    literal = literal_for_a_column(column, value)?;
                    &literal
                }
            };
            match evaluator.simple(expression, column.ty, parameters) {
                Some(value) => row[*place] = Some(value?),
                None => {
                    let expression = with_cql_now(expression, column.ty);
                    pending.add((rows.len(), *place), &expression, parameters, &given)?;
                }
            }
        }
        rows.push(row);
    }
    pending.evaluate_into(context, &types, &mut rows)?;
    fill_defaults(context, handle, |_| true, &mut rows)?;
    for (row, source) in rows.iter_mut().zip(values) {
        // DEFAULT of a column without one is null.
        for (place, value) in places.iter().zip(source) {
            if *value == InsertValue::Default {
                row[*place].get_or_insert(Value::Null);
            }
        }
    }
    Ok(rows)
}

/// Fills in the defaults of some columns in rows that do not say their values.
pub(super) fn fill_defaults(
    context: &mut ClientContext,
    handle: &TableHandle,
    is_filled: impl Fn(&ColumnDef) -> bool,
    rows: &mut [NewRow],
) -> Result<()> {
    let evaluator = Evaluator::new(context);
    for (place, column) in handle.table.columns.iter().enumerate().filter(|(_, column)| is_filled(column)) {
        let Some(text) = &column.default else { continue };
        if rows.iter().all(|row| row[place].is_some()) {
            continue;
        }
        if let Some(sequence) = own_sequence(context, &handle.table, column) {
            for row in rows.iter_mut().filter(|row| row[place].is_none()) {
                row[place] = Some(Value::BigInt(context.sequences.next(&sequence)?).cast(column.ty)?);
            }
            continue;
        }
        let expression = keyspan_cql::parse_expression(text)?;
        if let Some(value) = evaluator.simple(&expression, column.ty, &[]) {
            let value = value?;
            for row in rows.iter_mut().filter(|row| row[place].is_none()) {
                row[place] = Some(value.clone());
            }
            continue;
        }
        let compiled = compile(context, &[&*with_cql_now(&expression, column.ty)], &[], &[])?;
        // Once for each row that needs one: a default may be another one each time.
        let open = rows.iter().filter(|row| row[place].is_none()).count();
        let arrays = compiled.evaluate(&rows_without_columns(open)?, &[])?;
        for (index, row) in rows.iter_mut().filter(|row| row[place].is_none()).enumerate() {
            row[place] = Some(evaluator.assign(&arrays[0], index, compiled.types()[0], column.ty)?);
        }
    }
    Ok(())
}

/// The sequence that a `serial` or identity column takes its numbers from. Who may insert may take them.
fn own_sequence(context: &ClientContext, table: &TableDef, column: &ColumnDef) -> Option<Arc<SequenceDef>> {
    let catalog = context.catalog();
    let own = catalog.sequence_of(table.id, column.id)?;
    let text = names::sequence_default(&own.keyspace, &own.name);
    (column.default.as_ref() == Some(&text)).then(|| own.clone())
}

/// The rows of the query, and what each writes to families; no cells where it has none.
async fn from_query(
    context: &mut ClientContext,
    statement: &Insert,
    handle: &TableHandle,
    parameters: &[Value],
) -> Result<(Vec<NewRow>, Vec<FamilyCells>)> {
    let columns = query_columns(context, statement, parameters).await?;
    let names = query_targets(handle, statement, columns);
    let mut intake = Intake::new(handle.clone(), &names, Arc::new(context.zone()))?;
    let (mut rows, mut cells) = (Vec::new(), Vec::new());
    let mut batches = read(context, statement, &intake, parameters).await?;
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        let wholes = intake.wholes(&batch)?;
        let (columns, batch) = intake.typed(&batch)?;
        for index in 0..batch.num_rows() {
            let mut row: NewRow = vec![None; handle.table.columns.len()];
            for (id, array) in columns.iter().zip(batch.columns()) {
                let place = handle.table.columns.iter().position(|column| column.id == *id && !column.hidden);
                let Some(place) = place else { continue };
                row[place] = Some(value_at(array, index, handle.table.columns[place].ty)?);
            }
            rows.push(row);
            let mut of_row = FamilyCells::default();
            for whole in &wholes {
                of_row.whole(&whole.family, value_at(&whole.values, index, whole.family.whole_type())?)?;
            }
            if !wholes.is_empty() {
                cells.push(of_row);
            }
        }
    }
    drop(batches);
    fill_defaults(context, handle, |_| true, &mut rows)?;
    Ok((rows, cells))
}

/// Whether the columns that are written are enough to decide the CHECKs, without reading the old rows.
fn decides_checks(handle: &TableHandle, checks: &Checks, places: &[usize]) -> bool {
    let columns = &handle.table.columns;
    let given = |name: &str| {
        columns
            .iter()
            .enumerate()
            .any(|(place, column)| column.name == name && (places.contains(&place) || column.default.is_some()))
    };
    checks.read_only(&handle.table, given)
}

/// How many columns the statement's query has.
async fn query_columns(context: &mut ClientContext, statement: &Insert, parameters: &[Value]) -> Result<usize> {
    let InsertSource::Query(source) = &statement.source else { return Ok(0) };
    let types = context.types_of(parameters);
    Ok(query::plan(context, &source.query, &types).await?.schema.fields().len())
}

/// The rows of the statement's query, as they come.
async fn read(
    context: &mut ClientContext,
    statement: &Insert,
    intake: &Intake,
    parameters: &[Value],
) -> Result<BatchStream> {
    let InsertSource::Query(source) = &statement.source else {
        return Err(Error::internal("the rows of an INSERT without a query"));
    };
    let types = context.types_of(parameters);
    let planned = query::plan(context, &source.query, &types).await?;
    let wanted = intake.schema().fields().len();
    check_width(!statement.columns.is_empty(), wanted, planned.schema.fields().len())?;
    query::execute(context, &planned, parameters).await
}

/// [`columnar`], which is done again where other writes came between the look for its keys and its own.
async fn again_if_disturbed(
    context: &mut ClientContext,
    statement: &Insert,
    handle: &TableHandle,
    timing: Timing,
    parameters: &[Value],
) -> Result<Outcome> {
    for _ in 1..COLUMNAR_TRIES_MAX {
        match columnar(context, statement, handle, timing, parameters).await {
            Err(error) if error.kind == ErrorKind::Serialization && context.transaction.is_none() => {
                count(&context.database.counts().retries);
            }
            other => return other,
        }
    }
    columnar(context, statement, handle, timing, parameters).await
}

/// INSERT … SELECT without conditions: the query's batches as columnar writes, applied in one atomic step at the end.
async fn columnar(
    context: &mut ClientContext,
    statement: &Insert,
    handle: &TableHandle,
    timing: Timing,
    parameters: &[Value],
) -> Result<Outcome> {
    let columns = match statement.columns.is_empty() {
        true => query_columns(context, statement, parameters).await?,
        false => 0,
    };
    let mut intake = Intake::complete(context, handle.clone(), &query_targets(handle, statement, columns))?;
    intake.ttl = timing.ttl;
    let families = intake.families();
    let timing = if families.is_empty() { timing } else { timing.replacing() };
    let mut gather = Gather::new(context.database.store(), handle);
    if !families.is_empty() {
        let before = Some(context.newest()?);
        gather = gather.with_cells(GatheredCells::new(handle, &families, timing.stamp, timing.ttl, before));
    }
    let mut new_keys = NewKeys::wanted(context, handle)?;
    let mut new_values = NewValues::wanted(context, handle)?;
    let mut batches = read(context, statement, &intake, parameters).await?;
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        if batch.num_rows() > 0 {
            intake.reserve(&context.database, batch.num_rows()).await?;
            let mut writes = intake.write(&batch, timing.stamp)?;
            if let Some(keys) = &mut new_keys {
                keys.check(&writes.rows).await?;
            }
            if let Some(values) = &mut new_values {
                let entries = values.check(&writes.rows).await?;
                writes.rows.extend(entries);
            }
            gather.push(writes).await?;
        }
    }
    drop(batches);
    let rows = gather.rows();
    existing::note_cells_before(context, &mut gather).await?;
    let mutations = gather.finish().await?;
    let mut unchanged = match &new_keys {
        Some(keys) => keys.confirm(context, &mutations).await?,
        None => Vec::new(),
    };
    if let Some(values) = &new_values {
        unchanged.extend(values.confirm(context, &mutations).await?);
    }
    let locks = HeldLocks::none(context.database.locks().clone());
    context.write_checked(handle, mutations, unchanged, locks).await?;
    Ok(Outcome::done(Tag::counted("INSERT", rows)))
}

impl InsertRows {
    /// Numbers rows without a key, and checks what can be checked without reading.
    async fn complete(&mut self, context: &ClientContext) -> Result<()> {
        let table = self.handle.table.clone();
        if table.columns[0].hidden && !self.rows.is_empty() {
            let first = context.database.new_row_ids(&self.handle.relation, self.rows.len()).await?;
            for (row, number) in self.rows.iter_mut().zip(first..) {
                row[0] = Some(Value::BigInt(number));
            }
        }
        for row in &mut self.rows {
            for (place, column) in table.columns.iter().enumerate() {
                match row[place].take() {
                    Some(Value::Null) | None if column.not_null || column.is_key() => {
                        return Err(null_value(&table, column, Some(&or_null(row))));
                    }
                    value => row[place] = value.map(|value| kept_value(&table, column, value)).transpose()?,
                }
            }
        }
        Ok(())
    }

    /// The key of a row.
    pub(super) fn key(&self, row: &NewRow) -> Vec<Value> {
        row[..self.handle.key_len()].iter().map(|value| value.clone().unwrap_or(Value::Null)).collect()
    }

    /// The mutations that insert a row, its families aside.
    pub(super) fn insert(&self, row: &NewRow) -> Vec<Mutation> {
        self.handle.write(row, true, self.timing.stamp, self.timing.ttl)
    }

    /// The mutations that insert all rows.
    fn mutations(&self) -> Vec<Mutation> {
        let mut mutations: Vec<Mutation> = self.rows.iter().flat_map(|row| self.insert(row)).collect();
        mutations.extend((0..self.cells.len()).flat_map(|place| self.cells_of(place)));
        mutations
    }

    /// The mutations of the cells that the row at a place writes to families.
    pub(super) fn cells_of(&self, place: usize) -> Vec<Mutation> {
        let cells = self.cells.get(place);
        cells.map_or(Vec::new(), |cells| cells.mutations(&self.handle, &self.key(&self.rows[place]), &self.timing))
    }

    /// Whether the CHECKs can be decided from the written rows, without reading the old ones.
    fn rows_decide_checks(&self) -> bool {
        let table = &self.handle.table;
        let place = |name: &str| table.columns.iter().position(|column| column.name == name);
        let is_written = |name: &str| place(name).is_some_and(|place| self.rows.iter().all(|row| row[place].is_some()));
        self.checks.read_only(table, is_written)
    }

    /// Keeps only the last of the rows with one key.
    pub(super) fn keep_last_of_each_key(&mut self) -> Result<()> {
        if self.rows.len() < 2 {
            return Ok(());
        }
        let mut last = HashMap::with_capacity(self.rows.len());
        for (index, row) in self.rows.iter().enumerate() {
            last.insert(self.handle.name(&self.key(row))?, index);
        }
        if last.len() < self.rows.len() {
            let mut kept: Vec<usize> = last.into_values().collect();
            kept.sort_unstable();
            if !self.cells.is_empty() {
                self.cells = kept.iter().map(|index| std::mem::take(&mut self.cells[*index])).collect();
            }
            self.rows = kept.into_iter().map(|index| std::mem::take(&mut self.rows[index])).collect();
        }
        Ok(())
    }

    /// All rows as one columnar write, if they are many and have the same columns.
    pub(super) fn columnar(&self) -> Result<Option<Mutation>> {
        let plain = self.rows.len() >= COLUMNAR_MIN && self.cells.is_empty() && self.handle.statics.is_none();
        let Some(first) = self.rows.first().filter(|_| plain) else { return Ok(None) };
        let same = |row: &NewRow| row.iter().zip(first).all(|(a, b)| a.is_some() == b.is_some());
        if !self.rows.iter().all(same) {
            return Ok(None);
        }
        let (mut columns, mut fields, mut arrays) = (Vec::new(), Vec::new(), Vec::new());
        let table = &self.handle.table;
        for (place, column) in table.columns.iter().enumerate().filter(|(place, _)| first[*place].is_some()) {
            let values: Vec<Value> = self.rows.iter().map(|row| row[place].clone().unwrap_or(Value::Null)).collect();
            columns.push(column.id);
            fields.push(column.ty.field(&column.name, true));
            arrays.push(array_of(column.ty, &values)?);
        }
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?;
        let (relation, Timing { stamp, ttl, .. }) = (self.handle.relation.id, self.timing);
        let marker = !self.handle.is_of_statics();
        let write = BatchWrite { relation, columns, batch, marker, null_deletes: true, stamp, ttl };
        Ok(Some(Mutation::Batch(write)))
    }
}

/// The plain INSERT.
async fn upsert(context: &mut ClientContext, mut insert: InsertRows, parameters: &[Value]) -> Result<Outcome> {
    let tag = Tag::counted("INSERT", insert.rows.len() as u64);
    insert.keep_last_of_each_key()?;
    let table = insert.handle.table.clone();
    let complete = |row: &NewRow| row.iter().all(Option::is_some);
    let of_families = insert.returning.as_ref().is_some_and(Returning::reads_families);
    let incomplete = insert.returning.is_some() && !insert.rows.iter().all(complete);
    let reads = !insert.rows_decide_checks() || incomplete || of_families;
    let keys: Vec<Vec<Value>> = insert.rows.iter().map(|row| insert.key(row)).collect();
    let mut state = None;
    let after = if reads {
        let handle = insert.handle.clone();
        let insert = &insert;
        let families = FamilyInput::none(&handle);
        let target = WriteTarget::Keys(keys);
        let wanted = of_families.then_some(After);
        let changed = change_seen(context, &handle, &target, &families, wanted, parameters, |found| {
            let places = found.places(&insert.handle)?;
            let mut after = Vec::with_capacity(insert.rows.len());
            for row in &insert.rows {
                after.push(match places.get(&insert.handle.name(&insert.key(row))?) {
                    Some(&at) => overlaid(&insert.handle.values(&found.rows, at)?, row),
                    None => overlaid(&found.empty_row(&insert.handle, &insert.key(row))?, row),
                });
            }
            insert.checks.check(&table, &insert.handle.batch(&after)?)?;
            Ok((insert.mutations(), after))
        })
        .await?;
        state = changed.after;
        changed.answer
    } else {
        let needed = insert.returning.is_some() || !insert.checks.is_empty();
        let after: Vec<Vec<Value>> = if needed { insert.rows.iter().map(or_null).collect() } else { Vec::new() };
        if needed {
            insert.checks.check(&table, &insert.handle.batch(&after)?)?;
        }
        let mutations = match insert.columnar()? {
            Some(mutation) => vec![mutation],
            None => insert.mutations(),
        };
        let locks = context.lock_blind(&insert.handle, &keys).await?;
        context.write(&insert.handle, mutations, Vec::new(), locks).await?;
        after
    };
    insert.outcome(tag, (&after, &[]), state.as_ref(), parameters).await
}

impl InsertRows {
    /// The tag, with the RETURNING list's rows where there is one, of the state with what the statement has written:
    /// the rows, and which of them it has updated, if it has any.
    pub(super) async fn outcome(
        &self,
        tag: Tag,
        (after, updated): (&[Vec<Value>], &[bool]),
        state: Option<&Arc<dyn Snapshot>>,
        parameters: &[Value],
    ) -> Result<Outcome> {
        match &self.returning {
            Some(returning) => {
                let (batch, xmax) = (self.handle.batch(after)?, returning.xmax(after.len(), updated));
                let rows = returning.rows(state, &self.handle, batch, xmax, parameters).await?;
                Ok(Outcome::with_rows(tag, rows))
            }
            None => Ok(Outcome::done(tag)),
        }
    }
}
