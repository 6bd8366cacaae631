//! ADD COLUMN with a DEFAULT. Under `write_semantics = postgres` the rows that are there get it, too, as in PostgreSQL: the
//! column is added, filled and then declared NOT NULL, in one transaction. In CQL a default is for rows to come.
//!
//! Rule: what others have written meanwhile fails COMMIT. A transaction of the statement's own is then done again, while
//! writers wait.

use std::sync::Arc;

use keyspan_cql::{AlterAction, AlterTable, ColumnDefinition};
use keyspan_model::{Catalog, Error, ErrorKind, Result, TableDef, TableId};

use super::Session;
use crate::database::count;
use crate::dml::fill::{Filled, fill};
use crate::names::{self, TableOrView};
use crate::outcome::{Notice, Outcome, Tag};
use crate::{ddl, transaction_control};

impl Session {
    /// ALTER TABLE.
    pub(super) async fn alter_table(&mut self, statement: &AlterTable) -> Result<Outcome> {
        match ddl::column_type::passes(statement) {
            Some(passes) => self.altered_by_passes(&passes).await,
            None => self.altered_at_once(statement).await,
        }
    }

    /// Several statements in place of one.
    async fn altered_by_passes(&mut self, passes: &[AlterTable]) -> Result<Outcome> {
        let own = transaction_control::begin_several(&mut self.context)?;
        let mut done = Ok(Outcome::done(Tag::plain("ALTER TABLE")));
        for pass in passes {
            done = self.altered_at_once(pass).await;
            if done.is_err() {
                break;
            }
        }
        self.end_several(own, done).await
    }

    async fn altered_at_once(&mut self, statement: &AlterTable) -> Result<Outcome> {
        let context = &mut self.context;
        let (catalog, path) = (context.newest_catalog(), context.settings.search_path());
        let fills = context.settings.postgres_writes() && statement.actions.iter().any(|each| filled(each).is_some());
        let table = match names::find(&catalog, &path, &statement.name) {
            Some(TableOrView::Table(table)) if fills => table,
            _ => return ddl::alter::run(context, statement).await,
        };
        let (told, mut closed) = (context.notices.len(), None);
        for _ in 0..ddl::TRIES_MAX {
            let own = transaction_control::begin_several(&mut self.context)?;
            let done = self.added_and_filled(statement, table.id).await;
            match self.end_several(own, done).await {
                Err(error) if own && matches!(error.kind, ErrorKind::Serialization | ErrorKind::Redefined) => {
                    count(&self.context.database.counts().retries);
                    self.context.notices.truncate(told);
                }
                other => return other,
            }
            closed.get_or_insert_with(|| self.context.database.gates().close(table.id));
        }
        Err(ddl::kept_changing())
    }

    async fn added_and_filled(&mut self, statement: &AlterTable, table: TableId) -> Result<Outcome> {
        let context = &mut self.context;
        let before = of(&context.newest_catalog(), table)?;
        let outcome = ddl::alter::run(context, &nullable(statement)).await?;
        let after = of(&context.newest_catalog(), table)?;
        let added = |name: &str| after.column(name).filter(|column| before.column_by_id(column.id).is_none());
        let columns: Vec<&ColumnDefinition> =
            statement.actions.iter().filter_map(filled).filter(|column| added(&column.name).is_some()).collect();
        if columns.is_empty() {
            return Ok(outcome);
        }
        let ids: Vec<_> = columns.iter().filter_map(|column| Some(added(&column.name)?.id)).collect();
        let Filled { state, expiring } = fill(context, after.clone(), &ids).await?;
        let new_checks: Vec<_> = after.checks.iter().filter(|check| !before.checks.contains(check)).collect();
        ddl::alter::expect_met(context, &state, &after, &new_checks).await?;
        let not_null = columns.iter().filter(|column| column.not_null).map(|column| column.name.as_str());
        let declared = ddl::alter::declare_not_null(context, &state, &after, &not_null.collect::<Vec<_>>()).await;
        declared.map_err(|error| if expiring > 0 { error.with_hint(EXPIRING) } else { error })?;
        if expiring > 0 {
            let message = match expiring {
                1 => format!("1 row of table \"{}\" expires: it does not get the default", after.name),
                _ => format!("{expiring} rows of table \"{}\" expire: they do not get the default", after.name),
            };
            context.notice(Notice::plain(message));
        }
        Ok(outcome)
    }
}

/// What is said where a column that is added cannot be NOT NULL.
const EXPIRING: &str = "Rows that expire do not get the default. Add the column without NOT NULL.";

/// The column that an action adds, if the rows that are there get its default.
fn filled(action: &AlterAction) -> Option<&ColumnDefinition> {
    match action {
        AlterAction::AddColumn { column, .. } if !column.is_static => column.default.as_ref().map(|_| column),
        _ => None,
    }
}

/// The statement with columns that may be null while they are not filled.
fn nullable(statement: &AlterTable) -> AlterTable {
    let mut nullable = statement.clone();
    for action in &mut nullable.actions {
        let is_filled = filled(action).is_some();
        if let AlterAction::AddColumn { column, .. } = action {
            column.not_null &= !is_filled;
        }
    }
    nullable
}

fn of(catalog: &Catalog, table: TableId) -> Result<Arc<TableDef>> {
    let gone = || Error::new(ErrorKind::Redefined, "could not serialize access: the table was dropped meanwhile");
    catalog.tables.get(&table).cloned().ok_or_else(gone)
}
