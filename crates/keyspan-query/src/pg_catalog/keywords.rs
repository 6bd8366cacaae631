//! `pg_get_keywords()`: PostgreSQL 15's keywords (`keywords.txt`: word, category, whether it may be a bare label).
//!
//! Programs ask for them to know what they must quote; `quote_ident` uses the same list.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use datafusion::catalog::{MemTable, TableFunction, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::error::Result;
use keyspan_model::{ColumnType, Error, ErrorKind, Value, array_of};

use crate::error::external;

/// The function's name.
pub const NAME: &str = "pg_get_keywords";

struct Keyword {
    /// `U`, `C`, `T` or `R`.
    category: &'static str,
    is_label: bool,
}

fn keywords() -> &'static BTreeMap<&'static str, Keyword> {
    static KEYWORDS: OnceLock<BTreeMap<&'static str, Keyword>> = OnceLock::new();
    KEYWORDS.get_or_init(|| include_str!("keywords.txt").lines().filter_map(keyword).collect())
}

fn keyword(line: &'static str) -> Option<(&'static str, Keyword)> {
    let mut parts = line.split(' ');
    let (word, category, label) = (parts.next()?, parts.next()?, parts.next()?);
    Some((word, Keyword { category, is_label: label == "t" }))
}

/// Whether a name must be quoted because it is a keyword.
pub fn needs_quotes(name: &str) -> bool {
    keywords().get(name).is_some_and(|keyword| keyword.category != "U")
}

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
