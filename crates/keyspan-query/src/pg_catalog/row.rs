//! Rows of system tables: values by column name; a column that is not given is null, or nothing in its type.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Int16Builder, Int64Builder, ListBuilder, RecordBatch, RecordBatchOptions, StringViewBuilder,
};
use datafusion::error::Result;
use keyspan_model::{ColumnBuilder, ColumnType, Value};

use super::definition::{Definition, Holds, SystemColumn};
use crate::error::external;

/// A value or a list.
#[derive(Clone, Debug)]
pub enum Cell {
    /// A truth value.
    Flag(bool),
    /// An integer of any width, or an OID.
    Number(i64),
    /// A text.
    Text(String),
    /// Microseconds since 1970.
    Time(i64),
    /// A list of integers.
    Numbers(Vec<i64>),
    /// A list of texts.
    Texts(Vec<String>),
    /// Null.
    Null,
}

impl From<bool> for Cell {
    fn from(value: bool) -> Cell {
        Cell::Flag(value)
    }
}

impl From<i64> for Cell {
    fn from(value: i64) -> Cell {
        Cell::Number(value)
    }
}

impl From<usize> for Cell {
    fn from(value: usize) -> Cell {
        Cell::Number(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Cell {
        Cell::Text(value.to_owned())
    }
}

impl From<&String> for Cell {
    fn from(value: &String) -> Cell {
        Cell::Text(value.clone())
    }
}

impl From<String> for Cell {
    fn from(value: String) -> Cell {
        Cell::Text(value)
    }
}

impl From<Vec<i64>> for Cell {
    fn from(value: Vec<i64>) -> Cell {
        Cell::Numbers(value)
    }
}

impl From<Vec<String>> for Cell {
    fn from(value: Vec<String>) -> Cell {
        Cell::Texts(value)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::Null, Into::into)
    }
}

impl Cell {
    /// A time in microseconds since 1970.
    pub fn time(value: Option<i64>) -> Cell {
        value.map_or(Cell::Null, Cell::Time)
    }
}

/// A row under construction.
#[derive(Clone, Debug, Default)]
pub struct Row {
    cells: BTreeMap<&'static str, Cell>,
}

impl Row {
    /// A row of nothing.
    pub fn new() -> Row {
        Row::default()
    }

    /// The row with this value, too.
    pub fn with(mut self, name: &'static str, value: impl Into<Cell>) -> Row {
        self.cells.insert(name, value.into());
        self
    }

    /// The row with several flags set.
    pub fn flags(mut self, names: &[&'static str]) -> Row {
        for name in names {
            self.cells.insert(name, Cell::Flag(true));
        }
        self
    }
}

/// The rows as one batch with all columns of the table.
///
/// # Errors
/// XX000 when a value is none of its column's type.
pub fn batch(definition: &Definition, rows: &[Row]) -> Result<RecordBatch> {
    let arrays = definition.columns.iter().map(|column| array(column, rows)).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    Ok(RecordBatch::try_new_with_options(definition.arrow.clone(), arrays, &options)?)
}

fn array(column: &SystemColumn, rows: &[Row]) -> Result<ArrayRef> {
    let cells = rows.iter().map(|row| row.cells.get(column.name));
    match column.holds {
        Holds::One(ty) => {
            let mut builder = ColumnBuilder::with_capacity(ty, rows.len());
            for cell in cells {
                builder.append(&value(column, ty, cell)).map_err(external)?;
            }
            Ok(builder.finish())
        }
        Holds::Texts => {
            let mut builder = ListBuilder::new(StringViewBuilder::new());
            for cell in cells {
                let texts = match cell {
                    Some(Cell::Texts(texts)) => Some(texts),
                    _ => None,
                };
                texts.into_iter().flatten().for_each(|text| builder.values().append_value(text));
                builder.append(column.not_null || texts.is_some());
            }
            Ok(Arc::new(builder.finish()))
        }
        Holds::Smalls => {
            let mut builder = ListBuilder::new(Int16Builder::new());
            for cell in cells {
                let numbers = numbers(cell);
                let small = |number: &i64| i16::try_from(*number).unwrap_or(i16::MAX);
                numbers.iter().copied().flatten().for_each(|number| builder.values().append_value(small(number)));
                builder.append(column.not_null || numbers.is_some());
            }
            Ok(Arc::new(builder.finish()))
        }
        Holds::Oids => {
            let mut builder = ListBuilder::new(Int64Builder::new());
            for cell in cells {
                let numbers = numbers(cell);
                numbers.iter().copied().flatten().for_each(|number| builder.values().append_value(*number));
                builder.append(column.not_null || numbers.is_some());
            }
            Ok(Arc::new(builder.finish()))
        }
    }
}

fn numbers(cell: Option<&Cell>) -> Option<&Vec<i64>> {
    match cell {
        Some(Cell::Numbers(numbers)) => Some(numbers),
        _ => None,
    }
}

fn value(column: &SystemColumn, ty: ColumnType, cell: Option<&Cell>) -> Value {
    match (cell, ty) {
        (Some(Cell::Flag(value)), ColumnType::Boolean) => Value::Boolean(*value),
        (Some(Cell::Number(value)), ColumnType::SmallInt) => Value::SmallInt(i16::try_from(*value).unwrap_or(i16::MAX)),
        (Some(Cell::Number(value)), ColumnType::Int) => Value::Int(i32::try_from(*value).unwrap_or(i32::MAX)),
        (Some(Cell::Number(value)), ColumnType::BigInt) => Value::BigInt(*value),
        (Some(Cell::Number(value)), ColumnType::Real) => Value::Real(*value as f32),
        (Some(Cell::Time(value)), ColumnType::Timestamp) => Value::Timestamp(*value),
        (Some(Cell::Text(value)), ColumnType::Text) => Value::Text(value.clone()),
        (Some(Cell::Text(value)), ColumnType::Inet) => value.parse().map_or(Value::Null, Value::Inet),
        _ if column.not_null => nothing(column, ty),
        _ => Value::Null,
    }
}

/// What a column that is never null says of something that is not there.
fn nothing(column: &SystemColumn, ty: ColumnType) -> Value {
    match ty {
        ColumnType::Boolean => Value::Boolean(false),
        ColumnType::SmallInt => Value::SmallInt(0),
        ColumnType::Int => Value::Int(0),
        ColumnType::BigInt => Value::BigInt(0),
        ColumnType::Real => Value::Real(0.0),
        ColumnType::Blob => Value::Blob(Vec::new()),
        ColumnType::Timestamp => Value::Timestamp(0),
        ColumnType::Text if column.type_name == "regproc" => Value::Text("-".into()),
        ColumnType::Text => Value::Text(String::new()),
        _ => Value::Null,
    }
}
