//! UPDATE.
//!
//! By whole keys, with values that do not depend on the row, it is CQL's: blind, it creates the rows, it counts each.
//! With any other WHERE, or with expressions over the row, it is SQL's: the rows found. A row that could not be created
//! without breaking a NOT NULL is not created, nor counted. Under `write_semantics = postgres` no row is
//! created, but for counters, which have no INSERT.

use arrow::array::ArrayRef;
use arrow::compute::concat_batches;
use keyspan_cql::{Update, ast};
use keyspan_model::{Error, ErrorKind, Mutation, Result, Value};

use super::assign::{self, Assignments};
use super::change::{After, Changed, TargetRows, change_seen};
use super::condition::{self, CompiledCondition, ConditionAnswer, Decision};
use super::family::{FamilyAssignments, FamilyCells, FamilyInput};
use super::returning::{FromColumns, Returning};
use super::target::{self, Beside, WriteTarget};
use super::using::{self, Timing};
use super::{rights, statics};
use crate::constraint::{Checks, kept_value};
use crate::context::ClientContext;
use crate::database::count;
use crate::names;
use crate::outcome::{Outcome, Tag};
use crate::row::{NewRow, TableHandle, overlaid};

/// Everything about an UPDATE that does not depend on the rows.
struct UpdatePlan {
    handle: TableHandle,
    assignments: Assignments,
    checks: Checks,
    condition: Option<CompiledCondition>,
    returning: Option<Returning>,
    timing: Timing,
    /// Whether a missing row is created.
    creates: bool,
    /// Whether not even a condition that a missing row meets creates it.
    only_found: bool,
    /// What is written to families.
    cells: FamilyAssignments,
    /// The families that it reads.
    families: FamilyInput,
}

/// The rows as they are now.
#[derive(Debug, Default)]
struct Updated {
    rows: Vec<Vec<Value>>,
    /// What RETURNING takes from the tables in FROM, for each.
    from: Vec<ArrayRef>,
}

/// `UPDATE`.
pub(crate) async fn run(context: &mut ClientContext, statement: &Update, parameters: &[Value]) -> Result<Outcome> {
    let table = names::table(&context.catalog(), &context.settings.search_path(), &statement.table)?;
    rights::update(context, &table, statement)?;
    let handle = statics::updated(&context.handle(table), statement)?;
    let (alias, filter) = (statement.alias.as_deref(), statement.filter.as_ref());
    let (list, types) = (statement.returning.as_deref(), context.types_of(parameters));
    let from = FromColumns::of(context, &handle, alias, &statement.from, list, &types).await?;
    let assigned = assign::by_query(statement);
    let values: Vec<_> = assigned.iter().copied().chain(from.expressions()).collect();
    let beside = Beside { from: &statement.from, values: &values };
    let target = target::find_target(context, &handle, alias, filter, beside, parameters)?;
    let returning = Returning::new(context, &handle, alias, &from, &types)?;
    let plan = plan(context, statement, handle, &target, &assigned, returning, parameters)?;
    if !matches!(target, WriteTarget::Query(_)) {
        count(&context.database.counts().point_writes);
    }
    let target = match target {
        WriteTarget::Key(key) if plan.creates => WriteTarget::Key(kept_key(&plan.handle, key)?),
        WriteTarget::Keys(keys) if plan.creates => {
            WriteTarget::Keys(keys.into_iter().map(|key| kept_key(&plan.handle, key)).collect::<Result<_>>()?)
        }
        target => target,
    };
    if plan.is_blind() {
        return write_blind(context, &plan, target.keys()).await;
    }
    let handle = plan.handle.clone();
    let wanted = plan.returning.as_ref().is_some_and(Returning::reads_families).then_some(After);
    let changed = change_seen(context, &handle, &target, &plan.families, wanted, parameters, |found| {
        plan.decide(&target, found, parameters)
    });
    let changed = changed.await?;
    plan.outcome(context, changed, parameters).await
}

