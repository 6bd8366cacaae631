//! Expressions and names of a plan as a user would write them, for EXPLAIN.
//!
//! DataFusion shows columns with their places and names an expression by a text with its literals' types:
//! `date_trunc(Utf8View("hour"),t.ts)@0`. Here that is `date_trunc('hour', t.ts)`.

use std::sync::Arc;

use arrow::datatypes::Field;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NegativeExpr,
    NotExpr, TryCastExpr,
};
use datafusion::physical_expr::{PhysicalSortExpr, ScalarFunctionExpr};
use datafusion::physical_expr_common::physical_expr::{PhysicalExpr, fmt_sql};
use datafusion::physical_plan::joins::utils::JoinFilter;
use keyspan_model::array::value_at;
use keyspan_model::{ColumnType, Value};

/// The character that names of ours begin with, which users do not see, or a number that keeps two names apart.
const MARK: char = '\u{1}';

/// An expression.
pub(crate) fn expr_text(expr: &Arc<dyn PhysicalExpr>) -> String {
    let list = |list: &[Arc<dyn PhysicalExpr>]| list.iter().map(expr_text).collect::<Vec<_>>().join(", ");
    if let Some(column) = expr.downcast_ref::<Column>() {
        return name_text(column.name());
    }
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return literal_text(literal.value());
    }
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        let operator = *binary.op();
        let (left, right) = (operand(binary.left(), operator), operand(binary.right(), operator));
        return format!("{left} {operator} {right}");
    }
    if let Some(like) = expr.downcast_ref::<LikeExpr>() {
        let not = if like.negated() { "NOT " } else { "" };
        let like_or = if like.case_insensitive() { "ILIKE" } else { "LIKE" };
        return format!("{} {not}{like_or} {}", primary(like.expr()), primary(like.pattern()));
    }
    if let Some(within) = expr.downcast_ref::<InListExpr>() {
        let not = if within.negated() { "NOT " } else { "" };
        return format!("{} {not}IN ({})", primary(within.expr()), list(within.list()));
    }
    if let Some(is) = expr.downcast_ref::<IsNullExpr>() {
        return format!("{} IS NULL", primary(is.arg()));
    }
    if let Some(is) = expr.downcast_ref::<IsNotNullExpr>() {
        return format!("{} IS NOT NULL", primary(is.arg()));
    }
    if let Some(not) = expr.downcast_ref::<NotExpr>() {
        return format!("NOT {}", primary(not.arg()));
    }
    if let Some(negative) = expr.downcast_ref::<NegativeExpr>() {
        return format!("-{}", primary(negative.arg()));
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        return cast_text(cast.expr(), cast.target_field());
    }
    if let Some(cast) = expr.downcast_ref::<TryCastExpr>() {
        return cast_text(cast.expr(), cast.target_field());
    }
    if let Some(case) = expr.downcast_ref::<CaseExpr>() {
        return case_text(case);
    }
    if let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() {
        return call_text(function.name(), function.args());
    }
    line_text(&fmt_sql(expr.as_ref()).to_string())
}

/// The condition of a join: columns are of its left or its right side.
pub(crate) fn join_condition_text(filter: &JoinFilter) -> String {
    let of_side = |expr: Arc<dyn PhysicalExpr>| {
        let index = expr.downcast_ref::<Column>().and_then(|column| filter.column_indices().get(column.index()));
        let side = index.map(|index| if index.side == JoinSide::Left { "left" } else { "right" });
        Ok(match (expr.downcast_ref::<Column>(), side) {
            (Some(column), Some(side)) => {
                let name = format!("{side}.{}", name_text(column.name()));
                Transformed::yes(Arc::new(Column::new(&name, column.index())) as Arc<dyn PhysicalExpr>)
            }
            _ => Transformed::no(expr),
        })
    };
    let named = filter.expression().clone().transform(of_side).data();
    expr_text(named.as_ref().unwrap_or(filter.expression()))
}

/// Whether a function is an operator of ours.
fn is_operator(name: &str) -> bool {
    name.chars().all(|c| "+-*/<>=~!@#%^&|?".contains(c))
}

