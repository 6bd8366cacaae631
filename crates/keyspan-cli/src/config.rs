//! What a server is told: by flags, the environment, a file, or not at all.
//!
//! The rule: flags come before the environment, that before the file, that before the default; whoever asks sees each
//! value and where it comes from. A name in the file that there is not is an error, nothing is ignored in silence.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;
use keyspan::parse_bytes;
use keyspan_model::nearest;
use toml::de::{DeTable, DeValue};

use crate::failure::{Failure, Result};
use crate::machine;

/// Bytes of memory where the system does not tell how much there is, and the least that is taken by itself.
const MEMORY_UNKNOWN: u64 = 1 << 30;
const LEAST_MEMORY: u64 = 64 << 20;
/// The least bytes of memory that can be said.
const LEAST_MEMORY_SAID: usize = 8 << 20;

/// A setting of the server.
#[derive(Debug)]
struct Setting {
    /// As the file spells it; the environment has `KEYSPAN_` in front and upper case, flags have `-` for `_`.
    name: &'static str,
    default: Unsaid,
}

/// What counts where nobody has said it.
#[derive(Clone, Copy, Debug)]
enum Unsaid {
    Nothing,
    Is(&'static str),
    QuarterOfMemory,
}

impl Unsaid {
    fn value(self) -> Option<(String, Origin)> {
        match self {
            Unsaid::Nothing => None,
            Unsaid::Is(value) => Some((value.to_string(), Origin::Default)),
            Unsaid::QuarterOfMemory => Some((quarter_of_memory(), Origin::Machine)),
        }
    }
}

const fn setting(name: &'static str, default: Unsaid) -> Setting {
    Setting { name, default }
}

const SETTINGS: &[Setting] = &[
    setting("data", Unsaid::Nothing),
    setting("hba", Unsaid::Nothing),
    setting("listen", Unsaid::Is("127.0.0.1:5433")),
    setting("log", Unsaid::Is("info")),
    setting("max_connections", Unsaid::Is("100")),
    setting("memory", Unsaid::QuarterOfMemory),
    setting("metrics", Unsaid::Nothing),
    setting("socket", Unsaid::Nothing),
    setting("statement_memory", Unsaid::Nothing),
    setting("tls_cert", Unsaid::Nothing),
    setting("tls_key", Unsaid::Nothing),
];

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An argument.
    Flag,
    /// A variable of the environment.
    Environment,
    /// A line of the file.
    File(usize),
    /// Nobody has said it.
    Default,
    /// Nobody has said it, and it follows the memory of the machine or of the control group.
    Machine,
}

/// What a server is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    file: Option<PathBuf>,
    values: BTreeMap<&'static str, (String, Origin)>,
}

/// The arguments of a server, which the environment and a file may give, too.
#[derive(Args, Clone, Debug, Default)]
pub struct ServerArguments {
    /// A file of settings: lines such as memory = "2GB". [env: KEYSPAN_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The data directory; made if it does not exist. [env: KEYSPAN_DATA]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// Where to listen; port 0 takes any free one. [default: 127.0.0.1:5433] [env: KEYSPAN_LISTEN]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Memory for memtables, decoded blocks and queries together, such as 2GB. The process takes more: up to
    /// 400 MB in what was measured. [default: a quarter of the machine's, or of the control group's limit]
    /// [env: KEYSPAN_MEMORY]
    #[arg(long, value_name = "SIZE", value_parser = checked_size)]
    memory: Option<String>,
    /// Memory that the queries of one statement may take at most, such as 500MB. [default: all there is for queries]
    /// [env: KEYSPAN_STATEMENT_MEMORY]
    #[arg(long, value_name = "SIZE", value_parser = checked_size)]
    statement_memory: Option<String>,
    /// The server's certificate (PEM), for TLS; read again on SIGHUP. [env: KEYSPAN_TLS_CERT]
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,
    /// The private key of the certificate (PEM). [env: KEYSPAN_TLS_KEY]
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// Rules of access in the form of pg_hba.conf; read again on SIGHUP. Without them every client needs a password, if
    /// there are roles. [env: KEYSPAN_HBA]
    #[arg(long, value_name = "FILE")]
    hba: Option<String>,
    /// A directory for a Unix socket, too. [env: KEYSPAN_SOCKET]
    #[arg(long, value_name = "DIR")]
    socket: Option<String>,
    /// Clients at a time; three of them only superusers. [default: 100] [env: KEYSPAN_MAX_CONNECTIONS]
    #[arg(long, alias = "connections", value_name = "N")]
    max_connections: Option<usize>,
    /// Where to answer `GET /metrics`, in Prometheus' format, and `GET /health`. [env: KEYSPAN_METRICS]
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
    /// What is logged: error, warn, info, debug, trace; also for each crate: warn,keyspan_store=debug; read again on
    /// SIGHUP. [default: info] [env: KEYSPAN_LOG]
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
}

