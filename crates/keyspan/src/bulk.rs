//! Many rows at once: COPY FROM and imports.
//!
//! The rule: a COPY is all or nothing, however large it is, and its memory is bounded: `intake` has more than 16 MB
//! written out while they come. `SET copy_commit_rows` and
//! [`CopyIn::commit_every`] give that up: rows are committed, and seen, every so many.

use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::SchemaRef;
use keyspan_cql::{Copy, CopySubject, ObjectName};
use keyspan_model::{ColumnType, Error, ErrorKind, Mutation, Result, Right, Stamp, TableDef, Unchanged, WriteBatch};

use crate::context::ClientContext;
use crate::database::Database;
use crate::dml::new_keys::NewKeys;
use crate::dml::new_values::NewValues;
use crate::dml::using::Timing;
use crate::dml::{existing, rights, statics};
use crate::expression::compile;
use crate::intake::gather::Gather;
use crate::intake::{GatheredCells, Intake};
use crate::locks::HeldLocks;
use crate::names;
use crate::session::Session;
use crate::timer::StatementTimer;
use keyspan_seam::ReadAt;

/// Takes the rows of a COPY FROM or an import. Dropped without [`CopyIn::finish`], it writes nothing (more).
#[derive(Debug)]
pub struct CopyIn {
    database: Database,
    intake: Intake,
    schema: SchemaRef,
    filter: Option<keyspan_query::CompiledExprs>,
    gather: Gather,
    commit_every: usize,
    rows: u64,
    stamp: Stamp,
    relaxed: bool,
    in_transaction: bool,
    next_row_id: bool,
    /// Whether what families had before must still be asked for.
    cells_asked: bool,
    new_keys: Option<NewKeys>,
    new_values: Option<NewValues>,
    /// The statement; none of an import.
    timer: Option<StatementTimer>,
}

impl CopyIn {
    /// The columns to push, in order, with their types. Other types are cast as INSERT casts them.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The columns of texts that have a longest length, in characters.
    pub fn lengths(&self) -> Vec<(String, u32)> {
        let lengths = self.table().columns.iter().filter(|column| column.ty == ColumnType::Text);
        lengths.filter_map(|column| Some((column.name.clone(), column.max_length?))).collect()
    }

    /// The table written to.
    pub fn table(&self) -> &Arc<TableDef> {
        self.intake.table()
    }

    /// Gives up one atomic step for all: commits after every so many rows. 0: at the end. Not inside a transaction.
    pub fn commit_every(&mut self, rows: usize) {
        self.commit_every = if self.in_transaction { 0 } else { rows };
    }

    /// Takes a batch.
    ///
    /// # Errors
    /// 23502, 23514, 22001 and whatever a value cannot be cast for; 53100 on a full disk. After an error the COPY is
    /// over.
    pub async fn push(&mut self, session: &mut Session, batch: &RecordBatch) -> Result<()> {
        let batch = match &self.filter {
            Some(filter) => &filtered(filter, batch)?,
            None => batch,
        };
        if batch.num_rows() == 0 {
            return Ok(());
        }
        check_texts(batch)?;
        if self.next_row_id {
            self.intake.reserve(session.database(), batch.num_rows()).await?;
        }
        if !self.cells_asked {
            self.take_cells()?;
        }
        let mut writes = self.intake.write(batch, self.stamp)?;
        if let Some(keys) = &mut self.new_keys {
            keys.check(&writes.rows).await?;
        }
        if let Some(values) = &mut self.new_values {
            let entries = values.check(&writes.rows).await?;
            writes.rows.extend(entries);
        }
        self.gather.push(writes).await?;
        if self.commit_every > 0 && self.gather.rows() >= self.commit_every as u64 {
            return self.commit(&mut session.context).await;
        }
        Ok(())
    }

    /// Has cells of families gathered, too, if the source has some.
    fn take_cells(&mut self) -> Result<()> {
        self.cells_asked = true;
        let families = self.intake.families();
        if families.is_empty() {
            return Ok(());
        }
        // What the transaction itself has written is not in the store yet.
        let before = match self.in_transaction {
            true => None,
            false => Some(self.database.store().snapshot(ReadAt::Newest)?),
        };
        let cells = GatheredCells::new(self.intake.target(), &families, self.stamp, self.intake.ttl, before);
        let gather = Gather::new(self.database.store(), self.intake.target());
        self.gather = gather.with_cells(cells);
        Ok(())
    }

    async fn commit(&mut self, context: &mut ClientContext) -> Result<()> {
        let (rows, mutations) = self.gathered(context).await?;
        if !mutations.is_empty() {
            let unchanged = unchanged(&self.new_keys, &self.new_values, context, &mutations).await?;
            context.check_partitions(self.intake.target(), &mutations).await?;
            let definitions = vec![self.intake.target().declared.clone()];
            self.database.heat().write(&self.database.catalog(), &mutations);
            context.apply(WriteBatch { mutations, unchanged, definitions, relaxed: self.relaxed }).await?;
        }
        if let Some(keys) = &mut self.new_keys {
            keys.begin_again(context)?;
        }
        if let Some(values) = &mut self.new_values {
            values.begin_again(context)?;
        }
        self.rows += rows;
        Ok(())
    }

    /// What was taken since the last time: how many rows, and what writes them.
    async fn gathered(&mut self, context: &ClientContext) -> Result<(u64, Vec<Mutation>)> {
        let next = Gather::new(self.database.store(), self.intake.target());
        let mut gather = std::mem::replace(&mut self.gather, next);
        self.cells_asked = false;
        existing::note_cells_before(context, &mut gather).await?;
        Ok((gather.rows(), gather.finish().await?))
    }

