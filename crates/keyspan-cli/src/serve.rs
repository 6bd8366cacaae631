//! `keyspan serve`: the Postgres wire server on one data directory.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use keyspan::Database;
use keyspan_pg::{Access, AccessRules, Server, ServerOptions, Tls};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::failure::{Failure, Result};
use crate::metrics::MetricsServer;
use crate::open;

/// Serve a data directory to psql and any Postgres driver.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The data directory; made if it does not exist.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Where to listen; port 0 takes any free one.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:5433")]
    listen: SocketAddr,
    /// Memory for memtables, decoded blocks and queries together, such as 2GB. The process takes more: up to
    /// 400 MB in what was measured.
    #[arg(long, value_name = "BYTES", value_parser = open::parse_bytes)]
    memory: Option<usize>,
    /// The server's certificate (PEM), for TLS; read again on SIGHUP.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Rules of access in the form of pg_hba.conf; read again on SIGHUP. Without them every client needs a password, if
    /// there are roles.
    #[arg(long, value_name = "FILE")]
    hba: Option<PathBuf>,
    /// A directory for a Unix socket, too.
    #[arg(long, value_name = "DIR")]
    socket: Option<PathBuf>,
    /// Clients at a time; three of them only superusers.
    #[arg(long, alias = "connections", value_name = "N", default_value_t = 100)]
    max_connections: usize,
    /// Where to answer `GET /metrics`, in Prometheus' format, and `GET /health`.
    #[arg(long, value_name = "ADDR:PORT")]
    metrics: Option<SocketAddr>,
}

/// Runs the subcommand: until SIGTERM or SIGINT.
pub fn run(arguments: &Arguments) -> Result<()> {
    log_to_stderr();
    let runtime = open::runtime()?;
    let _within = runtime.enter();
    let database = open::database(&arguments.data, open::options_within(arguments.memory))?;
    let served = runtime.block_on(listen_and_serve(&database, arguments));
    let closed = database.close().map_err(Failure::from);
    served.and(closed)
}

async fn listen_and_serve(database: &Database, arguments: &Arguments) -> Result<()> {
    let files = arguments.tls_cert.as_deref().zip(arguments.tls_key.as_deref());
    let tls = files.map(|(certificate, key)| Tls::load(certificate, key)).transpose()?;
    let access = Access::new(arguments.access_rules()?);
    let options = ServerOptions {
        listen: arguments.listen,
        max_connections: arguments.max_connections,
        socket_directory: arguments.socket.clone(),
        tls: tls.clone(),
        access: access.clone(),
        ..ServerOptions::default()
    };
    let server = Server::bind(database.clone(), options).await?;
    let metrics = match arguments.metrics {
        Some(address) => Some(MetricsServer::bind(address, database.clone(), server.watch()).await?),
        None => None,
    };
    let told =
        writeln!(std::io::stdout(), "listening on {}", server.local_addr()).and_then(|()| std::io::stdout().flush());
    if told.is_err() {
        tracing::warn!("nobody reads stdout; listening on {}", server.local_addr());
    }
    let mut hangups = signal(SignalKind::hangup())?;
    let reloading = async {
        while hangups.recv().await.is_some() {
            arguments.reload(tls.as_ref(), &access);
        }
    };
    let metering = async {
        match metrics {
            Some(metrics) => metrics.run().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        stopped = until_stopped(server) => stopped,
        () = reloading => Ok(()),
        () = metering => Ok(()),
    }
}

impl Arguments {
    fn access_rules(&self) -> Result<AccessRules> {
        let Some(path) = &self.hba else { return Ok(AccessRules::default()) };
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::new(format!("could not read \"{}\": {error}", path.display())))?;
        Ok(AccessRules::parse(&text)?)
    }

    /// Reads the certificate and the rules again. What is wrong with them is logged, and the former ones stay.
    fn reload(&self, tls: Option<&Tls>, access: &Access) {
        match tls.map(Tls::reload) {
            Some(Err(error)) => tracing::error!("SIGHUP: the former certificate stays: {error}"),
            Some(Ok(())) => tracing::info!("SIGHUP: the certificate was read again"),
            None => {}
        }
        match self.access_rules() {
            Err(failure) => tracing::error!("SIGHUP: the former rules of access stay: {}", failure.message),
            Ok(rules) => {
                access.replace(rules);
                tracing::info!("SIGHUP: the rules of access were read again");
            }
        }
    }
}

/// Serves until SIGTERM or SIGINT.
pub async fn until_stopped(server: Server) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    server
        .run(async move {
            tokio::select! {
                _ = terminate.recv() => tracing::info!("SIGTERM: stopping"),
                _ = interrupt.recv() => tracing::info!("SIGINT: stopping"),
            }
        })
        .await;
    Ok(())
}

/// Logs to stderr, as much as `KEYSPAN_LOG` says (`info` if it says nothing).
pub fn log_to_stderr() {
    let filter = EnvFilter::try_from_env("KEYSPAN_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    // A second call, as from the demo, changes nothing.
    let _ = subscriber.try_init();
}
