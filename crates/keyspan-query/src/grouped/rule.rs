//! Which aggregates are done over a scan, and how they find the group of a row.
//!
//! Two shapes of DataFusion's plans are taken: a partial aggregate under its final one, and one alone. Groups by key
//! columns and steps of a time in the key are found by runs; others by their values, where these are likely to be few.
//! DISTINCT of other aggregates than count, ORDER BY inside, and functions that ask for the order of rows are left as
//! they are.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::projection::ProjectionExec;
use keyspan_model::ScanColumn;
use keyspan_model::types::DECIMAL_DIGITS;

use super::exec::{By, GroupedScanExec, Work};
use super::fold::{Aggregate, Function};
use super::groups::{GroupingSet, MOST_PARTS, Part, PartValue, is_ranked, supports};
use super::hash_aggregate::HashAggregate;
use super::runs::Fences;
use super::source::Source;
use crate::coded_expr::{CodedExpr, Condition};
use crate::functions::pairs::is_of_pairs;
use crate::functions::step::Step;
use crate::scan::{ReadColumn, SpanScanExec};
use crate::types::Zone;

/// Stands for the begin of a step until its place is known.
const BEGIN: &str = "begin";

/// Whole numbers whose least and greatest are nearer to each other are few.
const FEW_VALUES: u64 = 1 << 16;

/// Aggregates whose accumulators take rows in any order, beside those of pairs.
const OF_ANY_ORDER: [&str; 8] =
    ["bool_and", "bool_or", "bit_and", "bit_or", "bit_xor", "percentile_cont", "median", "approx_distinct"];

/// See the module.
#[derive(Debug, Default)]
pub struct GroupedScans;

type Plan = Arc<dyn ExecutionPlan>;
type Expr = Arc<dyn PhysicalExpr>;

impl PhysicalOptimizerRule for GroupedScans {
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
        "GroupedScans"
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
        _ => return Ok(None),
    };
    let Some(inner) = inner.filter(|inner| is_plain(inner)) else { return Ok(None) };
    let Some(source) = Source::of(inner.input())? else { return Ok(None) };
    let below = Below { source, utc };
    let Some(draft) = below.draft(outer, inner)? else { return Ok(None) };
    let between = if std::ptr::eq(inner, outer) { None } else { Some(outer.input()) };
    draft.finish(&below.source, between.into_iter().chain([node]), outer)
}

fn is_plain(aggregate: &AggregateExec) -> bool {
    let input =
        matches!(aggregate.mode(), AggregateMode::Partial | AggregateMode::Single | AggregateMode::SinglePartitioned);
    input && aggregate.limit_options().is_none()
}

/// What is under an aggregate.
struct Below<'a> {
    source: Source<'a>,
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

/// What groups are made of.
enum Parts {
    Key(Vec<KeyPart>),
    /// Expressions over the scan.
    Values(Vec<Expr>, Vec<GroupingSet>),
}

/// What an aggregate asks for, in terms of the scan's output and key.
struct Draft {
    parts: Parts,
    inputs: Inputs,
    aggregates: Vec<Aggregate>,
}

/// Expressions over the scan, each once.
#[derive(Default)]
struct Inputs(Vec<Expr>);

impl Inputs {
    fn place(&mut self, expr: Expr) -> usize {
        let known = self.0.iter().position(|known| known.as_ref() == expr.as_ref());
        known.unwrap_or_else(|| {
            self.0.push(expr);
            self.0.len() - 1
        })
    }
}

