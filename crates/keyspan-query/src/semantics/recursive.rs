//! What PostgreSQL refuses in WITH RECURSIVE, and DataFusion would compute anew in each round, or for ever; and columns
//! of the recursive term whose type is not the first term's, which DataFusion would cast to it.
//!
//! ```text
//! SELECT i + 1.5 AS i FROM r    SELECT (i + 1.5) OPERATOR(keyspan.term.) NULL AS i    the statement, marked
//! CAST(recursive_term(i + 1.5) AS int)                                                as DataFusion plans it
//! ```

use std::ops::ControlFlow;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::expr::{Alias, Cast, ScalarFunction};
use datafusion::logical_expr::{Expr as Planned, LogicalPlan, Projection, RecursiveQuery};
use datafusion::sql::sqlparser::ast::{
    Cte, Expr, Ident, JoinOperator, LimitClause, Query, Select, SelectItem, SetExpr, SetOperator, TableFactor, Visit,
    Visitor, With,
};
use keyspan_model::{ColumnType, Error, ErrorKind, Result};

use super::mark::term_marked;
use crate::functions::{RECURSIVE_TERM, recursive_term};
use crate::syntax::{folded, parts_of};
use crate::types::{Ty, common_type, fail, field_type, number_rank, scale_of, type_of};

/// Checks the tables of a WITH RECURSIVE that name themselves, and marks the columns of their recursive terms.
///
/// # Errors
/// 0A000 for ORDER BY, OFFSET and LIMIT over the terms, and for aggregates in the recursive term; 42P19 where this names
/// its query twice, or in a place where it may not.
pub fn check(with: &mut With, gives_rows: fn(&Expr) -> bool) -> Result<()> {
    if !with.recursive {
        return Ok(());
    }
    for cte in &mut with.cte_tables {
        let names_itself = check_table(cte)?;
        match cte.query.body.as_mut() {
            SetExpr::SetOperation { right, .. } if names_itself => mark(right, gives_rows),
            SetExpr::SetOperation { .. } => in_parentheses(&mut cte.query),
            _ => {}
        }
    }
    Ok(())
}

/// Puts a UNION into parentheses: under RECURSIVE DataFusion takes any for a recursive one, and forgets its ORDER BY, LIMIT
/// and OFFSET where it is none.
fn in_parentheses(query: &mut Query) {
    let inner = query.clone();
    (query.with, query.order_by, query.limit_clause, query.fetch) = (None, None, None, None);
    query.locks.clear();
    *query.body = SetExpr::Query(Box::new(inner));
}

/// Marks the items of a recursive term's SELECT lists.
fn mark(body: &mut SetExpr, gives_rows: fn(&Expr) -> bool) {
    match body {
        SetExpr::Select(select) => {
            for item in &mut select.projection {
                let (expr, alias) = match item {
                    SelectItem::UnnamedExpr(expr) => (expr.clone(), Ident::with_quote('"', super::label(expr))),
                    SelectItem::ExprWithAlias { expr, alias } => (expr.clone(), alias.clone()),
                    _ => continue,
                };
                if !gives_rows(&expr) {
                    *item = SelectItem::ExprWithAlias { expr: term_marked(expr), alias };
                }
            }
        }
        SetExpr::Query(query) => mark(&mut query.body, gives_rows),
        SetExpr::SetOperation { left, right, .. } => {
            mark(left, gives_rows);
            mark(right, gives_rows);
        }
        _ => {}
    }
}

/// A marked column as planned.
pub fn planned(expr: Planned, ty: &Ty) -> Planned {
    match ty {
        Ty::Known(_) => Planned::ScalarFunction(ScalarFunction::new_udf(recursive_term(), vec![expr])),
        _ => expr,
    }
}

