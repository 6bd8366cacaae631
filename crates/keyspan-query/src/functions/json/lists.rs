//! Arrays and rows as JSON, and the elements and members of JSON as lists, around which `unnest` makes rows.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, ListArray, StringViewArray, StringViewBuilder, StructArray, new_empty_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};
use keyspan_model::json::{Json, members, quoted};
use keyspan_model::value_json::{cql_json, cql_key};
use keyspan_model::{ColumnType, Error, Value, value_at};

use super::super::list::{ListFunction, lists, texts};
use super::super::overload::zone_of;
use super::invalid;
use super::read::{kind, plain};
use crate::error::external;
use crate::types::cast::json_of as of;
use crate::types::{Zone, field_of};

/// Any value as JSON, lists and rows too.
pub const OF_VALUE: &str = "json_of_value";
/// The same in Cassandra's forms.
pub const OF_VALUE_CQL: &str = "cql_json_of_value";
/// Arrays and rows as JSON on a line of their own, as `json_agg` shows them.
pub const OF_ITEM: &str = "json_of_item";
/// The elements of a list, each as JSON.
pub const ELEMENTS_OF_LIST: &str = "json_elements_of_list";
/// The elements of an array.
pub const ELEMENTS: &str = "json_element_list";
/// The elements of an array as texts.
pub const ELEMENT_TEXTS: &str = "json_element_texts";
/// The keys of an object.
pub const KEYS: &str = "json_key_list";
/// The members of an object, as rows of `key` and `value`.
pub const MEMBERS: &str = "json_member_list";
/// The members of an object, with their values as texts.
pub const MEMBER_TEXTS: &str = "json_member_texts";

/// The functions.
pub fn functions() -> Vec<ListFunction> {
    let json = |name: &'static str, ty: ColumnType, code| match ty {
        ColumnType::Json => ListFunction::new(name, 1, |name, _| Ok(ColumnType::Json.field(name, true)), code),
        _ => ListFunction::new(name, 1, |name, _| Ok(ColumnType::Jsonb.field(name, true)), code),
    };
    vec![
        json(OF_VALUE, ColumnType::Json, |args| of_values(args, "")).stable(),
        json(OF_VALUE_CQL, ColumnType::Json, |args| values_as(args, "", Form::Cassandra)),
        json(OF_ITEM, ColumnType::Json, |args| of_values(args, "\n ")).stable(),
        json("json_of_list", ColumnType::Json, |args| {
            joined(args, |items| Ok(format!("[{}]", spaced(items).join(", "))))
        }),
        json("jsonb_of_list", ColumnType::Jsonb, |args| {
            joined(args, |items| printed(&format!("[{}]", items.join(","))))
        }),
        json("json_of_pairs", ColumnType::Json, |args| joined(args, |items| Ok(format!("{{ {} }}", items.join(", "))))),
        json("jsonb_of_pairs", ColumnType::Jsonb, |args| {
            joined(args, |items| printed(&format!("{{{}}}", items.join(","))))
        }),
        ListFunction::new(ELEMENTS_OF_LIST, 1, |name, _| Ok(texts(name)), elements_of_list).stable(),
        ListFunction::new(
            ELEMENTS,
            1,
            |name, fields| Ok(field_of(ColumnType::list(own_type(&fields[0])), name, true)),
            |args| parts(args, "array", |part| Ok(some(part.text))),
        ),
        ListFunction::new(
            ELEMENT_TEXTS,
            1,
            |name, _| Ok(texts(name)),
            |args| parts(args, "array", |part| as_text(part.text)),
        ),
        ListFunction::new(
            KEYS,
            1,
            |name, _| Ok(texts(name)),
            |args| parts(args, "object", |part| Ok(part.key.clone())),
        ),
        ListFunction::new(
            MEMBERS,
            1,
            |name, fields| Ok(rows_of(name, own_type(&fields[0]))),
            |args| rows(args, own_type(&args.arg_fields[0]), |part| Ok(some(part))),
        ),
        ListFunction::new(
            MEMBER_TEXTS,
            1,
            |name, _| Ok(rows_of(name, ColumnType::Text)),
            |args| rows(args, ColumnType::Text, as_text),
        ),
    ]
}

fn some(part: &str) -> Option<String> {
    Some(part.to_owned())
}

fn as_text(part: &str) -> keyspan_model::Result<Option<String>> {
    Ok(match plain(Some(part))? {
        Value::Text(text) => Some(text),
        _ => None,
    })
}

