//! Which keys are read and written, minute by minute: the heat of key ranges, for `keyspan_heat`.
//!
//! ```text
//! keys looked up, spans scanned, mutations ─▶ samples of each minute and relation ─▶ ranges of keys ─▶ keyspan_heat
//! ```
//!
//! The rule: what it costs is bounded, in memory (the beginnings of some keys, for some relations and minutes) and in
//! time (of many rows some are looked at). So the numbers are estimates where many keys are used. The ranges are the
//! same in all minutes, so that a range can be followed through time.

use std::collections::{HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use keyspan_model::array::value_at;
use keyspan_model::{Catalog, KeyColumn, Mutation, RelationDef, RelationId, Span, Value, row_key_text};
use keyspan_query::ShownHeat;
use keyspan_store::clock::Clock;
use parking_lot::Mutex;

/// Minutes that are remembered.
const MINUTES: usize = 60;
/// Relations of a minute that are remembered.
const RELATIONS: usize = 16;
/// Keys of a sample.
const KEYS: usize = 64;
/// Bytes of texts and blobs of a key that are remembered.
const KEY_BYTES: usize = 256;
/// Rows or spans of one statement that are looked at.
const LOOKS: usize = 64;
/// Ranges of a relation's keys.
const RANGES: usize = 32;
/// In microseconds.
const MINUTE: i64 = 60_000_000;

/// The samples of a database.
#[derive(Debug)]
pub(crate) struct Heat {
    clock: Arc<dyn Clock>,
    minutes: Mutex<VecDeque<Minute>>,
}

#[derive(Debug)]
struct Minute {
    /// Minutes since 1970.
    at: i64,
    relations: HashMap<RelationId, Samples>,
}

#[derive(Debug, Default)]
struct Samples {
    reads: Sample,
    writes: Sample,
}

/// Some of the keys that were used, each as likely as the others.
#[derive(Debug, Default)]
struct Sample {
    /// How many were used.
    used: u64,
    keys: Vec<Vec<Value>>,
}

impl Heat {
    /// Without samples.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Heat {
        Heat { clock, minutes: Mutex::default() }
    }

    /// Notes keys that are looked up.
    pub(crate) fn read_keys(&self, relation: RelationId, keys: &[Vec<Value>]) {
        self.note(relation, |samples| &mut samples.reads, keys.len(), |place| keys[place].clone());
    }

    /// Notes spans that are scanned, each where it begins.
    pub(crate) fn read_spans(&self, relation: RelationId, spans: &[Span]) {
        self.note(relation, |samples| &mut samples.reads, spans.len(), |place| begin_of_span(&spans[place]));
    }

    /// Notes what is written. Rows that a load has written to disk already are not known here.
    pub(crate) fn write(&self, catalog: &Catalog, mutations: &[Mutation]) {
        for mutation in mutations {
            let relation = mutation.relation();
            let note = |count: usize, key: &dyn Fn(usize) -> Vec<Value>| {
                self.note(relation, |samples| &mut samples.writes, count, key);
            };
            match mutation {
                Mutation::Row(write) => note(1, &|_| write.key.clone()),
                Mutation::DeleteRow(delete) => note(1, &|_| delete.key.clone()),
                Mutation::DeleteSpan(delete) => note(1, &|_| begin_of_span(&delete.span)),
                Mutation::Batch(write) => {
                    let key = catalog.relation(relation).map(|relation| relation.key).unwrap_or_default();
                    let values = |row| key.iter().zip(write.batch.columns()).map(move |(key, array)| (key, array, row));
                    note(write.batch.num_rows(), &|row| {
                        values(row).map_while(|(key, array, row)| value_at(array, row, key.ty).ok()).collect()
                    });
                }
                Mutation::Load(_) => {}
            }
        }
    }

    /// Notes so many keys, of which those at some places are asked for.
    fn note(
        &self,
        relation: RelationId,
        sample: impl Fn(&mut Samples) -> &mut Sample,
        count: usize,
        key: impl Fn(usize) -> Vec<Value>,
    ) {
        if count == 0 {
            return;
        }
        let at = self.clock.now().div_euclid(MINUTE);
        let mut minutes = self.minutes.lock();
        forget(&mut minutes, at);
        if minutes.back().is_none_or(|last| last.at < at) {
            minutes.push_back(Minute { at, relations: HashMap::new() });
        }
        let Some(minute) = minutes.back_mut() else { return };
        if minute.relations.len() >= RELATIONS && !minute.relations.contains_key(&relation) {
            return;
        }
        let sample = sample(minute.relations.entry(relation).or_default());
        let step = count.div_ceil(LOOKS).max(1);
        for place in (0..count).step_by(step) {
            sample.add(step.min(count - place) as u64, || begin_of_key(key(place)));
        }
    }

    /// What is remembered, by relation, minute and range.
    pub(crate) fn shown(&self, catalog: &Catalog) -> Vec<ShownHeat> {
        let mut minutes = self.minutes.lock();
        forget(&mut minutes, self.clock.now().div_euclid(MINUTE));
        let mut ids: Vec<RelationId> = minutes.iter().flat_map(|minute| minute.relations.keys().copied()).collect();
        ids.sort_unstable();
        ids.dedup();
        let relations = ids.into_iter().filter_map(|id| catalog.relation(id));
        relations.flat_map(|relation| of_relation(&minutes, &relation)).collect()
    }
}

