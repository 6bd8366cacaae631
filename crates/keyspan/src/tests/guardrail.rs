//! Limits on partitions and on dead rows: WARNINGs, and errors that leave nothing half done.

use super::{error, open, rows, run};

#[tokio::test]
async fn deleted_rows_that_are_read_are_counted() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE queue (q text, n int, v int, PRIMARY KEY (q, n))").await;
    run(&mut s, "INSERT INTO queue SELECT 'a', g, g FROM generate_series(1, 500) AS s(g)").await;
    run(&mut s, "INSERT INTO queue VALUES ('b', 1, 1)").await;
    for n in 1..=100 {
        run(&mut s, &format!("DELETE FROM queue WHERE q = 'a' AND n = {n}")).await;
    }
    let all = "SELECT count(*), sum(v) FROM queue WHERE q = 'a'";
    let expected = format!("400 {}", (101..=500).sum::<i32>());
    assert_eq!(rows(&mut s, all).await, [expected.as_str()]);
    run(&mut s, "SET tombstones_warn = 99").await;
    s.take_notices();
    assert_eq!(rows(&mut s, all).await, [expected.as_str()]);
    let told: Vec<String> = s.take_notices().into_iter().map(|notice| notice.message).collect();
    assert!(told.len() == 1 && told[0].contains("tombstones_warn allows: 99"), "{told:?}");
    run(&mut s, "SET tombstones_warn = 100").await;
    assert_eq!(rows(&mut s, all).await, [expected.as_str()]);
    assert!(s.take_notices().is_empty(), "as many as are allowed");
    run(&mut s, "SET tombstones_fail = 99").await;
    let refused = error(&mut s, all).await;
    assert_eq!((refused.sqlstate(), refused.message.contains("tombstones_fail")), ("54000", true), "{refused:?}");
    assert_eq!(rows(&mut s, "SELECT v FROM queue WHERE q = 'a' AND n > 498").await, ["499", "500"]);
    assert_eq!(rows(&mut s, "SELECT count(*) FROM queue WHERE q = 'b'").await, ["1"]);
    let refused = error(&mut s, "UPDATE queue SET v = 0 WHERE q = 'a'").await;
    assert_eq!(refused.sqlstate(), "54000");
    // Behind the last live row, too.
    run(&mut s, "INSERT INTO queue SELECT 'c', g, g FROM generate_series(1, 200) AS s(g)").await;
    for n in 1..=200 {
        run(&mut s, &format!("DELETE FROM queue WHERE q = 'c' AND n = {n}")).await;
    }
    assert_eq!(error(&mut s, "SELECT count(*) FROM queue WHERE q = 'c'").await.sqlstate(), "54000");
    assert_eq!(error(&mut s, "SELECT n FROM queue WHERE q = 'c' ORDER BY n LIMIT 1").await.sqlstate(), "54000");
    run(&mut s, "RESET tombstones_fail").await;
    assert_eq!(rows(&mut s, all).await, [expected.as_str()], "nothing was updated");
}

#[tokio::test]
async fn large_partitions_are_told_and_refused() {
    let (_database, mut s) = open();
    run(&mut s, "CREATE TABLE p (k text, n int, v text, f family<text, int>, PRIMARY KEY (k, n))").await;
    run(&mut s, "SET partition_size_warn = '64kB'; SET partition_size_fail = '1MB'").await;
    run(&mut s, "INSERT INTO p (k, n, v) SELECT 'a', g, 'v' FROM generate_series(1, 5000) AS s(g)").await;
    run(&mut s, "INSERT INTO p (k, n, v) VALUES ('b', 1, 'v')").await;
    assert!(s.take_notices().is_empty(), "it was empty before");
    run(&mut s, "INSERT INTO p (k, n, v) VALUES ('b', 2, 'v'), ('a', 0, 'v')").await;
    let told: Vec<String> = s.take_notices().into_iter().map(|notice| notice.message).collect();
    assert!(told.len() == 1 && told[0].contains("partition_size_warn is 0.1 MB"), "{told:?}");
    run(&mut s, "SET partition_size_warn = 0; SET partition_size_fail = '64kB'").await;
    let refused = error(&mut s, "INSERT INTO p (k, n, v) VALUES ('b', 3, 'v'), ('a', -1, 'v')").await;
    assert_eq!((refused.sqlstate(), refused.message.contains("table \"p\"")), ("54000", true), "{refused:?}");
    assert_eq!(error(&mut s, "UPDATE p SET f['x'] = 1 WHERE k = 'a' AND n = 1").await.sqlstate(), "54000");
    let more = "INSERT INTO p (k, n, v) SELECT 'a', g, 'v' FROM generate_series(6000, 8000) AS s(g)";
    assert_eq!(error(&mut s, more).await.sqlstate(), "54000");
    run(&mut s, "DELETE FROM p WHERE k = 'a' AND n = 1").await;
    assert_eq!(rows(&mut s, "SELECT k, count(*) FROM p GROUP BY k ORDER BY k").await, ["a 5000", "b 2"]);
}
