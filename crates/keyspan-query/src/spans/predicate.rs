//! DataFusion's filter expressions as regions of rows.
//!
//! The rule kept: a region holds every row that satisfies the filter; it says exact only if it holds no other. A filter
//! is a condition on rows, so null counts as false.

use std::cmp::Ordering;
use std::ops::Bound;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Like, Operator, expr::InList};
use keyspan_model::{ColumnType, RelationDef, Value, text_successor, value_of_order};

use super::domain::{Domain, Interval};
use super::region::Region;
use super::row_key;
use crate::functions::TIMEUUID_ORDER;
use crate::functions::array::COMPARE_ANY;
use crate::functions::nested::VALUE_ORDER;
use crate::types::value_of;

/// The name of the pseudo column that reads the row key as one text.
pub const ROW_KEY: &str = "row_key";
/// The name of the pseudo column that tells a row from all others of its table: PostgreSQL's, where it is its place.
pub const CTID: &str = "ctid";

/// The region of a filter over a relation's columns.
pub fn region_of(filter: &Expr, relation: &RelationDef) -> Region {
    match filter {
        Expr::BinaryExpr(BinaryExpr { op: Operator::And, .. }) => {
            let parts = flatten(filter, Operator::And).into_iter().map(|part| region_of(part, relation));
            parts.fold(Region::all(), Region::intersect)
        }
        Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => {
            let parts = flatten(filter, Operator::Or).into_iter().map(|part| region_of(part, relation));
            Region::union(parts.collect())
        }
        Expr::BinaryExpr(binary) => comparison(binary, relation),
        Expr::Between(between) => between_region(between, relation),
        Expr::InList(list) => in_list(list, relation),
        Expr::Like(like) => like_region(like, relation),
        Expr::ScalarFunction(function) if function.name() == "starts_with" => match function.args.as_slice() {
            [column, Expr::Literal(prefix, _)] => match string(prefix) {
                Some(prefix) => prefix_region(column, prefix, true, relation),
                None => Region::unknown(),
            },
            _ => Region::unknown(),
        },
        Expr::ScalarFunction(function) if function.name() == COMPARE_ANY => equal_to_any(&function.args, relation),
        Expr::Literal(ScalarValue::Boolean(Some(true)), _) => Region::all(),
        Expr::Literal(ScalarValue::Boolean(_) | ScalarValue::Null, _) => Region::none(),
        Expr::Column(_) => boolean(filter, true, relation),
        Expr::Not(inner) if matches!(inner.as_ref(), Expr::Column(_)) => boolean(inner, false, relation),
        Expr::IsTrue(inner) => region_of(inner, relation),
        Expr::IsNotNull(inner) if key_column(inner, relation) => Region::all(),
        Expr::IsNull(inner) if key_column(inner, relation) => Region::none(),
        _ => Region::unknown(),
    }
}

/// The operands of a chain of one operator; without recursion, since chains may be long.
fn flatten(root: &Expr, operator: Operator) -> Vec<&Expr> {
    let (mut stack, mut operands) = (vec![root], Vec::new());
    while let Some(next) = stack.pop() {
        match next {
            Expr::BinaryExpr(binary) if binary.op == operator => stack.extend([&*binary.right, &*binary.left]),
            other => operands.push(other),
        }
    }
    operands
}

/// A column of the relation: its place and type.
fn column_of(expr: &Expr, relation: &RelationDef) -> Option<(usize, ColumnType)> {
    let Expr::Column(column) = expr else { return None };
    let key = relation.key.iter().map(|each| (&each.name, each.ty));
    let values = relation.values.iter().map(|each| (&each.name, each.ty));
    key.chain(values).enumerate().find(|(_, (name, _))| **name == column.name).map(|(place, (_, ty))| (place, ty))
}

fn key_column(expr: &Expr, relation: &RelationDef) -> bool {
    column_of(expr, relation).is_some_and(|(place, _)| place < relation.key.len())
}

fn is_row_key(expr: &Expr, relation: &RelationDef) -> bool {
    matches!(expr, Expr::Column(column) if column.name == ROW_KEY) && column_of(expr, relation).is_none()
}

/// A string literal.
pub(super) fn string(scalar: &ScalarValue) -> Option<&str> {
    scalar.try_as_str().flatten()
}

fn boolean(column: &Expr, value: bool, relation: &RelationDef) -> Region {
    match column_of(column, relation) {
        Some((place, ColumnType::Boolean)) => {
            let point = Interval::point(Value::Boolean(value));
            Region::of(place, Domain::of(ColumnType::Boolean, vec![point]), true)
        }
        _ => Region::unknown(),
    }
}

