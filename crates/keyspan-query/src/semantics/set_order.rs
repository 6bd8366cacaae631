//! ORDER BY beside functions that give several rows.
//!
//! ```text
//! SELECT unnest(l) AS x FROM t ORDER BY b     SELECT x FROM (SELECT unnest(l) AS x, row_number() OVER (ORDER BY b) AS r,
//!                                               unnest(element_numbers(l)) AS n FROM t ORDER BY r, n) AS q
//! SELECT unnest(l) AS x FROM t ORDER BY b, x  SELECT x FROM (SELECT unnest(l) AS x, b AS k FROM t ORDER BY k, x) AS q
//! SELECT unnest(l) FROM t ORDER BY unnest(l)  SELECT unnest(l) FROM t ORDER BY 1
//! ```
//!
//! PostgreSQL sorts before it makes the rows where it can, so that a row's elements stay in their order. DataFusion makes
//! the rows first, does not keep the order of rows with equal keys, and finds only what is selected there. What is
//! computed anew for each row, and a `*`, are sorted as DataFusion does it.

use std::ops::ControlFlow;

use datafusion::logical_expr::Volatility;
use datafusion::sql::sqlparser::ast::{
    self, Expr, GroupByExpr, Ident, ObjectName, OrderBy, OrderByExpr, OrderByKind, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, Value,
};
use keyspan_model::{Error, Result};

use super::filled::{filled, over, parsed};
use super::json_rows;
use super::label::{label_of, named_item, value_of};
use super::relation::{lists_of, numbers};
use super::row_member::{column, column_of_query, named};
use super::subquery::makes_rows;
use crate::builtins;
use crate::syntax::{call, folded, has_subquery, parts_of, visit_own};

/// Changes a query so that it sorts by its own columns, and elements as they stand in their lists.
///
/// # Errors
/// 0A000 where it sorts by such a function that it does not select.
pub fn by_own_columns(query: &mut Query) -> Result<()> {
    let ties = query.fetch.as_ref().is_some_and(|fetch| fetch.with_ties);
    let Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) = &mut query.order_by else { return Ok(()) };
    let SetExpr::Select(select) = query.body.as_mut() else {
        return if orders.iter().any(|by| makes_rows(&by.expr)) { Err(not_selected()) } else { Ok(()) };
    };
    selected_by_place(orders, select)?;
    let sets = select.projection.iter().filter_map(value_of).any(makes_rows);
    if !sets || select.distinct.is_some() || ties || groups_by_set(select) {
        return Ok(());
    }
    let stars = select.projection.iter().any(is_star);
    let hidden = match before_rows(orders, select).filter(|_| !stars) {
        Some(keys) => number_rows(orders, keys, select)?,
        None => hide_keys(orders, select),
    };
    if !hidden.is_empty() {
        *query = without(query, hidden)?;
    }
    Ok(())
}

fn not_selected() -> Error {
    let error = Error::not_supported("ORDER BY of a function that gives several rows is not supported");
    error.with_hint("Put it into the SELECT list, and sort by its name.")
}

/// Whether groups are made of what such a function gives.
fn groups_by_set(select: &Select) -> bool {
    let GroupByExpr::Expressions(groups, _) = &select.group_by else { return true };
    let is_set = |group: &Expr| {
        makes_rows(group) || named_item(group, &select.projection).and_then(value_of).is_some_and(makes_rows)
    };
    groups.iter().any(is_set)
}

/// The query's rows without these columns, its last ones.
fn without(query: &Query, hidden: Vec<ObjectName>) -> Result<Query> {
    let labels = match query.body.as_ref() {
        SetExpr::Select(select) => select.projection.iter().map(label_of).collect::<Option<Vec<_>>>(),
        _ => None,
    };
    let Expr::Subquery(mut outer) = over("(SELECT * FROM q)", query, &[])? else { return Ok(query.clone()) };
    let SetExpr::Select(select) = outer.body.as_mut() else { return Ok(*outer) };
    let mut names = Vec::new();
    if let Some(mut labels) = labels {
        names = (0..labels.len()).map(column).collect();
        labels.truncate(labels.len() - hidden.len());
        let item = |(place, label): (usize, &String)| SelectItem::ExprWithAlias {
            expr: column_of_query(place),
            alias: Ident::with_quote('"', label),
        };
        select.projection = labels.iter().enumerate().map(item).collect();
    } else if let [SelectItem::Wildcard(options)] = select.projection.as_mut_slice() {
        options.opt_exclude = Some(ast::ExcludeSelectItem::Multiple(hidden));
    }
    select.from.iter_mut().for_each(|from| from.relation = named(query, &names));
    Ok(*outer)
}

fn is_star(item: &SelectItem) -> bool {
    value_of(item).is_none()
}

/// Names a function that gives several rows by its place in the SELECT list.
fn selected_by_place(orders: &mut [OrderByExpr], select: &Select) -> Result<()> {
    for by in orders.iter_mut().filter(|by| makes_rows(&by.expr)) {
        by.expr = place_of(&by.expr, select).ok_or_else(not_selected)?;
    }
    Ok(())
}

