//! Cassandra's guardrails, each with a limit that warns and one that refuses.
//!
//! | settings | on |
//! |---|---|
//! | `collection_size_…` | elements that a statement writes into one collection |
//! | `partition_size_…` | what a partition has, by estimate, that a statement writes to |
//! | `tombstones_…` | deleted and expired rows that a query reads ([`crate::reads`]) |

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use keyspan_model::array::value_at;
use keyspan_model::{
    Catalog, Error, ErrorKind, Mutation, RelationDef, RelationId, Result, Scan, ScanColumn, Span, Value,
};
use keyspan_seam::{Known, Snapshot};

use super::ClientContext;
use crate::outcome::Notice;
use crate::reads::DeadRows;
use crate::row::TableHandle;
use crate::settings::Settings;

/// Partitions of one statement that are looked at.
const PARTITIONS_MAX: usize = 16;
/// Rows of one batch that are looked at, to find its partitions.
const LOOKS: usize = 64;

/// The limits that are set, as they were when settings changed last. Each pair: what warns, what refuses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Guardrails {
    /// Elements.
    collection: Limits,
    /// Bytes.
    partition: Limits,
    /// Rows.
    tombstones: Limits,
}

#[derive(Clone, Copy, Debug, Default)]
struct Limits {
    warn: Option<u64>,
    fail: Option<u64>,
}

impl Limits {
    fn are_set(self) -> bool {
        self.warn.is_some() || self.fail.is_some()
    }
}

impl Guardrails {
    /// The limits of these settings.
    pub(super) fn of(settings: &Settings) -> Guardrails {
        let count = |name: &str| settings.get(name)?.parse().ok().filter(|limit: &u64| *limit > 0);
        let bytes = |name: &str| settings.bytes(name).map(|limit| limit as u64);
        Guardrails {
            collection: Limits { warn: count("collection_size_warn"), fail: count("collection_size_fail") },
            partition: Limits { warn: bytes("partition_size_warn"), fail: bytes("partition_size_fail") },
            tombstones: Limits { warn: count("tombstones_warn"), fail: count("tombstones_fail") },
        }
    }
}

/// The collection that gets the most elements.
struct Largest {
    relation: RelationId,
    elements: u64,
}

impl ClientContext {
    /// The limits on deleted and expired rows that a statement reads.
    pub(super) fn dead_rows(&self) -> Option<Arc<DeadRows>> {
        let limits @ Limits { warn, fail } = self.guardrails.tombstones;
        let warnings = self.late_warnings.clone();
        limits.are_set().then(|| Arc::new(DeadRows { warn, fail, warnings, read: AtomicU64::new(0) }))
    }

    /// Warns of a partition that is written to and too large already, or refuses it.
    ///
    /// # Errors
    /// 54000 beyond `partition_size_fail`.
    pub(crate) async fn check_partitions(&mut self, handle: &TableHandle, mutations: &[Mutation]) -> Result<()> {
        let limits @ Limits { warn, fail } = self.guardrails.partition;
        if !limits.are_set() {
            return Ok(());
        }
        let snapshot = self.newest()?;
        let mut largest = 0;
        for partition in partitions(handle, mutations)? {
            largest = largest.max(bytes_of(snapshot.as_ref(), handle, &partition).await?);
        }
        let said = |setting: &str, limit: u64| {
            let (table, megabytes) = (&handle.table.name, |bytes: u64| bytes as f64 / f64::from(1 << 20));
            let (size, limit) = (megabytes(largest), megabytes(limit));
            format!("a partition of table \"{table}\" has about {size:.1} MB: {setting} is {limit:.1} MB")
        };
        let hint = "Divide it by time or by a shard, as a further column of the partition key.";
        if let Some(limit) = fail.filter(|limit| largest > *limit) {
            return Err(Error::new(ErrorKind::LimitExceeded, said("partition_size_fail", limit)).with_hint(hint));
        }
        if let Some(limit) = warn.filter(|limit| largest > *limit) {
            self.notice(Notice::warning("01000", said("partition_size_warn", limit)).with_hint(hint));
        }
        Ok(())
    }

