//! Listening for clients, and shutting down.
//!
//! The rule: without roles, which is without authentication, only loopback is served. A connection is one task; it has an entry in the table of
//! connections as long as it lives, and a panic in it ends only this task.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use keyspan_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{oneshot, watch};
use tokio::task::{AbortHandle, JoinHandle, JoinSet};

use crate::access::Access;
use crate::authentication::authenticate;
use crate::connection::{Connection, farewell};
use crate::control::{Canceller, Control, Phase};
use crate::engine::Database;
use crate::failure::Failure;
use crate::frame::FrameReader;
use crate::output::Output;
use crate::startup::{Startup, Wish, greet};
use crate::tls::Tls;
use crate::traffic::{ConnectionMetrics, Traffic};
use crate::transport::{self, Peer, Reading, Writing};

/// Sockets that may be open before their start-up is complete, beside the connections. The oldest makes room for the next,
/// so that peers that say nothing do not keep others out.
const STARTING_SOCKETS: usize = 64;
/// Connections that only superusers may take, as in Postgres.
const KEPT_FOR_SUPERUSERS: usize = 3;

/// How a server serves.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where to listen; port 0 takes any free one.
    pub listen: SocketAddr,
    /// Clients at a time; further ones get 53300.
    pub max_connections: usize,
    /// Bytes of the longest message of a client; longer ones get 54000.
    pub max_message_bytes: usize,
    /// How long a client may take until its start-up is complete, its password checked.
    pub startup_timeout: Duration,
    /// How long running statements may go on when the server stops.
    pub shutdown_grace: Duration,
    /// A directory for a Unix socket, `.s.PGSQL.<port>`, which only this program's user may connect to.
    pub socket_directory: Option<PathBuf>,
    /// The certificate of encrypted connections; none: there are none.
    pub tls: Option<Tls>,
    /// Which clients must prove who they are, where there are roles.
    pub access: Access,
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
            startup_timeout: Duration::from_secs(10),
            shutdown_grace: Duration::from_secs(10),
            socket_directory: None,
            tls: None,
            access: Access::default(),
        }
    }
}

/// A listening server.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    unix: Option<UnixSocket>,
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
    /// Those whose start-up is not complete, in the order in which they came.
    starting: Mutex<BTreeMap<u64, AbortHandle>>,
    next_socket: AtomicU64,
    traffic: Arc<Traffic>,
}

/// Watches a server from outside of it.
#[derive(Clone, Debug)]
pub struct ServerWatch(Arc<Shared>);

impl ServerWatch {
    /// The server's connections now.
    pub fn connections(&self) -> ConnectionMetrics {
        let open = self.0.connections.lock().len();
        self.0.traffic.read(open, self.0.options.max_connections)
    }
}

/// What cancel requests need of a connection.
#[derive(Debug)]
struct Entry {
    secret: Bytes,
    canceller: Canceller,
    user: String,
}

/// A Unix socket, whose file goes with it.
#[derive(Debug)]
struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        // Another server may have replaced it; then nothing is lost but its file.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Server {
    /// Listens. Clients that connect wait until [`Server::run`].
    ///
    /// # Errors
    /// 42501 for an address beyond loopback where there are no roles, 58030 if it cannot be listened on (in use, not this machine's).
    pub async fn bind(database: Database, options: ServerOptions) -> Result<Server> {
        let listen = options.listen;
        if !listen.ip().is_loopback() && !database.catalog().rights.has_roles() {
            let message = format!("refusing to listen on {listen}: without roles only loopback is served");
            let hint = "Listen on 127.0.0.1 or [::1], or first: keyspan role create --data DIR --superuser NAME";
            return Err(Error::new(ErrorKind::Unauthorized, message).with_hint(hint));
        }
        if !listen.ip().is_loopback() && options.tls.is_none() {
            tracing::warn!("listening on {listen} without TLS: what clients send and get can be read on the way");
        }
        let io = |error: std::io::Error| Error::new(ErrorKind::Io, format!("could not listen on {listen}: {error}"));
        let listener = TcpListener::bind(listen).await.map_err(io)?;
        let address = listener.local_addr().map_err(io)?;
        let directory = options.socket_directory.as_deref();
        let unix = directory.map(|directory| listen_unix(directory, address.port())).transpose()?;
        let shared = Shared {
            database,
            options,
            connections: Mutex::default(),
            next_process: AtomicI32::new(1),
            starting: Mutex::default(),
            next_socket: AtomicU64::new(0),
            traffic: Arc::default(),
        };
        Ok(Server { listener, unix, address, shared: Arc::new(shared), phase: watch::Sender::new(Phase::Serving) })
    }

    /// Where the server listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// What tells of the server's connections, also while it runs.
    pub fn watch(&self) -> ServerWatch {
        ServerWatch(self.shared.clone())
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
                accepted = self.accept() => match accepted {
                    Ok((halves, peer)) => self.admit(halves, peer, &mut tasks),
                    Err(error) => {
                        // Out of file descriptors, perhaps: others may be given back soon.
                        tracing::warn!("could not accept a connection: {error}");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                },
            }
        }
        drop((self.listener, self.unix));
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

    /// The next client, by TCP or the Unix socket. Cancel-safe.
    async fn accept(&self) -> std::io::Result<((Reading, Writing), Peer)> {
        let unix = async {
            match &self.unix {
                Some(unix) => unix.listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            accepted = self.listener.accept() => {
                let (socket, address) = accepted?;
                Ok((transport::of_tcp(socket), Peer { address: Some(address.ip()), port: address.port(), tls: None }))
            }
            accepted = unix => Ok((transport::of_unix(accepted?.0), Peer { address: None, port: 0, tls: None })),
        }
    }

    fn admit(&self, halves: (Reading, Writing), peer: Peer, tasks: &mut JoinSet<()>) {
        let number = self.shared.next_socket.fetch_add(1, Ordering::Relaxed);
        let place = StartingPlace { shared: self.shared.clone(), number };
        let phase = self.phase.subscribe();
        let mut starting = self.shared.starting.lock();
        if starting.len() >= STARTING_SOCKETS
            && let Some((_, oldest)) = starting.pop_first()
        {
            oldest.abort();
            self.shared.traffic.refused();
        }
        starting.insert(number, tasks.spawn(converse(place, phase, halves, peer)));
    }
}

