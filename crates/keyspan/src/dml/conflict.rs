//! INSERTs that read the old rows first: IF NOT EXISTS (CQL), ON CONFLICT DO NOTHING and DO UPDATE (PostgreSQL).
//!
//! A conflict is with a row that has the key or, of a unique index, the values of a row that is to be inserted. Such a
//! row is looked for first and then read with those that have the keys; where another session adds one in between, the
//! write finds it (23505) and all is done again.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use keyspan_cql::{Assignment, ConflictAction, Insert, InsertValue, OnConflict, ast};
use keyspan_model::{Error, ErrorKind, Mutation, Result, Value};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use keyspan_query::CompiledExprs;
use keyspan_seam::Snapshot;
use std::sync::Arc;

use super::assign::Assignments;
use super::change::{After, Changed, TargetRows, change_seen};
use super::condition::{self, ConditionAnswer, holds};
use super::family::{FamilyAssignments, FamilyCells, FamilyInput, FamilyRows, proposed};
use super::insert::InsertRows;
use super::returning::Returning;
use super::target::WriteTarget;
use crate::constraint::Checks;
use crate::context::ClientContext;
use crate::expression::compile;
use crate::locks::RowName;
use crate::names::fold_case;
use crate::outcome::{Outcome, Tag};
use crate::row::unique::{Claim, UniqueIndex};
use crate::row::{NewRow, TableHandle, or_null, overlaid};
use crate::violation::Uniqueness;

/// How often an INSERT is tried while others claim its unique values.
const TRIES_MAX: usize = 100;

/// What a conflict is about.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Arbiters {
    /// The key.
    key: bool,
    /// Unique indexes, by their places.
    uniques: Vec<usize>,
}

impl Arbiters {
    /// The key alone.
    const KEY: Arbiters = Arbiters { key: true, uniques: Vec::new() };

    /// What a row claims of each unique index.
    fn claims(&self, handle: &TableHandle, row: &[Value]) -> Result<Vec<Option<Claim>>> {
        self.uniques.iter().map(|place| handle.uniques[*place].claim(handle, row)).collect()
    }
}

/// The rows that are there, by name: those found, then those the statement itself adds.
struct Present<'a> {
    handle: &'a TableHandle,
    arbiters: &'a Arbiters,
    rows: HashMap<RowName, Vec<Value>>,
    /// For each arbiter, the names of the rows by their values.
    holders: Vec<HashMap<Vec<u8>, RowName>>,
}

impl<'a> Present<'a> {
    fn new(handle: &'a TableHandle, arbiters: &'a Arbiters, found: &TargetRows) -> Result<Present<'a>> {
        let holders = vec![HashMap::new(); arbiters.uniques.len()];
        let mut present = Present { handle, arbiters, rows: HashMap::new(), holders };
        for (name, index) in found.places(handle)? {
            present.add(name, handle.values(&found.rows, index)?)?;
        }
        Ok(present)
    }

    fn add(&mut self, name: RowName, row: Vec<Value>) -> Result<()> {
        for (holders, claim) in self.holders.iter_mut().zip(self.arbiters.claims(self.handle, &row)?) {
            holders.extend(claim.map(|claim| (claim.encoded, name.clone())));
        }
        self.rows.insert(name, row);
        Ok(())
    }

    /// The row that one which is to be inserted conflicts with.
    ///
    /// # Errors
    /// 23505 if it has the same key, which ON CONFLICT is not about.
    fn conflict(&self, row: &NewRow) -> Result<Option<&Vec<Value>>> {
        let row = or_null(row);
        let key = &row[..self.handle.key_len()];
        let same_key = self.rows.get(&self.handle.name(key)?);
        if self.arbiters.key && same_key.is_some() {
            return Ok(same_key);
        }
        for (holders, claim) in self.holders.iter().zip(self.arbiters.claims(self.handle, &row)?) {
            if let Some(name) = claim.and_then(|claim| holders.get(&claim.encoded)) {
                return Ok(self.rows.get(name));
            }
        }
        match same_key {
            Some(_) => Err(Uniqueness::of_key(&self.handle.table).exists(key)),
            None => Ok(None),
        }
    }
}

