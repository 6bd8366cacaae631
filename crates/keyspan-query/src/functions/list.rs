//! Functions over lists that have no place among functions of single values.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use keyspan_model::{ColumnType, Error};

use super::system::Facts;
use crate::error::external;

/// The functions.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    let any = |count| Signature::any(count, Volatility::Immutable);
    vec![
        Arc::new(ScalarUDF::from(ListFunction { name: "json_of_list", signature: any(1) })),
        Arc::new(ScalarUDF::from(ListFunction {
            name: "current_schemas",
            signature: Signature::any(1, Volatility::Stable),
        })),
    ]
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ListFunction {
    name: &'static str,
    signature: Signature,
}

impl ListFunction {
    fn schemas(&self, args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
        let facts = Facts::of(&args.config_options);
        let implicit = matches!(&args.args[0], ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))));
        let system = implicit.then(|| "pg_catalog".to_owned());
        let names = system.into_iter().chain(facts.search_path.iter().cloned());
        let names: Vec<ScalarValue> = names.map(|name| ScalarValue::Utf8View(Some(name))).collect();
        Ok(ColumnarValue::Scalar(ScalarValue::List(ScalarValue::new_list_nullable(&names, &DataType::Utf8View))))
    }
}

impl ScalarUDFImpl for ListFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.name {
            "json_of_list" => DataType::Utf8View,
            _ => DataType::new_list(DataType::Utf8View, true),
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        if self.name == "json_of_list" {
            return Ok(Arc::new(ColumnType::Json.field(self.name, true)));
        }
        let _ = args;
        Ok(Arc::new(arrow::datatypes::Field::new(self.name, self.return_type(&[])?, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.name == "current_schemas" {
            return self.schemas(&args);
        }
        let array = args.args[0].to_array(args.number_rows)?;
        Ok(ColumnarValue::Array(joined(&array)?))
    }
}

/// Each list of JSON texts as one JSON array; no list stays null.
fn joined(array: &ArrayRef) -> Result<ArrayRef> {
    let Some(lists) = array.as_list_opt::<i32>() else {
        return Err(external(Error::internal("a list was expected")));
    };
    let mut builder = StringViewBuilder::with_capacity(lists.len());
    for row in 0..lists.len() {
        if lists.is_null(row) {
            builder.append_null();
            continue;
        }
        let items = arrow::compute::cast(&lists.value(row), &DataType::Utf8View)?;
        let items: Vec<&str> = items.as_string_view().iter().map(|item| item.unwrap_or("null")).collect();
        builder.append_value(format!("[{}]", items.join(", ")));
    }
    Ok(Arc::new(builder.finish()))
}
