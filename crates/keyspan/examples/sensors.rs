//! Sensor data in a program: a table by series and time, parameters, a transaction, an hourly rollup, backup.
//!
//! `cargo run --package keyspan --example sensors [DIR]`; without a directory the database is in memory.

use arrow::util::pretty::pretty_format_batches;
use keyspan::{Database, Error, Session, Value};

const SETUP: &str = "
CREATE TABLE IF NOT EXISTS readings (sensor text, ts timestamp, v double, PRIMARY KEY (sensor, ts))
WITH CLUSTERING ORDER BY (ts DESC) AND default_time_to_live = 31536000;
CREATE MATERIALIZED VIEW IF NOT EXISTS hourly AS
SELECT sensor, time_bucket('1 hour', ts) AS hour, count(*) AS n, avg(v) AS mean, max(v) AS most
FROM readings GROUP BY sensor, hour;
";

#[tokio::main]
async fn main() -> keyspan::Result<()> {
    let database = match std::env::args().nth(1) {
        Some(directory) => Database::open(directory)?,
        None => Database::in_memory()?,
    };
    let mut session = database.session();
    session.execute(SETUP).await?;
    write(&mut session).await?;

    let newest = "SELECT sensor, ts, v FROM readings PER PARTITION LIMIT 1";
    print(&mut session, newest, &[]).await?;
    let hours = "SELECT hour, n, mean FROM hourly WHERE sensor = $1 ORDER BY hour DESC LIMIT 3";
    print(&mut session, hours, &[Value::Text("b".into())]).await?;

    if let Err(error) = session.execute("SELECT volts FROM readings").await {
        println!("{}: {error}", error.sqlstate());
    }
    database.close()
}

/// Three sensors, one value a minute for six hours, in one transaction.
async fn write(session: &mut Session) -> keyspan::Result<()> {
    session.execute("BEGIN").await?;
    let insert = session.parse("INSERT INTO readings VALUES ($1, now() - $2 * INTERVAL '1 minute', $3)")?;
    let insert = session.prepare(&insert[0], &[]).await?;
    for sensor in ["a", "b", "c"] {
        for minute in 0..360 {
            let value = 20.0 + f64::from(minute % 60) / 10.0;
            session.run(&insert, &[Value::Text(sensor.into()), Value::Int(minute), Value::Double(value)]).await?;
        }
    }
    session.execute("COMMIT").await?;
    Ok(())
}

async fn print(session: &mut Session, sql: &str, parameters: &[Value]) -> keyspan::Result<()> {
    let batches = session.query(sql, parameters).await?.collect().await?;
    let table = pretty_format_batches(&batches).map_err(|error| Error::internal(error.to_string()))?;
    println!("{sql}\n{table}");
    Ok(())
}
