//! INSERTs that read the old rows first: IF NOT EXISTS (CQL), ON CONFLICT DO NOTHING and DO UPDATE (PostgreSQL).

use std::collections::{HashMap, HashSet};

use keyspan_cql::{ConflictAction, Insert, OnConflict, ast};
use keyspan_model::{Error, ErrorKind, Mutation, Result, Value};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use keyspan_query::CompiledExprs;
use keyspan_seam::Snapshot;
use std::sync::Arc;

use super::assign::Assignments;
use super::change::{After, TargetRows, change, change_seen};
use super::condition::{self, ConditionAnswer, holds};
use super::family::{FamilyAssignments, FamilyCells, FamilyInput, FamilyRows, proposed};
use super::insert::InsertRows;
use super::returning::Returning;
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

/// The state with what a statement writes.
type State = Option<Arc<dyn Snapshot>>;

/// Whether the state with what is written is asked for: RETURNING shows families as they then are.
fn wanted(insert: &InsertRows) -> Option<After> {
    insert.returning.as_ref().is_some_and(Returning::reads_families).then_some(After)
}

async fn skip_existing(
    context: &mut ClientContext,
    insert: &InsertRows,
    parameters: &[Value],
) -> Result<(Vec<Vec<Value>>, State)> {
    let target = WriteTarget::Keys(insert.rows.iter().map(|row| insert.key(row)).collect());
    let families = FamilyInput::none(&insert.handle);
    let wanted = wanted(insert);
    let changed = change_seen(context, &insert.handle, &target, &families, wanted, parameters, |found| {
        let decided = insert_missing(insert, found)?;
        Ok((decided.mutations, decided.inserted))
    });
    let changed = changed.await?;
    Ok((changed.answer, changed.after))
}

/// The plain INSERT under `write_semantics = postgres`: 23505 for a key that exists, or comes twice.
pub(super) async fn insert_new(
    context: &mut ClientContext,
    insert: &InsertRows,
    parameters: &[Value],
) -> Result<(Vec<Vec<Value>>, State)> {
    let target = WriteTarget::Keys(insert.rows.iter().map(|row| insert.key(row)).collect());
    let families = FamilyInput::none(&insert.handle);
    let wanted = wanted(insert);
    let changed = change_seen(context, &insert.handle, &target, &families, wanted, parameters, |found| {
        let mut decided = insert_missing(insert, found)?;
        if let Some(place) = decided.answers.iter().position(|answer| !answer.applied) {
            return Err(key_exists(&insert.handle.table, &insert.key(&insert.rows[place])));
        }
        if let Some(mutation) = insert.columnar()? {
            decided.mutations = vec![mutation];
        }
        Ok((decided.mutations, decided.inserted))
    });
    let changed = changed.await?;
    Ok((changed.answer, changed.after))
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
    let target = WriteTarget::Keys(insert.rows.iter().map(|row| insert.key(row)).collect());
    let families = FamilyInput::none(&insert.handle);
    let decided = change(context, &insert.handle, &target, &families, parameters, |found| {
        let decided = insert_missing(&insert, found)?;
        Ok((decided.mutations, (decided.inserted, decided.answers)))
    });
    let (inserted, answers) = decided.await?;
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
            let (inserted, state) = skip_existing(context, &insert, parameters).await?;
            let tag = Tag::counted("INSERT", inserted.len() as u64);
            insert.outcome(tag, &inserted, state.as_ref(), parameters).await
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
    let mut insert = insert;
    let handle = insert.handle.clone();
    let (mut cells, rest) = FamilyAssignments::split(context, &handle.table, assignments, &|_| None, parameters)?;
    let values = rest.iter().flat_map(|assignment| assignment.value.expressions());
    let reads: Vec<&ast::Expr> = values.chain(cells.expressions()).chain(filter).collect();
    let families = FamilyInput::new(context, &handle, &reads, &cells.lists(), parameters);
    let qualifier = statement.alias.clone().unwrap_or_else(|| handle.table.name.clone());
    let excluded = FamilyInput::readable(&handle);
    let input = [(qualifier.as_str(), families.schema().clone()), ("excluded", excluded.clone())];
    let assignments = Assignments::new(context, &handle, &rest, &|_| None, &input, parameters)?;
    cells.compile(context, &input, parameters)?;
    let filter = match filter {
        Some(filter) => Some(compile(context, &[filter], &input, parameters)?),
        None => None,
    };
    insert.timing = cells.timing(insert.timing);
    let target = WriteTarget::Keys(insert.rows.iter().map(|row| insert.key(row)).collect());
    let update = Updating { insert: &insert, assignments, cells, excluded, filter, parameters };
    let wanted = wanted(&insert);
    let decide = |found: &TargetRows| update.decide(found);
    let changed = change_seen(context, &handle, &target, &families, wanted, parameters, decide).await?;
    let tag = Tag::counted("INSERT", changed.answer.len() as u64);
    insert.outcome(tag, &changed.answer, changed.after.as_ref(), parameters).await
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
    /// What is written to families.
    cells: FamilyAssignments,
    /// The columns of `excluded`.
    excluded: SchemaRef,
    filter: Option<CompiledExprs>,
    parameters: &'a [Value],
}

