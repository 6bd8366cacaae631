//! A row as one value: a struct whose fields keep the types that their Arrow form does not tell.

use std::sync::Arc;

use arrow::array::{ArrayRef, StructArray};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use keyspan_model::Error;

use crate::error::external;

/// Takes the names of the columns, each before its value.
pub const WHOLE_ROW: &str = "whole_row";

/// The function.
pub fn function() -> ScalarUDF {
    ScalarUDF::from(WholeRow { signature: Signature::variadic_any(Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct WholeRow {
    signature: Signature,
}

fn unnamed() -> datafusion::error::DataFusionError {
    external(Error::internal(format!("{WHOLE_ROW} without names of columns")))
}

impl ScalarUDFImpl for WholeRow {
    fn name(&self) -> &'static str {
        WHOLE_ROW
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Err(unnamed())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let fields = args.scalar_arguments.chunks(2).zip(args.arg_fields.chunks(2));
        let fields = fields.map(|(values, fields)| match (values.first(), fields) {
            (Some(Some(ScalarValue::Utf8(Some(name)) | ScalarValue::Utf8View(Some(name)))), [_, field]) => {
                Ok(field.as_ref().clone().with_name(name).with_nullable(true))
            }
            _ => Err(unnamed()),
        });
        let fields: Fields = fields.collect::<Result<Vec<Field>>>()?.into();
        Ok(Arc::new(Field::new(WHOLE_ROW, DataType::Struct(fields), false)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let DataType::Struct(fields) = args.return_field.data_type() else { return Err(unnamed()) };
        let columns = args.args.iter().skip(1).step_by(2).map(|value| value.to_array(args.number_rows));
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let row = StructArray::try_new_with_length(fields.clone(), columns, None, args.number_rows)?;
        Ok(ColumnarValue::Array(Arc::new(row)))
    }
}
