//! Operators: which function an operator is for the types beside it, as Postgres resolves it.
//!
//! Comparisons stay DataFusion's, with both sides of one type, so that spans and statistics see them. Arithmetic and
//! everything on time and JSON becomes a call of a function of ours.

use datafusion::common::{DFSchema, ExprSchema};
use datafusion::error::Result;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use datafusion::sql::sqlparser::ast::BinaryOperator as B;
use keyspan_model::{ColumnType, Error, ErrorKind, Nested, Value};

use super::cast::{implicit, parameter_type};
use super::nested::without_maps;
use super::variant;
use crate::error::external;
use crate::family::is_set;
use crate::functions::arithmetic::ArithmeticFunction;
use crate::functions::{translated, value_call};
use crate::types::arithmetic::{self, Op};
use crate::types::cast::numeric_literal;
use crate::types::sortable_form;
use crate::types::{Ty, fail, literal, literal_text, value_of_literal};
use crate::types::{common_type, compared_type, number_rank};

/// The operator over two planned sides; `None` leaves it to DataFusion.
pub fn binary(op: &B, left: Expr, right: Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let sides = Sides::of(left, right, schema)?;
    if let Some(operator) = comparison(op) {
        return compare(operator, sides.with_sets(schema)).map(Some);
    }
    match op {
        B::And | B::Or => logic(op, sides).map(Some),
        B::StringConcat => concat(sides),
        B::PGStartsWith => {
            let (left, right) = texts(op, sides)?;
            value_call("starts_with", vec![left, right], &[ColumnType::Text, ColumnType::Text]).map(Some)
        }
        B::PGRegexMatch | B::PGRegexIMatch | B::PGRegexNotMatch | B::PGRegexNotIMatch => regex(op, sides).map(Some),
        B::PGLikeMatch | B::PGILikeMatch | B::PGNotLikeMatch | B::PGNotILikeMatch => {
            let like = |negated, insensitive, left, right| {
                Expr::Like(datafusion::logical_expr::Like::new(
                    negated,
                    Box::new(left),
                    Box::new(right),
                    None,
                    insensitive,
                ))
            };
            let (left, right) = texts(op, sides)?;
            Ok(Some(match op {
                B::PGLikeMatch => like(false, false, left, right),
                B::PGILikeMatch => like(false, true, left, right),
                B::PGNotLikeMatch => like(true, false, left, right),
                _ => like(true, true, left, right),
            }))
        }
        op => match arithmetic_op(op) {
            Some(arithmetic) => arithmetical(arithmetic, sides).map(Some),
            None => other(op, sides),
        },
    }
}

pub(super) struct Sides {
    pub(super) left: Expr,
    pub(super) right: Expr,
    pub(super) left_type: Ty,
    pub(super) right_type: Ty,
}

impl Sides {
    fn of(left: Expr, right: Expr, schema: &DFSchema) -> Result<Sides> {
        let (left, left_type) = without_maps(left, schema)?;
        let (right, right_type) = without_maps(right, schema)?;
        Ok(Sides { left, right, left_type, right_type })
    }

    /// With columns that are sets as such, not as the arrays that they are to all but comparisons.
    fn with_sets(mut self, schema: &DFSchema) -> Sides {
        let set = |expr: &Expr, ty: &Ty| match (expr, ty) {
            (Expr::Column(column), Ty::Known(array)) => {
                let element = array.element().or_else(|| array.as_nested()?.parts().first().copied())?;
                let is_set = schema.field_from_column(column).is_ok_and(|field| is_set(field));
                is_set.then(|| Ty::Known(ColumnType::nested(Nested::Set(element))))
            }
            _ => None,
        };
        let (left, right) = (set(&self.left, &self.left_type), set(&self.right, &self.right_type));
        self.left_type = left.unwrap_or(self.left_type);
        self.right_type = right.unwrap_or(self.right_type);
        self
    }

    fn missing<T>(&self, symbol: &str) -> Result<T> {
        missing(&self.left_type, symbol, &self.right_type)
    }

