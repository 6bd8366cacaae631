//! Constants of a plan's filters: taken out of it, given a value, put back.
//!
//! A constant is whatever stands at one side of a comparison, in an IN list or at an end of BETWEEN, and has no column in
//! it: a literal, a parameter, `now() - '1 hour'`, or a subquery that runs ahead of the statement. Its type is fixed, so that its value does not change the plan's
//! types. So is every other parameter of a filter: the pattern of LIKE, an argument of a function. Literals elsewhere (LIMIT,
//! arguments of functions, the SELECT list) stay, and are part of the shape.
//!
//! Rule: a place is no value to DataFusion's rules, and nothing may be concluded from two of them being different. So a plan
//! with two IN lists of which one has places is not cached: the rules make one list of both, of the items that are alike.
//!
//! A filter over a join gives the constants of those conditions, too, that the optimizer brings down into one scan.

use std::sync::Arc;

use arrow::datatypes::Field;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinType, ScalarValue};
use datafusion::datasource::provider_as_source;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, ExprSchemable, Filter, LogicalPlan, Operator, TableScan, Volatility, lit};
use keyspan_model::TableDef;

use super::nodes::{is_cacheable, tables};
use super::subqueries;
use crate::context::FunctionContext;
use crate::functions::array::COMPARE_ANY;
use crate::shared::is_shared;
use crate::table::KeyspanTable;

/// Most constants of a cached plan: a long list is seldom sent twice.
pub const MOST_CONSTANTS: usize = 64;

/// Functions that depend on the session's time zone, but on nothing else that may change between two executions.
const ZONED: [&str; 7] =
    ["date_trunc", "date_part", "extract", "time_bucket", "to_char", "instant_add", "instant_subtract"];

/// A plan whose constants are apart.
pub struct Parted {
    /// With places `#1`, `#2`, … for them. It has no parameters left.
    pub plan: LogicalPlan,
    /// In that order; a statement's own parameters, `$1`, `$2`, …, stand among them as they are.
    pub constants: Vec<Expr>,
    /// The tables that are read, in the order of the plan.
    pub tables: Vec<Arc<TableDef>>,
}

/// Takes the constants out of an analyzed plan, if such plans can be cached.
pub fn part(plan: &LogicalPlan) -> Option<Parted> {
    let tables = tables(plan)?;
    let mut constants = Constants { found: Vec::new(), shared: reads_twice(&tables) };
    let plan = plan.clone().transform_down_with_subqueries(|node| match node {
        LogicalPlan::Filter(filter) => parted_filter(filter, &mut constants).map(Transformed::yes),
        other => Ok(Transformed::no(other)),
    });
    let plan = plan.data().ok()?;
    let constants = constants.found;
    let cacheable = constants.len() <= MOST_CONSTANTS && repeatable(&plan) && lists(&plan) < 2;
    cacheable.then_some(Parted { plan, constants, tables })
}

/// The constants of a plan.
struct Constants {
    found: Vec<Expr>,
    /// Whether equal ones have one place: what a statement reads several times is computed once if it is equal.
    shared: bool,
}

fn reads_twice(tables: &[Arc<TableDef>]) -> bool {
    tables.iter().enumerate().any(|(place, table)| tables[..place].iter().any(|other| other.id == table.id))
}

/// A filter with places for the constants of each condition on one scan, which the optimizer brings down there.
fn parted_filter(filter: Filter, constants: &mut Constants) -> Result<LogicalPlan> {
    let Filter { predicate, input, .. } = filter;
    let conditions =
        split_conjunction_owned(predicate).into_iter().map(|condition| match is_of_one_scan(&condition, &input) {
            true => parted(condition, constants),
            false => Ok(condition),
        });
    let predicate = conjunction(conditions.collect::<Result<Vec<_>>>()?).unwrap_or_else(|| lit(true));
    Ok(LogicalPlan::Filter(Filter::try_new(predicate, input)?))
}

/// Whether a condition comes down to one scan.
fn is_of_one_scan(condition: &Expr, input: &LogicalPlan) -> bool {
    if is_scan(input) {
        return true;
    }
    let scan = |column: &&Column| scan_of(input, input.schema().maybe_index_of_column(column)?).map(std::ptr::from_ref);
    let columns = condition.column_refs();
    let mut scans = columns.iter().map(scan);
    let Some(Some(first)) = scans.next() else { return false };
    scans.all(|scan| scan == Some(first))
}

fn is_scan(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(_) => true,
        LogicalPlan::SubqueryAlias(alias) => is_scan(&alias.input),
        _ => false,
    }
}

/// The scan that a node's column is a column of, if a condition on it may be evaluated there as well: not where an outer
/// join makes NULLs of it.
fn scan_of(plan: &LogicalPlan, place: usize) -> Option<&TableScan> {
    match plan {
        LogicalPlan::TableScan(scan) => Some(scan),
        LogicalPlan::SubqueryAlias(alias) => scan_of(&alias.input, place),
        LogicalPlan::Filter(filter) => scan_of(&filter.input, place),
        LogicalPlan::Projection(projection) => {
            let Expr::Column(column) = projection.expr.get(place)?.clone().unalias() else { return None };
            scan_of(&projection.input, projection.input.schema().maybe_index_of_column(&column)?)
        }
        LogicalPlan::Join(join) => {
            use JoinType::{Inner, Left, LeftAnti, LeftMark, LeftSemi, Right};
            let of_right = place.checked_sub(join.left.schema().fields().len());
            match (join.join_type, of_right) {
                (Inner | Left | LeftSemi | LeftAnti | LeftMark, None) => scan_of(&join.left, place),
                (Inner | Right, Some(place)) => scan_of(&join.right, place),
                _ => None,
            }
        }
        _ => None,
    }
}

