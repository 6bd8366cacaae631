//! Listening for clients, and shutting down.
//!
//! The rule: without authentication only loopback is served. A connection is one task; it has an entry in the table of
//! connections as long as it lives, and a panic in it ends only this task.

use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use keyspan_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::connection::{Connection, farewell};
use crate::control::{Canceller, Control, Phase};
use crate::engine::Database;
use crate::failure::Failure;
use crate::frame::FrameReader;
use crate::output::Output;
use crate::startup::{Startup, Wish, greet};

/// Sockets that may be open before their start-up is complete, beside the connections.
const STARTING_SOCKETS: usize = 64;

/// How a server serves.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where to listen; port 0 takes any free one.
    pub listen: SocketAddr,
    /// Clients at a time; further ones get 53300.
    pub max_connections: usize,
    /// Bytes of the longest message of a client; longer ones get 54000.
    pub max_message_bytes: usize,
    /// How long a client may take until its start-up is complete.
    pub startup_timeout: Duration,
    /// How long running statements may go on when the server stops.
    pub shutdown_grace: Duration,
}

impl ServerOptions {
    /// The defaults, on this port of 127.0.0.1; port 0 takes any free one.
    pub fn loopback(port: u16) -> ServerOptions {
        ServerOptions { listen: SocketAddr::from(([127, 0, 0, 1], port)), ..ServerOptions::default() }
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            listen: SocketAddr::from(([127, 0, 0, 1], 5433)),
            max_connections: 100,
            max_message_bytes: 256 * 1024 * 1024,
            startup_timeout: Duration::from_secs(60),
            shutdown_grace: Duration::from_secs(10),
        }
    }
}

/// A listening server.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
    phase: watch::Sender<Phase>,
}

#[derive(Debug)]
struct Shared {
    database: Database,
    options: ServerOptions,
    connections: Mutex<HashMap<i32, Entry>>,
    next_process: AtomicI32,
    sockets: Arc<Semaphore>,
}

/// What cancel requests need of a connection.
#[derive(Debug)]
struct Entry {
    secret: Bytes,
    canceller: Canceller,
}

impl Server {
    /// Listens. Clients that connect wait until [`Server::run`].
    ///
    /// # Errors
    /// 42501 for an address beyond loopback, 58030 if it cannot be listened on (in use, not this machine's).
    pub async fn bind(database: Database, options: ServerOptions) -> Result<Server> {
        let listen = options.listen;
        if !listen.ip().is_loopback() {
            let message =
                format!("refusing to listen on {listen}: there is no authentication yet, so only loopback is served");
            return Err(Error::new(ErrorKind::Unauthorized, message).with_hint("Listen on 127.0.0.1 or [::1]."));
        }
        let io = |error: std::io::Error| Error::new(ErrorKind::Io, format!("could not listen on {listen}: {error}"));
        let listener = TcpListener::bind(listen).await.map_err(io)?;
        let address = listener.local_addr().map_err(io)?;
        let sockets = Arc::new(Semaphore::new(options.max_connections + STARTING_SOCKETS));
        let shared =
            Shared { database, options, connections: Mutex::default(), next_process: AtomicI32::new(1), sockets };
        Ok(Server { listener, address, shared: Arc::new(shared), phase: watch::Sender::new(Phase::Serving) })
    }

    /// Where the server listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` resolves; then idle clients are told 57P01, running statements have
    /// [`ServerOptions::shutdown_grace`] to end, and what still runs is cancelled.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let mut tasks = JoinSet::new();
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                Some(_) = tasks.join_next() => {}
                accepted = self.listener.accept() => match accepted {
                    Ok((socket, _)) => self.admit(socket, &mut tasks),
                    Err(error) => {
                        // Out of file descriptors, perhaps: others may be given back soon.
                        tracing::warn!("could not accept a connection: {error}");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                },
            }
        }
        drop(self.listener);
        self.phase.send_replace(Phase::Draining);
        let all_gone = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(self.shared.options.shutdown_grace, all_gone).await.is_ok() {
            return;
        }
        self.phase.send_replace(Phase::Stopping);
        let all_gone = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(Duration::from_secs(5), all_gone).await.is_err() {
            tracing::warn!("{} connections did not end and are cut off", tasks.len());
            tasks.shutdown().await;
        }
    }

    /// Serves in a task of its own, until the returned handle is stopped or dropped.
    pub fn start(self) -> RunningServer {
        let address = self.address;
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(self.run(async {
            // A sender that was dropped stops the server too.
            let _: std::result::Result<(), _> = stopped.await;
        }));
        RunningServer { address, stop: Some(stop), task }
    }

    fn admit(&self, socket: TcpStream, tasks: &mut JoinSet<()>) {
        // Beyond the limit of sockets there is not even an answer: the socket is closed.
        let Ok(place) = self.shared.sockets.clone().try_acquire_owned() else { return };
        let (shared, phase) = (self.shared.clone(), self.phase.subscribe());
        tasks.spawn(async move {
            converse(shared, phase, socket).await;
            drop(place);
        });
    }
}

