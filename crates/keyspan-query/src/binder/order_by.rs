//! What ORDER BY names: output columns by their labels, by their places, and columns that an output column hides.
//!
//! The planner looks for a name among the output columns first, even with a table before it, and does not know labels
//! that only PostgreSQL gives. What it would not find, or find wrongly, gets a name that nothing else has.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{self, Expr, Query, SelectItem, SetExpr, Value};
use keyspan_model::{Error, ErrorKind, Result};

use super::rewrite::{Labels, MARK, bare, is_name, rename};
use crate::semantics::{self, label_of};
use crate::syntax::{folded, has_subquery, visit_own};

/// A name within an expression of ORDER BY: the table's, if it is given, and the column's.
type Within = (Option<String>, String);

/// `SELECT -a AS a … ORDER BY a + 0`, `SELECT a AS k … ORDER BY t.k`: within an expression and with a table before it, a name
/// means a column of FROM. An output column that hides it gets a name of its own.
pub fn hidden(query: &mut Query, labels: &Labels, top: bool) {
    let within = names_within(query);
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    // What is around a nested query knows its columns by their labels.
    if within.is_empty() || (!top && distinct_labels(labels).is_none()) {
        return;
    }
    for (place, (item, label)) in select.projection.iter_mut().zip(&labels.items).enumerate() {
        let Some(label) = label.as_ref().filter(|label| hides(item, label, &within)) else { continue };
        rename(item, format!("{label}{MARK}{place}"));
        if let (Some(ast::Distinct::On(exprs)), SelectItem::ExprWithAlias { alias, .. }) = (&mut select.distinct, item)
        {
            let means_item = |expr: &&mut Expr| matches!(bare(expr), Expr::Identifier(name) if folded(name) == *label);
            exprs.iter_mut().filter(means_item).for_each(|expr| *expr = Expr::Identifier(alias.clone()));
        }
    }
}

/// Gives a nested query's columns their names from outside, where [`hidden`] takes them away inside.
///
/// # Errors
/// None that a user can cause.
pub fn named_outside(query: &mut Query) -> Result<()> {
    let SetExpr::Select(select) = query.body.as_ref() else { return Ok(()) };
    let within = names_within(query);
    if within.is_empty() {
        return Ok(());
    }
    let labels = Labels { items: select.projection.iter().map(label_of).collect() };
    let Some(names) = distinct_labels(&labels) else { return Ok(()) };
    if select.projection.iter().zip(&names).any(|(item, label)| hides(item, label, &within)) {
        *query = semantics::rows_of(query, &names)?;
    }
    Ok(())
}

/// The names within what ORDER BY has besides names, and within the named windows that it may use; of subqueries only
/// those with a table, since the others may be of columns of their own.
fn names_within(query: &Query) -> BTreeSet<Within> {
    let mut names = BTreeSet::new();
    let Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(orders), .. }) = &query.order_by else { return names };
    let windows = match query.body.as_ref() {
        SetExpr::Select(select) => &select.named_window,
        _ => &Vec::new(),
    };
    for order in orders.iter().filter(|order| !matches!(bare(&order.expr), Expr::Identifier(_))) {
        let mut add = |expr: &Expr| {
            if let Expr::Identifier(name) = expr {
                names.insert((None, folded(name)));
            }
            ControlFlow::<()>::Continue(())
        };
        let mut over = false;
        let _ = visit_own(&order.expr, |expr| {
            over |= matches!(expr, Expr::Function(call) if call.over.is_some());
            add(expr)
        });
        if over {
            let _ = visit_own(windows, add);
        }
        let _ = ast::visit_expressions(&order.expr, |expr| {
            if let Expr::CompoundIdentifier(path) = expr
                && let Some((name, before)) = path.split_last()
            {
                names.insert((before.last().map(folded), folded(name)));
            }
            ControlFlow::<()>::Continue(())
        });
    }
    names
}

/// Whether an output column has the name of another column that ORDER BY names.
fn hides(item: &SelectItem, label: &str, within: &BTreeSet<Within>) -> bool {
    let (expr, given) = match item {
        SelectItem::ExprWithAlias { expr, alias } => (bare(expr), !alias.value.contains(MARK)),
        SelectItem::UnnamedExpr(expr) => (bare(expr), !is_name(bare(expr))),
        _ => return false,
    };
    let is_itself = |table: &Option<String>| match expr {
        Expr::Identifier(name) => folded(name) == label,
        Expr::CompoundIdentifier(path) => path.split_last().is_some_and(|(name, before)| {
            let own = before.last().map(folded);
            folded(name) == label && (table.is_none() || *table == own)
        }),
        _ => false,
    };
    given && within.iter().any(|(table, name)| name == label && !is_itself(table))
}

/// The labels, if none repeats and none is a `*`.
fn distinct_labels(labels: &Labels) -> Option<Vec<String>> {
    let names: Vec<String> = labels.items.iter().cloned().collect::<Option<_>>()?;
    let distinct: BTreeSet<&String> = names.iter().collect();
    (distinct.len() == names.len()).then_some(names)
}