/// The intervals of `column op value`.
fn intervals(op: Operator, value: &Value) -> Option<Vec<Interval>> {
    let (included, excluded) = (Bound::Included(value.clone()), Bound::Excluded(value.clone()));
    let one = |lower, upper| Some(vec![Interval { lower, upper }]);
    match op {
        Operator::Eq => Some(vec![Interval::point(value.clone())]),
        Operator::Lt => one(Bound::Unbounded, excluded),
        Operator::LtEq => one(Bound::Unbounded, included),
        Operator::Gt => one(excluded, Bound::Unbounded),
        Operator::GtEq => one(included, Bound::Unbounded),
        Operator::NotEq => Some(vec![
            Interval { lower: Bound::Unbounded, upper: excluded.clone() },
            Interval { lower: excluded, upper: Bound::Unbounded },
        ]),
        _ => None,
    }
}

fn comparison(binary: &BinaryExpr, relation: &RelationDef) -> Region {
    let (left, right) = (binary.left.as_ref(), binary.right.as_ref());
    match (left, right) {
        (expr, Expr::Literal(scalar, _)) => compare(expr, binary.op, scalar, relation),
        (Expr::Literal(scalar, _), expr) => match binary.op.swap() {
            Some(op) => compare(expr, op, scalar, relation),
            None => Region::unknown(),
        },
        _ => Region::unknown(),
    }
}

fn compare(expr: &Expr, op: Operator, scalar: &ScalarValue, relation: &RelationDef) -> Region {
    let comparable =
        matches!(op, Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq);
    if !comparable {
        return Region::unknown();
    }
    if scalar.is_null() {
        return Region::none();
    }
    if is_row_key(expr, relation) {
        return match (op, string(scalar)) {
            (Operator::Eq, Some(text)) => row_key::equal(text, relation),
            _ => Region::unknown(),
        };
    }
    if let Expr::ScalarFunction(call) = expr
        && matches!(call.func.name(), VALUE_ORDER | TIMEUUID_ORDER)
    {
        return in_order(&call.args, op, scalar, relation);
    }
    let Some((place, ty)) = column_of(uncast(expr), relation) else { return Region::unknown() };
    if !matches!(expr, Expr::Column(_)) && !matches!(ty, ColumnType::Timestamp | ColumnType::LocalTimestamp) {
        return Region::unknown();
    }
    match value_of(scalar, ty) {
        Some(value) => compared(place, ty, op, &value),
        None => Region::unknown(),
    }
}

/// Nested values and timeuuids compare as the bytes of their order do, which are those that keys have.
fn in_order(args: &[Expr], op: Operator, scalar: &ScalarValue, relation: &RelationDef) -> Region {
    let [column] = args else { return Region::unknown() };
    let (Some((place, ty)), Some(Value::Blob(bytes))) =
        (column_of(column, relation), value_of(scalar, ColumnType::Blob))
    else {
        return Region::unknown();
    };
    match value_of_order(&bytes, ty).and_then(|value| intervals(op, &value)) {
        Some(intervals) => Region::of(place, Domain::of(ty, intervals), true),
        None => Region::unknown(),
    }
}

/// Rows whose column compares so with a value.
///
/// Where Arrow's order of a type is not the key's, only equality means the same to both.
fn compared(place: usize, ty: ColumnType, op: Operator, value: &Value) -> Region {
    if op != Operator::Eq && !ty.arrow_order_is_key_order() {
        return Region::unknown();
    }
    match intervals(op, value) {
        Some(intervals) => Region::of(place, Domain::of(ty, intervals), true),
        None => Region::unknown(),
    }
}

/// What stands under a cast between units of time: such casts keep order and equality of the column's values.
fn uncast(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast(cast) => match (cast.expr.as_ref(), cast.field.data_type()) {
            (Expr::Column(_), DataType::Timestamp(arrow::datatypes::TimeUnit::Nanosecond, _)) => &cast.expr,
            _ => expr,
        },
        _ => expr,
    }
}

fn between_region(between: &Between, relation: &RelationDef) -> Region {
    let (Expr::Literal(low, _), Expr::Literal(high, _)) = (between.low.as_ref(), between.high.as_ref()) else {
        return Region::unknown();
    };
    if between.negated {
        let below = compare(&between.expr, Operator::Lt, low, relation);
        return Region::union(vec![below, compare(&between.expr, Operator::Gt, high, relation)]);
    }
    let above = compare(&between.expr, Operator::GtEq, low, relation);
    above.intersect(compare(&between.expr, Operator::LtEq, high, relation))
}

