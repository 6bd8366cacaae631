//! A server is killed with SIGKILL at random moments, again and again on one directory: everything acknowledged is
//! there afterwards, and every statement is whole or absent. `KEYSPAN_KILLS` says how often, `KEYSPAN_SEED` repeats.
//! A large COPY is killed in its middle: nothing of it is there, and no file.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use fastrand::Rng;
use futures::SinkExt;
use tokio_postgres::Client;

use crate::Server;

/// What the client knows of one statement: how many rows it wrote, and whether the server said so.
#[derive(Debug)]
struct Statement {
    rows: u64,
    acknowledged: bool,
}

fn insert(table: &str, batch: u64, rows: u64) -> String {
    let rows: Vec<String> = (0..rows).map(|n| format!("({batch}, {n}, 'value {batch} {n}')")).collect();
    format!("INSERT INTO {table} VALUES {}", rows.join(", "))
}

/// Writes until the server is gone. Two tables in one transaction every third time.
async fn write(
    client: &Client,
    random: &mut Rng,
    next: &mut u64,
    known: &mut BTreeMap<u64, Statement>,
    until: Instant,
) {
    while Instant::now() < until {
        let (batch, rows) = (*next, random.u64(1..=60));
        *next += 1;
        known.insert(batch, Statement { rows, acknowledged: false });
        let (left, right) = (insert("kept", batch, rows), insert("twin", batch, rows));
        let sql = if batch % 3 == 0 { format!("BEGIN; {left}; {right}; COMMIT") } else { format!("{left}; {right}") };
        if client.batch_execute(&sql).await.is_err() {
            return;
        }
        known.get_mut(&batch).unwrap().acknowledged = true;
    }
}

async fn check(client: &Client, known: &BTreeMap<u64, Statement>) {
    let mut found: [BTreeMap<i64, i64>; 2] = Default::default();
    for (table, counts) in ["kept", "twin"].into_iter().zip(&mut found) {
        let rows = client.query(&format!("SELECT batch, count(*) FROM {table} GROUP BY batch"), &[]).await.unwrap();
        counts.extend(rows.iter().map(|row| (row.get::<_, i64>(0), row.get::<_, i64>(1))));
    }
    assert_eq!(found[0], found[1], "the two tables were written in one transaction");
    for (batch, statement) in known {
        match found[0].get(&(*batch as i64)) {
            Some(rows) => assert_eq!(*rows as u64, statement.rows, "batch {batch} is torn"),
            None => assert!(!statement.acknowledged, "batch {batch} was acknowledged and is gone"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_sigkill() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (kills, seed) = (number("KEYSPAN_KILLS").unwrap_or(50), number("KEYSPAN_SEED").unwrap_or(42));
    println!("seed {seed}");
    let mut random = Rng::with_seed(seed);
    let folder = tempfile::tempdir().unwrap();
    let (mut known, mut next) = (BTreeMap::new(), 0);
    for round in 0..kills {
        let server = Server::start(folder.path());
        let client = server.connect().await;
        if round == 0 {
            for table in ["kept", "twin"] {
                let sql = format!("CREATE TABLE {table} (batch bigint, n int, v text, PRIMARY KEY (batch, n))");
                client.batch_execute(&sql).await.unwrap();
            }
        }
        check(&client, &known).await;
        let pause = Duration::from_millis(random.u64(..250));
        let until = Instant::now() + Duration::from_secs(20);
        let killer = tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            server.kill();
        });
        if round % 5 == 4 {
            let flusher = client.batch_execute("CHECKPOINT");
            let _ = tokio::join!(flusher, write(&client, &mut random, &mut next, &mut known, until));
        } else {
            write(&client, &mut random, &mut next, &mut known, until).await;
        }
        killer.await.unwrap();
    }
    let server = Server::start(folder.path());
    check(&server.connect().await, &known).await;
    let acknowledged = known.values().filter(|statement| statement.acknowledged).count();
    assert!(acknowledged as u64 > kills, "too little was written to prove anything: {acknowledged}");
    server.kill();
    let check =
        Command::new(env!("CARGO_BIN_EXE_keyspan")).args(["check", "--data"]).arg(folder.path()).output().unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_copy_that_is_killed_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let client = server.connect().await;
    client.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY, v text)").await.unwrap();
    client.batch_execute("INSERT INTO t VALUES (3, 'kept')").await.unwrap();
    let mut sink = std::pin::pin!(client.copy_in::<_, bytes::Bytes>("COPY t FROM STDIN").await.unwrap());
    let segments = || std::fs::read_dir(folder.path().join("seg")).unwrap().count();
    let mut key = 0;
    while segments() < 4 {
        let lines: String = (0..2000).map(|n| format!("{}\t{}\n", key + n, "v".repeat(1000))).collect();
        key += 2000;
        sink.send(bytes::Bytes::from(lines)).await.unwrap();
        assert!(key < 500_000, "no part of the COPY was written out");
    }
    server.kill();
    let server = Server::start(folder.path());
    let client = server.connect().await;
    let rows = client.query("SELECT k, v FROM t", &[]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get::<_, String>(1)).collect::<Vec<_>>(), ["kept"]);
    assert_eq!(segments(), 0);
    server.kill();
}
