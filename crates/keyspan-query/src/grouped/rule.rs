//! Which aggregates are done by runs: those right over a scan, grouped by key columns and steps of a time in the key.
//!
//! Two shapes of DataFusion's plans are taken: a partial aggregate under its final one, and one alone. Whatever is not
//! plain (DISTINCT, FILTER, ORDER BY inside, other types) is left as it is.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, conjunction_opt, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::scalar::ScalarValue;
use keyspan_model::ScanColumn;

use super::exec::{GroupedScanExec, Work};
use super::fold::{Aggregate, Function};
use super::groups::{MOST_PARTS, Part, supports};
use super::runs::Fences;
use crate::functions::step::Step;
use crate::scan::{ReadColumn, SpanScanExec};

/// See the module.
#[derive(Debug, Default)]
pub struct GroupByRuns;

type Plan = Arc<dyn ExecutionPlan>;
type Expr = Arc<dyn PhysicalExpr>;

impl PhysicalOptimizerRule for GroupByRuns {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        let replaced = |node: Plan| match grouped(&node)? {
            Some(grouped) => Ok(Transformed::yes(Arc::new(grouped) as Plan)),
            None => Ok(Transformed::no(node)),
        };
        plan.transform_down(replaced).data()
    }

    fn name(&self) -> &str {
        "GroupByRuns"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn grouped(node: &Plan) -> Result<Option<GroupedScanExec>> {
    let Some(outer) = node.downcast_ref::<AggregateExec>() else { return Ok(None) };
    let inner = match outer.mode() {
        AggregateMode::Final | AggregateMode::FinalPartitioned => outer.input().downcast_ref::<AggregateExec>(),
        AggregateMode::Single | AggregateMode::SinglePartitioned => Some(outer),
        _ => None,
    };
    let Some(inner) = inner.filter(|inner| is_plain(inner)) else { return Ok(None) };
    let Some(below) = Below::of(inner.input()) else { return Ok(None) };
    match below.work(outer, inner) {
        Some(draft) => draft.finish(below.scan, outer).map(Some),
        None => Ok(None),
    }
}

fn is_plain(aggregate: &AggregateExec) -> bool {
    let groups = aggregate.group_expr();
    let whole = groups.is_empty() || groups.is_single();
    let input =
        matches!(aggregate.mode(), AggregateMode::Partial | AggregateMode::Single | AggregateMode::SinglePartitioned);
    input && whole && aggregate.limit_options().is_none() && aggregate.filter_expr().iter().all(Option::is_none)
}

/// The scan under an aggregate, and the projection between, if there is one.
struct Below<'a> {
    scan: &'a SpanScanExec,
    projection: Option<&'a ProjectionExec>,
}

/// What an aggregate asks for, in terms of the scan's output and key.
struct Draft {
    /// (place in the key, step)
    parts: Vec<(usize, Option<Step>)>,
    aggregates: Vec<Aggregate>,
}

