//! Functions as relations, and the one whose rows have two columns.
//!
//! ```text
//! FROM f(x) AS a                      FROM LATERAL (SELECT f(x) AS a) AS a    where f gives one value
//! FROM unnest(t.list) AS a            FROM LATERAL (SELECT unnest(t.list) AS a) AS a
//! FROM generate_series(1, t.n) AS a   FROM LATERAL (SELECT unnest(generate_series_list(1, t.n)) AS a) AS a
//! FROM f(x) WITH ORDINALITY AS a      FROM LATERAL (SELECT f(x) AS a, … AS ordinality) AS a
//! FROM f(x) AS a(c)                   FROM (SELECT f(x) AS f) AS a(c)
//! _pg_expandarray(list)               unnest(numbered_elements(list))
//! FROM _pg_expandarray(list) AS a     FROM (SELECT (e).x, (e).n FROM (SELECT _pg_expandarray(list) AS e) AS e) AS a
//! ```

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArguments, Ident, Query, SelectItem, SetExpr, TableAlias, TableFactor,
};
use keyspan_model::{Error, Result};

use super::filled::{filled, parsed};
use super::json_rows;
use crate::family::{ARGUMENTS, CELLS, HISTORY};
use crate::functions::expand::{NUMBERED, NUMBERS};
use crate::functions::pattern::{MATCHES, SPLIT};
use crate::functions::series::AS_LIST;
use crate::syntax::{call, change_own, folded, parts_of, visit_own};

/// The function of `information_schema`, which is found by its whole name only.
const EXPAND: (&str, &str) = ("information_schema", "_pg_expandarray");

/// Functions that are relations by themselves: of DataFusion, the cells of a family, and `generate_series` of constants.
const TABLE_FUNCTIONS: [&str; 5] = ["generate_series", "range", "pg_get_keywords", CELLS, HISTORY];

/// Functions that give several rows, and the list that has them.
const SETS: [(&str, &str); 3] =
    [("regexp_matches", MATCHES), ("regexp_split_to_table", SPLIT), ("string_to_table", "string_to_array")];

/// `information_schema._pg_expandarray(list)` or another set as a call that may stand in a SELECT list.
pub fn expanded(expr: &Expr) -> Option<Expr> {
    let Expr::Function(function) = expr else { return None };
    let (schema, name) = parts_of(&function.name)?;
    let FunctionArguments::List(list) = &function.args else { return None };
    let inner = match schema.as_deref() {
        Some(schema) if (schema, name.as_str()) == EXPAND => NUMBERED,
        None | Some("pg_catalog") => SETS.iter().find(|(set, _)| *set == name)?.1,
        _ => return None,
    };
    let mut inner = call(inner, Vec::new());
    if let Expr::Function(ast::Function { args: FunctionArguments::List(args), .. }) = &mut inner {
        args.args.clone_from(&list.args);
    }
    Some(call("unnest", vec![inner]))
}

/// Makes a subquery of a function in FROM that is no table function. It may use columns of what stands before it.
///
/// # Errors
/// None that a user can cause.
pub fn of_function(factor: &mut TableFactor) -> Result<()> {
    if versions(factor)? {
        return Ok(());
    }
    let (value, function, numbered, alias) = match factor {
        TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } => {
            (written(name, &args.args), name.clone(), *with_ordinality, alias)
        }
        TableFactor::Function { name, alias, args, with_ordinality, .. } => {
            (written(name, args), name.clone(), *with_ordinality, alias)
        }
        TableFactor::UNNEST { alias, array_exprs, with_offset: false, with_ordinality, .. } => {
            (call("unnest", array_exprs.clone()), Ident::new("unnest").into(), *with_ordinality, alias)
        }
        _ => return Ok(()),
    };
    let Some((schema, function)) = parts_of(&function) else { return Ok(()) };
    if TABLE_FUNCTIONS.contains(&function.as_str()) && !numbered && is_constant(&value) {
        return Ok(());
    }
    if let Some(subquery) = json_rows::relation(&value, numbered, alias)? {
        let shown = Ident::with_quote('"', function);
        let alias = alias.take().unwrap_or(TableAlias { explicit: true, name: shown, columns: Vec::new(), at: None });
        *factor = TableFactor::Derived { lateral: true, subquery, alias: Some(alias), sample: None };
        return Ok(());
    }
    let expands = schema.as_deref() == Some(EXPAND.0) && function == EXPAND.1;
    let shown = alias.as_ref().map_or_else(|| Ident::with_quote('"', function.clone()), |alias| alias.name.clone());
    let text = if expands { "(SELECT (e).x AS x, (e).n AS n FROM (SELECT v AS e) AS e)" } else { "(SELECT v AS c)" };
    let lists = lists_of(&value, &function);
    let value = series(&value).unwrap_or(value);
    let Expr::Subquery(mut subquery) = filled(text, &[("v", &value)])? else { return Ok(()) };
    if !expands {
        columns(&mut subquery, &shown, value, lists, numbered)?;
    }
    let mut alias = alias.take().unwrap_or(TableAlias { explicit: true, name: shown, columns: Vec::new(), at: None });
    if numbered && alias.columns.len() == 1 {
        alias.columns.push(ast::TableAliasColumnDef { name: Ident::new(ORDINALITY), data_type: None });
    }
    *factor = TableFactor::Derived { lateral: true, subquery, alias: Some(alias), sample: None };
    Ok(())
}