/// Forgets what is too long ago at this minute.
fn forget(minutes: &mut VecDeque<Minute>, at: i64) {
    while minutes.len() > MINUTES || minutes.front().is_some_and(|first| first.at <= at - MINUTES as i64) {
        minutes.pop_front();
    }
}

impl Sample {
    /// Adds a key that stands for `weight` uses: it takes the place of another as often as is its due.
    fn add(&mut self, weight: u64, key: impl FnOnce() -> Vec<Value>) {
        self.used += weight;
        if self.keys.len() < KEYS {
            return self.keys.push(key());
        }
        let drawn = fastrand::u64(..self.used);
        if drawn < weight.saturating_mul(KEYS as u64) {
            self.keys[drawn as usize % KEYS] = key();
        }
    }

    /// How many uses each of its keys stands for.
    fn weight(&self) -> f64 {
        self.used as f64 / self.keys.len().max(1) as f64
    }
}

/// Where a span begins: the values that all of its keys begin with, or are not before.
fn begin_of_span(span: &Span) -> Vec<Value> {
    match &span.start {
        Bound::Included(values) | Bound::Excluded(values) => values.clone(),
        Bound::Unbounded => Vec::new(),
    }
}

/// The key up to where its texts and blobs get too long to be remembered; what nests is not.
fn begin_of_key(key: Vec<Value>) -> Vec<Value> {
    let (mut kept, mut left) = (Vec::with_capacity(key.len()), KEY_BYTES);
    for value in key {
        let (value, length) = match value {
            Value::Text(text) => (Value::Text(text[..text.floor_char_boundary(left)].into()), text.len()),
            Value::Blob(bytes) => (Value::Blob(bytes[..bytes.len().min(left)].into()), bytes.len()),
            Value::List(_) | Value::Map(_) | Value::Tuple(_) => break,
            other => (other, 0),
        };
        kept.push(value);
        if length > left {
            break;
        }
        left -= length;
    }
    kept
}

/// Keys in the order of the relation; those that begin alike after the shorter one.
fn compare(key: &[KeyColumn], a: &[Value], b: &[Value]) -> std::cmp::Ordering {
    let parts = key.iter().zip(a.iter().zip(b)).map(|(column, (a, b))| {
        let order = Value::compare_as(column.ty, a, b);
        if column.descending { order.reverse() } else { order }
    });
    parts.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then).then(a.len().cmp(&b.len()))
}

/// The heat of a relation's ranges.
fn of_relation(minutes: &VecDeque<Minute>, relation: &RelationDef) -> Vec<ShownHeat> {
    let samples = || minutes.iter().filter_map(|minute| Some((minute.at, minute.relations.get(&relation.id)?)));
    let weighted = |sample: &Sample| sample.keys.iter().map(|key| (key.clone(), sample.weight())).collect::<Vec<_>>();
    let all = samples().flat_map(|(_, samples)| [weighted(&samples.reads), weighted(&samples.writes)].concat());
    let ranges = ranges(&relation.key, all.collect());
    let mut shown = Vec::new();
    for (minute, samples) in samples() {
        for (first, last) in &ranges {
            let within = |key: &&Vec<Value>| {
                compare(&relation.key, key, first).is_ge() && compare(&relation.key, key, last).is_le()
            };
            let count = |sample: &Sample| sample.keys.iter().filter(within).count() as f64 * sample.weight();
            let (reads, writes) = (count(&samples.reads).round() as i64, count(&samples.writes).round() as i64);
            if reads + writes > 0 {
                let text = |key: &[Value]| {
                    let types: Vec<_> = relation.key.iter().map(|column| column.ty).take(key.len()).collect();
                    (!key.is_empty()).then(|| row_key_text(key, &types))
                };
                let (first, last) = (text(first), text(last));
                let (table, relation) = (relation.table, relation.id);
                shown.push(ShownHeat { minute: minute * MINUTE, table, relation, first, last, reads, writes });
            }
        }
    }
    shown
}

