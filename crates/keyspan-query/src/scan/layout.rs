//! How a scan is divided: among several partitions, one for each span, or one that reads the splits in sequence.
//!
//! Which of these it is, the optimizer decides ([`Shape`]). The splits themselves may cost a read, so the store is asked
//! for them only when the plan is finished, or when it runs ([`Divided`]).

use datafusion::error::Result;
use keyspan_model::Scan;
use keyspan_seam::{ScanPlan, Split};

use super::exec::ReadPlan;
use crate::error::external;

/// Splits per core of a scan in sequence: enough that the first is soon done, few enough that each is worth its start.
const SPLITS_PER_CORE: usize = 4;

/// What reads the splits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// So many partitions, each a group of splits.
    Partitions(usize),
    /// One partition, the splits one after another, several being read at a time.
    Sequence,
    /// One partition that stops after a few rows.
    First,
    /// A partition for each span, a scan of its own, in order; above, they are merged.
    Spans,
}

impl Shape {
    /// How many partitions read a scan of so many spans.
    pub(super) fn partitions(self, spans: usize) -> usize {
        match self {
            Shape::Partitions(count) => count,
            Shape::Sequence | Shape::First => 1,
            Shape::Spans => spans,
        }
    }

    /// How many splits are wanted, where a large scan has `most` partitions.
    fn splits(self, most: usize) -> usize {
        match self {
            Shape::Partitions(count) => count.max(1),
            Shape::Sequence => most.max(1) * SPLITS_PER_CORE,
            Shape::First | Shape::Spans => 1,
        }
    }
}

/// A scan as the store divides it.
#[derive(Debug)]
pub(crate) struct Divided {
    /// What the store says of it; its splits are in `layout`.
    pub(crate) store: ScanPlan,
    pub(super) layout: Layout,
}

/// Who reads which splits.
#[derive(Debug)]
pub(super) enum Layout {
    Partitions(Vec<Vec<Split>>),
    Spans(Vec<Vec<Split>>),
    Sequence(Vec<Split>),
}

impl Divided {
    /// Asks the store to divide a scan.
    pub(super) async fn of(plan: &ReadPlan, scan: &Scan, shape: Shape) -> Result<Divided> {
        let want = shape.splits(plan.partitions);
        let mut store = plan.snapshot.plan(scan, want).await.map_err(external)?;
        let splits = std::mem::take(&mut store.splits);
        let layout = match shape {
            Shape::Partitions(count) => Layout::Partitions(grouped(splits, count)),
            Shape::Sequence | Shape::First => Layout::Sequence(splits),
            Shape::Spans => Layout::Spans(by_span(plan, scan).await?),
        };
        Ok(Divided { store, layout })
    }

    /// As [`Divided::of`], where partitions that would have nothing to read are left out; of a small scan, all but one.
    pub(super) async fn at_first(plan: &ReadPlan, scan: &Scan, shape: Shape) -> Result<(Divided, Shape)> {
        let divided = Divided::of(plan, scan, shape).await?;
        let Divided { store, layout: Layout::Partitions(mut groups) } = divided else { return Ok((divided, shape)) };
        groups.retain(|group| !group.is_empty());
        let splits: usize = groups.iter().map(Vec::len).sum();
        if groups.len() > 1 && splits > 1 && !super::statistics::is_few(&store.statistics) {
            let shape = Shape::Partitions(groups.len());
            return Ok((Divided { store, layout: Layout::Partitions(groups) }, shape));
        }
        let splits = groups.into_iter().flatten().collect();
        Ok((Divided { store, layout: Layout::Sequence(splits) }, Shape::Sequence))
    }

    /// What one partition reads.
    pub(super) fn splits(&self, partition: usize) -> &[Split] {
        match &self.layout {
            Layout::Partitions(groups) | Layout::Spans(groups) => groups.get(partition).map_or(&[], Vec::as_slice),
            Layout::Sequence(splits) => splits,
        }
    }
}

/// The splits of each span alone.
async fn by_span(plan: &ReadPlan, scan: &Scan) -> Result<Vec<Vec<Split>>> {
    let mut each = Vec::with_capacity(scan.spans.len());
    for at in 0..scan.spans.len() {
        each.push(plan.snapshot.plan(&span_alone(scan, at), 1).await.map_err(external)?.splits);
    }
    Ok(each)
}

/// The scan of one of the spans.
pub(super) fn span_alone(scan: &Scan, at: usize) -> Scan {
    Scan { spans: scan.spans.get(at).cloned().into_iter().collect(), ..scan.clone() }
}

/// Neighbouring splits together in so many groups, about the same number of rows in each; the last ones may be empty.
fn grouped(splits: Vec<Split>, groups: usize) -> Vec<Vec<Split>> {
    let total: u64 = splits.iter().map(|split| split.rows.max(1)).sum();
    let share = total.div_ceil(groups.max(1) as u64).max(1);
    let (mut grouped, mut rows): (Vec<Vec<Split>>, u64) = (Vec::new(), 0);
    for split in splits {
        let full = rows >= share * grouped.len() as u64 && grouped.len() < groups;
        rows += split.rows.max(1);
        match grouped.last_mut() {
            Some(last) if !full => last.push(split),
            _ => grouped.push(vec![split]),
        }
    }
    grouped.resize(groups, Vec::new());
    grouped
}
