//! Which aggregates are done by runs: those right over a scan, grouped by key columns and steps of a time in the key.
//!
//! Two shapes of DataFusion's plans are taken: a partial aggregate under its final one, and one alone. Whatever is not
//! plain (DISTINCT, FILTER, ORDER BY inside, other types) is left as it is.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, TimeUnit};
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
use crate::types::Zone;

/// Stands for the begin of a step until its place is known.
const BEGIN: &str = "begin";

/// See the module.
#[derive(Debug, Default)]
pub struct GroupByRuns;

type Plan = Arc<dyn ExecutionPlan>;
type Expr = Arc<dyn PhysicalExpr>;

impl PhysicalOptimizerRule for GroupByRuns {
    fn optimize(&self, plan: Plan, options: &ConfigOptions) -> Result<Plan> {
        let utc = options
            .execution
            .time_zone
            .as_deref()
            .is_some_and(|zone| Zone::parse(zone).is_ok_and(|zone| zone.is_utc()));
        let replaced = |node: Plan| match grouped(&node, utc)? {
            Some(grouped) => Ok(Transformed::yes(grouped)),
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

fn grouped(node: &Plan, utc: bool) -> Result<Option<Plan>> {
    let Some(outer) = node.downcast_ref::<AggregateExec>() else { return Ok(None) };
    let inner = match outer.mode() {
        AggregateMode::Final | AggregateMode::FinalPartitioned => outer.input().downcast_ref::<AggregateExec>(),
        AggregateMode::Single | AggregateMode::SinglePartitioned => Some(outer),
        _ => None,
    };
    let Some(inner) = inner.filter(|inner| is_plain(inner)) else { return Ok(None) };
    let Some(below) = Below::of(inner.input(), utc) else { return Ok(None) };
    match below.work(outer, inner) {
        Some(draft) => draft.finish(below.scan, outer),
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
    /// Whether days of the session are those of UTC.
    utc: bool,
}

/// What a GROUP BY expression is of a key column.
struct KeyPart {
    /// Place in the key.
    place: usize,
    step: Option<Step>,
    /// The expression over the begin of its step, if it is not that begin; and the begin's type.
    of_begin: Option<(Expr, DataType)>,
}

/// What an aggregate asks for, in terms of the scan's output and key.
struct Draft {
    parts: Vec<KeyPart>,
    aggregates: Vec<Aggregate>,
}

impl<'a> Below<'a> {
    fn of(input: &'a Plan, utc: bool) -> Option<Below<'a>> {
        if let Some(projection) = input.downcast_ref::<ProjectionExec>() {
            let scan = projection.input().downcast_ref::<SpanScanExec>()?;
            return Some(Below { scan, projection: Some(projection), utc });
        }
        Some(Below { scan: input.downcast_ref::<SpanScanExec>()?, projection: None, utc })
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

    fn part(&self, expr: &'a Expr) -> Option<KeyPart> {
        let over_scan = match self.projection {
            Some(_) if expr.downcast_ref::<Column>().is_some() => self.resolved(expr)?,
            _ => expr,
        };
        // Of an expression over the projection the columns are the projection's.
        let same = self.projection.is_none() || !Arc::ptr_eq(over_scan, expr);
        let place = |at: &'a Expr| self.key_place(if same { at } else { self.resolved(at)? });
        if let Some((step, at)) = Step::of_call(over_scan) {
            return Some(KeyPart { place: place(at)?, step: Some(step), of_begin: None });
        }
        if let Some((step, at)) = Step::of_one_value(over_scan, self.utc) {
            let begin = over_scan.clone().transform_down(|part| match Arc::ptr_eq(&part, at) {
                true => Ok(Transformed::yes(Arc::new(Column::new(BEGIN, 0)) as Expr)),
                false => Ok(Transformed::no(part)),
            });
            let place = place(at)?;
            let ty = self.scan.plan.relation.key[place].ty.arrow();
            if !matches!(ty, DataType::Timestamp(TimeUnit::Microsecond, _)) {
                return None;
            }
            return Some(KeyPart { place, step: Some(step), of_begin: Some((begin.ok()?.data, ty)) });
        }
        Some(KeyPart { place: if same { self.key_place(over_scan)? } else { return None }, step: None, of_begin: None })
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
fn stands_together(parts: &[KeyPart]) -> bool {
    let Some(last) = parts.iter().map(|part| part.place).max() else { return true };
    let steps_last = parts.iter().all(|part| part.step.is_none() || part.place == last);
    let all_steps = parts.iter().filter(|part| part.place == last).all(|part| part.step.is_some());
    let every = (0..last).all(|place| parts.iter().any(|part| part.place == place));
    steps_last && (all_steps || every)
}

impl Draft {
    /// The node, under a projection where groups are other values than the begins of their steps.
    fn finish(self, scan: &SpanScanExec, outer: &AggregateExec) -> Result<Option<Plan>> {
        let last = self.parts.iter().map(|part| part.place).max();
        let (scan, places) = scan.with_key(last.map_or(0, |last| last + 1))?;
        let answer = outer.schema();
        let mut fields = answer.fields().to_vec();
        let mut columns: Vec<(Expr, String)> = Vec::with_capacity(fields.len());
        for (at, field) in answer.fields().iter().enumerate() {
            let column = Column::new(field.name(), at);
            let of_begin = self.parts.get(at).and_then(|part| part.of_begin.as_ref());
            let value: Expr = match of_begin {
                None => Arc::new(column),
                Some((expr, ty)) => {
                    fields[at] = Arc::new(Field::new(field.name(), ty.clone(), false));
                    let begin = |part: Expr| match part.downcast_ref::<Column>() {
                        Some(_) => Ok(Transformed::yes(Arc::new(column.clone()) as Expr)),
                        None => Ok(Transformed::no(part)),
                    };
                    expr.clone().transform_down(begin).data()?
                }
            };
            columns.push((value, field.name().clone()));
        }
        let schema = match self.parts.iter().any(|part| part.of_begin.is_some()) {
            true => Arc::new(Schema::new_with_metadata(fields, answer.metadata().clone())),
            false => answer.clone(),
        };
        let part = |(at, part): (usize, &KeyPart)| Part {
            place: places[part.place],
            step: part.step,
            field: Arc::new(schema.field(at).clone()),
        };
        let parts: Arc<[Part]> = self.parts.iter().enumerate().map(part).collect();
        let steps: Vec<Step> =
            self.parts.iter().filter(|part| Some(part.place) == last).filter_map(|part| part.step).collect();
        let fences = match places.split_last() {
            Some((time, before)) if !steps.is_empty() => Fences { equal: before.to_vec(), steps: Some((*time, steps)) },
            _ => Fences { equal: places.clone(), steps: None },
        };
        let (filter, within) = left_of_filter(&scan, &fences);
        let work = Work { parts, fences, aggregates: self.aggregates, filter, within };
        let grouped: Plan = Arc::new(GroupedScanExec::try_new(scan, work, schema.clone())?);
        if schema == answer {
            return Ok(Some(grouped));
        }
        let projected = ProjectionExec::try_new(columns, grouped)?;
        Ok((projected.schema() == answer).then(|| Arc::new(projected) as Plan))
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
