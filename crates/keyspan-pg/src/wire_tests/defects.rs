//! One test and more for each defect that was measured in the stock loop.

use std::time::Duration;

use tokio::io::AsyncReadExt;

use super::client::{
    Client, bind, cancel, describe, execute, frame, parse, query, start, start_with, startup_packet, sync,
};
use crate::ServerOptions;

#[tokio::test]
async fn defect_1_a_startup_error_is_fatal() {
    let running = start().await;
    let bad_startups = [
        startup_packet(0, &[("user", "mallory")]),
        startup_packet(0, &[]),
        startup_packet(0, &[("user", "ann"), ("no_such_setting", "1")]),
        startup_packet(0, &[("user", "ann"), ("options", "-x")]),
        startup_packet(0, &[("user", "ann"), ("replication", "database")]),
        vec![0, 0, 0, 8, 0, 2, 0, 0],
        vec![0, 0, 0, 9, 0, 3, 0, 0, b'x'],
    ];
    for startup in bad_startups {
        let mut client = Client::raw(running.address).await;
        client.send(&[startup, query("rows 1")].concat()).await;
        let answers = client.rest().await;
        assert_eq!(answers.len(), 1, "{answers:?}");
        assert_eq!(answers[0].field('S').as_deref(), Some("FATAL"), "{answers:?}");
    }
}

#[tokio::test]
async fn defect_2_bytes_behind_an_encryption_request_are_not_executed() {
    let running = start().await;
    for request in [80_877_103_u32, 80_877_104] {
        let mut client = Client::raw(running.address).await;
        let negotiate = [&8_u32.to_be_bytes()[..], &request.to_be_bytes()].concat();
        client.send(&[negotiate, startup_packet(0, &[("user", "ann")]), query("rows 1")].concat()).await;
        let answers = client.rest().await;
        assert_eq!(answers.len(), 1, "{answers:?}");
        assert_eq!(answers[0].sqlstate(), "08P01");
    }
}

#[tokio::test]
async fn defect_3_any_max_rows_is_taken() {
    let running = start().await;
    let mut client = Client::connect(&running).await;
    for limit in [i32::MAX, -1, i32::MIN, 0] {
        let steps = [parse("", "rows 3", &[]), bind("", "", &[]), execute("", limit), sync()].concat();
        assert_eq!(client.kinds(&steps).await, "12DDDCZ", "{limit}");
    }
}

#[tokio::test]
async fn defect_4_extended_results_are_streamed() {
    let running = start().await;
    let mut client = Client::connect(&running).await;
    let before = resident_bytes();
    client.send(&[parse("", "endless", &[]), bind("", "", &[]), execute("", 0), sync()].concat()).await;
    for _ in 0..200_000 {
        let answer = client.read().await.expect("rows without end");
        assert!("12D".contains(answer.kind));
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 20_000_000, "26 MB of rows have gone by and {grown} bytes are held");
}

fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

#[tokio::test]
async fn defect_5_cancel_works_while_rows_stream_and_while_a_statement_runs() {
    let running = start().await;
    for minor in [0, 2] {
        let mut client = Client::connect_with(&running, minor, &[("user", "ann")]).await;
        assert_eq!(client.key.len(), if minor == 2 { 36 } else { 8 });
        let extended = [parse("", "endless", &[]), bind("", "", &[]), execute("", 0), sync()].concat();
        for request in [query("endless"), query("hang"), query("hang rows"), extended] {
            client.send(&request).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
            cancel(&running, &client.key).await;
            let answers = client.until('Z').await;
            assert_eq!(answers[answers.len() - 2].sqlstate(), "57014");
        }
        assert_eq!(client.kinds(&query("rows 1")).await, "TDCZ");
    }
}

#[tokio::test]
async fn defect_5_a_wrong_secret_and_an_idle_session_are_left_alone() {
    let running = start().await;
    let mut client = Client::connect(&running).await;
    cancel(&running, &client.key).await;
    assert_eq!(client.kinds(&query("rows 1")).await, "TDCZ");
    client.send(&query("hang")).await;
    let mut wrong = client.key.clone();
    wrong[7] ^= 1;
    cancel(&running, &wrong).await;
    let silence = tokio::time::timeout(Duration::from_millis(200), client.socket.read_u8()).await;
    assert!(silence.is_err(), "the statement still runs");
}