fn plan(
    context: &mut ClientContext,
    statement: &Update,
    handle: TableHandle,
    target: &WriteTarget,
    by_query: &[&ast::Expr],
    returning: Option<Returning>,
    parameters: &[Value],
) -> Result<UpdatePlan> {
    let alias = statement.alias.as_deref();
    let queried = |expression: &ast::Expr| by_query.iter().position(|each| *each == expression);
    let (mut cells, rest) =
        FamilyAssignments::split(context, &handle.table, &statement.assignments, &queried, parameters)?;
    let families = match handle.table.families.is_empty() && handle.statics.is_none() {
        true => FamilyInput::none(&handle),
        false => {
            let values = rest.iter().flat_map(|assignment| assignment.value.expressions());
            let reads = values.filter(|value| queried(value).is_none()).chain(cells.expressions());
            let reads: Vec<&ast::Expr> = reads.chain(condition::expression_of(statement.condition.as_ref())).collect();
            FamilyInput::new(context, &handle, &reads, &cells.lists(), parameters)
        }
    };
    let input = [(alias.unwrap_or(&handle.table.name), families.schema().clone())];
    let assignments = Assignments::new(context, &handle, &rest, &queried, &input, parameters)?;
    cells.compile(context, &input, parameters)?;
    let checks = Checks::new(context, &handle)?;
    let timing = cells.timing(using::timing(context, &statement.using, &handle.table, parameters)?);
    let condition = match &statement.condition {
        None => None,
        Some(_) if timing.custom => {
            let message = "Cannot provide custom timestamp for conditional updates";
            return Err(Error::new(ErrorKind::InvalidParameter, message));
        }
        Some(_) if !matches!(target, WriteTarget::Key(_)) => {
            let message = "IF is only allowed with a WHERE that gives the whole key";
            return Err(Error::not_supported(message).with_hint("Put the condition into WHERE."));
        }
        Some(condition) => {
            Some(condition::compile_condition(context, &handle, families.schema(), condition, parameters)?)
        }
    };
    let complete = |(place, column): (usize, &keyspan_model::ColumnDef)| {
        column.is_key() || !column.not_null || assignments.assign(place)
    };
    let only_found = context.settings.postgres_writes() && !handle.table.has_counters();
    // It would depend on their number whether rows are made.
    if matches!(target, WriteTarget::Query(found) if found.of_many_keys) && !only_found && !assignments.read_rows() {
        let error = Error::new(ErrorKind::LimitExceeded, "UPDATE names too many keys");
        return Err(
            error.with_hint("Write several statements, or SET write_semantics = 'postgres', which makes no rows.")
        );
    }
    let creates = !target.keys().is_empty()
        && !only_found
        && (statement.upserts || (!assignments.read_rows() && cells.expressions().is_empty()))
        && handle.table.columns.iter().enumerate().all(complete);
    Ok(UpdatePlan { handle, assignments, checks, condition, returning, timing, creates, only_found, cells, families })
}

impl UpdatePlan {
    /// Whether nothing need be read.
    fn is_blind(&self) -> bool {
        let table = &self.handle.table;
        let place = |name: &str| table.columns.iter().position(|column| column.name == name);
        let assigned = |name: &str| place(name).is_some_and(|place| self.assignments.assign(place));
        let plain = self.condition.is_none() && self.returning.is_none();
        self.creates
            && plain
            && !self.assignments.add()
            && !self.assignments.read_rows()
            && !self.cells.read_rows()
            && self.checks.read_only(table, assigned)
    }

