//! The distinct prefixes of a run's keys and the number of rows of each: found once and cached with the run.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryArray};
use arrow::compute::partition;
use keyspan_model::{KeyEncoder, RelationDef, Result};
use parking_lot::Mutex;

use super::{SortedRun, Wanted};
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
        let found = look(run, relation, columns)?.map(Arc::new);
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

/// Goes through the blocks; one that begins with the prefix that the next one begins with too is not read, of others
/// only the leading key columns.
fn look(run: &dyn SortedRun, relation: &RelationDef, columns: usize) -> Result<Option<Prefixes>> {
    let whole = KeyEncoder::new(&relation.key);
    let prefix = KeyEncoder::new(&relation.key[..columns]);
    let wanted = Wanted { keys: (0..relation.key.len()).map(|at| at < columns).collect(), ..Wanted::default() };
    let counters = ScanCounters::default();
    let all = run.meta().all.rows as usize;
    let starts_with = |row: usize, known: &[u8]| {
        let key = if row < all { run.sample(row) } else { Some(run.meta().all.key.1.clone()) };
        run.is_segment() && key.is_some_and(|key| key[..whole.prefix_len(&key, columns)] == *known)
    };
    let (mut found, mut row) = (Vec::<(Vec<u8>, usize)>::new(), 0);
    while row < all {
        let block = row..run.block(row, &wanted).end;
        // Keys ascend: then this block begins with it too.
        if let Some((_, rows)) = found.last_mut().filter(|(last, _)| starts_with(block.end, last)) {
            *rows += block.len();
            row = block.end;
            continue;
        }
        let arrays = run.read(block.clone(), &wanted, &counters)?.keys.into_iter().flatten().collect::<Vec<_>>();
        for part in partition(&arrays)?.ranges() {
            let first: Vec<ArrayRef> = arrays.iter().map(|array| array.slice(part.start, 1)).collect();
            let key = prefix.encode_batch(&first)?;
            match found.last_mut().filter(|(last, _)| last == key.value(0)) {
                Some((_, rows)) => *rows += part.len(),
                None => found.push((key.value(0).to_vec(), part.len())),
            }
        }
        if found.len() > MOST {
            return Ok(None);
        }
        row = block.end;
    }
    let mut hasher = DefaultHasher::new();
    found.iter().for_each(|(key, _)| key.hash(&mut hasher));
    let keys = BinaryArray::from_iter_values(found.iter().map(|(key, _)| key));
    Ok(Some(Prefixes { keys, rows: found.into_iter().map(|(_, rows)| rows).collect(), hash: hasher.finish() }))
}
