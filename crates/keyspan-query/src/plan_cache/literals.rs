//! Quoted literals of a WHERE taken out of a query's tree, so that texts that differ only there are planned once.
//!
//! Rule (PostgreSQL's): a quoted literal beside a column has no type of its own, and neither has a parameter; both take the
//! column's. So `host = 'a'` is `host = $1` with the text `a`, as long as that type says all of what the text
//! means ([`is_whole`]). Numbers have types of their own, and stay.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, ObjectName, Query, SetExpr, TableFactor, Value, ValueWithSpan, Visit, VisitMut,
    Visitor, VisitorMut,
};
use keyspan_model::ColumnType;

use super::constants::MOST_CONSTANTS;
use crate::syntax::is_comparison;

/// A query with parameters in the places of its quoted literals, and these: those of its subqueries, too. `None` where
/// there are none, or where its plan could not be cached anyway.
pub fn extract_literals(query: &Query) -> Option<(Query, Vec<String>)> {
    if query.visit(&mut Uncacheable).is_break() {
        return None;
    }
    let mut query = query.clone();
    let mut literals = Literals::default();
    let _: ControlFlow<()> = VisitMut::visit(&mut query, &mut literals);
    (1..=MOST_CONSTANTS).contains(&literals.texts.len()).then_some((query, literals.texts))
}

/// Whether a text of this type is no more than its value. Not so for numbers, where a literal keeps digits that the column
/// does not have.
pub fn is_whole(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Text | ColumnType::Timestamp | ColumnType::LocalTimestamp | ColumnType::Date)
}

/// Plans over system tables are not cached.
fn is_system(name: &ObjectName) -> bool {
    let first = name.0.first().and_then(|part| part.as_ident());
    first.is_none_or(|first| first.value.starts_with("pg_") || first.value.eq_ignore_ascii_case("information_schema"))
}

/// Finds a statement's own parameters, and what no cached plan reads.
struct Uncacheable;

impl Visitor for Uncacheable {
    type Break = ();

    fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<()> {
        break_if(matches!(value.value, Value::Placeholder(_)))
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        break_if(match factor {
            TableFactor::Table { name, args, .. } => args.is_some() || is_system(name),
            TableFactor::Derived { .. } | TableFactor::NestedJoin { .. } => false,
            _ => true,
        })
    }
}

fn break_if(found: bool) -> ControlFlow<()> {
    if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// Takes the literals of each SELECT's WHERE.
#[derive(Default)]
struct Literals {
    texts: Vec<String>,
}

impl VisitorMut for Literals {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let mut bodies = vec![query.body.as_mut()];
        while let Some(body) = bodies.pop() {
            match body {
                SetExpr::Select(select) => {
                    if let Some(selection) = &mut select.selection {
                        take_from(selection, &mut self.texts);
                    }
                }
                SetExpr::SetOperation { left, right, .. } => bodies.extend([right.as_mut(), left.as_mut()]),
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }
}

/// Iterative, since a condition may have any number of terms.
fn take_from(condition: &mut Expr, texts: &mut Vec<String>) {
    let mut rest = vec![condition];
    while let Some(expr) = rest.pop() {
        match expr {
            Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
                rest.extend([right.as_mut(), left.as_mut()]);
            }
            Expr::BinaryOp { left, op, right } if is_comparison(op) => {
                if is_column(left) {
                    take(right, texts);
                } else if is_column(right) {
                    take(left, texts);
                }
            }
            Expr::Between { expr, low, high, .. } if is_column(expr) => {
                take(low, texts);
                take(high, texts);
            }
            Expr::InList { expr, list, .. } if is_column(expr) => list.iter_mut().for_each(|item| take(item, texts)),
            Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => rest.push(inner),
            _ => {}
        }
    }
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

/// A quoted literal, or one cast to an instant, as a parameter of the next number.
fn take(expr: &mut Expr, texts: &mut Vec<String>) {
    match expr {
        Expr::Value(value) => {
            if let Value::SingleQuotedString(text) = &mut value.value {
                texts.push(std::mem::take(text));
                value.value = Value::Placeholder(format!("${}", texts.len()));
            }
        }
        Expr::Cast { expr, data_type: DataType::Timestamp(None, _), .. } => take(expr, texts),
        _ => {}
    }
}
