//! Conditions on families and collections for which indexes can find rows: CONTAINS, CONTAINS KEY, `m['k'] = v`.
//!
//! ```text
//! Filter: s CONTAINS 'x'  ─▶  scan, told of it by a mark  ─▶  index of the elements ─▶ keys of rows ─▶ spans
//! ```
//!
//! The rule: the filter stays above the scan. So an index says where to look, and no row of an answer is stale; a scan
//! whose collection has no index, or of which too much is found, reads what it would have read.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::{Arc, LazyLock};

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::error::Result as PlanResult;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, ScalarUDF, TableScan, lit};
use futures::TryStreamExt;
use keyspan_model::array::value_at;
use keyspan_model::{
    ColumnId, ColumnRange, FamilyDef, FamilyKind, KeyEncoder, Order, Result, Scan, ScanColumn, Span, TableDef, Value,
};
use keyspan_seam::{Conditions, ScanCounters, Snapshot};

use super::value::{Function, VALUE, VALUES};
use crate::functions::array::COMPARE_ANY;
use crate::functions::nested;
use crate::types::value_of_literal;

/// Among the filters of a scan: rows that a condition on a collection needs. It drops no row.
pub(super) const FOUND: &str = "family_found";
/// Rows that are looked up one by one at most.
const ROWS_MAX: usize = 4096;

static FOUND_FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(Function::new(FOUND))));

/// What an index has found for conditions on collections.
#[derive(Clone, Debug)]
pub struct FoundKeys {
    /// The rows.
    pub spans: Vec<Span>,
    /// Names of the indexes that were asked.
    pub indexes: BTreeSet<String>,
}

/// The function behind the mark.
pub(super) fn function() -> Arc<ScalarUDF> {
    FOUND_FUNCTION.clone()
}

/// Whether a scan's filter is such a mark.
pub fn is_found_mark(filter: &Expr) -> bool {
    matches!(filter, Expr::ScalarFunction(call) if call.func.name() == FOUND)
}

/// The plan whose scans know what the filters right above them ask of collections.
pub fn marked(plan: LogicalPlan) -> PlanResult<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Filter(mut filter) = node else { return Ok(Transformed::no(node)) };
        let LogicalPlan::TableScan(scan) = filter.input.as_ref() else {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        };
        let conditions = split_conjunction(&filter.predicate).into_iter();
        let marks: Vec<Expr> = conditions.filter_map(mark).filter(|mark| is_new(scan, mark)).collect();
        if marks.is_empty() {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        }
        let mut scan = scan.clone();
        scan.filters.extend(marks);
        filter.input = Arc::new(LogicalPlan::TableScan(scan));
        Ok(Transformed::yes(LogicalPlan::Filter(filter)))
    })
    .data()
}

fn is_new(scan: &TableScan, mark: &Expr) -> bool {
    !scan.filters.contains(mark)
}