/// The recursive term without its marks.
///
/// # Errors
/// 42804 where a column's type is not the first term's; 0A000 where it is a numeric of more digits after the point.
pub fn checked_term(query: &RecursiveQuery) -> datafusion::error::Result<LogicalPlan> {
    let first = query.static_term.schema();
    let term = LogicalPlan::clone(&query.recursive_term);
    let unmarked = term.transform_up(|node| {
        let LogicalPlan::Projection(projection) = node else { return Ok(Transformed::no(node)) };
        if !projection.expr.iter().any(|expr| marked(expr).is_some()) {
            return Ok(Transformed::no(LogicalPlan::Projection(projection)));
        }
        for (place, expr) in projection.expr.iter().enumerate() {
            if let (Some(value), true) = (marked(expr), place < first.fields().len()) {
                let found = type_of(value, projection.input.schema())?;
                agree(&query.name, place + 1, &field_type(first.field(place)), &found).or_else(fail)?;
            }
        }
        let exprs = projection.expr.into_iter().map(without_mark).collect();
        Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(exprs, projection.input)?)))
    });
    unmarked.data()
}

/// The marked value that an expression is, under a cast or not.
fn marked(expr: &Planned) -> Option<&Planned> {
    match expr {
        Planned::Alias(alias) => marked(&alias.expr),
        Planned::Cast(cast) => marked(&cast.expr),
        Planned::ScalarFunction(call) if call.name() == RECURSIVE_TERM => call.args.first(),
        _ => None,
    }
}

fn without_mark(expr: Planned) -> Planned {
    match expr {
        Planned::Alias(alias) => {
            let Alias { expr, relation, name, metadata } = alias;
            Planned::Alias(Alias { expr: Box::new(without_mark(*expr)), relation, name, metadata })
        }
        Planned::Cast(Cast { expr, field }) if marked(&expr).is_some() => {
            Planned::Cast(Cast { expr: Box::new(without_mark(*expr)), field })
        }
        Planned::ScalarFunction(mut call) if call.name() == RECURSIVE_TERM && call.args.len() == 1 => {
            call.args.swap_remove(0)
        }
        other => other,
    }
}

/// PostgreSQL has the first term be of the type that both terms take. Numerics have a scale here, which must not grow.
fn agree(name: &str, column: usize, first: &Ty, term: &Ty) -> Result<()> {
    let (Ty::Known(first), Ty::Known(term)) = (first, term) else { return Ok(()) };
    let both = common_type(*first, *term);
    let decimals = matches!(first, ColumnType::Decimal { .. }) && number_rank(*term).is_some_and(|rank| rank <= 6);
    if decimals && scale_of(*term) > scale_of(*first) {
        let (given, own) = (scale_of(*term), scale_of(*first));
        let message = format!(
            "recursive query \"{name}\" column {column} has {own} digits after the point in the non-recursive term \
             but {given} in the recursive term"
        );
        let hint = "Cast both terms to one type, as in (…)::numeric(38, 10).";
        return Err(Error::not_supported(message).with_hint(hint));
    }
    // What one Arrow form stands for, and CQL's kinds of text.
    let alike = matches!(first, ColumnType::Ascii | ColumnType::TimeUuid | ColumnType::Json) && both.is_some();
    if first == term || both == Some(*first) || decimals || alike {
        return Ok(());
    }
    let (first, overall) = (crate::types::type_name(*first), crate::types::type_name(both.unwrap_or(*term)));
    let message = format!(
        "recursive query \"{name}\" column {column} has type {first} in non-recursive term but type {overall} overall"
    );
    let hint = "Cast the output of the non-recursive term to the correct type.";
    Err(Error::new(ErrorKind::DatatypeMismatch, message).with_hint(hint))
}

/// Whether it is one that names itself.
fn check_table(cte: &Cte) -> Result<bool> {
    let SetExpr::SetOperation { right, .. } = cte.query.body.as_ref() else { return Ok(false) };
    let name = folded(&cte.alias.name);
    if right.visit(&mut Names { name: &name }).is_continue() {
        return Ok(false);
    }
    check_clauses(&cte.query)?;
    check_references(right, &name)?;
    match term(right) {
        Some(select) if select.projection.iter().any(crate::functions::has_aggregate) => {
            Err(Error::not_supported("aggregate functions are not allowed in a recursive query's recursive term"))
        }
        _ => Ok(true),
    }
}

