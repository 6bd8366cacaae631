//! Shared rows are planned once: of the places where they stand the first has their plan, the others only their number.
//!
//! ```text
//! Join                             Join
//! ├ Shared: 0 ─▶ Aggregate    ─▶   ├ Shared: 0 ─▶ AggregateExec ◀─┐
//! └ Shared: 0 ─▶ Aggregate         └ Shared: 0 ───────────────────┘
//! ```
//!
//! Until the plan is done a place asks the first one for what is known of the rows; then it is linked to that one's plan,
//! which it may have to run. Rule: it does not show it as its input, so that whoever walks the plan comes there once.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::DFSchemaRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use parking_lot::Mutex;

use super::{Shared, SharedExec, shared_of};

type Plan = Arc<dyn ExecutionPlan>;

/// A place of shared rows but for the first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place {
    number: u64,
    schema: DFSchemaRef,
}

/// The plan with the plan of shared rows in the first of their places only; `None` where all have one place.
pub fn first_places(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let (mut seen, mut others) = (HashSet::new(), false);
    plan.apply_with_subqueries(|node| {
        others |= shared_of(node).is_some_and(|shared| !seen.insert(shared.number));
        Ok(if others { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !others {
        return Ok(None);
    }
    seen.clear();
    let first = plan.clone().transform_down_with_subqueries(|node| match shared_of(&node) {
        Some(Shared { input, number }) if !seen.insert(*number) => {
            let place = Place { number: *number, schema: input.schema().clone() };
            let place = LogicalPlan::Extension(Extension { node: Arc::new(place) });
            Ok(Transformed::new(place, true, TreeNodeRecursion::Jump))
        }
        _ => Ok(Transformed::no(node)),
    });
    first.data().map(Some)
}

/// The plan whose places are linked to the plans of their rows; `None` if a rule has taken the first of them away.
pub fn linked(plan: Plan) -> Result<Option<Plan>> {
    let (mut inputs, mut open): (HashMap<u64, Plan>, HashSet<u64>) = Default::default();
    plan.apply(|node| {
        if let Some(shared) = node.downcast_ref::<SharedExec>() {
            match shared.own() {
                Some(input) => drop(inputs.insert(shared.number(), input.clone())),
                None => drop(open.insert(shared.number())),
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if open.is_empty() {
        return Ok(Some(plan));
    }
    // Within the plan of shared rows others may be shared.
    let mut done: HashMap<u64, Plan> = HashMap::new();
    for _ in 0..=inputs.len() {
        done =
            inputs.iter().map(|(number, input)| Ok((*number, link(input.clone(), &done)?))).collect::<Result<_>>()?;
    }
    if !open.iter().all(|number| done.contains_key(number)) {
        return Ok(None);
    }
    link(plan, &done).map(Some)
}

fn link(plan: Plan, inputs: &HashMap<u64, Plan>) -> Result<Plan> {
    plan.transform_down(|node| {
        let shared = node.downcast_ref::<SharedExec>();
        match shared.and_then(|shared| Some(shared.over(inputs.get(&shared.number())?.clone()))) {
            Some(shared) => Ok(Transformed::new(Arc::new(shared) as Plan, true, TreeNodeRecursion::Jump)),
            None => Ok(Transformed::no(node)),
        }
    })
    .data()
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for Place {
    fn name(&self) -> &str {
        "Shared"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        Vec::new()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared: {}", self.number)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, _: Vec<LogicalPlan>) -> Result<Place> {
        Ok(self.clone())
    }
}

/// Plans the nodes of one plan.
#[derive(Debug, Default)]
pub struct SharedPlanner {
    /// The plans of the first places, as they come.
    plans: Mutex<HashMap<u64, Arc<OnceLock<Plan>>>>,
}

#[async_trait]
impl ExtensionPlanner for SharedPlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Plan],
        _: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Plan>> {
        let plan = |number: u64| self.plans.lock().entry(number).or_default().clone();
        if let Some(place) = node.as_any().downcast_ref::<Place>() {
            let schema = Arc::new(place.schema.as_arrow().clone());
            return Ok(Some(Arc::new(SharedExec::open(place.number, schema, plan(place.number)))));
        }
        let (Some(shared), Some(input)) = (node.as_any().downcast_ref::<Shared>(), inputs.first()) else {
            return Ok(None);
        };
        let _ = plan(shared.number).set(input.clone());
        Ok(Some(Arc::new(SharedExec::new(shared.number, input.clone()))))
    }
}
