//! Whole keys, spans, and durable single rows from one session and from sixteen.

use std::time::Instant;

use arrow::array::RecordBatch;
use keyspan::Database;
use keyspan_benches::tsbs::{self, Random, Shape};

use crate::Answer;
use crate::mine::percentile;

/// Measures and prints them.
pub async fn measure(database: &Database, shape: Shape) -> Answer<()> {
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