fn check_clauses(query: &Query) -> Result<()> {
    let offset = matches!(&query.limit_clause, Some(LimitClause::LimitOffset { offset: Some(_), .. }));
    let clause = match () {
        () if query.order_by.is_some() => "ORDER BY",
        () if offset => "OFFSET",
        () if query.limit_clause.is_some() || query.fetch.is_some() => "LIMIT",
        () => return Ok(()),
    };
    let error = Error::not_supported(format!("{clause} in a recursive query is not implemented"));
    Err(error.with_hint("Put it into the query that reads the table."))
}

/// The SELECT that the recursive term is, in parentheses or not.
fn term(body: &SetExpr) -> Option<&Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => term(&query.body),
        _ => None,
    }
}

/// The places where a recursive term may name its query: one, and none whose rows a round does not add to those before.
///
/// # Errors
/// 42P19 for a second one, and for one in a subquery of an expression, on the nullable side of an outer join, or behind
/// EXCEPT.
fn check_references(term: &SetExpr, name: &str) -> Result<()> {
    let refused = |place: &str| {
        let message = format!("recursive reference to query \"{name}\" must not appear {place}");
        let hint = "Name it once: in FROM, or on the side of an outer join that keeps all its rows.";
        Err(Error::new(ErrorKind::InvalidRecursion, message).with_hint(hint))
    };
    let mut references = References { name, count: 0, wrong: None };
    references.set_operations(term);
    let _ = term.visit(&mut references);
    match references.wrong {
        Some(place) => refused(place),
        None if references.count > 1 => refused("more than once"),
        None => Ok(()),
    }
}

/// Counts the places where a table of this name is read.
struct References<'a> {
    name: &'a str,
    count: usize,
    wrong: Option<&'static str>,
}

impl References<'_> {
    /// Notes the place of a part that may not name the query, if it does.
    fn without(&mut self, part: &impl Visit, place: &'static str) {
        if part.visit(&mut Names { name: self.name }).is_break() {
            self.wrong.get_or_insert(place);
        }
    }

    fn set_operations(&mut self, body: &SetExpr) {
        if let SetExpr::SetOperation { op, left, right, .. } = body {
            if *op == SetOperator::Except {
                self.without(right.as_ref(), "within EXCEPT");
            }
            self.set_operations(left);
            self.set_operations(right);
        }
    }
}

impl Visitor for References<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        self.count += usize::from(is_named(factor, self.name));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Subquery(query) | Expr::Exists { subquery: query, .. } | Expr::InSubquery { subquery: query, .. } => {
                self.without(query.as_ref(), "within a subquery")
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        for from in &select.from {
            for (place, join) in from.joins.iter().enumerate() {
                let (left, right) = match join.join_operator {
                    JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => (false, true),
                    JoinOperator::Right(_) | JoinOperator::RightOuter(_) => (true, false),
                    JoinOperator::FullOuter(_) => (true, true),
                    _ => continue,
                };
                if right {
                    self.without(&join.relation, "within an outer join");
                }
                if left {
                    self.without(&from.relation, "within an outer join");
                    for before in &from.joins[..place] {
                        self.without(&before.relation, "within an outer join");
                    }
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.set_operations(&query.body);
        ControlFlow::Continue(())
    }
}

/// Stops where a table of this name is read.
struct Names<'a> {
    name: &'a str,
}

/// Whether what is read has this name, without a keyspace.
fn is_named(factor: &TableFactor, own: &str) -> bool {
    match factor {
        TableFactor::Table { name, args: None, .. } => {
            parts_of(name).is_some_and(|(schema, name)| schema.is_none() && name == own)
        }
        _ => false,
    }
}

impl Visitor for Names<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if is_named(factor, self.name) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
