//! Static columns: one value for each partition, in a relation of their own, keyed by the partition key.
//!
//! ```text
//! t  =  rows  FULL JOIN  statics  USING (partition key)
//! ```
//!
//! The rule is Cassandra's: each row of a partition shows its static values, and a partition that has static values
//! but no rows is one row, whose other columns are NULL. A condition that no NULL passes on another column leaves that row out.
//! So a scan pays for what it asks:
//!
//! - names static columns: they are read for the partitions of each batch of rows ([`StaticsRead`]);
//! - may see partitions without rows, since nothing restricts the other columns: these are looked for where the
//!   relation has any data ([`RowlessPartitions`]), beforehand where it has little, else when the scan runs
//!   ([`RowlessExec`]);
//! - neither: the scan is that of a table without static columns.

mod exec;
mod read;
mod rowless;

use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, Operator};
use keyspan_model::{ColumnRole, TableDef};

pub use exec::RowlessExec;
pub use read::StaticsRead;
pub use rowless::{Rowless, RowlessColumn, RowlessPartitions};

use crate::types::sortable_form;

/// Whether a table's scans by these filters may see partitions without rows. Answers the same whatever constants the
/// filters have.
pub fn may_see_rowless<'a>(table: &TableDef, filters: impl IntoIterator<Item = &'a Expr>) -> bool {
    let rejects = |filter: &Expr| split_conjunction(filter).into_iter().any(|part| rejects_null(table, part));
    table.statics.is_some() && !filters.into_iter().any(rejects)
}

/// Whether a condition is not true where all columns are NULL that are neither static nor of the partition key.
fn rejects_null(table: &TableDef, condition: &Expr) -> bool {
    let of_rows = |expr: &Expr| is_of_rows(table, expr);
    match condition {
        Expr::BinaryExpr(binary) => match binary.op {
            Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => {
                of_rows(&binary.left) || of_rows(&binary.right)
            }
            Operator::And => rejects_null(table, &binary.left) || rejects_null(table, &binary.right),
            Operator::Or => rejects_null(table, &binary.left) && rejects_null(table, &binary.right),
            _ => false,
        },
        Expr::Between(between) => of_rows(&between.expr),
        Expr::InList(list) => of_rows(&list.expr),
        Expr::Like(like) => of_rows(&like.expr),
        Expr::IsNotNull(expr) => of_rows(expr),
        _ => false,
    }
}

/// Whether an expression is a column of rows, perhaps in the form in which it sorts.
fn is_of_rows(table: &TableDef, expr: &Expr) -> bool {
    match expr {
        Expr::Cast(cast) => is_of_rows(table, &cast.expr),
        Expr::ScalarFunction(call) => match call.args.as_slice() {
            [Expr::Column(column)] => table
                .column(&column.name)
                .is_some_and(|own| sortable_form(own.ty) == Some(call.name()) && is_of_rows(table, &call.args[0])),
            _ => false,
        },
        Expr::Column(column) => table
            .column(&column.name)
            .is_some_and(|own| !matches!(own.role, ColumnRole::Partition | ColumnRole::Static)),
        _ => false,
    }
}
