//! A rollup in a plan: a table of its columns, which is replaced before the plan is optimized.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, TableScan, TableType};
use datafusion::physical_plan::ExecutionPlan;
use keyspan_model::{RelationId, RollupDef, TableDef, ViewDef};
use keyspan_seam::Snapshot;

use super::definition::{Definition, definition};
use super::stale::Stale;
use crate::error::external;
use crate::table::KeyspanTable;
use crate::table::Mentions;

/// A materialized view of one catalog version. Holds no snapshot: [`expanded`] brings that of an execution.
#[derive(Clone, Debug)]
pub struct RollupTable {
    rollup: RollupDef,
    /// The view's query, analyzed, its columns named as the view's.
    query: LogicalPlan,
    schema: SchemaRef,
}

impl RollupTable {
    /// The view with this analyzed query.
    ///
    /// # Errors
    /// When the rows that are kept have not the query's columns.
    pub fn new(view: &ViewDef, rollup: &RollupDef, query: LogicalPlan) -> Result<RollupTable> {
        let field = |name: &String| {
            let column = rollup.rows.expect_column(name).map_err(external)?;
            Ok(column.ty.field(&column.name, true))
        };
        let names: Vec<String> = query.schema().fields().iter().map(|field| field.name().clone()).collect();
        if names.len() != rollup.rows.columns.len() {
            let message = format!("materialized view {} has other columns than its query", view.name);
            return Err(external(keyspan_model::Error::internal(message)));
        }
        let schema = Schema::new(names.iter().map(field).collect::<Result<Vec<_>>>()?);
        Ok(RollupTable { rollup: rollup.clone(), query, schema: Arc::new(schema) })
    }

    /// The rows of these buckets as they are kept, columns in the given order.
    pub(crate) fn kept(&self, condition: impl Fn(&Expr) -> Result<Expr>) -> Result<LogicalPlan> {
        let rows = &self.rollup.rows;
        let table = KeyspanTable::new(Arc::new(rows.clone()), &Mentions::default());
        let bucket = bucket_column(rows).ok_or_else(|| DataFusionError::Internal("a view without a key".into()))?;
        let bucket = Expr::Column(Column::from_name(bucket));
        let scan = LogicalPlanBuilder::scan(rows.name.as_str(), provider_as_source(Arc::new(table)), None)?;
        let columns = self.schema.fields().iter().map(|field| Expr::Column(Column::from_name(field.name())));
        scan.filter(condition(&bucket)?)?.project(columns)?.build()
    }

    /// What the query says of these buckets, columns of the same types and names.
    pub(crate) fn computed(&self, condition: impl Fn(&Expr) -> Result<Expr>) -> Result<LogicalPlan> {
        let definition = self.definition()?;
        let time =
            definition.source.column_by_id(definition.time).map(|column| column.name.clone()).unwrap_or_default();
        let restricted = self.query.clone().transform_down(|node| match node {
            LogicalPlan::TableScan(scan) => {
                let time = Expr::Column(Column::new(Some(scan.table_name.clone()), time.clone()));
                let filtered = LogicalPlanBuilder::from(LogicalPlan::TableScan(scan)).filter(condition(&time)?)?;
                Ok(Transformed::new(filtered.build()?, true, TreeNodeRecursion::Jump))
            }
            other => Ok(Transformed::no(other)),
        })?;
        let columns = self.query.schema().columns().into_iter().zip(self.schema.fields());
        let typed = columns.map(|(column, field)| {
            Expr::Column(column).cast_to(field.data_type(), self.query.schema()).map(|expr| expr.alias(field.name()))
        });
        let typed = typed.collect::<Result<Vec<_>>>()?;
        LogicalPlanBuilder::from(restricted.data).project(typed)?.build()
    }

    fn definition(&self) -> Result<Definition> {
        definition(&self.query).map_err(|no| external(no.into()))
    }

    /// The relation of the source's rows.
    pub(crate) fn source(&self) -> Result<RelationId> {
        Ok(self.definition()?.source.rows)
    }

    /// What is stale on the snapshot.
    pub(crate) async fn stale(&self, snapshot: &dyn Snapshot, state: &SessionState) -> Result<Stale> {
        let definition = self.definition()?;
        Stale::of(&definition, &self.rollup, snapshot, state).await.map_err(external)
    }

    /// All rows of the view, as a snapshot shows them.
    fn complete(&self, stale: &Stale) -> Result<LogicalPlan> {
        let kept = self.kept(|bucket| stale.spares(bucket))?;
        if stale.is_empty() {
            return Ok(kept);
        }
        let computed = self.computed(|time| stale.holds(time))?;
        LogicalPlanBuilder::from(kept).union(computed)?.build()
    }
}

/// The column of the rows' table that holds the bucket: the last of its key.
fn bucket_column(rows: &TableDef) -> Option<&str> {
    rows.key().last().map(|column| column.name.as_str())
}

/// The plan with every materialized view in it replaced by what stands for it on this snapshot. The plan is analyzed, and
/// so is what is put in.
pub async fn expanded(plan: LogicalPlan, snapshot: &dyn Snapshot, state: &SessionState) -> Result<LogicalPlan> {
    let mut stale = HashMap::new();
    for view in views(&plan)? {
        stale.insert(view.rollup.rows.rows, view.stale(snapshot, state).await?);
    }
    if stale.is_empty() {
        return Ok(plan);
    }
    let replaced = plan.transform_down_with_subqueries(|node| {
        let LogicalPlan::TableScan(scan) = &node else { return Ok(Transformed::no(node)) };
        let Some(view) = view_of(scan) else { return Ok(Transformed::no(node)) };
        let Some(stale) = stale.get(&view.rollup.rows.rows) else { return Ok(Transformed::no(node)) };
        let complete = in_place_of(scan, view.complete(stale)?)?;
        Ok(Transformed::new(complete, true, TreeNodeRecursion::Jump))
    })?;
    Ok(replaced.data)
}

/// The materialized views that a plan reads.
fn views(plan: &LogicalPlan) -> Result<Vec<RollupTable>> {
    let mut views = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            views.extend(view_of(scan));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(views)
}

fn view_of(scan: &TableScan) -> Option<RollupTable> {
    source_as_provider(&scan.source).ok()?.downcast_ref::<RollupTable>().cloned()
}

/// A plan with the columns of a scan, named and qualified as they are.
fn in_place_of(scan: &TableScan, plan: LogicalPlan) -> Result<LogicalPlan> {
    let names: Vec<String> = scan.projected_schema.fields().iter().map(|field| field.name().clone()).collect();
    let columns = names.iter().map(|name| {
        let column = plan.schema().columns().into_iter().find(|column| column.name == *name);
        let column = column.ok_or_else(|| DataFusionError::Internal(format!("a view without its column {name}")))?;
        Ok(Expr::Column(column).alias(name))
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let mut builder = LogicalPlanBuilder::from(plan).project(columns)?.alias(scan.table_name.clone())?;
    for filter in &scan.filters {
        builder = builder.filter(filter.clone())?;
    }
    builder.limit(0, scan.fetch)?.build()
}

#[async_trait]
impl TableProvider for RollupTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        _: &dyn Session,
        _: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Err(DataFusionError::Internal("a materialized view was planned without its rows".into()))
    }
}
