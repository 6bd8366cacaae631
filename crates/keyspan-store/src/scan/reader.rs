//! Reading one split: batches of live rows, one at a time.
//!
//! Rows are delivered plainly, or group by group: for a limit per prefix the sweep jumps to the next prefix once a
//! group has its rows (skip-scan); a family read backward is read group by group forward, since a GC rule counts
//! versions from the newest.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::SchemaRef;
use keyspan_model::key::successor;
use keyspan_model::{ColumnRange, Error, KeyEncoder, Result, ScanColumn};

use super::ScanSource;
use super::plan::within;
use crate::merge::chunk::{Gathered, RowChunk};
use crate::merge::cursor::{Skip, Which};
use crate::merge::live::{Depth, ScanOutput};
use crate::merge::select::Selection;
use crate::merge::sweep::{Step, Sweep};
use crate::merge::versions::{PrefixFilter, VersionFilter};
use crate::run::{Cover, SortedRun, Wanted};
use keyspan_seam::{Conditions, RowCondition, ScanCounters};

/// Rows of an output batch at most.
pub(crate) const BATCH_ROWS: usize = 8192;
/// Small parts that a grouped read joins into one batch at most.
const MOST_PARTS: usize = 256;

/// How many rows are read at once after so many of which some were dead: a long stretch of these is not read row by row.
fn wider(rows: usize) -> usize {
    (2 * rows).min(BATCH_ROWS)
}

/// Keys to read, out of some of the source's runs.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// Indexes of runs, and which of their rows.
    pub(crate) runs: Arc<[(usize, Which)]>,
    pub(crate) start: Vec<u8>,
    pub(crate) end: Option<Vec<u8>>,
    /// Rows before this key are read (versions count from their group's begin) but not delivered.
    pub(crate) floor: Option<Vec<u8>>,
    pub(crate) depth: Depth,
}

/// How rows are grouped while they are read.
#[derive(Debug)]
pub(crate) enum Grouping {
    /// Not at all.
    Rows,
    /// Skip-scan: at most so many rows for each distinct value of so many leading columns.
    Skip { columns: usize, rows: usize, last: Option<(Vec<u8>, usize)> },
    /// A family read backward: each group of versions forward, by the GC rule, then reversed.
    Versions { columns: usize },
}

/// The orders of a reader.
#[derive(Debug)]
pub(crate) struct Orders {
    pub(crate) tasks: VecDeque<Task>,
    pub(crate) reverse: bool,
    pub(crate) limit: Option<usize>,
    pub(crate) grouping: Grouping,
    pub(crate) versions: Option<VersionFilter>,
    pub(crate) prefix: Option<PrefixFilter>,
    /// Whether every row of the sweep is known to be live, so that rows can be counted without reading them.
    pub(crate) certain: bool,
    /// Rows outside may be left out; those outside of ranges of key columns are, unless rows are grouped.
    pub(crate) ranges: Vec<ColumnRange>,
    /// Rows that do not meet them may be left out.
    pub(crate) conditions: Conditions,
    /// Runs that were opened already, by their place among the source's: what was found of memtables.
    pub(crate) opened: HashMap<usize, Arc<dyn SortedRun>>,
}

/// How rows are read at one depth.
#[derive(Debug)]
struct Form {
    depth: Depth,
    output: ScanOutput,
    /// What may be left out.
    skip: Skip,
    /// Which rows are wanted, where that is told row by row.
    selection: Option<Arc<Selection>>,
}

/// Reads one split.
#[derive(Debug)]
pub(crate) struct SplitReader {
    source: Arc<ScanSource>,
    columns: Vec<ScanColumn>,
    /// Whether codes may be delivered.
    coded: bool,
    schema: SchemaRef,
    /// One for each depth that was needed so far; the task's is the last one.
    forms: Vec<Arc<Form>>,
    /// What covers the keys of the task.
    cover: Arc<Cover>,
    encoder: KeyEncoder,
    orders: Orders,
    task: Option<Task>,
    sweep: Option<Sweep>,
    opened: HashMap<usize, Arc<dyn SortedRun>>,
    /// The last chunk and the form it was read in; the next chunk may use its blocks.
    chunk: Option<(Arc<Form>, RowChunk)>,
    /// The rest of a batch that was too large.
    pending: Option<RecordBatch>,
    /// How many rows are read at once where the limit is small: more, the more of them are dead.
    reach: usize,
    counters: Arc<ScanCounters>,
}

