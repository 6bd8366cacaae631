//! Damaged files and directories of a newer format, as a client meets them: a clear error, and everything else goes on.

use std::path::{Path, PathBuf};

use keyspan::Database;
use keyspan_tests::target::serve;
use tokio_postgres::NoTls;

const ROWS: usize = 5_000;

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

fn segments(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(folder, &mut found);
    found.retain(|path| path.extension().is_some_and(|extension| extension == "parquet"));
    found.sort();
    found
}

/// A database of two tables, each in one segment; answers the first table's.
async fn written(folder: &Path) -> PathBuf {
    let database = Database::open(folder).unwrap();
    let mut session = database.session();
    let mut own = PathBuf::new();
    for (number, table) in ["hurt", "whole"].into_iter().enumerate() {
        let create = format!(
            "CREATE TABLE {table} (k int PRIMARY KEY, v text);
             INSERT INTO {table} SELECT n, md5(n::text) FROM generate_series(1, {ROWS}) AS s(n)"
        );
        session.execute(&create).await.unwrap();
        database.flush().await.unwrap();
        if number == 0 {
            own = segments(folder).pop().unwrap();
        }
    }
    drop(session);
    database.close().unwrap();
    own
}

/// Opens the directory, and asks for all of both tables and for what needs no table.
async fn check(folder: &Path, file: &Path, what: &str, code: &str) {
    let database = match Database::open(folder) {
        Ok(database) => database,
        Err(error) => panic!("{what}: the directory does not open: {error}"),
    };
    let server = serve(&database).await;
    let address = format!("host=127.0.0.1 port={} user=test dbname=test", server.local_addr().port());
    let (client, connection) = tokio_postgres::connect(&address, NoTls).await.unwrap();
    tokio::spawn(connection);
    for sql in ["SELECT count(v), min(v), max(v) FROM hurt", "SELECT * FROM hurt ORDER BY k DESC"] {
        let error = client.simple_query(sql).await.expect_err(what);
        let answer = error.as_db_error().unwrap_or_else(|| panic!("{what}: {error}"));
        assert_eq!(answer.code().code(), code, "{what}: {answer:?}");
        let name = file.file_stem().unwrap().to_str().unwrap();
        assert!(format!("{answer:?}").contains(name), "{what}: the file's name is missing: {answer:?}");
    }
    let row = client.query_one("SELECT count(v) FROM whole WHERE k > 0", &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), ROWS as i64);
    assert_eq!(client.execute("INSERT INTO whole VALUES (0, 'new')", &[]).await.unwrap(), 1);
    drop(client);
    server.stop().await.unwrap();
    database.close().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_segment_is_an_error_that_names_it_and_other_tables_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path()).await;
    let good = std::fs::read(&file).unwrap();
    let middle = good.len() / 2;
    let mut flipped = good.clone();
    flipped[middle] ^= 0x10;
    std::fs::write(&file, &flipped).unwrap();
    check(folder.path(), &file, "a flipped bit", "XX001").await;
    std::fs::write(&file, &good[..middle]).unwrap();
    check(folder.path(), &file, "a truncated file", "XX001").await;
    std::fs::remove_file(&file).unwrap();
    check(folder.path(), &file, "a missing file", "58030").await;
}

/// CRC-32C, bit by bit: what the format file ends with.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0x82F6_3B78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_of_a_newer_format_is_refused_by_name_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path()).await;
    let file = folder.path().join("KEYSPAN");
    let own = std::fs::read(&file).unwrap();
    let mut newer = own.clone();
    newer[8..12].copy_from_slice(&7_u32.to_le_bytes());
    let crc = crc32c(&newer[..44]);
    newer[44..48].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(&file, &newer).unwrap();
    let error = Database::open(folder.path()).unwrap_err();
    assert_eq!(error.sqlstate(), "XX002", "{error:?}");
    assert!(error.message.contains("KEYSPAN") && error.message.contains("format 7"), "{error:?}");
    assert_eq!(std::fs::read(&file).unwrap(), newer);
    std::fs::write(&file, &own).unwrap();
    let database = Database::open(folder.path()).unwrap();
    let rows = database.session().query("SELECT k FROM hurt WHERE k = 7", &[]).await.unwrap().collect().await.unwrap();
    assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1);
}
