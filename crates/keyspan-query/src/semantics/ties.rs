//! `FETCH FIRST n ROWS WITH TIES`: the rows whose rank in the query's order is not beyond n.
//!
//! ```text
//! SELECT a FROM t ORDER BY b OFFSET 2 FETCH FIRST 3 ROWS WITH TIES
//! SELECT a FROM t QUALIFY rank() OVER (ORDER BY b) <= 2 + 3 ORDER BY b OFFSET 2
//! ```

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, LimitClause, OrderBy, OrderByExpr, OrderByKind, Query, Select, SetExpr, Value,
};
use keyspan_model::{Error, ErrorKind, Result};

use super::label::{named_item, value_of};
use crate::functions::ROW_COUNT;
use crate::syntax::call;

/// Keeps the first `rows` rows of the query after its OFFSET, and those that are like the last of them.
///
/// # Errors
/// 42601 without ORDER BY; 0A000 for set operations and DISTINCT; when it runs, 2201W for a negative number.
pub fn kept(query: &mut Query, rows: Expr) -> Result<()> {
    let Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) = &query.order_by else {
        return Err(Error::new(ErrorKind::Syntax, "WITH TIES cannot be specified without ORDER BY clause"));
    };
    let offset = match &mut query.limit_clause {
        None => None,
        Some(LimitClause::LimitOffset { limit: None, offset, .. }) => offset.as_ref().map(|offset| &offset.value),
        Some(_) => return Err(Error::new(ErrorKind::Syntax, "multiple LIMIT clauses not allowed")),
    };
    let last = match offset {
        Some(offset) => sum(offset.clone(), rows.clone()),
        None => rows.clone(),
    };
    let refused = || {
        let error = Error::not_supported("FETCH FIRST … WITH TIES over DISTINCT or a set operation is not supported");
        error.with_hint("Put what it counts into a subquery: SELECT * FROM (…) AS q ORDER BY … FETCH FIRST …")
    };
    let SetExpr::Select(select) = query.body.as_mut() else { return Err(refused()) };
    if select.distinct.is_some() || select.qualify.is_some() {
        return Err(refused());
    }
    let by = orders.iter().map(|order| by_expression(order, select)).collect::<Result<Vec<_>>>()?;
    if by.iter().any(|order| calls_window(&order.expr)) {
        let error = Error::not_supported("FETCH FIRST … WITH TIES beside ORDER BY a window function is not supported");
        return Err(error.with_hint("Put the window function into a subquery: SELECT * FROM (…) AS q ORDER BY …"));
    }
    // No row is like the last one of none.
    let some =
        compared(call(ROW_COUNT, vec![rows]), BinaryOperator::Gt, Expr::Value(Value::Number("0".into(), false).into()));
    let ranked = compared(rank(by), BinaryOperator::LtEq, last);
    select.qualify = Some(compared(ranked, BinaryOperator::And, some));
    Ok(())
}

/// What ORDER BY sorts by, which in a window is no name or place of an output column.
fn by_expression(order: &OrderByExpr, select: &Select) -> Result<OrderByExpr> {
    let item = named_item(&order.expr, &select.projection);
    if item.is_none() && matches!(&order.expr, Expr::Value(value) if matches!(value.value, Value::Number(..))) {
        let message = "WITH TIES beside ORDER BY a place that a * comes before is not supported";
        return Err(Error::not_supported(message).with_hint("Name the column."));
    }
    let expr = item.and_then(value_of).unwrap_or(&order.expr).clone();
    Ok(OrderByExpr { expr, ..order.clone() })
}

fn calls_window(expr: &Expr) -> bool {
    let found = ast::visit_expressions(expr, |part| match part {
        Expr::Function(ast::Function { over: Some(_), .. }) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

fn rank(order_by: Vec<OrderByExpr>) -> Expr {
    let mut rank = call("rank", Vec::new());
    if let Expr::Function(function) = &mut rank {
        function.over = Some(ast::WindowType::WindowSpec(ast::WindowSpec {
            window_name: None,
            partition_by: Vec::new(),
            order_by,
            window_frame: None,
        }));
    }
    rank
}

fn sum(left: Expr, right: Expr) -> Expr {
    let (left, right) = (Box::new(Expr::Nested(Box::new(left))), Box::new(Expr::Nested(Box::new(right))));
    Expr::Nested(Box::new(Expr::BinaryOp { left, op: BinaryOperator::Plus, right }))
}

fn compared(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}