    fn both(self, ty: ColumnType) -> Result<(Expr, Expr)> {
        Ok((implicit(self.left, &self.left_type, ty)?, implicit(self.right, &self.right_type, ty)?))
    }

    fn any_other(&self) -> bool {
        matches!(self.left_type, Ty::Other(_)) || matches!(self.right_type, Ty::Other(_))
    }
}

/// 42883 for an operator between these types.
pub fn missing<T>(left: &Ty, symbol: &str, right: &Ty) -> Result<T> {
    let message = format!("operator does not exist: {} {symbol} {}", left.name(), right.name());
    let hint = "No operator matches the given name and argument types. You might need to add explicit type casts.";
    fail(Error::new(ErrorKind::UndefinedFunction, message).with_hint(hint))
}

fn binary_expr(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

fn comparison(op: &B) -> Option<Operator> {
    Some(match op {
        B::Eq => Operator::Eq,
        B::NotEq => Operator::NotEq,
        B::Lt => Operator::Lt,
        B::LtEq => Operator::LtEq,
        B::Gt => Operator::Gt,
        B::GtEq => Operator::GtEq,
        _ => return None,
    })
}

fn arithmetic_op(op: &B) -> Option<Op> {
    Some(match op {
        B::Plus => Op::Add,
        B::Minus => Op::Subtract,
        B::Multiply => Op::Multiply,
        B::Divide => Op::Divide,
        B::Modulo => Op::Modulo,
        B::PGExp => Op::Power,
        B::BitwiseXor if op.to_string() == "^" => Op::Power,
        B::BitwiseAnd => Op::And,
        B::BitwiseOr => Op::Or,
        B::PGBitwiseXor | B::BitwiseXor => Op::Xor,
        B::PGBitwiseShiftLeft => Op::ShiftLeft,
        B::PGBitwiseShiftRight => Op::ShiftRight,
        _ => return None,
    })
}

/// Compares two expressions of any types.
pub fn compared(op: Operator, left: Expr, right: Expr, schema: &DFSchema) -> Result<Expr> {
    compare(op, Sides::of(left, right, schema)?.with_sets(schema))
}

fn compare(op: Operator, sides: Sides) -> Result<Expr> {
    if sides.any_other() {
        return Ok(binary_expr(sides.left, op, sides.right));
    }
    let sides = variant::beside(instants(sides)?)?;
    let ty = match (&sides.left_type, &sides.right_type) {
        (Ty::Unknown, Ty::Unknown) => ColumnType::Text,
        (&Ty::Known(ty), Ty::Unknown) | (Ty::Unknown, &Ty::Known(ty)) => return half_known(op, sides, ty),
        (Ty::Known(left), Ty::Known(right)) => match compared_type(*left, *right) {
            // A driver sends every UUID as a plain one; beside a timeuuid it is earlier or later, not more or less.
            Some(ColumnType::Uuid) if [left, right].contains(&&ColumnType::TimeUuid) && !is_equality(op) => {
                ColumnType::TimeUuid
            }
            Some(ty) => ty,
            None => return sides.missing(&symbol(op)),
        },
        _ => return sides.missing(&symbol(op)),
    };
    if let Some(narrow) = narrowed(op, &sides) {
        return Ok(narrow);
    }
    let (left, right) = sides.both(ty)?;
    ordered(op, left, right, ty)
}

/// `ts > $1 - interval '1 hour'`: read alone, the parameter is an interval, as in Postgres; beside an instant it can
/// only be one itself, so it is. A whole number that is written beside an instant is CQL's literal of one: milliseconds.
fn instants(mut sides: Sides) -> Result<Sides> {
    let instant = Ty::Known(ColumnType::Timestamp);
    if sides.left_type == instant
        && let Some(written) = written_milliseconds(&sides.right, &sides.right_type)?
    {
        (sides.right, sides.right_type) = (written, instant.clone());
    } else if sides.right_type == instant
        && let Some(written) = written_milliseconds(&sides.left, &sides.left_type)?
    {
        (sides.left, sides.left_type) = (written, instant.clone());
    }
    let at = |ty: &Ty| matches!(ty, Ty::Known(ColumnType::Timestamp | ColumnType::LocalTimestamp));
    let (left, right) = (at(&sides.left_type), at(&sides.right_type));
    if left && sides.right_type == Ty::Known(ColumnType::Duration) {
        if let Some(moved) = moved_parameter(&sides.right, &sides.left_type)? {
            (sides.right, sides.right_type) = (moved, sides.left_type.clone());
        }
    } else if right
        && sides.left_type == Ty::Known(ColumnType::Duration)
        && let Some(moved) = moved_parameter(&sides.left, &sides.right_type)?
    {
        (sides.left, sides.left_type) = (moved, sides.right_type.clone());
    }
    Ok(sides)
}

fn written_milliseconds(expr: &Expr, ty: &Ty) -> Result<Option<Expr>> {
    let Ty::Known(ty @ (ColumnType::Int | ColumnType::BigInt)) = ty else { return Ok(None) };
    let milliseconds = match value_of_literal(expr, *ty) {
        Some(Value::Int(milliseconds)) => i64::from(milliseconds),
        Some(Value::BigInt(milliseconds)) => milliseconds,
        _ => return Ok(None),
    };
    let instant = Value::timestamp_from_millis(milliseconds).map_err(external)?;
    literal(&instant, ColumnType::Timestamp).map(Some)
}

fn moved_parameter(expr: &Expr, ty: &Ty) -> Result<Option<Expr>> {
    let Expr::ScalarFunction(function) = expr else { return Ok(None) };
    let [Expr::Placeholder(parameter), interval] = function.args.as_slice() else { return Ok(None) };
    let zoned = *ty == Ty::Known(ColumnType::Timestamp);
    let name = match (function.func.name(), zoned) {
        ("interval_add", true) => "instant_add",
        ("interval_subtract", true) => "instant_subtract",
        ("interval_add", false) => "local_add",
        ("interval_subtract", false) => "local_subtract",
        _ => return Ok(None),
    };
    let ty = if zoned { ColumnType::Timestamp } else { ColumnType::LocalTimestamp };
    let args = vec![crate::types::typed_parameter(parameter, ty), interval.clone()];
    value_call(name, args, &[ty, ColumnType::Duration]).map(Some)
}

/// One side is a bare literal or parameter.
fn half_known(op: Operator, sides: Sides, ty: ColumnType) -> Result<Expr> {
    let ty = match ty {
        // A literal compared with numeric keeps its digits.
        ColumnType::Decimal { .. } => {
            let free = ColumnType::Decimal { precision: keyspan_model::types::DECIMAL_DIGITS, scale: 0 };
            let known_left = matches!(sides.left_type, Ty::Known(_));
            let unknown = if known_left { &sides.right } else { &sides.left };
            if crate::types::literal_text(unknown).is_some() {
                let (left, right) = sides.both_free(free)?;
                let (left_type, right_type) = (literal_type(&left).unwrap_or(ty), literal_type(&right).unwrap_or(ty));
                let typed = Sides {
                    left_type: Ty::Known(if known_left { ty } else { left_type }),
                    right_type: Ty::Known(if known_left { right_type } else { ty }),
                    left,
                    right,
                };
                return compare(op, typed);
            }
            ty
        }
        ty => ty,
    };
    let (left, right) = sides.both(ty)?;
    ordered(op, left, right, ty)
}

impl Sides {
    /// The unknown side as a numeric of its own digits, the known side as it is.
    fn both_free(self, ty: ColumnType) -> Result<(Expr, Expr)> {
        let left = if self.left_type == Ty::Unknown { implicit(self.left, &Ty::Unknown, ty)? } else { self.left };
        let right = if self.right_type == Ty::Unknown { implicit(self.right, &Ty::Unknown, ty)? } else { self.right };
        Ok((left, right))
    }
}

fn literal_type(expr: &Expr) -> Option<ColumnType> {
    match expr {
        Expr::Literal(scalar, _) => ColumnType::of_arrow(&scalar.data_type()),
        _ => None,
    }
}

/// A literal that is exactly a value of the other side's type takes that type, so that a column stays a bare column.
fn narrowed(op: Operator, sides: &Sides) -> Option<Expr> {
    let exact = |expr: &Expr, from: &Ty, to: &Ty| {
        let (from, to) = (from.known()?, to.known()?);
        let (from_rank, to_rank) = (number_rank(from)?, number_rank(to)?);
        // Beside a float, a numeric becomes the nearest float, as Postgres compares them.
        let value = value_of_literal(expr, from)?;
        if value.is_null() {
            return None;
        }
        let cast = value.clone().cast(to).ok()?;
        let same = cast.compare(&value) == std::cmp::Ordering::Equal;
        let float_side = to_rank == 8 && from_rank <= 7;
        (same || float_side).then(|| literal(&cast, to).ok())?
    };
    if let Some(right) = exact(&sides.right, &sides.right_type, &sides.left_type) {
        return Some(binary_expr(sides.left.clone(), op, right));
    }
    let left = exact(&sides.left, &sides.left_type, &sides.right_type)?;
    Some(binary_expr(left, op, sides.right.clone()))
}

fn is_equality(op: Operator) -> bool {
    matches!(op, Operator::Eq | Operator::NotEq | Operator::IsDistinctFrom | Operator::IsNotDistinctFrom)
}

/// Types whose Arrow form does not sort as they do are compared through a form that does.
fn ordered(op: Operator, left: Expr, right: Expr, ty: ColumnType) -> Result<Expr> {
    let equality = is_equality(op);
    // json is compared as jsonb.
    let (left, right, ty) = match ty {
        ColumnType::Json => {
            let jsonb = |side| implicit(side, &Ty::Known(ty), ColumnType::Jsonb);
            (jsonb(left)?, jsonb(right)?, ColumnType::Jsonb)
        }
        ty => (left, right, ty),
    };
    let form = match ty {
        // Intervals of one length are equal, as 24 hours are to a day; of jsonb 1 is 1.0; arrays with NULL in the same
        // places. The bytes of other nested values are equal where the values are.
        ty if !equality || !has_equal_forms(ty) => match sortable_form(ty) {
            Some(form) => form,
            None => return Ok(binary_expr(left, op, right)),
        },
        _ => return Ok(binary_expr(left, op, right)),
    };
    let left = value_call(form, vec![left], &[ty])?;
    let right = value_call(form, vec![right], &[ty])?;
    Ok(binary_expr(left, op, right))
}

/// Whether values of a type that are equal have equal forms in Arrow, which it can compare.
fn has_equal_forms(ty: ColumnType) -> bool {
    let odd = |part: ColumnType| matches!(part, ColumnType::Duration | ColumnType::Jsonb | ColumnType::Json);
    (ty.is_scalar() || ty.is_packed()) && !ty.holds(&odd)
}

fn symbol(op: Operator) -> String {
    match op {
        Operator::NotEq => "<>".into(),
        Operator::IsDistinctFrom | Operator::IsNotDistinctFrom => "=".into(),
        op => op.to_string(),
    }
}

fn logic(op: &B, sides: Sides) -> Result<Expr> {
    for ty in [&sides.left_type, &sides.right_type] {
        if !matches!(ty, Ty::Unknown | Ty::Known(ColumnType::Boolean)) {
            let message = format!("argument of {op} must be type boolean, not type {}", ty.name());
            return fail(Error::new(ErrorKind::DatatypeMismatch, message));
        }
    }
    let operator = if matches!(op, B::And) { Operator::And } else { Operator::Or };
    let (left, right) = sides.both(ColumnType::Boolean)?;
    Ok(binary_expr(left, operator, right))
}

fn is_text(ty: &Ty) -> bool {
    matches!(ty, Ty::Unknown | Ty::Known(ColumnType::Text | ColumnType::Ascii))
}

fn concat(sides: Sides) -> Result<Option<Expr>> {
    if sides.any_other() {
        return Ok(None);
    }
    if let Some(joined) = joined_lists(&sides)? {
        return Ok(Some(joined));
    }
    match (&sides.left_type, &sides.right_type) {
        (Ty::Known(ColumnType::Blob), Ty::Known(ColumnType::Blob) | Ty::Unknown)
        | (Ty::Unknown, Ty::Known(ColumnType::Blob)) => {
            let (left, right) = sides.both(ColumnType::Blob)?;
            value_call("blob_concat", vec![left, right], &[ColumnType::Blob, ColumnType::Blob]).map(Some)
        }
        (Ty::Known(ty), Ty::Known(_) | Ty::Unknown) | (Ty::Unknown, Ty::Known(ty)) if is_json(*ty) => {
            if let (Ty::Known(left), Ty::Known(right)) = (&sides.left_type, &sides.right_type)
                && !(is_json(*left) && is_json(*right))
            {
                return sides.missing("||");
            }
            let (left, right) = sides.both(ColumnType::Jsonb)?;
            value_call("json_concat", vec![left, right], &[ColumnType::Jsonb, ColumnType::Jsonb]).map(Some)
        }
        (left, right) if is_text(left) || is_text(right) => {
            let (left, right) = sides.both(ColumnType::Text)?;
            Ok(Some(binary_expr(left, Operator::StringConcat, right)))
        }
        _ => sides.missing("||"),
    }
}

/// `||` of arrays, or of an array and an element. A bare literal or parameter beside an array is one.
fn joined_lists(sides: &Sides) -> Result<Option<Expr>> {
    let element = |ty: &Ty| ty.known().and_then(ColumnType::element);
    let (name, left, right) = match (element(&sides.left_type), element(&sides.right_type)) {
        (None, None) => return Ok(None),
        (Some(left), Some(right)) => ("array_cat", left, right),
        (Some(own), None) => match sides.right_type.known() {
            Some(right) => ("array_append", own, right),
            None => ("array_cat", own, own),
        },
        (None, Some(own)) => match sides.left_type.known() {
            Some(left) => ("array_prepend", left, own),
            None => ("array_cat", own, own),
        },
    };
    let Some(common) = common_type(left, right) else { return sides.missing("||") };
    let list = ColumnType::list(common);
    let (left, right) = match name {
        "array_append" => (list, common),
        "array_prepend" => (common, list),
        _ => (list, list),
    };
    let args = vec![
        implicit(sides.left.clone(), &sides.left_type, left)?,
        implicit(sides.right.clone(), &sides.right_type, right)?,
    ];
    value_call(name, args, &[left, right]).map(Some)
}

/// Containment and overlap of arrays.
fn of_lists(op: &B, sides: &Sides) -> Result<Option<Expr>> {
    let lists = [&sides.left_type, &sides.right_type].map(|ty| ty.known().and_then(ColumnType::element));
    let (name, swapped) = match (op, lists) {
        (_, [None, None]) => return Ok(None),
        (B::AtArrow, _) => ("list_contains", false),
        (B::ArrowAt, _) => ("list_contains", true),
        (B::PGOverlap, _) => ("list_overlaps", false),
        _ => return Ok(None),
    };
    let common = match (lists, &sides.left_type, &sides.right_type) {
        ([Some(a), Some(b)], ..) => common_type(a, b),
        ([Some(own), None], _, Ty::Unknown) | ([None, Some(own)], Ty::Unknown, _) => Some(own),
        _ => None,
    };
    let Some(common) = common else { return sides.missing(&op.to_string()) };
    let list = ColumnType::list(common);
    let left = implicit(sides.left.clone(), &sides.left_type, list)?;
    let right = implicit(sides.right.clone(), &sides.right_type, list)?;
    let args = if swapped { vec![right, left] } else { vec![left, right] };
    value_call(name, args, &[list, list]).map(Some)
}

fn texts(op: &B, sides: Sides) -> Result<(Expr, Expr)> {
    if !is_text(&sides.left_type) || !is_text(&sides.right_type) {
        return sides.missing(&op.to_string());
    }
    sides.both(ColumnType::Text)
}

fn regex(op: &B, sides: Sides) -> Result<Expr> {
    let (left, right) = texts(op, sides)?;
    let Some(pattern) = literal_text(&right) else {
        return regex_of_rows(op, left, right);
    };
    let Some(pattern) = translated(pattern).map_err(external)? else {
        return regex_of_rows(op, left, right);
    };
    let right = literal(&Value::Text(pattern), ColumnType::Text)?;
    let operator = match op {
        B::PGRegexMatch => Operator::RegexMatch,
        B::PGRegexIMatch => Operator::RegexIMatch,
        B::PGRegexNotMatch => Operator::RegexNotMatch,
        _ => Operator::RegexNotIMatch,
    };
    Ok(binary_expr(left, operator, right))
}

/// A pattern that each row has of its own, or that takes more than the library of arrays has.
fn regex_of_rows(op: &B, left: Expr, right: Expr) -> Result<Expr> {
    let flags = if matches!(op, B::PGRegexIMatch | B::PGRegexNotIMatch) { "i" } else { "" };
    let flags = literal(&Value::Text(flags.into()), ColumnType::Text)?;
    let found = value_call("regexp_like", vec![left, right, flags], &[ColumnType::Text; 3])?;
    Ok(match op {
        B::PGRegexNotMatch | B::PGRegexNotIMatch => Expr::Not(Box::new(found)),
        _ => found,
    })
}

fn arithmetical(op: Op, sides: Sides) -> Result<Expr> {
    if let (Op::Subtract, Ty::Known(ty), right) = (op, &sides.left_type, &sides.right_type)
        && is_json(*ty)
        && right.is_nested()
    {
        return json_call("json_remove_each", sides, ColumnType::Jsonb, ColumnType::Text);
    }
    if sides.any_other() {
        return sides.missing(op.symbol());
    }
    let (left, right) = match (&sides.left_type, &sides.right_type) {
        (Ty::Unknown, Ty::Unknown) => {
            let message = format!("operator is not unique: unknown {} unknown", op.symbol());
            let hint = "Could not choose a best candidate operator. You might need to add explicit type casts.";
            return fail(Error::new(ErrorKind::UndefinedFunction, message).with_hint(hint));
        }
        (Ty::Known(ty), Ty::Unknown) => (*ty, counterpart(op, *ty, &sides.right, true)),
        (Ty::Unknown, Ty::Known(ty)) => (counterpart(op, *ty, &sides.left, false), *ty),
        (Ty::Known(left), Ty::Known(right)) => (*left, *right),
        _ => return sides.missing(op.symbol()),
    };
    match arithmetic::types(op, left, right) {
        Some((left, right, result)) => {
            let left = implicit(sides.left, &sides.left_type, left)?;
            let right = implicit(sides.right, &sides.right_type, right)?;
            calculated(op, left, right, result)
        }
        None => temporal(op, left, right, sides),
    }
}

/// What a bare literal or parameter beside a value of this type is taken for.
fn counterpart(op: Op, ty: ColumnType, bare: &Expr, literal_is_right: bool) -> ColumnType {
    use ColumnType as C;
    match (op, ty) {
        (Op::Add, C::Date) => C::Int,
        (Op::Add, C::Timestamp | C::LocalTimestamp | C::Time) => C::Duration,
        (Op::Subtract, C::Duration) if !literal_is_right => C::Duration,
        (Op::Multiply | Op::Divide, C::Duration) => C::Double,
        (_, C::Decimal { .. }) => match crate::types::literal_text(bare).and_then(numeric_literal) {
            Some((_, own)) => own,
            None => parameter_type(ty),
        },
        (_, ty) => ty,
    }
}

/// The operator applied at once to literals, else a call.
pub fn calculated(op: Op, left: Expr, right: Expr, result: ColumnType) -> Result<Expr> {
    let types = (literal_type(&left), literal_type(&right));
    if let (Some(left_type), Some(right_type)) = types {
        let values = (value_of_literal(&left, left_type), value_of_literal(&right, right_type));
        if let (Some(a), Some(b)) = values {
            let result = match (op, &a, &b) {
                (Op::Divide, Value::Decimal(a, s), Value::Decimal(b, t)) => {
                    crate::types::decimal(arithmetic::division_scale((*a, *s), (*b, *t)))
                }
                _ => result,
            };
            // What fails may stand in a branch that is never taken: it fails when it is computed.
            if let Ok(value) = arithmetic::apply(op, &a, &b, result) {
                return literal(&value, result);
            }
        }
    }
    Ok(ArithmeticFunction::call(op, left, right, result))
}

/// Arithmetic of dates, times and intervals.
fn temporal(op: Op, left: ColumnType, right: ColumnType, sides: Sides) -> Result<Expr> {
    use ColumnType as C;
    let number = |ty| number_rank(ty).is_some();
    let whole = |ty| matches!(ty, C::TinyInt | C::SmallInt | C::Int);
    // Name, the types it wants, and whether the sides change places.
    let (name, wanted, swap): (&str, [C; 2], bool) = match (op, left, right) {
        (Op::Add, C::Date, ty) if whole(ty) => ("date_add", [C::Date, C::Int], false),
        (Op::Add, ty, C::Date) if whole(ty) => ("date_add", [C::Date, C::Int], true),
        (Op::Subtract, C::Date, ty) if whole(ty) => ("date_subtract", [C::Date, C::Int], false),
        (Op::Subtract, C::Date, C::Date) => ("date_difference", [C::Date, C::Date], false),
        (Op::Add, C::Date | C::LocalTimestamp, C::Duration) => ("local_add", [C::LocalTimestamp, C::Duration], false),
        (Op::Add, C::Duration, C::Date | C::LocalTimestamp) => ("local_add", [C::LocalTimestamp, C::Duration], true),
        (Op::Subtract, C::Date | C::LocalTimestamp, C::Duration) => {
            ("local_subtract", [C::LocalTimestamp, C::Duration], false)
        }
        (Op::Add, C::Timestamp, C::Duration) => ("instant_add", [C::Timestamp, C::Duration], false),
        (Op::Add, C::Duration, C::Timestamp) => ("instant_add", [C::Timestamp, C::Duration], true),
        (Op::Subtract, C::Timestamp, C::Duration) => ("instant_subtract", [C::Timestamp, C::Duration], false),
        (Op::Subtract, C::Timestamp, _) | (Op::Subtract, _, C::Timestamp)
            if common_type(left, right) == Some(C::Timestamp) =>
        {
            ("instant_difference", [C::Timestamp, C::Timestamp], false)
        }
        (Op::Subtract, _, _) if common_type(left, right) == Some(C::LocalTimestamp) => {
            ("local_difference", [C::LocalTimestamp, C::LocalTimestamp], false)
        }
        (Op::Add, C::Date, C::Time) => ("date_at_time", [C::Date, C::Time], false),
        (Op::Add, C::Time, C::Date) => ("date_at_time", [C::Date, C::Time], true),
        (Op::Add, C::Time, C::Duration) => ("time_add", [C::Time, C::Duration], false),
        (Op::Add, C::Duration, C::Time) => ("time_add", [C::Time, C::Duration], true),
        (Op::Subtract, C::Time, C::Duration) => ("time_subtract", [C::Time, C::Duration], false),
        (Op::Subtract, C::Time, C::Time) => ("time_difference", [C::Time, C::Time], false),
        (Op::Add, C::Duration, C::Duration) => ("interval_add", [C::Duration, C::Duration], false),
        (Op::Subtract, C::Duration, C::Duration) => ("interval_subtract", [C::Duration, C::Duration], false),
        (Op::Multiply, C::Duration, ty) if number(ty) => ("interval_multiply", [C::Duration, C::Double], false),
        (Op::Multiply, ty, C::Duration) if number(ty) => ("interval_multiply", [C::Duration, C::Double], true),
        (Op::Divide, C::Duration, ty) if number(ty) => ("interval_divide", [C::Duration, C::Double], false),
        (Op::Subtract, ty, C::Text | C::Ascii | C::Json | C::Jsonb) if is_json(ty) => {
            ("json_remove", [C::Jsonb, C::Text], false)
        }
        (Op::Subtract, ty, other) if is_json(ty) && whole(other) => ("json_remove_at", [C::Jsonb, C::Int], false),
        _ => return sides.missing(op.symbol()),
    };
    let Sides { left, right, left_type, right_type } = sides;
    let (first, second) =
        if swap { ((right, right_type), (left, left_type)) } else { ((left, left_type), (right, right_type)) };
    let first = implicit(first.0, &first.1, wanted[0])?;
    let second = implicit(second.0, &second.1, wanted[1])?;
    value_call(name, vec![first, second], &wanted)
}

fn is_json(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Json | ColumnType::Jsonb)
}

