//! Rows that were judged by one definition of a table, and are written while another may be in force.
//!
//! The rule: what a definition demands of rows, each row meets. So rows that were judged by a definition that demanded
//! less are refused, and judged anew by who wrote them.

use std::sync::Arc;

use super::{Catalog, ColumnDef, TableDef};
use crate::error::{Error, ErrorKind, Result};

impl Catalog {
    /// Fails unless rows that were judged by these definitions may be written under this catalog.
    ///
    /// # Errors
    /// 40001 that names the table.
    pub fn check_judged(&self, definitions: &[Arc<TableDef>]) -> Result<()> {
        let may_write = |judged: &Arc<TableDef>| match self.tables.get(&judged.id) {
            Some(now) => Arc::ptr_eq(now, judged) || now.demands_no_more_than(judged),
            None => false,
        };
        match definitions.iter().find(|judged| !may_write(judged)) {
            Some(judged) => {
                let message =
                    format!("could not serialize access: table \"{}\" was changed by another session", judged.name);
                let hint = "It was altered, emptied or dropped meanwhile: run the transaction again.";
                Err(Error::new(ErrorKind::Redefined, message).with_hint(hint))
            }
            None => Ok(()),
        }
    }
}

impl TableDef {
    /// Whether rows that meet an earlier definition meet this one, and belong into the same relation.
    fn demands_no_more_than(&self, judged: &TableDef) -> bool {
        let never_null = |column: &ColumnDef| column.not_null || column.is_key();
        let was_never_null = |column: &ColumnDef| judged.column_by_id(column.id).is_some_and(never_null);
        let was_unique = |entries| judged.uniques().any(|(_, unique)| unique.entries == entries);
        self.rows == judged.rows
            && self.columns.iter().all(|column| !never_null(column) || was_never_null(column))
            && self.checks.iter().all(|check| judged.checks.contains(check))
            && self.uniques().all(|(_, unique)| was_unique(unique.entries))
    }
}
