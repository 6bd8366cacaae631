//! All relations of the weak store as of one batch. A clone is a snapshot.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::Array;
use keyspan_model::schema::PRESENCE_COLUMN;
use keyspan_model::{
    BatchWrite, Catalog, CellWrite, Error, ErrorKind, GcRule, KeyEncoder, Mutation, RelationDef, RelationId,
    RelationKind, Result, RowWrite, Span, Stamp, Unchanged, Value, WriteBatch, value_at,
};

use super::row::{Moment, Row};

/// Encoded keys: from the first up to the second.
pub type KeyRange = (Vec<u8>, Option<Vec<u8>>);

/// Everything that the store holds.
#[derive(Clone, Debug)]
pub struct State {
    pub catalog: Arc<Catalog>,
    relations: BTreeMap<RelationId, Arc<Relation>>,
    /// The last batch.
    pub seq: u64,
    /// The last timestamp given out, in microseconds.
    pub timestamp: i64,
    /// The latest time of the clock that was seen, in microseconds.
    pub clock: i64,
}

/// The rows of one relation by their encoded keys.
#[derive(Clone, Debug)]
pub struct Relation {
    pub definition: RelationDef,
    pub encoder: KeyEncoder,
    pub rows: BTreeMap<Vec<u8>, Row>,
    deleted: Vec<SpanTombstone>,
}

#[derive(Clone, Debug)]
struct SpanTombstone {
    keys: KeyRange,
    ts: i64,
    seq: u64,
}

/// Whether a key lies in a range.
pub fn holds((from, to): &KeyRange, key: &[u8]) -> bool {
    key >= &from[..] && to.as_ref().is_none_or(|to| key < &to[..])
}

impl State {
    /// Nothing but the first catalog.
    pub fn initial() -> State {
        let catalog = Arc::new(Catalog::initial());
        State { catalog, relations: BTreeMap::new(), seq: 0, timestamp: 0, clock: 0 }
    }

    /// The relation with this id.
    pub fn relation(&self, id: RelationId) -> Result<&Arc<Relation>> {
        let missing = || Error::new(ErrorKind::UndefinedTable, format!("relation {id} does not exist"));
        self.relations.get(&id).ok_or_else(missing)
    }

    /// Takes over a catalog: new relations are empty, those that it does not name are gone.
    pub fn set_catalog(&mut self, catalog: Arc<Catalog>) {
        let mut before = std::mem::take(&mut self.relations);
        for definition in catalog.all_tables().flat_map(|table| table.relations()) {
            let id = definition.id;
            let relation = match before.remove(&id).map(Arc::unwrap_or_clone) {
                Some(relation) => Relation { definition, ..relation },
                None => Relation::empty(definition),
            };
            self.relations.insert(id, Arc::new(relation));
        }
        self.catalog = catalog;
    }

    /// 40001 if something in these keys was touched later.
    pub fn check(&self, conditions: &[Unchanged]) -> Result<()> {
        for condition in conditions {
            // One that is new has not been touched.
            let Some(relation) = self.relations.get(&condition.relation) else { continue };
            if relation.is_touched(&condition.span, condition.seq)? {
                let message = "could not serialize access due to concurrent update";
                return Err(Error::new(ErrorKind::Serialization, message));
            }
        }
        Ok(())
    }

