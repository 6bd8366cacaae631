//! ADD COLUMN with a DEFAULT. Under `write_semantics = postgres` the rows that are there get it, too, as in PostgreSQL: the
//! column is added, filled and then declared NOT NULL, in one transaction. In CQL a default is for rows to come.
//!
//! Rule: rows that expire are not filled, since what is written to them would outlive them.

use std::sync::Arc;

use keyspan_cql::{AlterAction, AlterTable, ColumnDefinition, quoted};
use keyspan_model::{Result, TableDef};

use super::Session;
use crate::names::{self, TableOrView};
use crate::outcome::Outcome;
use crate::{ddl, dml, transaction_control};

impl Session {
    /// ALTER TABLE.
    pub(super) async fn alter_table(&mut self, statement: &AlterTable) -> Result<Outcome> {
        let Some((table, columns)) = self.columns_to_fill(statement).await? else {
            return ddl::alter::run(&mut self.context, statement).await;
        };
        let own = transaction_control::begin_several(&mut self.context)?;
        let done = self.added_and_filled(statement, &table, &columns).await;
        self.end_several(own, done).await
    }

    /// The columns that a statement adds with a default, and the table, if that has rows to be filled.
    async fn columns_to_fill(
        &mut self,
        statement: &AlterTable,
    ) -> Result<Option<(Arc<TableDef>, Vec<ColumnDefinition>)>> {
        let context = &mut self.context;
        let (catalog, path) = (context.catalog(), context.settings.search_path());
        let Some(TableOrView::Table(table)) = names::find(&catalog, &path, &statement.name) else { return Ok(None) };
        let filled = |action: &AlterAction| match action {
            AlterAction::AddColumn { column, .. } if column.default.is_some() => {
                (table.column(&column.name).is_none() && !column.is_static).then(|| column.clone())
            }
            _ => None,
        };
        let columns: Vec<ColumnDefinition> = statement.actions.iter().filter_map(filled).collect();
        if columns.is_empty() || !context.settings.postgres_writes() {
            return Ok(None);
        }
        let snapshot = context.newest()?;
        let lasting = dml::existing::any_row(context, &snapshot, &table).await?
            && !dml::existing::any_expiring(context, &snapshot, &table).await?;
        Ok(lasting.then_some((table, columns)))
    }

    async fn added_and_filled(
        &mut self,
        statement: &AlterTable,
        table: &TableDef,
        columns: &[ColumnDefinition],
    ) -> Result<Outcome> {
        let mut nullable = statement.clone();
        for action in &mut nullable.actions {
            if let AlterAction::AddColumn { column, .. } = action
                && column.default.is_some()
            {
                column.not_null = false;
            }
        }
        let outcome = ddl::alter::run(&mut self.context, &nullable).await?;
        let name = format!("{}.{}", quoted(&table.keyspace), quoted(&table.name));
        let set = columns
            .iter()
            .filter_map(|column| Some(format!("{} = ({})", quoted(&column.name), column.default.as_ref()?.text)));
        self.run_within(&format!("UPDATE {name} SET {}", set.collect::<Vec<_>>().join(", "))).await?;
        let not_null = columns.iter().filter(|column| column.not_null);
        let set_not_null =
            |column: &ColumnDefinition| AlterAction::SetNotNull { column: column.name.clone(), not_null: true };
        let actions: Vec<AlterAction> = not_null.map(set_not_null).collect();
        if !actions.is_empty() {
            ddl::alter::run(&mut self.context, &AlterTable { actions, ..statement.clone() }).await?;
        }
        Ok(outcome)
    }

    /// Runs a statement within the one that is running.
    async fn run_within(&mut self, text: &str) -> Result<()> {
        for parsed in keyspan_cql::parse(text)? {
            let prepared = self.prepare_again(Arc::new(parsed), Vec::new()).await?;
            Box::pin(self.run_prepared(&prepared, &[])).await?.read_all().await?;
        }
        Ok(())
    }
}
