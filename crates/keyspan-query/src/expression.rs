//! Scalar expressions without a query: CHECK, DEFAULT, `SET x = x + 1`, IF, RETURNING, DO UPDATE.

use arrow::array::{ArrayRef, RecordBatch};
use keyspan_model::{ColumnType, Error, Result, Value};

/// Expressions that can be evaluated on batches, any number of times.
#[derive(Clone, Debug)]
pub struct CompiledExprs {
    types: Vec<ColumnType>,
    parameters: Vec<ColumnType>,
}

impl CompiledExprs {
    /// The type of each expression.
    pub fn types(&self) -> &[ColumnType] {
        &self.types
    }

    /// Types of `$1`, `$2`, … .
    pub fn parameters(&self) -> &[ColumnType] {
        &self.parameters
    }

    /// One array per expression, as long as the batch. The batch has the columns of the inputs side by side.
    ///
    /// # Errors
    /// 22012, 22003, 22P02 and whatever else the expressions raise on these rows.
    pub fn evaluate(&self, batch: &RecordBatch, parameters: &[Value]) -> Result<Vec<ArrayRef>> {
        Err(Error::not_supported(format!("under construction: {} {parameters:?}", batch.num_rows())))
    }
}
