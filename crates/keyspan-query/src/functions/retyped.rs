//! A value whose type its Arrow form does not tell, after what DataFusion gives without it: CASE, `coalesce`, `greatest`,
//! `array_agg`, `unnest`.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use keyspan_model::ColumnType;

use crate::types::metadata_of;

/// The value as this type, which it is; the value itself where its Arrow form tells the type, or it is none of ours.
pub fn retyped(value: Expr, ty: Option<ColumnType>) -> Expr {
    let Some(ty) = ty.filter(|ty| metadata_of(*ty).is_some()) else { return value };
    let function = Retyped { ty, signature: Signature::any(1, Volatility::Immutable) };
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(function)), vec![value]))
}

#[derive(Debug, PartialEq, Eq)]
struct Retyped {
    ty: ColumnType,
    signature: Signature,
}

impl Hash for Retyped {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.ty.hash(state);
    }
}

impl ScalarUDFImpl for Retyped {
    fn name(&self) -> &'static str {
        "retyped"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let argument = &args.arg_fields[0];
        let field = self.ty.field(argument.name(), argument.is_nullable());
        Ok(Arc::new(field.with_data_type(argument.data_type().clone())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args[0].clone())
    }
}