/// Whether an expression is a call of an operator of ours with two sides.
fn is_operation(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.downcast_ref::<ScalarFunctionExpr>().is_some_and(|call| is_operator(call.name()) && call.args().len() == 2)
}

/// A call; operators of ours are functions with their name.
fn call_text(name: &str, args: &[Arc<dyn PhysicalExpr>]) -> String {
    let is_operator = is_operator(name);
    match args {
        [left, right] if is_operator => format!("{} {name} {}", primary(left), primary(right)),
        [operand] if is_operator => format!("{name} {}", primary(operand)),
        args => format!("{}({})", name_text(name), args.iter().map(expr_text).collect::<Vec<_>>().join(", ")),
    }
}

fn case_text(case: &CaseExpr) -> String {
    let mut text = String::from("CASE");
    if let Some(value) = case.expr() {
        text.push_str(&format!(" {}", expr_text(value)));
    }
    for (when, then) in case.when_then_expr() {
        text.push_str(&format!(" WHEN {} THEN {}", expr_text(when), expr_text(then)));
    }
    if let Some(otherwise) = case.else_expr() {
        text.push_str(&format!(" ELSE {}", expr_text(otherwise)));
    }
    text + " END"
}

/// A cast; one that only changes how a value is held shows the value.
fn cast_text(expr: &Arc<dyn PhysicalExpr>, to: &Field) -> String {
    match ColumnType::of_field(to) {
        Some(ty) => format!("{}::{}", primary(expr), ty.postgres_name()),
        None => expr_text(expr),
    }
}

/// An operand of a binary operator, in parentheses where it binds less.
fn operand(expr: &Arc<dyn PhysicalExpr>, of: Operator) -> String {
    let text = expr_text(expr);
    let binds_less = expr.downcast_ref::<BinaryExpr>().is_some_and(|inner| {
        inner.op().precedence() < of.precedence() || (inner.op().precedence() == of.precedence() && *inner.op() != of)
    });
    // AND and OR bind less than all but each other.
    let logic = matches!(of, Operator::And | Operator::Or);
    let is_compound = !logic && is_compound(expr) && expr.downcast_ref::<BinaryExpr>().is_none();
    if binds_less || is_compound || expr.downcast_ref::<CaseExpr>().is_some() { format!("({text})") } else { text }
}

/// An operand of what binds more than all binary operators.
fn primary(expr: &Arc<dyn PhysicalExpr>) -> String {
    let text = expr_text(expr);
    if is_compound(expr) { format!("({text})") } else { text }
}

/// Whether an expression has parts that something beside it could bind.
fn is_compound(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.downcast_ref::<BinaryExpr>().is_some()
        || expr.downcast_ref::<LikeExpr>().is_some()
        || expr.downcast_ref::<InListExpr>().is_some()
        || expr.downcast_ref::<IsNullExpr>().is_some()
        || expr.downcast_ref::<IsNotNullExpr>().is_some()
        || expr.downcast_ref::<NotExpr>().is_some()
        || expr.downcast_ref::<CaseExpr>().is_some()
        || is_operation(expr)
}

/// A key of an order, with what is not PostgreSQL's default.
pub(crate) fn sort_text(key: &PhysicalSortExpr) -> String {
    let text = expr_text(&key.expr);
    match (key.options.descending, key.options.nulls_first) {
        (false, false) => text,
        (false, true) => format!("{text} NULLS FIRST"),
        (true, true) => format!("{text} DESC"),
        (true, false) => format!("{text} DESC NULLS LAST"),
    }
}

/// A literal.
fn literal_text(value: &ScalarValue) -> String {
    if value.is_null() {
        return "NULL".to_owned();
    }
    let ty = ColumnType::of_field(&Field::new("", value.data_type(), true));
    let read = ty.and_then(|ty| Some((ty, value_at(value.to_array().ok()?.as_ref(), 0, ty).ok()?)));
    match read {
        Some((ty, value)) => value_text(ty, &value),
        None => value.to_string(),
    }
}

