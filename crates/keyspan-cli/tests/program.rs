//! The program as its users meet it: arguments, output, exit codes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "program/import.rs"]
mod import;
#[path = "program/place.rs"]
mod place;
#[path = "program/shell.rs"]
mod shell;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tempfile::TempDir;

fn keyspan(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_keyspan")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Runs the program and answers its stdout; it must succeed.
fn ok(arguments: &[&str]) -> String {
    let output = keyspan(arguments);
    assert!(output.status.success(), "{arguments:?}\n{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Runs the program and answers its stderr; it must fail with exit code 1.
fn fails(arguments: &[&str]) -> String {
    let output = keyspan(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}\n{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stderr)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A folder with a database of two rows, and the folder's path and the database's.
fn database() -> (TempDir, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let (root, data) = (folder.path().display().to_string(), folder.path().join("db").display().to_string());
    let script = "CREATE TABLE t (k int PRIMARY KEY, v text, n double, at timestamp, ok boolean, j json);
        INSERT INTO t VALUES (1, 'a,\"b', 1.5, '2024-01-25 10:00:00', true, '{\"x\":[1]}'), (2, NULL, NULL, NULL, NULL, NULL);";
    ok(&["sql", "--data", &data, "-c", script]);
    (folder, root, data)
}

struct Server(Child);

impl Server {
    fn start(data: &str) -> (Server, String) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_keyspan"))
            .args(["serve", "--listen", "127.0.0.1:0", "--data", data])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().to_string();
        (Server(child), format!("postgres://{address}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn sql_prints_tables_csv_and_json() {
    let (_folder, _, data) = database();
    let query = "SELECT k, v, n FROM t ORDER BY k";
    let table = " k |  v   |  n  \n---+------+-----\n 1 | a,\"b | 1.5\n 2 |      |\n(2 rows)\n\n";
    assert_eq!(ok(&["sql", "--data", &data, "-c", query]), table);
    assert_eq!(ok(&["sql", "--data", &data, "--format", "csv", "-c", query]), "k,v,n\n1,\"a,\"\"b\",1.5\n2,,\n");
    let json = ok(&["sql", "--data", &data, "--format", "json", "-c", "SELECT * FROM t ORDER BY k"]);
    let rows: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(rows[0]["j"]["x"][0], 1);
    assert_eq!(rows[0]["ok"], true);
    assert!(rows[1]["v"].is_null());
}

#[test]
fn an_error_shows_its_place_and_ends_the_script() {
    let (_folder, root, data) = database();
    let script = format!("{root}/script.sql");
    fs::write(&script, "SELECT 1 AS one;\nSELECT k,\n  nothing\nFROM t;\nSELECT 2 AS two;\n").unwrap();
    let output = keyspan(&["sql", "--data", &data, "-f", &script]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("one") && !text(&output.stdout).contains("two"));
    let error = text(&output.stderr);
    let begin = format!("keyspan:{script}:4: ERROR:  column \"nothing\" does not exist\nLINE 2:   nothing\n");
    assert!(error.starts_with(&begin), "{error}");
    assert!(error.lines().nth(2).unwrap().trim_end().ends_with('^'), "{error}");
}

#[test]
fn scripts_come_from_stdin_with_copy_data_and_meta_commands() {
    let (_folder, root, data) = database();
    let mut child = Command::new(env!("CARGO_BIN_EXE_keyspan"))
        .args(["sql", "--data", &data])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let script = format!(
        "COPY t (k, v) FROM STDIN;\n3\tthree\n4\t\\N\n\\.\n\\copy (SELECT k, v FROM t WHERE k > 2 ORDER BY k) TO '{root}/out.csv' (FORMAT csv, HEADER)\n\\d t\n\\dt\nSELECT count(*) FROM t"
    );
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let printed = text(&output.stdout);
    assert!(printed.starts_with("COPY 2\n"), "{printed}");
    assert!(printed.contains("     4\n(1 row)"), "{printed}");
    assert_eq!(fs::read_to_string(format!("{root}/out.csv")).unwrap(), "k,v\n3,three\n4,\n");
}

#[test]
fn files_of_every_format_go_out_and_in_again() {
    let (_folder, root, data) = database();
    let all = "SELECT k, v, n, at, ok, j FROM";
    let wanted = ok(&["sql", "--data", &data, "--format", "csv", "-c", &format!("{all} t ORDER BY k")]);
    for format in ["csv", "ndjson", "parquet"] {
        let (file, table) = (format!("{root}/t.{format}"), format!("t_{format}"));
        ok(&["export", "t", "--data", &data, "--to", &file]);
        ok(&[
            "sql",
            "--data",
            &data,
            "-c",
            &format!("CREATE TABLE {table} (k int PRIMARY KEY, j json, v text, n double, at timestamp, ok boolean)"),
        ]);
        let told = ok(&["import", &file, "--data", &data, "--into", &table]);
        assert!(told.contains("2 rows"), "{told}");
        let got = ok(&["sql", "--data", &data, "--format", "csv", "-c", &format!("{all} {table} ORDER BY k")]);
        assert_eq!(got, wanted, "{format}");
        ok(&["import", &file, "--data", &data, "--into", &format!("new_{format}"), "--create", "--key", "k"]);
        let count =
            ok(&["sql", "--data", &data, "--format", "csv", "-c", &format!("SELECT count(*) AS n FROM new_{format}")]);
        assert_eq!(count, "n\n2\n");
    }
    assert!(!Path::new(&format!("{root}/t.csv.partial")).exists());
}

#[test]
fn a_bad_import_loads_nothing() {
    let (_folder, root, data) = database();
    let file = format!("{root}/bad.csv");
    fs::write(&file, "k,v\n10,x\nten,y\n").unwrap();
    let error = fails(&["import", &file, "--data", &data, "--into", "t"]);
    assert!(error.contains("nothing was loaded") && error.contains("column k: \"ten\""), "{error}");
    fs::write(&file, "k,w\n10,x\n").unwrap();
    assert!(fails(&["import", &file, "--data", &data, "--into", "t"]).contains("\"w\""));
    assert_eq!(ok(&["sql", "--data", &data, "--format", "csv", "-c", "SELECT count(*) AS n FROM t"]), "n\n2\n");
}

#[test]
fn a_server_answers_as_the_directory_does() {
    let (_folder, root, data) = database();
    let queries = ["SELECT * FROM t ORDER BY k", "SELECT k, n * 2 AS d, ok FROM t WHERE k = 1"];
    let formats = ["table", "csv", "json"];
    let pairs = || queries.iter().flat_map(|query| formats.map(|format| (query, format)));
    let wanted: Vec<String> =
        pairs().map(|(query, format)| ok(&["sql", "--data", &data, "--format", format, "-c", query])).collect();
    let (_server, url) = Server::start(&data);
    for ((query, format), wanted) in pairs().zip(wanted) {
        assert_eq!(ok(&["sql", "--url", &url, "--format", format, "-c", query]), wanted);
    }
    assert!(fails(&["sql", "--url", &url, "-c", "SELECT missing FROM t"]).contains('^'));
    assert!(fails(&["sql", "--data", &data, "-c", "SELECT 1"]).starts_with("ERROR:  "), "the directory is in use");
    let file = format!("{root}/more.csv");
    fs::write(&file, "k,v\n10,x\n11,y\n").unwrap();
    assert!(ok(&["import", &file, "--url", &url, "--into", "t"]).contains("2 rows"));
    ok(&[
        "export",
        "--query",
        "SELECT k FROM t WHERE k >= 10 ORDER BY k",
        "--url",
        &url,
        "--to",
        &format!("{root}/out.csv"),
    ]);
    assert_eq!(fs::read_to_string(format!("{root}/out.csv")).unwrap(), "k\n10\n11\n");
}

#[test]
fn sigterm_ends_a_server_cleanly() {
    let (_folder, _, data) = database();
    let (mut server, url) = Server::start(&data);
    ok(&["sql", "--url", &url, "-c", "INSERT INTO t (k) VALUES (99)"]);
    let id = server.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert_eq!(server.0.wait().unwrap().code(), Some(0));
    assert_eq!(ok(&["sql", "--data", &data, "--format", "csv", "-c", "SELECT k FROM t WHERE k = 99"]), "k\n99\n");
}

#[test]
fn check_tells_soundness_by_its_exit_code() {
    let (_folder, _, data) = database();
    ok(&["sql", "--data", &data, "-c", "CHECKPOINT"]);
    assert!(ok(&["check", "--data", &data]).contains("no damage found"));
    let segment = segments(Path::new(&data)).into_iter().next().unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    // The first page stands behind four bytes; of a file as small as this the footer is the most.
    bytes[20] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let error = fails(&["check", "--data", &data]);
    let name = segment.file_name().unwrap().to_str().unwrap();
    assert!(error.contains(name) && error.contains("keyspan check --repair"), "{error}");
    assert!(fails(&["backup", "--data", &data, "--to", &format!("{data}.backup")]).contains(name));
    let told = ok(&["check", "--repair", "--data", &data]);
    assert!(told.contains("table public.t: 2 rows from key '1' to key '2' are lost"), "{told}");
    assert!(told.contains(&format!("damaged/seg.{name}")) && told.contains("no damage found"), "{told}");
    assert!(ok(&["check", "--repair", "--data", &data]).contains("there was nothing to repair"));
    ok(&["sql", "--data", &data, "-c", "INSERT INTO t (k) VALUES (3)"]);
    assert_eq!(ok(&["sql", "--data", &data, "--format", "csv", "-c", "SELECT k FROM t"]), "k\n3\n");
    assert!(fails(&["check", "--data", "/nonexistent/directory"]).starts_with("ERROR:  "));
}

/// Writes rows 0, 1, 2, … one by one until the server is gone; `acknowledged` counts them.
fn write_rows(url: &str, acknowledged: Arc<AtomicI64>) -> JoinHandle<()> {
    let mut config: tokio_postgres::Config = url.parse().unwrap();
    config.user("keyspan");
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            loop {
                let next = acknowledged.load(Ordering::SeqCst);
                if client.batch_execute(&format!("INSERT INTO w VALUES ({next}, 'row {next}')")).await.is_err() {
                    return;
                }
                acknowledged.store(next + 1, Ordering::SeqCst);
            }
        });
    })
}

#[test]
fn a_running_server_is_backed_up_under_load_and_restored() {
    let (_folder, root, data) = database();
    let (backup, copy) = (format!("{root}/it's a backup"), format!("{root}/copy"));
    let (server, url) = Server::start(&data);
    ok(&["sql", "--url", &url, "-c", "CREATE TABLE w (n bigint PRIMARY KEY, v text)"]);
    let acknowledged = Arc::new(AtomicI64::new(0));
    let writer = write_rows(&url, acknowledged.clone());
    let mut before = 0;
    for statement in ["CHECKPOINT", "COMPACT", "SELECT 1"] {
        while acknowledged.load(Ordering::SeqCst) < before + 20 {
            std::thread::sleep(Duration::from_millis(5));
        }
        ok(&["sql", "--url", &url, "-c", statement]);
        before = acknowledged.load(Ordering::SeqCst);
        assert!(ok(&["backup", "--url", &url, "--to", &backup]).contains("the last in the backup"));
    }
    assert!(fails(&["backup", "--data", &data, "--to", &backup]).contains("--url"), "the directory is in use");
    assert!(fails(&["sql", "--url", &url, "-c", "BACKUP DATABASE TO 'x'"]).contains("absolute"));
    drop(server);
    writer.join().unwrap();
    assert!(fails(&["sql", "--data", &backup, "-c", "SELECT 1"]).contains("keyspan restore"));
    assert!(ok(&["check", "--data", &backup]).contains("no damage found"));
    assert!(
        fails(&["restore", "--from", &backup, "--data", &copy, "--until", "2001-01-01"]).contains("Its log allows")
    );
    ok(&["restore", "--from", &backup, "--data", &copy]);
    assert!(ok(&["check", "--data", &copy]).contains("no damage found"));
    let query = "SELECT count(*) AS n, max(n) + 1 AS m FROM w";
    let counted = ok(&["sql", "--data", &copy, "--format", "csv", "-c", query]);
    let (count, next) = counted.lines().nth(1).unwrap().split_once(',').unwrap();
    assert!(count == next && count.parse::<i64>().unwrap() >= before, "{before} acknowledged\n{counted}");
    assert_eq!(ok(&["sql", "--data", &copy, "--format", "csv", "-c", "SELECT count(*) AS n FROM t"]), "n\n2\n");
    assert!(fails(&["restore", "--from", &backup, "--data", &copy]).contains("not empty"));
    assert!(fails(&["backup", "--data", &copy, "--to", &backup]).contains("another database"));
    let second = format!("{root}/second");
    ok(&["backup", "--data", &copy, "--to", &second]);
    let told = ok(&["backup", "--data", &copy, "--to", &second]);
    assert!(told.contains(" 0 of them new; "), "{told}");
}

fn segments(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(segments(&path));
        } else if path.extension().is_some_and(|extension| extension == "parquet") {
            found.push(path);
        }
    }
    found
}

