//! DELETE: rows, cells, spans. A span of keys is one tombstone; its tag counts the live rows it covered.

use arrow::array::{ArrayRef, RecordBatch};
use keyspan_cql::Delete;
use keyspan_model::{CellWrite, ColumnId, Error, ErrorKind, Mutation, Result, Span, Value};

use super::assign::no_family;
use super::change::{Changed, TargetRows, change_seen};
use super::condition::{self, CompiledCondition, ConditionAnswer, Decision};
use super::family::{FamilyAssignments, FamilyCells, FamilyInput};
use super::returning::{FromColumns, Returning};
use super::target::{self, Beside, WriteTarget};
use super::using::{self, Timing};
use super::{cells, rights, statics};
use super::{existing, family::family_of};
use crate::context::ClientContext;
use crate::database::count;
use crate::names;
use crate::outcome::{Outcome, Tag};
use crate::row::TableHandle;
use crate::violation::null_value;

/// Everything about a DELETE that does not depend on the rows.
struct DeletePlan {
    handle: TableHandle,
    /// Cells to delete.
    cells: Vec<ColumnId>,
    /// Cells of families to delete, and families.
    family_cells: FamilyAssignments,
    /// The families that it reads.
    families: FamilyInput,
    condition: Option<CompiledCondition>,
    returning: Option<Returning>,
    timing: Timing,
    /// Whether whole partitions are deleted, static values and all.
    partitions: bool,
}

/// The rows as they were.
#[derive(Debug)]
struct Deleted {
    rows: RecordBatch,
    /// What RETURNING takes from the tables in USING, for each.
    from: Vec<ArrayRef>,
}

impl Deleted {
    fn rows(rows: RecordBatch) -> Deleted {
        Deleted { rows, from: Vec::new() }
    }
}

/// `DELETE`.
pub(crate) async fn run(context: &mut ClientContext, statement: &Delete, parameters: &[Value]) -> Result<Outcome> {
    let table = names::table(&context.catalog(), &context.settings.search_path(), &statement.table)?;
    rights::delete(context, &table, statement)?;
    if let Some(family) = &statement.family {
        return cells::delete(context, &table, family, statement, parameters).await;
    }
    let handle = statics::deleted(&context.handle(table), statement)?;
    let (alias, filter) = (statement.alias.as_deref(), statement.filter.as_ref());
    let (list, types) = (statement.returning.as_deref(), context.types_of(parameters));
    let from = FromColumns::of(context, &handle, alias, &statement.from, list, &types).await?;
    let values: Vec<_> = from.expressions().collect();
    let beside = Beside { from: &statement.from, values: &values };
    let target = target::find_target(context, &handle, alias, filter, beside, parameters)?;
    let returning = Returning::new(context, &handle, alias, &from, &types)?;
    let plan = plan(context, statement, handle, &target, returning, parameters)?;
    if !matches!(target, WriteTarget::Query(_)) {
        count(&context.database.counts().point_writes);
    }
    let plain = plan.condition.is_none() && plan.returning.is_none();
    match &target {
        WriteTarget::Spans(spans) if plain && plan.deletes_rows() => delete_spans(context, &plan, spans).await,
        WriteTarget::Key(_) | WriteTarget::Keys(_) if plain && !plan.family_cells.read_rows() => {
            delete_keys(context, &plan, target.keys()).await
        }
        _ => {
            let handle = plan.handle.clone();
            let decided = change_seen(context, &handle, &target, &plan.families, None, parameters, |found| {
                plan.decide(&target, found, parameters)
            });
            let decided = decided.await?;
            plan.outcome(context, decided, parameters).await
        }
    }
}