/// A server in a task of its own. Dropping it stops it, without waiting for its clients.
#[derive(Debug)]
pub struct RunningServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl RunningServer {
    /// Where the server listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Stops the server and waits until its last client is gone; see [`Server::run`].
    ///
    /// # Errors
    /// XX000 if the server's task panicked.
    pub async fn stop(mut self) -> Result<()> {
        drop(self.stop.take());
        self.task.await.map_err(|error| Error::internal(format!("the server ended by itself: {error}")))
    }
}

/// A connection from its first byte to its last.
async fn converse(shared: Arc<Shared>, phase: watch::Receiver<Phase>, socket: TcpStream) {
    // Answers are whole when they are sent; waiting for more bytes would only delay them.
    let _ = socket.set_nodelay(true);
    let (read, write) = socket.into_split();
    let mut reader = FrameReader::new(read, shared.options.max_message_bytes);
    let mut out = Output::new(write);
    let mut draining = phase.clone();
    let greeted = tokio::select! {
        greeted = tokio::time::timeout(shared.options.startup_timeout, greet(&mut reader, &mut out)) => greeted,
        _ = draining.wait_for(|phase| *phase >= Phase::Draining) => return,
    };
    match greeted {
        Ok(Ok(Wish::Session(startup))) => serve(&shared, phase, startup, reader, out).await,
        Ok(Ok(Wish::Cancel { process, secret })) => shared.cancel(process, &secret),
        Ok(Err(Failure::Fatal(error) | Failure::Statement(error))) => farewell(&mut reader, &mut out, &error).await,
        // It closed, or said nothing for too long.
        Ok(Ok(Wish::Nothing) | Err(Failure::Gone)) | Err(_) => {}
    }
}

async fn serve(
    shared: &Arc<Shared>,
    phase: watch::Receiver<Phase>,
    startup: Startup,
    mut reader: FrameReader,
    mut out: Output,
) {
    let mut session = shared.database.session();
    let control = Control::new(session.cancel_handle(), phase);
    let place = match startup.apply(&mut session).and_then(|()| shared.register(&startup, control.canceller())) {
        Ok(place) => place,
        Err(error) => return farewell(&mut reader, &mut out, &error).await,
    };
    if let Err(error) = startup.welcome(&mut session, place.process, &place.secret, &mut out) {
        return farewell(&mut reader, &mut out, &error).await;
    }
    Connection::new(reader, out, session, control).serve().await;
}

/// A connection's place in the table, given back when it is dropped.
struct Place {
    shared: Arc<Shared>,
    process: i32,
    secret: Bytes,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.connections.lock().remove(&self.process);
    }
}

impl Shared {
    fn register(self: &Arc<Self>, startup: &Startup, canceller: Canceller) -> Result<Place> {
        let random = [uuid::Uuid::new_v4().into_bytes(), uuid::Uuid::new_v4().into_bytes()].concat();
        let length = if startup.has_long_secrets() { 32 } else { 4 };
        let secret = Bytes::from(random).slice(..length);
        let mut connections = self.connections.lock();
        if connections.len() >= self.options.max_connections {
            return Err(Error::new(ErrorKind::TooManyConnections, "sorry, too many clients already")
                .with_detail(format!("The server serves {} clients at a time.", self.options.max_connections)));
        }
        let process = loop {
            let process = self.next_process.fetch_add(1, Ordering::Relaxed) & i32::MAX;
            if process != 0 && !connections.contains_key(&process) {
                break process;
            }
        };
        connections.insert(process, Entry { secret: secret.clone(), canceller });
        Ok(Place { shared: self.clone(), process, secret })
    }

    /// Cancels what a connection is running, if the secret is right. There is no answer either way.
    fn cancel(&self, process: i32, secret: &Bytes) {
        let canceller = match self.connections.lock().get(&process) {
            Some(entry) if entry.secret == *secret => entry.canceller.clone(),
            _ => return,
        };
        canceller.cancel();
    }
}