#[test]
fn the_demo_runs_twice_and_starts_over_when_told() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("demo").display().to_string();
    let first = ok(&["demo", "--data", &data, "--no-serve"]);
    assert!(first.contains("336,776 rows") && first.contains("The three read the same spans:"), "{first}");
    assert!(!first.contains('\u{1b}') && !first.contains('\r'), "no escapes where no terminal is");
    let second = ok(&["demo", "--data", &data, "--no-serve"]);
    assert!(second.contains("is there already") && !second.contains("rows/s"), "{second}");
    assert!(ok(&["demo", "--data", &data, "--no-serve", "--fresh"]).contains("rows/s"));
    let other = folder.path().display().to_string();
    assert!(fails(&["demo", "--data", &other, "--no-serve", "--fresh"]).contains("not a Keyspan data directory"));
    assert!(folder.path().join("demo").exists());
}

#[test]
fn wrong_arguments_are_exit_code_two() {
    let wrong: [&[&str]; 5] = [
        &["sql"],
        &["serve"],
        &["serve", "--data", "x", "--memory", "lots"],
        &["serve", "--data", "x", "--memory", "2000"],
        &["nonsense"],
    ];
    for arguments in wrong {
        assert_eq!(keyspan(arguments).status.code(), Some(2), "{arguments:?}");
    }
    for arguments in [["--log", "loud"], ["--listen", "5433"], ["--tls-cert", "x.pem"]] {
        assert!(fails(&["serve", "--data", "/nonexistent/x", arguments[0], arguments[1]]).starts_with("ERROR:  "));
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(ok(&["completions", shell]).contains("on-error"), "{shell}");
    }
}

