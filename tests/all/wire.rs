//! What only a client over the wire can see: array parameters, cancels, timeouts, the way down, long lists.

use std::time::{Duration, Instant};

use keyspan::Database;
use keyspan_tests::target::serve;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_postgres::{Client, Error, NoTls};

async fn connect(port: u16) -> Client {
    let address = format!("host=127.0.0.1 port={port} user=test dbname=test");
    let (client, connection) = tokio_postgres::connect(&address, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn state(error: &Error) -> &str {
    error.code().map_or("none", |code| code.code())
}

async fn numbers(client: &Client, sql: &str, parameters: &[&(dyn tokio_postgres::types::ToSql + Sync)]) -> Vec<i32> {
    client.query(sql, parameters).await.unwrap().iter().map(|row| row.get(0)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arrays_are_taken_in_binary_for_every_type() {
    let database = Database::in_memory().unwrap();
    let server = serve(&database).await;
    let client = connect(server.local_addr().port()).await;
    let create = "CREATE TABLE t (k int PRIMARY KEY, b bigint, t text, d double, o boolean);
        INSERT INTO t VALUES (1, 10, 'a', 0.5, true), (2, 20, 'b\"\\,{}', 1.5, false), (3, 30, NULL, NULL, NULL)";
    client.batch_execute(create).await.unwrap();
    assert_eq!(numbers(&client, "SELECT k FROM t WHERE k = ANY($1)", &[&vec![3, 1]]).await, [1, 3]);
    assert_eq!(numbers(&client, "SELECT k FROM t WHERE b = ANY($1)", &[&vec![20_i64, 7]]).await, [2]);
    assert_eq!(numbers(&client, "SELECT k FROM t WHERE t = ANY($1)", &[&vec![Some("b\"\\,{}"), None]]).await, [2]);
    assert_eq!(numbers(&client, "SELECT k FROM t WHERE d <> ALL($1)", &[&vec![0.5, -2.0]]).await, [2]);
    assert_eq!(numbers(&client, "SELECT k FROM t WHERE o = ANY($1)", &[&vec![true]]).await, [1]);
    assert_eq!(numbers(&client, "SELECT x FROM unnest($1::int[]) AS x", &[&vec![5, 6]]).await, [5, 6]);
    let optional = "SELECT k FROM t WHERE $1::text[] IS NULL OR t = ANY($1)";
    assert_eq!(numbers(&client, optional, &[&None::<Vec<String>>]).await, [1, 2, 3]);
    assert_eq!(numbers(&client, optional, &[&Vec::<String>::new()]).await, [0_i32; 0]);
    let statement = client.prepare("DELETE FROM t WHERE k = ANY($1)").await.unwrap();
    assert_eq!(client.execute(&statement, &[&vec![1, 9]]).await.unwrap(), 1);
    assert_eq!(client.execute(&statement, &[&vec![2, 3]]).await.unwrap(), 2);
    server.stop().await.unwrap();
}

/// Statements that are long in one piece, far longer than a cancel takes on a loaded machine: a cross join, a count (for
/// which the sort is left out), an aggregate.
const LONG: [&str; 3] = [
    "SELECT sum(a % 7 * b) FROM generate_series(1, 20000) AS x(a), generate_series(1, 20000) AS y(b)",
    "SELECT count(*) FROM (SELECT a, b FROM generate_series(1, 20000) AS x(a), generate_series(1, 20000) AS y(b) \
     WHERE a % 7 <> b % 11 ORDER BY a % 1000 DESC, b) AS s",
    "SELECT count(*) FROM (SELECT (a * 20000 + b) % 900000, count(*) FROM generate_series(1, 20000) AS x(a), \
     generate_series(1, 20000) AS y(b) GROUP BY 1) AS s",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_statements_end_within_a_second_of_their_cancel_or_timeout() {
    let database = Database::in_memory().unwrap();
    let server = serve(&database).await;
    let client = connect(server.local_addr().port()).await;
    for sql in LONG {
        let token = client.cancel_token();
        let canceller = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(200)).await;
            token.cancel_query(NoTls).await.unwrap();
        });
        let start = Instant::now();
        assert_eq!(state(&client.simple_query(sql).await.unwrap_err()), "57014", "{sql}");
        canceller.await.unwrap();
        assert!(start.elapsed() < Duration::from_millis(1_500), "{sql}: {:?}", start.elapsed());
        client.batch_execute("SET statement_timeout = '100ms'").await.unwrap();
        let start = Instant::now();
        assert_eq!(state(&client.simple_query(sql).await.unwrap_err()), "57014", "{sql}");
        assert!(start.elapsed() < Duration::from_millis(1_500), "{sql}: {:?}", start.elapsed());
        client.batch_execute("RESET statement_timeout").await.unwrap();
    }
    assert_eq!(numbers(&client, "SELECT 1", &[]).await, [1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_idle_too_long_are_ended_with_their_codes() {
    let database = Database::in_memory().unwrap();
    let server = serve(&database).await;
    let address = format!("host=127.0.0.1 port={} user=test dbname=test", server.local_addr().port());
    let cases =
        [("SET idle_session_timeout = 50", "57P05"), ("SET idle_in_transaction_session_timeout = 50; BEGIN", "25P03")];
    for (sql, code) in cases {
        let (client, connection) = tokio_postgres::connect(&address, NoTls).await.unwrap();
        let ended = tokio::spawn(connection);
        client.batch_execute(sql).await.unwrap();
        let ended = tokio::time::timeout(Duration::from_secs(5), ended).await.unwrap().unwrap();
        assert_eq!(state(&ended.unwrap_err()), code);
    }
    let client = connect(server.local_addr().port()).await;
    client.batch_execute("SET idle_in_transaction_session_timeout = 50").await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(numbers(&client, "SELECT 1", &[]).await, [1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_waited_for_only_as_long_as_lock_timeout_says() {
    let database = Database::in_memory().unwrap();
    let server = serve(&database).await;
    let (first, second) = (connect(server.local_addr().port()).await, connect(server.local_addr().port()).await);
    first.batch_execute("CREATE TABLE t (k int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0)").await.unwrap();
    first.batch_execute("BEGIN; UPDATE t SET v = v + 1 WHERE k = 1").await.unwrap();
    second.batch_execute("SET lock_timeout = 50").await.unwrap();
    let error = second.execute("UPDATE t SET v = v + 1 WHERE k = 1", &[]).await.unwrap_err();
    assert_eq!(state(&error), "55P03");
    first.batch_execute("COMMIT").await.unwrap();
    assert_eq!(second.execute("UPDATE t SET v = v + 1 WHERE k = 1", &[]).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_lets_transactions_end_and_sends_idle_clients_away() {
    let database = Database::in_memory().unwrap();
    let server = serve(&database).await;
    let address = format!("host=127.0.0.1 port={} user=test dbname=test", server.local_addr().port());
    let (_idle, connection) = tokio_postgres::connect(&address, NoTls).await.unwrap();
    let idle = tokio::spawn(connection);
    let busy = connect(server.local_addr().port()).await;
    busy.batch_execute("CREATE TABLE t (k int PRIMARY KEY); BEGIN; INSERT INTO t VALUES (1)").await.unwrap();
    let stopped = tokio::spawn(server.stop());
    let ended = tokio::time::timeout(Duration::from_secs(2), idle).await.unwrap().unwrap();
    assert_eq!(state(&ended.unwrap_err()), "57P01");
    busy.batch_execute("INSERT INTO t VALUES (2)").await.unwrap();
    busy.batch_execute("COMMIT").await.unwrap();
    tokio::time::timeout(Duration::from_secs(5), stopped).await.unwrap().unwrap().unwrap();
    let rows = database.session().query("SELECT k FROM t", &[]).await.unwrap().collect().await.unwrap();
    assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_terms_of_or_and_in_are_answered() {
    let database = Database::in_memory().unwrap();
    let server = serve(&database).await;
    let client = connect(server.local_addr().port()).await;
    client
        .batch_execute("CREATE TABLE t (k int PRIMARY KEY); INSERT INTO t SELECT * FROM generate_series(1, 1000)")
        .await
        .unwrap();
    let terms = || (0..100_000).map(|n| n * 2);
    let list = terms().map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let or = terms().map(|n| format!("k = {n}")).collect::<Vec<_>>().join(" OR ");
    for condition in [format!("k IN ({list})"), or] {
        let rows = client.simple_query(&format!("SELECT k FROM t WHERE {condition}")).await.unwrap();
        let count = rows.iter().filter(|row| matches!(row, tokio_postgres::SimpleQueryMessage::Row(_))).count();
        assert_eq!(count, 500);
    }
    let many: Vec<i32> = terms().collect();
    assert_eq!(numbers(&client, "SELECT k FROM t WHERE k = ANY($1)", &[&many]).await.len(), 500);
    let mixed = terms().map(|n| format!("(k = {n} AND k > 1)")).collect::<Vec<_>>().join(" OR ");
    let error = client.simple_query(&format!("SELECT k FROM t WHERE {mixed}")).await.unwrap_err();
    assert_eq!(state(&error), "54001");
    assert_eq!(numbers(&client, "SELECT 1", &[]).await, [1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_64_kb_and_cells_of_10_mb_are_the_limit() {
    let database = Database::in_memory().unwrap();
    let server = serve(&database).await;
    let client = connect(server.local_addr().port()).await;
    client.batch_execute("CREATE TABLE t (k text PRIMARY KEY, v text)").await.unwrap();
    let (key, cell) = ("k".repeat(60_000), "v".repeat(10_000_000));
    assert_eq!(client.execute("INSERT INTO t VALUES ($1, $2)", &[&key, &cell]).await.unwrap(), 1);
    let row = client.query_one("SELECT length(k), length(v) FROM t WHERE k = $1", &[&key]).await.unwrap();
    assert_eq!((row.get::<_, i32>(0), row.get::<_, i32>(1)), (60_000, 10_000_000));
    let (key, cell) = ("k".repeat(66_000), "v".repeat(11_000_000));
    for sql in ["INSERT INTO t VALUES ($1, 'v')", "UPDATE t SET v = 'v' WHERE k = $1"] {
        assert_eq!(state(&client.execute(sql, &[&key]).await.unwrap_err()), "54000", "{sql}");
    }
    for sql in ["INSERT INTO t VALUES ('k', $1)", "UPDATE t SET v = $1 WHERE k = 'k'", "INSERT INTO t SELECT 'k', $1"] {
        assert_eq!(state(&client.execute(sql, &[&cell]).await.unwrap_err()), "54000", "{sql}");
    }
    assert_eq!(state(&client.query("SELECT v FROM t WHERE k = $1", &[&key]).await.unwrap_err()), "54000");
    assert_eq!(numbers(&client, "SELECT count(*)::int FROM t", &[]).await, [1]);
}

/// A client that sends messages of its own choice.
struct Raw(TcpStream);

impl Raw {
    async fn connect(port: u16) -> Raw {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let body = [&[0, 3, 0, 0][..], b"user\0test\0database\0test\0\0"].concat();
        socket.write_all(&[&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat()).await.unwrap();
        let mut raw = Raw(socket);
        raw.answers().await;
        raw
    }

    /// Sends messages of these kinds and bodies, then Sync; what comes, each by its kind, rows with their first value.
    async fn send(&mut self, messages: &[(u8, &[u8])]) -> String {
        for (kind, body) in messages.iter().chain(&[(b'S', &[][..])]) {
            let length = (body.len() as u32 + 4).to_be_bytes();
            self.0.write_all(&[&[*kind][..], &length, body].concat()).await.unwrap();
        }
        self.answers().await
    }

    async fn answers(&mut self) -> String {
        let mut shown = String::new();
        loop {
            let kind = self.0.read_u8().await.unwrap();
            let mut body = vec![0; self.0.read_u32().await.unwrap() as usize - 4];
            self.0.read_exact(&mut body).await.unwrap();
            let text = String::from_utf8_lossy(&body).into_owned();
            match kind {
                b'Z' => return shown,
                // A count of columns, a length, the value.
                b'D' => shown.push_str(&format!("{} ", &text[6..])),
                b'E' => shown.push_str(text.split('\0').find(|field| field.starts_with('C')).unwrap_or("E")),
                b'S' | b'K' | b'R' => {}
                kind => shown.push(char::from(kind)),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sql_and_the_protocol_share_names_of_statements_and_cursors() {
    let database = Database::in_memory().unwrap();
    let server = serve(&database).await;
    let mut raw = Raw::connect(server.local_addr().port()).await;
    let parse = |name: &str, sql: &str| [name.as_bytes(), b"\0", sql.as_bytes(), b"\0\0\0"].concat();
    let bind = |statement: &str| [b"\0", statement.as_bytes(), b"\0\0\0\0\x01\0\0\0\x014\0\0"].concat();
    let execute = |portal: &str, rows: u32| [portal.as_bytes(), b"\0", &rows.to_be_bytes()].concat();
    let run = |sql: &str| [parse("", sql), b"\0\0\0\0\0\0\0\0".to_vec(), execute("", 0)];
    for sql in ["PREPARE p AS SELECT $1::int + 1", "BEGIN", "DECLARE c CURSOR FOR SELECT generate_series(1, 3)"] {
        let [parse, bind, execute] = run(sql);
        assert_eq!(raw.send(&[(b'P', &parse), (b'B', &bind), (b'E', &execute)]).await, "12C", "{sql}");
    }
    assert_eq!(raw.send(&[(b'B', &bind("p")), (b'E', &execute("", 0))]).await, "25 C");
    assert_eq!(raw.send(&[(b'E', &execute("c", 2)), (b'E', &execute("c", 2))]).await, "1 2 s3 C");
    assert_eq!(raw.send(&[(b'C', b"Pc\0")]).await, "3");
    assert_eq!(raw.send(&[(b'E', &execute("c", 1))]).await, "C34000");
    let [rollback, bound, executed] = run("ROLLBACK");
    assert_eq!(raw.send(&[(b'P', &rollback), (b'B', &bound), (b'E', &executed)]).await, "12C");
    // What PREPARE does not take, EXECUTE does not run, least of all itself.
    assert_eq!(raw.send(&[(b'P', &parse("e", "EXECUTE p(1)"))]).await, "1");
    let [parsed, bound, executed] = run("EXECUTE e");
    assert_eq!(raw.send(&[(b'P', &parsed), (b'B', &bound), (b'E', &executed)]).await, "12C26000");
    server.stop().await.unwrap();
}
