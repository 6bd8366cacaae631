//! `x IN (SELECT …)` and `EXISTS (SELECT …)` in a SELECT list or ORDER BY, where DataFusion plans no such subqueries.
//!
//! ```text
//! EXISTS (q)  (SELECT count(*) > 0 FROM q)
//! x IN (q)    CASE WHEN q is empty THEN false WHEN x is in the list of q THEN true
//!                  WHEN x is NULL or a value of q is THEN NULL ELSE false END
//! ```

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{Expr as Planned, ExprSchemable};
use datafusion::sql::sqlparser::ast::{
    self, Expr, Ident, OrderByKind, Query, SelectItem, SetExpr, TableFactor, UnaryOperator, Visit, Visitor,
};
use keyspan_model::{Error, ErrorKind, Result};

use super::call::{missing, types_of};
use super::cast::implicit;
use super::filled::over;
use super::subquery::exists;
use crate::syntax::{change_own, folded, parts_of, row_of};
use crate::types::{Ty, fail, field_type, type_of};
use crate::types::{compared_type, number_rank};

const LOOKED_UP: &str = "
    CASE WHEN (SELECT count(*) FROM q) = 0 THEN false
        WHEN array_has((SELECT array_agg(c) FROM q), x) THEN true
        WHEN x IS NULL OR (SELECT count(*) - count(c) FROM q) > 0 THEN NULL
        ELSE false END";

/// Changes the SELECT lists and the ORDER BY of one query, not those of queries within it.
///
/// # Errors
/// 42601 for a subquery of several columns.
pub fn look_up(query: &mut Query) -> Result<()> {
    let visit = |expr: &mut Expr| change_own(expr, computed);
    if let Some(ast::OrderBy { kind: OrderByKind::Expressions(orders), .. }) = &mut query.order_by {
        orders.iter_mut().try_for_each(|order| visit(&mut order.expr))?;
    }
    let mut bodies = vec![query.body.as_mut()];
    while let Some(body) = bodies.pop() {
        match body {
            SetExpr::Select(select) => {
                for item in &mut select.projection {
                    match item {
                        SelectItem::ExprWithAlias { expr, .. } => visit(expr)?,
                        SelectItem::UnnamedExpr(expr) => {
                            let (label, written) = (super::label(expr), expr.clone());
                            visit(expr)?;
                            if *expr != written {
                                let (expr, alias) = (expr.clone(), Ident::with_quote('"', label));
                                *item = SelectItem::ExprWithAlias { expr, alias };
                            }
                        }
                        _ => {}
                    }
                }
            }
            SetExpr::SetOperation { left, right, .. } => bodies.extend([left.as_mut(), right.as_mut()]),
            _ => {}
        }
    }
    Ok(())
}

/// EXISTS and IN as values that are computed.
fn computed(expr: &mut Expr) -> Result<()> {
    if let Some(counted) = exists(expr) {
        *expr = counted;
    }
    let Expr::InSubquery { expr: value, subquery, negated } = &*expr else { return Ok(()) };
    // A tuple has no list to be looked up in; another row of the outer query would have another list.
    if row_of(value).is_some() || names_outer_tables(subquery) {
        return Ok(());
    }
    if has_several_columns(&subquery.body) {
        return Err(Error::new(ErrorKind::Syntax, "subquery has too many columns"));
    }
    let found = Box::new(Expr::Nested(Box::new(over(LOOKED_UP, subquery, &[("x", value)])?)));
    *expr = if *negated { Expr::UnaryOp { op: UnaryOperator::Not, expr: found } } else { *found };
    Ok(())
}

/// Whether a query gives several columns, as far as it says so itself.
fn has_several_columns(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => select.projection.len() > 1,
        SetExpr::Query(query) => has_several_columns(&query.body),
        SetExpr::SetOperation { left, .. } => has_several_columns(left),
        SetExpr::Values(values) => values.rows.first().is_some_and(|row| row.len() > 1),
        _ => false,
    }
}

/// Whether a query names, with a qualifier, a column of a table that is not its own.
fn names_outer_tables(query: &Query) -> bool {
    let mut names = Names::default();
    let _ = Visit::visit(query, &mut names);
    !names.used.is_subset(&names.own)
}

#[derive(Default)]
struct Names {
    own: BTreeSet<String>,
    used: BTreeSet<String>,
}

impl Visitor for Names {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let named = match factor {
            TableFactor::Table { alias, name, .. } | TableFactor::Function { alias, name, .. } => {
                alias.as_ref().map(|alias| folded(&alias.name)).or_else(|| parts_of(name).map(|(_, name)| name))
            }
            TableFactor::Derived { alias, .. } | TableFactor::UNNEST { alias, .. } => {
                alias.as_ref().map(|alias| folded(&alias.name))
            }
            _ => None,
        };
        self.own.extend(named);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(names) = expr
            && let [.., table, _] = names.as_slice()
        {
            self.used.insert(folded(table));
        }
        ControlFlow::Continue(())
    }
}

/// The arguments of `array_has`, the value and the list's elements as one type.
pub fn alike(args: Vec<Planned>, schema: &DFSchema) -> datafusion::error::Result<Vec<Planned>> {
    let [list, value] =
        <[Planned; 2]>::try_from(args).or_else(|args| missing("array_has", &types_of(&args, schema)?))?;
    let DataType::List(item) = list.get_type(schema)? else { return Ok(vec![list, value]) };
    let (element, given) = (field_type(&item), type_of(&value, schema)?);
    let Ty::Known(to) = element else { return Ok(vec![list, value]) };
    let both = match &given {
        Ty::Known(from) => compared_type(*from, to),
        _ => Some(to),
    };
    match both {
        Some(both) if both == to => Ok(vec![list, implicit(value, &given, to)?]),
        Some(both) if number_rank(both).is_some() && number_rank(to).is_some() => {
            let wider = Planned::Cast(Cast::new(Box::new(list), DataType::new_list(both.arrow(), true)));
            Ok(vec![wider, implicit(value, &given, both)?])
        }
        _ => {
            let message = format!("operator does not exist: {} = {}", given.name(), element.name());
            let hint =
                "No operator matches the given name and argument types. You might need to add explicit type casts.";
            fail(Error::new(ErrorKind::UndefinedFunction, message).with_hint(hint))
        }
    }
}
