//! What ORDER BY names: output columns by their labels, by their places, and columns that an output column hides.
//!
//! The planner looks for a name among the output columns first, even with a table before it, and does not know labels
//! that only PostgreSQL gives. What it would not find, or find wrongly, gets a name that nothing else has.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{self, Expr, Query, SelectItem, SetExpr, Value};
use keyspan_model::{Error, ErrorKind, Result};

use super::rewrite::{Labels, MARK, bare, is_name, rename};
use crate::syntax::folded;

/// `SELECT a AS k … ORDER BY t.k`: an output column that hides a column which ORDER BY names gets a name of its own.
pub fn hidden(query: &mut Query, labels: &Labels) {
    let Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(orders), .. }) = &query.order_by else { return };
    let mut named = BTreeSet::new();
    for order in orders {
        let _ = ast::visit_expressions(&order.expr, |part| {
            if let Expr::CompoundIdentifier(names) = part {
                named.extend(names.last().map(folded));
            }
            ControlFlow::<()>::Continue(())
        });
    }
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let plain = matches!(&select.group_by, ast::GroupByExpr::Expressions(groups, _) if groups.is_empty())
        && select.distinct.is_none()
        && select.having.is_none();
    if !plain || named.is_empty() {
        return;
    }
    for (place, (item, label)) in select.projection.iter_mut().zip(&labels.items).enumerate() {
        let (SelectItem::ExprWithAlias { expr, alias }, Some(label)) = (&*item, label) else { continue };
        let column = match bare(expr) {
            Expr::Identifier(name) => Some(folded(name)),
            Expr::CompoundIdentifier(names) => names.last().map(folded),
            _ => None,
        };
        if named.contains(label) && column.as_ref() != Some(label) && !alias.value.contains(MARK) {
            rename(item, format!("{label}{MARK}{place}"));
        }
    }
}

/// `ORDER BY avg` where `avg` is only the label that Postgres gives: by position.
///
/// # Errors
/// 42702 for a name of several output columns that are not the same.
pub fn labels(query: &mut Query, labels: &Labels) -> Result<()> {
    let (items, distinct): (Vec<Option<SelectItem>>, bool) = match query.body.as_ref() {
        SetExpr::Select(select) => {
            let items = select.projection.iter().cloned().map(Some).collect();
            (items, matches!(select.distinct, Some(ast::Distinct::Distinct)))
        }
        _ => (vec![None; labels.items.len()], false),
    };
    let value = |item: &Option<SelectItem>| match item {
        Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => Some(bare(expr).clone()),
        _ => None,
    };
    let Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(orders), .. }) = &mut query.order_by else {
        return Ok(());
    };
    for order in orders {
        let Expr::Identifier(name) = &order.expr else {
            // Of different rows there is nothing to sort by but what is selected.
            let selected = |item: &Option<SelectItem>| value(item).is_some_and(|own| is_alike(&own, bare(&order.expr)));
            let place = items.iter().position(selected).filter(|_| distinct && !is_name(&order.expr));
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
        let unnamed = match &items[place] {
            Some(SelectItem::UnnamedExpr(expr)) => !is_name(expr),
            Some(SelectItem::ExprWithAlias { alias, .. }) => alias.value.contains(MARK),
            _ => false,
        };
        if unnamed && !star_before {
            order.expr = Expr::Value(Value::Number((place + 1).to_string(), false).into());
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
