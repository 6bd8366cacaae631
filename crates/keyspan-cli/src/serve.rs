//! `keyspan serve`: the Postgres wire server on one data directory.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use keyspan::Database;
use keyspan_pg::{Server, ServerOptions};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::failure::{Failure, Result};
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
    /// Clients at a time.
    #[arg(long, value_name = "N", default_value_t = 100)]
    connections: usize,
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
    let options =
        ServerOptions { listen: arguments.listen, max_connections: arguments.connections, ..ServerOptions::default() };
    let server = Server::bind(database.clone(), options).await?;
    let told =
        writeln!(std::io::stdout(), "listening on {}", server.local_addr()).and_then(|()| std::io::stdout().flush());
    if told.is_err() {
        tracing::warn!("nobody reads stdout; listening on {}", server.local_addr());
    }
    until_stopped(server).await
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