fn printed(text: &str) -> keyspan_model::Result<String> {
    Json::parse(text).map(|value| value.to_string())
}

/// The first one begins no line of its own.
fn spaced<'a>(items: &[&'a str]) -> Vec<&'a str> {
    let line = |(place, item): (usize, &&'a str)| if place == 0 { item.trim_start() } else { item };
    items.iter().enumerate().map(line).collect()
}

/// Each list of texts as one text; no list stays null.
fn joined(args: &ScalarFunctionArgs, join: fn(&[&str]) -> keyspan_model::Result<String>) -> Result<ColumnarValue> {
    let array = args.args[0].to_array(args.number_rows)?;
    let lists = lists(&array)?;
    let mut builder = StringViewBuilder::with_capacity(lists.len());
    for row in 0..lists.len() {
        if lists.is_null(row) {
            builder.append_null();
            continue;
        }
        let items = arrow::compute::cast(&lists.value(row), &DataType::Utf8View)?;
        let items: Vec<&str> = items.as_string_view().iter().map(|item| item.unwrap_or("null")).collect();
        builder.append_value(join(&items).map_err(external)?);
    }
    Ok(ColumnarValue::Array(Arc::new(builder.finish())))
}

fn of_values(args: &ScalarFunctionArgs, before: &str) -> Result<ColumnarValue> {
    values_as(args, before, Form::Postgres(zone_of(&args.config_options)?))
}

fn values_as(args: &ScalarFunctionArgs, before: &str, form: Form) -> Result<ColumnarValue> {
    let array = args.args[0].to_array(args.number_rows)?;
    let mut builder = StringViewBuilder::with_capacity(array.len());
    for row in 0..array.len() {
        match array.is_null(row) {
            true => builder.append_null(),
            false => builder.append_value(format!("{before}{}", value_text(&args.arg_fields[0], &array, row, form)?)),
        }
    }
    Ok(ColumnarValue::Array(Arc::new(builder.finish())))
}

fn elements_of_list(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let array = args.args[0].to_array(args.number_rows)?;
    let zone = zone_of(&args.config_options)?;
    let lists = lists(&array)?;
    let field = match lists.data_type() {
        DataType::List(item) => item_field(&args.arg_fields[0], item),
        other => return Err(external(Error::internal(format!("a list of type {other}")))),
    };
    let (mut texts, mut lengths) = (StringViewBuilder::new(), Vec::with_capacity(lists.len()));
    for row in 0..lists.len() {
        let items = if lists.is_null(row) { new_empty_array(field.data_type()) } else { lists.value(row) };
        lengths.push(items.len());
        for place in 0..items.len() {
            texts.append_value(value_text(&field, &items, place, Form::Postgres(zone))?);
        }
    }
    let item = Arc::new(Field::new_list_field(DataType::Utf8View, true));
    list(item, lengths, Arc::new(texts.finish()), lists.nulls().cloned())
}

/// The field of a list's items, with the type that the list says they have.
fn item_field(list: &Field, item: &FieldRef) -> FieldRef {
    let ty = ColumnType::of_field(list).and_then(|list| list.element());
    ty.map_or_else(|| Arc::clone(item), |ty| Arc::new(ty.field(item.name(), true)))
}

/// Whose forms scalars have as JSON.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    /// PostgreSQL's, instants in this zone.
    Postgres(Zone),
    /// Those that Cassandra documents.
    Cassandra,
}

/// A value as JSON writes it.
pub fn value_text(field: &Field, array: &ArrayRef, row: usize, form: Form) -> Result<String> {
    if array.is_null(row) {
        return Ok("null".into());
    }
    match field.data_type() {
        DataType::List(item) => {
            let items = array.as_list::<i32>().value(row);
            let item = item_field(field, item);
            let each = (0..items.len()).map(|place| value_text(&item, &items, place, form));
            Ok(format!("[{}]", each.collect::<Result<Vec<_>>>()?.join(",")))
        }
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(array.as_struct().columns());
            let each = columns.map(|(field, column)| {
                Ok(format!("{}:{}", quoted(field.name()), value_text(field, column, row, form)?))
            });
            Ok(format!("{{{}}}", each.collect::<Result<Vec<_>>>()?.join(",")))
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let (keys, values) = (entries.column(0), entries.column(1));
            let key = |place| -> Result<String> {
                let ty = ColumnType::of_field(&entries.fields()[0]).unwrap_or(ColumnType::Text);
                let key = value_at(keys.as_ref(), place, ty).map_err(external)?;
                Ok(quoted(&if form == Form::Cassandra { cql_key(&key, ty) } else { key.to_text(ty) }))
            };
            let field = &entries.fields()[1];
            let each = (0..entries.len())
                .map(|place| Ok(format!("{}: {}", key(place)?, value_text(field, values, place, form)?)));
            Ok(format!("{{{}}}", each.collect::<Result<Vec<_>>>()?.join(", ")))
        }
        DataType::Null => Ok("null".to_owned()),
        data_type => {
            let Some(ty) = ColumnType::of_field(field) else {
                return Err(external(Error::not_supported(format!("{data_type} as JSON is not supported"))));
            };
            let value = value_at(array.as_ref(), row, ty).map_err(external)?;
            Ok(match form {
                Form::Postgres(zone) => of(&value, ty, zone),
                Form::Cassandra => cql_json(&value, ty),
            })
        }
    }
}

