//! `keyspan serve`: the Postgres wire server on one data directory.

use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::OnceLock;

use clap::Args;
use keyspan::{Database, parse_bytes};
use keyspan_pg::{Access, AccessRules, Server, ServerOptions, Tls};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, reload};

use crate::config::{self, Config, ServerArguments};
use crate::failure::{Failure, Result};
use crate::metrics::MetricsServer;
use crate::open;

/// Serve a data directory to psql and any Postgres driver.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    server: ServerArguments,
}

/// Show what a server with these arguments is told, and by whom.
#[derive(Args, Debug)]
pub struct ConfigArguments {
    #[command(flatten)]
    server: ServerArguments,
}

/// Runs `keyspan config`. What is wrong is told after all has been shown.
pub fn show(arguments: &ConfigArguments) -> Result<()> {
    let config = arguments.server.read()?;
    writeln!(std::io::stdout(), "{config}version          {}", env!("CARGO_PKG_VERSION"))?;
    checked(&config)
}

/// Runs the subcommand: until SIGTERM or SIGINT.
pub fn run(arguments: &Arguments) -> Result<()> {
    let config = arguments.server.read()?;
    let Some(data) = config.path("data") else {
        let told = "--data DIR is needed, or KEYSPAN_DATA in the environment, or data in the file of --config\n";
        clap::Error::raw(clap::error::ErrorKind::MissingRequiredArgument, told).exit();
    };
    checked(&config)?;
    log_as(config.get("log").unwrap_or("info"))?;
    let runtime = open::runtime()?;
    let _within = runtime.enter();
    tracing::info!("memory: {} ({})", config.get("memory").unwrap_or_default(), config.origin_of("memory"));
    let database = open::database(&data, open::options(&config)?)?;
    let served = runtime.block_on(listen_and_serve(&database, &arguments.server, config));
    let closed = database.close().map_err(Failure::from);
    served.and(closed)
}

/// Fails for values that cannot be.
pub fn checked(config: &Config) -> Result<()> {
    config.parsed("memory", config::memory)?;
    config.parsed("statement_memory", parse_bytes)?;
    config.parsed("log", |text| filter(text).map(|_| ()))?;
    config.parsed("listen", address)?;
    config.parsed("metrics", address)?;
    config.parsed("max_connections", connections)?;
    match (config.get("tls_cert"), config.get("tls_key")) {
        (Some(_), None) => Err(Failure::new("tls_cert needs tls_key, the private key of the certificate")),
        (None, Some(_)) => Err(Failure::new("tls_key needs tls_cert, the certificate")),
        _ => Ok(()),
    }
}

fn connections(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| format!("\"{text}\" is not a number of clients: at least 1"))
}

/// An address, or a name with a port. Of several addresses of a name the first of IPv4 counts.
fn address(text: &str) -> Result<SocketAddr, String> {
    let wrong = |error: std::io::Error| format!("\"{text}\" is not HOST:PORT, such as localhost:5433 ({error})");
    let all: Vec<SocketAddr> = text.to_socket_addrs().map_err(wrong)?.collect();
    let first = all.iter().find(|address| address.is_ipv4()).or(all.first());
    first.copied().ok_or_else(|| format!("\"{text}\" has no address"))
}

