//! Rows as COPY TO writes them: text, csv, binary.

use arrow::datatypes::Schema;
use bytes::{BufMut, BytesMut};
use keyspan_model::{Error, ErrorKind, Result};

use crate::engine::{CopyFormat, CopyHeader, CopyOptions};
use crate::types::Column;

/// What stands before the rows of a binary COPY: the signature, no flags, no extension.
const BINARY_HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// Writes rows in the format of one COPY statement.
pub(super) struct Encoder {
    format: CopyFormat,
    header: bool,
    delimiter: u8,
    null: String,
    quote: u8,
    escape: u8,
    /// For each column whether csv always quotes it.
    forced: Vec<bool>,
}

impl Encoder {
    /// An encoder with these options, Postgres' defaults where none is given.
    pub(super) fn new(options: &CopyOptions, schema: &Schema) -> Result<Encoder> {
        let csv = options.format == CopyFormat::Csv;
        let quote = byte(options.quote, b'"', "quote")?;
        let forced = schema.fields().iter().map(|field| match &options.force_quote {
            Some(names) => names.is_empty() || names.contains(field.name()),
            None => false,
        });
        Ok(Encoder {
            format: options.format,
            header: options.header != CopyHeader::None,
            delimiter: byte(options.delimiter, if csv { b',' } else { b'\t' }, "delimiter")?,
            null: options.null.clone().unwrap_or_else(|| if csv { String::new() } else { "\\N".into() }),
            quote,
            escape: byte(options.escape, quote, "escape")?,
            forced: forced.collect(),
        })
    }

    /// Writes what stands before the first row.
    pub(super) fn begin(&self, schema: &Schema, out: &mut BytesMut) -> Result<()> {
        if self.format == CopyFormat::Binary {
            out.put_slice(BINARY_HEADER);
            return Ok(());
        }
        if !self.header {
            return Ok(());
        }
        let names = schema.fields();
        for (index, field) in names.iter().enumerate() {
            if index > 0 {
                out.put_u8(self.delimiter);
            }
            match self.format {
                CopyFormat::Csv => self.put_csv(field.name().as_bytes(), false, names.len() == 1, out),
                _ => self.put_escaped(field.name().as_bytes(), out),
            }
        }
        out.put_u8(b'\n');
        Ok(())
    }

    /// Writes a row.
    pub(super) fn row(&self, columns: &[Column], row: usize, out: &mut BytesMut) -> Result<()> {
        if self.format == CopyFormat::Binary {
            out.put_i16(columns.len() as i16);
            return columns.iter().try_for_each(|column| column.put_binary_field(row, out));
        }
        let mut value = BytesMut::new();
        for (index, column) in columns.iter().enumerate() {
            if index > 0 {
                out.put_u8(self.delimiter);
            }
            if column.is_null(row) {
                out.put_slice(self.null.as_bytes());
                continue;
            }
            value.clear();
            column.put_text(row, &mut value)?;
            match self.format {
                CopyFormat::Csv => self.put_csv(&value, self.forced[index], columns.len() == 1, out),
                _ => self.put_escaped(&value, out),
            }
        }
        out.put_u8(b'\n');
        Ok(())
    }

    /// Whether this is the binary format, which has a header and a trailer.
    pub(super) fn is_binary(&self) -> bool {
        self.format == CopyFormat::Binary
    }

    /// Writes what stands after the last row.
    pub(super) fn end(&self, out: &mut BytesMut) -> Result<()> {
        out.put_i16(-1);
        Ok(())
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
                other if *other == self.delimiter => *other,
                other => {
                    out.put_u8(*other);
                    continue;
                }
            };
            out.put_slice(&[b'\\', letter]);
        }
    }

    fn put_csv(&self, value: &[u8], forced: bool, alone: bool, out: &mut BytesMut) {
        let special = |byte: &u8| *byte == self.delimiter || *byte == self.quote || matches!(byte, b'\n' | b'\r');
        let quoted = forced || value == self.null.as_bytes() || (alone && value == b"\\.") || value.iter().any(special);
        if !quoted {
            return out.put_slice(value);
        }
        out.put_u8(self.quote);
        for byte in value {
            if *byte == self.quote || *byte == self.escape {
                out.put_u8(self.escape);
            }
            out.put_u8(*byte);
        }
        out.put_u8(self.quote);
    }
}

fn byte(given: Option<char>, default: u8, what: &str) -> Result<u8> {
    match given {
        None => Ok(default),
        Some(character) if character.is_ascii() => Ok(character as u8),
        Some(_) => Err(Error::new(ErrorKind::NotSupported, format!("COPY {what} must be a single one-byte character"))),
    }
}
