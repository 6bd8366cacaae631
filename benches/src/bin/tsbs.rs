//! TSBS cpu-only on Keyspan and DuckDB: the same rows and queries in one go, medians and ratios.
//!
//! `cargo run --release -p keyspan-benches --bin tsbs -- --hosts 1000 --hours 12` (DuckDB through `--python`, an
//! interpreter that has `duckdb` and `pyarrow`; left out by name if it has not).

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use clap::Parser;
use keyspan::{CopyDirection, Database, Session};
use keyspan_benches::tsbs::{self, Query, Random, Rows, Shape};
use parquet::arrow::ArrowWriter;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Answer<T> = Result<T, Box<dyn Error>>;

/// TSBS cpu-only on Keyspan and DuckDB.
#[derive(Parser)]
struct Arguments {
    /// Hosts, each a series.
    #[arg(long, default_value_t = 1000)]
    hosts: usize,
    /// Hours of data, a row every ten seconds.
    #[arg(long, default_value_t = 12)]
    hours: usize,
    /// Seed of the rows and of the queries' windows.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs of each query; the median counts.
    #[arg(long, default_value_t = 7)]
    repeat: usize,
    /// Keyspan's directory; a temporary one if not given. Loaded only if the table is not there.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Interpreter with `duckdb` and `pyarrow`.
    #[arg(long, default_value = "target/python/bin/python")]
    python: PathBuf,
    /// Queries whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
}

/// What one engine said of one query.
struct Measured {
    ms: f64,
    rows: usize,
    sum: f64,
}

#[tokio::main]
async fn main() -> Answer<()> {
    let arguments = Arguments::parse();
    let shape = Shape { hosts: arguments.hosts, hours: arguments.hours, seed: arguments.seed };
    let temporary = tempfile::tempdir()?;
    let data = arguments.data.clone().unwrap_or_else(|| temporary.path().join("data"));
    let database = Database::open(&data)?;
    if database.catalog().table("public", "cpu").is_none() {
        load(&database, shape).await?;
    }
    println!("on disk: {:.2} B/row, {}", database.stats().segment_bytes as f64 / shape.rows() as f64, memory());
    let queries: Vec<Query> = tsbs::queries(shape).into_iter().filter(|q| q.name.contains(&arguments.only)).collect();
    let duck = duck(&arguments, shape, &queries, temporary.path());
    compare(&database, &queries, arguments.repeat, &duck).await?;
    basics(&database, shape).await?;
    println!("{}", memory());
    database.close()?;
    Ok(())
}

/// Loads all rows in order of arrival, durably, then compacts.
async fn load(database: &Database, shape: Shape) -> Answer<()> {
    let mut session = database.session();
    session.execute(&tsbs::create_table()).await?;
    let mut making = Duration::ZERO;
    let start = Instant::now();
    let mut rows = Rows::new(shape, 20_000);
    loop {
        let made = Instant::now();
        let batches: Vec<RecordBatch> = rows.by_ref().take(25).collect();
        making += made.elapsed();
        if batches.is_empty() {
            break;
        }
        copy(&mut session, batches).await?;
    }
    let loaded = start.elapsed() - making;
    println!("load: {} rows, {:.0} krows/s durable", shape.rows(), shape.rows() as f64 / loaded.as_secs_f64() / 1000.0);
    let start = Instant::now();
    database.compact().await?;
    let all = loaded + start.elapsed();
    println!("      {:.0} krows/s with all compaction done", shape.rows() as f64 / all.as_secs_f64() / 1000.0);
    Ok(())
}

async fn copy(session: &mut Session, batches: Vec<RecordBatch>) -> Answer<()> {
    let columns: Vec<String> = tsbs::schema().fields().iter().map(|field| field.name().clone()).collect();
    let outcome = session.execute(&format!("COPY cpu ({}) FROM STDIN", columns.join(", "))).await?;
    let Some(CopyDirection::In(copy)) = outcome.into_iter().next().and_then(|outcome| outcome.copy) else {
        return Err("COPY did not ask for data".into());
    };
    let mut sink = session.copy_in(&copy)?;
    for batch in batches {
        sink.push(session, &batch).await?;
    }
    sink.finish(session).await?;
    Ok(())
}

/// The same queries in DuckDB, or nothing if it is not there.
fn duck(arguments: &Arguments, shape: Shape, queries: &[Query], folder: &Path) -> BTreeMap<String, Measured> {
    match try_duck(arguments, shape, queries, folder) {
        Ok(answers) => answers,
        Err(error) => {
            println!("DuckDB is left out: {error}");
            BTreeMap::new()
        }
    }
}

fn try_duck(
    arguments: &Arguments,
    shape: Shape,
    queries: &[Query],
    folder: &Path,
) -> Answer<BTreeMap<String, Measured>> {
    let (rows, list) = (folder.join("rows.parquet"), folder.join("queries.json"));
    let mut writer = ArrowWriter::try_new(File::create(&rows)?, tsbs::schema(), None)?;
    for batch in Rows::new(shape, 100_000) {
        writer.write(&batch)?;
    }
    writer.close()?;
    let pairs: Vec<(&str, &str)> = queries.iter().map(|query| (query.name, query.sql.as_str())).collect();
    serde_json::to_writer(File::create(&list)?, &pairs)?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("duck.py");
    let output =
        Command::new(&arguments.python).arg(script).args([&rows, &list]).arg(arguments.repeat.to_string()).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    println!(
        "DuckDB {}: loaded from Parquet in {:.1} s",
        answer["version"],
        answer["load_s"].as_f64().unwrap_or_default()
    );
    let queries = answer["queries"].as_object().ok_or("no answers")?;
    let number = |value: &serde_json::Value, name: &str| value[name].as_f64().unwrap_or(f64::NAN);
    let measured =
        |value| Measured { ms: number(value, "ms"), rows: number(value, "rows") as usize, sum: number(value, "sum") };
    Ok(queries.iter().map(|(name, value)| (name.clone(), measured(value))).collect())
}

