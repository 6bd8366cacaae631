//! A driver that describes everything and speaks binary: tokio-postgres.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use futures::{SinkExt, StreamExt};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls};

use super::client::{Running, start};

async fn connect(running: &Running) -> Client {
    let config = format!("host=127.0.0.1 port={} user=ann dbname=demo", running.address.port());
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

#[tokio::test]
async fn a_driver_round_trips_values_in_binary() {
    let running = start().await;
    let client = connect(&running).await;
    let statement = "types boolean, smallint, int, bigint, real, double, text, blob, timestamp, inet, text";
    let address: IpAddr = "2001:db8::1".parse().expect("an address");
    let time = SystemTime::UNIX_EPOCH + Duration::from_micros(1_706_176_800_250_000);
    let none: Option<String> = None;
    let parameters: [&(dyn ToSql + Sync); 11] = [
        &true,
        &-7_i16,
        &70_000_i32,
        &(1_i64 << 60),
        &0.5_f32,
        &0.1_f64,
        &"naïve",
        &&b"\0\xff"[..],
        &time,
        &address,
        &none,
    ];
    let row = client.query_one(statement, &parameters).await.expect("a row");
    assert!(row.get::<_, bool>(0));
    assert_eq!((row.get::<_, i16>(1), row.get::<_, i32>(2), row.get::<_, i64>(3)), (-7, 70_000, 1 << 60));
    assert_eq!((row.get::<_, f32>(4), row.get::<_, f64>(5)), (0.5, 0.1));
    assert_eq!((row.get::<_, &str>(6), row.get::<_, &[u8]>(7)), ("naïve", &b"\0\xff"[..]));
    assert_eq!((row.get::<_, SystemTime>(8), row.get::<_, IpAddr>(9)), (time, address));
    assert_eq!(row.get::<_, Option<&str>>(10), None);
}

#[tokio::test]
async fn a_driver_reads_a_portal_in_pieces() {
    let running = start().await;
    let mut client = connect(&running).await;
    let transaction = client.transaction().await.expect("begin");
    let portal = transaction.bind("rows 5", &[]).await.expect("a portal");
    let mut sizes = Vec::new();
    for _ in 0..3 {
        sizes.push(transaction.query_portal(&portal, 2).await.expect("rows").len());
    }
    assert_eq!(sizes, [2, 2, 1]);
    transaction.commit().await.expect("commit");
}

#[tokio::test]
async fn a_driver_cancels_and_goes_on() {
    let running = start().await;
    let client = connect(&running).await;
    let token = client.cancel_token();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        token.cancel_query(NoTls).await.expect("a cancel request");
    });
    let error = client.query("endless", &[]).await.expect_err("canceled");
    assert_eq!(error.code().map(|code| code.code()), Some("57014"));
    assert_eq!(client.query("rows 3", &[]).await.expect("rows").len(), 3);
}

#[tokio::test]
async fn a_driver_copies_in_and_out() {
    let running = start().await;
    let client = connect(&running).await;
    let sink = client.copy_in::<_, bytes::Bytes>("copy in").await.expect("a COPY");
    futures::pin_mut!(sink);
    sink.send("a\nb\n".into()).await.expect("taken");
    assert_eq!(sink.finish().await.expect("finished"), 2);
    let stream = client.copy_out("copy out").await.expect("a COPY");
    assert_eq!(stream.count().await, 4);
}