/// What is decided about each row of an INSERT that skips keys that exist.
struct Skipping {
    mutations: Vec<Mutation>,
    inserted: Vec<Vec<Value>>,
    answers: Vec<ConditionAnswer>,
}

/// Inserts rows without a conflict. Of two rows with one key the first is inserted and the second finds it.
fn insert_missing(insert: &InsertRows, arbiters: &Arbiters, found: &TargetRows) -> Result<Skipping> {
    let handle = &insert.handle;
    let mut present = Present::new(handle, arbiters, found)?;
    let mut decided = Skipping { mutations: Vec::new(), inserted: Vec::new(), answers: Vec::new() };
    for (place, row) in insert.rows.iter().enumerate() {
        if let Some(old) = present.conflict(row)? {
            decided.answers.push(ConditionAnswer::Row(old.clone()));
            continue;
        }
        present.add(handle.name(&insert.key(row))?, or_null(row))?;
        decided.mutations.extend(insert.insert(row));
        decided.mutations.extend(insert.cells_of(place));
        decided.inserted.push(or_null(row));
        decided.answers.push(ConditionAnswer::Applied);
    }
    if !insert.checks.is_empty() {
        insert.checks.check(&handle.table, &handle.batch(&decided.inserted)?)?;
    }
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
    arbiters: &Arbiters,
    parameters: &[Value],
) -> Result<Changed<(Vec<Vec<Value>>, Vec<ConditionAnswer>)>> {
    let families = FamilyInput::none(&insert.handle);
    change_conflicting(context, insert, arbiters, &families, parameters, |found| {
        let decided = insert_missing(insert, arbiters, found)?;
        Ok((decided.mutations, (decided.inserted, decided.answers)))
    })
    .await
}

/// [`change_seen`] of the rows that an INSERT may conflict with.
async fn change_conflicting<T>(
    context: &mut ClientContext,
    insert: &InsertRows,
    arbiters: &Arbiters,
    families: &FamilyInput,
    parameters: &[Value],
    mut decide: impl FnMut(&TargetRows) -> Result<(Vec<Mutation>, T)>,
) -> Result<Changed<T>> {
    let (handle, wanted) = (&insert.handle, wanted(insert));
    let mut holders = Vec::new();
    for tried in 0..TRIES_MAX {
        let found = find_holders(context, insert, arbiters).await?;
        let same = tried > 0 && found == holders;
        holders = found;
        let mut keys: Vec<Vec<Value>> = insert.rows.iter().map(|row| insert.key(row)).collect();
        keys.extend(holders.iter().cloned());
        let target = WriteTarget::Keys(keys);
        match change_seen(context, handle, &target, families, wanted, parameters, &mut decide).await {
            // A row that was not there a moment ago, unless it is one that the statement itself makes.
            Err(error) if error.kind == ErrorKind::Unique && !arbiters.uniques.is_empty() && !same => {}
            other => return other,
        }
    }
    let message = "could not serialize access: the rows kept changing";
    Err(Error::new(ErrorKind::Serialization, message).with_hint("Run the statement again."))
}

