//! Forms of SQL that only questions about the catalog use, as forms that the planner knows.
//!
//! - `x::regclass` and its kin: an OID (`reg_oid`) inside of expressions, the name (`reg_name`) where it is printed.
//! - `OPERATOR(pg_catalog.~)`, `COLLATE`, `generate_subscripts`.
//! - A correlated subquery that looks one row up becomes an aggregate over it: only such are planned.
//! - A subquery over tables that never have a row ([`ALWAYS_EMPTY`]) is null.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, JoinOperator, ObjectName,
    Query, Select, SelectItem, SetExpr, TableFactor, Value, VisitMut, VisitorMut,
};

use keyspan_model::{Error, Result};

use super::lookup;
use super::session_rows::ALWAYS_EMPTY;
use crate::functions::has_aggregate;
use crate::syntax::{call, has_groups, has_subquery, parts_of};

/// Changes a query; called after its columns have their labels and before places are marked.
///
/// # Errors
/// 0A000 for a collation other than that of bytes.
pub fn rewrite_query(query: &mut Query) -> Result<()> {
    match query.visit(&mut Rewriter) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Rewriter;

impl VisitorMut for Rewriter {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let mut bodies = vec![query.body.as_mut()];
        while let Some(body) = bodies.pop() {
            match body {
                SetExpr::Select(select) => self::select(select),
                SetExpr::SetOperation { left, right, .. } => bodies.extend([left.as_mut(), right.as_mut()]),
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if let Expr::Collate { collation, .. } = expr
            && !orders_by_bytes(collation)
        {
            return ControlFlow::Break(unknown_collation(collation));
        }
        let own = std::mem::replace(expr, null());
        *expr = expression(own);
        ControlFlow::Continue(())
    }
}

/// As [`rewrite_query`], for an expression without a query.
///
/// # Errors
/// As [`rewrite_query`].
pub fn rewrite_expression(expression: &mut Expr) -> Result<()> {
    match expression.visit(&mut Rewriter) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Whether a collation is how texts are ordered anyway: by their bytes.
fn orders_by_bytes(collation: &ObjectName) -> bool {
    let Some((schema, name)) = parts_of(collation) else { return false };
    let known = ["C", "POSIX", "default", "ucs_basic"].contains(&name.as_str());
    known && schema.is_none_or(|schema| schema == "pg_catalog")
}

fn unknown_collation(collation: &ObjectName) -> Error {
    let message = format!("collation {collation} is not supported: text is ordered by its bytes");
    Error::not_supported(message).with_hint("Leave COLLATE out, or write COLLATE \"C\".")
}

/// NULL.
pub fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

fn text(value: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(value.to_owned()).into())
}

fn select(select: &mut Select) {
    for table in &mut select.from {
        unqualified(&mut table.relation);
        table.joins.iter_mut().for_each(|join| unqualified(&mut join.relation));
    }
    let nothing = is_empty(select);
    for item in &mut select.projection {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { continue };
        if nothing && has_subquery(expr) {
            *expr = null();
        }
        if let Some(printed) = printed(expr) {
            *expr = printed;
        }
    }
}

/// `pg_catalog.generate_series(…)` in FROM.
fn unqualified(factor: &mut TableFactor) {
    let (TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. }) = factor else { return };
    if let [schema, function] = name.0.as_slice()
        && schema.as_ident().is_some_and(|schema| schema.value.eq_ignore_ascii_case("pg_catalog"))
    {
        *name = ObjectName(vec![function.clone()]);
    }
}

/// Whether a SELECT gives no row whatever there is: it has no aggregates and reads a table that never has a row.
pub fn is_empty(select: &Select) -> bool {
    if has_groups(select) || select.having.is_some() || select.projection.iter().any(has_aggregate) {
        return false;
    }
    let empty = |factor: &TableFactor| match factor {
        TableFactor::Table { name, args: None, .. } => parts_of(name).is_some_and(|(schema, name)| {
            schema.is_none_or(|schema| schema == "pg_catalog") && ALWAYS_EMPTY.contains(&name.as_str())
        }),
        _ => false,
    };
    let inner = |join: &ast::Join| matches!(join.join_operator, JoinOperator::Join(_) | JoinOperator::Inner(_));
    let plain = |join: &ast::Join| {
        inner(join) || matches!(join.join_operator, JoinOperator::Left(_) | JoinOperator::LeftOuter(_))
    };
    select.from.iter().any(|table| {
        let all_plain = table.joins.iter().all(plain);
        all_plain && (empty(&table.relation) || table.joins.iter().any(|join| inner(join) && empty(&join.relation)))
    })
}

/// The kind of a `reg…` type.
fn reg_kind(data_type: &DataType) -> Option<&'static str> {
    let name = data_type.to_string().to_lowercase();
    let name = name.strip_prefix("pg_catalog.").unwrap_or(&name).to_owned();
    ["regclass", "regtype", "regnamespace", "regrole", "regproc", "regprocedure"].into_iter().find(|kind| *kind == name)
}

