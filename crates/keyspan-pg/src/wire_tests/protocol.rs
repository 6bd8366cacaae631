//! The two protocols, COPY, and the server's way down, as Postgres does them.

use std::time::Duration;

use super::client::{Client, bind, describe, execute, frame, parse, query, start, start_with, sync};
use crate::ServerOptions;

#[tokio::test]
async fn addresses_beyond_loopback_are_refused() {
    let listen = "0.0.0.0:0".parse().expect("an address");
    let options = ServerOptions { listen, ..ServerOptions::default() };
    let error = crate::Server::bind(crate::engine::Database::default(), options).await.expect_err("not loopback");
    assert_eq!(error.sqlstate(), "42501");
}

#[tokio::test]
async fn startup_tells_the_settings_and_negotiates() {
    let running = start().await;
    let mut client = Client::raw(running.address).await;
    let parameters = [("user", "ann"), ("TimeZone", "Europe/Rome"), ("_pq_.x", "1")];
    client.send(&super::client::startup_packet(9, &parameters)).await;
    let answers = client.until('Z').await;
    assert_eq!(answers[0].kind, 'v');
    assert_eq!(answers[0].body, b"\0\x03\0\x02\0\0\0\x01_pq_.x\0");
    assert!(answers.iter().any(|answer| answer.kind == 'S' && answer.body == b"TimeZone\0Europe/Rome\0"));
}

#[tokio::test]
async fn too_many_clients_are_told_so() {
    let running = start_with(ServerOptions { max_connections: 1, ..ServerOptions::default() }).await;
    let _first = Client::connect(&running).await;
    let mut second = Client::raw(running.address).await;
    second.send(&super::client::startup_packet(0, &[("user", "ann")])).await;
    assert_eq!(second.rest().await[0].sqlstate(), "53300");
}

#[tokio::test]
async fn simple_queries_answer_statement_by_statement() {
    let running = start().await;
    let mut client = Client::connect(&running).await;
    assert_eq!(client.kinds(&query("")).await, "IZ");
    assert_eq!(client.kinds(&query(" ; ")).await, "IZ");
    assert_eq!(client.kinds(&query("rows 2")).await, "TDDCZ");
    assert_eq!(client.kinds(&query("rows 1; notice; rows 1")).await, "TDCNCTDCZ");
    assert_eq!(client.kinds(&query("set Asia/Tokyo")).await, "SCZ");
    assert_eq!(client.kinds(&query("rows 1; fail; rows 1")).await, "TDCEZ");
    assert_eq!(client.kinds(&query("rows 1; syntax error")).await, "EZ");
    assert_eq!(client.kinds(&query("fail late")).await, "TDDDDDDDDDDEZ");
    assert_eq!(*running.database.ends.lock(), ["commit", "undo"]);
}

#[tokio::test]
async fn columns_that_have_changed_are_told_before_bind_completes() {
    let running = start().await;
    let mut client = Client::connect(&running).await;
    let run = [bind("", "", &[]), describe('P', ""), execute("", 0), sync()].concat();
    assert_eq!(client.kinds(&[parse("", "rows 1", &[]), run.clone()].concat()).await, "12TDCZ");
    client.send(&[parse("", "altered", &[]), run].concat()).await;
    let answers = client.until('Z').await;
    assert_eq!(answers.iter().map(|answer| answer.kind).collect::<String>(), "1EZ");
    assert_eq!(answers[1].sqlstate(), "0A000");
}

#[tokio::test]
async fn errors_carry_their_position_and_the_transaction_its_status() {
    let running = start().await;
    let mut client = Client::connect(&running).await;
    client.send(&query("fail")).await;
    let answers = client.until('Z').await;
    assert_eq!(answers[0].field('P').as_deref(), Some("6"));
    assert_eq!(answers[0].field('V').as_deref(), Some("ERROR"));
    for (statement, status) in [("begin", "T"), ("fail", "E"), ("rows 1", "E"), ("rollback", "I")] {
        client.send(&query(statement)).await;
        let answers = client.until('Z').await;
        assert_eq!(answers.last().expect("ready").text(), status, "after {statement}");
    }
}

#[tokio::test]
async fn statements_are_described_with_parameters_and_columns() {
    let running = start().await;
    let mut client = Client::connect(&running).await;
    client.send(&[parse("s", "types int, text, timestamp", &[0, 1043]), describe('S', "s"), sync()].concat()).await;
    let answers = client.until('Z').await;
    let oids: Vec<u8> = [23_u32, 1043, 1184].into_iter().flat_map(u32::to_be_bytes).collect();
    assert_eq!(answers[1].body, [&[0, 3][..], &oids].concat());
    assert_eq!(answers[2].kind, 'T');
    let bound = bind("p", "s", &[Some(b"7"), None, Some(b"2024-01-25 10:00+02")]);
    client.send(&[bound, describe('P', "p"), execute("p", 0), sync()].concat()).await;
    let answers = client.until('Z').await;
    let kinds: String = answers.iter().map(|answer| answer.kind).collect();
    assert_eq!(kinds, "2TDCZ");
    assert_eq!(answers[2].body, b"\0\x03\0\0\0\x017\xff\xff\xff\xff\0\0\0\x162024-01-25 08:00:00+00");
    assert_eq!(client.kinds(&[parse("", "begin", &[]), describe('S', ""), sync()].concat()).await, "1tnZ");
    assert_eq!(
        client
            .kinds(&[parse("", "", &[]), bind("", "", &[]), describe('P', ""), execute("", 0), sync()].concat())
            .await,
        "12nIZ"
    );
}

