//! INSERTs that read the old rows first: IF NOT EXISTS (CQL), ON CONFLICT DO NOTHING and DO UPDATE (PostgreSQL).

use std::collections::{HashMap, HashSet};

use keyspan_cql::{ConflictAction, Insert, OnConflict};
use keyspan_model::{Error, ErrorKind, Mutation, Result, Value};

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::Schema;
use keyspan_query::CompiledExprs;
use std::sync::Arc;

use super::assign::Assignments;
use super::change::{TargetRows, change};
use super::condition::{self, ConditionAnswer, holds};
use super::family::FamilyInput;
use super::insert::InsertRows;
use super::target::WriteTarget;
use crate::constraint::key_exists;
use crate::context::ClientContext;
use crate::expression::compile;
use crate::locks::RowName;
use crate::outcome::{Outcome, Tag};
use crate::row::{NewRow, TableHandle, or_null, overlaid};

/// The rows that are there, by name: those found, then those the statement itself adds.
struct Present {
    rows: HashMap<RowName, Vec<Value>>,
}

impl Present {
    fn new(handle: &TableHandle, found: &TargetRows) -> Result<Present> {
        let values = |(name, index)| Ok((name, handle.values(&found.rows, index)?));
        Ok(Present { rows: found.places(handle)?.into_iter().map(values).collect::<Result<_>>()? })
    }
}

/// What is decided about each row of an INSERT that skips keys that exist.
struct Skipping {
    mutations: Vec<Mutation>,
    inserted: Vec<Vec<Value>>,
    answers: Vec<ConditionAnswer>,
}

/// Inserts rows whose keys do not exist. Of two rows with one key the first is inserted and the second finds it.
fn insert_missing(insert: &InsertRows, found: &TargetRows) -> Result<Skipping> {
    let handle = &insert.handle;
    let mut present = Present::new(handle, found)?;
    let mut decided = Skipping { mutations: Vec::new(), inserted: Vec::new(), answers: Vec::new() };
    for (place, row) in insert.rows.iter().enumerate() {
        let name = handle.name(&insert.key(row))?;
        if let Some(old) = present.rows.get(&name) {
            decided.answers.push(ConditionAnswer { applied: false, row: Some(old.clone()) });
            continue;
        }
        present.rows.insert(name, or_null(row));
        decided.mutations.extend(insert.insert(row));
        decided.mutations.extend(insert.cells_of(place));
        decided.inserted.push(or_null(row));
        decided.answers.push(ConditionAnswer { applied: true, row: None });
    }
    insert.checks.check(&handle.table, &handle.batch(&decided.inserted)?)?;
    Ok(decided)
}

async fn skip_existing(
    context: &mut ClientContext,
    insert: &InsertRows,
    parameters: &[Value],
) -> Result<(Vec<Vec<Value>>, Vec<ConditionAnswer>)> {
    let target = WriteTarget::Keys(insert.rows.iter().map(|row| insert.key(row)).collect());
    let families = FamilyInput::none(&insert.handle);
    change(context, &insert.handle, &target, &families, parameters, |found| {
        let decided = insert_missing(insert, found)?;
        Ok((decided.mutations, (decided.inserted, decided.answers)))
    })
    .await
}

/// The plain INSERT under `write_semantics = postgres`: 23505 for a key that exists, or comes twice.
pub(super) async fn insert_new(
    context: &mut ClientContext,
    insert: &InsertRows,
    parameters: &[Value],
) -> Result<Vec<Vec<Value>>> {
    let target = WriteTarget::Keys(insert.rows.iter().map(|row| insert.key(row)).collect());
    let families = FamilyInput::none(&insert.handle);
    change(context, &insert.handle, &target, &families, parameters, |found| {
        let mut decided = insert_missing(insert, found)?;
        if let Some(place) = decided.answers.iter().position(|answer| !answer.applied) {
            return Err(key_exists(&insert.handle.table, &insert.key(&insert.rows[place])));
        }
        if let Some(mutation) = insert.columnar()? {
            decided.mutations = vec![mutation];
        }
        Ok((decided.mutations, decided.inserted))
    })
    .await
}

