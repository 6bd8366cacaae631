//! Files of value indexes come with an index and its segments, and go with them; damaged ones are made anew.

use std::ops::Bound;

use futures::executor::block_on;
use keyspan_model::{ColumnRange, IndexDef, Order, Scan, ScanColumn, Span, TableDef, Value};

use super::tests::{bulk, create, in_files, read, row, write};
use super::*;

/// Puts an index on the table's value column, or takes all away.
fn set_index(store: &EmbeddedStore, table: &mut TableDef, indexed: bool) {
    let mut next = (*store.catalog()).clone();
    next.version += 1;
    let id = next.new_table_id();
    table.indexes = if indexed {
        vec![IndexDef { id, name: "i".into(), columns: vec![table.columns[2].id], unique: None, similarity: None }]
    } else {
        vec![]
    };
    table.version += 1;
    next.tables.insert(table.id, Arc::new(table.clone()));
    block_on(store.change(next.version - 1, next, None)).expect("changes");
}

fn values(files: &MemoryFiles) -> Vec<String> {
    let names = files.list("seg").expect("lists");
    names.into_iter().filter(|name| name.ends_with(".values")).map(|name| format!("seg/{name}")).collect()
}

/// Rows that a look-up finds.
fn found(store: &EmbeddedStore, table: &TableDef, value: i64) -> Option<u64> {
    let value = Bound::Included(Value::BigInt(value));
    let scan = Scan {
        relation: table.rows,
        spans: vec![Span::all()],
        columns: vec![ScanColumn::Column(table.columns[1].id)],
        ranges: vec![ColumnRange::between(table.columns[2].id, value.clone(), value)],
        order: Order::Any,
        limit: None,
        per_prefix: None,
        coded: false,
    };
    let snapshot = store.snapshot(ReadAt::Acknowledged).expect("a snapshot");
    block_on(snapshot.plan(&scan, 1)).expect("plans").found.map(|found| found.keys)
}

#[test]
fn files_come_with_an_index_and_go_with_it() {
    let files = MemoryFiles::new();
    let store = in_files(&files);
    let mut table = create(&store, "t");
    write(&store, vec![bulk(&table, "p", 0..20_000, 1)]);
    write(&store, vec![row(&table, "p", 77, 2)]);
    block_on(store.compact()).expect("compacts");
    assert_eq!((values(&files).len(), found(&store, &table, 2)), (0, None));

    set_index(&store, &mut table, true);
    // Before it is built the column is read.
    assert_eq!((values(&files).len(), found(&store, &table, 2)), (0, Some(1)));
    block_on(store.compact()).expect("compacts");
    let [path]: [String; 1] = values(&files).try_into().expect("one file");
    assert_eq!((found(&store, &table, 2), found(&store, &table, 3)), (Some(1), Some(0)));
    assert_eq!(found(&store, &table, 1), None, "most rows");

    let whole = files.read(&path).expect("reads");
    files.damage(&path, |bytes| bytes.iter_mut().skip(12).step_by(50).for_each(|byte| *byte ^= 1)).expect("there");
    assert_eq!(found(&store, &table, 2), Some(1), "the column is read instead");
    block_on(store.compact()).expect("compacts");
    assert_eq!(files.read(&path).expect("reads"), whole, "made anew");
    store.close().expect("closes");

    // A crash while it was written leaves a part.
    files.damage(&path, |bytes| bytes.truncate(100)).expect("there");
    let store = in_files(&files);
    assert_eq!(found(&store, &table, 2), Some(1));
    block_on(store.compact()).expect("compacts");
    assert_eq!(files.read(&path).expect("reads"), whole);
    let rows = read(&store, &table);

    set_index(&store, &mut table, false);
    block_on(store.compact()).expect("compacts");
    assert_eq!((values(&files).len(), found(&store, &table, 2)), (0, None));
    assert_eq!(read(&store, &table), rows);

    // Merged segments have files of their own, and those that are gone have none.
    set_index(&store, &mut table, true);
    write(&store, vec![bulk(&table, "p", 5_000..25_000, 4)]);
    block_on(store.compact()).expect("compacts");
    assert_eq!(values(&files).len(), 1);
    let mut next = (*store.catalog()).clone();
    next.version += 1;
    next.tables.remove(&table.id);
    block_on(store.change(next.version - 1, next, None)).expect("drops");
    block_on(store.compact()).expect("compacts");
    assert_eq!(values(&files).len(), 0);
}