fn is_text(data_type: &DataType) -> bool {
    let name = data_type.to_string().to_lowercase();
    matches!(name.strip_prefix("pg_catalog.").unwrap_or(&name), "text" | "varchar" | "character varying" | "name")
}

/// An output column of a `reg…` type, by name.
fn printed(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Cast { expr, data_type, array: false, .. } => {
            let kind = reg_kind(data_type).filter(|kind| *kind != "regproc")?;
            Some(call("reg_name", vec![text(kind), expr.as_ref().clone()]))
        }
        Expr::Function(function) => {
            let (_, name) = parts_of(&function.name)?;
            let kind = ["regclass", "regtype", "regnamespace", "regrole"]
                .into_iter()
                .find(|kind| name == format!("to_{kind}"))?;
            Some(call("reg_name", vec![text(kind), expr.clone()]))
        }
        _ => None,
    }
}

fn expression(expr: Expr) -> Expr {
    match expr {
        Expr::Cast { kind, expr, data_type, array: false, format } => cast(kind, *expr, data_type, format),
        Expr::Cast { kind, expr, data_type, array: true, format } => {
            // SQL's `x AS text ARRAY`.
            let list = ast::ArrayElemTypeDef::SquareBracket(Box::new(data_type), None);
            cast(kind, *expr, DataType::Array(list), format)
        }
        Expr::Collate { expr, .. } => expression(*expr),
        Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right } if toast_options(&right) => expression(*left),
        Expr::BinaryOp { left, op, right } => match operator(op) {
            BinaryOperator::Eq if is_oid(&left) && holds_function(&right) => {
                equal(left, Box::new(call("reg_oid", vec![text("regproc"), *right])))
            }
            BinaryOperator::Eq if holds_function(&left) && is_oid(&right) => {
                equal(Box::new(call("reg_oid", vec![text("regproc"), *left])), right)
            }
            // ADBC: `typreceive <> 0`.
            op @ (BinaryOperator::Eq | BinaryOperator::NotEq) if holds_function(&left) && is_zero(&right) => {
                Expr::BinaryOp { left, op, right: Box::new(text("-")) }
            }
            // ActiveRecord: `typinput = 'array_in(cstring,oid)'::regprocedure`.
            BinaryOperator::Eq if holds_function(&left) => match *right {
                Expr::Cast { expr, data_type, array: false, .. } if reg_kind(&data_type) == Some("regprocedure") => {
                    equal(left, Box::new(call("reg_proc", vec![*expr])))
                }
                right => equal(left, Box::new(right)),
            },
            op => Expr::BinaryOp { left, op, right },
        },
        Expr::Subquery(query) => lookup::scalar(query),
        Expr::Function(function) => self::function(function),
        other => other,
    }
}

fn equal(left: Box<Expr>, right: Box<Expr>) -> Expr {
    Expr::BinaryOp { left, op: BinaryOperator::Eq, right }
}

/// Whether it is a column `oid`.
fn is_oid(expr: &Expr) -> bool {
    column_name(expr).is_some_and(|name| name == "oid")
}

/// Whether it is one of the columns of `pg_type` that hold names of functions.
fn holds_function(expr: &Expr) -> bool {
    column_name(expr).is_some_and(|name| matches!(name, "typinput" | "typoutput" | "typreceive" | "typsend"))
}

fn is_zero(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(&value.value, Value::Number(digits, _) if *digits == "0"))
}

fn column_name(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Identifier(name) => Some(&name.value),
        Expr::CompoundIdentifier(parts) => parts.last().map(|name| name.value.as_str()),
        _ => None,
    }
}

fn cast(kind: ast::CastKind, expr: Expr, data_type: DataType, format: Option<ast::CastFormat>) -> Expr {
    match reg_kind(&data_type) {
        // Columns of this type hold names.
        Some("regproc") => return call("reg_proc", vec![expr]),
        Some(kind) => return call("reg_oid", vec![text(kind), expr]),
        None => {}
    }
    if let (Expr::Function(function), "oid" | "pg_catalog.oid") = (&expr, data_type.to_string().to_lowercase().as_str())
        && parts_of(&function.name).is_some_and(|(_, name)| name == "reg_proc")
        && let FunctionArguments::List(list) = &function.args
        && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(name))] = list.args.as_slice()
    {
        return call("reg_oid", vec![text("regproc"), name.clone()]);
    }
    if is_text(&data_type)
        && let Some(printed) = printed(&expr)
    {
        return printed;
    }
    let data_type = match data_type {
        DataType::Array(ast::ArrayElemTypeDef::SquareBracket(element, size)) => {
            let element = Box::new(element_type(*element));
            DataType::Array(ast::ArrayElemTypeDef::SquareBracket(element, size))
        }
        other => other,
    };
    Expr::Cast { kind, expr: Box::new(expr), data_type, array: false, format }
}

