//! `ORDER BY v ANN OF x LIMIT k`: the k rows whose vectors are most alike x, as
//! `WHERE v IS NOT NULL ORDER BY similarity_…(v, x) DESC NULLS LAST LIMIT k`.
//!
//! Which similarity says an index on the column (`similarity_function`); cosine if there is none, as in Cassandra.
//! The search is exact, whatever else WHERE says, so LIMIT may be any number.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, OrderByKind, Query, Select,
    SetExpr, TableFactor,
};
use keyspan_model::{ColumnDef, Error, ErrorKind, Result, Similarity, TableDef};

use super::rewrite::{Resolve, bare};
use crate::syntax::{call, folded, parts_of, relations};

/// The parser's name for ANN OF.
const ANN: &str = "cql_ann";

/// Changes ORDER BY and WHERE of a query that has ANN OF.
///
/// # Errors
/// 42601 without LIMIT; 0A000 with DESC, and where FROM does not tell the column; 42804 for what is no vector.
pub fn order(query: &mut Query, resolve: Resolve<'_>) -> Result<()> {
    let limited = query.limit_clause.is_some() || query.fetch.is_some();
    let Some(ast::OrderBy { kind: OrderByKind::Expressions(orders), .. }) = &mut query.order_by else { return Ok(()) };
    for order in orders {
        let Some((column, to)) = ann_of(bare(&order.expr)) else { continue };
        if !limited {
            // Cassandra's text, but for its most rows.
            let message = "Use of ANN OF in an ORDER BY clause requires a LIMIT. LIMIT was NO LIMIT";
            return Err(Error::new(ErrorKind::Syntax, message).with_hint("Write LIMIT and how many rows you want."));
        }
        if order.options.asc == Some(false) {
            return Err(Error::not_supported("Descending ANN ordering is not supported"));
        }
        let SetExpr::Select(select) = query.body.as_mut() else { return Err(unknown()) };
        let name = format!("similarity_{}", similarity(select, column, resolve)?.name());
        let (column, to) = (column.clone(), to.clone());
        let given = Expr::IsNotNull(Box::new(column.clone()));
        select.selection = Some(match select.selection.take() {
            None => given,
            Some(own) => {
                let (left, right) = (Box::new(Expr::Nested(Box::new(own))), Box::new(given));
                Expr::BinaryOp { left, op: BinaryOperator::And, right }
            }
        });
        order.expr = call(&name, vec![column, to]);
        order.options = ast::OrderByOptions { asc: Some(false), nulls_first: Some(false) };
    }
    Ok(())
}

/// 42601 for ANN OF elsewhere.
pub fn check_place(expr: &Expr) -> Result<()> {
    match ann_of(expr) {
        Some(_) => {
            let error = Error::new(ErrorKind::Syntax, "ANN OF stands in ORDER BY only");
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

/// What an index on the column compares by.
fn similarity(select: &Select, column: &Expr, resolve: Resolve<'_>) -> Result<Similarity> {
    let (table, column) = column_of(select, column, resolve).ok_or_else(unknown)?;
    if column.ty.dimension().is_none() {
        let message = format!("ANN OF needs a vector, and column \"{}\" is of type {}", column.name, column.ty);
        return Err(Error::new(ErrorKind::DatatypeMismatch, message));
    }
    let declared = table.indexes_on(column.id).find_map(|index| index.similarity);
    Ok(declared.unwrap_or_default())
}

/// The table and the column of a name, among the tables of FROM.
fn column_of(select: &Select, column: &Expr, resolve: Resolve<'_>) -> Option<(Arc<TableDef>, ColumnDef)> {
    let (qualifier, name) = match bare(column) {
        Expr::Identifier(name) => (None, folded(name)),
        Expr::CompoundIdentifier(names) => {
            let (name, before) = names.split_last()?;
            (Some(folded(before.last()?)), folded(name))
        }
        _ => return None,
    };
    relations(&select.from).find_map(|factor| {
        let TableFactor::Table { name: own, alias, .. } = factor else { return None };
        let shown = alias.as_ref().map(|alias| folded(&alias.name)).or_else(|| Some(parts_of(own)?.1))?;
        if qualifier.as_ref().is_some_and(|qualifier| *qualifier != shown) {
            return None;
        }
        let table = resolve(own)?;
        let column = table.column(&name)?.clone();
        Some((table, column))
    })
}

fn unknown() -> Error {
    Error::not_supported("ANN OF needs a column of a table in FROM")
        .with_hint("Write ORDER BY similarity_cosine(v, [..]) DESC LIMIT n.")
}
