//! A run as a snapshot lists it: a memtable, a run in memory or a segment.

use std::sync::Arc;

use keyspan_model::Result;

use crate::memory_run::MemoryRun;
use crate::memtable::MemtableView;
use crate::run::{RunMeta, SortedRun, WholeKey};

/// A run as a snapshot lists it.
#[derive(Clone, Debug)]
pub enum Run {
    /// A memtable as of a sequence number: rows written later do not show.
    Memtable(MemtableView),
    /// A run in memory. Rule: it is listed only in snapshots whose seq is at least the greatest of the run's.
    Memory(Arc<MemoryRun>),
    /// A segment, or any other implementation.
    Segment(Arc<dyn SortedRun>),
}

impl Run {
    /// What is known of the run; of a memtable it may cover rows written after the snapshot.
    pub fn meta(&self) -> &RunMeta {
        match self {
            Run::Memtable(view) => view.meta(),
            Run::Memory(run) => run.meta(),
            Run::Segment(run) => run.meta(),
        }
    }

    /// Whether the run may hold this key.
    pub fn may_contain(&self, key: &WholeKey<'_>) -> bool {
        match self {
            Run::Memtable(view) => view.meta().all.may_contain(key),
            Run::Memory(run) => run.may_contain(key),
            Run::Segment(run) => run.may_contain(key),
        }
    }

    /// The run's rows by number; `None` for a memtable, which must be opened.
    pub fn sorted(&self) -> Option<&dyn SortedRun> {
        match self {
            Run::Memtable(_) => None,
            Run::Memory(run) => Some(run.as_ref()),
            Run::Segment(run) => Some(run.as_ref()),
        }
    }

    /// The whole run, ready to be read; a memtable is copied into columns, once for a snapshot.
    pub fn whole(&self) -> Result<Arc<dyn SortedRun>> {
        Ok(match self {
            Run::Memtable(view) => view.whole()?,
            Run::Memory(run) => Arc::<MemoryRun>::clone(run),
            Run::Segment(run) => Arc::clone(run),
        })
    }

    /// Whether the run is a segment.
    pub fn is_segment(&self) -> bool {
        matches!(self, Run::Segment(_))
    }

    /// The run's rows in these keys at least, ready to be read; of a memtable they are copied into columns here, unless
    /// all of it was.
    pub fn open(&self, start: &[u8], end: Option<&[u8]>) -> Result<Arc<dyn SortedRun>> {
        match self {
            Run::Memtable(view) if view.known_whole().is_none() => Ok(Arc::new(view.columns(start, end)?)),
            run => run.whole(),
        }
    }
}