async fn compare(
    database: &Database,
    queries: &[Query],
    repeat: usize,
    duck: &BTreeMap<String, Measured>,
) -> Answer<()> {
    let (mut session, mut logs) = (database.session(), Vec::new());
    println!("{:24} {:>10} {:>10} {:>8} {:>9}", "query", "keyspan ms", "duckdb ms", "ratio", "rows");
    for query in queries {
        let mine = run(&mut session, &query.sql, repeat).await.map_err(|error| format!("{}: {error}", query.name))?;
        let Some(peer) = duck.get(query.name) else {
            println!("{:24} {:>10.2} {:>10} {:>8} {:>9}", query.name, mine.ms, "", "", mine.rows);
            continue;
        };
        let same = mine.rows == peer.rows && (mine.sum - peer.sum).abs() <= 1e-6 * peer.sum.abs().max(1.0);
        let ratio = mine.ms / peer.ms;
        logs.push(ratio.ln());
        let note = if same { "" } else { "  ANSWERS DIFFER" };
        println!("{:24} {:>10.2} {:>10.2} {:>8.2} {:>9}{note}", query.name, mine.ms, peer.ms, ratio, mine.rows);
    }
    if !logs.is_empty() {
        println!("{:24} {:>30.2}", "geometric mean", (logs.iter().sum::<f64>() / logs.len() as f64).exp());
    }
    Ok(())
}

async fn run(session: &mut Session, sql: &str, repeat: usize) -> Answer<Measured> {
    let (mut times, mut last) = (Vec::new(), Vec::new());
    for _ in 0..repeat {
        let start = Instant::now();
        last = session.query(sql, &[]).await?.collect().await?;
        times.push(start.elapsed());
    }
    let rows = last.iter().map(RecordBatch::num_rows).sum();
    Ok(Measured { ms: percentile(&mut times, 50), rows, sum: last.iter().map(sum).sum() })
}

fn sum(batch: &RecordBatch) -> f64 {
    let sums = batch.columns().iter().map(|column| match column.data_type() {
        DataType::Float64 => column.as_primitive::<Float64Type>().iter().flatten().sum::<f64>(),
        DataType::Int64 => column.as_primitive::<Int64Type>().iter().flatten().map(|n| n as f64).sum(),
        _ => 0.0,
    });
    sums.sum()
}

/// Whole keys, spans, and durable single rows from one session and from sixteen.
async fn basics(database: &Database, shape: Shape) -> Answer<()> {
    let (mut session, mut random) = (database.session(), Random::new(shape.seed));
    let mut times = Vec::new();
    for _ in 0..2_000 {
        let ts = tsbs::START + random.below(shape.hours * 360) as i64 * tsbs::STEP;
        let host = random.below(shape.hosts);
        let sql = format!("SELECT * FROM cpu WHERE hostname = 'host_{host}' AND ts = {}", plain(ts));
        let start = Instant::now();
        let rows: usize = session.query(&sql, &[]).await?.collect().await?.iter().map(RecordBatch::num_rows).sum();
        times.push(start.elapsed());
        assert_eq!(rows, 1, "{sql}");
    }
    let (p50, p99) = (percentile(&mut times, 50), percentile(&mut times, 99));
    println!("whole key at random: p50 {p50:.3} ms, p99 {p99:.3} ms (first touches included)");
    let mut times = Vec::new();
    for _ in 0..50 {
        let host = random.below(shape.hosts);
        let end = tsbs::START + 2_000 * tsbs::STEP;
        let sql = format!("SELECT * FROM cpu WHERE hostname = 'host_{host}' AND ts < {}", plain(end));
        let start = Instant::now();
        session.query(&sql, &[]).await?.collect().await?;
        times.push(start.elapsed());
    }
    println!("span of 2,000 rows: p50 {:.2} ms", percentile(&mut times, 50));
    session.execute("CREATE TABLE IF NOT EXISTS single (k bigint PRIMARY KEY, v text)").await?;
    let one = inserts(database, 1).await?;
    let many = inserts(database, 16).await?;
    println!("durable single-row inserts: {one:.0}/s from one session, {many:.0}/s from sixteen ({:.1} ×)", many / one);
    Ok(())
}

async fn inserts(database: &Database, sessions: usize) -> Answer<f64> {
    let (start, each) = (Instant::now(), 400);
    let mut tasks = Vec::new();
    for n in 0..sessions {
        let mut session = database.session();
        tasks.push(tokio::spawn(async move {
            for i in 0..each {
                let key = n * each + i;
                session.execute(&format!("INSERT INTO single VALUES ({key}, 'value {key}')")).await?;
            }
            Ok::<(), keyspan::Error>(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok((sessions * each) as f64 / start.elapsed().as_secs_f64())
}

/// An instant as text without a cast, as people write it.
fn plain(micros: i64) -> String {
    tsbs::instant(micros).trim_end_matches("::timestamptz").to_string()
}

/// The given percentile in milliseconds.
fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort();
    times[(times.len() - 1) * percent / 100].as_secs_f64() * 1000.0
}

/// Resident and peak memory of this process.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = |name: &str| {
        let found = status.lines().find(|line| line.starts_with(name)).and_then(|line| line.split_whitespace().nth(1));
        found.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() / 1024
    };
    format!("resident {} MiB, peak {} MiB", line("VmRSS:"), line("VmHWM:"))
}
