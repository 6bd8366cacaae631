//! CREATE TABLE, and what comes along of the tables that it is LIKE: indexes and comments, in one step with it.

use keyspan_cql::CreateTable;
use keyspan_model::Result;

use super::Session;
use crate::ddl;
use crate::ddl::like::Expanded;
use crate::names;
use crate::outcome::Outcome;
use crate::transaction_control;

impl Session {
    /// CREATE TABLE.
    pub(super) async fn create_table(&mut self, statement: &CreateTable) -> Result<Outcome> {
        if statement.like.is_empty() || (statement.if_not_exists && self.has_relation(statement)) {
            return ddl::table::create(&mut self.context, statement).await;
        }
        let expanded = ddl::like::expanded(&self.context, statement)?;
        let own = transaction_control::begin_several(&mut self.context)?;
        let done = self.created_like(&expanded).await;
        self.end_several(own, done).await
    }

    async fn created_like(&mut self, expanded: &Expanded) -> Result<Outcome> {
        let outcome = ddl::table::create(&mut self.context, &expanded.table).await?;
        // A temporary one may be gone already.
        if self.has_relation(&expanded.table) {
            for index in &expanded.indexes {
                ddl::index::create(&mut self.context, index).await?;
            }
            for comment in &expanded.comments {
                ddl::comment::run(&mut self.context, comment).await?;
            }
        }
        Ok(outcome)
    }

    fn has_relation(&self, statement: &CreateTable) -> bool {
        let path = self.context.settings.search_path();
        names::find(&self.context.newest_catalog(), &path, &statement.name).is_some()
    }
}
