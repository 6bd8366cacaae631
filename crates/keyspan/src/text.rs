//! Values as PostgreSQL prints them, in a session's style: for COPY, the shell and exports.
//!
//! The rule: the same text as the wire's text format. A list is `{a,b}` with quotes where PostgreSQL puts them; what
//! PostgreSQL has no type for (structs, maps) is JSON.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int32Array, Int64Array, IntervalMonthDayNanoArray,
    StringViewArray, TimestampMicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{self as dt, DataType, Field, IntervalUnit, TimeUnit};
use arrow::util::display::array_value_to_string;
use keyspan_model::text::array::{needs_quotes, push_element};
use keyspan_model::types::TYPE_KEY;
use keyspan_model::value_json::nested_text;
use keyspan_model::{ColumnType, IntervalStyle, Result, Value, display, timestamp_text, value_at};
use keyspan_query::Zone;

/// How a session's values are printed, as far as its settings say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextStyle {
    /// By whose clocks instants are shown.
    pub zone: Zone,
    /// The form of durations. A cast to text gives PostgreSQL's, whatever the session has set.
    pub intervals: IntervalStyle,
}

impl TextStyle {
    /// Instants in UTC, and durations in PostgreSQL's form.
    pub const UTC: TextStyle = TextStyle { zone: Zone::UTC, intervals: IntervalStyle::Postgres };

    /// Instants by the clocks of the time zone of this name or offset; in UTC if there is no such zone.
    pub fn in_zone(zone: &str) -> TextStyle {
        TextStyle { zone: Zone::of_setting(zone), ..TextStyle::UTC }
    }
}

/// The cells of one array as texts.
#[derive(Debug)]
pub struct ArrayText {
    array: ArrayRef,
    form: TextForm,
    /// The texts are JSON.
    json: bool,
}

/// How the cells are read: the frequent types without a [`Value`] for each cell.
#[derive(Debug)]
enum TextForm {
    Boolean(BooleanArray),
    Int(Int32Array),
    BigInt(Int64Array),
    Double(Float64Array),
    Text(StringViewArray),
    Timestamp(TimestampMicrosecondArray, Zone),
    Duration(IntervalMonthDayNanoArray, IntervalStyle),
    Other(ColumnType),
    List {
        items: Box<ArrayText>,
        vector: bool,
    },
    Struct(Vec<(String, ArrayText)>),
    Map {
        keys: Box<ArrayText>,
        values: Box<ArrayText>,
    },
    /// Arrow types that no type of ours stands for.
    Foreign,
}

impl ArrayText {
    /// Prepares the cells of `array`, whose column is `field`.
    ///
    /// # Errors
    /// None for arrays that queries return: a conversion between two Arrow types that fails.
    pub fn new(field: &Field, array: &ArrayRef, style: TextStyle) -> Result<ArrayText> {
        let packed = ColumnType::of_field(field).filter(|ty| ty.is_packed());
        let array = match packed {
            Some(ty) => texts_of_nested(array, ty, style.zone)?,
            None => plain(array)?,
        };
        let form = match array.data_type() {
            DataType::Boolean => TextForm::Boolean(array.as_boolean().clone()),
            DataType::Int32 => TextForm::Int(array.as_primitive::<dt::Int32Type>().clone()),
            DataType::Int64 => TextForm::BigInt(array.as_primitive::<dt::Int64Type>().clone()),
            DataType::Float64 => TextForm::Double(array.as_primitive::<dt::Float64Type>().clone()),
            DataType::Utf8View => TextForm::Text(array.as_string_view().clone()),
            DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => {
                TextForm::Timestamp(array.as_primitive::<dt::TimestampMicrosecondType>().clone(), style.zone)
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                TextForm::Duration(array.as_primitive::<dt::IntervalMonthDayNanoType>().clone(), style.intervals)
            }
            DataType::List(item) => {
                let vector = field.metadata().get(TYPE_KEY).is_some_and(|name| name.ends_with("vector"));
                let element = ColumnType::of_field(field).and_then(ColumnType::element);
                let item = element.map_or_else(|| item.as_ref().clone(), |element| element.field("item", true));
                let values = array.as_list::<i32>().values();
                TextForm::List { items: Box::new(ArrayText::new(&item, values, style)?), vector }
            }
            DataType::Struct(fields) => {
                let columns = fields.iter().zip(array.as_struct().columns());
                let named =
                    columns.map(|(field, column)| Ok((field.name().clone(), ArrayText::new(field, column, style)?)));
                TextForm::Struct(named.collect::<Result<_>>()?)
            }
            DataType::Map(..) => {
                let entries = array.as_map().entries();
                let side = |index: usize| ArrayText::new(&entries.fields()[index], entries.column(index), style);
                TextForm::Map { keys: Box::new(side(0)?), values: Box::new(side(1)?) }
            }
            _ => ColumnType::of_field(&field.clone().with_data_type(array.data_type().clone()))
                .map_or(TextForm::Foreign, TextForm::Other),
        };
        let json =
            packed.is_some() || matches!(ColumnType::of_field(field), Some(ColumnType::Json | ColumnType::Jsonb));
        Ok(ArrayText { array, form, json })
    }