#[tokio::test]
async fn portals_stop_at_their_limit_and_go_on() {
    let running = start().await;
    let mut client = Client::connect(&running).await;
    assert_eq!(client.kinds(&query("begin")).await, "CZ");
    let opened = [parse("s", "rows 5", &[]), bind("p", "s", &[]), execute("p", 2), sync()].concat();
    assert_eq!(client.kinds(&opened).await, "12DDsZ");
    assert_eq!(client.kinds(&[execute("p", 2), sync()].concat()).await, "DDsZ");
    assert_eq!(client.kinds(&[execute("p", 2), sync()].concat()).await, "DCZ");
    client.send(&[execute("p", 2), sync()].concat()).await;
    assert_eq!(client.until('Z').await[0].text(), "SELECT 0");
    assert_eq!(client.failure(&[bind("p", "s", &[]), sync()].concat()).await, "42P03");
    assert_eq!(client.kinds(&query("rollback")).await, "CZ");
    assert_eq!(client.failure(&[execute("p", 2), sync()].concat()).await, "34000");
}

#[tokio::test]
async fn portals_outside_a_transaction_end_at_sync() {
    let running = start().await;
    let mut client = Client::connect(&running).await;
    let opened = [parse("", "rows 5", &[]), bind("p", "", &[]), execute("p", 2), sync()].concat();
    assert_eq!(client.kinds(&opened).await, "12DDsZ");
    assert_eq!(client.failure(&[execute("p", 2), sync()].concat()).await, "34000");
}

#[tokio::test]
async fn after_an_error_everything_is_skipped_up_to_sync() {
    let running = start().await;
    let mut client = Client::connect(&running).await;
    let steps =
        [parse("", "fail", &[]), bind("", "", &[]), execute("", 0), execute("", 0), parse("x", "rows 1", &[])].concat();
    assert_eq!(client.kinds(&[steps, sync()].concat()).await, "12EZ");
    assert_eq!(client.failure(&[bind("", "x", &[]), sync()].concat()).await, "26000");
    assert_eq!(*running.database.ends.lock(), ["undo"]);
}

#[tokio::test]
async fn pipelined_statements_are_one_transaction_and_a_lone_one_is_its_own() {
    let running = start().await;
    let mut client = Client::connect(&running).await;
    let one = [parse("", "rows 1", &[]), bind("", "", &[]), execute("", 0)].concat();
    assert_eq!(client.kinds(&[one.clone(), sync()].concat()).await, "12DCZ");
    assert!(running.database.ends.lock().is_empty());
    assert_eq!(client.kinds(&[one.clone(), one.clone(), sync()].concat()).await, "12DC12DCZ");
    assert_eq!(*running.database.ends.lock(), ["commit"]);
    client.send(&[one, frame('H', b"")].concat()).await;
    assert_eq!(client.until('C').await.len(), 4);
    assert_eq!(client.kinds(&sync()).await, "Z");
}

#[tokio::test]
async fn named_statements_can_be_deallocated_and_closed() {
    let running = start().await;
    let mut client = Client::connect(&running).await;
    assert_eq!(client.kinds(&[parse("s", "rows 1", &[]), sync()].concat()).await, "1Z");
    assert_eq!(client.kinds(&query("deallocate s")).await, "CZ");
    assert_eq!(
        client.kinds(&[parse("s", "rows 1", &[]), frame('C', b"Ss\0"), frame('C', b"Sno\0"), sync()].concat()).await,
        "133Z"
    );
    assert_eq!(client.failure(&[bind("", "s", &[]), sync()].concat()).await, "26000");
}

#[tokio::test]
async fn a_cursor_of_the_language_can_be_described() {
    let running = start().await;
    let mut client = Client::connect(&running).await;
    assert_eq!(client.kinds(&[describe('P', "cursor"), sync()].concat()).await, "TZ");
}

#[tokio::test]
async fn a_pipeline_is_answered_at_sync_and_flush() {
    let running = start().await;
    let mut client = Client::connect(&running).await;
    client.send(&[parse("", "rows 1", &[]), bind("", "", &[])].concat()).await;
    let early = tokio::time::timeout(Duration::from_millis(200), client.until('2')).await;
    assert!(early.is_err(), "answered before it was asked for: {early:?}");
    client.send(&frame('H', b"")).await;
    assert_eq!(client.until('2').await.len(), 2);
    assert_eq!(client.kinds(&[execute("", 0), sync()].concat()).await, "DCZ");
}