/// `INSERT … IF NOT EXISTS`: one answer for each row.
pub(super) async fn if_not_exists(
    context: &mut ClientContext,
    insert: InsertRows,
    parameters: &[Value],
) -> Result<Outcome> {
    if insert.returning.is_some() {
        let error = Error::not_supported("IF NOT EXISTS cannot be combined with RETURNING");
        return Err(error.with_hint("Use ON CONFLICT DO NOTHING RETURNING …."));
    }
    let (inserted, answers) = skip_existing(context, &insert, parameters).await?;
    let tag = Tag::counted("INSERT", inserted.len() as u64);
    Ok(Outcome::with_rows(tag, condition::answer(context, &insert.handle, &answers)?))
}

/// `INSERT … ON CONFLICT`.
pub(super) async fn on_conflict(
    context: &mut ClientContext,
    statement: &Insert,
    clause: &OnConflict,
    insert: InsertRows,
    parameters: &[Value],
) -> Result<Outcome> {
    check_target(&insert.handle, clause)?;
    match &clause.action {
        ConflictAction::Nothing => {
            let (inserted, _) = skip_existing(context, &insert, parameters).await?;
            insert.outcome(Tag::counted("INSERT", inserted.len() as u64), &inserted, parameters)
        }
        ConflictAction::Update { .. } => update(context, statement, clause, insert, parameters).await,
    }
}

/// The conflict must be about the primary key, the only unique thing there is.
fn check_target(handle: &TableHandle, clause: &OnConflict) -> Result<()> {
    let table = &handle.table;
    if let Some(constraint) = &clause.constraint {
        if *constraint == table.key_name() {
            return Ok(());
        }
        let message = format!("constraint \"{constraint}\" for table \"{}\" does not exist", table.name);
        return Err(Error::new(ErrorKind::UndefinedObject, message));
    }
    for column in &clause.columns {
        table.expect_column(&column.name).map_err(|error| error.at(column.position))?;
    }
    let named: Vec<&str> = clause.columns.iter().map(|column| column.name.as_str()).collect();
    let key: Vec<&str> = table.key().map(|column| column.name.as_str()).collect();
    if named.is_empty() || (named.len() == key.len() && key.iter().all(|column| named.contains(column))) {
        return Ok(());
    }
    let message = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
    let hint = format!("Only the primary key is unique: ON CONFLICT ({}).", key.join(", "));
    Err(Error::new(ErrorKind::InvalidColumnReference, message).with_hint(hint))
}

async fn update(
    context: &mut ClientContext,
    statement: &Insert,
    clause: &OnConflict,
    insert: InsertRows,
    parameters: &[Value],
) -> Result<Outcome> {
    let ConflictAction::Update { assignments, filter } = &clause.action else {
        return Err(Error::internal("not a DO UPDATE"));
    };
    check_each_key_once(&insert)?;
    let handle = insert.handle.clone();
    let qualifier = statement.alias.clone().unwrap_or_else(|| handle.table.name.clone());
    let input = [(qualifier.as_str(), handle.schema.clone()), ("excluded", handle.schema.clone())];
    let assignments = Assignments::new(context, &handle, assignments, &|_| None, &input, parameters)?;
    let filter = match filter {
        Some(filter) => Some(compile(context, &[filter], &input, parameters)?),
        None => None,
    };
    let target = WriteTarget::Keys(insert.rows.iter().map(|row| insert.key(row)).collect());
    let update = Updating { insert: &insert, assignments, filter, parameters };
    let families = FamilyInput::none(&handle);
    let after = change(context, &handle, &target, &families, parameters, |found| update.decide(found)).await?;
    insert.outcome(Tag::counted("INSERT", after.len() as u64), &after, parameters)
}

