//! One row written: INSERT, UPDATE or DELETE.

use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use keyspan_cql::quoted;
use keyspan_model::{Error, ErrorKind, Result, TableDef, Value};

use super::{Text, check_key, name, quoted_name};
use crate::names;
use crate::session::Session;

/// A write of one row, for [`Session::write`] and [`Session::write_all`].
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    kind: Kind,
    table: String,
    key: Vec<Value>,
    changes: Vec<(Target, Change)>,
    condition: Option<Condition>,
    ttl: Option<u32>,
    timestamp: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Insert,
    Update,
    Delete,
}

/// A column, or a cell of a family or map.
#[derive(Clone, Debug, PartialEq)]
struct Target {
    column: String,
    qualifier: Option<Value>,
}

#[derive(Clone, Debug, PartialEq)]
enum Change {
    Set(Value),
    Add(Value),
    Remove,
}

#[derive(Clone, Debug, PartialEq)]
enum Condition {
    Exists,
    NotExists,
    Equal(Vec<(Target, Value)>),
}

impl Write {
    /// INSERT of a row: it lives even if its cells go. `table` may have its keyspace and a point before it; `key` has a
    /// value for each key column, in their order.
    pub fn insert(table: &str, key: impl IntoIterator<Item = impl Into<Value>>) -> Write {
        Write::new(Kind::Insert, table, key)
    }

    /// UPDATE of a row, which is made if it is not there (unless `write_semantics` is `postgres`), and lives as long
    /// as a cell of it.
    pub fn update(table: &str, key: impl IntoIterator<Item = impl Into<Value>>) -> Write {
        Write::new(Kind::Update, table, key)
    }

    /// DELETE of a row, or of what [`Write::remove`] and [`Write::remove_cell`] name. With fewer values than key
    /// columns: of all rows that begin with them.
    pub fn delete(table: &str, key: impl IntoIterator<Item = impl Into<Value>>) -> Write {
        Write::new(Kind::Delete, table, key)
    }

    fn new(kind: Kind, table: &str, key: impl IntoIterator<Item = impl Into<Value>>) -> Write {
        let key = key.into_iter().map(Into::into).collect();
        Write { kind, table: table.to_owned(), key, changes: vec![], condition: None, ttl: None, timestamp: None }
    }

    /// Writes a column; `Value::Null` deletes it. A family or collection is replaced as a whole.
    #[must_use]
    pub fn set(self, column: &str, value: impl Into<Value>) -> Write {
        self.change(column, None, Change::Set(value.into()))
    }

    /// Writes one cell of a family or map. A qualifier of several parts is a [`Value::Tuple`].
    #[must_use]
    pub fn set_cell(self, family: &str, qualifier: impl Into<Value>, value: impl Into<Value>) -> Write {
        self.change(family, Some(qualifier.into()), Change::Set(value.into()))
    }

    /// Adds to a counter, or elements to a collection. Of an update.
    #[must_use]
    pub fn add(self, column: &str, value: impl Into<Value>) -> Write {
        self.change(column, None, Change::Add(value.into()))
    }

    /// Deletes a column, or a whole family or collection. Of an update or a delete.
    #[must_use]
    pub fn remove(self, column: &str) -> Write {
        self.change(column, None, Change::Remove)
    }

    /// Deletes one cell of a family or map, with all its versions. Of an update or a delete.
    #[must_use]
    pub fn remove_cell(self, family: &str, qualifier: impl Into<Value>) -> Write {
        self.change(family, Some(qualifier.into()), Change::Remove)
    }

    fn change(mut self, column: &str, qualifier: Option<Value>, change: Change) -> Write {
        self.changes.push((Target { column: column.to_owned(), qualifier }, change));
        self
    }

    /// Only if the row is not there (`IF NOT EXISTS`). Of an insert.
    #[must_use]
    pub fn if_not_exists(mut self) -> Write {
        self.condition = Some(Condition::NotExists);
        self
    }

    /// Only if the row is there (`IF EXISTS`). Of an update or a delete.
    #[must_use]
    pub fn if_exists(mut self) -> Write {
        self.condition = Some(Condition::Exists);
        self
    }

    /// Only if a column has this value (`IF column = value`); several such conditions must all hold. Of an update or a
    /// delete.
    #[must_use]
    pub fn if_equal(self, column: &str, value: impl Into<Value>) -> Write {
        self.only_if(column, None, value.into())
    }