impl SplitReader {
    pub(crate) fn new(
        source: Arc<ScanSource>,
        columns: &[ScanColumn],
        coded: bool,
        mut orders: Orders,
        counters: Arc<ScanCounters>,
    ) -> Result<SplitReader> {
        let encoder = KeyEncoder::new(&source.relation.key);
        Ok(SplitReader {
            schema: source.schema(columns)?,
            source,
            columns: columns.to_vec(),
            coded,
            forms: Vec::new(),
            cover: Arc::default(),
            encoder,
            opened: std::mem::take(&mut orders.opened),
            orders,
            task: None,
            sweep: None,
            chunk: None,
            pending: None,
            reach: 1,
            counters,
        })
    }

    /// How rows are read at this depth.
    fn form_at(&self, depth: Depth) -> Result<Form> {
        let relation = &self.source.relation;
        let mut output = ScanOutput::new(relation, &self.columns, depth, self.coded)?;
        if self.orders.versions.is_some() || self.orders.prefix.is_some() {
            output.wanted.encoded = true;
            if let Some(last) = output.wanted.keys.last_mut() {
                *last = true;
            }
        }
        let ranges = &self.orders.ranges;
        let rows = matches!(self.orders.grouping, Grouping::Rows);
        let conditions = &self.orders.conditions;
        let alive = depth == Depth::Plain;
        let select = |wanted: &Wanted, conditions: &[Arc<dyn RowCondition>]| match rows {
            true => Ok(Selection::new(relation, wanted, ranges, conditions, alive)?.map(Arc::new)),
            false => Ok::<_, Error>(None),
        };
        // Values may not leave a row out that hides another. Nor may what says another thing of the other one later.
        let fixed: Vec<_> = conditions.iter().filter(|condition| alive || !condition.narrows()).cloned().collect();
        let skip = Skip { ranges: ranges.clone(), values: alive, keys: select(&Wanted::default(), &fixed)? };
        let selection = select(&output.wanted, conditions)?;
        Ok(Form { depth, output, skip, selection })
    }

    /// The form of the task that was begun last.
    fn form(&self) -> Result<&Arc<Form>> {
        self.forms.last().ok_or_else(|| Error::internal("rows are read inside a task"))
    }