/// `ORDER BY avg` where `avg` is only the label that Postgres gives: by position.
///
/// # Errors
/// 42702 for a name of several output columns that are not the same; 0A000 for an expression over a set operation, which
/// has no columns but its own.
pub fn labels(query: &mut Query, labels: &Labels) -> Result<()> {
    let (items, distinct): (Vec<Option<SelectItem>>, bool) = match query.body.as_ref() {
        SetExpr::Select(select) => {
            let items = select.projection.iter().cloned().map(Some).collect();
            (items, matches!(select.distinct, Some(ast::Distinct::Distinct)))
        }
        _ => (vec![None; labels.items.len()], false),
    };
    let is_set_operation = matches!(query.body.as_ref(), SetExpr::SetOperation { .. });
    let value = |item: &Option<SelectItem>| match item {
        Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => Some(bare(expr).clone()),
        _ => None,
    };
    let Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(orders), .. }) = &mut query.order_by else {
        return Ok(());
    };
    for order in orders {
        // `ORDER BY (1)` is a place, too.
        if let Expr::Value(value) = bare(&order.expr) {
            order.expr = Expr::Value(value.clone());
        }
        if is_set_operation && !matches!(bare(&order.expr), Expr::Value(_)) && !is_name(bare(&order.expr)) {
            let error = Error::not_supported("invalid UNION/INTERSECT/EXCEPT ORDER BY clause");
            return Err(error.with_hint("Add the expression to every SELECT, or move the UNION into a FROM clause."));
        }
        let Expr::Identifier(name) = bare(&order.expr) else {
            // Of different rows there is nothing to sort by but what is selected, and groups have no subqueries.
            let selected = |item: &Option<SelectItem>| value(item).is_some_and(|own| is_alike(&own, bare(&order.expr)));
            let by_place = !is_name(&order.expr) && (distinct || has_subquery(&order.expr));
            let place = items.iter().position(selected).filter(|_| by_place);
            if let Some(place) = place.filter(|place| labels.items[..*place].iter().all(Option::is_some)) {
                order.expr = Expr::Value(Value::Number((place + 1).to_string(), false).into());
            }
            continue;
        };
        let name = folded(name);
        let mut same = items.iter().zip(&labels.items).filter(|(_, label)| label.as_deref() == Some(name.as_str()));
        if let Some((first, _)) = same.next()
            && same.any(|(other, _)| !value(other).zip(value(first)).is_none_or(|(a, b)| is_same(&a, &b)))
        {
            return Err(Error::new(ErrorKind::AmbiguousColumn, format!("ORDER BY \"{name}\" is ambiguous")));
        }
        let place = labels.items.iter().position(|label| label.as_deref() == Some(name.as_str()));
        let Some(place) = place else { continue };
        let star_before = labels.items[..place].iter().any(Option::is_none);
        match &items[place] {
            Some(SelectItem::UnnamedExpr(expr)) if !is_name(expr) && !star_before => {
                order.expr = Expr::Value(Value::Number((place + 1).to_string(), false).into());
            }
            Some(SelectItem::ExprWithAlias { alias, .. }) if alias.value.contains(MARK) => {
                order.expr = Expr::Identifier(alias.clone());
            }
            _ => {}
        }
    }
    Ok(())
}

/// `ORDER BY 2` where the second item is no column: by a name of its own. The planner looks for it among GROUP BY's
/// expressions and the aggregates otherwise.
pub fn computed(query: &mut Query, labels: &Labels) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(orders), .. }) = &mut query.order_by else { return };
    for order in orders {
        let Expr::Value(value) = &order.expr else { continue };
        let Value::Number(number, _) = &value.value else { continue };
        let Some(place) = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1)) else { continue };
        let own: Option<Vec<&str>> = labels.items.iter().take(place + 1).map(Option::as_deref).collect();
        let (Some(Some(label)), Some(item)) =
            (own.map(|own| own.get(place).copied()), select.projection.get_mut(place))
        else {
            continue;
        };
        if matches!(item, SelectItem::UnnamedExpr(expr) if !is_name(bare(expr))) {
            rename(item, format!("{label}{MARK}{place}"));
        }
        if let SelectItem::ExprWithAlias { alias, .. } = item
            && alias.value.contains(MARK)
        {
            order.expr = Expr::Identifier(alias.clone());
        }
    }
}

/// Whether two expressions are one, also where only one says the table of a column.
fn is_alike(a: &Expr, b: &Expr) -> bool {
    let plain = |expr: &Expr| {
        let mut expr = expr.clone();
        let _ = ast::visit_expressions_mut(&mut expr, |part| {
            match part {
                Expr::CompoundIdentifier(path) => {
                    if let Some(last) = path.last() {
                        *part = Expr::Identifier(ast::Ident::with_quote('"', folded(last)));
                    }
                }
                Expr::Identifier(name) => *name = ast::Ident::with_quote('"', folded(name)),
                Expr::Function(function) => {
                    for name in function.name.0.iter_mut() {
                        if let ast::ObjectNamePart::Identifier(name) = name {
                            *name = ast::Ident::new(folded(name));
                        }
                    }
                }
                _ => {}
            }
            ControlFlow::<()>::Continue(())
        });
        expr
    };
    plain(a) == plain(b)
}

/// Whether two expressions are one; `t.c` and `c` may be.
fn is_same(a: &Expr, b: &Expr) -> bool {
    match (a, b) {
        (Expr::Identifier(name), Expr::CompoundIdentifier(path))
        | (Expr::CompoundIdentifier(path), Expr::Identifier(name)) => {
            path.last().is_some_and(|last| folded(last) == folded(name))
        }
        (a, b) => a == b,
    }
}
