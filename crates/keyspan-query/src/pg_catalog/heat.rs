//! `keyspan_heat`: which ranges of keys were used in each minute.
//!
//! The rule: keys are data, so that of a table only those who may SELECT all of it see them.

use keyspan_model::{Object, RelationKind, Right, TableDef};

use super::row::{Cell, Row};
use super::source::Source;
use crate::context::ShownHeat;

/// The rows.
pub fn rows(source: &Source) -> Vec<Row> {
    let heat = source.info.peers.iter().flat_map(|peers| peers.heat(&source.catalog));
    heat.filter_map(|heat| row(source, &heat)).collect()
}

fn row(source: &Source, heat: &ShownHeat) -> Option<Row> {
    let catalog = &source.catalog;
    if !catalog.allows(source.info.principal, &Object::Relation(heat.table), Right::Select) {
        return None;
    }
    let table: &TableDef = catalog.tables.values().find(|table| table.id == heat.table)?;
    let relation = table.relations().into_iter().find(|relation| relation.id == heat.relation)?;
    let family = match relation.kind {
        RelationKind::Index | RelationKind::View => return None,
        RelationKind::Rows | RelationKind::Statics => None,
        RelationKind::Family | RelationKind::Collection => {
            Some(table.families.iter().find(|family| family.relation == heat.relation)?.name.clone())
        }
    };
    let row = Row::new()
        .with("minute", Cell::Time(heat.minute))
        .with("keyspace", &table.keyspace)
        .with("table_name", &table.name)
        .with("family", family)
        .with("first_key", heat.first.clone())
        .with("last_key", heat.last.clone());
    Some(row.with("reads", heat.reads).with("writes", heat.writes))
}
