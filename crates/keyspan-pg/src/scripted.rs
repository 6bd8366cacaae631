//! A stand-in for the database in this crate's unit tests: a handful of statements that answer what a test needs.
//!
//! `rows n` · `endless` · `wide n` (one row of n bytes) · `hang` · `hang rows` · `fail` · `fail late` · `panic` ·
//! `types t, …` (answers its parameters) · `notice` · `set name value` · `begin` · `commit` · `rollback` ·
//! `copy in` · `copy out format` · `deallocate name` · `declare name` · `close name`

#![allow(missing_docs, reason = "a part of the tests")]

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use futures::StreamExt;
use futures::stream::BoxStream;
use keyspan::text::TextStyle;
pub use keyspan::{CopyFormat, CopyHeader, CopyOptions};
use keyspan_model::{Catalog, ColumnType, Error, ErrorKind, Result, Value, array_of};
use parking_lot::Mutex;
use tokio::sync::watch;

#[derive(Clone, Debug, Default)]
pub struct ScriptedDatabase {
    /// Bytes that COPY has taken.
    pub copied: Arc<Mutex<Vec<u8>>>,
    /// What has been committed and undone.
    pub ends: Arc<Mutex<Vec<&'static str>>>,
    /// The roles there are.
    pub catalog: Arc<Mutex<Catalog>>,
}

impl ScriptedDatabase {
    pub fn catalog(&self) -> Catalog {
        self.catalog.lock().clone()
    }

    pub fn session(&self) -> ScriptedSession {
        ScriptedSession {
            database: self.clone(),
            status: ScriptedTransactionStatus::Idle,
            ..ScriptedSession::default()
        }
    }
}

#[derive(Clone, Debug)]
pub struct ScriptedCancelHandle(watch::Sender<u64>, watch::Sender<bool>);

impl ScriptedCancelHandle {
    pub fn cancel(&self) {
        self.0.send_modify(|count| *count += 1);
    }

