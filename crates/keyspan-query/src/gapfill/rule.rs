//! Where gaps are filled: above the aggregate (and its HAVING) that groups by `time_bucket_gapfill`.
//!
//! The bounds are the call's own, or what WHERE of the same SELECT says about its time: `>=`, `>`, `<`, `<=` of something
//! that no row decides.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::logical_plan::{Aggregate, Extension, Filter};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, Projection};
use datafusion::optimizer::AnalyzerRule;
use keyspan_model::{ColumnType, Error, ErrorKind};

use super::node::{Bound, Fill, FillKind, GapFill, fill_name};
use super::{BUCKET, INTERPOLATE, LOCF};
use crate::error::external;
use crate::functions::value_call;
use crate::types::{Ty, type_of};

/// Begins the names of columns for what is before and after a group.
const END: &str = "\u{1}end";

/// See the module.
#[derive(Debug)]
pub struct GapFilling;

impl AnalyzerRule for GapFilling {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let filled = plan.transform_up_with_subqueries(|node| match above(&node)? {
            Some(filled) => Ok(Transformed::yes(filled)),
            None => Ok(Transformed::no(node)),
        })?;
        if !filled.transformed {
            return Ok(filled.data);
        }
        // What an aggregate counted may be null now.
        let settled = filled.data.transform_up_with_subqueries(|node| node.recompute_schema().map(Transformed::yes))?;
        Ok(settled.data)
    }

    fn name(&self) -> &str {
        "gap_filling"
    }
}

fn is_bucket(expr: &Expr) -> Option<&ScalarFunction> {
    match expr {
        Expr::ScalarFunction(function) if function.func.name() == BUCKET => Some(function),
        Expr::Alias(alias) => is_bucket(&alias.expr),
        _ => None,
    }
}

