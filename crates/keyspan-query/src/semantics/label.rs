//! The names Postgres gives to output columns: `avg`, `case`, `?column?`.

use crate::syntax::folded;
use datafusion::sql::sqlparser::ast::{AccessExpr, DataType, Expr, SelectItem, SetExpr, TrimWhereField, Value};

/// The label of an expression without an alias, as Postgres' `FigureColname` gives it.
pub fn label(expr: &Expr) -> String {
    match figure(expr) {
        Some(Figure::Firm(name) | Figure::Weak(name)) => name,
        None => label_of_nothing(),
    }
}

/// The label of an output column; `None`: of those of a `*`.
pub fn label_of(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(expr) => Some(label(expr)),
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        _ => None,
    }
}

/// The expression of an output column; `None` for a `*`.
pub fn value_of(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// The output column that ORDER BY or GROUP BY names, by its label or its place; `None` for a place behind a `*`.
pub fn named_item<'a>(by: &Expr, items: &'a [SelectItem]) -> Option<&'a SelectItem> {
    match by {
        Expr::Identifier(name) => items.iter().find(|item| label_of(item).as_ref() == Some(&folded(name))),
        Expr::Value(value) => {
            let Value::Number(place, _) = &value.value else { return None };
            let place = place.parse::<usize>().ok()?.checked_sub(1)?;
            items.get(place).filter(|_| items[..place].iter().all(|item| value_of(item).is_some()))
        }
        _ => None,
    }
}

/// A name, and whether a cast or CASE around it keeps it.
enum Figure {
    Firm(String),
    Weak(String),
}

fn firm(name: impl Into<String>) -> Option<Figure> {
    Some(Figure::Firm(name.into()))
}

fn figure(expr: &Expr) -> Option<Figure> {
    match expr {
        Expr::Identifier(name) => firm(folded(name)),
        Expr::CompoundIdentifier(names) => firm(folded(names.last()?)),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                AccessExpr::Dot(Expr::Identifier(name)) => Some(folded(name)),
                _ => None,
            });
            field.map_or_else(|| figure(root), firm)
        }
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => figure(inner),
        Expr::Function(function) => firm(folded(function.name.0.last()?.as_ident()?)),
        Expr::Cast { expr, data_type, .. } => plain_name(figure(expr), || type_label(data_type)),
        Expr::TypedString(typed) => Some(Figure::Weak(type_label(&typed.data_type))),
        Expr::Interval(_) => Some(Figure::Weak("interval".into())),
        Expr::Case { else_result, .. } => {
            plain_name(else_result.as_ref().and_then(|expr| figure(expr)), || "case".into())
        }
        Expr::Subquery(query) => firm(of_rows(&query.body)),
        Expr::Exists { negated: false, .. } => firm("exists"),
        Expr::Extract { .. } => firm("extract"),
        Expr::Substring { shorthand, .. } => firm(if *shorthand { "substr" } else { "substring" }),
        Expr::Trim { trim_where, .. } => firm(match trim_where {
            Some(TrimWhereField::Leading) => "ltrim",
            Some(TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        }),
        Expr::Position { .. } => firm("position"),
        Expr::Overlay { .. } => firm("overlay"),
        Expr::Ceil { .. } => firm("ceil"),
        Expr::Floor { .. } => firm("floor"),
        Expr::AtTimeZone { .. } => firm("timezone"),
        Expr::Array(_) => firm("array"),
        Expr::Tuple(_) => firm("row"),
        _ => None,
    }
}

fn plain_name(inner: Option<Figure>, other: impl FnOnce() -> String) -> Option<Figure> {
    match inner {
        Some(Figure::Firm(name)) => Some(Figure::Firm(name)),
        _ => Some(Figure::Weak(other())),
    }
}

