//! How far indexes are built, and how large they are: what only the store knows.

use keyspan_model::{ColumnId, IndexDef, TableDef};
use keyspan_seam::{IndexState, Snapshot};

use super::row::Row;
use super::source::{DATABASE, Source, table_oid};

/// The state of an index, all of its columns together; `None` where nothing is built.
pub fn state(snapshot: &dyn Snapshot, table: &TableDef, index: &IndexDef) -> Option<IndexState> {
    let indexed = table.rows_relation().indexed;
    let relation = |column: &&ColumnId| match table.family_of_column(**column) {
        Some(family) => Some(family.relation),
        None => indexed.contains(column).then_some(table.rows),
    };
    let columns = index.columns.iter().filter_map(|column| Some((*column, relation(&column)?)));
    let mut all = IndexState::default();
    for (column, relation) in columns {
        let own = snapshot.index_state(relation, column)?;
        all.built += own.built;
        all.segments += own.segments;
        all.bytes += own.bytes;
    }
    Some(all)
}

/// `pg_stat_progress_create_index`: a row for each index that is not built yet. A block is a segment's column.
pub fn progress(source: &Source, snapshot: &dyn Snapshot) -> Vec<Row> {
    let row = |(table, index): (&TableDef, &IndexDef)| {
        let state = state(snapshot, table, index).filter(|state| state.built < state.segments)?;
        let row = Row::new()
            .with("pid", 0_i64)
            .with("datid", DATABASE)
            .with("datname", source.database())
            .with("relid", table_oid(table.id))
            .with("index_relid", table_oid(index.id));
        let row = row.with("command", "CREATE INDEX").with("phase", "building index");
        Some(row.with("blocks_total", state.segments as i64).with("blocks_done", state.built as i64))
    };
    source.indexes().filter_map(row).collect()
}