    fn decide(&self, target: &WriteTarget, found: &TargetRows, parameters: &[Value]) -> Result<Decision<Updated>> {
        let handle = &self.handle;
        let mut missing = Vec::new();
        for key in found.missing(handle, target)? {
            missing.push(found.empty_row(handle, key)?);
        }
        if self.only_found || (!self.creates && self.condition.is_none()) {
            if let (Some(_), [row]) = (&self.condition, missing.as_slice()) {
                let answer = ConditionAnswer::without_row(handle, row.clone());
                return Ok((Vec::new(), (Updated::default(), vec![answer])));
            }
            missing.clear();
        }
        let with_missing;
        let (rows, input) = match missing.is_empty() {
            true => (found.rows.clone(), &found.families),
            false => {
                let empty = handle.batch(&missing)?;
                with_missing = found.families.and(&self.families.without_cells(empty.clone())?)?;
                (concat_batches(&handle.schema, [&found.rows, &empty])?, &with_missing)
            }
        };
        let exist = found.rows.num_rows();
        let refused = |index: usize, old: Vec<Value>| match index < exist {
            true => ConditionAnswer::Row(old),
            false => ConditionAnswer::without_row(handle, old),
        };
        let applies = match &self.condition {
            Some(condition) => condition.holds(&input.input, missing.is_empty(), parameters)?,
            None => vec![true; rows.num_rows()],
        };
        if !applies.contains(&true) {
            let answer = |row| Ok(refused(row, handle.values(&rows, row)?));
            let answers = (0..rows.num_rows()).map(answer).collect::<Result<_>>()?;
            return Ok((Vec::new(), (Updated::default(), answers)));
        }
        let new = self.assignments.rows(handle, &input.input, &found.computed, parameters)?;
        let cells = self.cells.rows(input, &found.computed, parameters)?;
        let (mut mutations, mut updated, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        for (index, row) in new.iter().enumerate() {
            let old = handle.values(&rows, index)?;
            if !applies[index] {
                answers.push(refused(index, old));
                continue;
            }
            mutations.extend(self.write(row, &cells[index], &old));
            updated.push(overlaid(&old, row));
            answers.push(ConditionAnswer::Applied);
        }
        self.checks.check(&handle.table, &handle.batch(&updated)?)?;
        let from = self.returning.as_ref().map_or(Ok(Vec::new()), |returning| returning.of_from(&found.computed))?;
        Ok((mutations, (Updated { rows: updated, from }, answers)))
    }

    /// What one row gets, where `old` has its key.
    fn write(&self, row: &NewRow, cells: &FamilyCells, old: &[Value]) -> Vec<Mutation> {
        let (handle, timing) = (&self.handle, &self.timing);
        let mut mutations = cells.mutations(handle, &old[..handle.key_len()], timing);
        if !self.assignments.is_empty() {
            mutations.extend(handle.write(&keyed(handle, row, old), false, timing.stamp, timing.ttl));
        }
        mutations
    }

    async fn outcome(
        &self,
        context: &mut ClientContext,
        changed: Changed<(Updated, Vec<ConditionAnswer>)>,
        parameters: &[Value],
    ) -> Result<Outcome> {
        let (updated, answers) = changed.answer;
        let tag = Tag::counted("UPDATE", updated.rows.len() as u64);
        if self.condition.is_some() {
            let rows = condition::answer(context, &self.handle, &answers, &changed.before).await?;
            return Ok(Outcome::with_rows(tag, rows));
        }
        match &self.returning {
            Some(returning) => {
                let batch = self.handle.batch(&updated.rows)?;
                let after = changed.after.as_ref();
                let rows = returning.rows(after, &self.handle, batch, updated.from, parameters).await?;
                Ok(Outcome::with_rows(tag, rows))
            }
            None => Ok(Outcome::done(tag)),
        }
    }
}

/// The key of a row that may be made, as its columns keep it.
fn kept_key(handle: &TableHandle, key: Vec<Value>) -> Result<Vec<Value>> {
    let columns = key.into_iter().zip(&handle.table.columns);
    columns.map(|(value, column)| kept_value(&handle.table, column, value)).collect()
}

async fn write_blind(context: &mut ClientContext, plan: &UpdatePlan, keys: &[Vec<Value>]) -> Result<Outcome> {
    let handle = &plan.handle;
    let old: Vec<Vec<Value>> = keys.iter().map(|key| handle.bare_row(key)).collect();
    let new = plan.assignments.rows(handle, &handle.batch(&old)?, &[], &[])?;
    let rows: Vec<Vec<Value>> = old.iter().zip(&new).map(|(old, new)| overlaid(old, new)).collect();
    plan.checks.check(&handle.table, &handle.batch(&rows)?)?;
    let mut mutations = Vec::with_capacity(keys.len());
    for (old, new) in old.iter().zip(&new) {
        mutations.extend(plan.write(new, &plan.cells.constant()?, old));
    }
    let locks = context.lock_blind(handle, keys).await?;
    context.write(handle, mutations, Vec::new(), locks).await?;
    Ok(Outcome::done(Tag::counted("UPDATE", keys.len() as u64)))
}

/// The assignments with the key of the old row.
fn keyed(handle: &TableHandle, row: &NewRow, old: &[Value]) -> NewRow {
    let key_len = handle.key_len();
    old[..key_len].iter().cloned().map(Some).chain(row[key_len..].iter().cloned()).collect()
}
