//! Prepared statements and portals of the extended protocol.
//!
//! The rule: a portal keeps its rows as an open stream between two Executes; nothing of a result is gathered.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use keyspan_model::types::{DECIMAL_DIGITS, DECIMAL_SCALE};
use keyspan_model::{ColumnType, Result, Value};
use parking_lot::Mutex;

use crate::encoding::Encoding;
use crate::engine::{Parsed, Prepared, Tag, Zone};
use crate::rows::{RowSource, ValueFormat};
use crate::types::numeric::{scale_of, scale_of_array};
use crate::types::parameter::{read_binary, read_text};
use crate::types::pg_type::oid;

/// A numeric of which nothing says how many digits it has after the point.
const BARE_NUMERIC: ColumnType = ColumnType::Decimal { precision: DECIMAL_DIGITS, scale: DECIMAL_SCALE };
/// Combinations of scales for which a statement is kept prepared.
const MOST_SCALES: usize = 16;

/// For each parameter the digits after the point that its type is to have; none: as it is.
pub(crate) type Scales = Vec<Option<i8>>;

/// A statement and what was found out about it.
type Compiled = Arc<(Parsed, Prepared)>;

/// A prepared statement.
#[derive(Clone, Default)]
pub(crate) struct StoredStatement {
    /// None for the empty statement.
    pub(crate) statement: Option<Compiled>,
    /// The OID of each parameter, as described to the client.
    pub(crate) parameters: Vec<u32>,
    /// The type of each parameter, as far as the client has declared it.
    declared: Vec<Option<ColumnType>>,
    /// The places of parameters that go to numeric columns, which say how many digits they keep.
    of_columns: Vec<usize>,
    /// The same statement for numerics with other digits after the point.
    by_scales: Arc<Mutex<HashMap<Scales, Compiled>>>,
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

    /// A statement with the OIDs of its parameters, the types that the client declared, and which numerics go to columns.
    pub(crate) fn new(
        statement: Option<Compiled>,
        parameters: Vec<u32>,
        declared: Vec<Option<ColumnType>>,
        of_columns: Vec<usize>,
    ) -> StoredStatement {
        StoredStatement { statement, parameters, declared, of_columns, by_scales: Arc::default() }
    }

    /// The digits after the point of numerics whose type says nothing of them: those of their values, so that none is lost
    /// and none is shown that is not there.
    pub(crate) fn scales(&self, given: &[Option<Bytes>], formats: &[ValueFormat]) -> Scales {
        let types = self.statement.as_ref().map_or(&[][..], |statement| &statement.1.parameters);
        let scale = |(index, ty): (usize, &ColumnType)| {
            let is_array = ty.element() == Some(BARE_NUMERIC);
            if !(*ty == BARE_NUMERIC || is_array) || self.of_columns.contains(&index) {
                return None;
            }
            let (bytes, is_binary) = (given.get(index)?.as_ref()?, formats[index] == ValueFormat::Binary);
            let scale = if is_array { scale_of_array(bytes, is_binary)? } else { scale_of(bytes, is_binary)? };
            // Where a column gives the type, its values have no more digits.
            let is_declared = self.declared.get(index).is_some_and(Option::is_some);
            (scale > DECIMAL_SCALE || is_declared && scale < DECIMAL_SCALE).then_some(scale)
        };
        types.iter().enumerate().map(scale).collect()
    }

    /// The types to prepare the statement with for these scales.
    pub(crate) fn types_for(&self, scales: &Scales) -> Vec<Option<ColumnType>> {
        let found = self.statement.as_ref().map_or(&[][..], |statement| &statement.1.parameters);
        let typed = |(index, scale): (usize, &Option<i8>)| match scale {
            Some(scale) => {
                let numeric = ColumnType::Decimal { precision: DECIMAL_DIGITS, scale: *scale };
                if found[index].element().is_some() { numeric.into_list().ok() } else { Some(numeric) }
            }
            None if self.of_columns.contains(&index) => None,
            None => self.declared.get(index).copied().flatten(),
        };
        scales.iter().enumerate().map(typed).collect()
    }

    /// The statement for these scales, if it is prepared.
    pub(crate) fn prepared_for(&self, scales: &Scales) -> Option<StoredStatement> {
        let statement = match scales.iter().all(Option::is_none) {
            true => self.statement.clone(),
            false => Some(self.by_scales.lock().get(scales)?.clone()),
        };
        Some(StoredStatement { statement, ..self.clone() })
    }

    /// Keeps the statement as it is prepared for these scales.
    pub(crate) fn keep(&self, scales: Scales, parsed: Parsed, prepared: Prepared) -> StoredStatement {
        let statement = Arc::new((parsed, prepared));
        let mut kept = self.by_scales.lock();
        if kept.len() >= MOST_SCALES {
            kept.clear();
        }
        kept.insert(scales, statement.clone());
        StoredStatement { statement: Some(statement), ..self.clone() }
    }

    /// The value of a parameter as the client sends it.
    pub(crate) fn value(
        &self,
        index: usize,
        bytes: Option<&[u8]>,
        format: ValueFormat,
        zone: &Zone,
        encoding: Encoding,
    ) -> Result<Value> {
        let Some(bytes) = bytes else { return Ok(Value::Null) };
        let types = self.statement.as_ref().map_or(&[][..], |statement| &statement.1.parameters);
        let ty = types.get(index).copied().unwrap_or(ColumnType::Text);
        let declared = self.parameters[index];
        match format {
            // What a client sends as a numeric may be written as one: `1E+30`.
            ValueFormat::Text if declared == oid::NUMERIC && ty == ColumnType::VarInt => {
                let ty_of_bytes = ColumnType::Decimal { precision: DECIMAL_DIGITS, scale: 0 };
                read_text(bytes, ty_of_bytes, zone, encoding)?.cast(ty)
            }
            ValueFormat::Text => read_text(bytes, ty, zone, encoding),
            ValueFormat::Binary => read_binary(bytes, declared, ty, index + 1, encoding),
        }
    }
}