/// The projection with gaps filled below it, if it stands above such an aggregate.
fn above(node: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    if !matches!(node, LogicalPlan::Projection(_)) {
        return Ok(None);
    }
    // The projection, windows and filters, down to the aggregate.
    let mut chain = vec![node];
    let aggregate = loop {
        match chain[chain.len() - 1].inputs().as_slice() {
            [LogicalPlan::Aggregate(aggregate)] => break aggregate,
            [input @ (LogicalPlan::Window(_) | LogicalPlan::Filter(_))] => chain.push(input),
            _ => return Ok(None),
        }
    };
    let calls: Vec<usize> =
        (0..aggregate.group_expr.len()).filter(|at| is_bucket(&aggregate.group_expr[*at]).is_some()).collect();
    let bucket = match calls.as_slice() {
        [] => return Ok(None),
        [bucket] => *bucket,
        _ => {
            let message = "multiple time_bucket_gapfill calls not allowed";
            return Err(external(Error::not_supported(message)));
        }
    };
    let having = chain.len() > 1 && matches!(chain[chain.len() - 1], LogicalPlan::Filter(_));
    let below = if having { chain.pop() } else { None };
    let (mut call, grouped) = taken(aggregate, bucket)?;
    let input = match below {
        Some(LogicalPlan::Filter(filter)) => {
            LogicalPlan::Filter(Filter::try_new(filter.predicate.clone(), Arc::new(grouped))?)
        }
        _ => grouped,
    };
    for node in &chain {
        for expr in node.expressions() {
            expr.apply(|part| {
                if let Some(fill) = fill_of(part)?
                    && !call.fills.contains(&fill)
                {
                    call.fills.push(fill);
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
    }
    let written = call.fills.clone();
    let input = with_ends_below(&mut call.fills, input)?;
    let mut plan = LogicalPlan::Extension(Extension { node: Arc::new(GapFill::try_new(call, input)?) });
    while let Some(node) = chain.pop() {
        let exprs =
            node.expressions().into_iter().map(|expr| Ok(expr.transform(|part| column_of(part, &written))?.data));
        plan = node.with_new_exprs(exprs.collect::<Result<Vec<_>>>()?, vec![plan])?;
    }
    Ok(Some(plan))
}

/// The input with columns for the subqueries that say what is before and after the groups, which may refer to these.
fn with_ends_below(fills: &mut [Fill], input: LogicalPlan) -> Result<LogicalPlan> {
    let mut ends = Vec::new();
    for end in fills.iter_mut().flat_map(|fill| fill.args.iter_mut().skip(1)) {
        if end.exists(|part| Ok(matches!(part, Expr::ScalarSubquery(_))))? {
            let name = format!("{END}{}", ends.len());
            ends.push(std::mem::replace(end, Expr::Column(Column::new_unqualified(&name))).alias(name));
        }
    }
    if ends.is_empty() {
        return Ok(input);
    }
    let own = input.schema().columns().into_iter().map(Expr::Column);
    Ok(LogicalPlan::Projection(Projection::try_new(own.chain(ends).collect(), Arc::new(input))?))
}

/// The column that a call of `locf` or `interpolate` has become.
fn column_of(expr: Expr, fills: &[Fill]) -> Result<Transformed<Expr>> {
    let place = fill_of(&expr)?.and_then(|fill| fills.iter().position(|own| *own == fill));
    Ok(match place {
        Some(place) => {
            let column = Expr::Column(Column::new_unqualified(fill_name(place)));
            Transformed::yes(column.alias(expr.schema_name().to_string()))
        }
        None => Transformed::no(expr),
    })
}

fn fill_of(expr: &Expr) -> Result<Option<Fill>> {
    let Expr::ScalarFunction(function) = expr else { return Ok(None) };
    let kind = match function.func.name() {
        LOCF => FillKind::Last,
        INTERPOLATE => FillKind::Line,
        _ => return Ok(None),
    };
    let mut args = function.args.clone();
    let mut missing = false;
    if kind == FillKind::Last && args.len() == 3 {
        missing = match args.pop() {
            Some(Expr::Literal(datafusion::common::ScalarValue::Boolean(Some(missing)), _)) => missing,
            _ => {
                let message = "treat_null_as_missing of locf() must be true or false";
                return Err(external(Error::new(ErrorKind::InvalidParameter, message)));
            }
        };
    }
    Ok(Some(Fill { kind, missing, args }))
}

/// What the call says, and the aggregate by plain buckets.
fn taken(aggregate: &Aggregate, bucket: usize) -> Result<(GapFill, LogicalPlan)> {
    let expr = &aggregate.group_expr[bucket];
    let Some(function) = is_bucket(expr) else { return Err(super::invalid("not a call")) };
    let schema = aggregate.input.schema();
    let types = function.args.iter().map(|arg| match type_of(arg, schema)? {
        Ty::Known(ty) => Ok(ty),
        _ => Ok(ColumnType::Text),
    });
    let types = types.collect::<Result<Vec<_>>>()?;
    let (args, zone, given) = match function.args.as_slice() {
        [_, _] => (&function.args[..2], None, None),
        [_, _, zone] => (&function.args[..2], Some(zone), None),
        [_, _, start, finish] => (&function.args[..2], None, Some((start, finish))),
        [_, _, zone, start, finish] => (&function.args[..2], Some(zone), Some((start, finish))),
        _ => return Err(super::invalid("wrong number of arguments")),
    };
    let mut plain = args.to_vec();
    plain.extend(zone.cloned());
    let call = value_call("time_bucket", plain, &types[..2 + usize::from(zone.is_some())])?;
    let mut groups = aggregate.group_expr.clone();
    groups[bucket] = call.alias(expr.schema_name().to_string());
    let time = &function.args[1];
    let (mut starts, mut finishes) = bounds(&aggregate.input, time);
    if let Some((start, finish)) = given {
        let own = |expr: &Expr, inferred: &mut Vec<Bound>| {
            if !matches!(expr, Expr::Literal(scalar, _) if scalar.is_null()) {
                *inferred = vec![Bound { expr: expr.clone(), later: false }];
            }
        };
        own(start, &mut starts);
        own(finish, &mut finishes);
    }
    for (what, bounds) in [("start", &starts), ("finish", &finishes)] {
        if bounds.is_empty() {
            let message = format!("missing time_bucket_gapfill argument: could not infer {what} from WHERE clause");
            let hint = "Specify start and finish as arguments or in the WHERE clause.";
            return Err(external(Error::new(ErrorKind::InvalidParameter, message).with_hint(hint)));
        }
    }
    let mut constants = vec![function.args[0].clone()];
    constants.extend(zone.cloned());
    let grouped =
        LogicalPlan::Aggregate(Aggregate::try_new(aggregate.input.clone(), groups, aggregate.aggr_expr.clone())?);
    let groups = (0..aggregate.group_expr.len()).filter(|at| *at != bucket).collect();
    let (input, schema) = (grouped.clone(), grouped.schema().clone());
    let fill = GapFill { input, bucket, groups, constants, starts, finishes, fills: Vec::new(), schema };
    Ok((fill, grouped))
}

/// What the filters right below say about a time.
fn bounds(input: &LogicalPlan, time: &Expr) -> (Vec<Bound>, Vec<Bound>) {
    let (mut starts, mut finishes) = (Vec::new(), Vec::new());
    let mut node = input;
    while let LogicalPlan::Filter(filter) = node {
        for part in split_conjunction(&filter.predicate) {
            let Expr::BinaryExpr(binary) = part else { continue };
            let (operator, bound) = match (binary.left.as_ref() == time, binary.right.as_ref() == time) {
                (true, false) => (Some(binary.op), binary.right.as_ref()),
                (false, true) => (binary.op.swap(), binary.left.as_ref()),
                _ => continue,
            };
            if !bound.column_refs().is_empty() || bound.is_volatile() {
                continue;
            }
            let bound = |later| Bound { expr: bound.clone(), later };
            match operator {
                Some(Operator::GtEq) => starts.push(bound(false)),
                Some(Operator::Gt) => starts.push(bound(true)),
                Some(Operator::Lt) => finishes.push(bound(false)),
                Some(Operator::LtEq) => finishes.push(bound(true)),
                _ => {}
            }
        }
        node = &filter.input;
    }
    (starts, finishes)
}
