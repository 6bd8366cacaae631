//! Arrow in and Arrow out: a million rows are loaded as record batches, in one step, and summed up as they stream.
//!
//! `cargo run --package keyspan --example arrow`

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Float64Type;
use futures::TryStreamExt;
use keyspan::{Database, Error, ObjectName, Session};

const BATCHES: i64 = 100;
const ROWS: i64 = 10_000;

#[tokio::main]
async fn main() -> keyspan::Result<()> {
    let database = Database::in_memory()?;
    let mut session = database.session();
    session.execute("CREATE TABLE ticks (symbol text, n bigint, price double, PRIMARY KEY (symbol, n))").await?;
    load(&mut session).await?;

    let mut total = 0.0;
    let mut rows = session.query("SELECT price FROM ticks WHERE symbol = 'ABC'", &[]).await?;
    while let Some(batch) = rows.try_next().await? {
        total += batch.column(0).as_primitive::<Float64Type>().iter().flatten().sum::<f64>();
    }
    println!("{total}");
    drop(rows);
    database.close()
}

/// All batches are one statement: they are seen together, once the load is finished.
async fn load(session: &mut Session) -> keyspan::Result<()> {
    let table = ObjectName { database: None, keyspace: None, name: "ticks".into(), position: 1 };
    let columns = ["symbol", "n", "price"].map(String::from);
    let mut load = session.bulk_insert(&table, &columns)?;
    for batch in 0..BATCHES {
        let numbers: Vec<i64> = (batch * ROWS..(batch + 1) * ROWS).collect();
        let symbols = numbers.iter().map(|n| if n % 2 == 0 { "ABC" } else { "XYZ" });
        let prices = numbers.iter().map(|n| *n as f64 / 100.0);
        let columns: [(&str, ArrayRef); 3] = [
            ("symbol", Arc::new(StringArray::from_iter_values(symbols))),
            ("n", Arc::new(Int64Array::from(numbers.clone()))),
            ("price", Arc::new(Float64Array::from_iter_values(prices))),
        ];
        let batch = RecordBatch::try_from_iter(columns).map_err(|error| Error::internal(error.to_string()))?;
        load.push(session, &batch).await?;
    }
    let rows = load.finish(session).await?;
    println!("{rows} rows loaded");
    Ok(())
}
