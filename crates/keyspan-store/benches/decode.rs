//! What it costs to decode a value that nobody has read, and to read it again: one column at a time, of a segment in
//! memory, on one thread.
//!
//! ```sh
//! cargo bench --package keyspan-store --bench decode -- [part of a name]
//! ```
//!
//! Prints for `fast` and `small`: bits of a value on disk, nanoseconds of the first read and of a later one (medians),
//! bytes of a value in the cache. Rows are those of 40 hosts, one after another, a row every ten seconds for two days.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{
    Array, ArrayRef, Float64Array, Int32Array, Int64Array, StringViewArray, TimestampMicrosecondArray, new_null_array,
};
use keyspan_model::{
    ColumnId, ColumnType, Encoding, GcRule, KeyColumn, KeyEncoder, RelationDef, RelationId, RelationKind, Result,
    Retention, SegmentId, TableId, ValueColumn,
};
use keyspan_seam::ScanCounters;
use keyspan_store::files::{Files, MemoryFiles};
use keyspan_store::run::{Bits, CellColumn, Int64s, RowColumns, RunBatch, SortedRun, Wanted};
use keyspan_store::segment::{BlockCache, SEGMENT_DIRECTORY, Segment, SegmentRecord, SegmentWriter, SystemPlan};

const HOSTS: usize = 40;
const STEPS: usize = 17_280;
const ROWS: usize = HOSTS * STEPS;
const RUNS: usize = 15;
const VALUE: ColumnId = ColumnId(3);

fn main() -> Result<()> {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    println!("{:28} {:8} {:>6} {:>9} {:>9} {:>7}", "", "", "bits", "first ns", "later ns", "bytes");
    for (name, ty, array) in columns().into_iter().filter(|(name, ..)| name.contains(&wanted)) {
        for encoding in [Encoding::Fast, Encoding::Small] {
            let [bits, first, later, bytes] = measured(ty, &array, encoding)?;
            let encoding = format!("{encoding:?}").to_lowercase();
            println!("{name:28} {encoding:8} {bits:6.2} {first:9.2} {later:9.2} {bytes:7.2}");
        }
    }
    Ok(())
}

/// A name, a type, and values of all rows.
fn columns() -> Vec<(&'static str, ColumnType, ArrayRef)> {
    let mut random = fastrand::Rng::with_seed(7);
    // A gauge that goes up and down with the time of the day, a little shaken.
    let mut sine = |digits: Option<i32>| -> ArrayRef {
        let value = |row: usize| {
            let (host, step) = ((row / STEPS) as f64, (row % STEPS) as f64);
            let exact = 50.0 + 49.9 * (step * 0.002 + host * 3.7).sin() + random.f64() * 0.2;
            digits.map_or(exact, |digits| (exact * 10f64.powi(digits)).round() / 10f64.powi(digits))
        };
        Arc::new(Float64Array::from_iter_values((0..ROWS).map(value)))
    };
    let sines = [Some(0), Some(1), Some(2), Some(4), None].map(&mut sine);
    let mut random = fastrand::Rng::with_seed(8);
    let mut level = 50i64;
    let walk: Vec<i64> = std::iter::repeat_with(|| {
        level = (level + random.i64(-1..=1)).clamp(0, 100);
        level
    })
    .take(ROWS)
    .collect();
    let mut sum = 0;
    let counter = std::iter::repeat_with(|| {
        sum += random.i64(0..2000);
        sum
    });
    let counter: ArrayRef = Arc::new(Int64Array::from_iter_values(counter.take(ROWS)));
    let time = |row: usize| (row % STEPS) as i64 * 10_000_000;
    let times = TimestampMicrosecondArray::from_iter_values((0..ROWS).map(time)).with_timezone("UTC");
    let rack: StringViewArray = (0..ROWS).map(|row| Some(format!("rack-{}", row / STEPS % 97))).collect();
    let product: StringViewArray =
        std::iter::repeat_with(|| Some(format!("product number {}", random.u32(0..1000)))).take(ROWS).collect();
    let [whole, one, two, four, full] = sines;
    let double = |values: &[i64]| Arc::new(Float64Array::from_iter_values(values.iter().map(|value| *value as f64)));
    vec![
        ("sine, no digits", ColumnType::Double, whole),
        ("sine, 1 digit", ColumnType::Double, one),
        ("sine, 2 digits", ColumnType::Double, two),
        ("sine, 4 digits", ColumnType::Double, four),
        ("sine, all digits", ColumnType::Double, full),
        ("walk from 0 to 100, double", ColumnType::Double, double(&walk)),
        ("walk from 0 to 100, bigint", ColumnType::BigInt, Arc::new(Int64Array::from(walk))),
        ("counter", ColumnType::BigInt, counter),
        ("times", ColumnType::Timestamp, Arc::new(times)),
        ("a text of each host", ColumnType::Text, Arc::new(rack)),
        ("1,000 texts", ColumnType::Text, Arc::new(product)),
    ]
}

