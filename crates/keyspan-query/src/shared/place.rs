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

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, DataFusionError, Statistics};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions, SchedulingType};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
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
    let mut inputs: HashMap<u64, Plan> = HashMap::new();
    let mut places = HashSet::new();
    plan.apply(|node| {
        if let Some(shared) = node.downcast_ref::<SharedExec>() {
            inputs.insert(shared.number(), shared.input().clone());
        }
        places.extend(node.downcast_ref::<PlaceExec>().map(|place| place.number));
        Ok(TreeNodeRecursion::Continue)
    })?;
    if places.is_empty() {
        return Ok(Some(plan));
    }
    // Within the plan of shared rows others may be shared.
    let mut done: HashMap<u64, Plan> = HashMap::new();
    for _ in 0..=inputs.len() {
        done =
            inputs.iter().map(|(number, input)| Ok((*number, link(input.clone(), &done)?))).collect::<Result<_>>()?;
    }
    if !places.iter().all(|number| done.contains_key(number)) {
        return Ok(None);
    }
    link(plan, &done).map(Some)
}

fn link(plan: Plan, inputs: &HashMap<u64, Plan>) -> Result<Plan> {
    plan.transform_down(|node| {
        if let Some(shared) = node.downcast_ref::<SharedExec>()
            && let Some(input) = inputs.get(&shared.number())
        {
            let shared: Plan = Arc::new(shared.over(input.clone()));
            return Ok(Transformed::new(shared, true, TreeNodeRecursion::Jump));
        }
        if let Some(place) = node.downcast_ref::<PlaceExec>()
            && let Some(input) = inputs.get(&place.number)
        {
            return Ok(Transformed::yes(Arc::new(SharedExec::linked(place.number, input.clone()))));
        }
        Ok(Transformed::no(node))
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
            return Ok(Some(Arc::new(PlaceExec::new(place.number, schema, plan(place.number)))));
        }
        let (Some(shared), Some(input)) = (node.as_any().downcast_ref::<Shared>(), inputs.first()) else {
            return Ok(None);
        };
        let _ = plan(shared.number).set(input.clone());
        Ok(Some(Arc::new(SharedExec::new(shared.number, input.clone()))))
    }
}

/// A place whose plan is another one's. Never runs: see [`linked`].
#[derive(Debug)]
pub struct PlaceExec {
    number: u64,
    schema: SchemaRef,
    /// The plan of the first place as it was at first, for what is known of the rows.
    first: Arc<OnceLock<Plan>>,
    properties: Arc<PlanProperties>,
}

impl PlaceExec {
    /// A place of which nothing is known yet.
    pub fn unknown(number: u64, schema: SchemaRef) -> PlaceExec {
        PlaceExec::new(number, schema, Arc::default())
    }

    fn new(number: u64, schema: SchemaRef, first: Arc<OnceLock<Plan>>) -> PlaceExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema.clone()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        // As what it will be linked to.
        let properties = properties.with_scheduling_type(SchedulingType::Cooperative);
        PlaceExec { number, schema, first, properties: Arc::new(properties) }
    }
}

impl DisplayAs for PlaceExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared: number={}", self.number)
    }
}

impl ExecutionPlan for PlaceExec {
    fn name(&self) -> &str {
        "Shared"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Plan> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(self: Arc<Self>, _: Vec<Plan>, _: ReplaceChildrenOptions) -> Result<Plan> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Plan>) -> Result<Plan> {
        Ok(self)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Err(DataFusionError::Internal("a place of shared rows is linked to no plan".into()))
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        match self.first.get() {
            Some(first) => StatisticsContext::new().compute(first.as_ref(), &StatisticsArgs::new()),
            None => Ok(Arc::new(Statistics::new_unknown(&self.schema))),
        }
    }
}