    /// The next batch; `None` at the end. Does about one batch of work; the batch may be empty.
    pub(crate) fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.orders.limit == Some(0) {
            return Ok(None);
        }
        let batch = match self.pending.take() {
            Some(pending) => Some(pending),
            None => self.produce()?,
        };
        let Some(mut batch) = batch else { return Ok(None) };
        if batch.num_rows() > BATCH_ROWS {
            self.pending = Some(batch.slice(BATCH_ROWS, batch.num_rows() - BATCH_ROWS));
            batch = batch.slice(0, BATCH_ROWS);
        }
        if let Some(limit) = &mut self.orders.limit {
            if batch.num_rows() > *limit {
                batch = batch.slice(0, *limit);
            }
            *limit -= batch.num_rows();
        }
        self.counters.rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        Ok(Some(batch))
    }

    fn produce(&mut self) -> Result<Option<RecordBatch>> {
        match self.orders.grouping {
            Grouping::Rows => self.next_rows(),
            Grouping::Skip { columns, rows, .. } => self.next_skipping(columns, rows),
            Grouping::Versions { columns } => self.next_versions(columns),
        }
    }

    fn most_rows(&self) -> usize {
        self.orders.limit.map_or(BATCH_ROWS, |limit| limit.clamp(1, BATCH_ROWS))
    }

    fn next_rows(&mut self) -> Result<Option<RecordBatch>> {
        let most = self.most_rows().max(self.reach);
        if self.sweep.is_none() && !self.open_next()? {
            return Ok(None);
        }
        let form = Arc::clone(self.form()?);
        let mut chunk = match self.chunk.take() {
            Some((last, chunk)) if Arc::ptr_eq(&last, &form) => chunk.next(),
            _ => RowChunk::of_selected(form.selection.clone()),
        };
        while !chunk.is_full(most) && !chunk.is_one_long_stretch() {
            if self.sweep.is_none() && (!self.goes_on(&chunk) || !self.open_next()?) {
                break;
            }
            // Of many rows few may be inside: they are not asked a few at a time.
            let ask = if form.selection.is_some() { BATCH_ROWS } else { most };
            if !self.step(&mut chunk, ask, None)? {
                self.sweep = None;
            }
        }
        let batch = match chunk.rows() {
            0 => RecordBatch::new_empty(Arc::clone(&self.schema)),
            _ => self.deliver(&chunk, self.orders.reverse)?,
        };
        if batch.num_rows() < chunk.rows() {
            self.reach = wider(chunk.rows());
        }
        self.chunk = Some((form, chunk));
        Ok(Some(batch))
    }

    /// Whether the rows of the next task may follow in the same chunk: not if they are read at another depth, are of
    /// other runs and so begin anew in key order, or, where versions are counted, belong to another group of them.
    fn goes_on(&self, chunk: &RowChunk) -> bool {
        let Some(next) = self.orders.tasks.front() else { return true };
        let same_depth = self.forms.last().is_some_and(|form| form.depth == next.depth);
        let before = |one: &Task, other: &Task| one.end.as_ref().is_some_and(|end| *end <= other.start);
        let in_order = |last: &Task| if self.orders.reverse { before(next, last) } else { before(last, next) };
        let follows = self.orders.versions.is_none() && self.task.as_ref().is_some_and(in_order);
        same_depth && (chunk.rows() == 0 || follows)
    }

    /// Takes one step into the chunk; says whether there was one before the fence.
    fn step(&mut self, chunk: &mut RowChunk, most: usize, fence: Option<&[u8]>) -> Result<bool> {
        let form = Arc::clone(self.form()?);
        let wanted = &form.output.wanted;
        let Some(sweep) = &mut self.sweep else { return Ok(false) };
        match sweep.next(most - chunk.rows(), fence, wanted, &self.counters)? {
            Step::End | Step::Fence => return Ok(false),
            Step::Stretch { run, rows, covered } => {
                chunk.add_stretch(&run, rows, covered, wanted, &self.counters)?;
            }
            Step::Same { rows, covered } => {
                self.counters.rows_merged.fetch_add(rows.len() as u64, Ordering::Relaxed);
                chunk.add_same(&rows, covered, wanted, &self.counters)?;
            }
        }
        Ok(true)
    }

    /// The live rows of a chunk.
    fn deliver(&mut self, chunk: &RowChunk, reverse: bool) -> Result<RecordBatch> {
        let form = Arc::clone(self.form()?);
        let gathered = chunk.finish(&form.output.types, reverse)?;
        let keep = self.keep(&form.output, &gathered)?;
        form.output.batch(&gathered, keep.as_ref(), self.source.now)
    }

    fn keep(&mut self, output: &ScanOutput, rows: &Gathered) -> Result<Option<BooleanBuffer>> {
        let mut keep = self.source.live(output, rows)?;
        let dead = keep.as_ref().map_or(0, |live| rows.batch.rows - live.count_set_bits());
        self.counters.rows_dead.fetch_add(dead as u64, Ordering::Relaxed);
        if let Some(versions) = &mut self.orders.versions {
            keep = versions.keep(&rows.batch, keep)?;
        }
        if let Some(floor) = self.task.as_ref().and_then(|task| task.floor.as_ref()) {
            let keys = rows.batch.encoded.as_ref().expect("encoded keys are asked for where a task has a floor");
            keep = Some(BooleanBuffer::collect_bool(rows.batch.rows, |row| {
                keep.as_ref().is_none_or(|keep| keep.value(row)) && keys.value(row) >= floor.as_slice()
            }));
        }
        Ok(match &mut self.orders.prefix {
            Some(prefix) => prefix.keep(&rows.batch, keep),
            None => keep,
        })
    }

    /// Skip-scan: the first rows of each group, then on to the next group.
    fn next_skipping(&mut self, columns: usize, rows: usize) -> Result<Option<RecordBatch>> {
        let most = self.most_rows();
        let mut chunk = RowChunk::default();
        let mut parts: Vec<RecordBatch> = Vec::new();
        let mut delivered = 0;
        while !chunk.is_full(most) && parts.len() < MOST_PARTS && delivered < most {
            let Some(key) = self.peek()? else { if self.open_next()? { continue } else { break } };
            let prefix = key[..self.encoder.prefix_len(&key, columns)].to_vec();
            let left = self.left_of(&prefix, rows);
            let ask = left.min(most - delivered - chunk.rows());
            let fence = if self.orders.reverse { Some(prefix.clone()) } else { successor(&prefix) };
            let before = chunk.rows();
            let (taken, done) = if left == 0 {
                (0, true)
            } else if self.orders.certain {
                let more = self.take_certain(&mut chunk, before + ask, fence.as_deref())?;
                (chunk.rows() - before, !more)
            } else {
                let part = self.first_live(ask, left, fence.as_deref())?;
                let taken = part.iter().map(RecordBatch::num_rows).sum();
                parts.extend(part);
                (taken, taken < ask)
            };
            delivered += if self.orders.certain { 0 } else { taken };
            if let Grouping::Skip { last, .. } = &mut self.orders.grouping {
                *last = Some((prefix, rows - left + taken));
            }
            if done || taken == left {
                self.skip_to(fence)?;
            } else {
                break;
            }
        }
        if chunk.rows() > 0 {
            let reverse = self.orders.reverse;
            parts.push(self.deliver(&chunk, reverse)?);
        }
        if parts.is_empty() { Ok(None) } else { Ok(Some(concat_batches(&self.schema, &parts)?)) }
    }

    /// Takes rows up to the fence until the chunk has `most`; says whether it stopped before the fence.
    fn take_certain(&mut self, chunk: &mut RowChunk, most: usize, fence: Option<&[u8]>) -> Result<bool> {
        while !chunk.is_full(most) {
            if !self.step(chunk, most, fence)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Goes on behind the group that ends at the fence.
    fn skip_to(&mut self, fence: Option<Vec<u8>>) -> Result<()> {
        match (fence, &mut self.sweep) {
            (Some(fence), Some(sweep)) => sweep.seek(&fence, &self.counters),
            (None, Some(sweep)) => {
                sweep.close();
                Ok(())
            }
            (_, None) => Ok(()),
        }
    }

    /// How many rows this group may still deliver: a group may go on from one span to the next.
    fn left_of(&self, prefix: &[u8], rows: usize) -> usize {
        match &self.orders.grouping {
            Grouping::Skip { last: Some((last, taken)), .. } if last == prefix => rows - taken,
            _ => rows,
        }
    }

    /// The first live rows before the fence: `ask`, if there are as many, and up to `left`.
    fn first_live(&mut self, ask: usize, left: usize, fence: Option<&[u8]>) -> Result<Vec<RecordBatch>> {
        let (mut parts, mut taken) = (Vec::new(), 0);
        let mut reach = 1;
        while taken < ask {
            let most = (ask - taken).max(reach).min(BATCH_ROWS);
            let mut chunk = RowChunk::default();
            while !chunk.is_full(most) && self.step(&mut chunk, most, fence)? {}
            if chunk.rows() == 0 {
                break;
            }
            let part = self.deliver(&chunk, self.orders.reverse)?;
            let part = part.slice(0, part.num_rows().min(left - taken));
            taken += part.num_rows();
            parts.push(part);
            reach = wider(chunk.rows());
        }
        Ok(parts)
    }

    /// A family backward: the last group, its kept versions, reversed.
    fn next_versions(&mut self, columns: usize) -> Result<Option<RecordBatch>> {
        let (mut parts, mut delivered) = (Vec::new(), 0);
        while delivered < self.most_rows() && parts.len() < MOST_PARTS {
            let Some(key) = self.peek()? else { if self.open_next()? { continue } else { break } };
            let prefix = key[..self.encoder.prefix_len(&key, columns)].to_vec();
            let group = self.group_forward(&prefix)?;
            delivered += group.num_rows();
            parts.push(group);
            if let Some(sweep) = &mut self.sweep {
                sweep.seek(&prefix, &self.counters)?;
            }
        }
        if parts.is_empty() { Ok(None) } else { Ok(Some(concat_batches(&self.schema, &parts)?)) }
    }

    fn group_forward(&mut self, prefix: &[u8]) -> Result<RecordBatch> {
        let task = self.task.clone().expect("a group is read inside a task");
        let end = match (successor(prefix), task.end.clone()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let backward = self.sweep.take();
        let group = Task { start: prefix.to_vec(), end, ..task };
        self.sweep = Some(self.sweep_of(&group, false)?);
        if let Some(versions) = &mut self.orders.versions {
            versions.reset();
        }
        let mut parts = Vec::new();
        loop {
            let mut chunk = RowChunk::default();
            while !chunk.is_full(BATCH_ROWS) && self.step(&mut chunk, BATCH_ROWS, None)? {}
            if chunk.rows() == 0 {
                break;
            }
            // The limit per prefix counts in the order of delivery, so it is kept for later.
            let prefix = self.orders.prefix.take();
            parts.push(self.deliver(&chunk, false)?);
            self.orders.prefix = prefix;
        }
        self.sweep = backward;
        let forward = concat_batches(&self.schema, &parts)?;
        let rows = forward.num_rows() as u32;
        let reversed = take_record_batch(&forward, &UInt32Array::from_iter_values((0..rows).rev()))?;
        Ok(self.first_of_group(prefix, reversed))
    }

    /// Applies the limit per prefix to the rows of one group of versions.
    fn first_of_group(&mut self, prefix: &[u8], rows: RecordBatch) -> RecordBatch {
        match &mut self.orders.prefix {
            Some(filter) => rows.slice(0, filter.take(prefix, rows.num_rows())),
            None => rows,
        }
    }

    fn peek(&mut self) -> Result<Option<Vec<u8>>> {
        match &mut self.sweep {
            Some(sweep) => Ok(sweep.peek(&self.counters)?.map(<[u8]>::to_vec)),
            None => Ok(None),
        }
    }

    /// Begins the next task; says whether there was one.
    fn open_next(&mut self) -> Result<bool> {
        let Some(task) = self.orders.tasks.pop_front() else { return Ok(false) };
        if let Some(versions) = &mut self.orders.versions {
            versions.reset();
        }
        match self.forms.iter().position(|form| form.depth == task.depth) {
            Some(at) => {
                let last = self.forms.len() - 1;
                self.forms.swap(at, last);
            }
            None => self.forms.push(Arc::new(self.form_at(task.depth)?)),
        }
        self.cover = Arc::new(self.source.cover(&task));
        self.sweep = Some(self.sweep_of(&task, self.orders.reverse)?);
        self.task = Some(task);
        Ok(true)
    }

    fn sweep_of(&mut self, task: &Task, reverse: bool) -> Result<Sweep> {
        let narrowed = self.narrowed(task);
        let bounds = self.source.key_column_ranges(&narrowed)?;
        let mut runs = Vec::with_capacity(task.runs.len());
        for (at, which) in task.runs.iter() {
            let extent = &self.source.runs[*at].meta().all;
            if extent.overlaps(&task.start, task.end.as_deref()) && within(extent, &bounds) {
                runs.push((self.open_run(*at, task)?, which.clone()));
            }
        }
        let keys = (task.start.as_slice(), task.end.as_deref());
        let form = Arc::clone(self.form()?);
        let cover = Arc::clone(&self.cover);
        if narrowed.is_empty() {
            return Sweep::open(runs, cover, keys, reverse, &form.skip, &self.counters);
        }
        let ranges = form.skip.ranges.iter().cloned().chain(narrowed).collect();
        Sweep::open(runs, cover, keys, reverse, &Skip { ranges, ..form.skip.clone() }, &self.counters)
    }

    /// Ranges in which all rows are that meet the conditions by now. Where rows may stand in several runs there are none: of
    /// a row that is left out here, an older version may have been found to be inside before.
    fn narrowed(&self, task: &Task) -> Vec<ColumnRange> {
        match self.orders.grouping {
            Grouping::Rows if task.depth == Depth::Plain => {
                self.orders.conditions.iter().filter_map(|condition| condition.range()).collect()
            }
            _ => Vec::new(),
        }
    }

    fn open_run(&mut self, at: usize, task: &Task) -> Result<Arc<dyn SortedRun>> {
        if let Some(run) = self.opened.get(&at) {
            return Ok(Arc::clone(run));
        }
        let run = &self.source.runs[at];
        // A memtable is copied into columns, once for all that is still to be read.
        let tasks = || std::iter::once(task).chain(&self.task).chain(&self.orders.tasks);
        let start = tasks().map(|task| task.start.as_slice()).min().unwrap_or_default();
        let open_ended = tasks().any(|task| task.end.is_none());
        let end = tasks().filter_map(|task| task.end.as_deref()).max().filter(|_| !open_ended);
        let opened = run.open(start, end)?;
        if run.is_segment() {
            self.counters.segments_read.fetch_add(1, Ordering::Relaxed);
        }
        self.opened.insert(at, Arc::clone(&opened));
        Ok(opened)
    }
}