/// The mark of a condition: the collection, what is asked of it, and the values.
fn mark(condition: &Expr) -> Option<Expr> {
    let (kind, column, values) = match condition {
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == COMPARE_ANY => {
            let [Expr::Literal(op, _), Expr::ScalarFunction(call), value] = args.as_slice() else { return None };
            let equal = op.try_as_str().flatten() == Some("=") && call.func.name() == VALUES;
            ("element", call.args.first().filter(|_| equal)?, vec![value])
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == nested::CONTAINS => {
            let [column, value] = args.as_slice() else { return None };
            ("element", column, vec![value])
        }
        Expr::IsNotNull(inner) => {
            let (column, key) = entry(inner)?;
            ("key", column, vec![key])
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            let sides = entry(left).map(|entry| (entry, right)).or_else(|| Some((entry(right)?, left)));
            let ((column, key), value) = sides?;
            ("entry", column, vec![key, value.as_ref()])
        }
        _ => return None,
    };
    let Expr::Column(_) = column else { return None };
    let known = |value: &&Expr| matches!(value, Expr::Literal(..) | Expr::Placeholder(_));
    if !values.iter().all(known) {
        return None;
    }
    let args = [column.clone(), lit(kind)].into_iter().chain(values.into_iter().cloned()).collect();
    Some(Expr::ScalarFunction(ScalarFunction::new_udf(FOUND_FUNCTION.clone(), args)))
}

/// The map and the key of `m['k']`.
fn entry(expr: &Expr) -> Option<(&Expr, &Expr)> {
    match expr {
        Expr::ScalarFunction(call) if call.func.name() == VALUE => match call.args.as_slice() {
            [column, key] => Some((column, key)),
            _ => None,
        },
        _ => None,
    }
}

/// The conditions that a mark stands for, on the elements of its collection.
fn ranges(family: &FamilyDef, kind: &str, values: &[Expr]) -> Option<Vec<ColumnRange>> {
    let equal = |column: ColumnId, value: Value| {
        (!value.is_null()).then(|| ColumnRange::between(column, Bound::Included(value.clone()), Bound::Included(value)))
    };
    let key = |expr: &Expr| equal(family.qualifier[0].id, value_of_literal(expr, family.qualifier[0].ty)?);
    let value = |expr: &Expr| equal(family.value.id, value_of_literal(expr, family.value.ty)?);
    Some(match (kind, values) {
        ("element", [element]) if family.kind == FamilyKind::Set => vec![key(element)?],
        ("element", [element]) => vec![value(element)?],
        ("entry", [_, of]) if family.several_parts => vec![value(of)?],
        ("key", [_]) if family.several_parts => return None,
        ("key", [own]) => vec![key(own)?],
        ("entry", [own, of]) => vec![key(own)?, value(of)?],
        _ => return None,
    })
}

/// The rows, in these spans, that indexes find for the marks among a scan's filters; `None` if they find too many, or
/// there is none.
pub async fn found(
    snapshot: &Arc<dyn Snapshot>,
    table: &TableDef,
    spans: &[Span],
    marks: &[&Expr],
) -> Result<Option<FoundKeys>> {
    let mut all: Option<FoundKeys> = None;
    for mark in marks {
        let Expr::ScalarFunction(ScalarFunction { args, .. }) = mark else { continue };
        let [Expr::Column(column), Expr::Literal(kind, _), values @ ..] = args.as_slice() else { continue };
        let family = table.family(&column.name);
        let Some((family, ranges)) = family
            .zip(family.and_then(|family| ranges(family, kind.try_as_str().flatten().unwrap_or_default(), values)))
        else {
            continue;
        };
        let within = all.as_ref().map_or(spans, |found| found.spans.as_slice());
        if let Some(more) = look_up(snapshot, table, family, within, ranges).await? {
            let before = all.map(|found| found.indexes).unwrap_or_default();
            all = Some(FoundKeys { indexes: before.into_iter().chain(more.indexes).collect(), ..more });
        }
    }
    Ok(all)
}

async fn look_up(
    snapshot: &Arc<dyn Snapshot>,
    table: &TableDef,
    family: &FamilyDef,
    spans: &[Span],
    ranges: Vec<ColumnRange>,
) -> Result<Option<FoundKeys>> {
    let relation = table.family_relation(family);
    if !ranges.iter().any(|range| relation.indexed.contains(&range.column)) {
        return Ok(None);
    }
    let key: Vec<_> = table.key().collect();
    let scan = Scan {
        relation: relation.id,
        spans: spans.to_vec(),
        columns: key.iter().map(|column| ScanColumn::Column(column.id)).collect(),
        ranges,
        order: Order::Any,
        limit: None,
        per_prefix: None,
        coded: false,
    };
    let planned = snapshot.plan(&scan, 1).await?;
    let Some(by) = planned.found.filter(|found| found.keys <= ROWS_MAX as u64) else { return Ok(None) };
    let (encoder, counters) = (KeyEncoder::new(&relation.key[..key.len()]), Arc::new(ScanCounters::default()));
    let mut rows: Vec<(Vec<u8>, Vec<Value>)> = Vec::new();
    for split in &planned.splits {
        let batches: Vec<_> =
            snapshot.scan(&scan, split, Conditions::default(), counters.clone())?.try_collect().await?;
        for batch in batches {
            for row in 0..batch.num_rows() {
                let values = key.iter().zip(batch.columns()).map(|(column, array)| value_at(array, row, column.ty));
                let values = values.collect::<Result<Vec<_>>>()?;
                rows.push((encoder.encode(&values)?, values));
            }
        }
    }
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    rows.dedup_by(|a, b| a.0 == b.0);
    let names = by.columns.iter().filter_map(|column| table.indexes_on(*column).next());
    let indexes = names.map(|index| index.name.clone()).collect();
    Ok(Some(FoundKeys { spans: rows.into_iter().map(|(_, key)| Span::prefix(key)).collect(), indexes }))
}
