//! Backups over the wire that are cancelled while they are written.

use std::process::Command;
use std::time::Duration;

use fastrand::Rng;
use tokio_postgres::{Client, NoTls};

use crate::{Server, copy, noise, sqlstate};

/// Cancels are sent so many milliseconds after the statement.
const PAUSES: std::ops::Range<u64> = 0..16;

async fn load(client: &Client) {
    client.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY, v text)").await.unwrap();
    let mut random = Rng::with_seed(7);
    for step in 0..8 {
        let line = |row: i64| format!("{}\t{}\n", step * 5000 + row, noise(&mut random));
        assert_eq!(copy(client, "t", (0..5000).map(line).collect()).await.unwrap(), 5000);
        client.batch_execute("FLUSH").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_that_is_cancelled_can_be_done_again_and_the_session_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"));
    let client = server.connect().await;
    load(&client).await;
    let (mut cancelled, mut left) = (0, 0);
    for pause in PAUSES {
        let directory = folder.path().join(format!("backup{pause}"));
        let statement = format!("BACKUP DATABASE TO '{}'", directory.display());
        let token = client.cancel_token();
        let (answer, sent) = tokio::join!(client.batch_execute(&statement), async {
            tokio::time::sleep(Duration::from_millis(pause)).await;
            token.cancel_query(NoTls).await
        });
        sent.unwrap();
        if let Err(error) = answer {
            assert_eq!(sqlstate(&error), "57014", "{error}");
            cancelled += 1;
            left += std::fs::read_dir(directory.join("log")).map_or(0, Iterator::count);
        }
        // A cancel that comes late may still meet the next statement, as in Postgres.
        if let Err(error) = client.batch_execute(&statement).await {
            assert_eq!(sqlstate(&error), "57014", "{error}");
            client.batch_execute(&statement).await.unwrap();
        }
        let mut check = Command::new(env!("CARGO_BIN_EXE_keyspan"));
        let checked = check.args(["check", "--data"]).arg(&directory).output().unwrap();
        assert!(checked.status.success(), "{checked:?}");
    }
    assert!(cancelled > 0, "no backup was cancelled");
    assert_eq!(left, 0, "what was begun is removed");
    assert_eq!(client.query_one("SELECT count(*) FROM t", &[]).await.unwrap().get::<_, i64>(0), 40_000);
}