/// A socket's place among those that are starting, given back when it is dropped.
struct StartingPlace {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for StartingPlace {
    fn drop(&mut self) {
        self.shared.starting.lock().remove(&self.number);
    }
}

/// Listens on the Unix socket of this port.
fn listen_unix(directory: &Path, port: u16) -> Result<UnixSocket> {
    let path = directory.join(format!(".s.PGSQL.{port}"));
    let failed = |error: std::io::Error| {
        Error::new(ErrorKind::Io, format!("could not listen on \"{}\": {error}", path.display()))
    };
    // A socket that nobody listens on is left from a server that was killed.
    if std::os::unix::net::UnixStream::connect(&path).is_ok() {
        return Err(failed(std::io::ErrorKind::AddrInUse.into()));
    }
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let listener = UnixListener::bind(&path).map_err(failed)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(UnixSocket { listener, path })
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
async fn converse(
    starting: StartingPlace,
    phase: watch::Receiver<Phase>,
    (read, write): (Reading, Writing),
    mut peer: Peer,
) {
    let shared = starting.shared.clone();
    let mut reader = FrameReader::new(read, shared.traffic.clone());
    let mut out = Output::new(write, shared.traffic.clone());
    let mut draining = phase.clone();
    let greeting = async {
        let tls = shared.options.tls.as_ref().map(Tls::current);
        let wish = greet(&mut reader, &mut out, &mut peer, tls).await?;
        if let Wish::Session(startup) = &wish {
            let catalog = shared.database.catalog();
            authenticate(&shared.options.access, &catalog, startup, &peer, &mut reader, &mut out).await?;
        }
        Ok(wish)
    };
    let greeted = tokio::select! {
        greeted = tokio::time::timeout(shared.options.startup_timeout, greeting) => greeted,
        _ = draining.wait_for(|phase| *phase >= Phase::Draining) => return,
    };
    reader.allow(shared.options.max_message_bytes);
    match greeted {
        Ok(Ok(Wish::Session(startup))) => serve(starting, phase, startup, peer.client(), reader, out).await,
        Ok(Ok(Wish::Cancel { process, secret })) => shared.cancel(process, &secret),
        Ok(Err(Failure::Fatal(error) | Failure::Statement(error))) => {
            shared.traffic.refused();
            farewell(&mut reader, &mut out, &error).await;
        }
        // It closed, or said nothing for too long.
        Ok(Ok(Wish::Nothing) | Err(Failure::Gone)) | Err(_) => {}
    }
}

async fn serve(
    starting: StartingPlace,
    phase: watch::Receiver<Phase>,
    startup: Startup,
    client: Option<(String, u16)>,
    mut reader: FrameReader,
    mut out: Output,
) {
    let shared = starting.shared.clone();
    let mut session = shared.database.session();
    let control = Control::new(session.cancel_handle(), phase);
    let place = match startup.apply(&mut session).and_then(|()| shared.register(&startup, control.canceller())) {
        Ok(place) => place,
        Err(error) => {
            shared.traffic.refused();
            return farewell(&mut reader, &mut out, &error).await;
        }
    };
    drop(starting);
    shared.traffic.accepted();
    session.identify(place.process, client, shared.options.max_connections);
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
        let user = startup.user()?.to_owned();
        let mut connections = self.connections.lock();
        self.check_room(&connections, &user)?;
        let process = loop {
            let process = self.next_process.fetch_add(1, Ordering::Relaxed) & i32::MAX;
            if process != 0 && !connections.contains_key(&process) {
                break process;
            }
        };
        connections.insert(process, Entry { secret: secret.clone(), canceller, user });
        Ok(Place { shared: self.clone(), process, secret })
    }

    /// Fails with 53300 unless there is room for another client of this user. Some is kept for superusers.
    fn check_room(&self, connections: &HashMap<i32, Entry>, user: &str) -> Result<()> {
        let full = |message: String| Error::new(ErrorKind::TooManyConnections, message);
        let catalog = self.database.catalog();
        let role = catalog.rights.role(user);
        let superuser = role.is_none_or(|role| role.superuser);
        let kept = if superuser { 0 } else { KEPT_FOR_SUPERUSERS.min(self.options.max_connections / 2) };
        if connections.len() >= self.options.max_connections {
            return Err(full("sorry, too many clients already".into())
                .with_detail(format!("The server serves {} clients at a time.", self.options.max_connections)));
        }
        if connections.len() + kept >= self.options.max_connections {
            return Err(full("remaining connection slots are reserved for superusers".into()));
        }
        let own = connections.values().filter(|entry| entry.user == user).count();
        match role.and_then(|role| role.connection_limit).filter(|_| !superuser) {
            Some(limit) if own >= limit as usize => Err(full(format!("too many connections for role \"{user}\""))),
            _ => Ok(()),
        }
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