/// The name of the first column, as which a scalar subquery is called.
fn of_rows(rows: &SetExpr) -> String {
    match rows {
        SetExpr::Select(select) => match select.projection.first() {
            Some(SelectItem::UnnamedExpr(expr)) => label(expr),
            Some(SelectItem::ExprWithAlias { alias, .. }) => folded(alias),
            _ => label_of_nothing(),
        },
        SetExpr::Query(query) => of_rows(&query.body),
        SetExpr::SetOperation { left, .. } => of_rows(left),
        _ => label_of_nothing(),
    }
}

fn label_of_nothing() -> String {
    "?column?".into()
}

/// The type's short name in Postgres, which is not the one that SQL prefers.
fn type_label(data_type: &DataType) -> String {
    let name = data_type.to_string().to_lowercase();
    // An array is called as its elements are.
    let name = name.trim_matches('"').split('[').next().unwrap_or_default();
    let (base, rest) = name.split_once('(').unwrap_or((name, ""));
    let base = base.trim().rsplit('.').next().unwrap_or_default();
    let suffix = rest.split_once(')').map_or("", |(_, suffix)| suffix.trim());
    match base {
        "int" | "integer" => "int4",
        "bigint" => "int8",
        "smallint" => "int2",
        "double precision" | "double" | "float" => "float8",
        "real" => "float4",
        "boolean" => "bool",
        "decimal" | "dec" => "numeric",
        "character varying" => "varchar",
        "char" | "character" => "bpchar",
        "blob" => "bytea",
        "timestamp with time zone" => "timestamptz",
        "timestamp without time zone" => "timestamp",
        "timestamp" if suffix == "with time zone" => "timestamptz",
        "time without time zone" => "time",
        other => other,
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::expression;

    /// As PostgreSQL 15 labels them.
    const LABELS: &[(&str, &str)] = &[
        ("1 + 1", "?column?"),
        ("true", "?column?"),
        ("count(*)", "count"),
        ("coalesce(1, 2)", "coalesce"),
        ("CASE WHEN true THEN 1 END", "case"),
        ("CASE WHEN true THEN 1 ELSE x.a END", "a"),
        ("CASE WHEN true THEN 1 ELSE 2::int END", "case"),
        ("1::int", "int4"),
        ("1::bigint", "int8"),
        ("1::numeric(10,2)", "numeric"),
        ("1::double precision", "float8"),
        ("'x'::varchar(3)", "varchar"),
        ("'x'::char(3)", "bpchar"),
        ("'2024-01-01'::timestamptz", "timestamptz"),
        ("'2024-01-01'::timestamp without time zone", "timestamp"),
        ("(x.a)::text", "a"),
        ("CAST(1 AS text)", "text"),
        ("date '2024-01-01'", "date"),
        ("interval '1 day'", "interval"),
        ("current_timestamp", "current_timestamp"),
        ("extract(year from now())", "extract"),
        ("position('a' in 'b')", "position"),
        ("trim('x')", "btrim"),
        ("trim(leading 'x' from 'y')", "ltrim"),
        ("now() AT TIME ZONE 'UTC'", "timezone"),
        ("EXISTS (SELECT 1)", "exists"),
        ("(SELECT 1)", "?column?"),
        ("(SELECT a FROM x UNION SELECT 2)", "a"),
        ("CASE WHEN true THEN 1 ELSE (SELECT 1 + 1) END", "?column?"),
        ("(SELECT 1 + 1)::int", "?column?"),
        ("(SELECT '1'::int)::text", "int4"),
        ("substr('abc', 2)", "substr"),
        ("substring('abc', 2)", "substring"),
        ("substring('abc' from 2)", "substring"),
        ("(SELECT max(y) FROM z)", "max"),
        ("ARRAY[1]", "array"),
        ("(1, 2)", "row"),
        ("pg_catalog.upper('x')", "upper"),
        ("j -> 'a'", "?column?"),
        ("x.a COLLATE \"C\"", "a"),
    ];

    #[test]
    fn labels_are_those_of_postgres() {
        for (sql, wanted) in LABELS {
            assert_eq!(label(&expression(sql)), *wanted, "{sql}");
        }
    }
}