fn value_text(ty: ColumnType, value: &Value) -> String {
    if let Value::Boolean(value) = value {
        return value.to_string();
    }
    let text = value.to_text(ty);
    let is_bare = matches!(
        value,
        Value::TinyInt(_)
            | Value::SmallInt(_)
            | Value::Int(_)
            | Value::BigInt(_)
            | Value::Real(_)
            | Value::Double(_)
            | Value::Decimal(..)
    );
    if is_bare { text } else { format!("'{}'", text.replace('\'', "''")) }
}

/// DataFusion's name of an expression, or of a column.
pub(crate) fn name_text(name: &str) -> String {
    over(repaired(name, false))
}

/// A line of a plan, in which a column's place stands behind its name: `v@1`.
pub(crate) fn line_text(line: &str) -> String {
    repaired(line, true)
}

/// A text with names of expressions in it, its literals and calls of operators as SQL has them.
fn repaired(text: &str, with_places: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut depth) = (text, 0_usize);
    while let Some(c) = rest.chars().next() {
        let at_word = !out.ends_with(|before: char| before.is_alphanumeric() || before == '_');
        if at_word && let Some((sql, after)) = part_of_name(rest, with_places) {
            out.push_str(&sql);
            rest = after;
            continue;
        }
        let behind_name = !at_word || out.ends_with([')', ']', '"', '*']);
        rest = &rest[c.len_utf8()..];
        match c {
            // A literal that is written as SQL already.
            '\'' => {
                let end = rest.find('\'').map_or(rest.len(), |end| end + 1);
                out.push(c);
                out.push_str(&rest[..end]);
                rest = &rest[end..];
            }
            MARK if !out.is_empty() => rest = rest.trim_start_matches(|c: char| c.is_ascii_digit()),
            MARK => {}
            '@' if with_places && behind_name && rest.starts_with(|c: char| c.is_ascii_digit()) => {
                rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            }
            ',' if depth > 0 && !rest.starts_with(' ') => out.push_str(", "),
            c => {
                depth = match c {
                    '(' => depth + 1,
                    ')' => depth.saturating_sub(1),
                    _ => depth,
                };
                out.push(c);
            }
        }
    }
    out
}

/// What a name begins with and SQL writes otherwise, and what follows it.
fn part_of_name(name: &str, with_places: bool) -> Option<(String, &str)> {
    if let Some(after) = name.strip_prefix("count(Int64(1))") {
        return Some(("count(*)".to_owned(), after));
    }
    literal_in_name(name).or_else(|| operation_in_name(name, with_places))
}

/// A call of an operator of ours, such as `+(a,b)`.
fn operation_in_name(name: &str, with_places: bool) -> Option<(String, &str)> {
    let open = name.find('(').filter(|open| *open > 0 && is_operator(&name[..*open]))?;
    let inner = &name[open + 1..];
    let end = closing(inner)?;
    let (left, right) = inner[..end].split_at(comma(&inner[..end])?);
    let side = |side: &str| {
        let text = repaired(side.trim(), with_places);
        if text.contains(' ') && !text.starts_with('\'') { format!("({text})") } else { text }
    };
    Some((format!("{} {} {}", side(left), &name[..open], side(&right[1..])), &inner[end + 1..]))
}

/// Where the first argument of a call ends.
fn comma(arguments: &str) -> Option<usize> {
    let (mut depth, mut quoted) = (0_usize, false);
    arguments.char_indices().find_map(|(at, c)| {
        match c {
            '\'' | '"' => quoted = !quoted,
            '(' | '[' if !quoted => depth += 1,
            ')' | ']' if !quoted => depth = depth.saturating_sub(1),
            ',' if !quoted && depth == 0 => return Some(at),
            _ => {}
        }
        None
    })
}

