//! Numbers of rows of tables without a key: 1, 2, 3, … in order of arrival.
//!
//! The rule: a number is given out once. The first time a table is written to, its last row is read; only one process
//! has the directory open, so the next number is kept in memory from then on. Numbers of rows that were rolled back are
//! not given out again.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::compute::max;
use arrow::datatypes::Int64Type;
use futures::StreamExt;
use keyspan_model::{Order, RelationDef, RelationId, Result, Scan, ScanColumn, Span};
use keyspan_seam::{Conditions, ReadAt, Snapshot, Store};
use parking_lot::Mutex;

/// The next number of each table that has been written to.
#[derive(Debug, Default)]
pub(crate) struct RowIds {
    next: Mutex<HashMap<RelationId, i64>>,
}

impl RowIds {
    /// The first of `rows` new consecutive numbers for a table without a key.
    pub(crate) async fn allocate(&self, store: &Arc<dyn Store>, relation: &RelationDef, rows: usize) -> Result<i64> {
        if let Some(first) = self.take(relation.id, rows) {
            return Ok(first);
        }
        // The newest state: what is applied but not yet acknowledged has its numbers too.
        let snapshot = store.snapshot(ReadAt::Newest)?;
        let last = match snapshot.catalog().relation(relation.id) {
            Some(_) => last_number(&snapshot, relation).await?,
            None => 0,
        };
        self.learn(relation.id, last);
        Ok(self.take(relation.id, rows).unwrap_or(last + 1))
    }

    /// The first of `rows` consecutive numbers, if the table's last one is known.
    fn take(&self, relation: RelationId, rows: usize) -> Option<i64> {
        let mut next = self.next.lock();
        let next = next.get_mut(&relation)?;
        *next += rows as i64;
        Some(*next - rows as i64)
    }

    /// Rows up to this number are there, or will be: the next one is greater. The id may have been that of a table whose
    /// creation was rolled back.
    pub(crate) fn learn(&self, relation: RelationId, last: i64) {
        let mut next = self.next.lock();
        let next = next.entry(relation).or_insert(last + 1);
        *next = (*next).max(last + 1);
    }
}

async fn last_number(snapshot: &Arc<dyn Snapshot>, relation: &RelationDef) -> Result<i64> {
    let all = Scan::new(relation.id, vec![Span::all()], vec![ScanColumn::Column(relation.key[0].id)]);
    let mut scan = Scan { order: Order::Reverse, limit: Some(1), ..all };
    let ordered = snapshot.accept(&scan).order;
    // Without an order the last row may come anywhere.
    scan.limit = scan.limit.filter(|_| ordered);
    let plan = snapshot.plan(&scan, 1).await?;
    let mut last = 0;
    for split in &plan.splits {
        let mut stream = snapshot.scan(&scan, split, Conditions::default(), Arc::default())?;
        while let Some(batch) = stream.next().await {
            let Some(number) = max(batch?.column(0).as_primitive::<Int64Type>()) else { continue };
            last = last.max(number);
            if ordered {
                return Ok(last);
            }
        }
    }
    Ok(last)
}