/// JSON and containment. What only jsonb has in PostgreSQL is done of json as well (ADR 11).
fn other(op: &B, sides: Sides) -> Result<Option<Expr>> {
    use ColumnType as C;
    if let Some(planned) = of_lists(op, &sides)? {
        return Ok(Some(planned));
    }
    let json = |ty: &Ty| ty.known().filter(|ty| is_json(*ty));
    if *op == B::ArrowAt && json(&sides.left_type).or(json(&sides.right_type)).is_some() {
        let (left, right) = sides.both(C::Jsonb)?;
        return value_call("json_contains", vec![right, left], &[C::Jsonb, C::Jsonb]).map(Some);
    }
    let Some(own) = json(&sides.left_type) else {
        let only_of_json = matches!(op, B::Arrow | B::LongArrow | B::HashArrow | B::HashLongArrow | B::Question);
        return if only_of_json { sides.missing(&op.to_string()) } else { Ok(None) };
    };
    let whole = matches!(sides.right_type, Ty::Known(C::Int | C::SmallInt | C::BigInt));
    let (name, left, wanted): (&str, C, C) = match op {
        B::Arrow if whole => ("json_element_at", own, C::Int),
        B::LongArrow if whole => ("json_element_text_at", own, C::Int),
        B::Arrow => ("json_field", own, C::Text),
        B::LongArrow => ("json_field_text", own, C::Text),
        B::HashArrow => ("json_path", own, C::Text),
        B::HashLongArrow => ("json_path_text", own, C::Text),
        B::AtArrow => ("json_contains", C::Jsonb, C::Jsonb),
        B::Question => ("json_exists", C::Jsonb, C::Text),
        B::QuestionPipe => ("json_exists_any", C::Jsonb, C::Text),
        B::QuestionAnd => ("json_exists_all", C::Jsonb, C::Text),
        B::HashMinus => ("json_remove_path", C::Jsonb, C::Text),
        B::AtQuestion => ("json_path_finds", C::Jsonb, C::Text),
        B::AtAt => ("json_path_holds", C::Jsonb, C::Text),
        _ => return Ok(None),
    };
    json_call(name, sides, left, wanted).map(Some)
}

/// A function of JSON and of a text, a number or an array of texts, which comes as its text.
fn json_call(name: &str, sides: Sides, left: ColumnType, wanted: ColumnType) -> Result<Expr> {
    let value = implicit(sides.left, &sides.left_type, left)?;
    let argument = implicit(sides.right, &sides.right_type, wanted)?;
    value_call(name, vec![value, argument], &[left, wanted])
}
