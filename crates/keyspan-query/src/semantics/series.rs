//! Calls of functions over time series: aggregates that another aggregate is, and arguments given by name.
//!
//! ```text
//! first(v, ts)                         first_value(v ORDER BY ts) FILTER (WHERE ts IS NOT NULL)      TimescaleDB
//! arg_max(v, x), max_by(v, x)          last_value(v ORDER BY x) FILTER (WHERE v, x IS NOT NULL)      DuckDB
//! approx_percentile(v, 0.9)            approx_percentile_cont(v, 0.9)
//! approx_percentile(0.9, percentile_agg(v))                             the same, as TimescaleDB has it
//! time_bucket('1 day', ts, timezone => 'Europe/Berlin')                 by place
//! ```

use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::functions_aggregate::{approx_percentile_cont, first_last};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Expr, ExprSchemable, SortExpr};
use datafusion::sql::sqlparser::ast;
use keyspan_model::{ColumnType, Error, ErrorKind, Value};

use super::call::{missing, types_of};
use super::cast::{argument, implicit};
use crate::types::number_rank;
use crate::types::{Ty, Zone, fail};

/// The aggregate that one of these names stands for; any other as it is.
pub fn resolved(mut function: AggregateFunction, schema: &DFSchema) -> Result<AggregateFunction> {
    let name = function.func.name().to_owned();
    if name == "approx_percentile" {
        function.func = approx_percentile_cont::approx_percentile_cont_udaf();
        return Ok(function);
    }
    let (greatest, with_nulls) = match name.as_str() {
        "first" => (false, true),
        "last" => (true, true),
        "arg_min" | "min_by" => (false, false),
        "arg_max" | "max_by" => (true, false),
        _ => return Ok(function),
    };
    let [value, by] = function.params.args.as_slice() else {
        return missing(&name, &types_of(&function.params.args, schema)?);
    };
    if !function.params.order_by.is_empty() {
        let message = format!("{name}() is ordered by its second argument, not by ORDER BY");
        return fail(Error::new(ErrorKind::Syntax, message));
    }
    let (value, by) = (value.clone(), by.clone());
    let mut counted = vec![&by];
    if !with_nulls {
        counted.push(&value);
    }
    for expr in counted {
        if expr.nullable(schema)? {
            let present = Box::new(expr.clone().is_not_null());
            let filter = function.params.filter.take();
            function.params.filter = Some(match filter {
                Some(filter) => Box::new(filter.and(*present)),
                None => present,
            });
        }
    }
    function.func = if greatest { first_last::last_value_udaf() } else { first_last::first_value_udaf() };
    function.params.order_by = vec![SortExpr::new(by, true, false)];
    function.params.args = vec![value];
    Ok(function)
}

/// The arguments of an aggregate over samples as it takes them; `None` for other functions.
pub fn arguments(name: &str, args: &[Expr], types: &[Ty]) -> Option<Result<Vec<Expr>>> {
    match name {
        "delta" | "increase" | "rate" | "irate" => Some(samples(name, args, types)),
        "histogram" => Some(histogram(args, types)),
        _ => None,
    }
}

fn samples(name: &str, args: &[Expr], types: &[Ty]) -> Result<Vec<Expr>> {
    let ([value, time], [Ty::Known(value_type), Ty::Known(time_type)]) = (args, types) else {
        return missing(name, types);
    };
    let time = match time_type {
        ColumnType::Timestamp | ColumnType::LocalTimestamp => time.clone(),
        ColumnType::Date => argument(time.clone(), *time_type, ColumnType::LocalTimestamp)?,
        _ => return missing(name, types),
    };
    match number_rank(*value_type) {
        Some(_) => Ok(vec![argument(value.clone(), *value_type, ColumnType::Double)?, time]),
        None => missing(name, types),
    }
}

fn histogram(args: &[Expr], types: &[Ty]) -> Result<Vec<Expr>> {
    let wanted = [ColumnType::Double, ColumnType::Double, ColumnType::Double, ColumnType::Int];
    let number = |ty: &Ty| match ty {
        Ty::Known(ty) => number_rank(*ty).is_some(),
        ty => *ty == Ty::Unknown,
    };
    if args.len() != wanted.len() || !types.iter().all(number) {
        return missing("histogram", types);
    }
    let each = args.iter().zip(types).zip(wanted).map(|((arg, from), to)| match from {
        Ty::Known(from) => argument(arg.clone(), *from, to),
        from => implicit(arg.clone(), from, to),
    });
    each.collect()
}

/// Whether a function is only an aggregate: 0A000 for one with OVER.
pub fn refuse_window(name: &str) -> Result<()> {
    let instead = match name {
        "first" | "arg_min" | "min_by" => "first_value(x) OVER (… ORDER BY t)",
        "last" | "arg_max" | "max_by" => "last_value(x) OVER (… ORDER BY t)",
        "approx_percentile" => "approx_percentile_cont",
        _ => return Ok(()),
    };
    let message = format!("{name}() is not supported as a window function");
    fail(Error::not_supported(message).with_hint(format!("Use {instead}.")))
}

/// Names of parameters, by place.
const NAMED: &[(&str, &[&str])] = &[
    ("time_bucket", &["bucket_width", "ts", "timezone", "origin", "offset"]),
    ("time_bucket_gapfill", &["bucket_width", "ts", "timezone", "start", "finish"]),
    ("locf", &["value", "prev", "treat_null_as_missing"]),
    ("interpolate", &["value", "prev", "next"]),
    ("make_interval", &["years", "months", "weeks", "days", "hours", "mins", "secs"]),
];

