//! The clauses of a MERGE as statements of their own.
//!
//! ```text
//! MERGE INTO t USING s ON c
//!   WHEN MATCHED AND d THEN UPDATE SET …      UPDATE t SET … FROM s WHERE c AND d
//!   WHEN MATCHED THEN DELETE                  DELETE FROM t USING s WHERE c AND (d) IS NOT TRUE
//!   WHEN NOT MATCHED THEN INSERT VALUES (…)   INSERT INTO t SELECT … FROM s WHERE NOT EXISTS (SELECT 1 FROM t WHERE c)
//! ```
//!
//! Of the clauses that fit a row the first counts: each leaves out what those before it take.

use keyspan_cql::{
    ColumnName, Delete, Insert, InsertSource, InsertValue, Merge, MergeAction, MergeClause, Query, Statement, Update,
    Using, ast, quoted,
};
use keyspan_model::{ColumnType, Error, ErrorKind, Result, TableDef};

use crate::names::parse_query;

/// What a clause is.
#[derive(Debug)]
pub(crate) enum Clause {
    Update(Update),
    Delete(Delete),
    Insert(Insert),
    Nothing,
}

/// The clauses in order.
///
/// # Errors
/// 42601 for an INSERT of more values than the table has columns.
pub(crate) fn clauses(merge: &Merge, table: &TableDef) -> Result<Vec<Clause>> {
    (0..merge.clauses.len()).map(|place| clause(merge, table, place)).collect()
}

fn clause(merge: &Merge, table: &TableDef, place: usize) -> Result<Clause> {
    let filter = Some(fires(merge, place)?);
    let from = vec![source(merge)];
    let (name, alias) = (merge.table.clone(), merge.alias.clone());
    Ok(match &merge.clauses[place].action {
        MergeAction::Nothing => Clause::Nothing,
        MergeAction::Update(assignments) => Clause::Update(Update {
            table: name,
            alias,
            using: Using::default(),
            assignments: assignments.clone(),
            from,
            filter,
            condition: None,
            returning: None,
            upserts: false,
        }),
        MergeAction::Delete => Clause::Delete(Delete {
            columns: Vec::new(),
            table: name,
            family: None,
            alias,
            using: Using::default(),
            from,
            filter,
            condition: None,
            returning: None,
        }),
        MergeAction::Insert { columns, values, overriding } => {
            let (columns, values) = given_values(table, columns, values)?;
            let mut query = select(merge.source.clone(), filter)?;
            if let ast::SetExpr::Select(select) = query.query.body.as_mut() {
                select.projection = values;
            }
            Clause::Insert(Insert {
                table: name,
                alias: None,
                columns,
                source: InsertSource::Query(query),
                places: Vec::new(),
                using: Using::default(),
                overriding: *overriding,
                if_not_exists: false,
                on_conflict: None,
                returning: None,
            })
        }
    })
}

/// The source as it stands in FROM.
pub(crate) fn source(merge: &Merge) -> ast::TableWithJoins {
    ast::TableWithJoins { relation: merge.source.clone(), joins: Vec::new() }
}

/// `SELECT * FROM source WHERE …`.
pub(crate) fn select(from: ast::TableFactor, filter: Option<ast::Expr>) -> Result<Query> {
    let Statement::Query(mut query) = keyspan_cql::parse_one("SELECT * FROM q")?.statement else {
        return Err(Error::internal("a SELECT is not a query"));
    };
    if let ast::SetExpr::Select(select) = query.query.body.as_mut() {
        select.from = vec![ast::TableWithJoins { relation: from, joins: Vec::new() }];
        select.selection = filter;
    }
    Ok(query)
}

/// A name in FROM.
pub(crate) fn table_factor(name: &str) -> Result<ast::TableFactor> {
    match *parse_query(&format!("SELECT * FROM {name}"))?.body {
        ast::SetExpr::Select(mut select) if select.from.len() == 1 => Ok(select.from.remove(0).relation),
        _ => Err(Error::internal("a SELECT without FROM")),
    }
}

/// The rows that a clause takes: of those that match, or of the source those that do not.
fn fires(merge: &Merge, place: usize) -> Result<ast::Expr> {
    let clause = &merge.clauses[place];
    let nested = |expr: &ast::Expr| ast::Expr::Nested(Box::new(expr.clone()));
    let mut all = match clause.matched {
        true => nested(&merge.on),
        false => unmatched(merge)?,
    };
    let before = merge.clauses[..place].iter().filter(|other| other.matched == clause.matched);
    for MergeClause { condition, .. } in before {
        // One without a condition leaves nothing to those after it.
        let taken = condition.clone().unwrap_or_else(|| ast::Expr::Value(ast::Value::Boolean(true).into()));
        all = both(all, ast::Expr::IsNotTrue(Box::new(nested(&taken))));
    }
    Ok(match &clause.condition {
        Some(condition) => both(all, nested(condition)),
        None => all,
    })
}

/// `NOT EXISTS (SELECT 1 FROM table WHERE condition)`.
fn unmatched(merge: &Merge) -> Result<ast::Expr> {
    let mut subquery = parse_query(&format!("SELECT 1 FROM {}", target(merge)))?;
    if let ast::SetExpr::Select(select) = subquery.body.as_mut() {
        select.selection = Some(merge.on.clone());
    }
    Ok(ast::Expr::Exists { subquery, negated: true })
}

/// The table with its alias, as text.
pub(crate) fn target(merge: &Merge) -> String {
    match &merge.alias {
        Some(alias) => format!("{} AS {}", merge.table, quoted(alias)),
        None => merge.table.to_string(),
    }
}

pub(crate) fn both(left: ast::Expr, right: ast::Expr) -> ast::Expr {
    ast::Expr::BinaryOp { left: Box::new(left), op: ast::BinaryOperator::And, right: Box::new(right) }
}

/// The columns that an INSERT gives values, and these; one that gets its DEFAULT is not among them.
fn given_values(
    table: &TableDef,
    columns: &[ColumnName],
    values: &[InsertValue],
) -> Result<(Vec<ColumnName>, Vec<ast::SelectItem>)> {
    let all = || {
        let names = table.shown_names().into_iter();
        names.map(|name| ColumnName { name, qualifier: None, position: 1 }).collect::<Vec<_>>()
    };
    let named = if columns.is_empty() { all() } else { columns.to_vec() };
    if values.len() > named.len() {
        return Err(Error::new(ErrorKind::Syntax, "INSERT has more expressions than target columns"));
    }
    let (mut given, mut items) = (Vec::new(), Vec::new());
    for (column, value) in named.into_iter().zip(values) {
        let Some(expression) = value.as_expression() else { continue };
        let ty = table.expect_column(&column.name).map_err(|error| error.at(column.position))?.ty;
        items.push(ast::SelectItem::ExprWithAlias {
            expr: typed(expression, ty)?,
            alias: ast::Ident::with_quote('"', &column.name),
        });
        given.push(column);
    }
    Ok((given, items))
}

/// A bare literal or parameter has its column's type.
pub(crate) fn typed(value: ast::Expr, ty: ColumnType) -> Result<ast::Expr> {
    if !matches!(value, ast::Expr::Value(_)) || !ty.is_scalar() {
        return Ok(value);
    }
    let mut cast = keyspan_cql::parse_expression(&format!("CAST(NULL AS {})", ty.postgres_name()))?;
    if let ast::Expr::Cast { expr, .. } = &mut cast {
        **expr = value;
    }
    Ok(cast)
}
