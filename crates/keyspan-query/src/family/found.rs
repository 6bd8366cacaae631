//! Conditions on families and collections for which indexes can find rows: CONTAINS, CONTAINS KEY, and those on one cell,
//! `m['k'] = v`, `m['k'] BETWEEN 1 AND 5`.
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

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result as PlanResult;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, ScalarUDF, lit};
use futures::TryStreamExt;
use keyspan_model::array::value_at;
use keyspan_model::{
    ColumnId, ColumnRange, FamilyDef, FamilyKind, KeyEncoder, Order, RelationDef, Result, Scan, ScanColumn, Span,
    TableDef, Value,
};
use keyspan_seam::{Conditions, ScanCounters, Snapshot};

use super::value::{Function, VALUE, VALUES};
use crate::functions::array::COMPARE_ANY;
use crate::functions::nested;
use crate::types::value_of_literal;

/// Among the filters of a scan: rows that a condition on a collection needs. It drops no row.
pub(super) const FOUND: &str = "family_found";
/// The kind of a mark that is about one cell.
const CELL: &str = "cell";
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

/// The plan whose scans know what the filters above them ask of families and collections. What conditions have in common
/// stands in a projection between the two.
pub fn marked(plan: LogicalPlan) -> PlanResult<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Filter(mut filter) = node else { return Ok(Transformed::no(node)) };
        let (scan, projection) = match filter.input.as_ref() {
            LogicalPlan::TableScan(scan) => (scan, None),
            LogicalPlan::Projection(projection) => match projection.input.as_ref() {
                LogicalPlan::TableScan(scan) => (scan, Some(projection)),
                _ => return Ok(Transformed::no(LogicalPlan::Filter(filter))),
            },
            _ => return Ok(Transformed::no(LogicalPlan::Filter(filter))),
        };
        let conditions = split_conjunction(&filter.predicate).into_iter();
        let conditions = conditions.map(|condition| of_scan(condition, projection)).collect::<PlanResult<Vec<_>>>()?;
        let marks: Vec<Expr> = conditions.iter().filter_map(mark).filter(|mark| !scan.filters.contains(mark)).collect();
        if marks.is_empty() {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        }
        let mut scan = scan.clone();
        scan.filters.extend(marks);
        let scan = Arc::new(LogicalPlan::TableScan(scan));
        filter.input = match projection {
            None => scan,
            Some(projection) => {
                let projection = projection.clone();
                Arc::new(LogicalPlan::Projection(Projection::try_new_with_schema(
                    projection.expr,
                    scan,
                    projection.schema,
                )?))
            }
        };
        Ok(Transformed::yes(LogicalPlan::Filter(filter)))
    })
    .data()
}

/// A condition with what stands in the projection below it.
fn of_scan(condition: &Expr, projection: Option<&Projection>) -> PlanResult<Expr> {
    let Some(projection) = projection else { return Ok(condition.clone()) };
    let put = |expr: Expr| {
        let Expr::Column(column) = &expr else { return Ok(Transformed::no(expr)) };
        match projection.schema.maybe_index_of_column(column) {
            Some(at) => Ok(Transformed::yes(projection.expr[at].clone().unalias())),
            None => Ok(Transformed::no(expr)),
        }
    };
    condition.clone().transform_up(put).data()
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
        condition => return cell_mark(condition),
    };
    let Expr::Column(_) = column else { return None };
    values.iter().all(|value| is_known(value)).then(|| mark_of(column, kind, values.into_iter().cloned().collect()))
}

fn is_known(value: &Expr) -> bool {
    matches!(value, Expr::Literal(..) | Expr::Placeholder(_))
}

fn mark_of(column: &Expr, kind: &str, values: Vec<Expr>) -> Expr {
    let args = [column.clone(), lit(kind)].into_iter().chain(values).collect();
    Expr::ScalarFunction(ScalarFunction::new_udf(FOUND_FUNCTION.clone(), args))
}

/// The mark of a condition that is about one cell and nothing else: its family, its qualifier, and the condition.
fn cell_mark(condition: &Expr) -> Option<Expr> {
    let mut cells: Vec<(Expr, Expr)> = Vec::new();
    let walked = condition.apply(|expr| {
        let Some((column, key)) = entry(expr) else { return Ok(TreeNodeRecursion::Continue) };
        cells.push((column.clone(), key.clone()));
        Ok(TreeNodeRecursion::Jump)
    });
    let (column, key) = cells.first()?;
    let alone = cells.iter().all(|cell| cell == &cells[0]) && condition.column_refs().len() == 1;
    let fits = walked.is_ok() && alone && matches!(column, Expr::Column(_)) && is_known(key);
    fits.then(|| mark_of(column, CELL, vec![key.clone(), condition.clone()]))
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
        ("key", [_]) if family.several_parts => return None,
        ("key", [own]) => vec![key(own)?],
        _ => return None,
    })
}