    /// Whether the cell is null.
    pub fn is_null(&self, row: usize) -> bool {
        self.array.is_null(row) || *self.array.data_type() == DataType::Null
    }

    /// Appends the text of a cell that is not null.
    ///
    /// # Errors
    /// 22003 and 22008 for a value that PostgreSQL's types cannot hold.
    pub fn write(&self, row: usize, out: &mut String) -> Result<()> {
        match &self.form {
            TextForm::Boolean(values) => out.push(if values.value(row) { 't' } else { 'f' }),
            TextForm::Int(values) => put(out, values.value(row)),
            TextForm::BigInt(values) => put(out, values.value(row)),
            TextForm::Double(values) => write_double(values.value(row), out),
            TextForm::Text(values) => out.push_str(values.value(row)),
            TextForm::Timestamp(values, zone) => {
                let micros = values.value(row);
                out.push_str(&timestamp_text(micros, zone.offset_at(micros)));
            }
            TextForm::Duration(values, style) => {
                let value = values.value(row);
                out.push_str(&style.text(value.months, value.days, value.nanoseconds));
            }
            TextForm::Other(ty) => out.push_str(&value_at(&self.array, row, *ty)?.to_text(*ty)),
            TextForm::List { items, vector } => self.write_list(row, items, *vector, out)?,
            TextForm::Struct(_) | TextForm::Map { .. } => self.write_json(row, out)?,
            TextForm::Foreign => out.push_str(&array_value_to_string(&self.array, row)?),
        }
        Ok(())
    }

    fn items_of(&self, row: usize) -> std::ops::Range<usize> {
        let offsets = match self.array.data_type() {
            DataType::Map(..) => self.array.as_map().value_offsets(),
            _ => self.array.as_list::<i32>().value_offsets(),
        };
        let at = |index: usize| usize::try_from(offsets[index]).unwrap_or(0);
        at(row)..at(row + 1)
    }

    fn write_list(&self, row: usize, items: &ArrayText, vector: bool, out: &mut String) -> Result<()> {
        let range = self.items_of(row);
        let first = range.start;
        out.push_str(if vector { "" } else { "{" });
        for item in range {
            if item > first {
                out.push(if vector { ' ' } else { ',' });
            }
            if items.is_null(item) {
                out.push_str("NULL");
                continue;
            }
            let start = out.len();
            items.write(item, out)?;
            if !matches!(items.form, TextForm::List { .. }) && needs_quotes(&out[start..]) {
                let plain = out.split_off(start);
                push_element(&plain, out);
            }
        }
        out.push_str(if vector { "" } else { "}" });
        Ok(())
    }

    /// Appends the cell as JSON, as PostgreSQL's `jsonb` prints it: a blank after each colon and comma.
    pub fn write_json(&self, row: usize, out: &mut String) -> Result<()> {
        if self.is_null(row) {
            out.push_str("null");
            return Ok(());
        }
        match &self.form {
            TextForm::Boolean(values) => out.push_str(if values.value(row) { "true" } else { "false" }),
            _ if self.json => self.write(row, out)?,
            TextForm::Int(_) | TextForm::BigInt(_) => self.write(row, out)?,
            TextForm::Double(values) if values.value(row).is_finite() => self.write(row, out)?,
            TextForm::List { items, .. } => {
                separated('[', ']', self.items_of(row), out, |item, out| items.write_json(item, out))?
            }
            TextForm::Struct(fields) => separated('{', '}', 0..fields.len(), out, |index, out| {
                let (name, values) = &fields[index];
                json_string(name, out);
                out.push_str(": ");
                values.write_json(row, out)
            })?,
            TextForm::Map { keys, values } => separated('{', '}', self.items_of(row), out, |entry, out| {
                keys.write_json_string(entry, out)?;
                out.push_str(": ");
                values.write_json(entry, out)
            })?,
            TextForm::Other(ty) if self.is_bare(row, *ty)? => self.write(row, out)?,
            _ => self.write_json_string(row, out)?,
        }
        Ok(())
    }

    fn write_json_string(&self, row: usize, out: &mut String) -> Result<()> {
        let mut text = String::new();
        self.write(row, &mut text)?;
        json_string(&text, out);
        Ok(())
    }

