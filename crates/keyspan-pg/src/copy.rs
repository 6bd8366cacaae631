//! COPY FROM STDIN and COPY TO STDOUT.
//!
//! The rule: one CopyData message per row out, as in Postgres (clients count on it); data in is taken in any pieces. A
//! COPY that fails answers its error at once, and what the client still sends of it is skipped by the connection's
//! loop.

use bytes::{Bytes, BytesMut};
use keyspan_model::{ColumnType, Error, ErrorKind, Result};
use pgwire::messages::copy::{CopyDone, CopyInResponse, CopyOutResponse};

use crate::connection::Connection;
use crate::encoding::{Encoding, TextReader};
use crate::engine::{Copy, CopyCells, CopyDirection, CopyEncoder, CopyFormat, CopyParser, Outcome, Rows, Tag};
use crate::failure::{Failure, notice_response, protocol};
use crate::request::{Request, decode};
use crate::rows::Ready;
use crate::types::WireColumn;

impl CopyCells for WireColumn {
    fn is_null(&self, row: usize) -> bool {
        WireColumn::is_null(self, row)
    }

    fn put_text(&self, row: usize, out: &mut BytesMut) -> Result<()> {
        WireColumn::put_text(self, row, out)
    }

    fn put_binary_field(&self, row: usize, out: &mut BytesMut) -> Result<()> {
        WireColumn::put_binary_field(self, row, out)
    }
}

/// What the client sends during COPY FROM STDIN.
enum Piece {
    Data(Bytes),
    Done,
}

impl Connection {
    /// Carries out the COPY that a statement asked for. Answers the tag.
    pub(crate) async fn copy(&mut self, outcome: Outcome) -> Result<String, Failure> {
        let Outcome { tag, rows, copy } = outcome;
        match (copy, rows) {
            (Some(CopyDirection::In(copy)), _) => self.copy_in(&copy).await,
            (Some(CopyDirection::Out(copy)), Some(rows)) => self.copy_out(&copy, rows, &tag).await,
            _ => Err(Error::internal("a COPY without its data").into()),
        }
    }

    async fn copy_out(&mut self, copy: &Copy, mut rows: Rows, tag: &Tag) -> Result<String, Failure> {
        let schema = rows.schema().clone();
        let encoder = CopyEncoder::new(schema.clone(), &copy.options, self.text_style())?;
        let (format, codes) = formats(copy.options.format, schema.fields().len())?;
        self.out.message(&CopyOutResponse::new(format, codes.len() as i16, codes))?;
        let (style, encoding) = (self.text_style(), self.out.encoding());
        // As in Postgres, the header of the binary format leads the first message; a header line is one of its own.
        let mut ahead = BytesMut::new();
        encoder.begin(&mut ahead);
        // Binary fields are in the client's encoding by themselves, where they are texts.
        let encoded = if encoder.is_binary() { Encoding::UTF8 } else { encoding };
        if !encoder.is_binary() && !ahead.is_empty() {
            self.copy_piece(&mut ahead, encoded, |_| Ok(()))?;
        }
        let mut sent = 0;
        while let Some(batch) = self.control.read_rows(&mut self.reader, &mut self.out, rows.next_batch()).await? {
            let ready = Ready::new(&schema, &batch, style, encoding)?;
            for row in 0..ready.rows {
                self.copy_piece(&mut ahead, encoded, |bytes| encoder.row(&ready.columns, row, bytes))?;
                sent += 1;
                if self.out.is_full() {
                    self.control.send(&mut self.reader, self.out.flush()).await?;
                }
            }
        }
        if encoder.is_binary() {
            self.copy_piece(&mut ahead, encoded, |bytes| {
                encoder.end(bytes);
                Ok(())
            })?;
        }
        self.out.message(&CopyDone::new())?;
        Ok(tag.text(sent))
    }