/// Ranges of about one weight that hold all keys, each from its first key to its last; a key that weighs as much has one of
/// its own.
fn ranges(key: &[KeyColumn], mut weighted: Vec<(Vec<Value>, f64)>) -> Vec<(Vec<Value>, Vec<Value>)> {
    weighted.sort_by(|(a, _), (b, _)| compare(key, a, b));
    let share = weighted.iter().map(|(_, weight)| weight).sum::<f64>() / RANGES as f64;
    let mut each: Vec<(Vec<Value>, f64)> = Vec::new();
    for (values, weight) in weighted {
        match each.last_mut() {
            Some((last, sum)) if *last == values => *sum += weight,
            _ => each.push((values, weight)),
        }
    }
    let mut ranges: Vec<(Vec<Value>, Vec<Value>)> = Vec::new();
    let mut open = 0.0;
    for (values, weight) in each {
        match ranges.last_mut() {
            Some((_, last)) if open > 0.0 && open + weight <= share => {
                *last = values;
                open += weight;
            }
            _ => {
                ranges.push((values.clone(), values));
                open = weight;
            }
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyspan_model::{ColumnId, ColumnType};
    use keyspan_store::clock::SystemClock;

    fn key() -> Vec<KeyColumn> {
        vec![KeyColumn { id: ColumnId(1), name: "k".into(), ty: ColumnType::Int, descending: false }]
    }

    fn int(value: i32) -> Vec<Value> {
        vec![Value::Int(value)]
    }

    #[test]
    fn a_sample_is_bounded_and_stands_for_all() {
        let heat = Heat::new(Arc::new(SystemClock));
        let keys: Vec<Vec<Value>> = (0..100_000).map(int).collect();
        for keys in keys.chunks(1_000) {
            heat.read_keys(RelationId(1), keys);
        }
        let minutes = heat.minutes.lock();
        let reads: Vec<&Sample> = minutes.iter().map(|minute| &minute.relations[&RelationId(1)].reads).collect();
        assert_eq!(reads.iter().map(|sample| sample.used).sum::<u64>(), 100_000);
        assert!(reads.iter().all(|sample| sample.keys.len() <= KEYS));
        // Of the second half of the keys there are about as many as of the first.
        let sample = reads.iter().max_by_key(|sample| sample.used).expect("a sample");
        let low = sample.keys.iter().filter(|key| key[0].compare(&Value::Int(50_000)).is_lt()).count();
        assert!((10..=54).contains(&low), "{low} of {KEYS} keys are below the middle");
    }

    #[test]
    fn a_hot_key_has_a_range_of_its_own() {
        let mut weighted: Vec<(Vec<Value>, f64)> = (0..1_000).map(|each| (int(each), 1.0)).collect();
        weighted.push((int(500), 500.0));
        let ranges = ranges(&key(), weighted);
        assert!(ranges.contains(&(int(500), int(500))), "{ranges:?}");
        assert!(ranges.len() <= 2 * RANGES, "{} ranges", ranges.len());
        assert_eq!(ranges.first().map(|(first, _)| first.clone()), Some(int(0)));
        assert_eq!(ranges.last().map(|(_, last)| last.clone()), Some(int(999)));
    }

    #[test]
    fn of_a_long_key_the_beginning_is_remembered() {
        let text = |length| Value::Text("é".repeat(length / 2));
        assert_eq!(begin_of_key(vec![text(100), Value::Int(1), text(10)]), [text(100), Value::Int(1), text(10)]);
        let long = vec![text(100), text(60_000), Value::Int(1)];
        assert_eq!(begin_of_key(long), [text(100), text(KEY_BYTES - 100)]);
        assert_eq!(begin_of_key(vec![Value::Int(1), Value::List(vec![text(60_000)])]), [Value::Int(1)]);
    }

    #[test]
    fn relations_beyond_the_bound_are_not_remembered() {
        let heat = Heat::new(Arc::new(SystemClock));
        for relation in 0..2 * RELATIONS as u32 {
            heat.read_keys(RelationId(relation), &[int(1)]);
        }
        assert!(heat.minutes.lock().iter().all(|minute| minute.relations.len() <= RELATIONS));
    }
}
