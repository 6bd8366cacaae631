//! VALUES whose cells say their types in different ways: a parameter of a declared type beside a literal, NULL or a
//! parameter of another type. A column takes the type that all of its cells have in common, as in UNION; DataFusion
//! refuses such cells.
//!
//! Types are known when cells are planned, and relations are what is planned here. So VALUES that stand elsewhere (as a
//! statement, in WITH, IN or UNION) become `SELECT * FROM (VALUES …) AS q`.

use std::collections::BTreeMap;

use datafusion::common::DFSchema;
use datafusion::common::metadata::FieldMetadata;
use datafusion::error::Result;
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{self, Query, SetExpr, TableFactor, Values};
use keyspan_model::types::TYPE_KEY;

use super::branches::unified_with_type;
use super::filled::parsed;
use super::subquery::derived;

/// Plans VALUES in FROM.
#[derive(Debug)]
pub struct ValuesRelation;

impl RelationPlanner for ValuesRelation {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let TableFactor::Derived { subquery, alias, .. } = &relation else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let Some(values) = only_values(subquery) else { return Ok(RelationPlanning::Original(Box::new(relation))) };
        let schema = DFSchema::empty();
        let mut rows = Vec::with_capacity(values.rows.len());
        for row in &values.rows {
            let cells = row.content.iter().map(|cell| context.sql_to_expr(cell.clone(), &schema));
            rows.push(cells.collect::<Result<Vec<_>>>()?);
        }
        let width = rows.iter().map(Vec::len).min().unwrap_or_default();
        (0..width).try_for_each(|column| one_type(&mut rows, column, &schema))?;
        let plan = LogicalPlanBuilder::values(rows)?.build()?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias.clone()))))
    }
}

/// Whether a query is VALUES and nothing else.
pub fn is_only_values(query: &Query) -> bool {
    only_values(query).is_some()
}

fn only_values(query: &Query) -> Option<&Values> {
    let Query { with: None, body, order_by: None, limit_clause: None, fetch: None, .. } = query else { return None };
    match body.as_ref() {
        SetExpr::Values(values) => Some(values),
        _ => None,
    }
}

/// Makes a relation of VALUES whose types show only when they are planned.
///
/// # Errors
/// None that a user can cause.
pub fn as_relation(body: &mut SetExpr) -> keyspan_model::Result<()> {
    let SetExpr::Values(values) = &*body else { return Ok(()) };
    let is_literal = |cell: &ast::Expr| match cell {
        ast::Expr::Value(value) => !matches!(value.value, ast::Value::Placeholder(_)),
        _ => false,
    };
    if values.rows.len() < 2 || values.rows.iter().flat_map(|row| &row.content).all(is_literal) {
        return Ok(());
    }
    let ast::Expr::Subquery(mut around) = parsed("(SELECT * FROM (SELECT 1) AS q)")? else { return Ok(()) };
    if let SetExpr::Select(select) = around.body.as_mut()
        && let Some(from) = select.from.first_mut()
        && let TableFactor::Derived { subquery, .. } = &mut from.relation
    {
        std::mem::swap(subquery.body.as_mut(), body);
        from.relation = derived(subquery, &[""; 0]);
    }
    *body = *around.body;
    Ok(())
}

/// Gives the cells of a column that differ in what they say of their types the one that they have in common.
fn one_type(rows: &mut [Vec<Expr>], column: usize, schema: &DFSchema) -> Result<()> {
    let said = |row: &Vec<Expr>| Ok((row[column].get_type(schema)?, row[column].metadata(schema)?));
    let said = rows.iter().map(said).collect::<Result<Vec<_>>>()?;
    if said.windows(2).all(|pair| pair[0] == pair[1]) {
        return Ok(());
    }
    let names: Vec<String> = rows.iter().map(|row| row[column].schema_name().to_string()).collect();
    let cells = rows.iter_mut().map(|row| std::mem::take(&mut row[column])).collect();
    let (cells, common) = unified_with_type("VALUES", cells, schema)?;
    let Some(common) = common else {
        rows.iter_mut().zip(cells).for_each(|(row, cell)| row[column] = cell);
        return Ok(());
    };
    let metadata = FieldMetadata::new(BTreeMap::from([(TYPE_KEY.to_owned(), common.code())]));
    for (row, (name, cell)) in rows.iter_mut().zip(names.into_iter().zip(cells)) {
        row[column] = cell.alias_with_metadata(name, Some(metadata.clone()));
    }
    Ok(())
}