/// The texts of each row, as far as they are there.
fn documents(args: &ScalarFunctionArgs) -> Result<StringViewArray> {
    let array = args.args[0].to_array(args.number_rows)?;
    Ok(arrow::compute::cast(&array, &DataType::Utf8View)?.as_string_view().clone())
}

/// The members of a value of this kind; 22023 for another.
fn members_of<'a>(text: &'a str, wanted: &str) -> Result<Vec<keyspan_model::json::Member<'a>>> {
    let message = match (wanted, kind(text)) {
        (wanted, found) if wanted == found => return Ok(members(text)),
        ("array", "object") => "cannot extract elements from an object",
        ("array", _) => "cannot extract elements from a scalar",
        (_, "array") => "cannot take members of an array",
        _ => "cannot take members of a scalar",
    };
    Err(external(invalid(message)))
}

type Part<'a> = keyspan_model::json::Member<'a>;

fn parts(
    args: &ScalarFunctionArgs,
    wanted: &str,
    part: fn(&Part<'_>) -> keyspan_model::Result<Option<String>>,
) -> Result<ColumnarValue> {
    let documents = documents(args)?;
    let (mut items, mut lengths) = (StringViewBuilder::new(), Vec::with_capacity(documents.len()));
    for document in documents.iter() {
        let found = document.map_or(Ok(Vec::new()), |text| members_of(text, wanted))?;
        lengths.push(found.len());
        for each in &found {
            items.append_option(part(each).map_err(external)?);
        }
    }
    let item = Arc::new(Field::new_list_field(DataType::Utf8View, true));
    list(item, lengths, Arc::new(items.finish()), documents.nulls().cloned())
}

fn list(item: FieldRef, lengths: Vec<usize>, items: ArrayRef, nulls: Option<NullBuffer>) -> Result<ColumnarValue> {
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(ColumnarValue::Array(Arc::new(ListArray::try_new(item, offsets, items, nulls)?)))
}

/// `json` or `jsonb`, as the argument is.
fn own_type(argument: &Field) -> ColumnType {
    ColumnType::of_field(argument).unwrap_or(ColumnType::Jsonb)
}

fn row_fields(value: ColumnType) -> Fields {
    Fields::from(vec![Field::new("key", DataType::Utf8View, true), field_of(value, "value", true)])
}

fn rows_of(name: &'static str, value: ColumnType) -> Field {
    Field::new(name, DataType::new_list(DataType::Struct(row_fields(value)), true), true)
}

fn rows(
    args: &ScalarFunctionArgs,
    value: ColumnType,
    part: fn(&str) -> keyspan_model::Result<Option<String>>,
) -> Result<ColumnarValue> {
    let documents = documents(args)?;
    let (mut keys, mut values) = (StringViewBuilder::new(), StringViewBuilder::new());
    let mut lengths = Vec::with_capacity(documents.len());
    for document in documents.iter() {
        let found = document.map_or(Ok(Vec::new()), |text| members_of(text, "object"))?;
        lengths.push(found.len());
        for each in found {
            values.append_option(part(each.text).map_err(external)?);
            keys.append_option(each.key);
        }
    }
    let fields = row_fields(value);
    let item = Arc::new(Field::new_list_field(DataType::Struct(fields.clone()), true));
    let rows = StructArray::try_new(fields, vec![Arc::new(keys.finish()), Arc::new(values.finish())], None)?;
    list(item, lengths, Arc::new(rows), documents.nulls().cloned())
}
