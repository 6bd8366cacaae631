//! COPY TO: rows to bytes.
//!
//! The rule: how rows are framed (header, delimiters, quotes, escapes, the binary signature) is decided here alone;
//! the caller gives the texts of cells, through [`CopyCells`].

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{FieldRef, SchemaRef};
use bytes::{BufMut, BytesMut};
use keyspan_cql::{CopyFormat, CopyHeader, CopyOptions};
use keyspan_model::{ColumnType, Error, Result, value_at};

use super::binary;
use super::rules::{Rules, SIGNATURE};
use crate::text::{ArrayText, TextStyle};

/// The cells of one column, ready to be written.
pub trait CopyCells {
    /// Whether the cell is null.
    fn is_null(&self, row: usize) -> bool;

    /// Appends the text of a cell that is not null.
    ///
    /// # Errors
    /// 22003 and 22008 for a value that PostgreSQL's types cannot hold.
    fn put_text(&self, row: usize, out: &mut BytesMut) -> Result<()>;

    /// Appends the cell's length and its binary form; -1 for null.
    ///
    /// # Errors
    /// As for the text, and for a value that is too long.
    fn put_binary_field(&self, row: usize, out: &mut BytesMut) -> Result<()>;
}

/// Writes the data of one COPY TO.
#[derive(Debug)]
pub struct CopyEncoder {
    rules: Rules,
    schema: SchemaRef,
    style: TextStyle,
    /// For each column whether csv always quotes it.
    forced: Vec<bool>,
}

impl CopyEncoder {
    /// An encoder of rows with this schema.
    ///
    /// # Errors
    /// Options that contradict each other or are not supported.
    pub fn new(schema: SchemaRef, options: &CopyOptions, style: TextStyle) -> Result<CopyEncoder> {
        let forced = schema.fields().iter().map(|field| match &options.force_quote {
            Some(names) => names.is_empty() || names.contains(field.name()),
            None => false,
        });
        let forced = forced.collect();
        Ok(CopyEncoder { rules: Rules::new(options, false)?, schema, style, forced })
    }

    /// Whether this is the binary format, which has a header and a trailer.
    pub fn is_binary(&self) -> bool {
        self.rules.format == CopyFormat::Binary
    }

    /// Appends what stands before the rows.
    pub fn begin(&self, out: &mut BytesMut) {
        if self.is_binary() {
            out.put_slice(SIGNATURE);
            // No flags, no extension.
            out.put_slice(&[0; 8]);
        } else if self.rules.header != CopyHeader::None {
            let names: Vec<&String> = self.schema.fields().iter().map(|field| field.name()).collect();
            for (index, name) in names.iter().enumerate() {
                self.put_delimiter(index, out);
                self.put_text(name.as_bytes(), false, names.len() == 1, out);
            }
            out.put_u8(b'\n');
        }
    }

    /// Appends one row of these columns.
    ///
    /// # Errors
    /// 22003 and 22008 for values that PostgreSQL's types cannot hold.
    pub fn row<C: CopyCells>(&self, columns: &[C], row: usize, out: &mut BytesMut) -> Result<()> {
        if self.is_binary() {
            let count = u16::try_from(columns.len()).map_err(|_| Error::not_supported("too many columns for COPY"))?;
            out.put_u16(count);
            return columns.iter().try_for_each(|column| column.put_binary_field(row, out));
        }
        let mut text = BytesMut::new();
        for (index, column) in columns.iter().enumerate() {
            self.put_delimiter(index, out);
            if column.is_null(row) {
                out.put_slice(&self.rules.null);
                continue;
            }
            text.clear();
            column.put_text(row, &mut text)?;
            self.put_text(&text, self.forced[index], columns.len() == 1, out);
        }
        out.put_u8(b'\n');
        Ok(())
    }

    /// Appends all rows of a batch.
    ///
    /// # Errors
    /// 22003 and 22008 for values that PostgreSQL's types cannot hold; 0A000 for lists and the like in binary.
    pub fn rows(&self, batch: &RecordBatch, out: &mut BytesMut) -> Result<()> {
        let pairs = self.schema.fields().iter().zip(batch.columns());
        let cells = pairs.map(|(field, array)| Cells::new(field, array, self.style, self.is_binary()));
        let columns = cells.collect::<Result<Vec<_>>>()?;
        (0..batch.num_rows()).try_for_each(|row| self.row(&columns, row, out))
    }

    /// Appends what stands after the rows.
    pub fn end(&self, out: &mut BytesMut) {
        if self.is_binary() {
            out.put_i16(-1);
        }
    }

    fn put_delimiter(&self, index: usize, out: &mut BytesMut) {
        if index > 0 {
            out.put_u8(self.rules.delimiter);
        }
    }

    fn put_text(&self, value: &[u8], forced: bool, alone: bool, out: &mut BytesMut) {
        match self.rules.format {
            CopyFormat::Csv => self.put_csv(value, forced, alone, out),
            _ => self.put_escaped(value, out),
        }
    }

    fn put_escaped(&self, value: &[u8], out: &mut BytesMut) {
        for byte in value {
            let letter = match byte {
                0x08 => b'b',
                0x0c => b'f',
                b'\n' => b'n',
                b'\r' => b'r',
                b'\t' => b't',
                0x0b => b'v',
                b'\\' => b'\\',
                other if *other == self.rules.delimiter => *other,
                other => {
                    out.put_u8(*other);
                    continue;
                }
            };
            out.put_slice(&[b'\\', letter]);
        }
    }

    fn put_csv(&self, value: &[u8], forced: bool, alone: bool, out: &mut BytesMut) {
        let Rules { delimiter, quote, escape, null, .. } = &self.rules;
        let special = |byte: &u8| byte == delimiter || byte == quote || matches!(byte, b'\n' | b'\r');
        let quoted = forced || value == null || (alone && value == b"\\.") || value.iter().any(special);
        if !quoted {
            out.put_slice(value);
            return;
        }
        out.put_u8(*quote);
        for byte in value {
            if byte == quote || byte == escape {
                out.put_u8(*escape);
            }
            out.put_u8(*byte);
        }
        out.put_u8(*quote);
    }
}

/// The cells of an array, without a server.
struct Cells<'a> {
    array: &'a ArrayRef,
    text: ArrayText,
    /// What the binary format writes them as.
    ty: Option<ColumnType>,
}

impl<'a> Cells<'a> {
    fn new(field: &FieldRef, array: &'a ArrayRef, style: TextStyle, binary: bool) -> Result<Cells<'a>> {
        let ty = ColumnType::of_field(field);
        if binary && ty.is_none() {
            let message =
                format!("column \"{}\" of type {} cannot be copied in binary", field.name(), field.data_type());
            return Err(Error::not_supported(message).with_hint("Use the csv or text format."));
        }
        Ok(Cells { array, text: ArrayText::new(field, array, style)?, ty })
    }
}

impl CopyCells for Cells<'_> {
    fn is_null(&self, row: usize) -> bool {
        self.text.is_null(row)
    }

    fn put_text(&self, row: usize, out: &mut BytesMut) -> Result<()> {
        let mut text = String::new();
        self.text.write(row, &mut text)?;
        out.put_slice(text.as_bytes());
        Ok(())
    }

    fn put_binary_field(&self, row: usize, out: &mut BytesMut) -> Result<()> {
        let ty = self.ty.ok_or_else(|| Error::internal("a binary COPY of a column without a type"))?;
        binary::put_field(&value_at(self.array, row, ty)?, ty, out)
    }
}
