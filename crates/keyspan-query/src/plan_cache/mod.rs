//! The plan cache: plans shared by all sessions, so that a statement sent again is not planned again.
//!
//! ```text
//! tree ─ quoted literals of WHERE ─▶ tree with parameters       statements that differ only in these are analyzed once
//! analyzed plan ─ constants ─▶ plan with places + constants     two statements of one shape differ only in these
//!                                 │ optimized, planned once
//!                                 ▼
//!                  nodes above the scans (template) + filters with places
//! execution:  constants' values ─▶ filters ─▶ spans ─▶ scans of this snapshot ─▶ the nodes above, anew
//! ```
//!
//! - [`literals`]: quoted literals as parameters.
//! - [`limits`]: LIMIT as a parameter, whose value is part of the shape as a literal one is.
//! - [`constants`]: which plans can be cached, and which of their constants become places.
//! - [`nodes`]: which plans can be cached, by their nodes.
//! - [`subqueries`]: which subqueries run ahead of a statement. Their values are constants of it.
//! - [`template`]: the physical plan without its snapshot.
//!
//! Rule: a cached plan is right for every value of its constants and for every snapshot. So only the filters of its scans
//! hold constants; the nodes above have no state from one execution to the next; functions depend on nothing of the
//! statement but its time zone, which is part of the cache's key. Where a scan of the new values would not have the
//! properties of the cached one (its order, its number of partitions), or one of a join's scans reads many more or fewer
//! rows, the statement is planned anew. Nothing in the cache holds a snapshot.

mod constants;
mod limits;
mod literals;
mod nodes;
mod planned;
pub mod subqueries;
mod template;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::sqlparser::ast;
use keyspan_model::TableDef;
use parking_lot::Mutex;

use crate::context::FunctionContext;
use crate::context::QueryContext;
use crate::optimizer;
use crate::physical;
use template::Template;

pub use limits::{has_limit_parameter, with_limits};
pub use planned::PlannedQuery;

use literals::is_whole;

/// Plans in the cache, and queries in front of it. The least recently used goes first.
const CAPACITY: usize = 128;

/// The cached plans of all sessions.
#[derive(Debug, Default)]
pub struct PlanCache {
    /// The most recently used at the end.
    plans: Mutex<Vec<Arc<CachedPlan>>>,
    /// Queries by the hash of their tree, so that one sent again is not even analyzed. The most recently used at the end.
    queries: Mutex<Vec<(u64, PlannedQuery)>>,
    /// Hashes of queries that are better planned with their literals in their places. The newest at the end.
    uncacheable: Mutex<Vec<u64>>,
}

/// An analyzed plan with places for its constants, and what has been made of it.
#[derive(Debug)]
pub struct CachedPlan {
    plan: LogicalPlan,
    hash: u64,
    tables: Vec<Arc<TableDef>>,
    time_zone: String,
    state: Mutex<State>,
}

/// How far a cached plan has been planned.
#[derive(Clone, Debug)]
enum State {
    /// Not at all: no statement with it has run yet.
    New,
    /// Optimized, with places for the constants in the filters of its scans.
    Optimized(Arc<LogicalPlan>),
    /// Planned.
    Planned(Arc<LogicalPlan>, Arc<Template>),
    /// It must not be reused.
    Uncacheable,
}

/// A cached plan with one statement's constants.
#[derive(Clone, Debug)]
pub struct PlanInstance {
    cached: Arc<CachedPlan>,
    constants: Arc<[Expr]>,
}

impl PlanCache {
    /// The plan of a query: a cached one, or what `plan` makes of it, cached for the next one if it can be.
    ///
    /// Where the plan can be cached without the query's quoted literals, it is planned without them.
    ///
    /// # Errors
    /// Those of `plan`.
    pub fn get_or_plan(
        &self,
        query: &ast::Query,
        context: &QueryContext,
        plan: impl Fn(&ast::Query) -> keyspan_model::Result<PlannedQuery>,
    ) -> keyspan_model::Result<PlannedQuery> {
        if !context.given.is_empty() {
            return plan(query);
        }
        if let Some((without, literals)) = without_literals(query, context)
            && self.lookup(&without, context).is_none()
            && !self.is_uncacheable(&without)
        {
            let planned = plan(&without).ok().inspect(|planned| self.insert(&without, planned));
            if let Some(planned) = planned.and_then(|planned| planned.with(literals, context)) {
                return Ok(planned);
            }
            self.mark_uncacheable(&without);
        }
        let planned = plan(query)?;
        self.insert(query, &planned);
        Ok(planned)
    }