    /// Only if a cell has this value (`IF family['qualifier'] = value`). Of an update or a delete.
    #[must_use]
    pub fn if_cell_equal(self, family: &str, qualifier: impl Into<Value>, value: impl Into<Value>) -> Write {
        self.only_if(family, Some(qualifier.into()), value.into())
    }

    fn only_if(mut self, column: &str, qualifier: Option<Value>, value: Value) -> Write {
        let mut all = match self.condition.take() {
            Some(Condition::Equal(all)) => all,
            _ => Vec::new(),
        };
        all.push((Target { column: column.to_owned(), qualifier }, value));
        self.condition = Some(Condition::Equal(all));
        self
    }

    /// Seconds to live (`USING TTL`); 0: for ever, whatever the table's default. Of an insert or an update.
    #[must_use]
    pub fn ttl(mut self, seconds: u32) -> Write {
        self.ttl = Some(seconds);
        self
    }

    /// Write timestamp in microseconds since 1970 (`USING TIMESTAMP`).
    #[must_use]
    pub fn timestamp(mut self, microseconds: i64) -> Write {
        self.timestamp = Some(microseconds);
        self
    }

    fn table(&self, session: &Session) -> Result<Arc<TableDef>> {
        names::table(&session.catalog(), &session.settings().search_path(), &name(&self.table))
    }

    /// Whether it changes a counter.
    fn counts(&self, table: &TableDef) -> bool {
        let is_counter = |name: &str| table.column(name).is_some_and(|column| column.counter);
        self.changes.iter().any(|(target, _)| is_counter(&target.column))
    }

    /// Fails for what the statement of this kind cannot say.
    fn check(&self) -> Result<()> {
        let unfit = |message: &str, hint: &str| {
            let message = format!("{message}: \"{}\"", self.table);
            Err(Error::new(ErrorKind::InvalidParameter, message).with_hint(hint))
        };
        if self.key.is_empty() {
            return unfit("a write needs a key", "TRUNCATE empties a table.");
        }
        let sets = |change: &Change| matches!(change, Change::Set(_));
        let removes = |change: &Change| matches!(change, Change::Remove);
        let mut changes = self.changes.iter().map(|(_, change)| change);
        match (self.kind, &self.condition) {
            (Kind::Insert, Some(Condition::Exists | Condition::Equal(_))) => {
                unfit("an insert cannot ask what a row has", "Take if_not_exists, or an update.")
            }
            (Kind::Update | Kind::Delete, Some(Condition::NotExists)) => {
                unfit("only an insert can ask that a row is not there", "Take an insert.")
            }
            (Kind::Insert, _) if !changes.all(sets) => {
                unfit("an insert only sets values", "Take an update, or a delete.")
            }
            (Kind::Update, _) if self.changes.is_empty() => unfit(
                "an update that changes nothing",
                "Name columns or cells; an insert makes a row of its key alone.",
            ),
            (Kind::Delete, _) if !changes.all(removes) => unfit("a delete sets nothing", "Take an update."),
            (Kind::Delete, _) if self.ttl.is_some() => unfit("a delete has no time to live", "Leave ttl out."),
            _ => Ok(()),
        }
    }

    fn text(&self, table: &TableDef) -> Result<Text> {
        let key: Vec<String> = table.key().map(|column| column.name.clone()).collect();
        check_key(&self.table, &key, &self.key)?;
        self.check()?;
        let path = quoted_name(&name(&self.table));
        let mut text = Text::default();
        match self.kind {
            Kind::Insert => self.insert_text(&path, &key, &mut text),
            Kind::Update => {
                text.push(&format!("UPDATE {path}{} SET ", self.using()));
                for (place, (target, change)) in self.changes.iter().enumerate() {
                    text.push(if place > 0 { ", " } else { "" });
                    assignment(target, change, &mut text);
                }
                text.push(" WHERE ");
                text.equal(&key, &self.key);
                self.push_condition(&mut text);
            }
            Kind::Delete => {
                text.push("DELETE ");
                for (place, (target, _)) in self.changes.iter().enumerate() {
                    text.push(if place > 0 { ", " } else { "" });
                    push_target(target, &mut text);
                }
                text.push(&format!(" FROM {path}{} WHERE ", self.using()));
                text.equal(&key, &self.key);
                self.push_condition(&mut text);
            }
        }
        Ok(text)
    }

