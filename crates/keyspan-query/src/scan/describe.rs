//! A scan as EXPLAIN shows it: table, spans, form, what is read and left out, order, filter, limit, expected rows.

use std::collections::BTreeSet;
use std::fmt;

use keyspan_model::Order;
use keyspan_seam::ScanForm;

use super::exec::SpanScanExec;
use super::layout::{Divided, Layout, Shape};
use super::statistics::estimated_rows;
use crate::plan_text::expr_text;
use crate::spans::{ranges_text, spans_text};

/// Writes the line.
pub(crate) fn describe(exec: &SpanScanExec, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let plan = &exec.plan;
    write!(f, "SpanScan: {}.{}", plan.table.keyspace, plan.table.name)?;
    write!(f, ", spans={}", spans_text(&exec.scan.spans, &plan.relation.key))?;
    if let Some(ranges) = ranges_text(&exec.scan.ranges, &plan.relation.key)
        && plan.snapshot.accept(&exec.scan).ranges
    {
        write!(f, ", ranges=[{ranges}]")?;
    }
    if let Some(divided) = exec.known_division() {
        describe_runs(divided, f)?;
        describe_found(exec, divided, f)?;
    }
    match exec.scan.order {
        Order::Forward => write!(f, ", order=forward")?,
        Order::Reverse => write!(f, ", order=reverse")?,
        Order::Any => {}
    }
    if let Some((columns, rows)) = exec.scan.per_prefix {
        let names: Vec<&str> = plan.relation.key[..columns].iter().map(|column| column.name.as_str()).collect();
        write!(f, ", rows_per=[{}]: {rows}", names.join(", "))?;
    }
    let places = exec.awaited.iter().flat_map(|keys| &keys.columns).map(|(_, place)| *place);
    let names = places.collect::<BTreeSet<_>>().into_iter().map(|place| plan.relation.key[place].name.as_str());
    describe_names(", join_keys", names, f)?;
    let bounded = exec.awaited.iter().flat_map(|keys| &keys.bounded).map(|(_, column)| *column);
    let names = bounded.collect::<BTreeSet<_>>().into_iter().filter_map(|id| plan.relation.column(id));
    describe_names(", join_bounds", names.map(|(name, _)| name), f)?;
    if let Some(filter) = &plan.filter {
        write!(f, ", filter={}", expr_text(filter))?;
    }
    if let Some(top) = &exec.top {
        let order = if top.descending { " DESC" } else { "" };
        match top.by.column() {
            Some(column) => write!(f, ", top={} by {}{order}", top.rows, plan.read_schema.field(column).name())?,
            None => write!(f, ", top={} by {}{order}", top.rows, expr_text(top.by.expr()))?,
        }
    }
    if let Some(fetch) = exec.fetch {
        write!(f, ", limit={fetch}")?;
    }
    match (exec.shape, exec.known_division().map(|divided| &divided.layout)) {
        (Shape::Partitions(count), _) => write!(f, ", partitions={count}")?,
        (Shape::Spans, _) => write!(f, ", merged_spans={}", exec.scan.spans.len())?,
        (_, Some(Layout::Sequence(splits))) if splits.len() > 1 => write!(f, ", splits={}", splits.len())?,
        _ => {}
    }
    let names: Vec<&str> = exec.schema.fields().iter().map(|field| field.name().as_str()).collect();
    write!(f, ", columns=[{}]", names.join(", "))?;
    match estimated_rows(&exec.estimate) {
        Some(rows) => write!(f, ", rows≈{rows}"),
        None => Ok(()),
    }
}

fn describe_names<'a>(what: &str, names: impl Iterator<Item = &'a str>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let names: Vec<&str> = names.collect();
    if names.is_empty() { Ok(()) } else { write!(f, "{what}=[{}]", names.join(", ")) }
}

/// The indexes by which rows were found.
fn describe_found(exec: &SpanScanExec, divided: &Divided, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(found) = &divided.store.found else { return Ok(()) };
    let table = &exec.plan.table;
    let indexes = found.columns.iter().filter_map(|column| table.indexes_on(*column).next());
    let names: BTreeSet<&str> = indexes.map(|index| index.name.as_str()).collect();
    write!(f, ", index=[{}]", names.into_iter().collect::<Vec<_>>().join(", "))
}

/// How runs are combined, and which are read.
fn describe_runs(Divided { store, .. }: &Divided, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let form = match store.form {
        ScanForm::Empty => "empty",
        ScanForm::Concatenate => "concatenate",
        ScanForm::Interleave => "interleave",
        ScanForm::Merge => "merge",
        ScanForm::Unordered => "unordered",
    };
    write!(f, ", form={form}, memory_runs={}, segments={}", store.memory_runs, store.segments)?;
    if !store.pruned.is_empty() {
        let pruned: Vec<String> = store.pruned.iter().map(|(reason, count)| format!("{count} by {reason}")).collect();
        write!(f, ", pruned=[{}]", pruned.join(", "))?;
    }
    Ok(())
}