impl Below<'_> {
    fn draft(&self, outer: &AggregateExec, inner: &AggregateExec) -> Result<Option<Draft>> {
        let scan = self.source.scan;
        if scan.fetch.is_some()
            || scan.plan.read.iter().any(|read| matches!(read, ReadColumn::RowKey(_)))
            || scan.plan.scan.per_prefix.is_some()
        {
            return Ok(None);
        }
        let groups = inner.group_expr();
        let exprs = groups.expr().iter().map(|(expr, _)| self.source.over_scan(expr)).collect::<Result<Vec<_>>>()?;
        let Some(parts) = self.parts(exprs, groups) else { return Ok(None) };
        let answer = outer.schema();
        let results = &answer.fields()[groups.num_group_exprs()..];
        let mut draft = Draft { parts, inputs: Inputs::default(), aggregates: Vec::with_capacity(results.len()) };
        for ((call, filter), field) in inner.aggr_expr().iter().zip(inner.filter_expr()).zip(results) {
            match self.aggregate(call, filter.as_ref(), field, &mut draft.inputs)? {
                Some(aggregate) => draft.aggregates.push(aggregate),
                None => return Ok(None),
            }
        }
        Ok(Some(draft))
    }

    fn parts(&self, exprs: Vec<Expr>, groups: &PhysicalGroupBy) -> Option<Parts> {
        if exprs.len() + usize::from(groups.has_grouping_set()) > MOST_PARTS {
            return None;
        }
        if !groups.has_grouping_set() && !self.source.has_joins() && self.source.scan.has_ordered_batches() {
            let parts = exprs.iter().map(|expr| self.key_part(expr)).collect::<Option<Vec<_>>>();
            if let Some(parts) = parts.filter(|parts| stands_together(parts)) {
                return Some(Parts::Key(parts));
            }
        }
        let few = exprs.iter().all(|expr| self.has_few_values(expr));
        (few && (!exprs.is_empty() || self.source.has_joins())).then(|| Parts::Values(exprs, grouping_sets(groups)))
    }

    /// Whether groups can be made of an expression, and it has few values, as far as is known.
    fn has_few_values(&self, expr: &Expr) -> bool {
        let Ok(ty) = expr.data_type(&self.source.schema) else { return false };
        if !supports(&ty) {
            return false;
        }
        let whole = matches!(ty, DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Date32);
        let Some(column) = expr.downcast_ref::<Column>() else { return true };
        match ty {
            DataType::FixedSizeBinary(_) => false,
            _ if whole => self.source.scan.span_of_values(column.index()).is_none_or(|span| span < FEW_VALUES),
            _ => true,
        }
    }

    fn key_part(&self, expr: &Expr) -> Option<KeyPart> {
        if let Some((step, at)) = Step::of_call(expr) {
            return Some(KeyPart { place: self.key_place(at)?, step: Some(step), of_begin: None });
        }
        if let Some((step, at)) = Step::of_one_value(expr, self.utc) {
            let begin = Arc::clone(expr).transform_down(|part| match Arc::ptr_eq(&part, at) {
                true => Ok(Transformed::yes(Arc::new(Column::new(BEGIN, 0)) as Expr)),
                false => Ok(Transformed::no(part)),
            });
            let place = self.key_place(at)?;
            let ty = self.source.scan.plan.relation.key[place].ty.arrow();
            if !matches!(ty, DataType::Timestamp(TimeUnit::Microsecond, _)) {
                return None;
            }
            return Some(KeyPart { place, step: Some(step), of_begin: Some((begin.ok()?.data, ty)) });
        }
        Some(KeyPart { place: self.key_place(expr)?, step: None, of_begin: None })
    }

    /// Place in the key of a column of the scan.
    fn key_place(&self, expr: &Expr) -> Option<usize> {
        let column = expr.downcast_ref::<Column>()?;
        let ReadColumn::Scan(ScanColumn::Column(id)) =
            self.source.scan.plan.read[*self.source.scan.output.get(column.index())?]
        else {
            return None;
        };
        let place = self.source.scan.plan.relation.key_index(id)?;
        is_ranked(self.source.scan.schema.field(column.index()).data_type()).then_some(place)
    }

    /// The whole number that an expression over the scan casts to a numeric without digits after the point: both are null
    /// alike, and add up to the same.
    fn whole_number<'e>(&self, expr: &'e Expr) -> Result<Option<&'e Expr>> {
        let Some(cast) = expr.downcast_ref::<CastExpr>() else { return Ok(None) };
        let own = cast.expr();
        let whole = matches!(own.data_type(&self.source.schema)?, DataType::Int16 | DataType::Int32 | DataType::Int64);
        Ok(Some(own).filter(|_| whole && matches!(cast.cast_type(), DataType::Decimal128(DECIMAL_DIGITS, 0))))
    }

    fn aggregate(
        &self,
        call: &Arc<AggregateFunctionExpr>,
        filter: Option<&Expr>,
        field: &FieldRef,
        inputs: &mut Inputs,
    ) -> Result<Option<Aggregate>> {
        let ordered = !call.order_bys().is_empty() && !call.fun().supports_within_group_clause();
        if ordered || call.ignore_nulls() {
            return Ok(None);
        }
        let function = match call.fun().name() {
            "count" if call.is_distinct() => Function::CountDistinct,
            _ if call.is_distinct() => return Ok(None),
            "count" => Function::Count,
            "sum" => Function::Sum,
            "avg" => Function::Average,
            "min" => Function::Least,
            "max" => Function::Greatest,
            "stddev" => Function::Variance { of_sample: true, root: true },
            "stddev_pop" => Function::Variance { of_sample: false, root: true },
            "var" => Function::Variance { of_sample: true, root: false },
            "var_pop" => Function::Variance { of_sample: false, root: false },
            name if OF_ANY_ORDER.contains(&name) || is_of_pairs(name) => Function::Accumulated,
            _ => return Ok(None),
        };
        let exprs = call.expressions();
        let schema = &self.source.schema;
        let (function, own) = match exprs.as_slice() {
            [expr] => {
                let own = self.source.over_scan(expr)?;
                match (function, self.whole_number(&own)?) {
                    (Function::Sum, Some(whole)) => (Function::WideSum, Some(whole.clone())),
                    (Function::Count, Some(whole)) => (function, Some(whole.clone())),
                    (Function::Sum, None) => (function, Some(narrow(&own).clone())),
                    _ => (function, Some(own)),
                }
            }
            _ => (function, None),
        };
        let filter = filter.map(|filter| Condition::new(&self.source.over_scan(filter)?, schema)).transpose()?;
        let mut aggregate = Aggregate {
            function,
            expr: Arc::clone(call),
            arguments: Vec::new(),
            filter,
            types: vec![field.data_type().clone()],
            field: Arc::clone(field),
        };
        if function == Function::Count && exprs.iter().all(is_constant) {
            return Ok(Some(aggregate));
        }
        if let Some(own) = own {
            aggregate.types = vec![own.data_type(schema)?];
            if function != Function::Accumulated && aggregate.is_supported() {
                aggregate.arguments.push(inputs.place(own));
                return Ok(Some(aggregate));
            }
        }
        if function == Function::CountDistinct {
            return Ok(None);
        }
        aggregate.function = Function::Accumulated;
        aggregate.types.clear();
        for expr in &exprs {
            let own = self.source.over_scan(expr)?;
            aggregate.types.push(own.data_type(schema)?);
            aggregate.arguments.push(inputs.place(own));
        }
        Ok(Some(aggregate))
    }
}