/// What the number of a place follows; that of a parameter follows a `$`.
const PLACE: char = '#';

/// Puts a place where a constant is; what is none stays.
fn place(expr: &mut Expr, constants: &mut Constants) {
    if let Some(field) = constant_type(expr) {
        let known = constants.found.iter().position(|known| constants.shared && known == expr);
        let id = format!("{PLACE}{}", known.unwrap_or(constants.found.len()) + 1);
        let place = Expr::Placeholder(Placeholder::new_with_field(id, Some(field)));
        let constant = std::mem::replace(expr, place);
        if known.is_none() {
            constants.found.push(constant);
        }
    }
}

/// A predicate with places for what its columns are compared with, and for every other parameter.
fn parted(predicate: Expr, constants: &mut Constants) -> Result<Expr> {
    let compared = without_compared(predicate, constants)?;
    let parameter = |mut expr: Expr| {
        if matches!(&expr, Expr::Placeholder(each) if number(each, '$').is_some()) {
            place(&mut expr, constants);
        }
        Ok(Transformed::yes(expr))
    };
    compared.transform_up(parameter).data()
}

fn without_compared(predicate: Expr, constants: &mut Constants) -> Result<Expr> {
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
            Expr::ScalarSubquery(subquery) => subqueries::runs_ahead(subquery),
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
    let walked = plan.apply_with_subqueries(|node| {
        let filter = matches!(node, LogicalPlan::Filter(_));
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                repeatable &= is_repeatable(part, filter);
                Ok(if repeatable { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
            })
        })
    });
    walked.is_ok() && repeatable
}

fn is_repeatable(expr: &Expr, in_filter: bool) -> bool {
    match expr {
        Expr::Placeholder(each) => in_filter && number(each, PLACE).is_some(),
        Expr::ScalarFunction(call) => match call.func.signature().volatility {
            Volatility::Immutable => true,
            Volatility::Stable => ZONED.contains(&call.func.name()),
            Volatility::Volatile => false,
        },
        Expr::ScalarVariable(..) | Expr::Unnest(_) => false,
        _ => true,
    }
}

/// IN lists of a plan, if one of them has places; 0 if none has.
fn lists(plan: &LogicalPlan) -> usize {
    let (mut lists, mut places) = (0, false);
    let walked = plan.apply_with_subqueries(|node| {
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

/// Whether an optimized plan has its places in the filters of its scans, and nowhere else, and holds no subquery that
/// would run by itself. A plan of tables has a scan.
pub fn only_in_scans(plan: &LogicalPlan, of_tables: bool) -> bool {
    let (mut only, mut scans) = (true, 0);
    let walked = plan.apply(|node| {
        if matches!(node, LogicalPlan::TableScan(_)) {
            scans += 1;
            return Ok(TreeNodeRecursion::Continue);
        }
        only &= is_cacheable(node) || is_shared(node);
        node.apply_expressions(|expr| {
            only &= !expr.exists(|part| Ok(is_place_or_subquery(part)))?;
            Ok(TreeNodeRecursion::Continue)
        })
    });
    walked.is_ok() && only && (scans > 0) == of_tables
}

fn is_place_or_subquery(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Placeholder(_)
            | Expr::ScalarSubquery(_)
            | Expr::Exists(_)
            | Expr::InSubquery(_)
            | Expr::SetComparison(_)
            | Expr::OuterReferenceColumn(..)
    )
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

/// The filters of each of a plan's scans with values in their places, as simple as they can be made.
pub fn bound_filters(
    plan: &LogicalPlan,
    values: &[ScalarValue],
    functions: &FunctionContext,
) -> Result<Vec<Vec<Expr>>> {
    let mut bound = Vec::new();
    plan.apply(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            bound.push(filters(scan, values, functions)?);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(bound)
}

/// An analyzed plan with values in its places.
pub fn filled(plan: &LogicalPlan, values: &[ScalarValue]) -> Result<LogicalPlan> {
    let put = |node: LogicalPlan| match node {
        LogicalPlan::Filter(filter) => {
            let predicate = with_values(filter.predicate, values)?;
            Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)))
        }
        other => Ok(Transformed::no(other)),
    };
    plan.clone().transform_down_with_subqueries(put).data()
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

/// The plan with values in the places of its scans' filters. Its scans are numbered, in the order of
/// [`bound_filters`].
pub fn bound(plan: &LogicalPlan, values: &[ScalarValue], functions: &FunctionContext) -> Result<LogicalPlan> {
    let mut number = 0;
    let put = |node: LogicalPlan| match node {
        LogicalPlan::TableScan(scan) => {
            let filters = filters(&scan, values, functions)?;
            let source = match KeyspanTable::of_scan(&scan) {
                Some(table) => provider_as_source(Arc::new(table.numbered(number))),
                None => scan.source.clone(),
            };
            number += 1;
            Ok(Transformed::yes(LogicalPlan::TableScan(TableScan { filters, source, ..scan })))
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