/// Types of list elements that only Postgres' catalog has.
fn element_type(data_type: DataType) -> DataType {
    let name = data_type.to_string().to_lowercase();
    match name.strip_prefix("pg_catalog.").unwrap_or(&name) {
        "oid" | "regclass" | "regtype" => DataType::BigInt(None),
        "int2" => DataType::SmallInt(None),
        "int4" => DataType::Int(None),
        "int8" => DataType::BigInt(None),
        "text" | "name" | "varchar" | "\"char\"" => DataType::Text,
        _ => data_type,
    }
}

/// `OPERATOR(pg_catalog.~)`.
fn operator(op: BinaryOperator) -> BinaryOperator {
    let BinaryOperator::PGCustomBinaryOperator(parts) = &op else { return op };
    match parts.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["pg_catalog", symbol] => match *symbol {
            "~" => BinaryOperator::PGRegexMatch,
            "~*" => BinaryOperator::PGRegexIMatch,
            "!~" => BinaryOperator::PGRegexNotMatch,
            "!~*" => BinaryOperator::PGRegexNotIMatch,
            "~~" => BinaryOperator::PGLikeMatch,
            "!~~" => BinaryOperator::PGNotLikeMatch,
            "=" => BinaryOperator::Eq,
            "<>" => BinaryOperator::NotEq,
            "<" => BinaryOperator::Lt,
            "<=" => BinaryOperator::LtEq,
            ">" => BinaryOperator::Gt,
            ">=" => BinaryOperator::GtEq,
            "||" => BinaryOperator::StringConcat,
            "+" => BinaryOperator::Plus,
            "-" => BinaryOperator::Minus,
            _ => op,
        },
        _ => op,
    }
}

/// Types that are cast to by a call: `date(now())`.
const CASTS: [&str; 10] =
    ["date", "timestamptz", "text", "int2", "int4", "int8", "float4", "float8", "numeric", "bool"];

fn function(mut function: ast::Function) -> Expr {
    let name = parts_of(&function.name).map(|(_, name)| name).unwrap_or_default();
    match (name.as_str(), &mut function.args) {
        ("array", FunctionArguments::Subquery(query)) => match lookup::list(query) {
            Some(list) => list,
            None => Expr::Function(function),
        },
        ("generate_subscripts", FunctionArguments::List(list)) => match list.args.as_slice() {
            [
                FunctionArg::Unnamed(FunctionArgExpr::Expr(list)),
                FunctionArg::Unnamed(FunctionArgExpr::Expr(dimension)),
            ] => subscripts(list, dimension),
            _ => Expr::Function(function),
        },
        // A cast as a call.
        (name, FunctionArguments::List(list)) if CASTS.contains(&name) => match list.args.as_slice() {
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(value))] => {
                let ty = DataType::Custom(ast::Ident::new(name).into(), Vec::new());
                cast(ast::CastKind::Cast, value.clone(), ty, None)
            }
            _ => Expr::Function(function),
        },
        // Tables have no partitions of PostgreSQL's kind.
        ("pg_partition_ancestors", _) => call("unnest", vec![no_oids()]),
        _ => Expr::Function(function),
    }
}

fn no_oids() -> Expr {
    Expr::Cast {
        kind: ast::CastKind::Cast,
        expr: Box::new(text("{}")),
        data_type: DataType::Array(ast::ArrayElemTypeDef::SquareBracket(Box::new(DataType::BigInt(None)), None)),
        array: false,
        format: None,
    }
}

/// The subscripts of a list, one per row.
fn subscripts(list: &Expr, dimension: &Expr) -> Expr {
    let bound = |name: &str| Expr::Cast {
        kind: ast::CastKind::Cast,
        expr: Box::new(call(name, vec![list.clone(), dimension.clone()])),
        data_type: DataType::BigInt(None),
        array: false,
        format: None,
    };
    call("unnest", vec![call("generate_series", vec![bound("array_lower"), bound("array_upper")])])
}

/// psql's `array(select 'toast.' || x from unnest(tc.reloptions) x)`: there are no TOAST tables.
fn toast_options(expr: &Expr) -> bool {
    let Expr::Function(function) = expr else { return false };
    let FunctionArguments::Subquery(query) = &function.args else { return false };
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    let [from] = select.from.as_slice() else { return false };
    let written = from.relation.to_string().to_lowercase();
    written.contains("unnest(tc.reloptions)")
}