/// A row that is there: its place among those to insert, and among those found.
type Conflict = (usize, usize);

impl Updating<'_> {
    /// What is written, and the rows as they then are.
    fn decide(&self, found: &TargetRows) -> Result<(Vec<Mutation>, Vec<Vec<Value>>)> {
        let (insert, handle) = (self.insert, &self.insert.handle);
        let places = found.places(handle)?;
        let old = |row: &NewRow| Ok(places.get(&handle.name(&insert.key(row))?).copied());
        let old = insert.rows.iter().map(old).collect::<Result<Vec<Option<usize>>>>()?;
        let mut updates = self.updates(found, &old)?.into_iter();
        let (mut mutations, mut after) = (Vec::new(), Vec::new());
        for (place, (row, old)) in insert.rows.iter().zip(old).enumerate() {
            let Some(old) = old else {
                mutations.extend(insert.insert(row));
                mutations.extend(insert.cells_of(place));
                after.push(or_null(row));
                continue;
            };
            if let Some((new, cells)) = updates.next().flatten() {
                let old = handle.values(&found.rows, old)?;
                let row = keyed(insert, &new, &old);
                mutations.extend(cells.mutations(handle, &old[..handle.key_len()], &insert.timing));
                mutations.extend(handle.write(&row, false, insert.timing.stamp, insert.timing.ttl));
                after.push(overlaid(&old, &new));
            }
        }
        insert.checks.check(&handle.table, &handle.batch(&after)?)?;
        Ok((mutations, after))
    }

    /// What each row that is there is to get; none for one that WHERE leaves alone.
    fn updates(&self, found: &TargetRows, old: &[Option<usize>]) -> Result<Vec<Option<(NewRow, FamilyCells)>>> {
        let conflicts = old.iter().enumerate().filter_map(|(place, old)| Some((place, (*old)?)));
        let conflicts: Vec<Conflict> = conflicts.collect();
        if conflicts.is_empty() {
            return Ok(Vec::new());
        }
        let both = self.side_by_side(found, &conflicts)?;
        let holds = match &self.filter {
            Some(filter) => holds(filter.evaluate(&both.input, self.parameters)?[0].as_ref()),
            None => vec![true; conflicts.len()],
        };
        let kept = conflicts.into_iter().zip(&holds).filter_map(|(conflict, holds)| holds.then_some(conflict));
        let kept = self.side_by_side(found, &kept.collect::<Vec<_>>())?;
        let new = self.assignments.rows(&self.insert.handle, &kept.input, &[], self.parameters)?;
        let mut new = new.into_iter().zip(self.cells.rows(&kept, &[], self.parameters)?);
        Ok(holds.into_iter().map(|holds| if holds { new.next() } else { None }).collect())
    }

    /// The old rows and those that were to be inserted, side by side.
    fn side_by_side(&self, found: &TargetRows, conflicts: &[Conflict]) -> Result<FamilyRows> {
        let handle = &self.insert.handle;
        let rows: Vec<Vec<Value>> = conflicts.iter().map(|(place, _)| or_null(&self.insert.rows[*place])).collect();
        let none = FamilyCells::default();
        let cells = conflicts.iter().map(|(place, _)| self.insert.cells.get(*place).unwrap_or(&none));
        let mut arrays = handle.batch(&rows)?.columns().to_vec();
        arrays.extend(proposed(handle, &cells.collect::<Vec<_>>())?);
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let excluded = RecordBatch::try_new_with_options(self.excluded.clone(), arrays, &options)?;
        let old: Vec<usize> = conflicts.iter().map(|(_, old)| *old).collect();
        found.families.beside(&old, &excluded)
    }
}

fn keyed(insert: &InsertRows, row: &NewRow, old: &[Value]) -> NewRow {
    let key_len = insert.handle.key_len();
    old[..key_len].iter().cloned().map(Some).chain(row[key_len..].iter().cloned()).collect()
}