fn plan(
    context: &mut ClientContext,
    statement: &Delete,
    handle: TableHandle,
    target: &WriteTarget,
    returning: Option<Returning>,
    parameters: &[Value],
) -> Result<DeletePlan> {
    if statement.using.ttl.is_some() {
        return Err(Error::new(ErrorKind::Syntax, "TTL is not allowed in a DELETE"));
    }
    let timing = using::timing(context, &statement.using, &handle.table, parameters)?;
    let (mut cells, mut family_cells) = (Vec::new(), FamilyAssignments::none(context));
    for name in &statement.columns {
        if let Some(family) = family_of(&handle.table, name) {
            family_cells
                .delete(context, family, name.qualifier.as_ref(), parameters)
                .map_err(|error| error.at(name.position))?;
            continue;
        }
        let column = handle.table.expect_column(&name.name).map_err(|error| error.at(name.position))?;
        if name.qualifier.is_some() {
            return Err(no_family(column).at(name.position));
        }
        if column.is_key() {
            let message = format!("Invalid identifier {} for deletion (should not be a PRIMARY KEY part)", column.name);
            return Err(Error::new(ErrorKind::InvalidColumnReference, message).at(name.position));
        }
        if column.not_null {
            return Err(null_value(&handle.table, column, None));
        }
        cells.push(column.id);
    }
    let reads: Vec<_> = condition::expression_of(statement.condition.as_ref()).into_iter().collect();
    let families = FamilyInput::new(context, &handle, &reads, &family_cells.lists(), parameters);
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
    let whole_rows = cells.is_empty() && family_cells.is_empty();
    let partitions = whole_rows
        && handle.statics.is_some()
        && statement.from.is_empty()
        && statics::is_of_partitions(&handle.table, statement.filter.as_ref());
    Ok(DeletePlan { handle, cells, family_cells, families, condition, returning, timing, partitions })
}

impl DeletePlan {
    /// Whether whole rows are deleted.
    fn deletes_rows(&self) -> bool {
        self.cells.is_empty() && self.family_cells.is_empty()
    }

    /// The deletion of one row, or of its cells.
    fn delete(&self, key: Vec<Value>, family_cells: &FamilyCells) -> Vec<Mutation> {
        let stamp = self.timing.stamp;
        if self.deletes_rows() {
            return self.handle.delete(key, stamp);
        }
        let mut mutations = family_cells.mutations(&self.handle, &key, &self.timing);
        if !self.cells.is_empty() {
            let cells = self.cells.iter().map(|id| (*id, CellWrite::Tombstone)).collect();
            mutations.extend(self.handle.write_cells(key, false, cells, stamp, 0));
        }
        mutations
    }

    /// The deletion of the static values of whole partitions.
    fn delete_statics(&self, target: &WriteTarget, found: &TargetRows) -> Vec<Mutation> {
        let spans = match target {
            _ if !self.partitions => Vec::new(),
            WriteTarget::Spans(spans) => spans.clone(),
            _ => found.partitions.iter().map(|partition| Span::prefix(partition.clone())).collect(),
        };
        spans.iter().filter_map(|span| self.handle.delete_statics(span, self.timing.stamp)).collect()
    }

    fn decide(&self, target: &WriteTarget, found: &TargetRows, parameters: &[Value]) -> Result<Decision<Deleted>> {
        let Some(condition) = &self.condition else {
            // Fails where it is an element of a list.
            let missing: Vec<_> = found.missing(&self.handle, target)?;
            let missing: Vec<_> = missing.into_iter().map(|key| self.handle.bare_row(key)).collect();
            let missing = self.families.without_cells(self.handle.batch(&missing)?)?;
            self.family_cells.rows(&missing, &[], parameters)?;
            let cells = self.family_cells.rows(&found.families, &[], parameters)?;
            let mutations = found.keys.iter().zip(&cells).flat_map(|(key, cells)| self.delete(key.clone(), cells));
            let mutations = mutations.chain(self.delete_statics(target, found)).collect();
            let from =
                self.returning.as_ref().map_or(Ok(Vec::new()), |returning| returning.of_from(&found.computed))?;
            return Ok((mutations, (Deleted { rows: found.rows.clone(), from }, Vec::new())));
        };
        if found.keys.is_empty() {
            let answer = self.answer_without_row(target, found, condition, parameters)?;
            return Ok((Vec::new(), (Deleted::rows(found.rows.clone()), vec![answer])));
        }
        match condition.holds(&found.families.input, true, parameters)?.as_slice() {
            [true, ..] => {
                let answer = ConditionAnswer::Applied;
                let cells = self.family_cells.rows(&found.families, &[], parameters)?;
                let deleted = Deleted::rows(found.rows.clone());
                Ok((self.delete(found.keys[0].clone(), &cells[0]), (deleted, vec![answer])))
            }
            _ => {
                let answer = ConditionAnswer::Row(self.handle.values(&found.rows, 0)?);
                Ok((Vec::new(), (Deleted::rows(found.rows.slice(0, 0)), vec![answer])))
            }
        }
    }