/// Makes a call of [`HISTORY`] of `table(argument => value, …)`; false for anything else.
///
/// # Errors
/// 0A000 for values that are no constants.
fn versions(factor: &mut TableFactor) -> Result<bool> {
    let TableFactor::Table { name, alias, args: Some(args), .. } = factor else { return Ok(false) };
    let named = |arg: &FunctionArg| match arg {
        FunctionArg::Named { name, arg: ast::FunctionArgExpr::Expr(value), .. }
        | FunctionArg::ExprNamed { name: Expr::Identifier(name), arg: ast::FunctionArgExpr::Expr(value), .. } => {
            Some((folded(name), value.clone()))
        }
        _ => None,
    };
    let Some(given) = args.args.iter().map(named).collect::<Option<Vec<_>>>() else { return Ok(false) };
    let Some((schema, table)) = parts_of(name) else { return Ok(false) };
    if !given.iter().any(|(name, _)| ARGUMENTS.contains(&name.as_str())) {
        return Ok(false);
    }
    let text = |text: String| {
        let value = Expr::Value(ast::Value::SingleQuotedString(text).into());
        FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(value))
    };
    let shown = Ident::with_quote('"', table.clone());
    args.args = vec![text(schema.unwrap_or_default()), text(table)];
    for (name, value) in given {
        let Some(value) = constant_text(&value) else {
            let error = Error::not_supported(format!("the argument {name} of a table must be a constant"));
            return Err(error.with_hint("Write FROM cells('table', 'family') WHERE written_at <= …."));
        };
        args.args.extend([text(name), text(value)]);
    }
    *name = Ident::new(HISTORY).into();
    alias.get_or_insert(TableAlias { explicit: true, name: shown, columns: Vec::new(), at: None });
    Ok(true)
}

/// The text of a literal, perhaps with its type.
fn constant_text(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(text) | ast::Value::Number(text, _) => Some(text.clone()),
            ast::Value::Boolean(value) => Some(value.to_string()),
            _ => None,
        },
        Expr::Cast { expr, .. } | Expr::Nested(expr) => constant_text(expr),
        Expr::TypedString(typed) => constant_text(&Expr::Value(typed.value.clone())),
        _ => None,
    }
}

/// What WITH ORDINALITY calls its column.
pub(super) const ORDINALITY: &str = "ordinality";

/// A list's elements counted from 1, each in a row of its own. `list` is SQL.
pub(super) fn numbers(list: &str) -> String {
    format!("unnest({NUMBERS}({list}))")
}

/// The lists that a call makes rows of.
pub(super) fn lists_of(value: &Expr, function: &str) -> Vec<Expr> {
    match (series(value), value) {
        (Some(Expr::Function(unnest)), _) => arguments(&unnest),
        (_, Expr::Function(unnest)) if function == "unnest" => arguments(unnest),
        _ => match expanded(value) {
            Some(Expr::Function(unnest)) => arguments(&unnest),
            _ => Vec::new(),
        },
    }
}