    /// The live rows of a range, in key order.
    pub fn live<'a>(&'a self, relation: &'a Relation, keys: &KeyRange) -> Result<Vec<(&'a Vec<u8>, &'a Row)>> {
        match relation.definition.kind {
            RelationKind::Family => {
                let mut kept = relation.kept_versions(self.clock)?;
                kept.retain(|(key, _)| holds(keys, key));
                Ok(kept)
            }
            _ => {
                let families =
                    self.catalog.tables.get(&relation.definition.table).map_or(&[][..], |table| &table.families);
                let mut alive_in_families = BTreeSet::new();
                for family in families {
                    for (key, _) in self.relation(family.relation)?.kept_versions(self.clock)? {
                        alive_in_families
                            .insert(key[..relation.encoder.prefix_len(key, relation.definition.key.len())].to_vec());
                    }
                }
                let at = relation.at(self.clock);
                let is_live = |(key, row): &(&Vec<u8>, &Row)| {
                    row.is_live(&relation.definition, at)
                        || (row.cell(PRESENCE_COLUMN, at).is_some() && alive_in_families.contains(*key))
                };
                Ok(relation.within(keys).filter(is_live).collect())
            }
        }
    }

    /// Does what a batch asks, with `timestamp` for its first statement.
    pub fn write(&mut self, batch: &WriteBatch, timestamp: i64) -> Result<()> {
        for mutation in &batch.mutations {
            self.relation(mutation.relation())?;
            let Some(relation) = self.relations.get_mut(&mutation.relation()) else { continue };
            let ts = match mutation.stamp() {
                Stamp::Server(statement) => timestamp + i64::from(statement),
                Stamp::At(ts) => ts,
            };
            Arc::make_mut(relation).change(mutation, ts, self.clock, self.seq)?;
        }
        let last = batch.mutations.iter().map(Mutation::last_statement).max().unwrap_or(0);
        self.timestamp = timestamp + i64::from(last);
        Ok(())
    }
}

/// Whether a rule removes the version of this rank and age.
fn is_removed(rule: &GcRule, rank: u32, age: i64) -> bool {
    let mut answers: Vec<bool> = rule.inner.iter().map(|inner| is_removed(inner, rank, age)).collect();
    answers.extend(rule.max_versions.map(|most| rank > most));
    answers.extend(rule.max_age.map(|oldest| age > oldest));
    if rule.both && !answers.is_empty() { !answers.contains(&false) } else { answers.contains(&true) }
}

impl Relation {
    fn empty(definition: RelationDef) -> Relation {
        let encoder = KeyEncoder::new(&definition.key);
        Relation { definition, encoder, rows: BTreeMap::new(), deleted: Vec::new() }
    }

    fn change(&mut self, mutation: &Mutation, ts: i64, clock: i64, seq: u64) -> Result<()> {
        match mutation {
            Mutation::Row(write) => self.write(write, ts, clock, seq)?,
            Mutation::Batch(batch) => self.write_all(batch, ts, clock, seq)?,
            Mutation::Load(rows) => match rows.handle.downcast_ref::<Option<BatchWrite>>() {
                Some(batch) => batch.iter().try_for_each(|batch| self.write_all(batch, ts, clock, seq))?,
                None => return Err(Error::internal("rows that another kind of store has written")),
            },
            Mutation::DeleteRow(delete) => {
                let row = self.rows.entry(self.encoder.encode(&delete.key)?).or_default();
                row.delete(ts);
                row.seq = seq;
            }
            Mutation::DeleteSpan(delete) => {
                let keys = self.encoder.span_bytes(&delete.span)?;
                self.rows.iter_mut().filter(|(key, _)| holds(&keys, key)).for_each(|(_, row)| row.delete(ts));
                self.deleted.push(SpanTombstone { keys, ts, seq });
            }
        }
        Ok(())
    }

    fn write(&mut self, write: &RowWrite, ts: i64, clock: i64, seq: u64) -> Result<()> {
        let mut key = write.key.clone();
        if self.definition.kind == RelationKind::Family {
            key.push(Value::Timestamp(ts));
        }
        let key = self.encoder.encode(&key)?;
        let covering = self.deleted.iter().filter(|deleted| holds(&deleted.keys, &key)).map(|deleted| deleted.ts).max();
        let row = self.rows.entry(key).or_default();
        row.write(write, ts, clock);
        if let Some(covering) = covering {
            row.delete(covering);
        }
        row.seq = seq;
        Ok(())
    }