fn checked_size(text: &str) -> Result<String, String> {
    parse_bytes(text).map(|_| text.to_string())
}

impl ServerArguments {
    fn flags(&self) -> Vec<(&'static str, Option<String>)> {
        vec![
            ("data", self.data.clone()),
            ("hba", self.hba.clone()),
            ("listen", self.listen.clone()),
            ("log", self.log.clone()),
            ("max_connections", self.max_connections.map(|count| count.to_string())),
            ("memory", self.memory.clone()),
            ("metrics", self.metrics.clone()),
            ("socket", self.socket.clone()),
            ("statement_memory", self.statement_memory.clone()),
            ("tls_cert", self.tls_cert.clone()),
            ("tls_key", self.tls_key.clone()),
        ]
    }

    /// All that the server is told.
    pub fn read(&self) -> Result<Config> {
        let environment = |name: &str| std::env::var(name).ok();
        Config::read(self.config.as_deref(), &self.flags(), &environment)
    }
}

impl Config {
    /// From the environment and the file that it names alone.
    pub fn without_flags() -> Result<Config> {
        ServerArguments::default().read()
    }

    fn read(
        file: Option<&Path>,
        flags: &[(&'static str, Option<String>)],
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Config> {
        let environment = |name: &str| environment(name).filter(|value| !value.is_empty());
        let file = file.map(Path::to_path_buf).or_else(|| environment("KEYSPAN_CONFIG").map(PathBuf::from));
        let in_file = match &file {
            Some(path) => {
                let text = std::fs::read_to_string(path);
                let text = text.map_err(|error| Failure::from(error).context(path.display()))?;
                parse(&text).map_err(|failure| failure.context(path.display()))?
            }
            None => BTreeMap::new(),
        };
        let mut values = BTreeMap::new();
        for Setting { name, default } in SETTINGS {
            let flag = flags.iter().find(|(flag, _)| flag == name).and_then(|(_, value)| value.clone());
            let variable = environment(&format!("KEYSPAN_{}", name.to_uppercase()));
            let value = flag
                .map(|value| (value, Origin::Flag))
                .or_else(|| variable.map(|value| (value, Origin::Environment)))
                .or_else(|| in_file.get(name).map(|(value, line)| (value.clone(), Origin::File(*line))))
                .or_else(|| default.value());
            if let Some(value) = value {
                values.insert(*name, value);
            }
        }
        Ok(Config { file, values })
    }

    /// A value, if there is one.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|(value, _)| value.as_str())
    }

    /// A value as a path.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from)
    }

    /// A value as `parse` reads it; an error says where it stands.
    pub fn parsed<T>(&self, name: &'static str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>> {
        let Some((value, origin)) = self.values.get(name) else { return Ok(None) };
        let wrong = |error: String| Failure::new(format!("{}: {error}", self.place(name, origin)));
        parse(value).map(Some).map_err(wrong)
    }

    /// What errors call a value.
    fn place(&self, name: &str, origin: &Origin) -> String {
        match (origin, &self.file) {
            (Origin::Environment, _) => format!("KEYSPAN_{}", name.to_uppercase()),
            (Origin::File(line), Some(file)) => format!("{}, line {line}, {name}", file.display()),
            _ => format!("--{}", name.replace('_', "-")),
        }
    }

    /// The settings in which another config differs.
    pub fn differences(&self, other: &Config) -> Vec<&'static str> {
        let value = |config: &Config, name: &str| config.get(name).map(str::to_string);
        SETTINGS.iter().map(|setting| setting.name).filter(|name| value(self, name) != value(other, name)).collect()
    }

    /// Each setting with its value and where it comes from.
    pub fn rows(&self) -> Vec<[String; 3]> {
        let row = |setting: &Setting| {
            let value = self.get(setting.name).unwrap_or_default().to_string();
            [setting.name.to_string(), value, self.origin_of(setting.name)]
        };
        SETTINGS.iter().map(row).collect()
    }

    /// Where a value comes from.
    pub fn origin_of(&self, name: &str) -> String {
        match self.values.get(name).map(|(_, origin)| origin) {
            None => "not set".to_string(),
            Some(Origin::Default) => "default".to_string(),
            Some(Origin::Machine) => "a quarter of the memory there is".to_string(),
            Some(said) => self.place(name, said).trim_end_matches(&format!(", {name}")).to_string(),
        }
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows();
        let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        let (names, values) = (width(0), width(1));
        for [name, value, origin] in &rows {
            writeln!(f, "{name:<names$}  {value:<values$}  {origin}")?;
        }
        Ok(())
    }
}

