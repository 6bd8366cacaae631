//! The memtable and bulk writes: what of them is seen, and how often a key stands in a run.

use super::*;

fn put(memtable: &Memtable, relation: &RelationDef, time: i64, seq: u64, number: i64) {
    let key = key("a", time);
    let entry = write(key.clone(), vec![(NUMBER, CellWrite::Value(Value::BigInt(number)))], true, 0);
    let bytes = KeyEncoder::new(&relation.key).encode(&key).expect("a key");
    memtable.insert(bytes, seq, RowEntry::written(&entry, seq as i64, 0)).expect("inserted");
}

fn numbers(source: &Arc<ScanSource>) -> Vec<Value> {
    read_all(source, &scan_of(vec![Span::all()], Order::Forward)).into_iter().map(|mut row| row.remove(2)).collect()
}

#[test]
fn a_view_shows_what_was_written_up_to_its_seq() {
    let relation = relation();
    let memtable = Arc::new(Memtable::new(&relation));
    put(&memtable, &relation, 1, 1, 10);
    put(&memtable, &relation, 2, 2, 20);
    put(&memtable, &relation, 1, 3, 11);
    let at = |seq: u64| {
        let view = Run::Memtable(memtable.view(seq, Arc::new(relation.clone())));
        numbers(&source(relation.clone(), vec![view], vec![], 0))
    };
    let expected = |numbers: &[i64]| numbers.iter().map(|number| Value::BigInt(*number)).collect::<Vec<_>>();
    assert_eq!((at(0), at(1), at(2), at(9)), (vec![], expected(&[10]), expected(&[20, 10]), expected(&[20, 11])));
    assert_eq!((memtable.seqs(), memtable.entries()), (Some((1, 3)), 3));
    let touched = KeyEncoder::new(&relation.key).span_bytes(&Span::prefix(key("a", 2))).expect("a span");
    assert_eq!(memtable.last_touch(&touched.0, touched.1.as_deref()), Some(2));
    let run = memtable.freeze(&Arc::new(relation.clone())).expect("frozen");
    assert_eq!((run.meta().all.rows, run.meta().all.ts, run.meta().seq), (2, Some((2, 3)), (1, 3)));
}

#[test]
fn of_two_rows_with_one_key_the_later_wins() {
    let relation = relation();
    let row = |time: i64, number: Value, text: Value| (key("a", time), number, text);
    let rows = [
        row(1, Value::BigInt(1), Value::Text("first".into())),
        row(5, Value::BigInt(5), Value::Null),
        row(1, Value::BigInt(2), Value::Null),
    ];
    let texts = |null_deletes: bool| {
        let write = bulk(&relation, &rows, 0, null_deletes);
        let run = MemoryRun::from_write(&relation, &write, 1, 0, 1).expect("a run");
        let source = source(relation.clone(), vec![Run::Memory(Arc::new(run))], vec![], 0);
        assert_eq!(numbers(&source), [Value::BigInt(5), Value::BigInt(2)]);
        let mut rows = read_all(&source, &scan_of(vec![Span::prefix(key("a", 1))], Order::Forward));
        rows.remove(0).remove(3)
    };
    assert_eq!(texts(true), Value::Null, "the later row deletes the text");
    assert_eq!(texts(false), Value::Text("first".into()), "the later row leaves the text alone");
}

#[test]
fn a_plain_bulk_insert_has_no_system_arrays() {
    let relation = relation();
    let rows: Vec<_> = (0..10).map(|time| (key("a", time), Value::BigInt(time), Value::Null)).collect();
    let run = MemoryRun::from_write(&relation, &bulk(&relation, &rows, 60, false), 7, 0, 1).expect("a run");
    let batch = run.batch();
    assert_eq!(batch.row.ts, crate::run::Int64s::Constant(7));
    assert_eq!(batch.row.expires, crate::run::Int64s::Constant(60_000_000));
    assert!(batch.cells.iter().all(|cells| cells.ts.is_null() && cells.tombstones == crate::run::Bits::None));
    assert!(batch.cells[1].values.is_none(), "a column of nulls only is absent");
}

#[test]
fn a_bulk_write_without_its_key_columns_first_is_refused() {
    let relation = relation();
    let mut write = bulk(&relation, &[(key("a", 1), Value::BigInt(1), Value::Null)], 0, false);
    write.columns.swap(0, 2);
    assert!(MemoryRun::from_write(&relation, &write, 1, 0, 1).is_err());
}