/// The conditions that marks of one cell stand for, on the cells of its family.
fn ranges_of_cell(
    (family, relation): (&FamilyDef, &RelationDef),
    (qualifier, conditions): (&Expr, &[&Expr]),
    ranges_of: &RangesOf,
) -> Option<Vec<ColumnRange>> {
    let value = Expr::Column(Column::from_name(family.value.name.clone()));
    let on_value = |condition: &&Expr| {
        let put = |expr: Expr| match entry(&expr) {
            Some(_) => Ok(Transformed::new(value.clone(), true, TreeNodeRecursion::Jump)),
            None => Ok(Transformed::no(expr)),
        };
        Expr::clone(condition).transform_down(put).data().ok()
    };
    let conditions: Vec<Expr> = conditions.iter().map(on_value).collect::<Option<_>>()?;
    let mut ranges = ranges_of(&conditions.iter().collect::<Vec<_>>(), relation);
    ranges.retain(|range| range.column == family.value.id);
    if ranges.is_empty() {
        return None;
    }
    if let [part] = family.qualifier.as_slice() {
        let own = value_of_literal(qualifier, part.ty).filter(|own| !own.is_null())?;
        ranges.push(ColumnRange::between(part.id, Bound::Included(own.clone()), Bound::Included(own)));
    }
    Some(ranges)
}

/// What a conjunction says of the columns of a relation, which the layer of spans knows.
pub type RangesOf = dyn Fn(&[&Expr], &RelationDef) -> Vec<ColumnRange> + Send + Sync;

/// The rows, in these spans, that indexes find for the marks among a scan's filters; `None` if they find too many, or
/// there is none.
pub async fn found(
    snapshot: &Arc<dyn Snapshot>,
    table: &TableDef,
    spans: &[Span],
    marks: &[&Expr],
    ranges_of: &RangesOf,
) -> Result<Option<FoundKeys>> {
    let mut all: Option<FoundKeys> = None;
    for (family, ranges) in wanted(table, marks, ranges_of) {
        let within = all.as_ref().map_or(spans, |found| found.spans.as_slice());
        if let Some(more) = look_up(snapshot, table, family, within, ranges).await? {
            let before = all.map(|found| found.indexes).unwrap_or_default();
            all = Some(FoundKeys { indexes: before.into_iter().chain(more.indexes).collect(), ..more });
        }
    }
    Ok(all)
}

/// What marks ask of the cells of their families: those of one cell together.
fn wanted<'a>(table: &'a TableDef, marks: &[&Expr], ranges_of: &RangesOf) -> Vec<(&'a FamilyDef, Vec<ColumnRange>)> {
    let mut wanted = Vec::new();
    let mut cells: Vec<(&FamilyDef, &Expr, Vec<&Expr>)> = Vec::new();
    for mark in marks {
        let Expr::ScalarFunction(ScalarFunction { args, .. }) = mark else { continue };
        let [Expr::Column(column), Expr::Literal(kind, _), values @ ..] = args.as_slice() else { continue };
        let Some(family) = table.family(&column.name) else { continue };
        match (kind.try_as_str().flatten().unwrap_or_default(), values) {
            (CELL, [qualifier, condition]) => {
                let same =
                    |cell: &&mut (&FamilyDef, &Expr, Vec<&Expr>)| cell.0.name == family.name && cell.1 == qualifier;
                match cells.iter_mut().find(same) {
                    Some((_, _, conditions)) => conditions.push(condition),
                    None => cells.push((family, qualifier, vec![condition])),
                }
            }
            (kind, values) => wanted.extend(ranges(family, kind, values).map(|ranges| (family, ranges))),
        }
    }
    for (family, qualifier, conditions) in cells {
        let relation = table.family_relation(family);
        let ranges = ranges_of_cell((family, &relation), (qualifier, &conditions), ranges_of);
        wanted.extend(ranges.map(|ranges| (family, ranges)));
    }
    wanted
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
    let columns = key.iter().map(|column| ScanColumn::Column(column.id)).collect();
    let scan = Scan { ranges, order: Order::Any, ..Scan::new(relation.id, spans.to_vec(), columns) };
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