#[tokio::test]
async fn portals_and_cursors_share_their_names() {
    let running = start().await;
    let mut client = Client::connect(&running).await;
    let portal = [parse("", "rows 4", &[]), bind("p", "", &[]), execute("p", 1), frame('H', b"")].concat();
    client.send(&portal).await;
    client.until('s').await;
    client.send(&[parse("", "declare p", &[]), bind("", "", &[]), execute("", 0), sync()].concat()).await;
    let answers = client.until('Z').await;
    let error = answers.iter().find(|answer| answer.kind == 'E').expect("a portal has this name");
    assert!(String::from_utf8_lossy(&error.body).contains("42P03"));
    assert_eq!(client.failure(&[parse("", "rows 4", &[]), bind("cursor", "", &[]), sync()].concat()).await, "42P03");
    let close = [parse("", "rows 4", &[]), bind("p", "", &[]), parse("", "close p", &[]), bind("", "", &[])].concat();
    let again = [execute("", 0), bind("p", "", &[]), sync()].concat();
    client.send(&[close, again].concat()).await;
    let kinds: String = client.until('Z').await.iter().map(|answer| answer.kind).collect();
    assert_eq!(kinds, "1212C2Z");
}

#[tokio::test]
async fn copy_in_takes_pieces_and_skips_the_rest_after_an_error() {
    let running = start().await;
    let mut client = Client::connect(&running).await;
    client.send(&query("copy in")).await;
    assert_eq!(client.until('G').await[0].body, [0, 0, 1, 0, 0]);
    client.send(&[frame('d', b"one\ntw"), frame('H', b""), frame('d', b"o\n"), frame('c', b"")].concat()).await;
    let answers = client.until('Z').await;
    assert_eq!(answers[0].text(), "COPY 2");
    assert_eq!(*running.database.copied.lock(), b"one\ntwo\n");

    client.send(&query("copy in")).await;
    client.until('G').await;
    assert_eq!(client.failure(&frame('f', b"changed my mind\0")).await, "57014");
    client.send(&query("copy in")).await;
    client.until('G').await;
    assert_eq!(client.failure(&[frame('d', b"bad\n"), frame('d', b"more\n"), frame('c', b"")].concat()).await, "22P04");
    let extended = [parse("", "copy in", &[]), bind("", "", &[]), execute("", 0)].concat();
    assert_eq!(client.kinds(&[extended, frame('d', b"x\n"), frame('c', b""), sync()].concat()).await, "12GCZ");
}

#[tokio::test]
async fn copy_out_sends_a_row_a_message() {
    let running = start().await;
    let mut client = Client::connect(&running).await;
    let mut copied = async |format: &str| {
        client.send(&query(&format!("copy {format}"))).await;
        let answers = client.until('Z').await;
        let tag = answers[answers.len() - 2].text();
        assert_eq!(tag, "COPY 4");
        answers.into_iter().filter(|answer| answer.kind == 'd').map(|answer| answer.body).collect::<Vec<_>>()
    };
    let text: [&[u8]; 4] = [b"1\ta\\tb\\\\\n", b"2\t\\N\n", b"3\tsay \"hi\", you\n", b"4\t\n"];
    assert_eq!(copied("text").await, text);
    let csv: [&[u8]; 5] = [b"n,t\n", b"1,a\tb\\\n", b"2,\n", b"3,\"say \"\"hi\"\", you\"\n", b"4,\"\"\n"];
    assert_eq!(copied("csv").await, csv);
    let binary = copied("binary").await;
    assert!(binary[0].starts_with(b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x02"), "the header leads the first row");
    assert_eq!(binary[1], b"\0\x02\0\0\0\x08\0\0\0\0\0\0\0\x02\xff\xff\xff\xff");
    assert_eq!(binary[4], [255, 255]);
}

#[tokio::test]
async fn a_panic_ends_its_connection_and_no_other() {
    let running = start().await;
    let mut other = Client::connect(&running).await;
    let mut client = Client::connect(&running).await;
    client.send(&query("panic")).await;
    let answers = client.rest().await;
    assert_eq!((answers[0].sqlstate().as_str(), answers[0].field('S').as_deref()), ("XX000", Some("FATAL")));
    assert_eq!(other.kinds(&query("rows 1")).await, "TDCZ");
}

#[tokio::test]
async fn shutdown_tells_idle_clients_and_waits_for_statements() {
    let mut running = start().await;
    let mut idle = Client::connect(&running).await;
    let mut busy = Client::connect(&running).await;
    busy.send(&query("hang")).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let stopping = tokio::spawn(running.server.take().expect("it runs").stop());
    let answers = idle.rest().await;
    assert_eq!((answers[0].sqlstate().as_str(), answers[0].field('S').as_deref()), ("57P01", Some("FATAL")));
    assert_eq!(busy.rest().await[0].sqlstate(), "57P01");
    let stopped = tokio::time::timeout(Duration::from_secs(5), stopping).await.expect("in time");
    assert_eq!(stopped.expect("no panic"), Ok(()));
}

#[tokio::test]
async fn a_slow_reader_is_waited_for() {
    let running = start().await;
    let mut client = Client::connect(&running).await;
    client.send(&query(&format!("wide {}", 5_000_000))).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let answers = client.until('Z').await;
    assert_eq!(answers[1].body.len(), 2 + 4 + 5_000_000);
}
