//! Constants of a plan's filters: taken out of it, given a value, put back.
//!
//! A constant is whatever stands at one side of a comparison, in an IN list or at an end of BETWEEN, and has no column in
//! it: a literal, a parameter, `now() - '1 hour'`. Its type is fixed, so that its value does not change the plan's
//! types. So is every other parameter of a filter: the pattern of LIKE, an argument of a function. Literals elsewhere (LIMIT,
//! arguments of functions, the SELECT list) stay, and are part of the shape.
//!
//! Rule: a place is no value to DataFusion's rules, and nothing may be concluded from two of them being different. So a plan
//! with two IN lists of which one has places is not cached: the rules make one list of both, of the items that are alike.

use std::sync::Arc;

use arrow::datatypes::Field;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, ExprSchemable, Filter, LogicalPlan, Operator, TableScan, Volatility};
use keyspan_model::TableDef;

use super::table_of;
use crate::context::FunctionContext;
use crate::functions::array::COMPARE_ANY;
use crate::optimizer::is_plain;

/// Most constants of a cached plan: a long list is seldom sent twice.
pub const MOST_CONSTANTS: usize = 64;

/// Functions that depend on the session's time zone, but on nothing else that may change between two executions.
const ZONED: [&str; 5] = ["date_trunc", "date_part", "extract", "time_bucket", "to_char"];

/// A plan whose constants are apart.
pub struct Parted {
    /// With places `#1`, `#2`, … for them. It has no parameters left.
    pub plan: LogicalPlan,
    /// In that order; a statement's own parameters, `$1`, `$2`, …, stand among them as they are.
    pub constants: Vec<Expr>,
    /// The table that is read, if one is.
    pub table: Option<Arc<TableDef>>,
}

