//! The logical node, and how it becomes the physical one.
//!
//! What the node's expressions are, in order: the step and the zone, the bounds, and each fill's value and ends. Bounds may
//! be parameters or `now() - …`; they are evaluated when the physical plan is made.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{DFSchema, DFSchemaRef, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use keyspan_model::{ColumnType, Value};

use super::exec::{GapFillExec, Gaps, Series};
use super::filler::Column;
use super::invalid;
use crate::error::external;
use crate::functions::bucket::{Bucket, units_of};
use crate::functions::scalar_value;

/// A begin (inclusive) or an end (exclusive) of the buckets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bound {
    pub(super) expr: Expr,
    /// The next value after it is meant.
    pub(super) later: bool,
}

/// How missing values are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FillKind {
    /// The last one is carried forward.
    Last,
    /// On the line between the one before and the one after.
    Line,
}

/// A call of `locf` or `interpolate`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fill {
    pub(super) kind: FillKind,
    /// Nulls of the aggregate are filled as well.
    pub(super) missing: bool,
    /// The value, what is before the first, what is after the last.
    pub(super) args: Vec<Expr>,
}

/// The name of the column that the call at this place becomes. Two calls that differ in a subquery only print alike.
pub(super) fn fill_name(place: usize) -> String {
    format!("\u{1}fill{place}")
}

/// Fills the gaps in an aggregate's output.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GapFill {
    pub(super) input: LogicalPlan,
    /// Place of the bucket among the input's columns.
    pub(super) bucket: usize,
    /// Places of the other groups.
    pub(super) groups: Vec<usize>,
    /// Step, and zone if there is one.
    pub(super) constants: Vec<Expr>,
    pub(super) starts: Vec<Bound>,
    pub(super) finishes: Vec<Bound>,
    pub(super) fills: Vec<Fill>,
    pub(super) schema: DFSchemaRef,
}

impl PartialOrd for GapFill {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl GapFill {
    /// The node over this input: its columns, and one for each fill.
    pub(super) fn try_new(node: GapFill, input: LogicalPlan) -> Result<GapFill> {
        let below = input.schema();
        let kept = |place: usize| place == node.bucket || node.groups.contains(&place);
        let mut fields: Vec<(Option<TableReference>, Arc<Field>)> = Vec::new();
        for (place, (qualifier, field)) in below.iter().enumerate() {
            let nullable = field.is_nullable() || !kept(place);
            fields.push((qualifier.cloned(), Arc::new(field.as_ref().clone().with_nullable(nullable))));
        }
        for (place, fill) in node.fills.iter().enumerate() {
            let (_, field) = fill.args[0].to_field(below)?;
            let field = field.as_ref().clone().with_name(fill_name(place)).with_nullable(true);
            fields.push((None, Arc::new(field)));
        }
        let schema = Arc::new(DFSchema::new_with_metadata(fields, below.metadata().clone())?);
        Ok(GapFill { input, schema, ..node })
    }
}

impl UserDefinedLogicalNodeCore for GapFill {
    fn name(&self) -> &str {
        "GapFill"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        let bounds = self.starts.iter().chain(&self.finishes).map(|bound| &bound.expr);
        self.constants.iter().chain(bounds).chain(self.fills.iter().flat_map(|fill| &fill.args)).cloned().collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GapFill: bucket={}", self.schema.field(self.bucket).name())
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<GapFill> {
        let mut node = self.clone();
        let mut exprs = exprs.into_iter();
        let bounds = node.starts.iter_mut().chain(&mut node.finishes).map(|bound| &mut bound.expr);
        let places =
            node.constants.iter_mut().chain(bounds).chain(node.fills.iter_mut().flat_map(|fill| &mut fill.args));
        for (place, expr) in places.zip(&mut exprs) {
            *place = expr;
        }
        let input = inputs.pop().unwrap_or_else(|| self.input.clone());
        GapFill::try_new(node, input)
    }
}

/// Plans [`GapFill`].
#[derive(Debug)]
pub struct GapFillPlanner;

#[async_trait]
impl ExtensionPlanner for GapFillPlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (Some(node), [input]) = (node.as_any().downcast_ref::<GapFill>(), inputs) else { return Ok(None) };
        let columns = node.fills.iter().map(|fill| {
            let mut args = fill.args.iter().map(|arg| session.create_physical_expr(arg.clone(), node.input.schema()));
            let Some(value) = args.next() else { return Err(invalid("a fill without value")) };
            let column = Column {
                kind: fill.kind,
                missing: fill.missing,
                value: value?,
                before: args.next().transpose()?,
                after: args.next().transpose()?,
            };
            Ok(column)
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let series = node.series(session)?;
        let schema = Arc::new(node.schema.as_arrow().clone());
        let gaps = Gaps { bucket: node.bucket, groups: node.groups.clone(), series, columns };
        Ok(Some(Arc::new(GapFillExec::try_new(input.clone(), schema, gaps)?)))
    }
}

impl GapFill {
    /// The buckets to fill, from the constants.
    fn series(&self, session: &dyn Session) -> Result<Series> {
        let ty = ColumnType::of_field(self.schema.field(self.bucket))
            .ok_or_else(|| invalid("the type of the time has no buckets"))?;
        let mut constants = Vec::new();
        for expr in &self.constants {
            match constant(expr, session)? {
                Some(constant) => constants.push(constant),
                None => return Err(invalid("bucket_width and timezone must be constants that are not null")),
            }
        }
        let bucket = match constants.split_first() {
            Some(((step, _), rest)) => Bucket::new(step, rest).map_err(external)?,
            None => return Err(invalid("bucket_width is missing")),
        };
        // The next value of a date is a day later.
        let unit = if ty == ColumnType::Date { crate::functions::DAY } else { 1 };
        let evaluated = |bounds: &[Bound], what: &str| {
            let each = bounds.iter().map(|bound| match constant(&bound.expr, session)? {
                Some((value, _)) if value.infinity().is_some() => Err(invalid(format!("{what} cannot be infinite"))),
                Some((value, _)) => {
                    let at = units_of(&value).map_err(external)?;
                    Ok(at.saturating_add(if bound.later { unit } else { 0 }))
                }
                None => Err(invalid(format!("{what} cannot be NULL"))),
            });
            each.collect::<Result<Vec<i64>>>()
        };
        let start = evaluated(&self.starts, "start")?.into_iter().max().unwrap_or_default();
        let finish = evaluated(&self.finishes, "finish")?.into_iter().min().unwrap_or_default();
        if start > finish {
            return Err(invalid("start must be before finish"));
        }
        Ok(Series { bucket, ty, start: bucket.start(start).map_err(external)?, finish })
    }
}

/// The value of an expression without columns, and its type; `None` for null.
pub fn constant(expr: &Expr, session: &dyn Session) -> Result<Option<(Value, ColumnType)>> {
    let schema = Schema::empty();
    let physical: Arc<dyn PhysicalExpr> = session.create_physical_expr(expr.clone(), &DFSchema::empty())?;
    let field = physical.return_field(&schema)?;
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(schema), Vec::new(), &options)?;
    let array = physical.evaluate(&row)?.into_array(1)?;
    let scalar = datafusion::common::ScalarValue::try_from_array(&array, 0)?;
    let Some(ty) = ColumnType::of_field(&field) else { return Ok(None) };
    let value = scalar_value(&scalar, ty)?;
    Ok((!value.is_null()).then_some((value, ty)))
}
