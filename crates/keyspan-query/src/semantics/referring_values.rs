//! VALUES whose rows refer to columns or ask queries, as UNION ALL of SELECTs: `LATERAL (VALUES ('x', t.x), ('y', t.y))`.
//! Plain ones stay a list, which may be long.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, SelectItem, SetExpr, SetOperator, SetQuantifier, Values, visit_expressions,
};
use keyspan_model::{Error, ErrorKind, Result};

use super::filled::parsed;

/// Most rows: each is a query.
const MOST_ROWS: usize = 64;

/// Replaces the body of a query, if it is such VALUES.
pub fn as_union(body: &mut SetExpr) -> Result<()> {
    let SetExpr::Values(values) = &*body else { return Ok(()) };
    if !refers(values) {
        return Ok(());
    }
    if values.rows.len() > MOST_ROWS {
        let message = format!("VALUES with columns or subqueries has more than {MOST_ROWS} rows");
        return Err(Error::new(ErrorKind::TooComplex, message).with_hint("Join with a table or a plain VALUES list."));
    }
    let columns = values.rows.first().map_or(0, |row| row.len());
    if values.rows.iter().any(|row| row.len() != columns) {
        return Err(Error::new(ErrorKind::Syntax, "VALUES lists must all be the same length"));
    }
    let selects = values.rows.iter().map(|row| select(row)).collect::<Result<Vec<_>>>()?;
    let all = |left, right| SetExpr::SetOperation {
        op: SetOperator::Union,
        set_quantifier: SetQuantifier::All,
        left: Box::new(left),
        right: Box::new(right),
    };
    if let Some(union) = selects.into_iter().reduce(all) {
        *body = union;
    }
    Ok(())
}

fn refers(values: &Values) -> bool {
    visit_expressions(values, |expr| match expr {
        Expr::Identifier(_)
        | Expr::CompoundIdentifier(_)
        | Expr::Subquery(_)
        | Expr::Exists { .. }
        | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// A row as a SELECT, whose columns are called as those of VALUES are.
fn select(row: &[Expr]) -> Result<SetExpr> {
    let Expr::Subquery(query) = parsed("(SELECT 1)")? else { return Err(Error::internal("a subquery")) };
    let Query { mut body, .. } = *query;
    if let SetExpr::Select(select) = body.as_mut() {
        let item = |(at, expr): (usize, &Expr)| SelectItem::ExprWithAlias {
            expr: expr.clone(),
            alias: Ident::new(format!("column{}", at + 1)),
        };
        select.projection = row.iter().enumerate().map(item).collect();
    }
    Ok(*body)
}
