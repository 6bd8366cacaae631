//! Which part of a scan's rows meets its filter, about: what spans and ranges of the key leave out is counted by the store,
//! what is said of other columns is guessed here, as PostgreSQL does it without statistics.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use keyspan_model::{ScanColumn, Value};
use keyspan_seam::Known;

use super::exec::SpanScanExec;
use super::read::ReadColumn;

/// Of rows, how many have one value of a column, if nobody knows how many values it has.
const EQUAL: f64 = 0.05;
/// How many are less than a value, if nobody knows the range.
const LESS: f64 = 1.0 / 3.0;
/// How many match a pattern.
const LIKE: f64 = 0.1;
/// How many are NULL.
const NULL: f64 = 0.05;
/// How many meet a condition of which nothing is known.
const ANY: f64 = 0.25;
/// What a condition leaves at least: blocks that hold no such row have been left out before.
const LEAST: f64 = 0.01;

/// The part of the rows of a scan that meets its filter.
pub(super) fn selectivity(exec: &SpanScanExec) -> f64 {
    exec.plan.filters.iter().map(|filter| of_filter(filter, exec)).product()
}

fn of_filter(filter: &Expr, exec: &SpanScanExec) -> f64 {
    let relation = &exec.plan.relation;
    let of_key = |name: &str| relation.key.iter().any(|key| key.name == name);
    if filter.column_refs().iter().all(|column| of_key(&column.name)) {
        return 1.0;
    }
    let part = match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            return of_filter(left, exec) * of_filter(right, exec);
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let (one, other) = (of_filter(left, exec), of_filter(right, exec));
            one + other - one * other
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => of_comparison(left, *op, right, exec),
        Expr::Between(between) => {
            let above = of_comparison(&between.expr, Operator::GtEq, &between.low, exec);
            let below = of_comparison(&between.expr, Operator::LtEq, &between.high, exec);
            negated((above + below - 1.0).max(LEAST), between.negated)
        }
        Expr::InList(list) => {
            let one = equal(&list.expr, exec);
            negated((one * list.list.len() as f64).min(1.0), list.negated)
        }
        Expr::Like(like) => negated(LIKE, like.negated),
        Expr::IsNull(_) => NULL,
        Expr::IsNotNull(_) => 1.0 - NULL,
        Expr::Not(inner) => 1.0 - of_filter(inner, exec),
        _ => ANY,
    };
    part.clamp(LEAST, 1.0)
}

fn negated(part: f64, negated: bool) -> f64 {
    if negated { 1.0 - part } else { part }
}

fn of_comparison(left: &Expr, op: Operator, right: &Expr, exec: &SpanScanExec) -> f64 {
    let (column, op, constant) = match (left, right) {
        (column, constant @ Expr::Literal(..)) => (column, op, constant),
        (constant @ Expr::Literal(..), column) => (column, op.swap().unwrap_or(op), constant),
        _ => return if op == Operator::Eq { EQUAL } else { ANY },
    };
    match op {
        Operator::Eq => equal(column, exec),
        Operator::NotEq => 1.0 - equal(column, exec),
        Operator::Lt | Operator::LtEq => below(column, constant, exec).unwrap_or(LESS),
        Operator::Gt | Operator::GtEq => below(column, constant, exec).map_or(LESS, |below| 1.0 - below),
        Operator::LikeMatch | Operator::ILikeMatch | Operator::RegexMatch => LIKE,
        _ => ANY,
    }
}

/// The part of the rows in which a column has one value.
fn equal(column: &Expr, exec: &SpanScanExec) -> f64 {
    let values = range(column, exec).map(|(least, greatest)| greatest - least + 1.0);
    values.map_or(EQUAL, |values| 1.0 / values.max(1.0))
}

/// The part of the rows in which a column is less than a constant, if values are evenly spread.
fn below(column: &Expr, constant: &Expr, exec: &SpanScanExec) -> Option<f64> {
    let Expr::Literal(constant, _) = constant else { return None };
    let constant = whole_number(constant)?;
    let (least, greatest) = range(column, exec)?;
    (greatest > least).then(|| ((constant - least) / (greatest - least)).clamp(0.0, 1.0))
}

/// The least and the greatest whole number or date of a column, if the store knows.
fn range(column: &Expr, exec: &SpanScanExec) -> Option<(f64, f64)> {
    let Expr::Column(column) = column else { return None };
    let place = exec.plan.read_schema.index_of(&column.name).ok()?;
    let ReadColumn::Scan(read @ ScanColumn::Column(_)) = exec.plan.read[place] else { return None };
    let index = exec.scan.columns.iter().position(|each| *each == read)?;
    match exec.estimate.ranges.get(index)? {
        Known::Exact((least, greatest)) | Known::Estimate((least, greatest)) => {
            Some((number(least)?, number(greatest)?))
        }
        Known::Unknown => None,
    }
}

/// The number of a whole number or a date.
pub(crate) fn whole_number(value: &ScalarValue) -> Option<f64> {
    match value {
        ScalarValue::Int8(number) => number.map(f64::from),
        ScalarValue::Int16(number) => number.map(f64::from),
        ScalarValue::Int32(number) | ScalarValue::Date32(number) => number.map(f64::from),
        ScalarValue::Int64(number) => number.map(|number| number as f64),
        _ => None,
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::TinyInt(number) => Some(f64::from(*number)),
        Value::SmallInt(number) => Some(f64::from(*number)),
        Value::Int(number) | Value::Date(number) => Some(f64::from(*number)),
        Value::BigInt(number) => Some(*number as f64),
        _ => None,
    }
}
