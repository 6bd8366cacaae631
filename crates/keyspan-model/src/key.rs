//! Row keys as byte strings whose order is the order of the values.

use arrow::array::{ArrayRef, BinaryArray};

use crate::error::{Error, Result};
use crate::schema::KeyColumn;
use crate::span::Span;
use crate::types::ColumnType;
use crate::value::Value;

/// Encodes and decodes the keys of one relation.
#[derive(Clone, Debug)]
pub struct KeyEncoder {
    columns: Vec<(ColumnType, bool)>,
}

impl KeyEncoder {
    /// The encoder of a relation's key columns.
    pub fn new(key: &[KeyColumn]) -> KeyEncoder {
        KeyEncoder { columns: key.iter().map(|column| (column.ty, column.descending)).collect() }
    }

    /// The bytes of a key, or of a prefix of one.
    pub fn encode(&self, _values: &[Value]) -> Result<Vec<u8>> {
        Err(Error::internal(format!("unwritten {:?}", self.columns)))
    }

    /// The values of a whole key.
    pub fn decode(&self, _bytes: &[u8]) -> Result<Vec<Value>> {
        Err(Error::internal("unwritten"))
    }

    /// The bytes of every row's key; one array per key column, no nulls.
    pub fn encode_batch(&self, _columns: &[ArrayRef]) -> Result<BinaryArray> {
        Err(Error::internal("unwritten"))
    }

    /// The span as bytes: start inclusive, end exclusive (`None`: to the end).
    pub fn span_bytes(&self, _span: &Span) -> Result<(Vec<u8>, Option<Vec<u8>>)> {
        Err(Error::internal("unwritten"))
    }
}
