//! Plans that are kept from one execution to the next, whichever session asks, so that a statement sent again is not
//! planned again.
//!
//! ```text
//! tree ─ quoted literals of WHERE ─▶ tree with parameters       texts that differ only in these are analyzed once
//! analyzed plan ─ constants ─▶ plan with places + constants     two statements of one shape differ only in these
//!                                 │ optimized, planned once
//!                                 ▼
//!                  nodes above the scan (template) + filters with places
//! execution:  constants' values ─▶ filters ─▶ spans ─▶ scan of this snapshot ─▶ the nodes above, anew
//! ```
//!
//! - [`literals`]: quoted literals as parameters.
//! - [`constants`]: what may be kept at all, and which constants are taken out.
//! - [`template`]: the physical plan without its snapshot.
//!
//! Rule: what is kept is right for every value of the constants and for every snapshot. So it is one scan of one table, or
//! none, whose filters alone hold the constants, under nodes that carry nothing from one execution to the next; functions see
//! nothing of the statement but its time zone, which is part of what a plan is found by; and where a scan of the new
//! values would not promise what the kept one did (an order, a number of partitions), the statement is planned anew.
//! Nothing kept holds a snapshot.

mod constants;
mod literals;
mod template;
#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::sqlparser::ast;
use keyspan_model::TableDef;
use parking_lot::Mutex;

use crate::meaning::Meaning;
use crate::optimizer;
use crate::prefix;
use crate::session::{PlannedQuery, QueryContext};
use crate::spread;
use crate::table::KeyspanTable;
use template::Template;

pub use literals::{is_whole, taken_out};

/// Shapes that are kept, and queries of them; the one not used for longest goes first.
const MOST_KEPT: usize = 128;

/// The kept plans of all sessions.
#[derive(Debug, Default)]
pub struct KeptPlans {
    /// The last used at the end.
    plans: Mutex<Vec<Arc<Kept>>>,
    /// Queries and their hashes, so that one sent again, but for its quoted literals, is not even looked at for its shape;
    /// likewise.
    queries: Mutex<Vec<(u64, PlannedQuery)>>,
    /// Hashes of queries that are better planned with their literals in their places; the last found at the end.
    refused: Mutex<Vec<u64>>,
}

/// A shape of statements, and what is known of its plan.
#[derive(Debug)]
pub struct Kept {
    plan: LogicalPlan,
    hash: u64,
    table: Option<Arc<TableDef>>,
    time_zone: String,
    state: Mutex<State>,
}

/// How far a shape has been planned.
#[derive(Clone, Debug)]
enum State {
    /// Not at all: no statement of it has run yet.
    New,
    /// Optimized, with places for the constants in the filters of its scan.
    Optimized(Arc<LogicalPlan>),
    /// Planned.
    Planned(Arc<LogicalPlan>, Arc<Template>),
    /// It is not to be kept.
    Refused,
}

/// A statement of a kept shape.
#[derive(Clone, Debug)]
pub struct OfShape {
    kept: Arc<Kept>,
    constants: Arc<[Expr]>,
}

impl KeptPlans {
    /// Of the queries kept for this text the one that is meant.
    pub fn known(&self, query: &ast::Query, is_meant: impl Fn(&PlannedQuery) -> bool) -> Option<PlannedQuery> {
        let hash = hash_of(query);
        let mut queries = self.queries.lock();
        let at = queries.iter().rposition(|(own, planned)| *own == hash && is_meant(planned))?;
        let found = queries.remove(at);
        let planned = found.1.clone();
        queries.push(found);
        Some(planned)
    }

    /// Keeps what was planned for a query.
    pub fn remember(&self, query: &ast::Query, planned: &PlannedQuery) {
        let hash = hash_of(query);
        let mut queries = self.queries.lock();
        if queries.len() >= MOST_KEPT {
            queries.remove(0);
        }
        queries.push((hash, planned.clone()));
    }

    /// Says that a query without its literals is not worth planning.
    pub fn refuse(&self, query: &ast::Query) {
        let mut refused = self.refused.lock();
        if refused.len() >= MOST_KEPT {
            refused.remove(0);
        }
        refused.push(hash_of(query));
    }

    /// Whether that was said. Of another query it may be said by mistake, which costs time only.
    pub fn is_refused(&self, query: &ast::Query) -> bool {
        self.refused.lock().contains(&hash_of(query))
    }