    /// The cached plan of a query, or of one that differs only in its quoted literals.
    pub fn get(&self, query: &ast::Query, context: &QueryContext) -> Option<PlannedQuery> {
        if !context.given.is_empty() {
            return None;
        }
        let without = without_literals(query, context);
        let known = without.and_then(|(query, literals)| self.lookup(&query, context)?.with(literals, context));
        known.or_else(|| self.lookup(query, context))
    }

    /// The cached plan of this very query, made where everything that it depends on is the same.
    fn lookup(&self, query: &ast::Query, context: &QueryContext) -> Option<PlannedQuery> {
        let hash = hash_of(query);
        let mut queries = self.queries.lock();
        let at = queries.iter().rposition(|(own, planned)| *own == hash && planned.answers(query, context))?;
        let found = queries.remove(at);
        let planned = found.1.clone();
        queries.push(found);
        Some(planned)
    }

    /// Adds a planned query, if its plan can be cached.
    fn insert(&self, query: &ast::Query, planned: &PlannedQuery) {
        if planned.cached.is_none() && planned.limited.is_none() {
            return;
        }
        let hash = hash_of(query);
        let mut queries = self.queries.lock();
        if queries.len() >= CAPACITY {
            queries.remove(0);
        }
        queries.push((hash, planned.clone()));
    }

    /// Marks a query without its literals as not worth planning.
    fn mark_uncacheable(&self, query: &ast::Query) {
        let mut uncacheable = self.uncacheable.lock();
        if uncacheable.len() >= CAPACITY {
            uncacheable.remove(0);
        }
        uncacheable.push(hash_of(query));
    }

    /// Whether it was marked so. By a collision of hashes another query may seem so, which costs time only.
    fn is_uncacheable(&self, query: &ast::Query) -> bool {
        self.uncacheable.lock().contains(&hash_of(query))
    }

    /// An analyzed plan as a cached plan and its constants, if such plans can be cached.
    pub fn instance(&self, analyzed: &LogicalPlan, context: &QueryContext) -> Option<PlanInstance> {
        let parted = constants::part(analyzed)?;
        let hash = hash_of(&parted.plan);
        let mut plans = self.plans.lock();
        let same = |cached: &Arc<CachedPlan>| {
            let same_tables = cached.tables.iter().map(Arc::as_ptr).eq(parted.tables.iter().map(Arc::as_ptr));
            cached.hash == hash && same_tables && cached.suits(context) && cached.plan == parted.plan
        };
        let known = plans.iter().position(same);
        let cached = match known {
            Some(at) => plans.remove(at),
            None => Arc::new(CachedPlan {
                plan: parted.plan,
                hash,
                tables: parted.tables,
                time_zone: context.time_zone.clone(),
                state: Mutex::new(State::New),
            }),
        };
        if plans.len() >= CAPACITY {
            plans.remove(0);
        }
        plans.push(cached.clone());
        Some(PlanInstance { cached, constants: parted.constants.into() })
    }
}

impl CachedPlan {
    /// Whether functions give the same there: those of cached plans depend on the time zone only.
    fn suits(&self, context: &QueryContext) -> bool {
        self.time_zone == context.time_zone
    }

    /// The optimized plan, with places.
    fn optimized(&self, state: &SessionState) -> Result<Option<Arc<LogicalPlan>>> {
        let known = self.state.lock().clone();
        match known {
            State::Uncacheable => Ok(None),
            State::Optimized(plan) | State::Planned(plan, _) => Ok(Some(plan)),
            State::New => {
                let plan = optimizer::optimized(self.plan.clone(), state)?;
                let plan = constants::only_in_scans(&plan, !self.tables.is_empty()).then(|| Arc::new(plan));
                *self.state.lock() = plan.clone().map_or(State::Uncacheable, State::Optimized);
                Ok(plan)
            }
        }
    }
}

