//! A database behind a server, any that speaks Postgres' protocol.

use std::pin::pin;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use keyspan::ColumnType;
use tokio_postgres::config::Host;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Config, NoTls, SimpleQueryMessage};

use super::{Canceller, Column, CopyData, Kind, Names, Sink, notice_text};
use crate::failure::{Failure, Result};
use crate::script::after_comments;

/// The tables that a shell completes.
const NAMES: &str = "SELECT table_name, column_name FROM information_schema.columns \
    WHERE table_schema NOT IN ('pg_catalog', 'information_schema')";

/// A connection to a server.
pub struct Remote {
    client: tokio_postgres::Client,
    /// As psql's `\conninfo` says it.
    place: String,
    is_keyspan: Option<bool>,
    notices: Arc<Mutex<Vec<String>>>,
}

impl Remote {
    /// Connects. A user and a database that the URL does not name are `keyspan`.
    pub async fn connect(url: &str) -> Result<Remote> {
        let mut config: Config = url.parse().map_err(|error| Failure::from(error).context("--url"))?;
        if config.get_user().is_none() {
            config.user("keyspan");
        }
        if config.get_password().is_none()
            && let Ok(password) = std::env::var("PGPASSWORD")
        {
            config.password(password);
        }
        config.application_name("keyspan sql");
        let place = place(&config);
        let connected = config.connect(NoTls).await;
        let (client, mut connection) =
            connected.map_err(|error| Failure::from(error).context(format_args!("could not connect to {place}")))?;
        let notices: Arc<Mutex<Vec<String>>> = Arc::default();
        let shared = notices.clone();
        tokio::spawn(async move {
            let mut messages = futures::stream::poll_fn(move |context| connection.poll_message(context));
            while let Some(Ok(message)) = messages.next().await {
                if let AsyncMessage::Notice(notice) = message {
                    let text = notice_text(notice.severity(), notice.message(), notice.hint());
                    shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(text);
                }
            }
        });
        Ok(Remote { client, place: connected_to(&config), is_keyspan: None, notices })
    }

    pub(super) async fn run(&mut self, text: &str, sink: &mut dyn Sink, data: &mut dyn CopyData) -> Result<()> {
        match copy_of(text) {
            Some(CopyOf::In) => {
                let count = self.copy_in(text, data).await?;
                sink.done(&format!("COPY {count}"))?;
            }
            Some(CopyOf::Out) => {
                sink.bytes(&[])?;
                let count = self.copy_out(text, &mut ToSink(sink)).await?;
                sink.done(&format!("COPY {count}"))?;
            }
            None => self.query(text, sink).await?,
        }
        Ok(())
    }

    /// Sends the data of a COPY FROM STDIN; answers the number of rows.
    pub async fn copy_in(&mut self, statement: &str, data: &mut dyn CopyData) -> Result<u64> {
        // After an error of the COPY itself the protocol's library loses its place: its names are looked up before. Whoever
        // may only write may not look.
        if let Some(rows) = rows_of_copy(statement)
            && let Err(error) = self.client.prepare(&rows).await
            && error.code() != Some(&SqlState::INSUFFICIENT_PRIVILEGE)
        {
            return Err(error.into());
        }
        let mut target = pin!(self.client.copy_in::<_, Bytes>(statement).await?);
        while let Some(bytes) = data.next()? {
            target.send(Bytes::from(bytes)).await?;
        }
        Ok(target.finish().await?)
    }

    /// Runs a statement whose answer nobody needs.
    pub async fn execute(&mut self, statement: &str) -> Result<()> {
        Ok(self.client.batch_execute(statement).await?)
    }

    /// Runs a `COPY … TO STDOUT` and writes what it sends; answers the number of rows.
    pub async fn copy_out(&mut self, statement: &str, out: &mut dyn std::io::Write) -> Result<u64> {
        // The protocol's library keeps the count to itself; but each row is a message of its own.
        let (mut messages, beside) = (0_u64, beside_rows(statement));
        let mut stream = pin!(self.client.copy_out(statement).await?);
        while let Some(bytes) = stream.next().await {
            messages += 1;
            out.write_all(&bytes?)?;
        }
        Ok(messages.saturating_sub(beside))
    }

    /// The session's time zone, in which times without one are.
    pub async fn time_zone(&self) -> Result<String> {
        let told = self.client.simple_query("SHOW TimeZone").await?;
        Ok(first_value(&told).unwrap_or("UTC").to_string())
    }

