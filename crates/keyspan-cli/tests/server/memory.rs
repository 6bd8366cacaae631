//! A server whose rows are fifteen times the memory it was given, under a hard limit of the operating system: loading, readers
//! that hold old snapshots, queries larger than their memory and the replay after a kill all stay below it.
//!
//! The limit is a control group's where the test may make one (as root, mostly): beyond it the kernel kills the server. The
//! peak of resident memory is compared with it everywhere.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use chrono::DateTime;
use fastrand::Rng;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::{Server, connect, copy, sqlstate};

/// What the server is given, and what docs/reliability.md says of its process. Half of the limit is the allocator's at times.
const MEMORY: (&str, u64) = ("64MB", 64 << 20);
const LIMIT: u64 = 640 << 20;
/// Bytes of a row's text; it hardly compresses.
const TEXT: usize = 400;
const ROWS: u64 = 15 * MEMORY.1 / TEXT as u64;
/// Rows of one COPY.
const STEP: u64 = 20_000;

/// A control group whose processes have so much memory together.
struct Group(PathBuf);

impl Group {
    fn new() -> Option<Group> {
        let name = format!("keyspan-test-{}", std::process::id());
        [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")].into_iter().find_map(
            |(root, limit)| {
                let folder = Path::new(root).join(&name);
                std::fs::create_dir(&folder).ok()?;
                let group = Group(folder);
                std::fs::write(group.0.join(limit), LIMIT.to_string()).ok().map(|()| group)
            },
        )
    }

    /// Starts a program as a member from its first byte on.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(self.0.join("cgroup.procs")).arg(program);
        command
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Only an empty one can be removed; its last process may still be on its way out.
        for _ in 0..50 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn start(data: &Path, group: Option<&Group>) -> Server {
    let program = env!("CARGO_BIN_EXE_keyspan");
    let command = group.map_or_else(|| Command::new(program), |group| group.command(program));
    Server::spawn(command, data, &["--memory", MEMORY.0])
}

/// The peak of its memory without the program's own file, which an unoptimized build makes large.
fn check_peak(server: &Server, stage: &str) {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let kilobytes = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let peak = (kilobytes("VmHWM") - kilobytes("RssFile")) << 10;
    println!("{stage}: peak {} MB", peak >> 20);
    assert!(peak <= LIMIT, "{stage}: {} MB of memory, more than {}", peak >> 20, LIMIT >> 20);
}

async fn load(client: &Client, random: &mut Rng, rows: std::ops::Range<u64>, step: u64) {
    let pool: String = (0..1 << 16).map(|_| random.lowercase()).collect();
    for start in rows.clone().step_by(step as usize) {
        let mut lines = String::new();
        for row in start..rows.end.min(start + step) {
            let at = random.usize(..pool.len() - TEXT);
            let time = DateTime::from_timestamp(row as i64, 0).unwrap();
            writeln!(lines, "s{}\t{time}\t{}", row % 100, &pool[at..at + TEXT]).unwrap();
        }
        copy(client, "wide", lines).await.unwrap();
    }
}

/// Holds a snapshot until it is aborted, and reads a few rows of it now and then.
async fn read_slowly(port: u16) -> JoinHandle<()> {
    let client = connect(port).await;
    client
        .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; DECLARE slow CURSOR FOR SELECT * FROM wide")
        .await
        .unwrap();
    tokio::spawn(async move {
        loop {
            assert_eq!(client.query("FETCH 10 FROM slow", &[]).await.unwrap().len(), 10);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
}

/// The first value, or the SQLSTATE.
async fn answer(client: &Client, sql: &str) -> Result<String, String> {
    let messages = client.simple_query(sql).await;
    let messages = messages.map_err(|error| sqlstate(&error))?;
    let first = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    Ok(first.unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifteen_times_the_memory_stays_below_a_hard_limit() {
    let folder = tempfile::tempdir().unwrap();
    let group = Group::new();
    if group.is_none() {
        println!("no control group can be made here: only the peak of resident memory is looked at");
    }
    let mut random = Rng::with_seed(42);
    let server = start(folder.path(), group.as_ref());
    let client = server.connect().await;
    client.batch_execute("CREATE TABLE wide (s text, ts timestamptz, v text, PRIMARY KEY (s, ts))").await.unwrap();
    load(&client, &mut random, 0..ROWS / 10, STEP).await;
    let readers = [read_slowly(server.port).await, read_slowly(server.port).await, read_slowly(server.port).await];
    load(&client, &mut random, ROWS / 10..ROWS, STEP).await;
    check_peak(&server, "loaded");
    load(&client, &mut random, 0..ROWS / 4, STEP).await;
    check_peak(&server, "a quarter overwritten");
    for reader in readers {
        assert!(!reader.is_finished(), "a reader of an old snapshot has failed");
        reader.abort();
    }
    for sql in [
        "SELECT count(*) FROM wide",
        "SELECT v FROM wide ORDER BY v LIMIT 10",
        "SELECT count(*) FROM (SELECT v FROM wide GROUP BY v) g",
    ] {
        assert!(answer(&client, sql).await.is_ok_and(|first| !first.is_empty()), "{sql}");
        check_peak(&server, sql);
    }
    for sql in [
        "SELECT count(*), count(DISTINCT v) FROM wide",
        "SELECT count(*) FROM wide a JOIN wide b ON a.s = b.s AND a.ts = b.ts WHERE a.v <= b.v",
    ] {
        assert_eq!(answer(&client, sql).await, Err("53200".into()), "{sql}");
        check_peak(&server, sql);
    }
    load(&client, &mut random, ROWS..ROWS + ROWS / 20, 500).await;
    server.kill();
    let server = start(folder.path(), group.as_ref());
    let count = answer(&server.connect().await, "SELECT count(*) FROM wide").await;
    assert_eq!(count, Ok((ROWS + ROWS / 20).to_string()));
    check_peak(&server, "killed and replayed");
}