/// The sets that rows are grouped by, with the numbers that DataFusion gives them: a bit for each part that is null, the
/// first part's the highest, and above these how many equal sets came before. None where it is one set.
fn grouping_sets(groups: &PhysicalGroupBy) -> Vec<GroupingSet> {
    if !groups.has_grouping_set() {
        return Vec::new();
    }
    let parts = groups.expr().len();
    let set = |(place, set): (usize, &Vec<bool>)| {
        let before = groups.groups()[..place].iter().filter(|other| *other == set).count() as u64;
        let bits = set.iter().fold(0, |bits, null| bits << 1 | u64::from(*null));
        let nulls = set.iter().enumerate().fold(0, |nulls, (part, null)| nulls | u64::from(*null) << part);
        GroupingSet { nulls, number: bits | before << parts }
    };
    groups.groups().iter().enumerate().map(set).collect()
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
    fn finish<'p>(
        self,
        source: &'p Source<'_>,
        above: impl Iterator<Item = &'p Plan>,
        outer: &AggregateExec,
    ) -> Result<Option<Plan>> {
        let Draft { parts, mut inputs, aggregates } = self;
        let answer = outer.schema();
        let field = |place: usize| Arc::new(answer.field(place).clone());
        match parts {
            Parts::Key(parts) => by_key(source.scan, &parts, inputs, aggregates, &answer),
            Parts::Values(exprs, sets) => {
                let part = |(place, expr)| Part { value: PartValue::Input(inputs.place(expr)), field: field(place) };
                let mut parts: Vec<Part> = exprs.into_iter().enumerate().map(part).collect();
                if !sets.is_empty() {
                    parts.push(Part { value: PartValue::Set, field: field(parts.len()) });
                }
                let inputs = inputs.0.iter().map(|expr| CodedExpr::new(expr, &source.schema)).collect::<Result<_>>()?;
                let nodes: Vec<Plan> = source.nodes.iter().chain(above).cloned().collect();
                let by = By::Value(HashAggregate::new(&nodes)?);
                let mut work = Work { inputs, parts: parts.into(), by, sets, aggregates, lookups: Vec::new() };
                let tables;
                (work.lookups, tables) = source.lookups(&work)?;
                Ok(Some(Arc::new(GroupedScanExec::new(source.scan.clone(), tables, work, answer))))
            }
        }
    }
}