    /// The shape of an analyzed plan, if plans like it may be kept.
    pub fn shape(&self, analyzed: &LogicalPlan, context: &QueryContext) -> Option<OfShape> {
        let parted = constants::part(analyzed)?;
        let hash = hash_of(&parted.plan);
        let mut plans = self.plans.lock();
        let same = |kept: &Arc<Kept>| {
            let address = |table: &Option<Arc<TableDef>>| table.as_ref().map(Arc::as_ptr);
            let same_table = address(&kept.table) == address(&parted.table);
            kept.hash == hash && same_table && kept.suits(context) && kept.plan == parted.plan
        };
        let known = plans.iter().position(same);
        let kept = match known {
            Some(at) => plans.remove(at),
            None => Arc::new(Kept {
                plan: parted.plan,
                hash,
                table: parted.table,
                time_zone: context.time_zone.clone(),
                state: Mutex::new(State::New),
            }),
        };
        if plans.len() >= MOST_KEPT {
            plans.remove(0);
        }
        plans.push(kept.clone());
        Some(OfShape { kept, constants: parted.constants.into() })
    }
}

impl Kept {
    /// Whether functions mean the same there: those that are kept ask for the time zone, and for nothing else.
    fn suits(&self, context: &QueryContext) -> bool {
        self.time_zone == context.time_zone
    }

    /// The optimized plan, with places.
    fn optimized(&self, state: &SessionState) -> Result<Option<Arc<LogicalPlan>>> {
        let known = self.state.lock().clone();
        match known {
            State::Refused => Ok(None),
            State::Optimized(plan) | State::Planned(plan, _) => Ok(Some(plan)),
            State::New => {
                let plan = optimizer::optimized(self.plan.clone(), state)?;
                let plan = constants::only_in_scan(&plan, self.table.is_some()).then(|| Arc::new(plan));
                *self.state.lock() = plan.clone().map_or(State::Refused, State::Optimized);
                Ok(plan)
            }
        }
    }
}

impl OfShape {
    /// The analyzed plan of a statement, its constants in their places; `None` if one has no value of its type.
    pub fn analyzed(&self, given: &[ScalarValue], meaning: &Meaning) -> Result<Option<LogicalPlan>> {
        match constants::values(&self.constants, given, meaning)? {
            Some(values) => constants::filled(&self.kept.plan, &values).map(Some),
            None => Ok(None),
        }
    }

    /// The physical plan of a statement whose shape has been planned before; `None` if it must be planned.
    ///
    /// Takes no longer than finding the spans does, whatever the statement.
    pub fn ready(
        &self,
        given: &[ScalarValue],
        context: &QueryContext,
        meaning: &Meaning,
    ) -> Option<Arc<dyn ExecutionPlan>> {
        if !self.kept.suits(context) {
            return None;
        }
        let State::Planned(optimized, template) = self.kept.state.lock().clone() else { return None };
        // Whatever fails here is said better by planning.
        let constants = constants::values(&self.constants, given, meaning).ok()??;
        let filters = constants::bound_filters(&optimized, &constants, meaning).ok()?;
        template.renewed(&filters, context, meaning).ok()?
    }

    /// Plans the shape with this statement's constants, and keeps the plan. `None` if it is not to be kept.
    ///
    /// `bare` is a state of the statement's settings without a snapshot, to which kept functions hold on.
    pub async fn planned(
        &self,
        given: &[ScalarValue],
        context: &QueryContext,
        meaning: &Meaning,
        bare: &SessionState,
        memory: usize,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if !self.kept.suits(context) {
            return Ok(None);
        }
        let Some(constants) = constants::values(&self.constants, given, meaning).ok().flatten() else {
            return Ok(None);
        };
        let Some(optimized) = self.kept.optimized(bare)? else { return Ok(None) };
        let bound = prefix::narrowed(constants::bound(&optimized, &constants, meaning)?)?;
        let physical = spread::physical_plan(&bound, bare, memory).await?;
        *self.kept.state.lock() = match Template::of(&physical, self.kept.table.is_some())? {
            Some(template) => State::Planned(optimized, Arc::new(template)),
            // Another value may give a plan that can be kept: a statistic does not answer all of them.
            None => State::Optimized(optimized),
        };
        Ok(Some(physical))
    }
}

fn hash_of(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// The table of a scan, if it is one of ours.
fn table_of(scan: &datafusion::logical_expr::TableScan) -> Option<KeyspanTable> {
    let provider = datafusion::datasource::source_as_provider(&scan.source).ok()?;
    provider.downcast_ref::<KeyspanTable>().cloned()
}
