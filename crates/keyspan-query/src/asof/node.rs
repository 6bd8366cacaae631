//! The logical node, and how it becomes the physical one.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::DFSchemaRef;
use datafusion::error::Result;
use datafusion::logical_expr::builder::build_join_schema;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    Expr, JoinType, LogicalPlan, Operator, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use keyspan_model::{Error, ErrorKind};

use super::exec::{AsOfExec, Near, Side};
use crate::error::external;

/// Each left row with the nearest right one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AsOf {
    pub(super) left: LogicalPlan,
    pub(super) right: LogicalPlan,
    pub(super) join_type: JoinType,
    /// (left, right)
    pub(super) equal: Vec<(Expr, Expr)>,
    pub(super) nearest: (Expr, Operator, Expr),
    pub(super) schema: DFSchemaRef,
}

impl PartialOrd for AsOf {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl AsOf {
    pub(super) fn try_new(
        left: LogicalPlan,
        right: LogicalPlan,
        join_type: JoinType,
        equal: Vec<(Expr, Expr)>,
        nearest: (Expr, Operator, Expr),
    ) -> Result<AsOf> {
        let schema = Arc::new(build_join_schema(left.schema(), right.schema(), &join_type)?);
        Ok(AsOf { left, right, join_type, equal, nearest, schema })
    }
}

impl UserDefinedLogicalNodeCore for AsOf {
    fn name(&self) -> &str {
        "AsOfJoin"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.left, &self.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        let equal = self.equal.iter().flat_map(|(left, right)| [left.clone(), right.clone()]);
        equal.chain([self.nearest.0.clone(), self.nearest.2.clone()]).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AsOfJoin: {} {} {}", self.nearest.0, self.nearest.1, self.nearest.2)
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<AsOf> {
        let mut exprs = exprs.into_iter();
        let mut next = || exprs.next().ok_or_else(|| super::condition("an expression is missing"));
        let equal = self.equal.iter().map(|_| Ok((next()?, next()?))).collect::<Result<Vec<_>>>()?;
        let nearest = (next()?, self.nearest.1, next()?);
        let mut inputs = inputs.into_iter();
        let (Some(left), Some(right)) = (inputs.next(), inputs.next()) else {
            return Err(super::condition("an input is missing"));
        };
        AsOf::try_new(left, right, self.join_type, equal, nearest)
    }

    fn necessary_children_exprs(&self, output: &[usize]) -> Option<Vec<Vec<usize>>> {
        let split = self.left.schema().fields().len();
        let left = output.iter().copied().filter(|place| *place < split).collect();
        let right = output.iter().filter(|place| **place >= split).map(|place| place - split).collect();
        Some(vec![left, right])
    }
}

/// Plans [`AsOf`].
#[derive(Debug)]
pub struct AsOfPlanner;

#[async_trait]
impl ExtensionPlanner for AsOfPlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (Some(node), [left, right]) = (node.as_any().downcast_ref::<AsOf>(), inputs) else { return Ok(None) };
        let physical = |expr: &Expr, plan: &LogicalPlan| session.create_physical_expr(expr.clone(), plan.schema());
        let nearest = (node.nearest.0.clone(), node.nearest.2.clone());
        let each = node.equal.iter().chain([&nearest]).map(|(left_expr, right_expr)| {
            let pair = (physical(left_expr, &node.left)?, physical(right_expr, &node.right)?);
            let types = (pair.0.data_type(&left.schema())?, pair.1.data_type(&right.schema())?);
            if types.0 == types.1 {
                return Ok(pair);
            }
            let message = format!("ASOF JOIN cannot compare {left_expr} and {right_expr}: their types differ");
            let error = Error::new(ErrorKind::UndefinedFunction, message);
            Err(external(error.with_hint("Cast one of them to the type of the other.")))
        });
        let (left_keys, right_keys) = each.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let near = match node.nearest.1 {
            Operator::GtEq => Near { before: true, equal: true },
            Operator::Gt => Near { before: true, equal: false },
            Operator::LtEq => Near { before: false, equal: true },
            _ => Near { before: false, equal: false },
        };
        let outer = node.join_type == JoinType::Left;
        let schema = Arc::new(node.schema.as_arrow().clone());
        let left = Side { input: left.clone(), keys: left_keys };
        let right = Side { input: right.clone(), keys: right_keys };
        Ok(Some(Arc::new(AsOfExec::try_new(left, right, near, outer, schema)?)))
    }
}