/// The keys of rows that have the values of those that are to be inserted; not those that are inserted themselves.
async fn find_holders(
    context: &mut ClientContext,
    insert: &InsertRows,
    arbiters: &Arbiters,
) -> Result<Vec<Vec<Value>>> {
    let handle = &insert.handle;
    if arbiters.uniques.is_empty() {
        return Ok(Vec::new());
    }
    let snapshot = context.newest()?;
    let names = insert.rows.iter().map(|row| handle.name(&insert.key(row)));
    let mut known = names.collect::<Result<HashSet<RowName>>>()?;
    let mut keys = Vec::new();
    for place in &arbiters.uniques {
        let index = &handle.uniques[*place];
        let claims = insert.rows.iter().filter_map(|row| index.claim(handle, &or_null(row)).transpose());
        let claims = claims.collect::<Result<Vec<_>>>()?;
        for holder in index.holders(handle, &snapshot, &claims).await? {
            if known.insert((handle.relation.id, holder.row)) {
                keys.push(holder.key);
            }
        }
    }
    Ok(keys)
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
        let mut decided = insert_missing(insert, &Arbiters::KEY, found)?;
        if let Some(place) = decided.answers.iter().position(|answer| !answer.is_applied()) {
            return Err(Uniqueness::of_key(&insert.handle.table).exists(&insert.key(&insert.rows[place])));
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
    let changed = skip_existing(context, &insert, &Arbiters::KEY, parameters).await?;
    let (inserted, answers) = changed.answer;
    let tag = Tag::counted("INSERT", inserted.len() as u64);
    Ok(Outcome::with_rows(tag, condition::answer(context, &insert.handle, &answers, &changed.before).await?))
}

/// `INSERT … ON CONFLICT`.
pub(super) async fn on_conflict(
    context: &mut ClientContext,
    statement: &Insert,
    clause: &OnConflict,
    insert: InsertRows,
    parameters: &[Value],
) -> Result<Outcome> {
    let arbiters = arbiters(&insert.handle, clause)?;
    if !insert.checks.is_empty() {
        // A row that is proposed must meet them whether it comes to be or not, as in PostgreSQL.
        let proposed: Vec<Vec<Value>> = insert.rows.iter().map(or_null).collect();
        insert.checks.check(&insert.handle.table, &insert.handle.batch(&proposed)?)?;
    }
    match &clause.action {
        ConflictAction::Nothing => {
            let insert = InsertRows { checks: Checks::none(), ..insert };
            let skipped = skip_existing(context, &insert, &arbiters, parameters).await?;
            let (inserted, _) = skipped.answer;
            let tag = Tag::counted("INSERT", inserted.len() as u64);
            insert.outcome(tag, (&inserted, &[]), skipped.after.as_ref(), parameters).await
        }
        ConflictAction::Update { .. } => update(context, statement, clause, (insert, arbiters), parameters).await,
    }
}

/// What a clause is about: the key or a unique index that it names, or all of them where it names none.
fn arbiters(handle: &TableHandle, clause: &OnConflict) -> Result<Arbiters> {
    let table = &handle.table;
    let indexes = || handle.uniques.iter().enumerate();
    if let Some(constraint) = &clause.constraint {
        if *constraint == table.key_name() {
            return Ok(Arbiters::KEY);
        }
        let named = indexes().find(|(_, own)| own.index.name == *constraint && own.index.is_constraint());
        if let Some((place, _)) = named {
            return Ok(Arbiters { key: false, uniques: vec![place] });
        }
        let message = format!("constraint \"{constraint}\" for table \"{}\" does not exist", table.name);
        return Err(Error::new(ErrorKind::UndefinedObject, message));
    }
    for column in &clause.columns {
        table.expect_column(&column.name).map_err(|error| error.at(column.position))?;
    }
    let named: Vec<&str> = clause.columns.iter().map(|column| column.name.as_str()).collect();
    let key: Vec<&str> = table.key().map(|column| column.name.as_str()).collect();
    if named.is_empty() {
        // DO UPDATE must know the row: it is that of the key.
        let all = matches!(clause.action, ConflictAction::Nothing);
        return Ok(Arbiters { key: true, uniques: indexes().map(|(place, _)| place).filter(|_| all).collect() });
    }
    let is_named = |columns: &[&str]| named.len() == columns.len() && columns.iter().all(|own| named.contains(own));
    let same = |(_, own): &(usize, &UniqueIndex)| is_named(&own.columns());
    let found = Arbiters { key: is_named(&key), uniques: indexes().filter(same).map(|(place, _)| place).collect() };
    if found.key || !found.uniques.is_empty() {
        return Ok(found);
    }
    let message = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
    let unique = std::iter::once(key).chain(indexes().map(|(_, own)| own.columns()));
    let hint = unique.map(|columns| format!("ON CONFLICT ({})", columns.join(", "))).collect::<Vec<_>>();
    let hint = format!("Unique are the primary key and what is declared so: {}.", hint.join(", "));
    Err(Error::new(ErrorKind::InvalidColumnReference, message).with_hint(hint))
}

async fn update(
    context: &mut ClientContext,
    statement: &Insert,
    clause: &OnConflict,
    (insert, arbiters): (InsertRows, Arbiters),
    parameters: &[Value],
) -> Result<Outcome> {
    let ConflictAction::Update { assignments, filter } = &clause.action else {
        return Err(Error::internal("not a DO UPDATE"));
    };
    check_each_once(&insert, &arbiters)?;
    let mut insert = insert;
    let handle = insert.handle.clone();
    let (mut cells, rest) = FamilyAssignments::split(context, &handle.table, assignments, &|_| None, parameters)?;
    let qualifier = statement.alias.clone().unwrap_or_else(|| handle.table.name.clone());
    // Where the conflict is about the key, the row that is to be inserted has the same.
    let same = [Some(qualifier.as_str()), arbiters.uniques.is_empty().then_some("excluded")];
    let keeps_key = |assignment: &Assignment| is_same_key(&handle, &same, assignment);
    let rest: Vec<Assignment> = rest.into_iter().filter(|assignment| !keeps_key(assignment)).collect();
    let values = rest.iter().flat_map(|assignment| assignment.value.expressions());
    let reads: Vec<&ast::Expr> = values.chain(cells.expressions()).chain(filter).collect();
    let families = FamilyInput::new(context, &handle, &reads, &cells.lists(), parameters);
    let excluded = FamilyInput::readable(&handle);
    let input = [(qualifier.as_str(), families.schema().clone()), ("excluded", excluded.clone())];
    let assignments = Assignments::new(context, &handle, &rest, &|_| None, &input, parameters)?;
    cells.compile(context, &input, parameters)?;
    let filter = match filter {
        Some(filter) => Some(compile(context, &[&rows_as_columns(filter, &qualifier, &handle)], &input, parameters)?),
        None => None,
    };
    insert.timing = cells.timing(insert.timing);
    let update = Updating { insert: &insert, arbiters: &arbiters, assignments, cells, excluded, filter, parameters };
    let decide = |found: &TargetRows| update.decide(found);
    let changed = change_conflicting(context, &insert, &arbiters, &families, parameters, decide).await?;
    let (rows, updated) = &changed.answer;
    let tag = Tag::counted("INSERT", rows.len() as u64);
    insert.outcome(tag, (rows, updated), changed.after.as_ref(), parameters).await
}

/// Whether a column of the key gets what it has: that of one of these relations.
fn is_same_key(handle: &TableHandle, same: &[Option<&str>], assignment: &Assignment) -> bool {
    let column = &assignment.column;
    let of_key = column.qualifier.is_none() && handle.table.key().any(|own| own.name == column.name);
    let InsertValue::Expression(ast::Expr::CompoundIdentifier(parts)) = &assignment.value else { return false };
    let [relation, name] = parts.as_slice() else { return false };
    let relation = fold_case(relation);
    of_key && same.contains(&Some(relation.as_str())) && fold_case(name) == column.name
}

/// The condition of DO UPDATE with rows as their columns: `t.* IS DISTINCT FROM excluded.*`.
pub(crate) fn rows_as_columns(filter: &ast::Expr, qualifier: &str, handle: &TableHandle) -> ast::Expr {
    let mut filter = filter.clone();
    let _ = ast::visit_expressions_mut(&mut filter, |part| {
        let name = match &*part {
            ast::Expr::QualifiedWildcard(name, _) => name.0.last().and_then(|part| part.as_ident()).map(fold_case),
            _ => None,
        };
        if let Some(name) = name.filter(|name| name == qualifier || name == "excluded") {
            let column = |(_, column): (usize, &keyspan_model::ColumnDef)| {
                let ident = |name: &str| ast::Ident::with_quote('"', name);
                ast::Expr::CompoundIdentifier(vec![ident(&name), ident(&column.name)])
            };
            *part = ast::Expr::Tuple(handle.shown().map(column).collect());
        }
        ControlFlow::<()>::Continue(())
    });
    filter
}

/// What the second of two rows with one key would update is the first, which the statement has just written.
fn check_each_once(insert: &InsertRows, arbiters: &Arbiters) -> Result<()> {
    let handle = &insert.handle;
    let mut names = HashSet::with_capacity(insert.rows.len());
    for row in &insert.rows {
        let claims = arbiters.claims(handle, &or_null(row))?;
        let claims = arbiters
            .uniques
            .iter()
            .zip(claims)
            .filter_map(|(place, claim)| claim.map(|claim| handle.uniques[*place].name(&claim)));
        let key = if arbiters.key { Some(handle.name(&insert.key(row))?) } else { None };
        if !claims.chain(key).all(|name| names.insert(name)) {
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
    arbiters: &'a Arbiters,
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

/// Rows that are inserted or updated, and which of them are updated.
type Written = (Vec<Vec<Value>>, Vec<bool>);

impl Updating<'_> {
    /// What is written.
    fn decide(&self, found: &TargetRows) -> Result<(Vec<Mutation>, Written)> {
        let (insert, handle) = (self.insert, &self.insert.handle);
        let present = Present::new(handle, self.arbiters, found)?;
        let places = found.places(handle)?;
        let old = |row: &NewRow| match present.conflict(row)? {
            Some(old) => Ok(places.get(&handle.name(&old[..handle.key_len()])?).copied()),
            None => Ok(None),
        };
        let old = insert.rows.iter().map(old).collect::<Result<Vec<Option<usize>>>>()?;
        check_new_keys(insert, &old)?;
        let mut updates = self.updates(found, &old)?.into_iter();
        let (mut mutations, mut after, mut updated) = (Vec::new(), Vec::new(), Vec::new());
        for (place, (row, old)) in insert.rows.iter().zip(old).enumerate() {
            let Some(old) = old else {
                mutations.extend(insert.insert(row));
                mutations.extend(insert.cells_of(place));
                after.push(or_null(row));
                updated.push(false);
                continue;
            };
            if let Some((new, cells)) = updates.next().flatten() {
                let old = handle.values(&found.rows, old)?;
                let row = keyed(insert, &new, &old);
                mutations.extend(cells.mutations(handle, &old[..handle.key_len()], &insert.timing));
                mutations.extend(handle.write(&row, false, insert.timing.stamp, insert.timing.ttl));
                after.push(overlaid(&old, &new));
                updated.push(true);
            }
        }
        insert.checks.check(&handle.table, &handle.batch(&after)?)?;
        Ok((mutations, (after, updated)))
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

/// 23505 if two rows that are inserted have one key, which ON CONFLICT is not about.
fn check_new_keys(insert: &InsertRows, old: &[Option<usize>]) -> Result<()> {
    let mut names = HashSet::with_capacity(insert.rows.len());
    for (row, _) in insert.rows.iter().zip(old).filter(|(_, old)| old.is_none()) {
        let key = insert.key(row);
        if !names.insert(insert.handle.name(&key)?) {
            return Err(Uniqueness::of_key(&insert.handle.table).exists(&key));
        }
    }
    Ok(())
}

fn keyed(insert: &InsertRows, row: &NewRow, old: &[Value]) -> NewRow {
    let key_len = insert.handle.key_len();
    old[..key_len].iter().cloned().map(Some).chain(row[key_len..].iter().cloned()).collect()
}
