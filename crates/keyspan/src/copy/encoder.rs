//! COPY TO: record batches to bytes.

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use keyspan_cql::{CopyFormat, CopyHeader, CopyOptions};
use keyspan_model::{ColumnType, Error, Result, value_at};

use super::binary;
use super::rules::{Rules, SIGNATURE};
use crate::text::ArrayText;

/// Writes the data of one COPY TO.
#[derive(Debug)]
pub struct CopyEncoder {
    rules: Rules,
    schema: SchemaRef,
    zone: String,
    /// For each column whether csv always quotes it.
    forced: Vec<bool>,
}

impl CopyEncoder {
    /// An encoder of rows with this schema; `zone` is the session's time zone.
    ///
    /// # Errors
    /// Options that contradict each other or are not supported.
    pub fn new(schema: SchemaRef, options: &CopyOptions, zone: &str) -> Result<CopyEncoder> {
        let forced = schema.fields().iter().map(|field| match &options.force_quote {
            Some(names) => names.is_empty() || names.contains(field.name()),
            None => false,
        });
        let forced = forced.collect();
        Ok(CopyEncoder { rules: Rules::new(options, false)?, schema, zone: zone.to_string(), forced })
    }

    /// Appends what stands before the rows.
    pub fn begin(&self, out: &mut Vec<u8>) {
        if self.rules.format == CopyFormat::Binary {
            out.extend(SIGNATURE);
            // No flags, no extension.
            out.extend([0; 8]);
        } else if self.rules.header != CopyHeader::None {
            let names: Vec<&String> = self.schema.fields().iter().map(|field| field.name()).collect();
            for (index, name) in names.iter().enumerate() {
                self.put_delimiter(index, out);
                self.put_text(name.as_bytes(), false, names.len() == 1, out);
            }
            out.push(b'\n');
        }
    }

    /// Appends rows.
    ///
    /// # Errors
    /// 22003 and 22008 for values that PostgreSQL's types cannot hold; 0A000 for lists and the like in binary.
    pub fn rows(&self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        if self.rules.format == CopyFormat::Binary {
            return self.binary_rows(batch, out);
        }
        let pairs = self.schema.fields().iter().zip(batch.columns());
        let columns =
            pairs.map(|(field, array)| ArrayText::new(field, array, &self.zone)).collect::<Result<Vec<_>>>()?;
        let mut text = String::new();
        for row in 0..batch.num_rows() {
            for (index, column) in columns.iter().enumerate() {
                self.put_delimiter(index, out);
                if column.is_null(row) {
                    out.extend(&self.rules.null);
                    continue;
                }
                text.clear();
                column.write(row, &mut text)?;
                self.put_text(text.as_bytes(), self.forced[index], columns.len() == 1, out);
            }
            out.push(b'\n');
        }
        Ok(())
    }

    /// Appends what stands after the rows.
    pub fn end(&self, out: &mut Vec<u8>) {
        if self.rules.format == CopyFormat::Binary {
            out.extend((-1_i16).to_be_bytes());
        }
    }

    fn binary_rows(&self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let types = binary_types(&self.schema)?;
        let count = u16::try_from(types.len()).map_err(|_| Error::not_supported("too many columns for COPY"))?;
        for row in 0..batch.num_rows() {
            out.extend(count.to_be_bytes());
            for (array, ty) in batch.columns().iter().zip(&types) {
                binary::put_field(&value_at(array, row, *ty)?, *ty, out)?;
            }
        }
        Ok(())
    }

    fn put_delimiter(&self, index: usize, out: &mut Vec<u8>) {
        if index > 0 {
            out.push(self.rules.delimiter);
        }
    }

    fn put_text(&self, value: &[u8], forced: bool, alone: bool, out: &mut Vec<u8>) {
        match self.rules.format {
            CopyFormat::Csv => self.put_csv(value, forced, alone, out),
            _ => self.put_escaped(value, out),
        }
    }

    fn put_escaped(&self, value: &[u8], out: &mut Vec<u8>) {
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
                    out.push(*other);
                    continue;
                }
            };
            out.extend([b'\\', letter]);
        }
    }

    fn put_csv(&self, value: &[u8], forced: bool, alone: bool, out: &mut Vec<u8>) {
        let Rules { delimiter, quote, escape, null, .. } = &self.rules;
        let special = |byte: &u8| byte == delimiter || byte == quote || matches!(byte, b'\n' | b'\r');
        let quoted = forced || value == null || (alone && value == b"\\.") || value.iter().any(special);
        if !quoted {
            out.extend(value);
            return;
        }
        out.push(*quote);
        for byte in value {
            if byte == quote || byte == escape {
                out.push(*escape);
            }
            out.push(*byte);
        }
        out.push(*quote);
    }
}

fn binary_types(schema: &Schema) -> Result<Vec<ColumnType>> {
    let of = |field: &arrow::datatypes::FieldRef| {
        ColumnType::of_field(field).ok_or_else(|| {
            let message =
                format!("column \"{}\" of type {} cannot be copied in binary", field.name(), field.data_type());
            Error::not_supported(message).with_hint("Use the csv or text format.")
        })
    };
    schema.fields().iter().map(of).collect()
}
