//! The views of PostgreSQL's statistics: what is counted here, by name. A figure that nobody counts is null; those of
//! workers that there are not are 0.

use keyspan_model::TableDef;

use super::relations::keyed;
use super::row::Row;
use super::source::{DATABASE, Source, index_oid, key_name, table_oid};

/// The rows of a view of statistics.
pub fn rows(name: &str, source: &Source) -> Option<Vec<Row>> {
    Some(match name {
        "pg_stat_database" | "pg_stat_database_conflicts" => vec![database(source)],
        "pg_stat_all_tables" | "pg_stat_user_tables" | "pg_statio_all_tables" | "pg_statio_user_tables" => {
            tables(source)
        }
        "pg_stat_all_indexes" | "pg_stat_user_indexes" | "pg_statio_all_indexes" | "pg_statio_user_indexes" => {
            indexes(source)
        }
        "pg_stat_archiver" => vec![nothing(&["archived_count", "failed_count"])],
        "pg_stat_bgwriter" => vec![nothing(&[
            "checkpoints_timed",
            "checkpoints_req",
            "buffers_checkpoint",
            "buffers_clean",
            "maxwritten_clean",
            "buffers_backend",
            "buffers_backend_fsync",
            "buffers_alloc",
        ])],
        _ => return None,
    })
}

fn database(source: &Source) -> Row {
    let sessions = source.info.peers.iter().map(|peers| peers.sessions().len()).sum::<usize>();
    let row = Row::new().with("datid", DATABASE).with("datname", source.database());
    row.with("numbackends", sessions)
}

fn tables(source: &Source) -> Vec<Row> {
    let row = |table: &TableDef| {
        let row = Row::new().with("relid", table_oid(table.id)).with("schemaname", &table.keyspace);
        row.with("relname", &table.name)
    };
    source.catalog.tables.values().map(|table| row(table)).collect()
}

fn indexes(source: &Source) -> Vec<Row> {
    let row = |table: &TableDef, oid: i64, name: &str| {
        let row = Row::new().with("relid", table_oid(table.id)).with("indexrelid", oid);
        row.with("schemaname", &table.keyspace).with("relname", &table.name).with("indexrelname", name)
    };
    let keys = keyed(source).map(|table| row(table, index_oid(table.id), &key_name(table)));
    keys.chain(source.indexes().map(|(table, index)| row(table, table_oid(index.id), &index.name))).collect()
}

fn nothing(counts: &[&'static str]) -> Row {
    counts.iter().fold(Row::new(), |row, count| row.with(count, 0_i64))
}
