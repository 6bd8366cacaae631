//! Rows that were checked against one definition of a table, and are written while another may be in force.
//!
//! The rule: each row meets the constraints of its table, and has a value in each column with a default that was added
//! before it was written. So rows that were checked against fewer constraints, or made without such a column, are
//! refused, and made again by who wrote them.

use std::sync::Arc;

use super::{Catalog, ColumnDef, TableDef};
use crate::error::{Error, ErrorKind, Result};

impl Catalog {
    /// Fails unless rows that were checked against these definitions may be written under this catalog.
    ///
    /// # Errors
    /// 40001 that names the table.
    pub fn check_redefined(&self, definitions: &[Arc<TableDef>]) -> Result<()> {
        let may_write = |earlier: &Arc<TableDef>| match self.tables.get(&earlier.id) {
            Some(now) => Arc::ptr_eq(now, earlier) || now.takes_rows_of(earlier),
            None => false,
        };
        match definitions.iter().find(|earlier| !may_write(earlier)) {
            Some(earlier) => {
                let message =
                    format!("could not serialize access: table \"{}\" was changed by another session", earlier.name);
                let hint = "It was altered, emptied or dropped meanwhile: run the statement or transaction again.";
                Err(Error::new(ErrorKind::Redefined, message).with_hint(hint))
            }
            None => Ok(()),
        }
    }
}

impl TableDef {
    /// Whether rows that were made for an earlier definition meet this one, and belong into the same relation.
    fn takes_rows_of(&self, earlier: &TableDef) -> bool {
        let never_null = |column: &ColumnDef| column.not_null || column.is_key();
        let was_never_null = |column: &ColumnDef| earlier.column_by_id(column.id).is_some_and(never_null);
        let had = |column: &ColumnDef| earlier.column_by_id(column.id).is_some();
        let was_as_short = |column: &ColumnDef| match (column.max_length, earlier.column_by_id(column.id)) {
            (Some(most), Some(before)) => before.max_length.is_some_and(|length| length <= most),
            _ => true,
        };
        let was_unique = |entries| earlier.uniques().any(|(_, unique)| unique.entries == entries);
        self.rows == earlier.rows
            && self.columns.iter().all(|column| !never_null(column) || was_never_null(column))
            && self.columns.iter().all(|column| was_as_short(column) && (column.default.is_none() || had(column)))
            && self.checks.iter().all(|check| earlier.checks.contains(check))
            && self.uniques().all(|(_, unique)| was_unique(unique.entries))
    }
}
