//! A scan without its snapshot, spans and filter, and the same scan with others.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr};
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};
use keyspan_model::{Order, RelationDef, RelationId, Scan, TableDef};
use keyspan_seam::Snapshot;

use super::exec::{Form, ReadPlan, SpanScanExec};
use super::join_keys::AwaitedKeys;
use super::layout::Shape;
use super::read::ReadColumn;
use super::sort::fixed_columns;
use super::statistics;
use super::top::Top;
use crate::spans::Pushed;

/// How many times as many rows a scan of a join may read as the one that it was planned for, or as few.
const MOST_RATIO: u64 = 8;
/// Rows up to which that does not matter.
const ANY_RATIO: u64 = 4096;

/// What a scan is, and what it promised the nodes above, besides what it reads this time.
#[derive(Clone, Debug)]
pub(crate) struct ScanTemplate {
    table: Arc<TableDef>,
    relation: Arc<RelationDef>,
    read: Vec<ReadColumn>,
    read_schema: SchemaRef,
    constant: Vec<bool>,
    partitions: usize,
    output: Vec<usize>,
    schema: SchemaRef,
    ordering: Option<LexOrdering>,
    fetch: Option<usize>,
    order: Order,
    per_prefix: Option<(usize, usize)>,
    small: bool,
    shape: Shape,
    /// Spans of their own partitions, and the key columns with one value in each.
    spans: (usize, usize),
    /// Which scan of its plan it is.
    number: usize,
    /// Rows that it was planned for.
    rows: Option<u64>,
    /// Keys of joins without which it does not begin.
    awaited: Vec<AwaitedKeys>,
    top: Option<Top>,
    properties: Arc<PlanProperties>,
}

impl SpanScanExec {
    /// Its form.
    pub(crate) fn form(&self) -> ScanTemplate {
        let plan = &self.plan;
        ScanTemplate {
            table: plan.table.clone(),
            relation: plan.relation.clone(),
            read: plan.read.clone(),
            read_schema: plan.read_schema.clone(),
            constant: plan.constant.clone(),
            partitions: plan.partitions,
            output: self.output.clone(),
            schema: self.schema.clone(),
            ordering: self.ordering.clone(),
            fetch: self.fetch,
            order: self.scan.order,
            per_prefix: self.scan.per_prefix,
            small: self.is_small(),
            shape: self.shape,
            spans: spans_of(&self.scan),
            number: plan.number,
            rows: statistics::estimated_rows(&self.estimate),
            awaited: self.awaited.clone(),
            top: self.top.clone(),
            properties: self.properties().clone(),
        }
    }
}

impl ScanTemplate {
    pub(crate) fn relation(&self) -> &RelationDef {
        &self.relation
    }

    /// Which scan of its plan it is.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Whether another scan of this form reads about as many rows, so that joins would be planned alike.
    pub(crate) fn is_of_size(&self, scan: &SpanScanExec) -> bool {
        let bounds = |rows: u64| rows.max(ANY_RATIO / MOST_RATIO);
        match (self.rows, statistics::estimated_rows(&scan.estimate)) {
            (Some(planned), Some(rows)) => {
                let (planned, rows) = (bounds(planned), bounds(rows));
                planned.max(rows) <= planned.min(rows).saturating_mul(MOST_RATIO)
            }
            (planned, rows) => planned == rows,
        }
    }

    pub(crate) fn read_schema(&self) -> &SchemaRef {
        &self.read_schema
    }

    /// What the store is asked to read.
    pub(crate) fn scan(&self, pushed: &Pushed) -> Scan {
        Scan {
            relation: self.relation_id(),
            spans: pushed.spans.clone(),
            columns: Vec::new(),
            ranges: if self.per_prefix.is_some() { Vec::new() } else { pushed.ranges.clone() },
            order: self.order,
            limit: None,
            per_prefix: self.per_prefix,
            coded: true,
        }
    }

    /// The scan of these spans on this snapshot; `None` where it would not promise the same, or where another way of
    /// reading suits its size better.
    pub(crate) async fn renewed(
        &self,
        snapshot: Arc<dyn Snapshot>,
        filters: &[Expr],
        pushed: Pushed,
        filter: Option<Arc<dyn PhysicalExpr>>,
    ) -> Result<Option<SpanScanExec>> {
        let scan = self.scan(&pushed);
        let counted = self.per_prefix.is_some();
        let uncounted = counted && (filter.is_some() || !snapshot.accept(&scan).per_prefix);
        if uncounted || (self.ordering.is_some() && pushed.constant != self.constant) {
            return Ok(None);
        }
        if self.shape == Shape::Spans && spans_of(&scan) != self.spans {
            return Ok(None);
        }
        let plan = ReadPlan {
            table: self.table.clone(),
            relation: self.relation.clone(),
            snapshot,
            read: self.read.clone(),
            read_schema: self.read_schema.clone(),
            filters: filters.to_vec(),
            filter,
            constant: pushed.constant,
            scan,
            partitions: self.partitions,
            number: self.number,
        };
        let form = Form { order: self.order, ordering: self.ordering.clone(), fetch: self.fetch, shape: self.shape };
        let scan = SpanScanExec::formed(plan, self.output.clone(), self.schema.clone(), form).await?;
        let scan = scan.with_top(self.top.clone());
        Ok(self.awaiting(scan).and_then(|scan| scan.promising(&self.properties)).filter(|scan| self.suits(scan)))
    }

    /// The scan waiting for the keys of the same joins; `None` where its spans have another use for them.
    fn awaiting(&self, scan: SpanScanExec) -> Option<SpanScanExec> {
        let waiting = self.awaited.iter().try_fold(scan, |scan, keys| scan.awaiting(keys.clone()))?;
        (waiting.awaited == self.awaited).then_some(waiting)
    }

    fn relation_id(&self) -> RelationId {
        self.relation.id
    }

    fn suits(&self, scan: &SpanScanExec) -> bool {
        let ordered = self.ordering.is_none() || scan.keeps_order();
        ordered && scan.is_small() == self.small
    }
}

fn spans_of(scan: &Scan) -> (usize, usize) {
    (scan.spans.len(), scan.spans.iter().map(fixed_columns).min().unwrap_or(0))
}