#[tokio::test]
async fn defect_5_a_client_that_goes_ends_its_statement() {
    let running = start_with(ServerOptions { max_connections: 1, ..ServerOptions::default() }).await;
    for statement in ["hang", "hang rows", "endless"] {
        let mut client = Client::connect(&running).await;
        client.send(&query(statement)).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(client);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert_eq!(Client::connect(&running).await.kinds(&query("rows 1")).await, "TDCZ");
}

#[tokio::test]
async fn defect_6_large_frames_are_refused_before_they_are_read() {
    let running = start_with(ServerOptions { max_message_bytes: 1000, ..ServerOptions::default() }).await;
    let mut client = Client::raw(running.address).await;
    client.send(&[&200_000_000_u32.to_be_bytes()[..], &[0, 3, 0, 0]].concat()).await;
    assert_eq!(client.rest().await[0].sqlstate(), "08P01");
    for (head, sqlstate) in [
        (&b"Q\0\0\x03\xe9"[..], "54000"),
        (b"E\0\0\xff\xff", "54000"),
        (b"Q\xff\xff\xff\xff", "08P01"),
        (b"Q\0\0\0\x03", "08P01"),
        (b"?\0\0\0\x04", "08P01"),
    ] {
        let mut client = Client::connect(&running).await;
        client.send(head).await;
        let answers = client.rest().await;
        assert_eq!(answers[0].sqlstate(), sqlstate, "{head:?}");
        assert_eq!(answers[0].field('S').as_deref(), Some("FATAL"));
    }
}

#[tokio::test]
async fn defect_7_only_what_the_channel_can_do_is_offered() {
    let running = start().await;
    let mut client = Client::raw(running.address).await;
    client.send(&[&8_u32.to_be_bytes()[..], &80_877_103_u32.to_be_bytes()].concat()).await;
    assert_eq!(client.socket.read_u8().await.expect("an answer"), b'N');
    client.send(&startup_packet(0, &[("user", "ann")])).await;
    let answers = client.until('Z').await;
    assert_eq!((answers[0].kind, answers[0].body.as_slice()), ('R', &[0; 4][..]));
}

#[tokio::test]
async fn defect_8_malformed_requests_are_errors_as_in_postgres() {
    let running = start().await;
    let mut client = Client::connect(&running).await;
    let prepared = [parse("s", "rows 1", &[]), sync()].concat();
    assert_eq!(client.kinds(&prepared).await, "1Z");
    let result_formats = frame('B', b"\0s\0\0\0\0\0\0\x03\0\0\0\0\0\0");
    let format_code = frame('B', b"\0s\0\0\0\0\0\0\x01\0\x07");
    for (request, sqlstate) in [
        (frame('E', b"\0\0"), "08P01"),
        (frame('E', b""), "08P01"),
        (frame('D', b""), "08P01"),
        (frame('D', b"Q\0"), "08P01"),
        (frame('C', b"?\0"), "08P01"),
        (bind("", "s", &[Some(b"1")]), "08P01"),
        (result_formats, "08P01"),
        (format_code, "22023"),
        (parse("s", "rows 1", &[]), "42P05"),
        (parse("", "rows 1; rows 2", &[]), "42601"),
        (parse("", "types int", &[600]), "0A000"),
        (bind("", "nowhere", &[]), "26000"),
        (execute("nowhere", 0), "34000"),
        (describe('S', "nowhere"), "26000"),
        (describe('P', "nowhere"), "34000"),
        (frame('F', b"\0\0\0\0"), "0A000"),
    ] {
        if request[0] == b'F' {
            assert_eq!(client.failure(&request).await, sqlstate);
            continue;
        }
        assert_eq!(client.failure(&[request.clone(), sync()].concat()).await, sqlstate, "{request:?}");
    }
    assert_eq!(client.kinds(&query("rows 1")).await, "TDCZ");
}

#[tokio::test]
async fn defect_9_each_result_leaves_when_its_statement_has_run() {
    let running = start().await;
    let mut client = Client::connect(&running).await;
    // Enough rows to fill the buffer: they must not wait for the statement that hangs.
    client.send(&query("rows 2000; hang")).await;
    for expected in ["T", "D"] {
        assert_eq!(client.read().await.expect("an answer").kind.to_string(), expected);
    }
    cancel_until_done(&running, &mut client).await;
}

async fn cancel_until_done(running: &super::client::Running, client: &mut Client) {
    tokio::time::sleep(Duration::from_millis(100)).await;
    cancel(running, &client.key).await;
    let answers = client.until('Z').await;
    assert_eq!(answers[answers.len() - 2].sqlstate(), "57014");
}

#[tokio::test]
async fn defect_9_a_small_result_does_not_wait_either() {
    let running = start().await;
    let mut client = Client::connect(&running).await;
    client.send(&query("rows 1; hang")).await;
    for expected in ["T", "D", "C"] {
        assert_eq!(client.read().await.expect("an answer").kind.to_string(), expected);
    }
    cancel_until_done(&running, &mut client).await;
}