/// The place of an expression in the SELECT list.
fn place_of(expr: &Expr, select: &Select) -> Option<Expr> {
    let items = select.projection.iter().take_while(|item| !is_star(item));
    let place = items.filter_map(value_of).position(|own| own == expr)?;
    Some(Expr::Value(Value::Number((place + 1).to_string(), false).into()))
}

/// What is sorted by, if all of it is known before there are more rows, a window may sort by it, and nothing has another
/// value when it is computed once more.
fn before_rows(orders: &[OrderByExpr], select: &Select) -> Option<Vec<OrderByExpr>> {
    if select.projection.iter().filter_map(value_of).any(is_volatile) {
        return None;
    }
    let key = |by: &OrderByExpr| {
        let expr = match named_item(&by.expr, &select.projection) {
            Some(item) => value_of(item)?,
            None if matches!(by.expr, Expr::Value(_)) => return None,
            None => &by.expr,
        };
        let fits = !makes_rows(expr) && !has_subquery(expr) && !calls(expr, |call| call.over.is_some());
        fits.then(|| OrderByExpr { expr: expr.clone(), ..by.clone() })
    };
    orders.iter().map(key).collect()
}

fn is_volatile(expr: &Expr) -> bool {
    calls(expr, |call| {
        let overloads = parts_of(&call.name).and_then(|(_, name)| builtins::overloads(&name)).unwrap_or_default();
        overloads.iter().any(|overload| overload.volatility == Volatility::Volatile)
    })
}

fn calls(expr: &Expr, is_meant: impl Fn(&ast::Function) -> bool) -> bool {
    let found = visit_own(expr, |part| match part {
        Expr::Function(call) if is_meant(call) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Sorts by the rows' numbers in the order of these keys, then by the elements' numbers; the names of both columns.
fn number_rows(orders: &mut Vec<OrderByExpr>, keys: Vec<OrderByExpr>, select: &mut Select) -> Result<Vec<ObjectName>> {
    let mut row = parsed("row_number() OVER ()")?;
    if let Expr::Function(ast::Function { over: Some(ast::WindowType::WindowSpec(window)), .. }) = &mut row {
        window.order_by = keys;
    }
    let mut lists = Vec::new();
    let _ = visit_own(&select.projection, |part| {
        lists.extend(lists_of_set(part));
        ControlFlow::<()>::Continue(())
    });
    let mut hidden = Vec::new();
    orders.clear();
    let elements = lists.iter().map(|list| filled(&numbers("v"), &[("v", list)])).collect::<Result<Vec<_>>>()?;
    for expr in [row, call("greatest", elements)] {
        let name = hide(expr, hidden.len(), select);
        orders.push(OrderByExpr { expr: Expr::Identifier(name.clone()), options: Default::default(), with_fill: None });
        hidden.push(ObjectName::from(name));
    }
    Ok(hidden)
}

/// The lists that a call in a SELECT list makes rows of.
fn lists_of_set(call: &Expr) -> Vec<Expr> {
    let Expr::Function(function) = call else { return Vec::new() };
    if let Ok(Some(rows)) = json_rows::expanded(call) {
        return lists_of(&rows, "unnest");
    }
    parts_of(&function.name).map_or_else(Vec::new, |(_, name)| lists_of(call, &name))
}

/// Selects what is sorted by and is no output column; the names that these columns get.
fn hide_keys(orders: &mut [OrderByExpr], select: &mut Select) -> Vec<ObjectName> {
    let mut hidden = Vec::new();
    for by in orders {
        if matches!(by.expr, Expr::Value(_))
            || named_item(&by.expr, &select.projection).is_some()
            || is_in_star(&by.expr, select)
        {
            continue;
        }
        if let Some(place) = place_of(&by.expr, select) {
            by.expr = place;
            continue;
        }
        let name = hide(by.expr.clone(), hidden.len(), select);
        by.expr = Expr::Identifier(name.clone());
        hidden.push(ObjectName::from(name));
    }
    hidden
}

/// Whether it is a column that a `*` gives.
fn is_in_star(expr: &Expr, select: &Select) -> bool {
    let qualifier = match expr {
        Expr::Identifier(_) => None,
        Expr::CompoundIdentifier(path) => path.iter().rev().nth(1).map(folded),
        _ => return false,
    };
    select.projection.iter().any(|item| match item {
        SelectItem::Wildcard(_) => true,
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(table), _) => {
            qualifier.as_ref().is_none_or(|own| parts_of(table).is_some_and(|(_, table)| table == *own))
        }
        _ => false,
    })
}

/// Selects an expression under a name that no other column has.
fn hide(expr: Expr, place: usize, select: &mut Select) -> Ident {
    let name = Ident::with_quote('"', format!("\u{1}by{place}"));
    select.projection.push(SelectItem::ExprWithAlias { expr, alias: name.clone() });
    name
}