/// Bits on disk, nanoseconds of the first read and of a later one, bytes in the cache: of one value.
fn measured(ty: ColumnType, values: &ArrayRef, encoding: Encoding) -> Result<[f64; 4]> {
    let relation = Arc::new(relation(ty, encoding));
    let files: Arc<dyn Files> = Arc::new(MemoryFiles::default());
    files.create_dir(SEGMENT_DIRECTORY)?;
    let without = write(&files, 1, &relation, &new_null_array(values.data_type(), ROWS))?;
    let record = write(&files, 2, &relation, values)?;
    let (mut first, mut later, mut bytes) = (Vec::new(), Vec::new(), 0);
    for _ in 0..RUNS {
        let cache = BlockCache::new(1 << 30);
        let segment = Segment::new(Arc::clone(&files), Arc::clone(&cache), &relation, record.clone());
        first.push(read(&segment)?);
        later.push(read(&segment)?);
        bytes = cache.bytes();
    }
    let of_a_value = |all: f64| all / ROWS as f64;
    let on_disk = (record.file_bytes - without.file_bytes) as f64 * 8.0;
    Ok([on_disk, median(first), median(later), bytes as f64].map(of_a_value))
}

fn relation(ty: ColumnType, encoding: Encoding) -> RelationDef {
    let key = |id, name: &str, ty| KeyColumn { id: ColumnId(id), name: name.into(), ty, descending: false };
    RelationDef {
        id: RelationId(1),
        table: TableId(1),
        kind: RelationKind::Rows,
        schema_version: 1,
        key: vec![key(1, "host", ColumnType::Int), key(2, "ts", ColumnType::Timestamp)],
        partition_len: 1,
        values: vec![ValueColumn { id: VALUE, name: "value".into(), ty }],
        window: Some(1),
        gc: GcRule::default(),
        retention: Retention::default(),
        encoding,
        gc_grace: 864_000,
        indexed: Vec::new(),
    }
}

fn write(files: &Arc<dyn Files>, id: u64, relation: &Arc<RelationDef>, values: &ArrayRef) -> Result<SegmentRecord> {
    let hosts = Int32Array::from_iter_values((0..ROWS).map(|row| (row / STEPS) as i32));
    let times = (0..ROWS).map(|row| (row % STEPS) as i64 * 10_000_000);
    let times = TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC");
    let keys: Vec<ArrayRef> = vec![Arc::new(hosts), Arc::new(times)];
    let batch = RunBatch {
        rows: ROWS,
        encoded: Some(KeyEncoder::new(&relation.key).encode_batch(&keys)?),
        keys: keys.into_iter().map(Some).collect(),
        row: RowColumns { marker: Bits::All, ts: Int64s::Constant(1), ..RowColumns::default() },
        cells: vec![CellColumn { values: Some(Arc::clone(values)), ..CellColumn::default() }],
    };
    let mut plan = SystemPlan::default();
    plan.observe(relation, &batch);
    let mut writer = SegmentWriter::new(Arc::clone(files), SegmentId(id), Arc::clone(relation), plan, (1, 1))?;
    writer.write(batch)?;
    Ok(writer.finish()?.expect("there are rows"))
}

/// Nanoseconds for all rows, a block after another, as a scan reads them.
fn read(segment: &Segment) -> Result<f64> {
    let wanted = Wanted { keys: vec![false; 2], values: vec![VALUE], coded: true, ..Wanted::default() };
    let counters = ScanCounters::default();
    let begin = Instant::now();
    let mut row = 0;
    while row < ROWS {
        let block = segment.block(row, &wanted);
        row = block.end;
        std::hint::black_box(segment.read(block, &wanted, &counters)?);
    }
    Ok(begin.elapsed().as_nanos() as f64)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