#[test]
fn a_server_is_told_by_flags_the_environment_and_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let (file, data) = (folder.path().join("keyspan.toml"), folder.path().join("db").display().to_string());
    let write = |log: &str| {
        let listen = "listen = \"localhost:0\"\nmemory = \"256MB\"";
        fs::write(&file, format!("data = \"{data}\"\n{listen}\nlog = \"{log}\"\n")).unwrap();
    };
    write("warn");
    let command = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_keyspan"));
        command.args(arguments).env("KEYSPAN_CONFIG", &file).env("KEYSPAN_MEMORY", "512MB");
        command
    };
    let shown = text(&command(&["config", "--max-connections", "7"]).output().unwrap().stdout);
    for (setting, origin) in
        [("memory", "KEYSPAN_MEMORY"), ("listen", "line 2"), ("max_connections", "--max-connections")]
    {
        assert!(shown.lines().any(|line| line.starts_with(setting) && line.contains(origin)), "{shown}");
    }
    let mut child = command(&["serve"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = format!("postgres://{}", line.trim().strip_prefix("listening on ").unwrap());
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let server = Server(child);
    let show = "SHOW memory; SHOW data_directory;";
    assert_eq!(ok(&["sql", "--url", &url, "-Atc", show]), format!("512MB\n{data}\n"));
    // SIGHUP takes over the level of the log; what it has not been is not logged.
    write("info");
    assert!(Command::new("kill").args(["-HUP", &server.0.id().to_string()]).status().unwrap().success());
    line.clear();
    log.read_line(&mut line).unwrap();
    assert!(line.contains("the settings were read again"), "{line}");
}

#[test]
fn a_servers_rows_are_written_as_its_directorys() {
    let (_folder, root, data) = database();
    let table = "CREATE TABLE ty (k int PRIMARY KEY, d decimal(10,2), vi varint, u uuid, a int[], j jsonb, s set<text>,
            b blob, dt date, t time, ts timestamp, lt timestamp without time zone, du duration, ip inet, r real, bo boolean);
        INSERT INTO ty VALUES (1, 12.34, 12345678901234567890, '123e4567-e89b-12d3-a456-426614174000', ARRAY[1, NULL],
            '{\"a\": [1]}', {'x'}, '\\x0102', '2024-01-25', '10:00:00', '2024-01-25 10:00:00+00', '2024-01-25 10:00:00',
            '1mo2d3h', '10.0.0.1', 1.5, true);
        INSERT INTO ty (k) VALUES (2);";
    ok(&["sql", "--data", &data, "-c", table]);
    let export = |place: [&str; 2], name: &str| {
        let file = format!("{root}/{name}");
        ok(&["export", "--query", "SELECT * FROM ty ORDER BY k", place[0], place[1], "--to", &file]);
        fs::read(file).unwrap()
    };
    let names = ["x.csv", "x.ndjson"];
    let wanted = names.map(|name| export(["--data", &data], name));
    let (_server, url) = Server::start(&data);
    for (name, wanted) in names.iter().zip(wanted) {
        assert_eq!(text(&export(["--url", &url], name)), text(&wanted), "{name}");
    }
    for name in ["x.parquet", "x.arrow"] {
        export(["--url", &url], name);
        ok(&["import", &format!("{root}/{name}"), "--url", &url, "--into", "again", "--create", "--key", "k"]);
        let query = |table: &str| {
            let query = format!("SELECT k, d, vi, u, dt, t, ts, lt, r, bo FROM {table} ORDER BY k");
            ok(&["sql", "--url", &url, "--csv", "-c", &query])
        };
        assert_eq!(query("again"), query("ty"), "{name}");
        ok(&["sql", "--url", &url, "-c", "DROP TABLE again"]);
    }
}

/// `cargo run --release -- demo` names no package: so the members that are built by default have one program, this one.
#[test]
fn the_readmes_first_command_finds_the_program() {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md")).expect("reads");
    assert!(readme.contains("cargo run --release -- demo"));
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = cargo.output().expect("cargo runs");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let defaults = list(&metadata["workspace_default_members"]);
    let packages = list(&metadata["packages"]).into_iter().filter(|package| defaults.contains(&package["id"]));
    let targets = packages.flat_map(|package| list(&package["targets"]));
    let programs =
        targets.filter(|target| list(&target["kind"]).contains(&"bin".into())).map(|target| target["name"].clone());
    assert_eq!(programs.collect::<Vec<_>>(), ["keyspan"]);
}