    /// Whether JSON writes the cell without quotes.
    fn is_bare(&self, row: usize, ty: ColumnType) -> Result<bool> {
        Ok(match ty {
            ColumnType::TinyInt | ColumnType::SmallInt | ColumnType::VarInt | ColumnType::Decimal { .. } => true,
            ColumnType::Real => matches!(value_at(&self.array, row, ty)?, Value::Real(value) if value.is_finite()),
            _ => false,
        })
    }
}

/// Nested values as their texts, which are JSON.
fn texts_of_nested(array: &ArrayRef, ty: ColumnType, zone: Zone) -> Result<ArrayRef> {
    let text = |row| match value_at(array, row, ty)? {
        Value::Null => Ok(None),
        value => Ok(Some(nested_text(&value, ty, &|at| timestamp_text(at, zone.offset_at(at))))),
    };
    let texts: StringViewArray = (0..array.len()).map(text).collect::<Result<_>>()?;
    Ok(Arc::new(texts))
}

/// The array in the one of several equal forms that [`ArrayText`] reads.
fn plain(array: &ArrayRef) -> Result<ArrayRef> {
    let to = match array.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Dictionary(_, value) => return plain(&cast(array, value)?),
        DataType::LargeList(item) | DataType::FixedSizeList(item, _) | DataType::ListView(item) => {
            DataType::List(item.clone())
        }
        _ => return Ok(array.clone()),
    };
    Ok(cast(array, &to)?)
}

fn put(out: &mut String, value: impl std::fmt::Display) {
    write!(out, "{value}").expect("a string takes any text");
}

/// Floats whose shortest form has no exponent in either notation need no rewriting.
fn write_double(value: f64, out: &mut String) {
    let magnitude = value.abs();
    if magnitude == 0.0 || (1e-4..1e15).contains(&magnitude) {
        put(out, value);
    } else {
        out.push_str(&display::double_text(value));
    }
}

fn separated(
    open: char,
    close: char,
    range: std::ops::Range<usize>,
    out: &mut String,
    mut each: impl FnMut(usize, &mut String) -> Result<()>,
) -> Result<()> {
    out.push(open);
    let first = range.start;
    for index in range {
        if index > first {
            out.push_str(", ");
        }
        each(index, out)?;
    }
    out.push(close);
    Ok(())
}

/// Appends a text as a JSON string.
pub fn json_string(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                out.push('\\');
                out.push(character);
            }
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => write!(out, "\\u{:04x}", u32::from(control)).expect("a string takes any text"),
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use arrow::array::{ListArray, StructArray};
    use arrow::datatypes::Fields;

    fn text(field: &Field, array: ArrayRef, row: usize) -> String {
        let mut out = String::new();
        ArrayText::new(field, &array, TextStyle::in_zone("Europe/Berlin"))
            .expect("cells")
            .write(row, &mut out)
            .expect("text");
        out
    }

    #[test]
    fn doubles_print_as_the_model_prints_them() {
        for value in [0.0, 1.5, -1e-4, 9.99e-5, 1e14, 1e15, 123_456_789.123, f64::NAN, f64::NEG_INFINITY, 5e-324] {
            let mut out = String::new();
            write_double(value, &mut out);
            assert_eq!(out, display::double_text(value));
        }
    }

    #[test]
    fn instants_are_shown_by_the_clocks_of_the_zone() {
        let field = ColumnType::Timestamp.field("ts", true);
        let array = Arc::new(TimestampMicrosecondArray::from(vec![1_719_835_200_000_000]).with_timezone("UTC"));
        assert_eq!(text(&field, array, 0), "2024-07-01 14:00:00+02");
    }

    #[test]
    fn lists_are_arrays_and_structs_are_json() {
        let texts = StringViewArray::from(vec![Some("a"), None, Some("b c"), Some(""), Some("q\"")]);
        let item = Arc::new(Field::new("item", DataType::Utf8View, true));
        let offsets = arrow::buffer::OffsetBuffer::from_lengths([5]);
        let list: ArrayRef = Arc::new(ListArray::new(item.clone(), offsets, Arc::new(texts), None));
        let list_field = Field::new("l", DataType::List(item), true);
        assert_eq!(text(&list_field, list.clone(), 0), r#"{a,NULL,"b c","","q\""}"#);
        let number = Field::new("n", DataType::Int32, true);
        let fields = Fields::from(vec![number, list_field]);
        let columns: Vec<ArrayRef> = vec![Arc::new(Int32Array::from(vec![7])), list];
        let structure: ArrayRef = Arc::new(StructArray::new(fields.clone(), columns, None));
        let field = Field::new("s", DataType::Struct(fields), true);
        assert_eq!(text(&field, structure, 0), r#"{"n": 7, "l": ["a", null, "b c", "", "q\""]}"#);
    }
}
