//! TSBS cpu-only on Keyspan and its peers: the same rows and queries in one go, medians and ratios.
//!
//! `cargo run --release -p keyspan-benches --bin tsbs -- --hosts 1000 --hours 12 --python PYTHON`. Peers run through that
//! interpreter (`pip install duckdb chdb datafusion pyarrow "psycopg[binary]"`, see `benches/peers.py`); one that is not there is
//! skipped by name.

mod basics;
mod mine;
mod peers;
mod rollup;
mod table;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use keyspan::Database;
use keyspan_benches::tsbs::{self, Query, Shape};

use mine::{Answers, memory};
use table::Table;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Answer<T> = Result<T, Box<dyn Error>>;

/// TSBS cpu-only on Keyspan and its peers.
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
    /// Interpreter with the peers' packages.
    #[arg(long, default_value = "target/python/bin/python")]
    python: PathBuf,
    /// Peers, separated by commas; empty: none.
    #[arg(long, default_value = "duckdb,chdb,datafusion,postgres,questdb", value_delimiter = ',')]
    peers: Vec<String>,
    /// Measures also over the wire, and while 20,000 rows a second arrive.
    #[arg(long)]
    states: bool,
    /// Queries whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
}

#[tokio::main]
async fn main() -> Answer<()> {
    let arguments = Arguments::parse();
    let shape = Shape { hosts: arguments.hosts, hours: arguments.hours, seed: arguments.seed };
    let temporary = tempfile::tempdir()?;
    let data = arguments.data.clone().unwrap_or_else(|| temporary.path().join("data"));
    let queries: Vec<Query> = tsbs::queries(shape).into_iter().filter(|q| q.name.contains(&arguments.only)).collect();
    let mut table = Table::new(&queries);
    let database = Database::open(&data)?;
    if database.catalog().table("public", "cpu").is_none() {
        mine::load(&database, shape).await?;
        if arguments.states {
            table.add("just loaded", mine::texts(&database, &queries, arguments.repeat).await?);
        }
        let start = Instant::now();
        database.compact().await?;
        println!("compaction after the load: {:.1} s", start.elapsed().as_secs_f64());
    }
    println!("on disk: {:.2} B/row, {}", database.stats()?.segment_bytes as f64 / shape.rows() as f64, memory());
    table.add("settled", mine::texts(&database, &queries, arguments.repeat).await?);
    table.add("others", mine::others(&database, shape, &queries, arguments.repeat).await?);
    table.add("planning", mine::plannings(&database, &queries, arguments.repeat).await?);
    table.add("prepared", mine::prepared(&database, &queries, arguments.repeat).await?);
    let names: Vec<&String> = arguments.peers.iter().filter(|name| !name.is_empty()).collect();
    // Their rows take longer to write than a few queries to run.
    let peers = match arguments.states || !names.is_empty() {
        true => Some(peers::Peers::new(&arguments.python, shape, &queries, arguments.repeat, temporary.path())?),
        false => None,
    };
    if let Some(peers) = peers.as_ref().filter(|_| arguments.states) {
        table.add("wire", peers.wire(&database).await?);
    }
    println!("{}", memory());
    basics::measure(&database, shape).await?;
    rollup::create(&database).await?;
    rollup::measure(&database, "settled", arguments.repeat).await?;
    database.session().execute("DROP MATERIALIZED VIEW cpu_hourly").await?;
    database.close()?;
    drop(database);
    if arguments.states {
        let copy = temporary.path().join("live");
        copy_directory(&data, &copy)?;
        table.add("live", mine::live(&copy, shape, &queries, arguments.repeat).await?);
    }
    if let Some(peers) = &peers {
        for name in names {
            match peers.run(name) {
                Ok((version, answers)) => table.add_peer(&version, answers),
                Err(error) => println!("{name} is left out: {error}"),
            }
        }
    }
    table.print();
    Ok(())
}

fn copy_directory(from: &Path, to: &Path) -> Answer<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_directory(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