    fn insert_text(&self, path: &str, key: &[String], text: &mut Text) {
        text.push(&format!("INSERT INTO {path} ("));
        text.push(&key.iter().take(self.key.len()).map(|name| quoted(name)).collect::<Vec<_>>().join(", "));
        for (target, _) in &self.changes {
            text.push(", ");
            push_target(target, text);
        }
        text.push(") VALUES (");
        let set = self.changes.iter().filter_map(|(_, change)| match change {
            Change::Set(value) => Some(value),
            Change::Add(_) | Change::Remove => None,
        });
        for (place, value) in self.key.iter().chain(set).enumerate() {
            text.push(if place > 0 { ", " } else { "" });
            text.value(value);
        }
        text.push(")");
        self.push_condition(text);
        text.push(&self.using());
    }

    fn using(&self) -> String {
        let timestamp = self.timestamp.map(|timestamp| format!("TIMESTAMP {timestamp}"));
        let ttl = self.ttl.map(|ttl| format!("TTL {ttl}"));
        let parts: Vec<String> = timestamp.into_iter().chain(ttl).collect();
        if parts.is_empty() { String::new() } else { format!(" USING {}", parts.join(" AND ")) }
    }

    fn push_condition(&self, text: &mut Text) {
        match &self.condition {
            None => {}
            Some(Condition::Exists) => text.push(" IF EXISTS"),
            Some(Condition::NotExists) => text.push(" IF NOT EXISTS"),
            Some(Condition::Equal(all)) => {
                for (place, (target, value)) in all.iter().enumerate() {
                    text.push(if place > 0 { " AND " } else { " IF " });
                    push_target(target, text);
                    text.push(" = ");
                    text.value(value);
                }
            }
        }
    }
}

fn push_target(target: &Target, text: &mut Text) {
    text.push(&quoted(&target.column));
    if let Some(qualifier) = &target.qualifier {
        text.push("[");
        text.value(qualifier);
        text.push("]");
    }
}

fn assignment(target: &Target, change: &Change, text: &mut Text) {
    push_target(target, text);
    match change {
        Change::Set(value) => {
            text.push(" = ");
            text.value(value);
        }
        Change::Add(value) => {
            text.push(&format!(" = {} + ", quoted(&target.column)));
            text.value(value);
        }
        Change::Remove => text.push(" = NULL"),
    }
}

/// What the first column, `[applied]`, says of the first row.
fn is_applied(answer: &[RecordBatch]) -> bool {
    answer.iter().find(|batch| batch.num_rows() > 0).is_some_and(|batch| batch.column(0).as_boolean().value(0))
}

impl Session {
    /// Writes one row. Answers whether it was applied: `false` only where a condition did not hold.
    ///
    /// # Errors
    /// 42P01 and 42703 for names that there are not, and whatever the statement's errors are.
    pub async fn write(&mut self, write: &Write) -> Result<bool> {
        let text = write.text(write.table(self)?.as_ref())?;
        let outcome = self.run_text(text).await?;
        let Some(rows) = outcome.rows.filter(|_| write.condition.is_some()) else { return Ok(true) };
        Ok(is_applied(&rows.collect().await?))
    }

    /// Writes several rows in one step, as CQL's BATCH: with one timestamp, not seeing each other, all or none. Answers
    /// whether they were applied: `false` where a condition of one did not hold.
    ///
    /// # Errors
    /// As [`Session::write`]; then nothing is written.
    pub async fn write_all(&mut self, writes: &[Write]) -> Result<bool> {
        let (mut texts, mut counts) = (Vec::with_capacity(writes.len()), false);
        for write in writes {
            let table = write.table(self)?;
            counts |= write.counts(&table);
            texts.push(write.text(&table)?);
        }
        self.execute(if counts { "BEGIN COUNTER BATCH" } else { "BEGIN BATCH" }).await?;
        for text in texts {
            if let Err(error) = self.run_text(text).await {
                // Of a batch that has failed this is its end.
                let _ = self.execute("APPLY BATCH").await;
                return Err(error);
            }
        }
        let outcomes = self.execute("APPLY BATCH").await?;
        let Some(rows) = outcomes.into_iter().find_map(|outcome| outcome.rows) else { return Ok(true) };
        Ok(is_applied(&rows.collect().await?))
    }
}