fn by_key(
    scan: &SpanScanExec,
    parts: &[KeyPart],
    mut inputs: Inputs,
    aggregates: Vec<Aggregate>,
    answer: &SchemaRef,
) -> Result<Option<Plan>> {
    let last = parts.iter().map(|part| part.place).max();
    let (scan, places) = scan.with_key(last.map_or(0, |last| last + 1))?;
    let mut fields = answer.fields().to_vec();
    let mut columns: Vec<(Expr, String)> = Vec::with_capacity(fields.len());
    for (at, field) in answer.fields().iter().enumerate() {
        let column = Column::new(field.name(), at);
        let of_begin = parts.get(at).and_then(|part| part.of_begin.as_ref());
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
    let schema = match parts.iter().any(|part| part.of_begin.is_some()) {
        true => Arc::new(Schema::new_with_metadata(fields, answer.metadata().clone())),
        false => answer.clone(),
    };
    let part = |(at, part): (usize, &KeyPart)| {
        let place = places[part.place];
        let input = inputs.place(Arc::new(Column::new(scan.schema.field(place).name(), place)));
        let value = part.step.map_or(PartValue::Input(input), |step| PartValue::Step(input, step));
        Part { value, field: Arc::new(schema.field(at).clone()) }
    };
    let own: Arc<[Part]> = parts.iter().enumerate().map(part).collect();
    // None where the last column itself is grouped by, too: then each of its values is a run.
    let steps: Option<Vec<Step>> = parts.iter().filter(|part| Some(part.place) == last).map(|part| part.step).collect();
    let by = By::Key(match (places.split_last(), steps) {
        (Some((time, before)), Some(steps)) => Fences { equal: before.to_vec(), steps: Some((*time, steps)) },
        _ => Fences { equal: places.clone(), steps: None },
    });
    let inputs = inputs.0.iter().map(|expr| CodedExpr::new(expr, &scan.schema)).collect::<Result<_>>()?;
    let work = Work { inputs, parts: own, by, sets: Vec::new(), aggregates, lookups: Vec::new() };
    let grouped: Plan = Arc::new(GroupedScanExec::new(scan, Vec::new(), work, schema.clone()));
    if schema == *answer {
        return Ok(Some(grouped));
    }
    let projected = ProjectionExec::try_new(columns, grouped)?;
    Ok((projected.schema() == *answer).then(|| Arc::new(projected) as Plan))
}