    /// The columns of a query and their types, where the server tells them exactly.
    pub async fn columns(&mut self, query: &str) -> Result<Vec<(String, Option<ColumnType>)>> {
        let prepared = self.client.prepare(query).await?;
        let is_keyspan = self.is_keyspan().await;
        let mut columns = Vec::new();
        for column in prepared.columns() {
            let (ty, modifier) = (column.type_(), column.type_modifier());
            // Of Keyspan's numbers only whole ones of any length have no scale.
            if ty == &Type::NUMERIC && modifier < 0 && is_keyspan {
                columns.push((column.name().to_string(), Some(ColumnType::VarInt)));
                continue;
            }
            let known = ty != &Type::NUMERIC || modifier >= 0;
            let named = format!("SELECT pg_catalog.format_type({}, {modifier})", ty.oid());
            let told = if known { self.client.simple_query(&named).await? } else { Vec::new() };
            let ty = first_value(&told).and_then(ColumnType::parse_canonical);
            columns.push((column.name().to_string(), ty));
        }
        Ok(columns)
    }

    async fn query(&mut self, text: &str, sink: &mut dyn Sink) -> Result<()> {
        // The simple protocol tells names only.
        let kinds: Vec<Kind> = match has_columns(text) {
            true => self.client.prepare(text).await?.columns().iter().map(|column| kind(column.type_())).collect(),
            false => Vec::new(),
        };
        let mut stream = pin!(self.client.simple_query_raw(text).await?);
        let as_json = sink.wants_json();
        while let Some(message) = stream.next().await {
            match message? {
                SimpleQueryMessage::RowDescription(described) => {
                    let columns = described.iter().enumerate().map(|(index, column)| Column {
                        name: column.name().to_string(),
                        kind: kinds.get(index).copied().unwrap_or(Kind::Text),
                    });
                    sink.columns(columns.collect())?;
                }
                SimpleQueryMessage::Row(row) => {
                    let cell = |index: usize| {
                        let text = row.get(index)?;
                        let kind = kinds.get(index).copied().unwrap_or(Kind::Text);
                        Some(if as_json { json(text, kind) } else { text.to_string() })
                    };
                    sink.row((0..row.len()).map(cell).collect())?;
                }
                SimpleQueryMessage::CommandComplete(rows) => sink.done(&tag(text, rows))?,
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) async fn place(&mut self) -> String {
        let user = self.client.simple_query("SELECT current_user").await.unwrap_or_default();
        let user = first_value(&user).map(|user| format!(" as user \"{user}\"")).unwrap_or_default();
        format!("You are connected{user} to {}.", self.place)
    }

    pub(super) async fn is_keyspan(&mut self) -> bool {
        if self.is_keyspan.is_none() {
            let told = self.client.simple_query("SELECT version()").await.unwrap_or_default();
            self.is_keyspan = Some(first_value(&told).is_some_and(|version| version.contains("Keyspan")));
        }
        self.is_keyspan == Some(true)
    }

    pub(super) fn canceller(&self) -> Canceller {
        Canceller::Remote(self.client.cancel_token())
    }

    /// Messages that came with the last statements, as lines.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut *self.notices.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    pub(super) async fn names(&mut self) -> Names {
        let mut names = Names::default();
        // Completion does without names that cannot be had, as in a failed transaction.
        for message in self.client.simple_query(NAMES).await.unwrap_or_default() {
            if let SimpleQueryMessage::Row(row) = message {
                names.relations.extend(row.get(0).map(str::to_string));
                names.columns.extend(row.get(1).map(str::to_string));
            }
        }
        names.relations.dedup();
        names
    }
}

/// The first value of an answer.
fn first_value(told: &[SimpleQueryMessage]) -> Option<&str> {
    told.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    })
}

/// Gives bytes to a sink.
struct ToSink<'a>(&'a mut dyn Sink);

impl std::io::Write for ToSink<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.bytes(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Where a connection goes, without its password.
fn place(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        Some(Host::Unix(path)) => path.display().to_string(),
        None => "localhost".to_string(),
    };
    format!("{host}:{}", config.get_ports().first().copied().unwrap_or(5432))
}

fn connected_to(config: &Config) -> String {
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("database \"{database}\" on {}", place(config))
}

/// Whether a statement may answer rows whose types matter.
fn has_columns(text: &str) -> bool {
    let mut statement = after_comments(text);
    while let Some(inner) = statement.strip_prefix('(') {
        statement = after_comments(inner);
    }
    let lower = statement.to_ascii_lowercase();
    let first = lower.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    let writes = matches!(first, "insert" | "update" | "delete" | "merge") && lower.contains("returning");
    writes || matches!(first, "select" | "with" | "values" | "table" | "execute" | "fetch")
}

/// Messages of a COPY TO STDOUT that are no rows: the header line, or the end of the binary format.
fn beside_rows(text: &str) -> u64 {
    let lower = text.to_ascii_lowercase();
    let options = lower.rsplit("stdout").next().unwrap_or_default();
    let words: Vec<&str> = options.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let header = words.iter().position(|word| *word == "header");
    let off = |at: usize| words.get(at + 1).is_some_and(|word| matches!(*word, "false" | "off" | "0"));
    u64::from(header.is_some_and(|at| !off(at)) || words.contains(&"binary"))
}

enum CopyOf {
    In,
    Out,
}

