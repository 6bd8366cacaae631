//! Span tombstones as items of the manifest. One stands in an item of its own; many that are flushed together share one:
//! sled keeps some kilobytes in memory for each item.
//!
//! ```text
//! t relation seq n    JSON of the tombstone
//! T relation seq n    tombstones, the first of which has this name:
//!                     seq(u64) n(u32) ts(i64) deleted_at(i64)
//!                     start: length(u32) bytes
//!                     end: 0 (none) | 1, length(u32) bytes
//! ```

use std::sync::Arc;

use keyspan_model::{RelationId, Result};

use super::state::{Item, TombstoneKey};
use super::state::{json, read};
use crate::format::{bad, named};
use crate::log::ByteReader;
use crate::run::{SpanTombstone, Tombstone};

/// Up to so many tombstones of one flush have items of their own.
const SINGLES_MAX: usize = 16;
/// Tombstones of one item at most: some megabytes.
const PACK_MAX: usize = 1 << 16;

/// The tombstones of one item, at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct TombstonePack(Arc<[Arc<Tombstone>]>);

impl TombstonePack {
    /// Items for tombstones that are flushed together, each with the name of its first one.
    pub fn packs(relation: RelationId, tombstones: &[Arc<Tombstone>]) -> Vec<(TombstoneKey, TombstonePack)> {
        let size = if tombstones.len() > SINGLES_MAX { PACK_MAX } else { 1 };
        let packs = tombstones.chunks(size).map(|pack| TombstonePack(pack.into()));
        packs.map(|pack| (pack.name(relation), pack)).collect()
    }

    /// Its tombstones.
    pub fn tombstones(&self) -> &[Arc<Tombstone>] {
        &self.0
    }

    /// The greatest commit order of its tombstones.
    pub fn last_seq(&self) -> u64 {
        self.0.iter().map(|tombstone| tombstone.span.seq).max().unwrap_or(0)
    }

    /// Those of its tombstones of which this is true; `None` if there are none.
    pub fn keep(&self, keep: impl Fn(&Tombstone) -> bool) -> Option<TombstonePack> {
        let kept: Arc<[Arc<Tombstone>]> = self.0.iter().filter(|tombstone| keep(tombstone)).cloned().collect();
        (!kept.is_empty()).then_some(TombstonePack(kept))
    }

    /// The name of its first tombstone.
    pub fn name(&self, relation: RelationId) -> TombstoneKey {
        (relation, self.0[0].span.seq, self.0[0].number)
    }

    /// The key of the item.
    pub fn key(&self, relation: RelationId) -> Vec<u8> {
        let (relation, seq, number) = self.name(relation);
        let kind = if self.0.len() == 1 { b"t" } else { b"T" };
        [kind.as_slice(), &relation.0.to_be_bytes(), &seq.to_be_bytes(), &number.to_be_bytes()].concat()
    }

    /// The item.
    pub fn item(&self, relation: RelationId) -> Result<Item> {
        let bytes = match &self.0[..] {
            [single] => json(&single.span)?,
            many => many.iter().flat_map(|tombstone| encode(tombstone)).collect(),
        };
        Ok((self.key(relation), bytes))
    }

    /// Reads an item with this name.
    pub fn read(packed: bool, (_, seq, number): TombstoneKey, bytes: &[u8]) -> Result<TombstonePack> {
        if !packed {
            let span: SpanTombstone = read(bytes)?;
            return Ok(TombstonePack([Arc::new(Tombstone { number, span })].into()));
        }
        let mut reader = ByteReader::new(bytes);
        let mut tombstones = Vec::new();
        while !reader.is_empty() {
            tombstones.push(Arc::new(decode(&mut reader).map_err(|error| named("manifest", error))?));
        }
        match tombstones.first() {
            Some(first) if (first.span.seq, first.number) == (seq, number) => Ok(TombstonePack(tombstones.into())),
            _ => Err(named("manifest", bad("tombstones have another's name"))),
        }
    }
}

fn encode(tombstone: &Tombstone) -> Vec<u8> {
    let SpanTombstone { start, end, ts, deleted_at, seq } = &tombstone.span;
    let mut out = seq.to_le_bytes().to_vec();
    out.extend_from_slice(&tombstone.number.to_le_bytes());
    out.extend_from_slice(&ts.to_le_bytes());
    out.extend_from_slice(&deleted_at.to_le_bytes());
    let mut key = |bytes: &[u8]| {
        out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(bytes);
    };
    key(start);
    match end {
        None => out.push(0),
        Some(end) => {
            out.push(1);
            out.extend_from_slice(&(end.len() as u32).to_le_bytes());
            out.extend_from_slice(end);
        }
    }
    out
}

fn decode(reader: &mut ByteReader<'_>) -> Result<Tombstone> {
    let seq = reader.u64()?;
    let number = reader.u32()?;
    let ts = i64::from_le_bytes(reader.array()?);
    let deleted_at = i64::from_le_bytes(reader.array()?);
    let start = key(reader)?;
    let end = match reader.u8()? {
        0 => None,
        1 => Some(key(reader)?),
        _ => return Err(bad("a tombstone has neither an end nor none")),
    };
    Ok(Tombstone { number, span: SpanTombstone { start, end, ts, deleted_at, seq } })
}

fn key(reader: &mut ByteReader<'_>) -> Result<Vec<u8>> {
    let length = reader.u32()? as usize;
    Ok(reader.take(length)?.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_come_back_whole_and_in_part() {
        let relation = RelationId(7);
        let one = |at: u64| {
            let end = (!at.is_multiple_of(3)).then(|| vec![2; at as usize]);
            let span =
                SpanTombstone { start: vec![1; at as usize % 5], end, ts: -(at as i64), deleted_at: 9, seq: at / 4 };
            Arc::new(Tombstone { number: (at % 4) as u32, span })
        };
        for count in [1, SINGLES_MAX as u64, SINGLES_MAX as u64 + 1, 200] {
            let all: Vec<Arc<Tombstone>> = (0..count).map(one).collect();
            let packs = TombstonePack::packs(relation, &all);
            assert_eq!(packs.len(), if count > SINGLES_MAX as u64 { 1 } else { count as usize });
            let mut read = Vec::new();
            for (name, pack) in &packs {
                let (key, bytes) = pack.item(relation).expect("an item");
                let again = TombstonePack::read(key[0] == b'T', *name, &bytes).expect("reads");
                assert_eq!(again, *pack);
                read.extend(again.tombstones().to_vec());
                if key[0] == b'T' {
                    assert!(TombstonePack::read(true, (relation, 99, 0), &bytes).is_err(), "another's name");
                    assert!(TombstonePack::read(true, *name, &bytes[..bytes.len() - 1]).is_err(), "cut off");
                    assert_eq!(
                        pack.keep(|each| each.number == 0).map(|kept| kept.tombstones().len()),
                        Some(count.div_ceil(4) as usize)
                    );
                    assert_eq!(pack.keep(|_| false), None);
                }
            }
            assert_eq!(read, all);
        }
    }
}
