//! Prepared statements and portals of the extended protocol.
//!
//! The rule: a portal keeps its rows as an open stream between two Executes; nothing of a result is gathered.

use std::sync::Arc;

use keyspan_model::types::DECIMAL_DIGITS;
use keyspan_model::{ColumnType, Result, Value};

use crate::engine::{Parsed, Prepared, Tag, Zone};
use crate::rows::{RowSource, ValueFormat};
use crate::types::parameter::{read_binary, read_text};
use crate::types::pg_type::oid;

/// A prepared statement.
#[derive(Clone)]
pub(crate) struct StoredStatement {
    /// None for the empty statement.
    pub(crate) statement: Option<Arc<(Parsed, Prepared)>>,
    /// The OID of each parameter, as described to the client.
    pub(crate) parameters: Vec<u32>,
}

/// A statement with its parameters, run as far as the client has asked.
pub(crate) struct Portal {
    pub(crate) statement: StoredStatement,
    pub(crate) values: Vec<Value>,
    pub(crate) formats: Vec<ValueFormat>,
    pub(crate) state: PortalState,
}

/// How far a portal has been run.
pub(crate) enum PortalState {
    /// Not at all.
    Ready,
    /// Rows are left.
    Open(Box<RowSource>, Tag),
    /// All has been answered; a statement with rows may be asked again and answers none.
    Done(Option<Tag>),
}

impl StoredStatement {
    /// How many columns its rows have.
    pub(crate) fn columns(&self) -> usize {
        let schema = self.statement.as_ref().and_then(|statement| statement.1.schema.as_ref());
        schema.map_or(0, |schema| schema.fields().len())
    }

    /// The value of a parameter as the client sends it.
    pub(crate) fn value(&self, index: usize, bytes: Option<&[u8]>, format: ValueFormat, zone: &Zone) -> Result<Value> {
        let Some(bytes) = bytes else { return Ok(Value::Null) };
        let types = self.statement.as_ref().map_or(&[][..], |statement| &statement.1.parameters);
        let ty = types.get(index).copied().unwrap_or(ColumnType::Text);
        let declared = self.parameters[index];
        match format {
            // What a client sends as a numeric may be written as one: `1E+30`.
            ValueFormat::Text if declared == oid::NUMERIC && ty == ColumnType::VarInt => {
                read_text(bytes, ColumnType::Decimal { precision: DECIMAL_DIGITS, scale: 0 }, zone)?.cast(ty)
            }
            ValueFormat::Text => read_text(bytes, ty, zone),
            ValueFormat::Binary => read_binary(bytes, declared, ty, index + 1),
        }
    }
}
