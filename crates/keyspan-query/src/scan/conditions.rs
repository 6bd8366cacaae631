//! Parts of a filter as conditions that the store is told, so that nothing else is read of rows that do not meet them.
//!
//! Where `rack LIKE '%7'` is true for no row of a block, its times and numbers are not read; where `a + b > 195` is true for
//! a few, only theirs are. The filter stays, and checks what comes.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::buffer::BooleanBuffer;
use datafusion::error::Result;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use keyspan_model::{ColumnId, ScanColumn};
use keyspan_seam::RowCondition;

use super::exec::ReadPlan;
use super::read::ReadColumn;
use crate::coded_expr::Condition;

/// Columns that the store has, of those that are read.
#[derive(Debug)]
pub(super) struct StoredColumns {
    pub(super) ids: Vec<ColumnId>,
    places: Vec<usize>,
}

impl StoredColumns {
    /// Those at these places among the columns read; `None`: one of them is made of others.
    pub(super) fn new(places: &[usize], read: &[ReadColumn]) -> Option<StoredColumns> {
        let id = |place: &usize| match read[*place] {
            ReadColumn::Scan(ScanColumn::Column(id)) => Some(id),
            _ => None,
        };
        let ids = places.iter().map(id).collect::<Option<Vec<_>>>()?;
        (!ids.is_empty()).then(|| StoredColumns { ids, places: places.to_vec() })
    }

    /// Their arrays at their places among the columns read; what is at others means nothing.
    pub(super) fn among_read(&self, columns: &[ArrayRef]) -> Vec<ArrayRef> {
        let width = self.places.iter().max().map_or(0, |place| place + 1);
        let mut read = vec![Arc::clone(&columns[0]); width];
        self.places.iter().zip(columns).for_each(|(place, column)| read[*place] = Arc::clone(column));
        read
    }
}

/// What must be true of a row.
#[derive(Debug)]
struct FilterPart {
    columns: StoredColumns,
    condition: Condition,
}

/// The parts of a filter over the columns read, but for those that the ranges of the scan say better.
pub(super) fn of_filter(filter: &Arc<dyn PhysicalExpr>, plan: &ReadPlan) -> Result<Vec<Arc<dyn RowCondition>>> {
    let mut conditions: Vec<Arc<dyn RowCondition>> = Vec::new();
    for part in split_conjunction(filter).into_iter().filter(|part| !is_volatile(part)) {
        let places: Vec<usize> = collect_columns(part).iter().map(|column| column.index()).collect();
        let Some(columns) = StoredColumns::new(&places, &plan.read) else { continue };
        let is_text = |place: &usize| plan.read_schema.field(*place).data_type().is_string();
        let has_range = plan.scan.ranges.iter().any(|range| columns.ids == [range.column]);
        if !has_range || places.iter().all(is_text) {
            let condition = Condition::new(part, &plan.read_schema)?;
            conditions.push(Arc::new(FilterPart { columns, condition }));
        }
    }
    Ok(conditions)
}

impl RowCondition for FilterPart {
    fn columns(&self) -> &[ColumnId] {
        &self.columns.ids
    }

    fn met(&self, columns: &[ArrayRef], rows: usize) -> Option<BooleanBuffer> {
        // A row for which it fails may be one that another part of the filter leaves out.
        let met = self.condition.mask(&self.columns.among_read(columns), rows).ok()?;
        Some(met.values().clone())
    }
}
