//! `SET (a, b) = (SELECT x, y …)`: one query for a row whose fields are assigned one by one.
//!
//! The query gives the row as one value, `(SELECT row(x, y) …)`, so that all columns get values of the same row. A list
//! that cannot stand so (DISTINCT, `*`, UNION, WITH) is taken from a subquery.

use keyspan_model::{Error, ErrorKind, Result};
use sqlparser::ast::{
    self, Expr, GroupByExpr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr, TableAlias, TableAliasColumnDef,
    TableFactor, TableWithJoins,
};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

use crate::nested;
use crate::statement::InsertValue;

/// The alias of a query that is taken as a whole.
const WHOLE: &str = "assigned";

/// What each of so many columns gets of a subquery, or of a row with one in it.
///
/// # Errors
/// 42601 for another number of columns, as far as the text tells it.
pub(crate) fn parts(query: Expr, columns: usize) -> Result<Vec<InsertValue>> {
    let mut query = match query {
        Expr::Subquery(query) => query,
        Expr::Nested(inner) => return parts(*inner, columns),
        // A row that begins with a subquery.
        Expr::Tuple(values) => return Ok(values.into_iter().map(InsertValue::Expression).collect()),
        _ => return Err(Error::new(ErrorKind::Syntax, "a list of columns is assigned a row or a subquery")),
    };
    let outputs = match query.body.as_ref() {
        SetExpr::Select(select) => outputs(select),
        _ => None,
    };
    if outputs.as_ref().is_some_and(|outputs| outputs.len() != columns) {
        return Err(Error::new(ErrorKind::Syntax, "number of columns does not match number of values"));
    }
    match outputs {
        Some(outputs) => {
            by_value(&mut query, &outputs);
            let item = SelectItem::UnnamedExpr(row(outputs.into_iter().map(|(_, value)| value).collect()));
            if let SetExpr::Select(select) = query.body.as_mut() {
                select.projection = vec![item];
            }
        }
        None => query = whole(query, columns)?,
    }
    let query = Expr::Subquery(query);
    Ok((0..columns).map(|place| InsertValue::OfRow { query: query.clone(), place }).collect())
}

/// The SELECT list with its aliases; none where its rows are not those of the SELECT without it.
fn outputs(select: &Select) -> Option<Vec<(Option<Ident>, Expr)>> {
    let output = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(value) => Some((None, value.clone())),
        SelectItem::ExprWithAlias { expr, alias } => Some((Some(alias.clone()), expr.clone())),
        _ => None,
    };
    if select.distinct.is_some() {
        return None;
    }
    select.projection.iter().map(output).collect()
}

/// Puts the outputs in the place of their numbers and aliases in GROUP BY and ORDER BY.
fn by_value(query: &mut Query, outputs: &[(Option<Ident>, Expr)]) {
    let value = |expr: &Expr| match expr {
        Expr::Value(number) => match &number.value {
            ast::Value::Number(digits, _) => {
                let place = digits.to_string().parse::<usize>().ok()?.checked_sub(1)?;
                outputs.get(place).map(|(_, value)| value.clone())
            }
            _ => None,
        },
        Expr::Identifier(name) => {
            let named =
                |(alias, _): &&(Option<Ident>, Expr)| alias.as_ref().is_some_and(|alias| alias.value == name.value);
            outputs.iter().find(named).map(|(_, value)| value.clone())
        }
        _ => None,
    };
    if let SetExpr::Select(select) = query.body.as_mut()
        && let GroupByExpr::Expressions(groups, _) = &mut select.group_by
    {
        groups.iter_mut().for_each(|group| *group = value(group).unwrap_or_else(|| group.clone()));
    }
    if let Some(order_by) = &mut query.order_by
        && let OrderByKind::Expressions(orders) = &mut order_by.kind
    {
        orders.iter_mut().for_each(|order| order.expr = value(&order.expr).unwrap_or_else(|| order.expr.clone()));
    }
}

/// `SELECT row(a.c0, …) FROM (query) AS a (c0, …)`.
fn whole(query: Box<Query>, columns: usize) -> Result<Box<Query>> {
    let name = |place: usize| Ident::new(format!("c{place}"));
    let parsed =
        Parser::new(&PostgreSqlDialect {}).try_with_sql("SELECT 1").and_then(|mut parser| parser.parse_query());
    let mut around = parsed.map_err(|error| Error::internal(error.to_string()))?;
    if let SetExpr::Select(select) = around.body.as_mut() {
        let fields = (0..columns).map(|place| Expr::CompoundIdentifier(vec![Ident::new(WHOLE), name(place)]));
        select.projection = vec![SelectItem::UnnamedExpr(row(fields.collect()))];
        let columns = (0..columns).map(|place| TableAliasColumnDef { name: name(place), data_type: None });
        let alias = TableAlias { explicit: true, name: Ident::new(WHOLE), columns: columns.collect(), at: None };
        let relation = TableFactor::Derived { lateral: false, subquery: query, alias: Some(alias), sample: None };
        select.from = vec![TableWithJoins { relation, joins: Vec::new() }];
    }
    Ok(around)
}

fn row(values: Vec<Expr>) -> Expr {
    nested::call("row", values)
}
