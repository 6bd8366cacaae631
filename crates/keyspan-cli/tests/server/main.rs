//! A server in a process of its own, and what is done to it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod backup;
mod full;
mod kill;
mod memory;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use bytes::Bytes;
use fastrand::Rng;
use futures::SinkExt;
use tokio_postgres::{Client, NoTls};

/// Killed when it is dropped.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(data: &Path) -> Server {
        Server::spawn(Command::new(env!("CARGO_BIN_EXE_keyspan")), data, &[])
    }

    fn spawn(mut program: Command, data: &Path, arguments: &[&str]) -> Server {
        let mut child = program
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().rsplit(':').next().and_then(|port| port.parse().ok());
        Server { child, port: port.unwrap_or_else(|| panic!("no port in {line:?}")) }
    }

    async fn connect(&self) -> Client {
        connect(self.port).await
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn connect(port: u16) -> Client {
    let address = format!("host=127.0.0.1 port={port} user=test dbname=test");
    let (client, connection) = tokio_postgres::connect(&address, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Copies rows in the text format; answers how many were acknowledged.
async fn copy(client: &Client, table: &str, lines: String) -> Result<u64, tokio_postgres::Error> {
    let mut sink = std::pin::pin!(client.copy_in(&format!("COPY {table} FROM STDIN")).await?);
    sink.send(Bytes::from(lines)).await?;
    sink.finish().await
}

/// A text of 400 bytes that does not compress to less than half.
fn noise(random: &mut Rng) -> String {
    (0..25).map(|_| format!("{:016x}", random.u64(..))).collect()
}

/// The SQLSTATE of a server's error; of another error its text.
fn sqlstate(error: &tokio_postgres::Error) -> String {
    error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned())
}
