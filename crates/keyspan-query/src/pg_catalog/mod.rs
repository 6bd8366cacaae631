//! The system tables: `pg_catalog` and `information_schema`, so that embedded and wire answer alike.
//!
//! They are for programs that ask what there is: psql, drivers, SQLAlchemy. Columns are Postgres 15's (`columns.txt`);
//! rows come from the catalog of the statement's snapshot when a table is scanned. What Keyspan has not (triggers,
//! publications, …) is an empty table. An `oid` is computed with as `bigint`, `name` and `"char"` as `text`.
//!
//! - `definition`: names, columns and their types.
//! - `source`: what the rows are made from; OIDs; names to OIDs and back.
//! - `relations`, `session_rows`, `information`: the rows. `index`: how far indexes are built.
//! - `roles`: roles, owners and access lists; `privilege`: what a role may do.
//! - `origin`: which of their columns a column of an answer is.
//! - `procedures`: the functions that `pg_proc` lists.
//! - `default`: the DEFAULT of a column.
//! - `comments`: what COMMENT ON has said.
//! - `peers`: other sessions and the advisory locks.
//! - `sequence`: `nextval` and its kin.
//! - `keywords`: `pg_get_keywords()`.
//! - `functions`: `format_type`, `pg_get_indexdef` and the like. `rewrite`: the forms of SQL that only such queries use.

mod asyncpg;
mod comments;
mod default;
mod definition;
mod extension;
mod functions;
mod heat;
mod index;
mod information;
mod keywords;
mod lookup;
mod origin;
mod peers;
mod privilege;
mod procedures;
mod relations;
mod rewrite;
mod roles;
mod row;
mod sequence;
mod session_rows;
mod size;
mod source;
mod statistics;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr as AstExpr, ObjectName, Query, SelectItem, SetExpr, TableFactor, TableWithJoins,
};
use keyspan_model::TableId;

use crate::context::StatementContext;
use crate::syntax::parts_of;
use definition::Definition;
use source::Source;

pub use asyncpg::{oid_array_parameters, simplify};
pub use definition::type_oid;
pub use extension::{EXTENSIONS, Extension};
pub use functions::{function_names, overloads};
pub use keywords::function as keyword_function;
pub use origin::{Origin, are_alike};
pub use rewrite::{rewrite_expression, rewrite_query};
pub use source::{shown, table_oid};

/// Schemas that hold system tables.
pub const SCHEMAS: &[&str] = &["pg_catalog", "information_schema"];

/// Whether a name in FROM is a system table's.
pub fn is_system_table(name: &ObjectName) -> bool {
    let Some((schema, name)) = parts_of(name) else { return false };
    definition::find(schema.as_deref().unwrap_or("pg_catalog"), &name).is_some()
}

/// Whether a subquery is the one by which psql's `\dp` lists the policies of a table, of which there are none. Its
/// subqueries within subqueries need not be planned.
pub fn lists_policies(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    let [TableWithJoins { relation: TableFactor::Table { name, .. }, joins }] = select.from.as_slice() else {
        return false;
    };
    let is_text = |item: &SelectItem| {
        matches!(item, SelectItem::UnnamedExpr(AstExpr::BinaryOp { op: BinaryOperator::StringConcat, .. }))
    };
    let policies = parts_of(name).is_some_and(|(_, name)| name == "pg_policy");
    policies && joins.is_empty() && select.projection.iter().all(is_text)
}

/// The columns of the views: what only planning their queries can tell.
pub type ViewColumns = Vec<(TableId, SchemaRef)>;

/// The system table of this name. Its rows come from the snapshot that a statement runs on; only the columns of views
/// are settled here, and only for the tables that show them.
pub fn table(schema: &str, name: &str, views: impl FnOnce() -> ViewColumns) -> Option<Arc<dyn TableProvider>> {
    let definition = definition::find(schema, name)?;
    let views = Arc::new(if matches!(name, "pg_attribute" | "columns") { views() } else { Vec::new() });
    Some(Arc::new(SystemTable { definition, views }))
}

/// Of a column of a system table: the table's OID, the column's number, and the OID of its type.
pub fn system_column(provider: &dyn TableProvider, name: &str) -> Option<(i64, usize, i64)> {
    let table = provider.downcast_ref::<SystemTable>()?.definition;
    let place = table.columns.iter().position(|column| column.name == name)?;
    Some((table.oid, place + 1, definition::type_of_system(&table.columns[place])))
}

#[derive(Debug)]
struct SystemTable {
    definition: &'static Definition,
    views: Arc<ViewColumns>,
}

#[async_trait]
impl TableProvider for SystemTable {
    fn schema(&self) -> SchemaRef {
        self.definition.arrow.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let statement = state
            .config()
            .get_extension::<StatementContext>()
            .ok_or_else(|| DataFusionError::Internal("a scan was planned without a statement's snapshot".into()))?;
        let source = Source {
            catalog: statement.catalog.clone(),
            info: statement.info.clone(),
            search_path: Arc::default(),
            views: self.views.clone(),
        };
        let rows = match self.definition.schema {
            "information_schema" => information::rows(self.definition.name, &source),
            _ if self.definition.name == "pg_stat_progress_create_index" => {
                index::progress(&source, statement.snapshot.as_ref())
            }
            _ => relations::rows(self.definition.name, &source)
                .or_else(|| session_rows::rows(self.definition.name, &source))
                .or_else(|| statistics::rows(self.definition.name, &source))
                .unwrap_or_default(),
        };
        let batch = row::batch(self.definition, &rows)?;
        let exec = MemorySourceConfig::try_new_exec(&[vec![batch]], self.schema(), projection.cloned())?;
        Ok(exec)
    }
}