    /// Adds a CopyData message with what stands ahead, which is then no more, and what `write` writes.
    fn copy_piece(
        &mut self,
        ahead: &mut BytesMut,
        encoding: Encoding,
        write: impl FnOnce(&mut BytesMut) -> Result<()>,
    ) -> Result<()> {
        let ahead = ahead.split();
        self.out.frame(b'd', |bytes| {
            let start = bytes.len();
            bytes.extend_from_slice(&ahead);
            write(bytes)?;
            encoding.encode_from(bytes, start)
        })
    }

    async fn copy_in(&mut self, copy: &Copy) -> Result<String, Failure> {
        let mut target = self.session.copy_in(copy)?;
        let columns: Vec<(String, ColumnType)> = target
            .schema()
            .fields()
            .iter()
            .map(|field| (field.name().clone(), ColumnType::of_field(field).unwrap_or(ColumnType::Text)))
            .collect();
        let zone = self.session.settings().time_zone().to_owned();
        let parser = CopyParser::new(&target.table().name, &columns, &copy.options, &zone)?;
        let mut parser = parser.limit(&target.lengths());
        let (format, codes) = formats(copy.options.format, columns.len())?;
        let mut texts = texts_of(copy.options.format, self.out.encoding())?;
        // From here on the client sends its data, whatever it is told.
        self.out.message(&CopyInResponse::new(format, codes.len() as i16, codes))?;
        self.control.send(&mut self.reader, self.out.flush()).await?;
        let mut at_end = false;
        while !at_end {
            let batches = match next_piece(self).await? {
                Piece::Data(data) => {
                    let data = texts.read(&data, false)?;
                    self.control.run(&mut self.reader, &mut self.out, parser.push(&data)).await?
                }
                Piece::Done => {
                    at_end = true;
                    texts.read(&[], true)?;
                    self.control.run(&mut self.reader, &mut self.out, parser.finish()).await?
                }
            };
            for batch in batches {
                self.control.run(&mut self.reader, &mut self.out, target.push(&mut self.session, &batch)).await?;
            }
        }
        let rows = self.control.run(&mut self.reader, &mut self.out, target.finish(&mut self.session)).await?;
        for notice in parser.take_notices() {
            if self.session.settings().tells(notice.severity) {
                self.out.message(&notice_response(&notice))?;
            }
        }
        self.tell_changes()?;
        Ok(format!("COPY {rows}"))
    }
}

async fn next_piece(connection: &mut Connection) -> Result<Piece, Failure> {
    loop {
        let frame = connection.control.receive(&mut connection.reader).await?;
        match decode(frame, connection.out.encoding())? {
            Request::CopyData(data) => return Ok(Piece::Data(data)),
            Request::CopyDone => return Ok(Piece::Done),
            Request::CopyFail(reason) => {
                let message = format!("COPY from stdin failed: {reason}");
                return Err(Error::new(ErrorKind::Canceled, message).into());
            }
            // Clients that do not know that a COPY has begun may send these.
            Request::Flush | Request::Sync => {}
            Request::Terminate => return Err(Failure::Gone),
            _ => return Err(Failure::Fatal(protocol("unexpected message during COPY from stdin"))),
        }
    }
}

/// Reads what a client of this encoding sends.
///
/// # Errors
/// 0A000 for the binary format in another encoding than UTF-8: its texts stand among other bytes.
fn texts_of(format: CopyFormat, encoding: Encoding) -> Result<TextReader> {
    match format == CopyFormat::Binary && !encoding.is_utf8() {
        true => Err(Error::not_supported("COPY FROM in the binary format takes UTF-8 only")
            .with_hint("SET client_encoding TO 'UTF8', or use the text format.")),
        false => Ok(encoding.reader()),
    }
}

/// The overall format and one format for each column.
fn formats(format: CopyFormat, columns: usize) -> Result<(i8, Vec<i16>)> {
    let code = i8::from(format == CopyFormat::Binary);
    i16::try_from(columns).map_err(|_| Error::new(ErrorKind::TooManyColumns, "too many columns for COPY"))?;
    Ok((code, vec![i16::from(code); columns]))
}