    pub fn ending(&self) -> watch::Receiver<bool> {
        self.1.subscribe()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScriptedTransactionStatus {
    #[default]
    Idle,
    Open,
    Failed,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ScriptedStatement {
    Insert(()),
    Update(()),
    Deallocate(Option<String>),
    DeclareCursor(ScriptedCursor),
    Close(Option<String>),
    Other,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ScriptedCursor {
    pub name: String,
}

#[derive(Clone, Debug)]
pub struct ScriptedParsed {
    pub statement: ScriptedStatement,
    pub text: String,
}

#[derive(Clone, Debug)]
pub struct ScriptedPrepared {
    pub parameters: Vec<ColumnType>,
    pub oid_arrays: Vec<usize>,
    pub assigned: Vec<usize>,
    pub schema: Option<SchemaRef>,
    parsed: ScriptedParsed,
}

impl ScriptedPrepared {
    pub fn parsed(&self) -> &ScriptedParsed {
        &self.parsed
    }
}

#[derive(Clone, Debug)]
pub struct ScriptedTag(&'static str, Option<u64>);

impl ScriptedTag {
    pub fn command(&self) -> &str {
        self.0
    }

    pub fn text(&self, streamed: u64) -> String {
        match self.1 {
            Some(_) => format!("{} {streamed}", self.0),
            None => self.0.to_owned(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct ScriptedSeverity;

impl ScriptedSeverity {
    pub fn name(self) -> &'static str {
        "NOTICE"
    }
}

#[derive(Debug)]
pub struct ScriptedNotice {
    pub severity: ScriptedSeverity,
    pub sqlstate: &'static str,
    pub message: String,
    pub hint: Option<String>,
}

pub struct ScriptedRows {
    schema: SchemaRef,
    stream: BoxStream<'static, Result<RecordBatch>>,
}

impl ScriptedRows {
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        self.stream.next().await.transpose()
    }
}

#[derive(Debug)]
pub struct ScriptedCopy {
    pub options: CopyOptions,
}

#[derive(Debug)]
pub enum ScriptedCopyDirection {
    In(Box<ScriptedCopy>),
    Out(Box<ScriptedCopy>),
}

pub struct ScriptedOutcome {
    pub tag: ScriptedTag,
    pub rows: Option<ScriptedRows>,
    pub copy: Option<ScriptedCopyDirection>,
}

#[derive(Debug, Default)]
pub struct ScriptedSettings {
    zone: String,
}

impl ScriptedSettings {
    pub fn time_zone(&self) -> &str {
        if self.zone.is_empty() { "UTC" } else { &self.zone }
    }

    pub fn tells(&self, _severity: ScriptedSeverity) -> bool {
        true
    }

    pub fn text_style(&self) -> TextStyle {
        TextStyle::in_zone(self.time_zone())
    }

    pub fn idle_timeout(&self, _in_transaction: bool) -> Option<std::time::Duration> {
        None
    }

    pub fn reported(&self) -> Vec<(&'static str, String)> {
        vec![
            ("server_version", "16.6".into()),
            ("client_encoding", "UTF8".into()),
            ("TimeZone", self.time_zone().into()),
        ]
    }
}

#[derive(Debug)]
pub struct ScriptedSession {
    database: ScriptedDatabase,
    settings: ScriptedSettings,
    status: ScriptedTransactionStatus,
    implicit: bool,
    cancels: watch::Sender<u64>,
    end: watch::Sender<bool>,
    notices: Vec<ScriptedNotice>,
    changes: Vec<(&'static str, String)>,
}

impl Default for ScriptedSession {
    fn default() -> ScriptedSession {
        ScriptedSession {
            database: ScriptedDatabase::default(),
            settings: ScriptedSettings::default(),
            status: ScriptedTransactionStatus::Idle,
            implicit: false,
            cancels: watch::Sender::new(0),
            end: watch::Sender::new(false),
            notices: Vec::new(),
            changes: Vec::new(),
        }
    }
}

impl ScriptedSession {
    pub fn inbox(&self) -> Arc<keyspan::Inbox> {
        Arc::default()
    }

    pub fn identify(&mut self, _process: i32, _client: Option<(String, u16)>, _max_connections: usize) {}

    pub fn connect_as(&mut self, user: &str, _database: &str) -> Result<()> {
        match user {
            "mallory" => Err(Error::new(ErrorKind::InvalidPassword, "password authentication failed")),
            _ => Ok(()),
        }
    }

    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name.to_lowercase().as_str() {
            "timezone" => self.settings.zone = value.to_owned(),
            "application_name" | "client_encoding" | "extra_float_digits" => {}
            _ => {
                let message = format!("unrecognized configuration parameter \"{name}\"");
                return Err(Error::new(ErrorKind::UndefinedObject, message));
            }
        }
        Ok(())
    }

    pub fn settings(&self) -> &ScriptedSettings {
        &self.settings
    }

    pub fn share_statement(
        &mut self,
        _name: &str,
        _text: &str,
        _parameters: &[u32],
        _statement: Option<&ScriptedPrepared>,
    ) -> Result<()> {
        Ok(())
    }

    pub fn named_statement(&self, _name: &str) -> Option<&ScriptedPrepared> {
        None
    }

    pub fn forget_statement(&mut self, _name: Option<&str>) {}

    pub fn close_cursor(&mut self, _name: &str) {}

    pub fn cursor_schema(&self, name: &str) -> Option<SchemaRef> {
        (name == "cursor").then(numbers_schema)
    }

    pub fn cancel_handle(&self) -> ScriptedCancelHandle {
        ScriptedCancelHandle(self.cancels.clone(), self.end.clone())
    }

    pub fn parse(&self, sql: &str) -> Result<Vec<ScriptedParsed>> {
        let texts = sql.split(';').map(str::trim).filter(|text| !text.is_empty());
        texts
            .map(|text| match text.split_once(' ') {
                Some(("syntax", _)) => Err(Error::new(ErrorKind::Syntax, "syntax error at or near \"syntax\"").at(1)),
                Some(("insert", _)) => {
                    Ok(ScriptedParsed { statement: ScriptedStatement::Insert(()), text: text.to_owned() })
                }
                Some(("update", _)) => {
                    Ok(ScriptedParsed { statement: ScriptedStatement::Update(()), text: text.to_owned() })
                }
                Some(("declare", name)) => Ok(ScriptedParsed {
                    statement: ScriptedStatement::DeclareCursor(ScriptedCursor { name: name.to_owned() }),
                    text: text.to_owned(),
                }),
                Some(("close", name)) => Ok(ScriptedParsed {
                    statement: ScriptedStatement::Close(Some(name.to_owned())),
                    text: text.to_owned(),
                }),
                Some(("deallocate", name)) => Ok(ScriptedParsed {
                    statement: ScriptedStatement::Deallocate(Some(name.to_owned())),
                    text: text.to_owned(),
                }),
                _ => Ok(ScriptedParsed { statement: ScriptedStatement::Other, text: text.to_owned() }),
            })
            .collect()
    }

    pub async fn prepare(&mut self, parsed: &ScriptedParsed, types: &[Option<ColumnType>]) -> Result<ScriptedPrepared> {
        let text = parsed.text.clone();
        if self.status == ScriptedTransactionStatus::Failed && text != "rollback" {
            return Err(Error::new(ErrorKind::FailedTransaction, "current transaction is aborted"));
        }
        let (word, rest) = text.split_once(' ').unwrap_or((&text, ""));
        let mut parameters = Vec::new();
        let schema = match word {
            "rows" | "endless" | "hang" | "fail" | "altered" if word != "hang" || rest == "rows" => {
                Some(numbers_schema())
            }
            "wide" => Some(Arc::new(Schema::new(vec![ColumnType::Text.field("wide", false)]))),
            "types" => {
                for (index, name) in rest.split(", ").enumerate() {
                    let named = types.get(index).copied().flatten().map_or_else(|| ColumnType::parse(name, &[]), Ok)?;
                    parameters.push(named);
                }
                let fields = parameters.iter().enumerate().map(|(index, ty)| ty.field(&format!("c{index}"), true));
                Some(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
            }
            _ => None,
        };
        let schema = schema.filter(|_| text != "fail");
        Ok(ScriptedPrepared {
            parameters,
            oid_arrays: Vec::new(),
            assigned: Vec::new(),
            schema,
            parsed: parsed.clone(),
        })
    }

    pub async fn run(&mut self, prepared: &ScriptedPrepared, parameters: &[Value]) -> Result<ScriptedOutcome> {
        let (word, rest) = prepared.parsed.text.split_once(' ').unwrap_or((&prepared.parsed.text, ""));
        let done = |tag| Ok(ScriptedOutcome { tag: ScriptedTag(tag, None), rows: None, copy: None });
        let select = ScriptedTag("SELECT", Some(0));
        let count: u64 = rest.parse().unwrap_or(u64::MAX);
        let stream: BoxStream<'static, Result<RecordBatch>> = match (word, rest) {
            ("hang", "") => {
                self.canceled().await;
                return Err(Error::new(ErrorKind::Canceled, "canceling statement due to user request"));
            }
            ("hang", "rows") => futures::stream::pending().boxed(),
            ("fail", "") => return Err(Error::new(ErrorKind::UndefinedTable, "relation \"t\" does not exist").at(6)),
            ("fail", _) => {
                let error = Error::new(ErrorKind::DivisionByZero, "division by zero");
                futures::stream::iter([Ok(numbers(0, 10)), Err(error)]).boxed()
            }
            ("panic", _) => panic!("scripted panic"),
            ("rows" | "endless", _) => batches(count).boxed(),
            ("wide", _) => {
                let text = "x".repeat(usize::try_from(count).unwrap_or(0));
                let array = array_of(ColumnType::Text, &[Value::Text(text)])?;
                let schema = prepared.schema.clone().expect("wide has a schema");
                futures::stream::iter([Ok(RecordBatch::try_new(schema, vec![array])?)]).boxed()
            }
            ("types", _) => {
                let pairs = prepared.parameters.iter().zip(parameters);
                let arrays =
                    pairs.map(|(ty, value)| array_of(*ty, std::slice::from_ref(value))).collect::<Result<_>>()?;
                let schema = prepared.schema.clone().expect("types has a schema");
                futures::stream::iter([Ok(RecordBatch::try_new(schema, arrays)?)]).boxed()
            }
            ("copy", "in") => {
                let copy = ScriptedCopy { options: CopyOptions::default() };
                let copy = Some(ScriptedCopyDirection::In(Box::new(copy)));
                return Ok(ScriptedOutcome { tag: ScriptedTag("COPY", Some(0)), rows: None, copy });
            }
            ("copy", format) => return Ok(copy_out(format)),
            ("notice", _) => {
                self.notices.push(ScriptedNotice {
                    severity: ScriptedSeverity,
                    sqlstate: "00000",
                    message: "note".into(),
                    hint: None,
                });
                return done("NOTE");
            }
            ("set", zone) => {
                self.settings.zone = zone.to_owned();
                self.changes.push(("TimeZone", zone.to_owned()));
                return done("SET");
            }
            ("begin" | "BEGIN" | "START", _) => {
                self.status = ScriptedTransactionStatus::Open;
                return done("BEGIN");
            }
            ("commit" | "rollback" | "COMMIT", _) => {
                self.status = ScriptedTransactionStatus::Idle;
                return done(if word == "rollback" { "ROLLBACK" } else { "COMMIT" });
            }
            _ => return done("DONE"),
        };
        let schema = prepared.schema.clone().expect("a statement with rows has a schema");
        let mut cancels = self.cancels.subscribe();
        let canceled = async move {
            let _ = cancels.changed().await;
        };
        let error = || Err(Error::new(ErrorKind::Canceled, "canceling statement due to user request"));
        let end = futures::stream::once(canceled).map(move |()| error());
        let mut failed = false;
        let stream = futures::stream::select(stream.map(Some).chain(futures::stream::iter([None])), end.map(Some));
        let stream = stream.take_while(move |item| {
            let go_on = !failed && item.is_some();
            failed |= matches!(item, Some(Err(_)));
            futures::future::ready(go_on)
        });
        let stream = stream.filter_map(futures::future::ready).boxed();
        Ok(ScriptedOutcome { tag: select, rows: Some(ScriptedRows { schema, stream }), copy: None })
    }

    async fn canceled(&self) {
        let _ = self.cancels.subscribe().changed().await;
    }

    pub fn status(&self) -> ScriptedTransactionStatus {
        self.status
    }

    pub fn fail(&mut self) {
        if self.status == ScriptedTransactionStatus::Open {
            self.status = ScriptedTransactionStatus::Failed;
        }
    }

    pub fn begin_implicit(&mut self) {
        self.implicit = true;
    }

    pub async fn end_implicit(&mut self, commit: bool) -> Result<()> {
        if std::mem::take(&mut self.implicit) {
            self.database.ends.lock().push(if commit { "commit" } else { "undo" });
        }
        Ok(())
    }

    /// Of `altered` tables have changed since it was prepared.
    pub async fn check_columns(&mut self, prepared: &ScriptedPrepared) -> Result<()> {
        if prepared.parsed.text == "altered" { Err(Error::cached_plan()) } else { Ok(()) }
    }

    pub async fn end_failed_text(&mut self, _: &str) {
        let _ = self.end_implicit(false).await;
    }

    pub fn take_notices(&mut self) -> Vec<ScriptedNotice> {
        std::mem::take(&mut self.notices)
    }

    pub fn take_parameter_changes(&mut self) -> Vec<(&'static str, String)> {
        std::mem::take(&mut self.changes)
    }

    pub fn copy_in(&mut self, _copy: &ScriptedCopy) -> Result<ScriptedCopyIn> {
        let schema = Arc::new(Schema::new(vec![ColumnType::Text.field("line", true)]));
        Ok(ScriptedCopyIn { schema, table: Table { name: "t".into() }, lines: 0 })
    }
}

pub struct Table {
    pub name: String,
}

pub struct ScriptedCopyIn {
    schema: SchemaRef,
    table: Table,
    lines: u64,
}

impl ScriptedCopyIn {
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub fn table(&self) -> &Table {
        &self.table
    }

    pub fn lengths(&self) -> Vec<(String, u32)> {
        Vec::new()
    }

    pub async fn push(&mut self, session: &mut ScriptedSession, batch: &RecordBatch) -> Result<()> {
        let text = batch.column(0).as_string_view().value(0);
        self.lines += text.matches('\n').count() as u64;
        session.database.copied.lock().extend_from_slice(text.as_bytes());
        Ok(())
    }

    pub async fn finish(self, _session: &mut ScriptedSession) -> Result<u64> {
        Ok(self.lines)
    }
}

/// Makes one value of each piece.
pub struct ScriptedCopyParser(SchemaRef);

impl ScriptedCopyParser {
    pub fn new(
        _table: &str,
        columns: &[(String, ColumnType)],
        _: &CopyOptions,
        _zone: &str,
    ) -> Result<ScriptedCopyParser> {
        let fields: Vec<_> = columns.iter().map(|(name, ty)| ty.field(name, true)).collect();
        Ok(ScriptedCopyParser(Arc::new(Schema::new(fields))))
    }

    pub fn limit(self, _: &[(String, u32)]) -> ScriptedCopyParser {
        self
    }

    pub async fn push(&mut self, bytes: &[u8]) -> Result<Vec<RecordBatch>> {
        let text = String::from_utf8_lossy(bytes).into_owned();
        if text.contains("bad") {
            return Err(Error::new(ErrorKind::InvalidCopy, "a bad line"));
        }
        let array = array_of(ColumnType::Text, &[Value::Text(text)])?;
        Ok(vec![RecordBatch::try_new(self.0.clone(), vec![array])?])
    }

    pub async fn finish(&mut self) -> Result<Vec<RecordBatch>> {
        Ok(Vec::new())
    }

    pub fn take_notices(&mut self) -> Vec<ScriptedNotice> {
        Vec::new()
    }
}

fn copy_out(format: &str) -> ScriptedOutcome {
    let format = match format {
        "csv" => CopyFormat::Csv,
        "binary" => CopyFormat::Binary,
        _ => CopyFormat::Text,
    };
    let header = if format == CopyFormat::Csv { CopyHeader::Present } else { CopyHeader::None };
    let options = CopyOptions { format, header, ..CopyOptions::default() };
    let texts = StringArray::from(vec![Some("a\tb\\"), None, Some("say \"hi\", you"), Some("")]);
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
    let fields = vec![Field::new("n", DataType::Int64, false), Field::new("t", DataType::Utf8, true)];
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema.clone(), vec![numbers, Arc::new(texts)]).expect("columns fit");
    let stream = futures::stream::iter([Ok(batch)]).boxed();
    let copy = Some(ScriptedCopyDirection::Out(Box::new(ScriptedCopy { options })));
    ScriptedOutcome { tag: ScriptedTag("COPY", Some(0)), rows: Some(ScriptedRows { schema, stream }), copy }
}

fn numbers_schema() -> SchemaRef {
    let fields = vec![ColumnType::BigInt.field("n", false), ColumnType::Text.field("t", false)];
    Arc::new(Schema::new(fields))
}

fn numbers(from: u64, count: u64) -> RecordBatch {
    let numbers: Vec<Value> = (from..from + count).map(|n| Value::BigInt(n as i64)).collect();
    let texts: Vec<Value> = (from..from + count).map(|n| Value::Text(format!("row {n} {}", "x".repeat(100)))).collect();
    let columns = vec![
        array_of(ColumnType::BigInt, &numbers).expect("numbers"),
        array_of(ColumnType::Text, &texts).expect("texts"),
    ];
    RecordBatch::try_new(numbers_schema(), columns).expect("columns fit")
}

fn batches(count: u64) -> impl futures::Stream<Item = Result<RecordBatch>> + Send {
    const BATCH: u64 = 1000;
    futures::stream::unfold(0, move |from| async move {
        // As a real scan does, it gives way to others between batches.
        tokio::task::yield_now().await;
        let length = count.saturating_sub(from).min(BATCH);
        (length > 0).then(|| (Ok(numbers(from, length)), from + length))
    })
}