fn arguments(function: &ast::Function) -> Vec<Expr> {
    let FunctionArguments::List(list) = &function.args else { return Vec::new() };
    let plain = list.args.iter().filter_map(|arg| match arg {
        FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    plain.collect()
}

/// The SELECT list of a function in FROM: its value, or each of its lists, and their numbers.
fn columns(subquery: &mut Query, name: &Ident, value: Expr, lists: Vec<Expr>, numbered: bool) -> Result<()> {
    let SetExpr::Select(select) = subquery.body.as_mut() else { return Ok(()) };
    let mut items = match lists.as_slice() {
        [] | [_] => vec![(value, name.clone())],
        several => {
            let named =
                |at: usize| Ident::with_quote('"', if at == 0 { "unnest".into() } else { format!("unnest_{at}") });
            several.iter().enumerate().map(|(at, list)| (call("unnest", vec![list.clone()]), named(at))).collect()
        }
    };
    if numbered {
        let numbers = match lists.as_slice() {
            [] => parsed("1::bigint")?,
            [list] => filled(&numbers("v"), &[("v", list)])?,
            several => {
                let lengths = several.iter().map(|list| call("cardinality", vec![list.clone()])).collect();
                let longest = call("greatest", lengths);
                filled(&format!("unnest({AS_LIST}(1::bigint, v::bigint))"), &[("v", &longest)])?
            }
        };
        items.push((numbers, Ident::new(ORDINALITY)));
    }
    let item = |(expr, alias)| SelectItem::ExprWithAlias { expr, alias };
    select.projection = items.into_iter().map(item).collect();
    Ok(())
}

/// Takes the constant lists that a SELECT without FROM makes rows of from a subquery in FROM. DataFusion tells the lists of
/// one SELECT list apart by how they print, and `{NULL}` prints like `{""}`.
pub fn lists_apart(select: &mut ast::Select) -> Result<()> {
    let mut count = 0;
    let _ = visit_own(&select.projection, |part| {
        count += usize::from(is_constant_list(part));
        ControlFlow::<()>::Continue(())
    });
    if count < 2 || !select.from.is_empty() {
        return Ok(());
    }
    let mut lists = Vec::new();
    change_own(&mut select.projection, |part| {
        if is_constant_list(part) {
            let named = call("unnest", vec![Expr::Identifier(list_name(lists.len()))]);
            if let Expr::Function(unnest) = std::mem::replace(part, named) {
                lists.extend(arguments(&unnest));
            }
        }
        Ok(())
    })?;
    from_lists(select, lists)
}

/// Whether it makes rows of one constant list.
fn is_constant_list(expr: &Expr) -> bool {
    let Expr::Function(function) = expr else { return false };
    let is_unnest = parts_of(&function.name).is_some_and(|(_, name)| name == "unnest");
    is_unnest && matches!(arguments(function).as_slice(), [list] if !depends_on_row(list))
}

fn list_name(place: usize) -> Ident {
    Ident::with_quote('"', format!("list_{place}"))
}

/// Gives a SELECT a FROM whose columns are these lists, called by [`list_name`].
fn from_lists(select: &mut ast::Select, lists: Vec<Expr>) -> Result<()> {
    let Expr::Subquery(mut subquery) = parsed("(SELECT 1)")? else { return Ok(()) };
    if let SetExpr::Select(inner) = subquery.body.as_mut() {
        let item = |(place, expr)| SelectItem::ExprWithAlias { expr, alias: list_name(place) };
        inner.projection = lists.into_iter().enumerate().map(item).collect();
    }
    let alias = TableAlias { explicit: true, name: Ident::new("lists"), columns: Vec::new(), at: None };
    let relation = TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None };
    select.from = vec![ast::TableWithJoins { relation, joins: Vec::new() }];
    Ok(())
}

/// Whether an expression names a column or has a subquery.
fn depends_on_row(expr: &Expr) -> bool {
    any_part(expr, |part| {
        matches!(
            part,
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::CompoundFieldAccess { .. } | Expr::Subquery(_)
        )
    })
}

fn any_part(expr: &Expr, is_meant: impl Fn(&Expr) -> bool) -> bool {
    let visited = ast::visit_expressions(expr, |part| match is_meant(part) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    visited.is_break()
}

/// `generate_series(…)` as rows: `unnest` of a list.
pub fn series(expr: &Expr) -> Option<Expr> {
    let Expr::Function(function) = expr else { return None };
    let (_, name) = parts_of(&function.name)?;
    if name != "generate_series" || function.over.is_some() {
        return None;
    }
    let list = ast::Function { name: Ident::new(AS_LIST).into(), ..function.clone() };
    Some(call("unnest", vec![Expr::Function(list)]))
}

/// Whether a value is known before the statement runs.
fn is_constant(expr: &Expr) -> bool {
    let placeholder =
        |part: &Expr| matches!(part, Expr::Value(value) if matches!(value.value, ast::Value::Placeholder(_)));
    !depends_on_row(expr) && !any_part(expr, placeholder)
}

fn written(name: &ast::ObjectName, args: &[FunctionArg]) -> Expr {
    let mut value = call("", Vec::new());
    if let Expr::Function(function) = &mut value {
        function.name = name.clone();
        if let FunctionArguments::List(list) = &mut function.args {
            list.args = args.to_vec();
        }
    }
    value
}
