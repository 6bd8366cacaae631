//! Functions and operators of JSON.
//!
//! A value of `json` or `jsonb` is its text. `read` takes parts out of a text as they are written, which for `jsonb` are
//! in its form again, so one code serves both types. What changes a value (`change`) goes through the tree
//! [`keyspan_model::json::Json`]. `build` makes JSON of other values, `lists` takes arrays and gives
//! them, `path` evaluates SQL/JSON paths.

mod build;
mod change;
mod lists;
mod path;
mod read;

use keyspan_model::json::Json;
use keyspan_model::text::array;
use keyspan_model::{ColumnType, Error, ErrorKind, Result, Value};

use super::list::ListFunction;
use super::overload::{Overload, Parameter};
use super::text::text;

pub use crate::types::cast::json_of;
pub use lists::{
    ELEMENT_TEXTS, ELEMENTS, ELEMENTS_OF_LIST, Form, KEYS, MEMBER_TEXTS, MEMBERS, OF_ITEM, OF_VALUE, OF_VALUE_CQL,
    value_text,
};

/// A value as JSON in Cassandra's forms.
pub const TO_CQL_JSON: &str = "tojson";
/// A value as `json_agg` collects it.
pub const ELEMENT: &str = "json_element";

const J: Parameter = Parameter::Is(ColumnType::Json);
const B: Parameter = Parameter::Is(ColumnType::Jsonb);
const T: Parameter = Parameter::Is(ColumnType::Text);
const I: Parameter = Parameter::Is(ColumnType::Int);

/// The functions of single values.
pub fn functions() -> Vec<Overload> {
    [read::functions(), change::functions(), build::functions(), path::functions()].concat()
}

/// The functions over lists.
pub fn over_lists() -> Vec<ListFunction> {
    lists::functions()
}

/// Whether a function takes values of any type as JSON, lists and rows too.
pub fn takes_any(name: &str) -> bool {
    matches!(name, "to_json" | "to_jsonb" | "row_to_json" | "array_to_json" | TO_CQL_JSON | ELEMENT | "json_pair")
        || matches!(name, "json_build_object" | "json_build_array" | "jsonb_build_object" | "jsonb_build_array")
}

/// Whether a function's second argument is a path, the text of an array.
pub fn takes_path(name: &str) -> bool {
    matches!(name, "jsonb_set" | "jsonb_insert" | "jsonb_set_lax")
}

/// A value of `jsonb` by its parts.
pub fn tree(value: &Value) -> Result<Json> {
    Json::parse(text(value)?)
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidParameter, message)
}

/// The steps of a path, or names: the elements of an array's text, `{a,0,"b c"}`.
fn steps(value: &Value) -> Result<Vec<Option<String>>> {
    array::elements(text(value)?)
}

/// The place of a subscript in an array of so many elements; negative ones count from the end.
fn place(index: i64, length: usize) -> Option<usize> {
    let place = if index < 0 { i64::try_from(length).ok()? + index } else { index };
    usize::try_from(place).ok().filter(|place| *place < length)
}