impl<'a> Below<'a> {
    fn of(input: &'a Plan) -> Option<Below<'a>> {
        if let Some(projection) = input.downcast_ref::<ProjectionExec>() {
            let scan = projection.input().downcast_ref::<SpanScanExec>()?;
            return Some(Below { scan, projection: Some(projection) });
        }
        Some(Below { scan: input.downcast_ref::<SpanScanExec>()?, projection: None })
    }

    /// The expression over the scan that this one over the aggregate's input is.
    fn resolved(&self, expr: &'a Expr) -> Option<&'a Expr> {
        match (self.projection, expr.downcast_ref::<Column>()) {
            (Some(projection), Some(column)) => projection.expr().get(column.index()).map(|each| &each.expr),
            // Anything deeper would have to be rebuilt.
            (Some(_), None) => None,
            (None, _) => Some(expr),
        }
    }

    fn work(&self, outer: &AggregateExec, inner: &'a AggregateExec) -> Option<Draft> {
        let scan = self.scan;
        if !scan.has_ordered_batches() {
            return None;
        }
        if scan.fetch.is_some() || scan.plan.read.contains(&ReadColumn::RowKey) || scan.plan.scan.per_prefix.is_some() {
            return None;
        }
        let groups = inner.group_expr().expr();
        if groups.len() > MOST_PARTS {
            return None;
        }
        let part = |(expr, _): &'a (Expr, String)| self.part(expr);
        let parts = groups.iter().map(part).collect::<Option<Vec<_>>>()?;
        if !stands_together(&parts) {
            return None;
        }
        let results = outer.schema();
        let aggregate = |(at, aggregate): (usize, &'a Arc<AggregateFunctionExpr>)| {
            self.aggregate(aggregate, results.fields().get(groups.len() + at)?)
        };
        let aggregates = inner.aggr_expr().iter().enumerate().map(aggregate).collect::<Option<Vec<_>>>()?;
        Some(Draft { parts, aggregates })
    }

    fn part(&self, expr: &'a Expr) -> Option<(usize, Option<Step>)> {
        let expr = match self.projection {
            None => expr,
            Some(_) if expr.downcast_ref::<Column>().is_some() => self.resolved(expr)?,
            Some(_) => return self.step_over_projection(expr),
        };
        match Step::of_call(expr) {
            Some((step, at)) => Some((self.key_place(at)?, Some(step))),
            None => Some((self.key_place(expr)?, None)),
        }
    }

    /// A step of a column that the projection passes on.
    fn step_over_projection(&self, expr: &'a Expr) -> Option<(usize, Option<Step>)> {
        let (step, at) = Step::of_call(expr)?;
        Some((self.key_place(self.resolved(at)?)?, Some(step)))
    }

    /// Place in the key of a column of the scan.
    fn key_place(&self, expr: &Expr) -> Option<usize> {
        let column = expr.downcast_ref::<Column>()?;
        let ReadColumn::Scan(ScanColumn::Column(id)) = self.scan.plan.read[*self.scan.output.get(column.index())?]
        else {
            return None;
        };
        let place = self.scan.plan.relation.key_index(id)?;
        supports(self.scan.schema.field(column.index()).data_type()).then_some(place)
    }

    fn aggregate(&self, from: &'a AggregateFunctionExpr, field: &FieldRef) -> Option<Aggregate> {
        if from.is_distinct() || !from.order_bys().is_empty() || from.ignore_nulls() {
            return None;
        }
        let function = match from.fun().name() {
            "count" => Function::Count,
            "sum" => Function::Sum,
            "avg" => Function::Average,
            "min" => Function::Least,
            "max" => Function::Greatest,
            _ => return None,
        };
        let place = match from.expressions().as_slice() {
            [] if function == Function::Count => None,
            [expr] if function == Function::Count && is_constant(expr) => None,
            [expr] if function == Function::Sum => Some(self.output_place(narrow(expr))?),
            [expr] => Some(self.output_place(expr)?),
            _ => return None,
        };
        let ty = place.map_or(field.data_type(), |place| self.scan.schema.field(place).data_type()).clone();
        let aggregate = Aggregate { function, place, ty, field: field.clone() };
        aggregate.is_supported().then_some(aggregate)
    }

    fn output_place(&self, expr: &Expr) -> Option<usize> {
        let column = expr.downcast_ref::<Column>()?;
        // Through a projection that only passes columns on.
        match self.projection {
            None => Some(column.index()),
            Some(projection) => Some(projection.expr().get(column.index())?.expr.downcast_ref::<Column>()?.index()),
        }
    }
}

/// What a sum of small numbers widens before it adds.
fn narrow(expr: &Expr) -> &Expr {
    match expr.downcast_ref::<CastExpr>() {
        Some(cast) if *cast.cast_type() == DataType::Int64 => cast.expr(),
        _ => expr,
    }
}

fn is_constant(expr: &Expr) -> bool {
    expr.downcast_ref::<Literal>().is_some_and(|literal| !literal.value().is_null())
}

/// Whether rows of one group stand in few runs: steps only of the last key column that counts, and no grouping by a
/// whole key whose parts before are left out.
fn stands_together(parts: &[(usize, Option<Step>)]) -> bool {
    let Some(last) = parts.iter().map(|(place, _)| *place).max() else { return true };
    let steps_last = parts.iter().all(|(place, step)| step.is_none() || *place == last);
    let all_steps = parts.iter().filter(|(place, _)| *place == last).all(|(_, step)| step.is_some());
    let every = (0..last).all(|place| parts.iter().any(|(own, _)| *own == place));
    steps_last && (all_steps || every)
}

impl Draft {
    fn finish(self, scan: &SpanScanExec, outer: &AggregateExec) -> Result<GroupedScanExec> {
        let last = self.parts.iter().map(|(place, _)| *place).max();
        let (scan, places) = scan.with_key(last.map_or(0, |last| last + 1))?;
        let schema = outer.schema();
        let part = |(at, (place, step)): (usize, &(usize, Option<Step>))| Part {
            place: places[*place],
            step: *step,
            field: Arc::new(schema.field(at).clone()),
        };
        let parts: Arc<[Part]> = self.parts.iter().enumerate().map(part).collect();
        let steps: Vec<Step> =
            self.parts.iter().filter(|(place, _)| Some(*place) == last).filter_map(|(_, step)| *step).collect();
        let fences = match places.split_last() {
            Some((time, before)) if !steps.is_empty() => Fences { equal: before.to_vec(), steps: Some((*time, steps)) },
            _ => Fences { equal: places.clone(), steps: None },
        };
        let (filter, within) = left_of_filter(&scan, &fences);
        let work = Work { parts, fences, aggregates: self.aggregates, filter, within };
        GroupedScanExec::try_new(scan, work, schema)
    }
}

/// What of the scan's filter is evaluated on rows, and what is a bound of the time that groups are steps of.
pub(super) fn left_of_filter(scan: &SpanScanExec, fences: &Fences) -> (Option<Expr>, Option<(i64, i64)>) {
    match &fences.steps {
        Some((place, _)) => bounded(scan, scan.output[*place]),
        None => (scan.plan.filter.clone(), None),
    }
}

/// Takes comparisons of the time with constants out of the filter: what is left, and `[from, to)` in microseconds.
fn bounded(scan: &SpanScanExec, time: usize) -> (Option<Expr>, Option<(i64, i64)>) {
    let Some(filter) = &scan.plan.filter else { return (None, None) };
    let (mut from, mut to, mut rest) = (i64::MIN, i64::MAX, Vec::new());
    for part in split_conjunction(filter) {
        let Some((operator, at)) = comparison(part, time) else {
            rest.push(Arc::clone(part));
            continue;
        };
        match operator {
            Operator::GtEq => from = from.max(at),
            Operator::Gt => from = from.max(at.saturating_add(1)),
            Operator::Lt => to = to.min(at),
            _ => to = to.min(at.saturating_add(1)),
        }
    }
    (conjunction_opt(rest), Some((from, to)))
}

/// `time < constant` and its like, the column first. The ends of time are left to the filter.
fn comparison(expr: &Expr, time: usize) -> Option<(Operator, i64)> {
    let binary = expr.downcast_ref::<BinaryExpr>()?;
    let is_time = |expr: &Expr| expr.downcast_ref::<Column>().is_some_and(|column| column.index() == time);
    let constant = |expr: &Expr| match expr.downcast_ref::<Literal>()?.value() {
        ScalarValue::TimestampMicrosecond(Some(at), _) if *at != i64::MAX => Some(*at),
        _ => None,
    };
    let (operator, at) = match (is_time(binary.left()), is_time(binary.right())) {
        (true, false) => (*binary.op(), constant(binary.right())?),
        (false, true) => (binary.op().swap()?, constant(binary.left())?),
        _ => return None,
    };
    matches!(operator, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq).then_some((operator, at))
}
