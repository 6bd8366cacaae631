//! Broken bytes never take the server down, nor other clients.

use std::time::Duration;

use fastrand::Rng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::client::{Client, bind, describe, execute, frame, parse, query, start_with, startup_packet, sync};
use crate::ServerOptions;

#[tokio::test]
async fn fuzzed_bytes_do_not_take_the_server_down() {
    let running = start_with(ServerOptions { max_message_bytes: 100_000, ..ServerOptions::default() }).await;
    let mut witness = Client::connect(&running).await;
    for seed in 1..=300 {
        let mut random = Rng::with_seed(seed);
        let bytes = conversation(&mut random);
        let mut client = Client::raw(running.address).await;
        // The server may close while bytes are still being written.
        let _ = client.socket.write_all(&bytes).await;
        let _ = client.socket.shutdown().await;
        let mut answer = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(10), client.socket.read_to_end(&mut answer)).await;
        assert!(read.is_ok(), "seed {seed}: the server neither answers nor closes");
    }
    assert_eq!(witness.kinds(&query("rows 1")).await, "TDCZ");
}

/// A plausible conversation with some bytes changed, cut or repeated.
fn conversation(random: &mut Rng) -> Vec<u8> {
    let mut bytes = startup_packet(0, &[("user", "ann")]);
    if random.usize(..4) > 0 {
        let whole = bytes.len();
        bytes.extend(requests(random));
        mutate(&mut bytes, whole, random);
    } else {
        bytes.extend(requests(random));
        mutate(&mut bytes, 0, random);
    }
    bytes
}

fn requests(random: &mut Rng) -> Vec<u8> {
    let count = 1 + random.usize(..12);
    let one = |random: &mut Rng| match random.usize(..12) {
        0 => query("rows 3; notice; begin"),
        1 => parse("s", "types int, text", &[23, 25]),
        2 => parse("", "types double, uuid, interval", &[]),
        3 => bind("p", "s", &[Some(b"7"), None]),
        4 => bind("", "", &[Some(b"1.5"), Some(b"x"), None]),
        5 => execute("p", random.usize(..5) as i32 - 2),
        6 => describe('S', "s"),
        7 => describe('P', "p"),
        8 => frame('C', b"Ss\0"),
        9 => [query("copy in"), frame('d', b"a\n"), frame('c', b"")].concat(),
        10 => query("rollback"),
        _ => sync(),
    };
    (0..count).flat_map(|_| one(random)).collect()
}

fn mutate(bytes: &mut Vec<u8>, from: usize, random: &mut Rng) {
    for _ in 0..random.usize(..6) {
        let at = from + random.usize(..bytes.len() - from);
        match random.usize(..4) {
            0 => bytes[at] = random.u8(..),
            1 => bytes[at] ^= 1 << random.usize(..8),
            2 => bytes.insert(at, random.u8(..)),
            _ if bytes.len() > from + 1 => drop(bytes.remove(at)),
            _ => {}
        }
    }
    if random.usize(..5) == 0 {
        let length = from + random.usize(..bytes.len() - from);
        bytes.truncate(length);
    }
}
