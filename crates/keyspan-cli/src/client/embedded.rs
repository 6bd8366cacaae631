//! A database in this process.

use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, SchemaRef};
use bytes::BytesMut;
use keyspan::copy::{CopyEncoder, CopyParser};
use keyspan::text::ArrayText;
use keyspan::{ColumnType, Copy, CopyDirection, CopyIn, Database, Notice, Outcome, Parsed, Rows, Session};

use super::{Canceller, Column, CopyData, Kind, Names, Sink, notice_text};
use crate::failure::Result;

/// A session of a database in this process.
pub struct Embedded {
    database: Database,
    directory: Option<PathBuf>,
    /// Those that no statement of the session has given.
    notices: Vec<Notice>,
    /// The session that statements run in.
    pub session: Session,
}

impl Embedded {
    /// A session of this database.
    pub fn new(database: Database) -> Embedded {
        Embedded { session: database.session(), directory: None, notices: Vec::new(), database }
    }

    /// Notes the directory of the database.
    pub fn at(self, directory: &Path) -> Embedded {
        Embedded { directory: Some(directory.to_path_buf()), ..self }
    }

    pub(super) fn place(&self) -> String {
        let directory = self.directory.as_ref().map(|path| format!(" in \"{}\"", path.display())).unwrap_or_default();
        format!("You are connected to the database{directory}, inside this program, without a server.")
    }

    pub(super) async fn run(&mut self, text: &str, sink: &mut dyn Sink, data: &mut dyn CopyData) -> Result<()> {
        for parsed in self.session.parse(text)? {
            let result = self.run_parsed(&parsed, sink, data).await;
            if result.is_err() {
                // Also an error while rows are read fails an open transaction, as behind a server.
                self.session.fail();
            }
            result?;
        }
        Ok(())
    }

    async fn run_parsed(&mut self, parsed: &Parsed, sink: &mut dyn Sink, data: &mut dyn CopyData) -> Result<()> {
        let prepared = self.session.prepare(parsed, &[]).await?;
        let Outcome { tag, rows, copy } = self.session.run(&prepared, &[]).await?;
        let count = match (copy, rows) {
            (Some(CopyDirection::In(copy)), _) => self.copy_in(&copy, data).await?,
            (Some(CopyDirection::Out(copy)), Some(rows)) => self.copy_out(&copy, rows, sink).await?,
            (_, Some(rows)) => self.deliver(rows, sink).await?,
            (_, None) => 0,
        };
        sink.done(&tag.text(count))?;
        Ok(())
    }

    async fn deliver(&mut self, mut rows: Rows, sink: &mut dyn Sink) -> Result<u64> {
        let schema = rows.schema().clone();
        sink.columns(schema.fields().iter().map(|field| column(field)).collect())?;
        let mut count = 0;
        while let Some(batch) = rows.next_batch().await? {
            self.deliver_batch(&schema, &batch, sink)?;
            count += batch.num_rows() as u64;
        }
        Ok(count)
    }

    fn deliver_batch(&self, schema: &SchemaRef, batch: &RecordBatch, sink: &mut dyn Sink) -> Result<()> {
        let style = self.session.settings().text_style();
        let pairs = schema.fields().iter().zip(batch.columns());
        let columns: Vec<ArrayText> =
            pairs.map(|(field, array)| ArrayText::new(field, array, style)).collect::<keyspan::Result<_>>()?;
        let as_json = sink.wants_json();
        for row in 0..batch.num_rows() {
            let mut cells = Vec::with_capacity(columns.len());
            for column in &columns {
                let mut text = String::new();
                match column.is_null(row) {
                    true => {
                        cells.push(None);
                        continue;
                    }
                    false if as_json => column.write_json(row, &mut text)?,
                    false => column.write(row, &mut text)?,
                }
                cells.push(Some(text));
            }
            sink.row(cells)?;
        }
        Ok(())
    }

    async fn copy_in(&mut self, copy: &Copy, data: &mut dyn CopyData) -> Result<u64> {
        let target = self.session.copy_in(copy)?;
        let columns: Vec<(String, ColumnType)> = columns_of(&target);
        let zone = self.session.settings().time_zone().to_string();
        let parser = CopyParser::new(&target.table().name, &columns, &copy.options, &zone)?;
        let parser = parser.limit(&target.lengths());
        self.push_all(target, parser, data).await
    }

    /// Writes all the data through the parser; answers the number of rows.
    pub async fn push_all(
        &mut self,
        mut target: CopyIn,
        mut parser: CopyParser,
        data: &mut dyn CopyData,
    ) -> Result<u64> {
        while let Some(bytes) = data.next()? {
            for batch in parser.push(&bytes).await? {
                target.push(&mut self.session, &batch).await?;
            }
        }
        for batch in parser.finish().await? {
            target.push(&mut self.session, &batch).await?;
        }
        let notices = parser.take_notices().into_iter();
        self.notices.extend(notices.filter(|notice| self.session.settings().tells(notice.severity)));
        Ok(target.finish(&mut self.session).await?)
    }

    async fn copy_out(&mut self, copy: &Copy, mut rows: Rows, sink: &mut dyn Sink) -> Result<u64> {
        let style = self.session.settings().text_style();
        let encoder = CopyEncoder::new(rows.schema().clone(), &copy.options, style)?;
        let mut bytes = BytesMut::new();
        let mut count = 0;
        encoder.begin(&mut bytes);
        while let Some(batch) = rows.next_batch().await? {
            encoder.rows(&batch, &mut bytes)?;
            sink.bytes(&bytes)?;
            bytes.clear();
            count += batch.num_rows() as u64;
        }
        encoder.end(&mut bytes);
        sink.bytes(&bytes)?;
        Ok(count)
    }

    pub(super) fn canceller(&self) -> Canceller {
        Canceller::Embedded(self.session.cancel_handle())
    }

    pub(super) fn take_notices(&mut self) -> Vec<String> {
        let notices = self.session.take_notices().into_iter().chain(std::mem::take(&mut self.notices));
        notices.map(|notice| notice_text(notice.severity.name(), &notice.message, notice.hint.as_deref())).collect()
    }

    pub(super) fn names(&self) -> Names {
        let catalog = self.session.catalog();
        let tables = catalog.tables.values();
        let columns = tables.clone().flat_map(|table| &table.columns).filter(|column| !column.hidden);
        let views = catalog.views.values().map(|view| view.name.clone());
        Names {
            relations: tables.map(|table| table.name.clone()).chain(views).collect(),
            columns: columns.map(|column| column.name.clone()).collect(),
        }
    }

    pub(super) fn close(self) -> Result<()> {
        let Embedded { database, session, .. } = self;
        drop(session);
        Ok(database.close()?)
    }
}

/// The names and types of the columns that a COPY writes.
pub fn columns_of(target: &CopyIn) -> Vec<(String, ColumnType)> {
    let fields = target.schema().fields().iter();
    fields.map(|field| (field.name().clone(), ColumnType::of_field(field).unwrap_or(ColumnType::Text))).collect()
}

fn column(field: &Field) -> Column {
    let kind = match field.data_type() {
        DataType::Boolean => Kind::Boolean,
        DataType::Struct(_) | DataType::Map(..) => Kind::Json,
        ty if ty.is_numeric() => Kind::Number,
        _ if matches!(ColumnType::of_field(field), Some(ColumnType::Json | ColumnType::Jsonb)) => Kind::Json,
        _ => Kind::Text,
    };
    Column { name: field.name().clone(), kind }
}