impl PlanInstance {
    /// The subqueries whose values its constants lack.
    pub fn subqueries(&self) -> Vec<Subquery> {
        self.constants.iter().flat_map(subqueries::of_expression).collect()
    }

    /// The instance with these values.
    pub fn with_values_of(self, values: &HashMap<Subquery, ScalarValue>) -> Result<PlanInstance> {
        let constants = self.constants.iter().map(|constant| subqueries::with_values(constant.clone(), values));
        Ok(PlanInstance { constants: constants.collect::<Result<_>>()?, ..self })
    }

    /// The analyzed plan of a statement, its constants in their places; `None` if one has no value of its type.
    pub fn analyzed(&self, given: &[ScalarValue], functions: &FunctionContext) -> Result<Option<LogicalPlan>> {
        match constants::values(&self.constants, given, functions)? {
            Some(values) => constants::filled(&self.cached.plan, &values).map(Some),
            None => Ok(None),
        }
    }

    /// The physical plan, if the cached one needs nothing but other scans; `None` if it must be planned.
    ///
    /// Takes no longer than finding the spans does, whatever the statement.
    pub async fn instantiate(
        &self,
        given: &[ScalarValue],
        context: &QueryContext,
        functions: &FunctionContext,
        memory: usize,
    ) -> Option<Arc<dyn ExecutionPlan>> {
        if !self.cached.suits(context) {
            return None;
        }
        let State::Planned(optimized, template) = self.cached.state.lock().clone() else { return None };
        // Whatever fails here is said better by planning.
        let constants = constants::values(&self.constants, given, functions).ok()??;
        let filters = constants::bound_filters(&optimized, &constants, functions).ok()?;
        let renewed = template.renewed(&filters, context, functions).await.ok()??;
        physical::may_repartition(&renewed, memory).then_some(renewed)
    }

    /// Plans it with this statement's constants, and caches the physical plan. `None` if it cannot be cached.
    ///
    /// `bare` is a state of the statement's settings without a snapshot: the functions of the cached plan hold on to it.
    pub async fn plan(
        &self,
        given: &[ScalarValue],
        context: &QueryContext,
        functions: &FunctionContext,
        bare: &SessionState,
        memory: usize,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if !self.cached.suits(context) {
            return Ok(None);
        }
        let Some(constants) = constants::values(&self.constants, given, functions).ok().flatten() else {
            return Ok(None);
        };
        let Some(optimized) = self.cached.optimized(bare)? else { return Ok(None) };
        let bound = optimizer::fitted(constants::bound(&optimized, &constants, functions)?, context.snapshot.as_ref())?;
        let physical = physical::physical_plan(&bound, bare, memory).await?;
        // DataFusion leaves out limits over what has no rows now.
        let lacks_limits = holds_limits(&optimized)? && physical::reads_nothing(&physical)?;
        let template = if lacks_limits { None } else { Template::of(&physical, !self.cached.tables.is_empty())? };
        *self.cached.state.lock() = match template {
            Some(template) => State::Planned(optimized, Arc::new(template)),
            // Other constants may give a plan that can be cached: statistics do not answer all of them.
            None => State::Optimized(optimized),
        };
        Ok(Some(physical))
    }
}

/// The query with parameters in the places of its quoted literals, and these. A client's own parameters stay as they are.
fn without_literals(query: &ast::Query, context: &QueryContext) -> Option<(ast::Query, Vec<String>)> {
    context.parameter_types.is_empty().then(|| literals::extract_literals(query)).flatten()
}

fn holds_limits(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| {
        Ok(match node {
            LogicalPlan::Limit(_) => true,
            LogicalPlan::Sort(sort) => sort.fetch.is_some(),
            LogicalPlan::TableScan(scan) => scan.fetch.is_some(),
            _ => false,
        })
    })
}

fn hash_of(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}
