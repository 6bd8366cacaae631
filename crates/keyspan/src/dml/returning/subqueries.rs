//! Subqueries in a RETURNING list: the list is a query over the rows that the statement returns.
//!
//! ```text
//! INSERT INTO t … RETURNING a, (SELECT max(b) FROM u)
//! WITH returned AS (INSERT INTO t … RETURNING a) SELECT a, (SELECT max(b) FROM u) FROM returned AS t
//! ```
//!
//! As in PostgreSQL the subqueries do not see what the statement writes.

use keyspan_cql::{Parsed, Statement, With, WithPart, ast, has_subquery, quoted};
use keyspan_model::{Error, Result, TableDef};

use super::ident;
use crate::context::ClientContext;
use crate::names::{self, columns_of};

/// The name under which the query reads the rows; no table has it.
const RETURNED: &str = "\u{1}returned";

/// A statement whose RETURNING list has subqueries, as WITH of itself and a query over the rows that it returns; `None`
/// for any other.
///
/// # Errors
/// 0A000 beside tables in FROM, and where the list names families.
pub(crate) fn with_subqueries(context: &ClientContext, parsed: &Parsed) -> Result<Option<Parsed>> {
    let (table, alias, from, returning) = match &parsed.statement {
        Statement::Insert(insert) => (&insert.table, &insert.alias, [].as_slice(), &insert.returning),
        Statement::Update(update) => (&update.table, &update.alias, update.from.as_slice(), &update.returning),
        Statement::Delete(delete) => (&delete.table, &delete.alias, delete.from.as_slice(), &delete.returning),
        _ => return Ok(None),
    };
    let has_subqueries = |item: &ast::SelectItem| expression_of(item).is_some_and(has_subquery);
    let Some(list) = returning.as_ref().filter(|list| list.iter().any(has_subqueries)) else { return Ok(None) };
    if !from.is_empty() {
        let error = Error::not_supported("subqueries in RETURNING beside other tables are not supported");
        return Err(error.with_hint("Join what they read in FROM."));
    }
    let table = names::table(&context.catalog(), &context.settings.search_path(), table)?;
    let own = alias.clone().unwrap_or_else(|| table.name.clone());
    let returned = Some(named_columns(&table, &own, list)?);
    let mut query = names::parse_query(&format!("SELECT 1 FROM {} AS {}", quoted(RETURNED), quoted(&own)))?;
    if let ast::SetExpr::Select(select) = query.body.as_mut() {
        select.projection = list.clone();
    }
    let mut answer = keyspan_cql::parse_one("SELECT 1")?;
    if let Statement::Query(select) = &mut answer.statement {
        select.query = query;
    }
    answer.parameters = parsed.parameters.clone();
    let mut inner = parsed.clone();
    match &mut inner.statement {
        Statement::Insert(insert) => insert.returning = returned,
        Statement::Update(update) => update.returning = returned,
        Statement::Delete(delete) => delete.returning = returned,
        _ => {}
    }
    let part = WithPart { name: RETURNED.to_owned(), columns: Vec::new(), body: Box::new(inner) };
    let with = With { parts: vec![part], statement: Box::new(answer), is_returning: true };
    let statement = Statement::With(Box::new(with));
    let (text, parameters) = (parsed.text.clone(), parsed.parameters.clone());
    Ok(Some(Parsed { statement, text, offset: parsed.offset, parameters }))
}

/// The columns of the table that a list names, in the table's order; the table's name stands for all.
fn named_columns(table: &TableDef, own: &str, list: &[ast::SelectItem]) -> Result<Vec<ast::SelectItem>> {
    let named: Vec<_> = list.iter().filter_map(expression_of).map(columns_of).collect();
    let is_named = |name: &str| named.iter().any(|names| names.contains(name));
    let all = is_named(own) || list.iter().any(|item| expression_of(item).is_none());
    if let Some(family) = table.families.iter().find(|family| all || is_named(&family.name)) {
        let message = format!("subqueries in RETURNING beside \"{}\" are not supported", family.name);
        return Err(Error::not_supported(message).with_hint("Name columns only, and read the family by a query."));
    }
    let columns = table.shown_columns().filter(|column| all || is_named(&column.name));
    let mut items: Vec<_> =
        columns.map(|column| ast::SelectItem::UnnamedExpr(ast::Expr::Identifier(ident(&column.name)))).collect();
    if items.is_empty() {
        items.push(ast::SelectItem::UnnamedExpr(ast::Expr::Value(ast::Value::Null.into())));
    }
    Ok(items)
}

fn expression_of(item: &ast::SelectItem) -> Option<&ast::Expr> {
    match item {
        ast::SelectItem::UnnamedExpr(expression) | ast::SelectItem::ExprWithAlias { expr: expression, .. } => {
            Some(expression)
        }
        _ => None,
    }
}