    /// Warns of a collection that is written with too many elements, or refuses it.
    ///
    /// # Errors
    /// 54000 beyond `collection_size_fail`.
    pub(super) fn check_collections(&mut self, mutations: &[Mutation]) -> Result<()> {
        let limits @ Limits { warn, fail } = self.guardrails.collection;
        if !limits.are_set() {
            return Ok(());
        }
        let catalog = self.catalog();
        let Some(largest) = largest(&catalog, mutations) else { return Ok(()) };
        let said = |setting: &str, limit: u64| {
            let (table, collection) = names(&catalog, largest.relation);
            let elements = largest.elements;
            format!(
                "collection \"{collection}\" of table \"{table}\" is written with {elements} elements: {setting} is {limit}"
            )
        };
        let hint = "Many elements are better rows of a table whose key has them, or a family.";
        if let Some(limit) = fail.filter(|limit| largest.elements > *limit) {
            return Err(Error::new(ErrorKind::LimitExceeded, said("collection_size_fail", limit)).with_hint(hint));
        }
        if let Some(limit) = warn.filter(|limit| largest.elements > *limit) {
            self.notice(Notice::warning("01000", said("collection_size_warn", limit)).with_hint(hint));
        }
        Ok(())
    }
}

/// The partition keys that rows are written to, or some of them where they are many.
fn partitions(handle: &TableHandle, mutations: &[Mutation]) -> Result<Vec<Vec<Value>>> {
    let length = handle.relation.partition_len;
    let mut found: Vec<Vec<Value>> = Vec::new();
    let mut add = |partition: Vec<Value>| {
        if found.len() < PARTITIONS_MAX && !found.contains(&partition) {
            found.push(partition);
        }
    };
    for mutation in mutations.iter().filter(|mutation| mutation.relation() == handle.relation.id) {
        match mutation {
            Mutation::Row(write) => add(write.key[..length.min(write.key.len())].to_vec()),
            Mutation::Batch(write) => {
                let key = || handle.relation.key.iter().zip(write.batch.columns()).take(length);
                for row in (0..write.batch.num_rows()).step_by(write.batch.num_rows().div_ceil(LOOKS).max(1)) {
                    add(key().map(|(column, array)| value_at(array, row, column.ty)).collect::<Result<_>>()?);
                }
            }
            Mutation::Load(_) | Mutation::DeleteRow(_) | Mutation::DeleteSpan(_) => {}
        }
    }
    Ok(found)
}

/// About how many bytes a partition has, with its families and collections.
async fn bytes_of(snapshot: &dyn Snapshot, handle: &TableHandle, partition: &[Value]) -> Result<u64> {
    let families = handle.table.families.iter().map(|family| family.relation);
    let mut bytes = 0;
    for id in std::iter::once(handle.relation.id).chain(families) {
        // Relations that the open transaction has made are new.
        let Some(relation) = snapshot.catalog().relation(id) else { continue };
        let scan = Scan::new(id, vec![Span::prefix(partition.to_vec())], all_columns(&relation));
        let (Known::Exact(more) | Known::Estimate(more)) = snapshot.plan(&scan, 1).await?.statistics.bytes else {
            continue;
        };
        bytes += more;
    }
    Ok(bytes)
}

fn all_columns(relation: &RelationDef) -> Vec<ScanColumn> {
    let (key, values) = (relation.key.iter().map(|key| key.id), relation.values.iter().map(|value| value.id));
    key.chain(values).map(ScanColumn::Column).collect()
}

/// The elements of one collection follow each other.
fn largest(catalog: &Catalog, mutations: &[Mutation]) -> Option<Largest> {
    let (mut largest, mut elements): (Option<Largest>, u64) = (None, 0);
    let mut last: Option<(RelationId, &[Value])> = None;
    for mutation in mutations {
        let Mutation::Row(row) = mutation else { continue };
        let Some((_, of_row)) = row.key.split_last() else { continue };
        let this = (row.relation, of_row);
        elements = if last == Some(this) { elements + 1 } else { 1 };
        last = Some(this);
        let more = elements > 1 && largest.as_ref().is_none_or(|largest| elements > largest.elements);
        if more && is_collection(catalog, row.relation) {
            largest = Some(Largest { relation: row.relation, elements });
        }
    }
    largest
}

fn is_collection(catalog: &Catalog, relation: RelationId) -> bool {
    let mut families = catalog.tables.values().flat_map(|table| &table.families);
    families.any(|family| family.relation == relation && family.kind.is_collection())
}

/// The names of the table and of the collection.
fn names(catalog: &Catalog, relation: RelationId) -> (String, String) {
    for table in catalog.tables.values() {
        if let Some(family) = table.families.iter().find(|family| family.relation == relation) {
            return (table.name.clone(), family.name.clone());
        }
    }
    Default::default()
}