/// A window function's name: `rank() PARTITION BY [k] ORDER BY [v]` is `rank() OVER (PARTITION BY k ORDER BY v)`.
fn over(name: String) -> String {
    const DEFAULT_FRAME: &str = " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW";
    let begins = [" PARTITION BY [", " ORDER BY [", " ROWS BETWEEN ", " RANGE BETWEEN ", " GROUPS BETWEEN "];
    let is_call = |at: &usize| name[..*at].ends_with(')');
    let Some(at) = begins.iter().filter_map(|begin| name.find(begin)).min().filter(is_call) else { return name };
    let (call, window) = name.split_at(at);
    let mut window = window.strip_suffix(DEFAULT_FRAME).unwrap_or(window).to_owned();
    for begin in ["PARTITION BY", "ORDER BY"] {
        window = window.replacen(&format!("{begin} ["), &format!("{begin} "), 1);
    }
    for follows in [" ORDER BY", " ROWS BETWEEN", " RANGE BETWEEN", " GROUPS BETWEEN"] {
        window = window.replacen(&format!("]{follows}"), follows, 1);
    }
    let window = window.strip_suffix(']').unwrap_or(&window).replace(" ASC NULLS LAST", "");
    format!("{call} OVER ({})", window.replace(" DESC NULLS FIRST", " DESC").trim())
}

/// A literal as DataFusion names it, such as `Utf8View("x")` or `Int64(1)`, as SQL has it, and what follows.
fn literal_in_name(name: &str) -> Option<(String, &str)> {
    let open = name.find('(')?;
    let (kind, inner) = (&name[..open], &name[open + 1..]);
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let (body, after) = match inner.strip_prefix('"') {
        Some(text) => {
            let end = text.find("\")")?;
            (&text[..end], &text[end + 2..])
        }
        None => {
            let end = closing(inner)?;
            (&inner[..end], &inner[end + 1..])
        }
    };
    let literal = match kind {
        "Utf8" | "Utf8View" | "LargeUtf8" | "Binary" | "BinaryView" | "LargeBinary" | "Date32" | "Date64"
        | "Time64Microsecond" => match body {
            "NULL" => "NULL".to_owned(),
            text => quoted(text),
        },
        "Int8" | "Int16" | "Int32" | "Int64" | "UInt8" | "UInt16" | "UInt32" | "UInt64" | "Float32" | "Float64"
        | "Boolean" => body.to_owned(),
        "Decimal128" | "Decimal256" => decimal_text(body)?,
        "TimestampMicrosecond" => timestamp_text(body)?,
        "IntervalMonthDayNano" => quoted(&interval_text(body).unwrap_or_else(|| body.to_owned())),
        "Null" => "NULL".to_owned(),
        _ => return None,
    };
    Some((literal, after))
}

/// Where the parenthesis ends in which this stands.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    text.char_indices().find_map(|(at, c)| match c {
        '(' => {
            depth += 1;
            None
        }
        ')' if depth == 0 => Some(at),
        ')' => {
            depth -= 1;
            None
        }
        _ => None,
    })
}

