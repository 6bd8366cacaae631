//! UPDATE.
//!
//! By whole key, with values that do not depend on the row, it is CQL's: blind, it creates the row, it counts 1. With
//! any other WHERE, or with expressions over the row, it is SQL's: the rows found. A row that could not be created
//! without breaking a NOT NULL is not created; that update counts 0.

use keyspan_cql::Update;
use keyspan_model::{Error, ErrorKind, Result, Value};

use super::assign::Assignments;
use super::change::{Found, change};
use super::condition::{self, Answer, Compiled, Decision};
use super::returning::Returning;
use super::target::{self, Target};
use super::using::{self, Timing};
use crate::constraint::Checks;
use crate::context::ClientContext;
use crate::database::count;
use crate::names;
use crate::outcome::{Outcome, Tag};
use crate::row::{NewRow, Written, merged};

/// Everything about an UPDATE that does not depend on the rows.
struct Plan {
    written: Written,
    assignments: Assignments,
    checks: Checks,
    condition: Option<Compiled>,
    returning: Option<Returning>,
    timing: Timing,
    /// Whether a missing row is created.
    creates: bool,
}

/// `UPDATE`.
pub(crate) async fn run(context: &mut ClientContext, statement: &Update, parameters: &[Value]) -> Result<Outcome> {
    let table = names::table(&context.catalog(), &context.settings.search_path(), &statement.table)?;
    let written = context.written(table);
    let target = target::target(context, &written, statement.alias.as_deref(), statement.filter.as_ref(), parameters)?;
    let plan = plan(context, statement, written, &target, parameters)?;
    if !matches!(target, Target::Query(_)) {
        count(&context.database.counts().point_writes);
    }
    if let (Target::Key(key), true) = (&target, plan.is_blind()) {
        return blind(context, &plan, key.clone()).await;
    }
    let written = plan.written.clone();
    let (updated, answers) =
        change(context, &written, &target, parameters, |found| plan.decide(&target, found, parameters)).await?;
    plan.outcome(updated, answers, parameters)
}

fn plan(
    context: &mut ClientContext,
    statement: &Update,
    written: Written,
    target: &Target,
    parameters: &[Value],
) -> Result<Plan> {
    let alias = statement.alias.as_deref();
    let input = [(alias.unwrap_or(&written.table.name), written.schema.clone())];
    let assignments = Assignments::new(context, &written, &statement.assignments, &input, parameters)?;
    let checks = Checks::new(context, &written)?;
    let timing = using::timing(context, &statement.using, &written.table, parameters)?;
    let condition = match &statement.condition {
        None => None,
        Some(_) if timing.custom => {
            let message = "Cannot provide custom timestamp for conditional updates";
            return Err(Error::new(ErrorKind::InvalidParameter, message));
        }
        Some(_) if !matches!(target, Target::Key(_)) => {
            let message = "IF is only allowed with a WHERE that gives the whole key";
            return Err(Error::not_supported(message).with_hint("Put the condition into WHERE."));
        }
        Some(condition) => Some(condition::compiled(context, &written, condition, parameters)?),
    };
    let types: Vec<_> = parameters.iter().map(Value::natural_type).collect();
    let returning = match &statement.returning {
        Some(items) => Some(Returning::new(context, &written, alias, items, &types)?),
        None => None,
    };
    let complete = |(place, column): (usize, &keyspan_model::ColumnDef)| {
        column.is_key() || !column.not_null || assignments.assign(place)
    };
    let creates = matches!(target, Target::Key(_))
        && !assignments.read_rows()
        && written.table.columns.iter().enumerate().all(complete);
    Ok(Plan { written, assignments, checks, condition, returning, timing, creates })
}

impl Plan {
    /// Whether nothing need be read.
    fn is_blind(&self) -> bool {
        let table = &self.written.table;
        let place = |name: &str| table.columns.iter().position(|column| column.name == name);
        let assigned = |name: &str| place(name).is_some_and(|place| self.assignments.assign(place));
        self.creates && self.condition.is_none() && self.returning.is_none() && self.checks.are_about(table, assigned)
    }

    fn decide(&self, target: &Target, found: &Found, parameters: &[Value]) -> Result<Decision<Vec<Vec<Value>>>> {
        let written = &self.written;
        let missing = match target {
            Target::Key(key) if found.keys.is_empty() => Some(empty_row(written, key)),
            _ => None,
        };
        if missing.is_some() && !self.creates && self.condition.is_none() {
            return Ok((Vec::new(), (Vec::new(), Vec::new())));
        }
        let input = match &missing {
            Some(row) => written.batch(std::slice::from_ref(row))?,
            None => found.rows.clone(),
        };
        let applies = match &self.condition {
            Some(condition) => condition.holds(&input, missing.is_none(), parameters)?,
            None => vec![true; input.num_rows()],
        };
        let new = self.assignments.rows(written, &input, parameters)?;
        let (mut mutations, mut updated, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        for (index, row) in new.iter().enumerate() {
            let old = written.values(&input, index)?;
            if !applies[index] {
                answers.push(Answer { applied: false, row: missing.is_none().then_some(old) });
                continue;
            }
            mutations.push(written.write(&keyed(written, row, &old), false, self.timing.stamp, self.timing.ttl));
            updated.push(merged(&old, row));
            answers.push(Answer { applied: true, row: None });
        }
        self.checks.check(&written.table, &written.batch(&updated)?)?;
        Ok((mutations, (updated, answers)))
    }

    fn outcome(&self, updated: Vec<Vec<Value>>, answers: Vec<Answer>, parameters: &[Value]) -> Result<Outcome> {
        let tag = Tag::counted("UPDATE", updated.len() as u64);
        if self.condition.is_some() {
            return Ok(Outcome::with_rows(tag, condition::answer(&self.written, &answers)?));
        }
        match &self.returning {
            Some(returning) => {
                let rows = returning.rows(&self.written.batch(&updated)?, parameters)?;
                Ok(Outcome::with_rows(tag, rows))
            }
            None => Ok(Outcome::done(tag)),
        }
    }
}

async fn blind(context: &mut ClientContext, plan: &Plan, key: Vec<Value>) -> Result<Outcome> {
    let written = &plan.written;
    let old = empty_row(written, &key);
    let input = written.batch(std::slice::from_ref(&old))?;
    let row = plan.assignments.rows(written, &input, &[])?.remove(0);
    plan.checks.check(&written.table, &written.batch(&[merged(&old, &row)])?)?;
    let mutation = written.write(&keyed(written, &row, &old), false, plan.timing.stamp, plan.timing.ttl);
    let locks = context.lock_blind(written, &[key]).await?;
    context.write(vec![mutation], Vec::new(), locks).await?;
    Ok(Outcome::done(Tag::counted("UPDATE", 1)))
}

/// A row of which only the key is there.
fn empty_row(written: &Written, key: &[Value]) -> Vec<Value> {
    let rest = written.table.columns.len() - key.len();
    key.iter().cloned().chain(std::iter::repeat_n(Value::Null, rest)).collect()
}

/// The assignments with the key of the old row.
fn keyed(written: &Written, row: &NewRow, old: &[Value]) -> NewRow {
    let key_len = written.key_len();
    old[..key_len].iter().cloned().map(Some).chain(row[key_len..].iter().cloned()).collect()
}
