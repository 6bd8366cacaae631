//! A materialized view of the whole table: what making it costs, and what it saves, settled and while rows arrive.

use std::time::{Duration, Instant};

use keyspan::{Database, Session};

use crate::Answer;
use crate::mine::percentile;

/// Hourly means of all ten columns: TSBS' double-groupby-all, without its bounds.
fn query() -> String {
    let columns = ["user", "system", "idle", "nice", "iowait", "irq", "softirq", "steal", "guest", "guest_nice"];
    let means: Vec<String> = columns.iter().map(|name| format!("avg(usage_{name}) AS {name}")).collect();
    format!("SELECT hostname, time_bucket('1 hour', ts) AS hour, {} FROM cpu GROUP BY hostname, hour", means.join(", "))
}

/// Makes the view.
pub async fn create(database: &Database) -> Answer<()> {
    let start = Instant::now();
    let view = format!("CREATE MATERIALIZED VIEW cpu_hourly AS {}", query());
    database.session().execute(&view).await?;
    println!("materialized view: made in {:.2} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Between two times of asking: in the live state rows have arrived since.
const PAUSE: Duration = Duration::from_millis(250);

/// Medians of asking the query, the view, the view for one host, and of refreshing.
pub async fn measure(database: &Database, state: &str, repeat: usize) -> Answer<()> {
    let mut session = database.session();
    let asked = median(&mut session, &query(), repeat).await?;
    let read = median(&mut session, "SELECT * FROM cpu_hourly", repeat).await?;
    let one = median(&mut session, "SELECT * FROM cpu_hourly WHERE hostname = 'host_7'", repeat).await?;
    let refreshed = median(&mut session, "REFRESH MATERIALIZED VIEW cpu_hourly", repeat).await?;
    println!(
        "materialized view, {state}: query {asked:.1} ms, view {read:.1}, one host {one:.1}, refresh {refreshed:.1}"
    );
    Ok(())
}

async fn median(session: &mut Session, sql: &str, repeat: usize) -> Answer<f64> {
    let mut times = Vec::new();
    for _ in 0..repeat {
        tokio::time::sleep(PAUSE).await;
        let start = Instant::now();
        session.query(sql, &[]).await?.collect().await?;
        times.push(start.elapsed());
    }
    Ok(percentile(&mut times, 50))
}
