//! A server on a real file system that is full: a small one in memory, where the test may mount one (as root, mostly).

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fastrand::Rng;
use tokio_postgres::Client;

use crate::{Server, copy, noise, sqlstate};

/// Of which a server leaves 64 MB free.
const MEGABYTES: u64 = 224;

/// A file system of its own at a folder.
struct Mounted<'a>(&'a Path);

impl Mounted<'_> {
    fn new(folder: &Path) -> Option<Mounted<'_>> {
        let size = format!("size={MEGABYTES}m");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(folder).output();
        mount.is_ok_and(|output| output.status.success()).then_some(Mounted(folder))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

/// Copies rows into an empty table until there is no room for one more row, either; answers how many were acknowledged.
/// A merge in the background may free room after a COPY was refused, so that the row finds some: then rows are copied
/// again.
async fn fill(client: &Client, table: &str) -> u64 {
    const STEP: u64 = 10_000;
    let mut random = Rng::with_seed(7);
    let mut acknowledged = 0;
    for _ in 0..1_000 {
        let lines = (acknowledged..acknowledged + STEP).map(|row| format!("{row}\t{}\n", noise(&mut random))).collect();
        let Err(error) = copy(client, table, lines).await else {
            acknowledged += STEP;
            continue;
        };
        assert_eq!(sqlstate(&error), "53100", "{:?}", error.as_db_error());
        if let Err(refused) = client.batch_execute("INSERT INTO kept VALUES (1, 'one more')").await {
            assert_eq!(sqlstate(&refused), "53100");
            return acknowledged;
        }
    }
    panic!("{MEGABYTES} MB are never full")
}

async fn count(client: &Client, table: &str) -> u64 {
    let row = client.query_one(&format!("SELECT count(v) FROM {table}"), &[]).await.unwrap();
    u64::try_from(row.get::<_, i64>(0)).unwrap()
}

/// Writes a row as soon as there is room again: what was freed is seen within seconds.
async fn writes_again(client: &Client) {
    let until = Instant::now() + Duration::from_secs(30);
    while let Err(error) = client.batch_execute("INSERT INTO kept VALUES (1, 'again')").await {
        assert_eq!(sqlstate(&error), "53100", "{error}");
        assert!(Instant::now() < until, "what was freed is not seen");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_file_system_refuses_writes_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_mounted) = Mounted::new(folder.path()) else {
        println!("no file system can be mounted here");
        return;
    };
    let data = folder.path().join("data");
    let server = Server::start(&data);
    let client = server.connect().await;
    client.batch_execute("CREATE TABLE kept (k bigint PRIMARY KEY, v text)").await.unwrap();
    client.batch_execute("INSERT INTO kept VALUES (1, 'kept')").await.unwrap();
    for free in ["DELETE FROM big WHERE k >= 0", "TRUNCATE big", "DROP TABLE big"] {
        client.batch_execute("CREATE TABLE IF NOT EXISTS big (k bigint PRIMARY KEY, v text)").await.unwrap();
        let acknowledged = fill(&client, "big").await;
        assert_eq!((count(&client, "big").await, count(&client, "kept").await), (acknowledged, 1), "reading goes on");
        client.batch_execute(free).await.unwrap();
        writes_again(&client).await;
    }
    client.batch_execute("CREATE TABLE big (k bigint PRIMARY KEY, v text)").await.unwrap();
    let acknowledged = fill(&client, "big").await;
    server.kill();
    let server = Server::start(&data);
    let client = server.connect().await;
    assert_eq!((count(&client, "big").await, count(&client, "kept").await), (acknowledged, 1), "it opens full");
    client.batch_execute("DROP TABLE big").await.unwrap();
    writes_again(&client).await;
}
