//! Array parameters in Postgres' binary form.
//!
//! ```text
//! dimensions i32 · has nulls i32 · element OID u32 · { length i32 · lower bound i32 } · { bytes i32 (−1: null) · element }
//! ```

use bytes::Buf;
use keyspan_model::{ColumnType, Error, ErrorKind, Result, Value};

use super::parameter::read_binary;
use crate::encoding::Encoding;

/// The array, its elements as values of the type `ty`. `declared` is the OID of its elements where the bytes name none;
/// `number` counts parameters from 1 and stands in errors.
pub(crate) fn read_array(
    bytes: &[u8],
    declared: u32,
    ty: ColumnType,
    number: usize,
    encoding: Encoding,
) -> Result<Value> {
    let junk =
        || Error::new(ErrorKind::InvalidBinary, format!("incorrect binary data format in bind parameter {number}"));
    let array = ArrayParts::of(bytes).ok_or_else(junk)?;
    if array.dimensions > 1 {
        return Err(Error::not_supported("arrays of more than one dimension are not supported"));
    }
    let element = if array.element == 0 { declared } else { array.element };
    let value = |bytes: Option<&[u8]>| match bytes {
        Some(bytes) => read_binary(bytes, element, ty, number, encoding),
        None => Ok(Value::Null),
    };
    Ok(Value::List(array.elements.into_iter().map(value).collect::<Result<_>>()?))
}

/// An array in its binary form.
pub(super) struct ArrayParts<'a> {
    dimensions: u32,
    /// The elements' OID; 0 where it is not said.
    element: u32,
    /// The bytes of each element, none for a null; of an array of one dimension.
    pub(super) elements: Vec<Option<&'a [u8]>>,
}

impl<'a> ArrayParts<'a> {
    /// None for bytes that are no array.
    pub(super) fn of(mut rest: &'a [u8]) -> Option<ArrayParts<'a>> {
        let word = |rest: &mut &[u8]| rest.try_get_i32().ok();
        let dimensions = u32::try_from(word(&mut rest)?).ok()?;
        let _has_nulls = word(&mut rest)?;
        let element = word(&mut rest)? as u32;
        let mut elements = Vec::new();
        if dimensions != 1 {
            return Some(ArrayParts { dimensions, element, elements });
        }
        let length = usize::try_from(word(&mut rest)?).ok()?;
        let _lower_bound = word(&mut rest)?;
        for _ in 0..length {
            let Ok(size) = usize::try_from(word(&mut rest)?) else {
                elements.push(None);
                continue;
            };
            elements.push(Some(rest.get(..size)?));
            rest = &rest[size..];
        }
        rest.is_empty().then_some(ArrayParts { dimensions, element, elements })
    }
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

    #[test]
    fn elements_are_read_as_values_of_the_wanted_type() {
        let numbers = array(oid::INT4, &[Some(&7_i32.to_be_bytes()), None]);
        let read = |ty| read_array(&numbers, oid::TEXT, ty, 1, Encoding::UTF8);
        assert_eq!(read(ColumnType::Int), Ok(Value::List(vec![Value::Int(7), Value::Null])));
        assert_eq!(read(ColumnType::BigInt), Ok(Value::List(vec![Value::BigInt(7), Value::Null])));
        assert_eq!(read_array(&[0; 12], oid::TEXT, ColumnType::Text, 1, Encoding::UTF8), Ok(Value::List(vec![])));
    }

    #[test]
    fn junk_is_refused() {
        let good = array(oid::INT4, &[Some(&7_i32.to_be_bytes())]);
        let read = |bytes: &[u8]| read_array(bytes, oid::INT4, ColumnType::Int, 1, Encoding::UTF8);
        for cut in 0..good.len() {
            assert!(read(&good[..cut]).is_err(), "{cut}");
        }
        assert!(read(&[&good[..], &[0]].concat()).is_err());
    }
}