    /// Writes the rows of a batch. Of two with one key the later wins, whatever their values.
    fn write_all(&mut self, batch: &BatchWrite, ts: i64, clock: i64, seq: u64) -> Result<()> {
        let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut rows: Vec<RowWrite> = Vec::new();
        for at in 0..batch.batch.num_rows() {
            let row = self.row_of(batch, at)?;
            match places.get(&self.encoder.encode(&row.key)?) {
                Some(place) => {
                    let cells = &mut rows[*place].cells;
                    cells.retain(|(column, _)| row.cells.iter().all(|(later, _)| later != column));
                    cells.extend(row.cells);
                }
                None => {
                    places.insert(self.encoder.encode(&row.key)?, rows.len());
                    rows.push(row);
                }
            }
        }
        rows.iter().try_for_each(|row| self.write(row, ts, clock, seq))
    }

    fn row_of(&self, batch: &BatchWrite, at: usize) -> Result<RowWrite> {
        let (mut key, mut cells) = (Vec::new(), Vec::new());
        for (id, array) in batch.columns.iter().zip(batch.batch.columns()) {
            if let Some(place) = self.definition.key_index(*id) {
                key.push(value_at(array, at, self.definition.key[place].ty)?);
            } else if let Some(column) = self.definition.value(*id) {
                if array.is_valid(at) {
                    cells.push((*id, CellWrite::Value(value_at(array, at, column.ty)?)));
                } else if batch.null_deletes {
                    cells.push((*id, CellWrite::Tombstone));
                }
            }
        }
        let BatchWrite { relation, marker, stamp, ttl, .. } = *batch;
        Ok(RowWrite { relation, key, marker, cells, stamp, ttl })
    }

    fn is_touched(&self, span: &Span, since: u64) -> Result<bool> {
        let keys = self.encoder.span_bytes(span)?;
        let meets = |(from, to): &KeyRange| {
            to.as_ref().is_none_or(|to| keys.0 < *to) && keys.1.as_ref().is_none_or(|end| from < end)
        };
        let deleted = self.deleted.iter().any(|deleted| deleted.seq > since && meets(&deleted.keys));
        Ok(deleted || self.within(&keys).any(|(_, row)| row.seq > since))
    }

    /// Of a family: the live versions that its rule keeps, counted from the newest, those that live no more among them. A
    /// collection has one of each.
    fn kept_versions(&self, now: i64) -> Result<Vec<(&Vec<u8>, &Row)>> {
        let at = self.at(now);
        if self.definition.kind == RelationKind::Collection {
            return Ok(self.rows.iter().filter(|(_, row)| row.is_live(&self.definition, at)).collect());
        }
        let rule = &self.definition.gc;
        let (mut kept, mut path, mut rank) = (Vec::new(), &[][..], 0);
        for (key, row) in &self.rows {
            let own = &key[..self.encoder.prefix_len(key, self.definition.key.len() - 1)];
            rank = if own == path { rank + 1 } else { 1 };
            path = own;
            let Some(Value::Timestamp(written)) = self.encoder.decode(key)?.pop() else { continue };
            let goes = is_removed(rule, rank, now - written);
            if !goes && row.is_live(&self.definition, at) {
                kept.push((key, row));
            }
        }
        Ok(kept)
    }

    /// The newest timestamp of anything that is kept within these keys, and of what has deleted the first of them.
    pub fn newest(&self, keys: &KeyRange) -> Option<i64> {
        let rows = self.rows.range(keys.0.clone()..).take_while(|(key, _)| holds(keys, key));
        let deleted = self.deleted.iter().filter(|tombstone| holds(&tombstone.keys, &keys.0)).map(|each| each.ts);
        rows.filter_map(|(_, row)| row.newest()).chain(deleted).max()
    }

    /// Reading it when the clock says `now`, in microseconds since 1970.
    pub fn at(&self, now: i64) -> Moment {
        Moment { now, horizon: self.definition.retention.horizon(now) }
    }

    /// The rows of a range, in key order.
    pub fn within(&self, (from, to): &KeyRange) -> impl Iterator<Item = (&Vec<u8>, &Row)> {
        let empty = to.as_ref().is_some_and(|to| to <= from);
        let to = to.as_ref().map_or(Bound::Unbounded, |to| Bound::Excluded(if empty { from } else { to }));
        self.rows.range::<Vec<u8>, _>((Bound::Included(from), to))
    }
}