    fn done(&mut self, rows: u64) {
        if let Some(timer) = self.timer.take() {
            timer.done(rows);
        }
    }

    /// Rows committed so far.
    pub fn committed(&self) -> u64 {
        self.rows
    }

    /// Writes what is pending and answers the number of rows of all.
    pub async fn finish(mut self, session: &mut Session) -> Result<u64> {
        if !self.in_transaction {
            self.commit(&mut session.context).await?;
            self.done(self.rows);
            return Ok(self.rows);
        }
        let (rows, mutations) = self.gathered(&session.context).await?;
        let unchanged = unchanged(&self.new_keys, &self.new_values, &mut session.context, &mutations).await?;
        let locks = HeldLocks::none(self.database.locks().clone());
        session.context.write_checked(self.intake.target(), mutations, unchanged, locks).await?;
        self.done(rows);
        Ok(rows)
    }
}

/// What must not have been written since the keys and what else is unique were looked at.
async fn unchanged(
    keys: &Option<NewKeys>,
    values: &Option<NewValues>,
    context: &mut ClientContext,
    mutations: &[Mutation],
) -> Result<Vec<Unchanged>> {
    let mut unchanged = match keys {
        Some(keys) => keys.confirm(context, mutations).await?,
        None => Vec::new(),
    };
    if let Some(values) = values {
        unchanged.extend(values.confirm(context, mutations).await?);
    }
    Ok(unchanged)
}

fn filtered(filter: &keyspan_query::CompiledExprs, batch: &RecordBatch) -> Result<RecordBatch> {
    use arrow::array::AsArray;
    let results = filter.evaluate(batch, &[])?;
    match results[0].as_boolean_opt() {
        Some(keep) => Ok(arrow::compute::filter_record_batch(batch, keep)?),
        None => Err(Error::new(ErrorKind::DatatypeMismatch, "argument of WHERE must be type boolean")),
    }
}

impl Session {
    /// Begins the data of a `COPY … FROM STDIN`.
    ///
    /// # Errors
    /// 42P01, 42703 for wrong names, 23502 when a NOT NULL column would get nothing, 25006 in a read-only transaction.
    pub fn copy_in(&mut self, copy: &Copy) -> Result<CopyIn> {
        let CopySubject::Table { name, columns } = &copy.subject else {
            return Err(Error::new(ErrorKind::Syntax, "COPY FROM needs a table"));
        };
        let columns: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let mut bulk = self.bulk_insert(name, &columns)?;
        if let Some(filter) = &copy.filter {
            let input = [(name.name.as_str(), bulk.schema.clone())];
            let compiled = compile(&mut self.context, &[filter], &input, &[])?;
            if compiled.types() != [ColumnType::Boolean] {
                return Err(Error::new(ErrorKind::DatatypeMismatch, "argument of WHERE must be type boolean"));
            }
            bulk.filter = Some(compiled);
        }
        Ok(bulk)
    }

    /// Begins writing many rows to columns of a table; no columns means all.
    ///
    /// # Errors
    /// As [`Session::copy_in`].
    pub fn bulk_insert(&mut self, table: &ObjectName, columns: &[String]) -> Result<CopyIn> {
        let table = names::table(&self.catalog(), &self.context.settings.search_path(), table)?;
        let names: Vec<&str> = columns.iter().map(String::as_str).collect();
        self.context.require(&table, Right::Insert, &rights::ids(&table, &names))?;
        let hidden = table.columns[0].hidden;
        let handle = self.context.handle(table);
        let new_keys = NewKeys::wanted(&mut self.context, &handle)?;
        let new_values = NewValues::wanted(&mut self.context, &handle)?;
        let target = statics::loaded(&handle, &names);
        let intake = Intake::complete(&mut self.context, target, columns)?;
        let commit_every =
            self.context.settings.get("copy_commit_rows").and_then(|rows| rows.parse().ok()).unwrap_or(0);
        let timing = Timing { stamp: self.context.stamp(), ttl: intake.ttl, custom: false, room_before: false };
        let timing = if intake.families().is_empty() { timing } else { timing.replacing() };
        let mut copy = CopyIn {
            database: self.context.database.clone(),
            schema: intake.schema(),
            gather: Gather::new(self.context.database.store(), intake.target()),
            intake,
            filter: None,
            commit_every: 0,
            rows: 0,
            stamp: timing.stamp,
            relaxed: self.context.settings.relaxed_durability(),
            in_transaction: self.context.transaction.is_some(),
            next_row_id: hidden,
            cells_asked: false,
            new_keys,
            new_values,
            timer: self.copying.take(),
        };
        copy.commit_every(commit_every);
        Ok(copy)
    }
}
/// Fails for texts with the character U+0000, which clients take for a text's end, as PostgreSQL does.
fn check_texts(batch: &RecordBatch) -> Result<()> {
    let zero = |text: &str| text.as_bytes().contains(&0);
    for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let has_zero = if let Some(texts) = array.as_string_view_opt() {
            texts.iter().flatten().any(zero)
        } else if let Some(texts) = array.as_string_opt::<i32>() {
            texts.iter().flatten().any(zero)
        } else if let Some(texts) = array.as_string_opt::<i64>() {
            texts.iter().flatten().any(zero)
        } else {
            false
        };
        if has_zero {
            let error = Error::new(ErrorKind::InvalidEncoding, "invalid byte sequence for encoding \"UTF8\": 0x00");
            return Err(error.with_detail(format!("A text of column \"{}\" has the character U+0000.", field.name())));
        }
    }
    Ok(())
}
