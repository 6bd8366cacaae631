//! The distinct prefixes of a run's keys and the number of rows of each: found once and cached with the run.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, BinaryArray, BinaryBuilder};
use keyspan_model::key::successor;
use keyspan_model::{KeyEncoder, RelationDef, Result};
use parking_lot::Mutex;

use super::{Keys, SortedRun};
use keyspan_seam::ScanCounters;

/// Most prefixes of one run that are cached.
const MOST: usize = 16_384;

/// The distinct values of some leading key columns in a run.
#[derive(Debug)]
pub struct Prefixes {
    /// Encoded, ascending.
    keys: BinaryArray,
    /// Rows of each.
    rows: Vec<usize>,
    hash: u64,
}

/// Numbers of columns, and the prefixes of so many; `None`: there are too many.
type ByColumns = Vec<(usize, Option<Arc<Prefixes>>)>;

/// A run's prefixes, as far as they were asked for.
#[derive(Clone, Debug, Default)]
pub struct KnownPrefixes(Arc<Mutex<ByColumns>>);

impl Prefixes {
    /// Those of the first `columns` key columns; `None` if they are too many.
    pub fn of(run: &dyn SortedRun, relation: &RelationDef, columns: usize) -> Result<Option<Arc<Prefixes>>> {
        let known = |KnownPrefixes(known): &KnownPrefixes| {
            known.lock().iter().find(|(own, _)| *own == columns).map(|(_, prefixes)| prefixes.clone())
        };
        if let Some(prefixes) = run.known_prefixes().and_then(known) {
            return Ok(prefixes);
        }
        let found = look(run, &KeyEncoder::new(&relation.key), columns)?.map(Arc::new);
        if let Some(KnownPrefixes(known)) = run.known_prefixes() {
            known.lock().push((columns, found.clone()));
        }
        Ok(found)
    }

    /// Whether the others are the same prefixes.
    fn same(&self, other: &Prefixes) -> bool {
        self.hash == other.hash && self.keys == other.keys
    }

    /// Whether each of these has at least so many rows in one of the others.
    pub fn are_within(&self, others: &[Arc<Prefixes>], rows: usize) -> bool {
        let enough = |other: &Prefixes| other.rows.iter().all(|own| *own >= rows);
        if others.iter().any(|other| self.same(other) && enough(other)) {
            return true;
        }
        let mut missing: Vec<usize> = (0..self.keys.len()).collect();
        for other in others {
            let mut at = 0;
            missing.retain(|own| {
                let key = self.keys.value(*own);
                while at < other.keys.len() && other.keys.value(at) < key {
                    at += 1;
                }
                !(at < other.keys.len() && other.keys.value(at) == key && other.rows[at] >= rows)
            });
        }
        missing.is_empty()
    }
}

/// Jumps from prefix to prefix.
fn look(run: &dyn SortedRun, encoder: &KeyEncoder, columns: usize) -> Result<Option<Prefixes>> {
    let counters = ScanCounters::default();
    let all = run.meta().all.rows as usize;
    let (mut found, mut rows) = (BinaryBuilder::new(), Vec::new());
    let (mut keys, mut row) = (Keys::new(run), 0);
    while row < all {
        if rows.len() == MOST {
            return Ok(None);
        }
        let key = keys.at(row, &counters)?;
        let prefix = &key[..encoder.prefix_len(key, columns)];
        found.append_value(prefix);
        let next = successor(prefix).map_or(Ok(all), |behind| run.lower_bound(&behind, &counters))?;
        rows.push(next - row);
        row = next;
    }
    let keys = found.finish();
    let mut hasher = DefaultHasher::new();
    keys.iter().for_each(|key| key.hash(&mut hasher));
    Ok(Some(Prefixes { keys, rows, hash: hasher.finish() }))
}
