//! Rows that are computed once, however often a plan reads them.
//!
//! DataFusion puts the plan of a CTE wherever its name stands, so that each place gets the filters and columns that it
//! needs. Where that would show, or the statement says MATERIALIZED, all places read the same rows; and so they do where
//! they need the same ([`parts`]), or other rows of what is grouped ([`filtered`]).
//!
//! ```text
//! WITH q AS (SELECT random() AS r) SELECT a.r = b.r FROM q AS a, q AS b
//!
//! q AS (SELECT * FROM (SELECT random() AS r) AS q WHERE shared_rows(0, false))    the statement, marked
//! Shared: 0                                                                       in the plan, twice
//! ```
//!
//! Only the first place is planned, the others are linked to its plan when that is done ([`place`]). While the plan runs,
//! the place that is read first computes the rows, the others wait for them. Rows that get no memory are written to disk.

mod exec;
mod filtered;
mod parts;
mod place;
mod rows;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU64};

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, Extension, Filter, LogicalPlan, UserDefinedLogicalNodeCore};

use crate::functions::MARK_OF_SHARED;
pub use exec::{SharedExec, SharedRows};
pub use filtered::with_filtered_parts_once;
pub use parts::equal_parts_once;
pub use place::{SharedPlanner, first_places, linked};
pub use rows::Rows;

/// Rows that are computed once for all nodes of this number in a plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Shared {
    input: LogicalPlan,
    number: u64,
}

/// Whether a node is the mark of a CTE that is named several times.
pub fn is_marked(plan: &LogicalPlan) -> bool {
    mark(plan).is_some()
}

/// The filter that marks a CTE; its number, and whether it is to be computed once in any case.
fn mark(plan: &LogicalPlan) -> Option<(&Filter, u64, bool)> {
    let LogicalPlan::Filter(filter) = plan else { return None };
    let Expr::ScalarFunction(function) = &filter.predicate else { return None };
    if function.name() != MARK_OF_SHARED {
        return None;
    }
    match function.args.as_slice() {
        [Expr::Literal(ScalarValue::Int64(Some(number)), _), Expr::Literal(ScalarValue::Boolean(Some(always)), _)] => {
            Some((filter, u64::try_from(*number).ok()?, *always))
        }
        _ => None,
    }
}

/// The plan without marks: CTEs that must be are computed once, the others wherever they are named.
pub fn computed_once(plan: LogicalPlan) -> Result<LogicalPlan> {
    // Views have marks of their own, and each place of a view rows of its own.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut numbers: HashMap<u64, u64> = HashMap::new();
    let plan = plan.transform_up_with_subqueries(|node| {
        let Some((filter, number, always)) = mark(&node) else { return Ok(Transformed::no(node)) };
        let input = LogicalPlan::clone(&filter.input);
        if !always && !is_volatile(&input)? {
            return Ok(Transformed::yes(input));
        }
        let number = *numbers.entry(number).or_insert_with(|| NEXT.fetch_add(1, atomic::Ordering::Relaxed));
        Ok(Transformed::yes(shared(Shared { input, number })))
    })?;
    Ok(plan.data)
}

/// The plan with its shared rows numbered from 0, so that equal statements have equal plans.
pub fn numbered(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut numbers: HashMap<u64, u64> = HashMap::new();
    plan.transform_down_with_subqueries(|node| {
        let Some(Shared { input, number }) = shared_of(&node) else { return Ok(Transformed::no(node)) };
        let next = numbers.len() as u64;
        let number = *numbers.entry(*number).or_insert(next);
        Ok(Transformed::yes(shared(Shared { input: input.clone(), number })))
    })
    .data()
}

fn shared(node: Shared) -> LogicalPlan {
    LogicalPlan::Extension(Extension { node: Arc::new(node) })
}

/// Whether a node gives rows that are computed once.
pub fn is_shared(plan: &LogicalPlan) -> bool {
    shared_of(plan).is_some()
}

fn shared_of(plan: &LogicalPlan) -> Option<&Shared> {
    let LogicalPlan::Extension(extension) = plan else { return None };
    extension.node.as_any().downcast_ref()
}

/// Whether two runs of a plan may give different rows.
fn is_volatile(plan: &LogicalPlan) -> Result<bool> {
    let mut volatile = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            volatile |= expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(volatile)
}

impl PartialOrd for Shared {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

/// Nothing is pushed into it and no column left out: its rows are all places' rows.
impl UserDefinedLogicalNodeCore for Shared {
    fn name(&self) -> &str {
        "Shared"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared: {}", self.number)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Shared> {
        let input = inputs.pop().unwrap_or_else(|| self.input.clone());
        Ok(Shared { input, number: self.number })
    }
}
