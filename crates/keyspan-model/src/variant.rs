//! Values as variants, which keep a type of their own.
//!
//! In JSON a whole number is a bigint and any other a double; the other types come from values that have them.

use crate::error::{Error, ErrorKind, Result};
use crate::types::ColumnType;
use crate::value::Value;

impl Value {
    /// The value as a variant: of its own type, a smallint as an int, a number with digits after the point as a double.
    ///
    /// # Errors
    /// 42804 for other types.
    pub fn into_variant(self) -> Result<Value> {
        let held = match self {
            Value::Null | Value::Variant(_) => return Ok(self),
            Value::SmallInt(value) => Value::Int(i32::from(value)),
            Value::Decimal(digits, 0) if i64::try_from(digits).is_ok() => Value::BigInt(digits as i64),
            Value::Decimal(..) => self.cast(ColumnType::Double)?,
            value => value.canonical(),
        };
        if held.variant_tag().is_none() {
            let ty = held.natural_type().map_or_else(|| "null".to_owned(), ColumnType::postgres_name);
            let message = format!("a variant cannot hold a value of type {ty}");
            let hint = "It holds text, boolean, tinyint, int, bigint, real, double and blob. Cast the value.";
            return Err(Error::new(ErrorKind::DatatypeMismatch, message).with_hint(hint));
        }
        Ok(Value::Variant(Box::new(held)))
    }

    /// The value that a variant holds, and its type.
    pub fn held(&self) -> Option<(&Value, ColumnType)> {
        match self {
            Value::Variant(held) => held.variant_tag().map(|(_, ty)| (&**held, ty)),
            _ => None,
        }
    }

    /// A number of a JSON text as a variant has it.
    pub(crate) fn variant_of_number(text: &str) -> Result<Value> {
        let whole = text.parse::<i64>().map(Value::BigInt);
        whole.or_else(|_| Value::parse(text, ColumnType::Double))?.into_variant()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::{array_of, value_at};
    use crate::{value_of_order, value_order};

    fn values() -> Vec<Value> {
        let held = [
            Value::Text(String::new()),
            Value::Text("a".into()),
            Value::Text("b".into()),
            Value::Boolean(false),
            Value::Boolean(true),
            Value::TinyInt(-3),
            Value::Int(-7),
            Value::Int(5),
            Value::BigInt(-9),
            Value::BigInt(i64::MAX),
            Value::Real(-0.5),
            Value::Real(2.5),
            Value::Double(-1e300),
            Value::Double(0.1),
            Value::Blob(vec![]),
            Value::Blob(vec![0, 255]),
        ];
        held.into_iter().map(|value| value.into_variant().expect("a variant")).collect()
    }

    #[test]
    fn values_keep_their_type_and_sort_by_it() {
        let ty = ColumnType::variant();
        let values = values();
        let array = array_of(ty, &values).expect("an array");
        for (row, value) in values.iter().enumerate() {
            assert_eq!(&value_at(&array, row, ty).expect("a value"), value);
            assert_eq!(value_of_order(&value_order(value, ty), ty).as_ref(), Some(value));
        }
        for pair in values.windows(2) {
            assert!(Value::compare_as(ty, &pair[0], &pair[1]).is_lt(), "{pair:?}");
            assert!(value_order(&pair[0], ty) < value_order(&pair[1], ty), "{pair:?}");
        }
    }

    #[test]
    fn json_tells_texts_numbers_and_booleans() {
        let ty = ColumnType::variant();
        let of = |json: &str| Value::of_json(json, ty, &|_, _| Ok(0));
        for (json, held) in [
            ("\"a b\"", Value::Text("a b".into())),
            ("true", Value::Boolean(true)),
            ("-7", Value::BigInt(-7)),
            ("1.5", Value::Double(1.5)),
            ("9223372036854775808", Value::Double(9_223_372_036_854_775_808.0)),
        ] {
            assert_eq!(of(json).expect(json), Value::Variant(Box::new(held)));
        }
        assert_eq!(of("[1]").expect_err("an array").sqlstate(), "22P02");
        assert_eq!(of("null").expect("null"), Value::Null);
        let code = ty.code();
        assert_eq!(ColumnType::parse_code(&code), Some(ty));
        let json = serde_json::to_string(&ty).expect("JSON");
        assert_eq!(serde_json::from_str::<ColumnType>(&json).expect("a type"), ty);
        assert_eq!(Value::Uuid(uuid::Uuid::nil()).into_variant().expect_err("no uuid").sqlstate(), "42804");
        assert_eq!(Value::Variant(Box::new(Value::Int(7))).cast(ColumnType::BigInt).expect("a cast"), Value::BigInt(7));
    }
}
