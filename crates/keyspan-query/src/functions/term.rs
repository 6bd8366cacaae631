//! The value itself: marks a column of a recursive term while it is planned; see `semantics::recursive`.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The name of the mark.
pub const RECURSIVE_TERM: &str = "recursive_term";

/// The function that marks.
pub fn recursive_term() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Term { signature: Signature::any(1, Volatility::Immutable) }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Term {
    signature: Signature,
}

impl ScalarUDFImpl for Term {
    fn name(&self) -> &'static str {
        RECURSIVE_TERM
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::clone(&args.arg_fields[0]))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args[0].clone())
    }
}
