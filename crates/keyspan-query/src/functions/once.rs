//! `coalesce` and `nullif` of volatile arguments, which are computed once: DataFusion makes a CASE of each, and that
//! computes an argument where it is tested and where it is given.

use std::cmp::Ordering;

use keyspan_model::{ColumnType, Value};

use super::extreme::compared;
use super::overload::{Overload, Parameter};

/// `coalesce` of values of one type.
pub const COALESCE_OF: &str = "coalesce_of";
/// `nullif`, likewise.
pub const NULLIF_OF: &str = "nullif_of";

/// The functions.
pub fn functions() -> Vec<Overload> {
    let of = |name, code| {
        let overload = Overload::new(name, &[Parameter::Any], ColumnType::Text, code);
        overload.returning(|types| types[0]).variadic().with_nulls()
    };
    vec![
        of(COALESCE_OF, |_, values| Ok(values.iter().find(|value| !value.is_null()).cloned().unwrap_or(Value::Null))),
        of(NULLIF_OF, |call, values| {
            let [value, other] = values else { return Ok(Value::Null) };
            let same = !value.is_null() && !other.is_null() && compared(call.result, value, other)? == Ordering::Equal;
            Ok(if same { Value::Null } else { value.clone() })
        }),
    ]
}
