//! A statement whose parameter types and output columns are known, ready to run many times.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use keyspan_cql::{Parsed, Statement};
use keyspan_model::{Catalog, ColumnType, Error, ErrorKind, Result, Value};
use keyspan_query::{PlannedQuery, Zone};

use crate::point::PointSelect;

/// A prepared statement. Cheap to clone; valid for the session that made it.
///
/// When tables have changed since, running it prepares it anew; if its columns would then be others, that is an error.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Types of `$1`, `$2`, …
    pub parameters: Vec<ColumnType>,
    /// The places in [`Prepared::parameters`] of arrays that the statement casts to `oid[]`.
    pub oid_arrays: Vec<usize>,
    /// The places in [`Prepared::parameters`] of those that it assigns to columns as they are, and uses for nothing else.
    pub assigned: Vec<usize>,
    /// The columns of its rows; none: it returns no rows.
    pub schema: Option<SchemaRef>,
    pub(crate) parsed: Arc<Parsed>,
    /// Whether it was written as a command of HBase's shell: positions in it are not those of the text.
    pub(crate) is_command: bool,
    pub(crate) plan: PreparedPlan,
    /// The types the client gave, to prepare again with.
    pub(crate) given: Vec<Option<ColumnType>>,
    /// The catalog it was prepared against.
    pub(crate) catalog: Arc<Catalog>,
}

/// What preparing a statement has found, beyond types.
#[derive(Clone, Debug)]
pub(crate) enum PreparedPlan {
    /// Nothing: it is planned when it runs.
    None,
    /// A SELECT by whole key.
    Point(Arc<PointSelect>),
    /// A SELECT that DataFusion planned, and whether it calls `set_config`.
    Query { planned: PlannedQuery, sets: bool },
    /// What EXPLAIN explains.
    Explained(Arc<Prepared>),
}

impl Prepared {
    /// The statement.
    pub fn statement(&self) -> &Statement {
        &self.parsed.statement
    }

    /// An error of running it.
    pub(crate) fn placed(&self, error: Error) -> Error {
        if self.is_command { Error { position: None, ..error } } else { error }
    }

    /// Whether DataFusion has planned it.
    pub(crate) fn is_planned(&self) -> bool {
        matches!(self.plan, PreparedPlan::Query { .. })
    }

    /// The parameters as values of the types it was prepared with; texts of instants are read in this zone.
    pub(crate) fn typed(&self, zone: &Zone, given: &[Value]) -> Result<Vec<Value>> {
        self.check_count(given)?;
        let resolve = |name: Option<&str>, local| zone.resolve(name, local);
        let typed = given.iter().cloned().zip(&self.parameters);
        typed.map(|(value, ty)| value.cast_zoned(*ty, &resolve)).collect()
    }

    /// Fails unless there is a value for each parameter.
    pub(crate) fn check_count(&self, given: &[Value]) -> Result<()> {
        let (supplied, required) = (given.len(), self.parameters.len());
        if supplied == required {
            return Ok(());
        }
        let message =
            format!("bind message supplies {supplied} parameters, but prepared statement \"\" requires {required}");
        Err(Error::new(ErrorKind::Protocol, message))
    }

    /// The statement with its source text.
    pub fn parsed(&self) -> &Parsed {
        &self.parsed
    }
}
