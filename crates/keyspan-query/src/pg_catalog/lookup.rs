//! Subqueries on system tables: those that look up one row, and those that can find none.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, FunctionArguments, Query, Select, SelectItem, SetExpr, TableFactor, Visit, VisitMut,
    Visitor, VisitorMut,
};

use super::definition;
use super::rewrite::{is_empty, null};
use crate::functions::has_aggregate;
use crate::syntax::{call, has_groups, parts_of, relations};

/// `ARRAY(SELECT …)` as a list, if the SELECT can give no row.
pub fn list(query: &Query) -> Option<Expr> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    // The empty list of texts has no literal here.
    let text = || Expr::Value(ast::Value::SingleQuotedString(String::new()).into());
    let one = Expr::Array(ast::Array { elem: vec![text()], named: true });
    is_empty(select).then(|| call("array_remove", vec![one, text()]))
}

/// A subquery that is a value.
pub fn scalar(mut query: Box<Query>) -> Expr {
    let SetExpr::Select(select) = query.body.as_mut() else { return Expr::Subquery(query) };
    if is_empty(select) {
        return null();
    }
    match looked_up(select) {
        Some(conditions) if query.limit_clause.is_none() => {
            query.order_by = None;
            let value = Expr::Subquery(query);
            match conditions.into_iter().reduce(and) {
                None => value,
                Some(condition) => {
                    let when = ast::CaseWhen { condition, result: value };
                    Expr::Case {
                        case_token: ast::helpers::attached_token::AttachedToken::empty(),
                        end_token: ast::helpers::attached_token::AttachedToken::empty(),
                        operand: None,
                        conditions: vec![when],
                        else_result: None,
                    }
                }
            }
        }
        _ => Expr::Subquery(query),
    }
}

fn and(left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) }
}

/// Makes a correlated lookup an aggregate over the row it finds. Answers the conditions on the outer row alone, which
/// now stand outside; `None` when the SELECT is no such lookup and has not changed.
fn looked_up(select: &mut Select) -> Option<Vec<Expr>> {
    let inner = inner_names(select)?;
    let [item] = select.projection.as_slice() else { return None };
    if has_groups(select) || select.distinct.is_some() || has_aggregate(item) {
        return None;
    }
    let is_outer = |expr: &Expr| qualifier(expr).is_some_and(|name| !inner.contains(&name));
    let conditions = conjuncts(select.selection.clone()?);
    let equal: Vec<(String, Expr)> = conditions.iter().filter_map(|condition| equality(condition, &is_outer)).collect();
    if equal.is_empty() {
        return None;
    }
    let (mut outside, mut inside) = (Vec::new(), Vec::new());
    for mut condition in conditions {
        if only_outer(&condition, &is_outer) {
            outside.push(condition);
            continue;
        }
        if equality(&condition, &is_outer).is_none() {
            let _ = VisitMut::visit(&mut condition, &mut Replace { equal: &equal });
        }
        inside.push(condition);
    }
    select.selection = inside.into_iter().reduce(and);
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            let value = std::mem::replace(expr, null());
            *expr = call("min", vec![value]);
        }
    }
    Some(outside)
}

/// How the tables in FROM are referred to, if all are system tables.
fn inner_names(select: &Select) -> Option<Vec<String>> {
    let names = relations(&select.from).map(|factor| match factor {
        TableFactor::Table { name, alias, args: None, .. } => {
            let (schema, name) = parts_of(name)?;
            definition::find(schema.as_deref().unwrap_or("pg_catalog"), &name)?;
            Some(alias.as_ref().map_or(name, |alias| alias.name.value.to_lowercase()))
        }
        _ => None,
    });
    names.collect()
}

/// The table that a column is said to be of.
fn qualifier(expr: &Expr) -> Option<String> {
    match expr {
        Expr::CompoundIdentifier(names) if names.len() >= 2 => Some(names[names.len() - 2].value.to_lowercase()),
        _ => None,
    }
}

fn conjuncts(expr: Expr) -> Vec<Expr> {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            let mut all = conjuncts(*left);
            all.extend(conjuncts(*right));
            all
        }
        Expr::Nested(inner) if matches!(*inner, Expr::BinaryOp { op: BinaryOperator::And, .. }) => conjuncts(*inner),
        other => vec![other],
    }
}

/// The outer column, as text, and the inner one that a condition says is equal.
fn equality(condition: &Expr, is_outer: &dyn Fn(&Expr) -> bool) -> Option<(String, Expr)> {
    let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = condition else { return None };
    let column = |expr: &Expr| matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    if !column(left) || !column(right) {
        return None;
    }
    match (is_outer(left), is_outer(right)) {
        (false, true) => Some((right.to_string().to_lowercase(), left.as_ref().clone())),
        (true, false) => Some((left.to_string().to_lowercase(), right.as_ref().clone())),
        _ => None,
    }
}

/// Whether a condition names columns, and only outer ones.
fn only_outer(condition: &Expr, is_outer: &dyn Fn(&Expr) -> bool) -> bool {
    struct Columns<'a> {
        is_outer: &'a dyn Fn(&Expr) -> bool,
        outer: bool,
    }
    impl Visitor for Columns<'_> {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::CompoundIdentifier(_) if (self.is_outer)(expr) => self.outer = true,
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) => return ControlFlow::Break(()),
                Expr::Function(function) if matches!(function.args, FunctionArguments::Subquery(_)) => {
                    return ControlFlow::Break(());
                }
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let mut columns = Columns { is_outer, outer: false };
    condition.visit(&mut columns).is_continue() && columns.outer
}

/// Outer columns by the inner ones that equal them.
struct Replace<'a> {
    equal: &'a [(String, Expr)],
}

impl VisitorMut for Replace<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if matches!(expr, Expr::CompoundIdentifier(_)) {
            let written = expr.to_string().to_lowercase();
            if let Some((_, inner)) = self.equal.iter().find(|(outer, _)| *outer == written) {
                *expr = inner.clone();
            }
        }
        ControlFlow::Continue(())
    }
}