    /// The answer of a condition on a row that is not there: it may be about the static values of its partition, or that
    /// something is null.
    fn answer_without_row(
        &self,
        target: &WriteTarget,
        found: &TargetRows,
        condition: &CompiledCondition,
        parameters: &[Value],
    ) -> Result<ConditionAnswer> {
        let WriteTarget::Key(key) = target else { return Ok(ConditionAnswer::Nothing) };
        let empty = found.empty_row(&self.handle, key)?;
        let input = self.families.without_cells(self.handle.batch(std::slice::from_ref(&empty))?)?;
        match condition.holds(&input.input, false, parameters)? == [true] {
            true => {
                // Fails where it is an element of a list.
                self.family_cells.rows(&input, &[], parameters)?;
                Ok(ConditionAnswer::Applied)
            }
            false => Ok(ConditionAnswer::without_row(&self.handle, empty)),
        }
    }

    async fn outcome(
        &self,
        context: &mut ClientContext,
        changed: Changed<(Deleted, Vec<ConditionAnswer>)>,
        parameters: &[Value],
    ) -> Result<Outcome> {
        let (deleted, answers) = changed.answer;
        let tag = Tag::counted("DELETE", deleted.rows.num_rows() as u64);
        if self.condition.is_some() {
            return Ok(Outcome::with_rows(
                tag,
                condition::answer(context, &self.handle, &answers, &changed.before).await?,
            ));
        }
        match &self.returning {
            Some(returning) => {
                let Deleted { rows, from } = deleted;
                let rows = returning.rows(Some(&changed.before), &self.handle, rows, from, parameters).await?;
                Ok(Outcome::with_rows(tag, rows))
            }
            None => Ok(Outcome::done(tag)),
        }
    }
}

async fn delete_spans(context: &mut ClientContext, plan: &DeletePlan, spans: &[Span]) -> Result<Outcome> {
    let snapshot = context.newest()?;
    let relation = plan.handle.relation.id;
    let rows = existing::count(context, &snapshot, relation, spans.to_vec()).await?;
    let deletes = spans.iter().flat_map(|span| plan.handle.delete_span(span.clone(), plan.timing.stamp)).collect();
    let locks = context.lock_blind(&plan.handle, &[]).await?;
    context.write_checked(&plan.handle, deletes, Vec::new(), locks).await?;
    Ok(Outcome::done(Tag::counted("DELETE", rows)))
}

async fn delete_keys(context: &mut ClientContext, plan: &DeletePlan, keys: &[Vec<Value>]) -> Result<Outcome> {
    let locks = context.lock_blind(&plan.handle, keys).await?;
    let snapshot = context.newest()?;
    let rows = snapshot.get(plan.handle.relation.id, keys, &[]).await?.num_rows();
    let cells = plan.family_cells.constant()?;
    let deletes = keys.iter().flat_map(|key| plan.delete(key.clone(), &cells)).collect();
    context.write_checked(&plan.handle, deletes, Vec::new(), locks).await?;
    Ok(Outcome::done(Tag::counted("DELETE", rows as u64)))
}