/// The values of a file with their lines.
fn parse(text: &str) -> Result<BTreeMap<&'static str, (String, usize)>> {
    let line = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        Failure::new(format!("line {}: {}", line(at), error.message()))
    })?;
    let mut values = BTreeMap::new();
    for (key, value) in table.get_ref() {
        let (name, at) = (key.get_ref().as_ref(), line(key.span().start));
        let known = SETTINGS.iter().find(|setting| setting.name == name);
        let Some(known) = known else {
            let failure = Failure::new(format!("line {at}: there is no setting \"{name}\""));
            let names = SETTINGS.iter().map(|setting| setting.name);
            let all: Vec<&str> = names.clone().collect();
            return Err(match nearest(name, names) {
                Some(near) => failure.with_hint(format!("Perhaps you meant \"{near}\".")),
                None => failure.with_hint(format!("There are {}.", all.join(", "))),
            });
        };
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.to_string(),
            _ => return Err(Failure::new(format!("line {at}: {name} is a text or a number"))),
        };
        values.insert(known.name, (text, at));
    }
    Ok(values)
}

/// Bytes of memory for all that a database does.
///
/// # Errors
/// For a text that is no size, and for less than 8 MB.
pub fn memory(text: &str) -> Result<usize, String> {
    match parse_bytes(text)? {
        bytes if bytes >= LEAST_MEMORY_SAID => Ok(bytes),
        _ => Err(format!("\"{text}\" is too little: a database needs at least {}MB", LEAST_MEMORY_SAID >> 20)),
    }
}

/// Memory where nobody has said how much: leaves most of a machine to others.
fn quarter_of_memory() -> String {
    let bytes = machine::memory().map_or(MEMORY_UNKNOWN, |all| all / 4).max(LEAST_MEMORY);
    format!("{}MB", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_come_before_the_environment_and_that_before_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keyspan.toml");
        std::fs::write(&path, "# a server\ndata = \"/d\"\nmemory = '1GB'\nmax_connections = 7\nlog = \"warn\"\n")
            .expect("written");
        let environment = |name: &str| match name {
            "KEYSPAN_CONFIG" => Some(path.display().to_string()),
            "KEYSPAN_MEMORY" => Some("2GB".to_string()),
            "KEYSPAN_LOG" => Some("debug".to_string()),
            _ => None,
        };
        let config =
            Config::read(None, &[("log", Some("error".to_string())), ("data", None)], &environment).expect("a config");
        assert_eq!(config.get("log"), Some("error"));
        assert_eq!(config.get("memory"), Some("2GB"));
        assert_eq!((config.get("data"), config.get("max_connections")), (Some("/d"), Some("7")));
        assert_eq!((config.get("listen"), config.get("hba")), (Some("127.0.0.1:5433"), None));
        let unset = Config::read(None, &[], &|_| Some(String::new())).expect("a config");
        assert_eq!((unset.get("data"), unset.get("log")), (None, Some("info")));
        let memory = unset.parsed("memory", parse_bytes).expect("a size").expect("follows the machine");
        assert!(memory >= 64 << 20 && unset.to_string().contains("a quarter of the memory there is"), "{unset}");
        let shown = config.to_string();
        let file = format!("data              /d              {}, line 2\n", path.display());
        assert!(shown.starts_with(&file) && shown.contains("KEYSPAN_MEMORY") && shown.contains("--log"), "{shown}");
    }

    #[test]
    fn what_the_file_cannot_say_is_told_with_its_line() {
        let told = |text: &str| parse(text).expect_err("an error").message;
        assert_eq!(told("data = \"x\"\nmemroy = \"2GB\""), "line 2: there is no setting \"memroy\"");
        assert_eq!(told("\ndata = [1]"), "line 2: data is a text or a number");
        assert!(told("data = \"x\"\nlisten = ").starts_with("line 2: "));
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_bytes("512MB"), Ok(512 << 20));
        assert_eq!(parse_bytes("2 GiB"), Ok(2 << 30));
        assert_eq!(parse_bytes("100B"), Ok(100));
        assert!(parse_bytes("MB").is_err() && parse_bytes("1 parsec").is_err());
        assert_eq!(parse_bytes("100"), Err("\"100\" has no unit: write 100MB or 100GB".to_string()));
    }
}
