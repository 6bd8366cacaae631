//! `pg_get_keywords()`: programs ask for the keywords to know what they must quote.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use datafusion::catalog::{MemTable, TableFunction, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::error::Result;
use keyspan_model::{ColumnType, Error, ErrorKind, Value, array_of};

use crate::error::external;
use crate::syntax::{Keyword, keywords};

/// The function's name.
pub const NAME: &str = "pg_get_keywords";

/// The table function.
pub fn function() -> Arc<TableFunction> {
    Arc::new(TableFunction::new(NAME.into(), Arc::new(Keywords)))
}

#[derive(Debug)]
struct Keywords;

impl TableFunctionImpl for Keywords {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        if !args.exprs().is_empty() {
            let message = "pg_get_keywords() takes no arguments";
            return Err(external(Error::new(ErrorKind::UndefinedFunction, message)));
        }
        let column = |name: &str, ty: ColumnType, value: fn(&str, &Keyword) -> Value| {
            let values: Vec<Value> = keywords().iter().map(|(word, keyword)| value(word, keyword)).collect();
            array_of(ty, &values).map(|array| (ty.field(name, true), array)).map_err(external)
        };
        let columns = [
            column("word", ColumnType::Text, |word, _| Value::Text(word.into()))?,
            column("catcode", ColumnType::Text, |_, keyword| Value::Text(keyword.category.into()))?,
            column("barelabel", ColumnType::Boolean, |_, keyword| Value::Boolean(keyword.is_label))?,
            column("catdesc", ColumnType::Text, |_, keyword| Value::Text(described(keyword.category).into()))?,
            column("baredesc", ColumnType::Text, |_, keyword| Value::Text(label_described(keyword.is_label).into()))?,
        ];
        let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(schema.clone(), arrays)?;
        Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]])?))
    }
}

fn described(category: &str) -> &'static str {
    match category {
        "U" => "unreserved",
        "C" => "unreserved (cannot be function or type name)",
        "T" => "reserved (can be function or type name)",
        _ => "reserved",
    }
}

fn label_described(is_label: bool) -> &'static str {
    if is_label { "can be bare label" } else { "requires AS" }
}