fn in_list(list: &InList, relation: &RelationDef) -> Region {
    if list.negated {
        return not_in(list, relation);
    }
    let each = list.list.iter().map(|item| match item {
        Expr::Literal(scalar, _) => compare(&list.expr, Operator::Eq, scalar, relation),
        _ => Region::unknown(),
    });
    Region::union(each.collect())
}

/// `column = ANY (list)`, the list being a value.
fn equal_to_any(args: &[Expr], relation: &RelationDef) -> Region {
    let [Expr::Literal(op, _), Expr::Literal(list, _), column] = args else { return Region::unknown() };
    let (Some("="), Some((place, ty))) = (string(op), column_of(column, relation)) else { return Region::unknown() };
    let DataType::List(field) = list.data_type() else { return Region::unknown() };
    // An address is text to Arrow, and a uuid with a time a uuid.
    let element_type = match *field.data_type() == ty.arrow() {
        true => Some(ty),
        false => ColumnType::of_arrow(field.data_type()),
    };
    let Some(element_type) = element_type else { return Region::unknown() };
    let elements = match value_of(list, ColumnType::list(element_type)) {
        Some(Value::List(elements)) => elements,
        Some(_) => return Region::none(),
        None => return Region::unknown(),
    };
    // A value that the column cannot hold is equal to none of its.
    let points = elements.into_iter().filter_map(|element| {
        let value = element.clone().cast(ty).ok()?;
        let same = !value.is_null() && value.compare(&element) == Ordering::Equal;
        same.then(|| Interval::point(value))
    });
    let points: Vec<Interval> = points.collect();
    if points.is_empty() { Region::none() } else { Region::of(place, Domain::of(ty, points), true) }
}

fn not_in(list: &InList, relation: &RelationDef) -> Region {
    let each = list.list.iter().map(|item| match item {
        Expr::Literal(scalar, _) => compare(&list.expr, Operator::NotEq, scalar, relation),
        _ => Region::unknown(),
    });
    // A long list of exclusions is quicker checked row by row.
    if list.list.len() > 100 { Region::unknown() } else { each.fold(Region::all(), Region::intersect) }
}

fn like_region(like: &Like, relation: &RelationDef) -> Region {
    let Expr::Literal(pattern, _) = like.pattern.as_ref() else { return Region::unknown() };
    let Some(pattern) = string(pattern) else { return Region::unknown() };
    if like.negated || like.case_insensitive {
        return Region::unknown();
    }
    let (literal, rest) = literal_prefix(pattern, like.escape_char.unwrap_or('\\'));
    match rest {
        "" => compare(&like.expr, Operator::Eq, &ScalarValue::Utf8View(Some(literal)), relation),
        "%" => prefix_region(&like.expr, &literal, true, relation),
        _ => prefix_region(&like.expr, &literal, false, relation),
    }
}

/// The text before a pattern's first wildcard, and the pattern from there on.
fn literal_prefix(pattern: &str, escape: char) -> (String, &str) {
    let mut literal = String::new();
    let mut characters = pattern.char_indices();
    while let Some((place, character)) = characters.next() {
        match character {
            '%' | '_' => return (literal, &pattern[place..]),
            c if c == escape => match characters.next() {
                Some((_, escaped)) => literal.push(escaped),
                None => literal.push(c),
            },
            c => literal.push(c),
        }
    }
    (literal, "")
}

fn prefix_region(expr: &Expr, prefix: &str, exact: bool, relation: &RelationDef) -> Region {
    if is_row_key(expr, relation) {
        let region = row_key::prefix(prefix, relation);
        return Region { exact: exact && region.exact, ..region };
    }
    match column_of(expr, relation) {
        Some((place, ty @ (ColumnType::Text | ColumnType::Ascii))) => {
            Region::of(place, prefix_domain(ty, prefix), exact)
        }
        _ => Region::unknown(),
    }
}

/// The texts that begin with a prefix.
pub(super) fn prefix_domain(ty: ColumnType, prefix: &str) -> Domain {
    let upper = text_successor(prefix).map_or(Bound::Unbounded, |next| Bound::Excluded(Value::Text(next)));
    Domain::of(ty, vec![Interval { lower: Bound::Included(Value::Text(prefix.into())), upper }])
}