/// A call as the planner of calls knows it: arguments by place.
///
/// # Errors
/// 42883 for a name that no parameter has.
pub fn by_place(function: &mut ast::Function) -> keyspan_model::Result<()> {
    let Some((_, name)) = crate::syntax::parts_of(&function.name) else { return Ok(()) };
    let ast::FunctionArguments::List(list) = &mut function.args else { return Ok(()) };
    match name.as_str() {
        "approx_percentile" => sketched(&mut list.args),
        "interpolate" => list.args.iter_mut().for_each(record),
        "time_bucket" => offset_literal(&mut list.args),
        _ => {}
    }
    let Some((_, names)) = NAMED.iter().find(|(own, _)| *own == name) else { return Ok(()) };
    let mut placed: Vec<Option<ast::FunctionArgExpr>> = vec![None; names.len()];
    let mut plain = Vec::new();
    let mut named = false;
    for arg in std::mem::take(&mut list.args) {
        let (given, arg) = match arg {
            ast::FunctionArg::Named { name, arg, .. } => (name.value.to_lowercase(), arg),
            ast::FunctionArg::ExprNamed { name: ast::Expr::Identifier(name), arg, .. } => {
                (name.value.to_lowercase(), arg)
            }
            other => {
                plain.push(other);
                continue;
            }
        };
        named = true;
        let place = names.iter().position(|own| *own == given).ok_or_else(|| {
            let message = format!("function {name} has no argument \"{given}\"");
            Error::new(ErrorKind::UndefinedFunction, message).with_hint(format!("It has {}.", names.join(", ")))
        })?;
        placed[place] = Some(typed(&given, arg));
    }
    list.args = plain;
    if named {
        append(&mut list.args, placed, &name);
    }
    Ok(())
}

/// What is left out before or between arguments is null, but for the zone, origin and offset of buckets, which their
/// types tell apart, and 0 in an interval.
fn append(args: &mut Vec<ast::FunctionArg>, placed: Vec<Option<ast::FunctionArgExpr>>, name: &str) {
    let mut last = placed.iter().rposition(Option::is_some).unwrap_or_default();
    if name == "time_bucket_gapfill" && last > 2 {
        last = 4;
    }
    for (place, arg) in placed.into_iter().enumerate().take(last + 1).skip(args.len()) {
        let left_out = name == "time_bucket" || (name == "time_bucket_gapfill" && place == 2);
        if arg.is_none() && left_out {
            continue;
        }
        let default = match name {
            "make_interval" => ast::Value::Number("0".to_owned(), false),
            _ => ast::Value::Null,
        };
        let default = || ast::FunctionArgExpr::Expr(ast::Expr::Value(default.into()));
        args.push(ast::FunctionArg::Unnamed(arg.unwrap_or_else(default)));
    }
}

/// An offset that is a bare literal would be taken for the name of a zone.
fn typed(name: &str, arg: ast::FunctionArgExpr) -> ast::FunctionArgExpr {
    match (name, arg) {
        ("offset", ast::FunctionArgExpr::Expr(expr @ ast::Expr::Value(_))) => {
            ast::FunctionArgExpr::Expr(ast::Expr::Cast {
                kind: ast::CastKind::Cast,
                expr: Box::new(expr),
                data_type: ast::DataType::Interval { fields: None, precision: None },
                array: false,
                format: None,
            })
        }
        (_, arg) => arg,
    }
}

/// `time_bucket('1 hour', ts, '-5 minutes')`: a third argument that is a bare literal is an offset where it is no zone.
fn offset_literal(args: &mut [ast::FunctionArg]) {
    let [_, _, ast::FunctionArg::Unnamed(third)] = args else { return };
    let ast::FunctionArgExpr::Expr(ast::Expr::Value(value)) = &*third else { return };
    if let ast::Value::SingleQuotedString(text) = &value.value
        && Zone::parse(text).is_err()
        && Value::parse(text, ColumnType::Duration).is_ok()
    {
        *third = typed("offset", third.clone());
    }
}

/// `(time, value)` and `ROW(time, value)` as `struct(time, value)`.
fn record(arg: &mut ast::FunctionArg) {
    let (ast::FunctionArg::Unnamed(arg)
    | ast::FunctionArg::Named { arg, .. }
    | ast::FunctionArg::ExprNamed { arg, .. }) = arg;
    match arg {
        ast::FunctionArgExpr::Expr(ast::Expr::Tuple(parts)) => {
            *arg = ast::FunctionArgExpr::Expr(crate::syntax::call("struct", std::mem::take(parts)));
        }
        ast::FunctionArgExpr::Expr(ast::Expr::Function(row))
            if crate::syntax::parts_of(&row.name).is_some_and(|(_, name)| name == "row") =>
        {
            row.name = ast::ObjectName::from(vec![ast::Ident::new("struct")]);
        }
        _ => {}
    }
}

/// `approx_percentile(0.9, percentile_agg(v))` as `approx_percentile(v, 0.9)`.
fn sketched(args: &mut [ast::FunctionArg]) {
    let [_, ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Function(sketch)))] = args else { return };
    if crate::syntax::parts_of(&sketch.name).is_none_or(|(_, name)| name != "percentile_agg") {
        return;
    }
    let ast::FunctionArguments::List(inner) = &sketch.args else { return };
    if let [value] = inner.args.as_slice() {
        let value = value.clone();
        args[1] = value;
        args.swap(0, 1);
    }
}
