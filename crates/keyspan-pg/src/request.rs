//! Frames decoded into requests.
//!
//! The rule: every read is checked, so that a short or overlong frame is Postgres' error and not a panic, and text that
//! is none in the client's encoding is refused, not repaired. (The decoders of `pgwire` promise neither, so only its types
//! are used.)

use bytes::{Buf, Bytes};
use keyspan_model::{Error, Result};
use pgwire::messages::extendedquery::{Bind, Close, Describe, Execute, Parse};

use crate::encoding::Encoding;
use crate::failure::protocol;
use crate::frame::Frame;

/// A request of a client.
#[derive(Debug)]
pub(crate) enum Request {
    Query(String),
    Parse(Parse),
    Bind(Bind),
    Describe(Describe),
    Execute(Execute),
    Close(Close),
    Flush,
    Sync,
    Terminate,
    CopyData(Bytes),
    CopyDone,
    CopyFail(String),
    /// A function call or a password: refused.
    Other(u8),
}

/// Whether an error in a frame of this kind is followed by skipping to the next Sync.
pub(crate) fn is_extended(kind: u8) -> bool {
    matches!(kind, b'P' | b'B' | b'D' | b'E' | b'C' | b'H')
}

/// Decodes a frame.
///
/// # Errors
/// 08P01 for a body that is not of its kind, 22021 for text that is none in this encoding.
pub(crate) fn decode(frame: Frame, encoding: Encoding) -> Result<Request> {
    let mut body = Body { bytes: frame.body, encoding };
    let request = match frame.kind {
        b'Q' => Request::Query(body.text()?),
        b'P' => Request::Parse(parse(&mut body)?),
        b'B' => Request::Bind(bind(&mut body)?),
        b'D' => {
            let target = body.byte()?;
            Request::Describe(Describe::new(target, body.name()?))
        }
        b'C' => {
            let target = body.byte()?;
            Request::Close(Close::new(target, body.name()?))
        }
        b'E' => {
            let name = body.name()?;
            Request::Execute(Execute::new(name, body.number()?))
        }
        b'H' => Request::Flush,
        b'S' => Request::Sync,
        b'X' => Request::Terminate,
        b'd' => return Ok(Request::CopyData(body.bytes)),
        b'c' => Request::CopyDone,
        b'f' => Request::CopyFail(body.text()?),
        other => return Ok(Request::Other(other)),
    };
    match body.bytes.is_empty() {
        true => Ok(request),
        false => Err(protocol("invalid message format")),
    }
}

fn parse(body: &mut Body) -> Result<Parse> {
    let name = body.name()?;
    let query = body.text()?;
    let count = body.count(4)?;
    let types = (0..count).map(|_| body.number().map(|oid: i32| oid as u32)).collect::<Result<_>>()?;
    Ok(Parse::new(name, query, types))
}

fn bind(body: &mut Body) -> Result<Bind> {
    let (portal, statement) = (body.name()?, body.name()?);
    let formats = body.formats()?;
    let count = body.count(4)?;
    let parameters = (0..count).map(|_| body.field()).collect::<Result<_>>()?;
    let result_formats = body.formats()?;
    Ok(Bind::new(portal, statement, formats, parameters, result_formats))
}

/// The unread rest of a frame.
struct Body {
    bytes: Bytes,
    encoding: Encoding,
}

impl Body {
    fn need(&self, count: usize) -> Result<()> {
        match self.bytes.len() >= count {
            true => Ok(()),
            false => Err(short()),
        }
    }

    fn byte(&mut self) -> Result<u8> {
        self.need(1)?;
        Ok(self.bytes.get_u8())
    }

    fn number(&mut self) -> Result<i32> {
        self.need(4)?;
        Ok(self.bytes.get_i32())
    }

    /// A count of things of at least `size` bytes each, all of which must be there.
    fn count(&mut self, size: usize) -> Result<usize> {
        self.need(2)?;
        let count = usize::from(self.bytes.get_u16());
        self.need(count * size)?;
        Ok(count)
    }

    fn formats(&mut self) -> Result<Vec<i16>> {
        let count = self.count(2)?;
        Ok((0..count).map(|_| self.bytes.get_i16()).collect())
    }

    /// A parameter: none for null.
    fn field(&mut self) -> Result<Option<Bytes>> {
        match self.number()? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| short())?;
                self.need(length)?;
                Ok(Some(self.bytes.split_to(length)))
            }
        }
    }

    fn text(&mut self) -> Result<String> {
        let end = self.bytes.iter().position(|byte| *byte == 0).ok_or_else(|| protocol("invalid string in message"))?;
        let text = self.encoding.decode(&self.bytes[..end])?.into_owned();
        self.bytes.advance(end + 1);
        Ok(text)
    }

    /// A name; the empty one is none.
    fn name(&mut self) -> Result<Option<String>> {
        Ok(Some(self.text()?).filter(|name| !name.is_empty()))
    }
}

fn short() -> Error {
    protocol("insufficient data left in message")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(kind: u8, body: &[u8]) -> Result<Request> {
        decode(Frame { kind, body: Bytes::copy_from_slice(body) }, Encoding::UTF8)
    }

    #[test]
    fn defect_8_short_frames_are_errors() {
        let whole: &[(u8, &[u8])] = &[
            (b'E', b"portal\0\0\0\0\0"),
            (b'D', b"Sname\0"),
            (b'C', b"Pname\0"),
            (b'P', b"name\0SELECT 1\0\0\x01\0\0\0\x17"),
            (b'B', b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x01x\xff\xff\xff\xff\0\x01\0\0"),
            (b'Q', b"SELECT 1\0"),
        ];
        for (kind, body) in whole {
            assert!(decoded(*kind, body).is_ok());
            for length in 0..body.len() {
                let error = decoded(*kind, &body[..length]).expect_err("a short frame");
                assert_eq!(error.sqlstate(), "08P01", "{} cut at {length}", char::from(*kind));
            }
            let overlong = [body, &b"x"[..]].concat();
            assert_eq!(decoded(*kind, &overlong).expect_err("an overlong frame").sqlstate(), "08P01");
        }
    }

    #[test]
    fn announced_lengths_are_not_believed() {
        assert_eq!(decoded(b'B', b"\0\0\0\0\0\x01\x7f\xff\xff\xff").expect_err("no bytes").sqlstate(), "08P01");
        assert_eq!(decoded(b'B', b"\0\0\0\0\0\x01\x80\0\0\0").expect_err("negative").sqlstate(), "08P01");
        assert_eq!(decoded(b'P', b"\0\0\xff\xff").expect_err("no types").sqlstate(), "08P01");
    }

    #[test]
    fn text_must_be_utf8() {
        assert_eq!(decoded(b'Q', b"SELECT '\xff'\0").expect_err("not UTF-8").sqlstate(), "22021");
    }
}