/// Which way the data of a COPY goes; none for other statements.
fn copy_of(text: &str) -> Option<CopyOf> {
    let lower = after_comments(text).to_ascii_lowercase();
    let mut words = lower.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    if words.next() != Some("copy") {
        return None;
    }
    words.find_map(|word| match word {
        "stdin" => Some(CopyOf::In),
        "stdout" => Some(CopyOf::Out),
        _ => None,
    })
}

/// A query for the columns that a `COPY … FROM` names.
fn rows_of_copy(statement: &str) -> Option<String> {
    let subject = after_comments(statement).trim_start().get(4..)?;
    let mut quoted = false;
    let from = subject.char_indices().find_map(|(at, c)| {
        quoted ^= c == '"';
        let word = subject.get(at..at + 6)?;
        (!quoted && c.is_whitespace() && word.trim().eq_ignore_ascii_case("from")).then_some(at)
    })?;
    let subject = subject[..from].trim();
    let (table, columns) = match subject.find('(') {
        Some(at) => (&subject[..at], subject[at..].trim_start_matches('(').trim_end().trim_end_matches(')')),
        None => (subject, "*"),
    };
    Some(format!("SELECT {columns} FROM {table} WHERE false"))
}

/// A command tag: the protocol's library tells only the number in it.
fn tag(statement: &str, rows: u64) -> String {
    let (first, rest) = word(statement);
    let (second, _) = word(rest);
    match first.as_str() {
        "INSERT" => format!("INSERT 0 {rows}"),
        "UPDATE" | "DELETE" | "COPY" | "FETCH" | "MOVE" => format!("{first} {rows}"),
        "SELECT" | "WITH" | "VALUES" | "TABLE" | "SCAN" => format!("SELECT {rows}"),
        "CREATE" | "DROP" | "ALTER" | "TRUNCATE" => format!("{first} {second}"),
        _ => first.to_string(),
    }
}

/// The word that begins a text behind its comments, in upper case, and what follows.
fn word(text: &str) -> (String, &str) {
    let text = after_comments(text).trim_start_matches(|c: char| !c.is_alphabetic());
    let (word, rest) = text.split_at(text.find(|c: char| !c.is_alphabetic()).unwrap_or(text.len()));
    (word.to_ascii_uppercase(), rest)
}

fn kind(ty: &Type) -> Kind {
    match *ty {
        Type::INT2 | Type::INT4 | Type::INT8 | Type::FLOAT4 | Type::FLOAT8 | Type::NUMERIC | Type::OID => Kind::Number,
        Type::BOOL => Kind::Boolean,
        Type::JSON | Type::JSONB => Kind::Json,
        _ => Kind::Text,
    }
}

fn json(text: &str, kind: Kind) -> String {
    let is_special = matches!(text, "NaN" | "Infinity" | "-Infinity");
    match kind {
        Kind::Boolean => if text == "t" { "true" } else { "false" }.to_string(),
        Kind::Number if !is_special => text.to_string(),
        Kind::Json => text.to_string(),
        _ => {
            let mut out = String::new();
            keyspan::text::json_string(text, &mut out);
            out
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_and_tags_are_told_by_their_words() {
        assert!(matches!(copy_of("COPY t (a) FROM STDIN"), Some(CopyOf::In)));
        assert!(matches!(copy_of("copy (select 1) to stdout with (format csv)"), Some(CopyOf::Out)));
        assert!(copy_of("SELECT 'copy stdin'").is_none());
        let rows = |text| rows_of_copy(text).expect("a query");
        assert_eq!(rows("COPY t FROM STDIN"), "SELECT * FROM t WHERE false");
        assert_eq!(rows("copy k.\"a from b\" (x, y) from stdin csv"), "SELECT x, y FROM k.\"a from b\"  WHERE false");
        assert_eq!(beside_rows("COPY header TO STDOUT (FORMAT csv, HEADER)"), 1);
        assert_eq!(beside_rows("copy t to stdout (format csv, header off)"), 0);
        assert!(has_columns(" (SELECT 1)") && has_columns("INSERT INTO t VALUES (1) RETURNING a"));
        assert!(!has_columns("CREATE TABLE t (a int)") && !has_columns("insert into t values (1)"));
        for before in ["-- copy stdin\n", "/* select */ ", "// a comment of CQL\n; "] {
            assert!(has_columns(&format!("{before}SELECT 1")) && has_columns(&format!("({before}SELECT 1)")));
            assert!(matches!(copy_of(&format!("{before}COPY t FROM STDIN")), Some(CopyOf::In)));
            assert!(copy_of(&format!("{before}SELECT 1")).is_none());
            assert_eq!(tag(&format!("{before}DROP {before}TABLE t"), 0), "DROP TABLE");
        }
        assert_eq!(tag("create table t (a int)", 0), "CREATE TABLE");
        assert_eq!(tag("  insert into t values (1)", 1), "INSERT 0 1");
    }
}
