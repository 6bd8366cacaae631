//! Array parameters: from Postgres' binary form to the array's text, which is how the session takes them.
//!
//! ```text
//! dimensions i32 · has nulls i32 · element OID u32 · { length i32 · lower bound i32 } · { bytes i32 (−1: null) · element }
//! ```

use bytes::Buf;
use keyspan_model::{Error, ErrorKind, Result, Value};

use super::parameter::read_binary;
use super::pg_type::PgType;

/// The text of an array in binary form. `declared` is the OID of its elements where the bytes name none; `number`
/// counts parameters from 1 and stands in errors.
pub(crate) fn read_array(bytes: &[u8], declared: u32, number: usize) -> Result<Value> {
    let junk =
        || Error::new(ErrorKind::InvalidBinary, format!("incorrect binary data format in bind parameter {number}"));
    let mut rest = bytes;
    let word = |rest: &mut &[u8]| rest.try_get_i32().map_err(|_| junk());
    let dimensions = word(&mut rest)?;
    let _has_nulls = word(&mut rest)?;
    let element = match word(&mut rest)? as u32 {
        0 => declared,
        oid => oid,
    };
    match dimensions {
        0 => return Ok(Value::Text("{}".into())),
        1 => {}
        _ => return Err(Error::not_supported("arrays of more than one dimension are not supported")),
    }
    let ty = PgType::of_oid(element).column_type().ok_or_else(junk)?;
    let length = word(&mut rest)?;
    let _lower_bound = word(&mut rest)?;
    let mut text = String::from("{");
    for index in 0..length {
        if index > 0 {
            text.push(',');
        }
        let size = word(&mut rest)?;
        let Ok(size) = usize::try_from(size) else {
            text.push_str("NULL");
            continue;
        };
        let value = rest.get(..size).ok_or_else(junk)?;
        rest = &rest[size..];
        // Without a fixed scale a numeric keeps its digits.
        let value = match element {
            super::pg_type::oid::NUMERIC => super::numeric::read_numeric(value).ok_or_else(junk)?,
            _ => read_binary(value, element, ty, number)?.to_text(ty),
        };
        push_quoted(&value, &mut text);
    }
    if !rest.is_empty() || length < 0 {
        return Err(junk());
    }
    text.push('}');
    Ok(Value::Text(text))
}

fn push_quoted(element: &str, text: &mut String) {
    text.push('"');
    for c in element.chars() {
        if matches!(c, '"' | '\\') {
            text.push('\\');
        }
        text.push(c);
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::pg_type::oid;
    use bytes::BufMut;

    fn array(element: u32, values: &[Option<&[u8]>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.put_i32(1);
        bytes.put_i32(0);
        bytes.put_u32(element);
        bytes.put_i32(values.len() as i32);
        bytes.put_i32(1);
        for value in values {
            bytes.put_i32(value.map_or(-1, |value| value.len() as i32));
            bytes.put_slice(value.unwrap_or_default());
        }
        bytes
    }

    fn text(bytes: &[u8]) -> String {
        match read_array(bytes, oid::TEXT, 1).expect("an array") {
            Value::Text(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn elements_are_written_as_an_array_literal() {
        assert_eq!(text(&array(oid::INT4, &[Some(&7_i32.to_be_bytes()), None])), r#"{"7",NULL}"#);
        assert_eq!(text(&array(oid::TEXT, &[Some(br#"a"\,"#), Some(b"")])), r#"{"a\"\\,",""}"#);
        assert_eq!(text(&[0; 12]), "{}");
    }

    #[test]
    fn junk_is_refused() {
        let good = array(oid::INT4, &[Some(&7_i32.to_be_bytes())]);
        for cut in 0..good.len() {
            assert!(read_array(&good[..cut], oid::INT4, 1).is_err(), "{cut}");
        }
        assert!(read_array(&[&good[..], &[0]].concat(), oid::INT4, 1).is_err());
    }
}