/// Takes the constants out of an analyzed plan, if such plans can be cached.
pub fn part(plan: &LogicalPlan) -> Option<Parted> {
    let mut tables = Vec::new();
    let fits = plan.apply(|node| {
        let fits = is_plain(node);
        if let LogicalPlan::TableScan(scan) = node {
            tables.push(table_of(scan));
        }
        Ok(if fits { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    let table = match tables.as_slice() {
        [] => None,
        [Some(table)] => Some(table.definition().clone()),
        _ => return None,
    };
    if fits.ok()? == TreeNodeRecursion::Stop {
        return None;
    }
    let mut constants = Vec::new();
    let plan = plan.clone().transform_down(|node| match node {
        LogicalPlan::Filter(filter) if is_over_scan(&filter.input) => {
            let predicate = parted(filter.predicate, &mut constants)?;
            Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)))
        }
        other => Ok(Transformed::no(other)),
    });
    let plan = plan.data().ok()?;
    let cacheable = constants.len() <= MOST_CONSTANTS && repeatable(&plan) && lists(&plan) < 2;
    cacheable.then_some(Parted { plan, constants, table })
}

fn is_over_scan(input: &LogicalPlan) -> bool {
    match input {
        LogicalPlan::TableScan(_) => true,
        LogicalPlan::SubqueryAlias(alias) => is_over_scan(&alias.input),
        _ => false,
    }
}

/// What the number of a place follows; that of a parameter follows a `$`.
const PLACE: char = '#';

/// Puts a place where a constant is; what is none stays.
fn place(expr: &mut Expr, constants: &mut Vec<Expr>) {
    if let Some(field) = constant_type(expr) {
        let id = format!("{PLACE}{}", constants.len() + 1);
        let place = Expr::Placeholder(Placeholder::new_with_field(id, Some(field)));
        constants.push(std::mem::replace(expr, place));
    }
}

/// A predicate with places for what its columns are compared with, and for every other parameter.
fn parted(predicate: Expr, constants: &mut Vec<Expr>) -> Result<Expr> {
    let compared = without_compared(predicate, constants)?;
    let parameter = |mut expr: Expr| {
        if matches!(&expr, Expr::Placeholder(each) if number(each, '$').is_some()) {
            place(&mut expr, constants);
        }
        Ok(Transformed::yes(expr))
    };
    compared.transform_up(parameter).data()
}

fn without_compared(predicate: Expr, constants: &mut Vec<Expr>) -> Result<Expr> {
    predicate
        .transform_down(|mut expr| {
            match &mut expr {
                Expr::BinaryExpr(binary) if is_comparison(binary.op) => {
                    place(&mut binary.left, constants);
                    place(&mut binary.right, constants);
                }
                Expr::BinaryExpr(binary) if matches!(binary.op, Operator::And | Operator::Or) => {
                    return Ok(Transformed::no(expr));
                }
                Expr::Between(between) => {
                    place(&mut between.low, constants);
                    place(&mut between.high, constants);
                }
                Expr::InList(list) => {
                    list.list.iter_mut().for_each(|item| place(item, constants));
                }
                Expr::ScalarFunction(function) if function.name() == COMPARE_ANY => {
                    function.args.iter_mut().skip(1).for_each(|arg| place(arg, constants));
                }
                Expr::Not(_) | Expr::IsTrue(_) => return Ok(Transformed::no(expr)),
                _ => {}
            }
            Ok(Transformed::new(expr, true, TreeNodeRecursion::Jump))
        })
        .data()
}

fn is_comparison(operator: Operator) -> bool {
    use Operator as O;
    matches!(operator, O::Eq | O::NotEq | O::Lt | O::LtEq | O::Gt | O::GtEq)
}

/// The type of a constant; `None` if the expression is none.
fn constant_type(expr: &Expr) -> Option<Arc<Field>> {
    let mut constant = true;
    let walked = expr.apply(|part| {
        constant &= match part {
            Expr::Literal(..) | Expr::Cast(_) | Expr::TryCast(_) | Expr::Negative(_) | Expr::BinaryExpr(_) => true,
            Expr::Placeholder(place) => place.field.is_some(),
            Expr::ScalarFunction(call) => call.func.signature().volatility != Volatility::Volatile,
            _ => false,
        };
        Ok(if constant { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    walked.ok()?;
    let ty = constant.then(|| expr.get_type(&DFSchema::empty()).ok()).flatten()?;
    (!ty.is_null() && !ty.is_nested()).then(|| Arc::new(Field::new("", ty, true)))
}

/// Whether nothing in a plan depends on more than the rows, the constants and the settings.
fn repeatable(plan: &LogicalPlan) -> bool {
    let mut repeatable = true;
    let walked = plan.apply(|node| {
        let over_scan = matches!(node, LogicalPlan::Filter(filter) if is_over_scan(&filter.input));
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                repeatable &= is_repeatable(part, over_scan);
                Ok(if repeatable { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
            })
        })
    });
    walked.is_ok() && repeatable
}

fn is_repeatable(expr: &Expr, over_scan: bool) -> bool {
    match expr {
        Expr::Placeholder(each) => over_scan && number(each, PLACE).is_some(),
        Expr::ScalarFunction(call) => match call.func.signature().volatility {
            Volatility::Immutable => true,
            Volatility::Stable => ZONED.contains(&call.func.name()),
            Volatility::Volatile => false,
        },
        Expr::ScalarSubquery(_)
        | Expr::Exists(_)
        | Expr::InSubquery(_)
        | Expr::SetComparison(_)
        | Expr::OuterReferenceColumn(..)
        | Expr::ScalarVariable(..)
        | Expr::WindowFunction(_)
        | Expr::Unnest(_) => false,
        _ => true,
    }
}

/// IN lists of a plan, if one of them has places; 0 if none has.
fn lists(plan: &LogicalPlan) -> usize {
    let (mut lists, mut places) = (0, false);
    let walked = plan.apply(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                if let Expr::InList(list) = part {
                    lists += 1;
                    places |= list.list.iter().any(|item| matches!(item, Expr::Placeholder(_)));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    if walked.is_ok() && places { lists } else { 0 }
}

/// Whether an optimized plan has its places in the filters of its one scan, or of none, and nowhere else.
pub fn only_in_scan(plan: &LogicalPlan, of_table: bool) -> bool {
    let (mut only, mut scans) = (true, 0);
    let walked = plan.apply(|node| {
        if matches!(node, LogicalPlan::TableScan(_)) {
            scans += 1;
            return Ok(TreeNodeRecursion::Continue);
        }
        only &= is_plain(node);
        node.apply_expressions(|expr| {
            let found = expr.exists(|part| Ok(matches!(part, Expr::Placeholder(_))))?;
            only &= !found;
            Ok(TreeNodeRecursion::Continue)
        })
    });
    walked.is_ok() && only && scans == usize::from(of_table)
}

/// The values of constants in this execution; `None` if one has no value of its type.
pub fn values(
    constants: &[Expr],
    given: &[ScalarValue],
    functions: &FunctionContext,
) -> Result<Option<Vec<ScalarValue>>> {
    let mut simplifier = None;
    let mut values = Vec::with_capacity(constants.len());
    for constant in constants {
        let value = match constant {
            Expr::Literal(value, _) => Some(value.clone()),
            Expr::Placeholder(place) => Some(parameter(place, given)?),
            other => {
                let bound = with_parameters(other.clone(), given)?;
                let simplifier = simplifier.get_or_insert_with(|| functions.simplifier(DFSchema::empty().into()));
                match simplifier.simplify(bound)? {
                    Expr::Literal(value, _) => Some(value),
                    _ => None,
                }
            }
        };
        let Some(value) = value else { return Ok(None) };
        values.push(value);
    }
    Ok(Some(values))
}

fn with_parameters(expr: Expr, given: &[ScalarValue]) -> Result<Expr> {
    let put = |expr: Expr| match &expr {
        Expr::Placeholder(place) => Ok(Transformed::yes(Expr::Literal(parameter(place, given)?, None))),
        _ => Ok(Transformed::no(expr)),
    };
    expr.transform_up(put).data()
}

/// The value of a statement's own parameter.
fn parameter(place: &Placeholder, given: &[ScalarValue]) -> Result<ScalarValue> {
    let value = number(place, '$').and_then(|number| given.get(number));
    let of_type =
        |value: &&ScalarValue| place.field.as_ref().is_some_and(|field| *field.data_type() == value.data_type());
    match value.filter(of_type) {
        Some(value) => Ok(value.clone()),
        None => Err(DataFusionError::Internal(format!("parameter {} has no value of its type", place.id))),
    }
}

/// From 0.
fn number(place: &Placeholder, prefix: char) -> Option<usize> {
    place.id.strip_prefix(prefix)?.parse::<usize>().ok()?.checked_sub(1)
}

/// The filters of a plan's scan with values in their places, as simple as they can be made.
pub fn bound_filters(plan: &LogicalPlan, values: &[ScalarValue], functions: &FunctionContext) -> Result<Vec<Expr>> {
    let mut node = plan;
    while !matches!(node, LogicalPlan::TableScan(_)) {
        match node.inputs().as_slice() {
            [input] => node = input,
            [] => return Ok(Vec::new()),
            _ => return Err(DataFusionError::Internal("a kept plan without its scan".into())),
        }
    }
    match node {
        LogicalPlan::TableScan(scan) => filters(scan, values, functions),
        _ => Ok(Vec::new()),
    }
}

/// An analyzed plan with values in its places.
pub fn filled(plan: &LogicalPlan, values: &[ScalarValue]) -> Result<LogicalPlan> {
    let put = |node: LogicalPlan| match node {
        LogicalPlan::Filter(filter) if is_over_scan(&filter.input) => {
            let predicate = with_values(filter.predicate, values)?;
            Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)))
        }
        other => Ok(Transformed::no(other)),
    };
    plan.clone().transform_down(put).data()
}

fn with_values(expr: Expr, values: &[ScalarValue]) -> Result<Expr> {
    let put = |expr: Expr| match &expr {
        Expr::Placeholder(place) => match number(place, PLACE).and_then(|number| values.get(number)) {
            Some(value) => Ok(Transformed::yes(Expr::Literal(value.clone(), None))),
            None => Err(DataFusionError::Internal(format!("{} has no value", place.id))),
        },
        _ => Ok(Transformed::no(expr)),
    };
    expr.transform_up(put).data()
}

/// The plan with values in the places of its scan's filters.
pub fn bound(plan: &LogicalPlan, values: &[ScalarValue], functions: &FunctionContext) -> Result<LogicalPlan> {
    let put = |node: LogicalPlan| match node {
        LogicalPlan::TableScan(scan) => {
            let filters = filters(&scan, values, functions)?;
            Ok(Transformed::yes(LogicalPlan::TableScan(TableScan { filters, ..scan })))
        }
        other => Ok(Transformed::no(other)),
    };
    plan.clone().transform_down(put).data()
}

fn filters(scan: &TableScan, values: &[ScalarValue], functions: &FunctionContext) -> Result<Vec<Expr>> {
    let mut simplifier = None;
    let mut filters = Vec::with_capacity(scan.filters.len());
    for filter in &scan.filters {
        let bound = with_values(filter.clone(), values)?;
        if is_simple(&bound) {
            filters.push(bound);
            continue;
        }
        if simplifier.is_none() {
            let schema = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
            simplifier = Some(functions.simplifier(schema.into()));
        }
        match &simplifier {
            Some(simplifier) => filters.push(simplifier.simplify(bound)?),
            None => filters.push(bound),
        }
    }
    Ok(filters)
}

/// Whether there is nothing to simplify: columns compared with literals.
fn is_simple(filter: &Expr) -> bool {
    match filter {
        Expr::BinaryExpr(binary) if matches!(binary.op, Operator::And | Operator::Or) => {
            is_simple(&binary.left) && is_simple(&binary.right)
        }
        Expr::BinaryExpr(binary) => {
            is_comparison(binary.op)
                && matches!(*binary.left, Expr::Column(_))
                && matches!(&*binary.right, Expr::Literal(value, _) if !value.is_null())
        }
        _ => false,
    }
}
