//! Keyspan's own times: of loading, and of each query in each state and way of asking.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use keyspan::{CopyDirection, Database, Session};
use keyspan_benches::tsbs::{self, Query, Rows, Shape};

use crate::{Answer, rollup};

/// What one engine said of one query.
pub struct Measured {
    /// Median in milliseconds.
    pub ms: f64,
    /// Rows of the answer.
    pub rows: usize,
    /// All numbers of the answer, added up.
    pub sum: f64,
}

/// By name of the query.
pub type Answers = BTreeMap<String, Measured>;

/// Rows that arrive in a second in the live state.
const LIVE_RATE: usize = 20_000;

/// Loads all rows in order of arrival, durably.
pub async fn load(database: &Database, shape: Shape) -> Answer<()> {
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

/// From text to Arrow.
pub async fn texts(database: &Database, queries: &[Query], repeat: usize) -> Answer<Answers> {
    let mut session = database.session();
    let mut answers = Answers::new();
    for query in queries {
        let (mut times, mut last) = (Vec::new(), Vec::new());
        for _ in 0..repeat {
            let start = Instant::now();
            last = session.query(&query.sql, &[]).await?.collect().await?;
            times.push(start.elapsed());
        }
        answers.insert(query.name.into(), measured(&mut times, &last));
    }
    Ok(answers)
}

/// As [`texts`], but the hosts and windows are others each time, as a dashboard's are.
pub async fn others(database: &Database, shape: Shape, queries: &[Query], repeat: usize) -> Answer<Answers> {
    let mut session = database.session();
    let mut answers = Answers::new();
    for query in queries {
        let mut times = Vec::new();
        for seed in 0..repeat.max(20) as u64 {
            let all = tsbs::queries(Shape { seed: shape.seed + 1 + seed, ..shape });
            let other = all.into_iter().find(|other| other.name == query.name).ok_or("a query without a name")?;
            let start = Instant::now();
            session.query(&other.sql, &[]).await?.collect().await?;
            times.push(start.elapsed());
        }
        answers.insert(query.name.into(), measured(&mut times, &[]));
    }
    Ok(answers)
}

/// From text to a physical plan: EXPLAIN, which does no more than print it, in a session that keeps no plans yet.
pub async fn plannings(database: &Database, queries: &[Query], repeat: usize) -> Answer<Answers> {
    let mut answers = Answers::new();
    for query in queries {
        let (mut times, sql) = (Vec::new(), format!("EXPLAIN {}", query.sql));
        for _ in 0..repeat.max(20) {
            let mut session = database.session();
            let start = Instant::now();
            session.query(&sql, &[]).await?.collect().await?;
            times.push(start.elapsed());
        }
        answers.insert(query.name.into(), measured(&mut times, &[]));
    }
    Ok(answers)
}

/// Of a statement that was prepared before.
pub async fn prepared(database: &Database, queries: &[Query], repeat: usize) -> Answer<Answers> {
    let mut session = database.session();
    let mut answers = Answers::new();
    for query in queries {
        let parsed = session.parse(&query.sql)?.remove(0);
        let prepared = session.prepare(&parsed, &[]).await?;
        let (mut times, mut last) = (Vec::new(), Vec::new());
        for _ in 0..repeat {
            let start = Instant::now();
            let rows = session.run(&prepared, &[]).await?.rows.ok_or("a query without rows")?;
            last = rows.collect().await?;
            times.push(start.elapsed());
        }
        answers.insert(query.name.into(), measured(&mut times, &last));
    }
    Ok(answers)
}

/// As [`texts`], while rows arrive; on a directory that is not needed any more.
pub async fn live(data: &Path, shape: Shape, queries: &[Query], repeat: usize) -> Answer<Answers> {
    let database = Database::open(data)?;
    let (end, arrived) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let writer = tokio::spawn(write(database.session(), shape, end.clone(), arrived.clone()));
    texts(&database, queries, 1).await?;
    let (before, start) = (arrived.load(Ordering::Relaxed), Instant::now());
    let answers = texts(&database, queries, repeat).await?;
    let rate = (arrived.load(Ordering::Relaxed) - before) as f64 / start.elapsed().as_secs_f64();
    rollup::create(&database).await?;
    rollup::measure(&database, "live", repeat).await?;
    end.store(true, Ordering::Relaxed);
    writer.await?.map_err(|error| format!("the writer failed: {error}"))?;
    println!("live: {rate:.0} rows/s arrived meanwhile; {}", memory());
    database.close()?;
    Ok(answers)
}

async fn write(
    mut session: Session,
    shape: Shape,
    end: Arc<AtomicBool>,
    arrived: Arc<AtomicUsize>,
) -> Result<(), String> {
    let batch = LIVE_RATE / 10;
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    for rows in Rows::arriving(shape, batch) {
        tick.tick().await;
        if end.load(Ordering::Relaxed) {
            break;
        }
        copy(&mut session, vec![rows]).await.map_err(|error| error.to_string())?;
        arrived.fetch_add(batch, Ordering::Relaxed);
    }
    Ok(())
}

fn measured(times: &mut [Duration], answer: &[RecordBatch]) -> Measured {
    let rows = answer.iter().map(RecordBatch::num_rows).sum();
    Measured { ms: percentile(times, 50), rows, sum: answer.iter().map(sum).sum() }
}

fn sum(batch: &RecordBatch) -> f64 {
    let sums = batch.columns().iter().map(|column| match column.data_type() {
        DataType::Float64 => column.as_primitive::<Float64Type>().iter().flatten().sum::<f64>(),
        DataType::Int64 => column.as_primitive::<Int64Type>().iter().flatten().map(|n| n as f64).sum(),
        _ => 0.0,
    });
    sums.sum()
}

/// The given percentile in milliseconds.
pub fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort();
    times[(times.len() - 1) * percent / 100].as_secs_f64() * 1000.0
}

/// Resident and peak memory of this process.
pub fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = |name: &str| {
        let found = status.lines().find(|line| line.starts_with(name)).and_then(|line| line.split_whitespace().nth(1));
        found.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() / 1024
    };
    format!("resident {} MiB, peak {} MiB", line("VmRSS:"), line("VmHWM:"))
}
