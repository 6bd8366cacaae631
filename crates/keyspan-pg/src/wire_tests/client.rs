//! A client that sends exactly the bytes that a test wants.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::engine::Database;
use crate::{RunningServer, Server, ServerOptions};

/// A server of a scripted database; it stops when dropped.
pub(super) struct Running {
    pub(super) address: SocketAddr,
    pub(super) database: Database,
    pub(super) server: Option<RunningServer>,
}

pub(super) async fn start() -> Running {
    start_with(ServerOptions::default()).await
}

pub(super) async fn start_with(options: ServerOptions) -> Running {
    let listen = ServerOptions::loopback(0).listen;
    let options = ServerOptions { listen, shutdown_grace: Duration::from_millis(200), ..options };
    let database = Database::default();
    let server = Server::bind(database.clone(), options).await.expect("a free port").start();
    Running { address: server.local_addr(), database, server: Some(server) }
}

/// A message of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) kind: char,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// A field of an error or notice.
    pub(super) fn field(&self, code: char) -> Option<String> {
        let fields = self.body.split(|byte| *byte == 0).filter(|field| !field.is_empty());
        let text = fields.map(|field| String::from_utf8_lossy(field).into_owned());
        text.into_iter().find(|field| field.starts_with(code)).map(|field| field[1..].to_owned())
    }

    pub(super) fn sqlstate(&self) -> String {
        assert_eq!(self.kind, 'E', "an error was expected: {self:?}");
        self.field('C').expect("an error has a SQLSTATE")
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).trim_end_matches('\0').to_owned()
    }
}

pub(super) struct Client {
    pub(super) socket: TcpStream,
    /// Process and secret, as a cancel request sends them.
    pub(super) key: Vec<u8>,
}

pub(super) fn startup_packet(minor: u16, parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = vec![0, 3];
    body.extend(minor.to_be_bytes());
    for (name, value) in parameters {
        body.extend([name.as_bytes(), b"\0", value.as_bytes(), b"\0"].concat());
    }
    body.push(0);
    [&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat()
}

pub(super) fn frame(kind: char, body: &[u8]) -> Vec<u8> {
    [&[kind as u8], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}

pub(super) fn query(sql: &str) -> Vec<u8> {
    frame('Q', &[sql.as_bytes(), b"\0"].concat())
}

pub(super) fn parse(name: &str, sql: &str, oids: &[u32]) -> Vec<u8> {
    let mut body = [name.as_bytes(), b"\0", sql.as_bytes(), b"\0"].concat();
    body.extend((oids.len() as u16).to_be_bytes());
    body.extend(oids.iter().flat_map(|oid| oid.to_be_bytes()));
    frame('P', &body)
}

pub(super) fn bind(portal: &str, statement: &str, parameters: &[Option<&[u8]>]) -> Vec<u8> {
    let mut body = [portal.as_bytes(), b"\0", statement.as_bytes(), b"\0\0\0"].concat();
    body.extend((parameters.len() as u16).to_be_bytes());
    for parameter in parameters {
        match parameter {
            None => body.extend((-1_i32).to_be_bytes()),
            Some(bytes) => body.extend([&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()),
        }
    }
    body.extend([0, 0]);
    frame('B', &body)
}

pub(super) fn execute(portal: &str, limit: i32) -> Vec<u8> {
    frame('E', &[portal.as_bytes(), b"\0", &limit.to_be_bytes()].concat())
}

pub(super) fn describe(kind: char, name: &str) -> Vec<u8> {
    frame('D', &[&[kind as u8], name.as_bytes(), b"\0"].concat())
}

pub(super) fn sync() -> Vec<u8> {
    frame('S', b"")
}

impl Client {
    pub(super) async fn raw(address: SocketAddr) -> Client {
        Client { socket: TcpStream::connect(address).await.expect("a connection"), key: Vec::new() }
    }

    pub(super) async fn connect(running: &Running) -> Client {
        Client::connect_with(running, 0, &[("user", "ann")]).await
    }

    pub(super) async fn connect_with(running: &Running, minor: u16, parameters: &[(&str, &str)]) -> Client {
        let mut client = Client::raw(running.address).await;
        client.send(&startup_packet(minor, parameters)).await;
        for answer in client.until('Z').await {
            if answer.kind == 'K' {
                client.key = answer.body;
            }
        }
        client
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).await.expect("the server reads");
    }

    /// The next message; none at the end of the connection.
    pub(super) async fn read(&mut self) -> Option<Answer> {
        let read = async {
            let kind = self.socket.read_u8().await.ok()?;
            let length = self.socket.read_u32().await.ok()?;
            let mut body = vec![0; length as usize - 4];
            self.socket.read_exact(&mut body).await.ok()?;
            Some(Answer { kind: char::from(kind), body })
        };
        tokio::time::timeout(Duration::from_secs(20), read).await.expect("the server answers in time")
    }

    /// Messages up to and with the first of this kind.
    pub(super) async fn until(&mut self, kind: char) -> Vec<Answer> {
        let mut answers = Vec::new();
        loop {
            let answer = self.read().await.unwrap_or_else(|| panic!("the connection ended after {answers:?}"));
            answers.push(answer);
            if answers.last().is_some_and(|answer| answer.kind == kind) {
                return answers;
            }
        }
    }

    /// All messages up to the end of the connection.
    pub(super) async fn rest(&mut self) -> Vec<Answer> {
        let mut answers = Vec::new();
        while let Some(answer) = self.read().await {
            answers.push(answer);
        }
        answers
    }

    /// Sends, and answers the kinds of the messages up to ReadyForQuery.
    pub(super) async fn kinds(&mut self, bytes: &[u8]) -> String {
        self.send(bytes).await;
        self.until('Z').await.iter().map(|answer| answer.kind).collect()
    }

    /// Sends, and answers the SQLSTATE of the error that comes before ReadyForQuery.
    pub(super) async fn failure(&mut self, bytes: &[u8]) -> String {
        self.send(bytes).await;
        let answers = self.until('Z').await;
        let error = answers.iter().find(|answer| answer.kind == 'E').unwrap_or_else(|| panic!("no error: {answers:?}"));
        error.sqlstate()
    }
}

/// Asks the server to cancel what another client runs.
pub(super) async fn cancel(running: &Running, key: &[u8]) {
    let mut client = Client::raw(running.address).await;
    let body = [&80_877_102_u32.to_be_bytes()[..], key].concat();
    client.send(&[&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat()).await;
    assert_eq!(client.rest().await, []);
}
