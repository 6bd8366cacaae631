//! One row of the weak store: versions of its marker and cells, by Cassandra's rules (docs/decisions.md, versions of a
//! cell). Written anew, so that the two stores agree by the rules and not by sharing code.

use std::collections::BTreeMap;

use keyspan_model::schema::PRESENCE_COLUMN;
use keyspan_model::{CellWrite, ColumnId, RelationDef, RowWrite, Value, tie_bytes};

/// When a relation is read, in microseconds since 1970, and which of its writes are too old then.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub now: i64,
    pub horizon: Option<i64>,
}

/// A version of a cell, or of the marker, whose value is then `true`. Times in microseconds since 1970.
#[derive(Clone, Debug)]
pub struct Version {
    pub ts: i64,
    pub expires: Option<i64>,
    /// `None`: a tombstone.
    pub value: Option<Value>,
}

impl Version {
    /// The greater wins: later timestamp, then tombstone over expiring over plain, later expiry, larger bytes.
    fn weight(&self) -> (i64, u8, Option<i64>, Vec<u8>) {
        let rank = match (&self.value, self.expires) {
            (None, _) => 2,
            (_, Some(_)) => 1,
            (_, None) => 0,
        };
        (self.ts, rank, self.expires, self.value.as_ref().map(tie_bytes).unwrap_or_default())
    }

    fn is_live(&self, at: Moment) -> bool {
        let young = at.horizon.is_none_or(|horizon| self.ts > horizon);
        young && self.value.is_some() && self.expires.is_none_or(|expires| at.now < expires)
    }

    /// The seconds that it still lives.
    pub fn ttl(&self, now: i64) -> Option<i32> {
        self.expires.and_then(|expires| i32::try_from((expires - now + 999_999) / 1_000_000).ok())
    }
}

/// A row, tombstones and all.
#[derive(Clone, Debug, Default)]
pub struct Row {
    marker: Option<Version>,
    cells: BTreeMap<ColumnId, Version>,
    /// What was written at or before it is deleted.
    deleted: Option<i64>,
    /// The last batch that touched it.
    pub seq: u64,
}

impl Row {
    /// Takes a write with this timestamp at this time of the server's clock.
    pub fn write(&mut self, write: &RowWrite, ts: i64, clock: i64) {
        let expires = (write.ttl > 0).then(|| clock.saturating_add(i64::from(write.ttl) * 1_000_000));
        if write.marker {
            let marker = Version { ts, expires, value: Some(Value::Boolean(true)) };
            self.marker = stronger(self.marker.take(), marker);
        }
        for (column, cell) in &write.cells {
            let version = match cell {
                CellWrite::Value(value) => Version { ts, expires, value: Some(value.clone().canonical()) },
                CellWrite::Tombstone => Version { ts, expires: None, value: None },
            };
            let winner = stronger(self.cells.remove(column), version);
            self.cells.extend(winner.map(|winner| (*column, winner)));
        }
        self.cover();
    }

    /// Deletes what was written at or before a timestamp, now and later.
    pub fn delete(&mut self, ts: i64) {
        self.deleted = self.deleted.max(Some(ts));
        self.cover();
    }

    /// The newest timestamp of anything that is kept.
    pub fn newest(&self) -> Option<i64> {
        let versions = self.marker.iter().chain(self.cells.values());
        versions.map(|version| version.ts).chain(self.deleted).max()
    }

    fn cover(&mut self) {
        let Some(deleted) = self.deleted else { return };
        self.marker.take_if(|marker| marker.ts <= deleted);
        self.cells.retain(|_, cell| cell.ts > deleted);
    }

    /// Whether its marker or a cell of a column that the relation has lives, presence entries aside.
    pub fn is_live(&self, relation: &RelationDef, at: Moment) -> bool {
        self.marker.as_ref().is_some_and(|marker| marker.is_live(at))
            || relation.values.iter().any(|column| column.id != PRESENCE_COLUMN && self.cell(column.id, at).is_some())
    }

    /// The live version of a cell.
    pub fn cell(&self, column: ColumnId, at: Moment) -> Option<&Version> {
        self.cells.get(&column).filter(|cell| cell.is_live(at))
    }
}

fn stronger(own: Option<Version>, new: Version) -> Option<Version> {
    own.filter(|own| own.weight() >= new.weight()).or(Some(new))
}
