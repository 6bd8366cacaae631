//! `ORDER BY v ANN OF x LIMIT k`: the k rows whose vectors are most alike x, as
//! `WHERE v IS NOT NULL ORDER BY similarity_…(v, x) DESC NULLS LAST LIMIT k`.
//!
//! Which similarity says an index on the column (`similarity_function`); cosine if there is none, as in Cassandra.
//! The search is exact, whatever else WHERE says, so LIMIT may be any number.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, LimitClause,
    OrderByKind, Query, Select, SetExpr, Value,
};
use keyspan_model::{Error, ErrorKind, Result, Similarity};

use super::from::{self, Found};
use super::rewrite::{Resolve, bare};
use crate::syntax::call;

/// The parser's name for ANN OF.
const ANN: &str = "cql_ann";

/// Changes ORDER BY and WHERE of a query that has ANN OF. `with`: the names that WITH gives.
///
/// # Errors
/// 42601 without LIMIT, 0A000 with DESC and over set operations, 42703 for a column that there is not, 42804 for what is
/// no vector.
pub fn order(query: &mut Query, with: &HashSet<String>, resolve: Resolve<'_>) -> Result<()> {
    let limited = is_limited(query);
    let Some(ast::OrderBy { kind: OrderByKind::Expressions(orders), .. }) = &mut query.order_by else { return Ok(()) };
    for order in orders {
        let Some((column, to)) = ann_of(bare(&order.expr)) else { continue };
        if !limited {
            // Cassandra's text, but for its most rows.
            let message = "Use of ANN OF in an ORDER BY clause requires a LIMIT. LIMIT was NO LIMIT";
            return Err(Error::new(ErrorKind::Syntax, message).with_hint("Write LIMIT and how many rows you want."));
        }
        if order.options.asc == Some(false) {
            let error = Error::not_supported("Descending ANN ordering is not supported");
            return Err(error.with_hint("Leave DESC out: the nearest rows come first."));
        }
        let SetExpr::Select(select) = query.body.as_mut() else {
            let error = Error::not_supported("ANN OF over UNION, INTERSECT or EXCEPT is not supported");
            return Err(error.with_hint("Write SELECT * FROM (…) AS q ORDER BY v ANN OF … LIMIT n."));
        };
        let (column, similarity) = compared(select, column, with, resolve)?;
        let to = to.clone();
        let given = Expr::IsNotNull(Box::new(column.clone()));
        select.selection = Some(match select.selection.take() {
            None => given,
            Some(own) => {
                let (left, right) = (Box::new(Expr::Nested(Box::new(own))), Box::new(given));
                Expr::BinaryOp { left, op: BinaryOperator::And, right }
            }
        });
        order.expr = call(&format!("similarity_{}", similarity.name()), vec![column, to]);
        order.options = ast::OrderByOptions { asc: Some(false), nulls_first: Some(false) };
    }
    Ok(())
}

/// Whether a query says how many rows it wants.
fn is_limited(query: &Query) -> bool {
    let limit = match &query.limit_clause {
        Some(LimitClause::LimitOffset { limit, .. }) => limit.as_ref(),
        Some(LimitClause::OffsetCommaLimit { limit, .. }) => Some(limit),
        None => None,
    };
    let is_null = |limit: &Expr| matches!(limit, Expr::Value(value) if value.value == Value::Null);
    query.fetch.is_some() || limit.is_some_and(|limit| !is_null(limit))
}

/// 42601 for ANN OF elsewhere.
pub fn check_place(expr: &Expr) -> Result<()> {
    match ann_of(expr) {
        Some(_) => {
            let error = Error::new(ErrorKind::Syntax, "ANN OF stands in the ORDER BY of a query only");
            Err(error.with_hint("similarity_cosine(v, [..]) and its like are expressions."))
        }
        None => Ok(()),
    }
}

/// The two sides of `v ANN OF x`, which the parser gives as a call.
fn ann_of(expr: &Expr) -> Option<(&Expr, &Expr)> {
    let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expr else { return None };
    let [part] = name.0.as_slice() else { return None };
    if part.as_ident()?.value != ANN {
        return None;
    }
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(left)), FunctionArg::Unnamed(FunctionArgExpr::Expr(right))] => {
            Some((left, right))
        }
        _ => None,
    }
}

/// The column with its table's name, which an alias of the SELECT list may have too, and what it is compared by: what an
/// index on it says, else cosine.
fn compared(
    select: &Select,
    column: &Expr,
    with: &HashSet<String>,
    resolve: Resolve<'_>,
) -> Result<(Expr, Similarity)> {
    let as_it_is = || Ok((column.clone(), Similarity::default()));
    let Some((qualifier, name)) = from::parts_of_column(column) else { return as_it_is() };
    let sources = from::sources(&select.from, with, resolve);
    let (shown, table) = match from::find(&sources, qualifier.as_deref(), &name)? {
        Found::In(shown, table) => (shown, table),
        Found::Perhaps => return as_it_is(),
        Found::Nowhere => {
            return Err(Error::new(ErrorKind::UndefinedColumn, format!("column \"{name}\" does not exist")));
        }
    };
    let Some(own) = table.column(&name).filter(|own| own.ty.dimension().is_some()) else {
        let ty = table.column(&name).map_or("a family or a collection".to_owned(), |own| format!("of type {}", own.ty));
        let message = format!("ANN OF needs a vector, and column \"{name}\" is {ty}");
        return Err(Error::new(ErrorKind::DatatypeMismatch, message));
    };
    let similarity = table.indexes_on(own.id).find_map(|index| index.similarity).unwrap_or_default();
    let column = [shown, &name].map(|part| Ident::with_quote('"', part));
    Ok((Expr::CompoundIdentifier(column.into()), similarity))
}