/// What the second of two rows with one key would update is the first, which the statement has just written.
fn check_each_key_once(insert: &InsertRows) -> Result<()> {
    let mut names = HashSet::with_capacity(insert.rows.len());
    for row in &insert.rows {
        if !names.insert(insert.handle.name(&insert.key(row))?) {
            let message = "ON CONFLICT DO UPDATE command cannot affect row a second time";
            let hint = "Ensure that no rows proposed for insertion within the same command have duplicate \
                        constrained values.";
            return Err(Error::new(ErrorKind::CardinalityViolation, message).with_hint(hint));
        }
    }
    Ok(())
}

/// A DO UPDATE, evaluated over the old rows and those that were to be inserted, side by side.
struct Updating<'a> {
    insert: &'a InsertRows,
    assignments: Assignments,
    filter: Option<CompiledExprs>,
    parameters: &'a [Value],
}

impl Updating<'_> {
    /// What is written, and the rows as they then are.
    fn decide(&self, found: &TargetRows) -> Result<(Vec<Mutation>, Vec<Vec<Value>>)> {
        let insert = self.insert;
        let present = Present::new(&insert.handle, found)?;
        let old = |row: &NewRow| Ok(present.rows.get(&insert.handle.name(&insert.key(row))?));
        let old = insert.rows.iter().map(old).collect::<Result<Vec<_>>>()?;
        let mut updates = self.updates(&old)?.into_iter();
        let (mut mutations, mut after) = (Vec::new(), Vec::new());
        for (row, old) in insert.rows.iter().zip(old) {
            let Some(old) = old else {
                mutations.extend(insert.insert(row));
                after.push(or_null(row));
                continue;
            };
            if let Some(new) = updates.next().flatten() {
                let row = keyed(insert, &new, old);
                mutations.extend(insert.handle.write(&row, false, insert.timing.stamp, insert.timing.ttl));
                after.push(overlaid(old, &new));
            }
        }
        insert.checks.check(&insert.handle.table, &insert.handle.batch(&after)?)?;
        Ok((mutations, after))
    }

    /// What each row that is there is to get; none for one that WHERE leaves alone.
    fn updates(&self, old: &[Option<&Vec<Value>>]) -> Result<Vec<Option<NewRow>>> {
        let handle = &self.insert.handle;
        let conflicts = self.insert.rows.iter().zip(old);
        let conflicts = conflicts.filter_map(|(row, old)| Some(((*old)?.clone(), or_null(row))));
        let (old, excluded): (Vec<_>, Vec<_>) = conflicts.unzip();
        if old.is_empty() {
            return Ok(Vec::new());
        }
        let both = side_by_side(handle, &old, &excluded)?;
        let holds = match &self.filter {
            Some(filter) => holds(filter.evaluate(&both, self.parameters)?[0].as_ref()),
            None => vec![true; old.len()],
        };
        let kept = filter_record_batch(&both, &BooleanArray::from(holds.clone()))?;
        let mut new = self.assignments.rows(handle, &kept, &[], self.parameters)?.into_iter();
        Ok(holds.into_iter().map(|holds| if holds { new.next() } else { None }).collect())
    }
}

fn keyed(insert: &InsertRows, row: &NewRow, old: &[Value]) -> NewRow {
    let key_len = insert.handle.key_len();
    old[..key_len].iter().cloned().map(Some).chain(row[key_len..].iter().cloned()).collect()
}

/// The old rows and those that were to be inserted, side by side.
fn side_by_side(handle: &TableHandle, old: &[Vec<Value>], excluded: &[Vec<Value>]) -> Result<RecordBatch> {
    let (old, excluded) = (handle.batch(old)?, handle.batch(excluded)?);
    let fields = old.schema().fields().iter().chain(excluded.schema().fields()).cloned().collect::<Vec<_>>();
    let arrays = old.columns().iter().chain(excluded.columns()).cloned().collect();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
}
