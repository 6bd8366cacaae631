//! Rows on their way to the client: batch by batch, flushed by bytes, at most so many at once.
//!
//! The rule: at most one batch and one full output buffer are in memory, however long the result is.

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use bytes::BufMut;
use keyspan_model::{Error, ErrorKind, Result};
use pgwire::messages::data::{FieldDescription, RowDescription};

use crate::control::Control;
use crate::encoding::Encoding;
use crate::engine::{Origin, Rows, TextStyle};
use crate::failure::Failure;
use crate::frame::FrameReader;
use crate::output::Output;
use crate::types::{PgType, WireColumn};

/// Columns that a row of the protocol can have.
const MAX_COLUMNS: usize = i16::MAX as usize;

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueFormat {
    /// As text.
    Text,
    /// In Postgres' binary form.
    Binary,
}

impl ValueFormat {
    /// The format with this code.
    pub(crate) fn of_code(code: i16) -> Result<ValueFormat> {
        match code {
            0 => Ok(ValueFormat::Text),
            1 => Ok(ValueFormat::Binary),
            _ => Err(Error::new(ErrorKind::InvalidParameter, format!("unsupported format code: {code}"))),
        }
    }

    fn code(self) -> i16 {
        self as i16
    }
}

/// One format for each of `count` things: none given means text, one is for all.
pub(crate) fn spread(codes: &[i16], count: usize) -> Option<Result<Vec<ValueFormat>>> {
    let spread = match codes {
        [] => vec![0; count],
        [one] => vec![*one; count],
        each if each.len() == count => each.to_vec(),
        _ => return None,
    };
    Some(spread.into_iter().map(ValueFormat::of_code).collect())
}

/// The message that describes rows. Columns beyond `formats` are text.
pub(crate) fn row_description(schema: &Schema, formats: &[ValueFormat]) -> Result<RowDescription> {
    check_width(schema)?;
    let fields = schema.fields().iter().enumerate().map(|(index, field)| {
        let ty = PgType::of_field(field);
        let format = formats.get(index).copied().unwrap_or(ValueFormat::Text);
        let name = field.name().replace('\0', "\u{fffd}");
        let (table, column) = Origin::of_field(field).map_or((0, 0), |origin| (origin.table as i32, origin.column));
        FieldDescription::new(name, table, column, ty.oid, ty.size, ty.modifier, format.code())
    });
    Ok(RowDescription::new(fields.collect()))
}

fn check_width(schema: &Schema) -> Result<()> {
    if schema.fields().len() <= MAX_COLUMNS {
        return Ok(());
    }
    let message = format!("target lists can have at most {MAX_COLUMNS} entries");
    Err(Error::new(ErrorKind::TooManyColumns, message))
}

/// A batch made ready to be written row by row.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) columns: Vec<WireColumn>,
    pub(crate) rows: usize,
}

impl Ready {
    /// Prepares a batch.
    pub(crate) fn new(schema: &Schema, batch: &RecordBatch, style: TextStyle, encoding: Encoding) -> Result<Ready> {
        let pairs = schema.fields().iter().zip(batch.columns());
        let columns = pairs.map(|(field, array)| Ok(WireColumn::new(field, array, style)?.in_encoding(encoding)));
        let columns = columns.collect::<Result<_>>()?;
        Ok(Ready { columns, rows: batch.num_rows() })
    }
}

/// The result of sending rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Rows sent.
    pub(crate) rows: u64,
    /// False if the limit stopped it.
    pub(crate) finished: bool,
}

/// The rows of one statement, sent as far as the client asked.
pub(crate) struct RowSource {
    rows: Rows,
    schema: SchemaRef,
    formats: Vec<ValueFormat>,
    style: TextStyle,
    batch: Option<Ready>,
    next: usize,
}

impl RowSource {
    /// Rows to be sent in these formats, one per column.
    pub(crate) fn new(rows: Rows, formats: Vec<ValueFormat>, style: TextStyle) -> Result<RowSource> {
        let schema = rows.schema().clone();
        check_width(&schema)?;
        Ok(RowSource { rows, schema, formats, style, batch: None, next: 0 })
    }

    /// Sends DataRows until the rows or the limit end.
    pub(crate) async fn send(
        &mut self,
        out: &mut Output,
        reader: &mut FrameReader,
        control: &mut Control,
        limit: Option<u64>,
    ) -> Result<Sent, Failure> {
        let mut sent = 0;
        loop {
            while let Some(batch) = &self.batch
                && self.next < batch.rows
            {
                if Some(sent) == limit {
                    return Ok(Sent { rows: sent, finished: false });
                }
                put_row(batch, &self.formats, self.next, out)?;
                self.next += 1;
                sent += 1;
                if out.is_full() {
                    control.send(reader, out.flush()).await?;
                }
            }
            if Some(sent) == limit {
                return Ok(Sent { rows: sent, finished: false });
            }
            self.batch = None;
            let Some(batch) = control.read_rows(reader, out, self.rows.next_batch()).await? else {
                return Ok(Sent { rows: sent, finished: true });
            };
            self.batch = Some(Ready::new(&self.schema, &batch, self.style, out.encoding())?);
            self.next = 0;
        }
    }
}

fn put_row(batch: &Ready, formats: &[ValueFormat], row: usize, out: &mut Output) -> Result<()> {
    out.frame(b'D', |bytes| {
        bytes.put_i16(batch.columns.len() as i16);
        for (column, format) in batch.columns.iter().zip(formats) {
            match format {
                ValueFormat::Text => column.put_text_field(row, bytes)?,
                ValueFormat::Binary => column.put_binary_field(row, bytes)?,
            }
        }
        Ok(())
    })
}