async fn listen_and_serve(database: &Database, arguments: &ServerArguments, config: Config) -> Result<()> {
    let (certificate, key) = (config.path("tls_cert"), config.path("tls_key"));
    let tls = certificate.zip(key).map(|(certificate, key)| Tls::load(&certificate, &key)).transpose()?;
    let access = Access::new(access_rules(&config)?);
    let options = options(&config, tls.clone(), access.clone())?;
    let server = Server::bind(database.clone(), options).await?;
    let metrics = match config.parsed("metrics", address)? {
        Some(address) => Some(MetricsServer::bind(address, database.clone(), server.watch()).await?),
        None => None,
    };
    let told =
        writeln!(std::io::stdout(), "listening on {}", server.local_addr()).and_then(|()| std::io::stdout().flush());
    if told.is_err() {
        tracing::warn!("nobody reads stdout; listening on {}", server.local_addr());
    }
    let mut reloaded = Reloaded { arguments, config, tls, access };
    let mut hangups = signal(SignalKind::hangup())?;
    let reloading = async {
        while hangups.recv().await.is_some() {
            reloaded.reload();
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

fn options(config: &Config, tls: Option<Tls>, access: Access) -> Result<ServerOptions> {
    let defaults = ServerOptions::default();
    Ok(ServerOptions {
        listen: config.parsed("listen", address)?.unwrap_or(defaults.listen),
        max_connections: config.parsed("max_connections", connections)?.unwrap_or(defaults.max_connections),
        socket_directory: config.path("socket"),
        tls,
        access,
        ..defaults
    })
}

fn access_rules(config: &Config) -> Result<AccessRules> {
    let Some(path) = config.path("hba") else { return Ok(AccessRules::default()) };
    let text = std::fs::read_to_string(&path)
        .map_err(|error| Failure::new(format!("could not read \"{}\": {error}", path.display())))?;
    Ok(AccessRules::parse(&text)?)
}

/// What SIGHUP reads again.
struct Reloaded<'a> {
    arguments: &'a ServerArguments,
    config: Config,
    tls: Option<Tls>,
    access: Access,
}

impl Reloaded<'_> {
    /// Reads the settings, the certificate and the rules again. What is wrong with them is logged, and the former ones
    /// stay.
    fn reload(&mut self) {
        match self.arguments.read().and_then(|config| checked(&config).map(|()| config)) {
            Err(failure) => tracing::error!("SIGHUP: the former settings stay: {}", failure.message),
            Ok(config) => self.take(&config),
        }
        match self.tls.as_ref().map(Tls::reload) {
            Some(Err(error)) => tracing::error!("SIGHUP: the former certificate stays: {error}"),
            Some(Ok(())) => tracing::info!("SIGHUP: the certificate was read again"),
            None => {}
        }
        match access_rules(&self.config) {
            Err(failure) => tracing::error!("SIGHUP: the former rules of access stay: {}", failure.message),
            Ok(rules) => {
                self.access.replace(rules);
                tracing::info!("SIGHUP: the rules of access were read again");
            }
        }
    }

    /// Takes over what a running server can take over.
    fn take(&self, config: &Config) {
        for name in self.config.differences(config) {
            if name != "log" {
                tracing::warn!("SIGHUP: {name} has changed, which takes a restart");
            }
        }
        if let Err(failure) = log_as(config.get("log").unwrap_or("info")) {
            tracing::error!("SIGHUP: the former log stays: {}", failure.message);
        }
        tracing::info!("SIGHUP: the settings were read again");
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

/// The filter of the log that can be put in another's place.
static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

fn filter(text: &str) -> Result<EnvFilter, String> {
    // A word that is no level would be taken for the name of a crate.
    let is_level =
        |word: &str| word.contains('=') || word.trim().parse::<tracing_subscriber::filter::LevelFilter>().is_ok();
    let parsed = text.split(',').all(is_level).then(|| EnvFilter::builder().parse(text).ok()).flatten();
    parsed.ok_or_else(|| {
        format!("\"{text}\" is no level of the log: error, warn, info, debug, trace, or warn,keyspan_store=debug")
    })
}

/// Logs to stderr from now on what this text says.
fn log_as(text: &str) -> Result<()> {
    let filter = filter(text).map_err(Failure::new)?;
    if let Some(handle) = FILTER.get() {
        return handle.reload(filter).map_err(|error| Failure::new(error.to_string()));
    }
    let (filter, handle) = reload::Layer::new(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    // Another subscriber there is none: the program has only this one.
    if tracing_subscriber::registry().with(filter).with(lines).try_init().is_ok() {
        let _ = FILTER.set(handle);
    }
    Ok(())
}

/// Logs to stderr, as much as `KEYSPAN_LOG` says (`info` if it says nothing).
pub fn log_to_stderr() -> Result<()> {
    log_as(Config::without_flags()?.get("log").unwrap_or("info"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_addresses_and_words_are_levels() {
        assert_eq!(address("localhost:5433"), Ok(SocketAddr::from(([127, 0, 0, 1], 5433))));
        assert!(address("5433").is_err() && address("localhost").is_err());
        assert!(filter("warn,keyspan_store=debug").is_ok() && filter("off").is_ok());
        assert!(filter("loud").is_err() && filter("info,loud").is_err());
    }
}
