//! What a refresh of a materialized view reads: its query, apart from any other.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use keyspan_model::{Error, ErrorKind, StoredDef, TableDef, ViewDef};

use super::names::{Names, Scope};
use super::{analyzed, plan_view};
use crate::context::{QueryContext, QueryParser};
use crate::error::{external, from_datafusion};
use crate::rights::{self, Reading};
use crate::rollup::RollupTable;
use crate::table::Mentions;

/// The columns of a materialized view, as they are stored.
pub(super) fn shown_schema(rows: &TableDef) -> SchemaRef {
    Arc::new(Schema::new(rows.shown_columns().map(|column| column.ty.field(&column.name, true)).collect::<Vec<_>>()))
}

/// A view's query, analyzed: what a rollup of it would be made of.
pub fn query_of(
    parser: Option<QueryParser>,
    state: &SessionState,
    context: &QueryContext,
    view: &ViewDef,
) -> keyspan_model::Result<LogicalPlan> {
    let names = Names::new(parser, state, context, Scope::of_view(view, Reading::default()), Mentions::default());
    analyzed(state, &plan_view(&names, view).map_err(from_datafusion)?)
}

/// A rollup, apart from any query; `None` for another view.
pub fn rollup_of(
    parser: Option<QueryParser>,
    state: &SessionState,
    context: &QueryContext,
    view: &ViewDef,
) -> Result<Option<RollupTable>> {
    let Some(rollup) = view.rollup() else { return Ok(None) };
    RollupTable::new(view, rollup, query_of(parser, state, context, view).map_err(external)?).map(Some)
}

/// What the query of a stored view reads now: the columns that are stored, analyzed. It is read with the rights of the
/// view's owner, and by whoever makes it as long as it has none.
pub fn stored_rows_of(
    parser: Option<QueryParser>,
    state: &SessionState,
    context: &QueryContext,
    view: &ViewDef,
    stored: &StoredDef,
) -> keyspan_model::Result<LogicalPlan> {
    let catalog = context.snapshot.catalog();
    let reading = match catalog.rights.relations.contains_key(&view.id) {
        true => Reading::default().within(view, catalog),
        false => Reading::default(),
    };
    let names = Names::new(parser, state, context, Scope::of_view(view, reading.clone()), Mentions::default());
    let plan = plan_view(&names, view).map_err(from_datafusion)?;
    let reads = reading.of_plan(&plan, context.snapshot.catalog(), 0).map_err(from_datafusion)?;
    rights::check(&reads, context)?;
    let schema = plan.schema().clone();
    let columns = stored.rows.shown_columns().map(|column| {
        let field = schema.columns().into_iter().find(|field| field.name == column.name).ok_or_else(|| {
            let (view, column) = (&view.name, &column.name);
            let message = format!("the query of materialized view \"{view}\" has no column \"{column}\" any more");
            Error::new(ErrorKind::UndefinedColumn, message).with_hint("Drop the view and create it anew.")
        })?;
        let ty = column.ty.field(&column.name, true);
        let typed = Expr::Column(field).cast_to(ty.data_type(), &schema).map_err(from_datafusion)?;
        Ok(typed.alias(&column.name))
    });
    let columns = columns.collect::<keyspan_model::Result<Vec<_>>>()?;
    let plan = LogicalPlanBuilder::from(plan).project(columns).and_then(LogicalPlanBuilder::build);
    analyzed(state, &plan.map_err(from_datafusion)?)
}
