//! `collection_size_warn` and `collection_size_fail`: Cassandra's guardrails on how many elements a statement writes into
//! one collection.

use keyspan_model::{Catalog, Error, ErrorKind, Mutation, RelationId, Result, Value};

use super::ClientContext;
use crate::outcome::Notice;

/// The collection that gets the most elements.
struct Largest {
    relation: RelationId,
    elements: u64,
}

impl ClientContext {
    /// Warns of a collection that is written with too many elements, or refuses it.
    ///
    /// # Errors
    /// 54000 beyond `collection_size_fail`.
    pub(super) fn check_collections(&mut self, mutations: &[Mutation]) -> Result<()> {
        let limit = |name: &str| self.settings.get(name)?.parse().ok().filter(|limit: &u64| *limit > 0);
        let (warn, fail) = (limit("collection_size_warn"), limit("collection_size_fail"));
        if warn.is_none() && fail.is_none() {
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