/// `Some(123),10,2` is 1.23.
fn decimal_text(body: &str) -> Option<String> {
    if body.starts_with("None") {
        return Some("NULL".to_owned());
    }
    let (digits, types) = body.strip_prefix("Some(")?.split_once("),")?;
    let scale: usize = types.split(',').nth(1)?.trim().parse().ok()?;
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    let padded = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = padded.split_at(padded.len() - scale);
    Some(if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") })
}

/// `1704067200000000, Some("UTC")` is an instant, without a zone a time on a clock.
fn timestamp_text(body: &str) -> Option<String> {
    let (micros, zone) = body.split_once(", ")?;
    if micros == "NULL" {
        return Some("NULL".to_owned());
    }
    let ty = if zone.starts_with("Some") { ColumnType::Timestamp } else { ColumnType::LocalTimestamp };
    Some(value_text(ty, &Value::Timestamp(micros.parse().ok()?)))
}

/// `IntervalMonthDayNano { months: 0, days: 1, nanoseconds: 0 }` is `1 day`.
fn interval_text(body: &str) -> Option<String> {
    let field = |name: &str| -> Option<i64> {
        let text = &body[body.find(name)? + name.len()..];
        let end = text.find([',', ' ', '}']).unwrap_or(text.len());
        text[..end].parse().ok()
    };
    let (months, days) = (field("months: ")?, field("days: ")?);
    let interval = arrow::datatypes::IntervalMonthDayNano::new(
        i32::try_from(months).ok()?,
        i32::try_from(days).ok()?,
        field("nanoseconds: ")?,
    );
    let value = ScalarValue::IntervalMonthDayNano(Some(interval));
    Some(literal_text(&value).trim_matches('\'').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_sql() {
        for (name, text) in [
            ("count(Int64(1))", "count(*)"),
            ("count\u{1}1", "count"),
            ("\u{1}sort_key0", "sort_key0"),
            ("date_trunc(Utf8View(\"hour\"),t.ts)", "date_trunc('hour', t.ts)"),
            ("+(t.a,*(t.b,Int64(2)))", "t.a + (t.b * 2)"),
            ("sum(%(t.k,Int64(7)))", "sum(t.k % 7)"),
            ("x,y", "x,y"),
            ("[(7, [1 ..))]", "[(7, [1 ..))]"),
            ("a@1", "a@1"),
            ("strpos(s,Utf8(\"it's (\"))", "strpos(s, 'it''s (')"),
            ("x = Decimal128(Some(-5),10,2)", "x = -0.05"),
            ("x > Decimal128(Some(1234),38,2)", "x > 12.34"),
            ("ts > TimestampMicrosecond(1704067200000000, Some(\"UTC\"))", "ts > '2024-01-01 00:00:00+00'"),
            ("sum(CASE WHEN b THEN Int64(1) ELSE Int64(0) END)", "sum(CASE WHEN b THEN 1 ELSE 0 END)"),
            (
                "lag(s,Utf8(\"[x]\")) ORDER BY [t.s ASC NULLS LAST] ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
                "lag(s, '[x]') OVER (ORDER BY t.s ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
            ),
            ("s = Utf8(\"count(1)\")", "s = 'count(1)'"),
            (
                "rank() PARTITION BY [t.k] ORDER BY [t.v DESC NULLS FIRST] RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
                "rank() OVER (PARTITION BY t.k ORDER BY t.v DESC)",
            ),
            (
                "sum(v) ROWS BETWEEN 3 PRECEDING AND CURRENT ROW",
                "sum(v) OVER (ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)",
            ),
        ] {
            assert_eq!(name_text(name), text);
        }
        for (line, text) in [
            ("v@1 + Float64(1.5)", "v + 1.5"),
            ("a@mail", "a@mail"),
            ("locf=[avg(m.v)@2]", "locf=[avg(m.v)]"),
            ("s@1 = 'x@1,y'", "s = 'x@1,y'"),
            ("filter=+(a@0, 1)", "filter=a + 1"),
        ] {
            assert_eq!(line_text(line), text);
        }
    }

    #[test]
    fn expressions_keep_their_parentheses() {
        use datafusion::arrow::datatypes::{DataType, Schema};
        use datafusion::physical_expr::expressions::{binary, col, is_null, lit};
        let schema =
            Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("s", DataType::Utf8View, true)]);
        let column = |name| col(name, &schema).expect("a column");
        let sum = binary(column("a"), Operator::Plus, lit(1_i64), &schema).expect("a sum");
        let product = binary(sum.clone(), Operator::Multiply, lit(2_i64), &schema).expect("a product");
        assert_eq!(expr_text(&product), "(a + 1) * 2");
        let longer = binary(sum, Operator::Plus, column("a"), &schema).expect("a sum");
        assert_eq!(expr_text(&longer), "a + 1 + a");
        let is_null = is_null(column("a")).expect("a condition");
        let compared = binary(is_null.clone(), Operator::Eq, lit(true), &schema).expect("a comparison");
        assert_eq!(expr_text(&compared), "(a IS NULL) = true");
        let both = binary(is_null, Operator::And, compared, &schema).expect("a condition");
        assert_eq!(expr_text(&both), "a IS NULL AND (a IS NULL) = true");
        let same = binary(
            column("s"),
            Operator::Eq,
            lit(ScalarValue::from("it's").cast_to(&DataType::Utf8View).expect("a text")),
            &schema,
        );
        assert_eq!(expr_text(&same.expect("a comparison")), "s = 'it''s'");
    }
}
