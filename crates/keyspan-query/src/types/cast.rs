//! Casts of values: which exist, which Arrow does exactly as PostgreSQL does, and what they give.

use keyspan_model::json::{Json, quoted};
use keyspan_model::text::array::{array_text, elements};
use keyspan_model::types::DECIMAL_DIGITS;
use keyspan_model::value_json::{JsonForm, json_of_value, nested_text};
use keyspan_model::{ColumnType, Error, ErrorKind, Nested, Result, Value, timestamp_text};

use super::common_type::{decimal, scale_of};
use super::type_name;
use super::zone::Zone;

/// A type as a cast names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The type.
    pub ty: ColumnType,
    /// `varchar(n)`: longer texts are cut, as Postgres does in explicit casts.
    pub max_length: Option<u32>,
    /// `char(n)`: blanks at the end say nothing.
    pub trims: bool,
    /// `numeric` without digits: keeps the scale of what is cast.
    pub any_scale: bool,
    /// `time(n)`, `timestamp(n)`, `interval(n)`: seconds are rounded to so many digits after the point.
    pub second_digits: Option<u8>,
}

impl Target {
    /// The type itself.
    pub fn of(ty: ColumnType) -> Target {
        Target { ty, max_length: None, trims: false, any_scale: false, second_digits: None }
    }

    /// Whether Arrow's cast from this type is exact and cannot fail.
    pub fn is_native_from(self, from: ColumnType) -> bool {
        is_native(from, self.ty) && !self.changes_values()
    }

    /// Whether a cast changes values that have the type already.
    pub fn changes_values(self) -> bool {
        self.max_length.is_some() || self.trims || self.second_digits.is_some()
    }

    /// The type of this name, as it stands in a cast.
    pub fn parse(name: &str) -> Result<Target> {
        if let Some(code) =
            name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).filter(|name| name.starts_with('{'))
        {
            let ty = ColumnType::parse_code(&code.replace("\"\"", "\""));
            return ty.map(Target::of).ok_or_else(|| Error::internal(format!("{name} is no type")));
        }
        if name.trim_matches('"').eq_ignore_ascii_case("variant") {
            return Ok(Target::of(ColumnType::variant()));
        }
        // Drivers quote the parts: `"pg_catalog"."int4"`.
        let lower = name.to_lowercase().replace('"', "").replace("pg_catalog.", "");
        let (base, arguments) = match (lower.find('('), lower.find(')')) {
            (Some(open), Some(close)) if open < close => {
                let arguments: Vec<i64> =
                    lower[open + 1..close].split(',').filter_map(|a| a.trim().parse().ok()).collect();
                (format!("{}{}", &lower[..open], &lower[close + 1..]), arguments)
            }
            _ => (lower.to_owned(), Vec::new()),
        };
        let base = base.split_whitespace().collect::<Vec<_>>().join(" ");
        if let "regclass" | "regtype" | "regproc" | "regprocedure" | "regnamespace" | "regrole" | "cstring" | "xid" =
            base.as_str()
        {
            return Ok(Target::of(ColumnType::Text));
        }
        // In a cast, too, plain `timestamp` is the instant: it is the language's own type of that name.
        let ty = ColumnType::parse(&base, &arguments)?;
        let element = ty.element().unwrap_or(ty);
        let is_text = element == ColumnType::Text;
        let one = matches!(base.as_str(), "char" | "character") && arguments.is_empty();
        let length = arguments.first().copied().or(one.then_some(1)).and_then(|n| u32::try_from(n).ok());
        let decimal = matches!(element, ColumnType::Decimal { .. });
        let of_time = matches!(
            element,
            ColumnType::Time | ColumnType::Timestamp | ColumnType::LocalTimestamp | ColumnType::Duration
        );
        let digits = arguments.first().filter(|_| of_time).map(|digits| (*digits).clamp(0, 6) as u8);
        Ok(Target {
            ty,
            max_length: length.filter(|_| is_text),
            trims: is_text && matches!(base.trim_end_matches("[]"), "char" | "character" | "bpchar"),
            any_scale: decimal && arguments.is_empty(),
            second_digits: digits.filter(|digits| *digits < 6),
        })
    }
}

/// Whether the session's zone decides the result.
pub fn needs_zone(from: ColumnType, to: ColumnType) -> bool {
    let instants = |ty: ColumnType| ty.holds(&|part| part == ColumnType::Timestamp);
    from != to && (instants(from) || instants(to))
}

fn width(ty: ColumnType) -> Option<u8> {
    Some(match ty {
        ColumnType::TinyInt => 1,
        ColumnType::SmallInt => 2,
        ColumnType::Int => 4,
        ColumnType::BigInt => 8,
        _ => return None,
    })
}

/// Whether Arrow's cast is exact and cannot fail.
fn is_native(from: ColumnType, to: ColumnType) -> bool {
    if let (Some(from), Some(to)) = (width(from), width(to)) {
        return from <= to;
    }
    match (from, to) {
        (from, ColumnType::Decimal { precision, scale }) if width(from).is_some() => {
            precision - scale.unsigned_abs() >= 19
        }
        (ColumnType::Decimal { precision: p, scale: s }, ColumnType::Decimal { precision, scale }) => {
            scale >= s && precision - scale.unsigned_abs() >= p - s.unsigned_abs()
        }
        (from, ColumnType::Double) => width(from).is_some() || from == ColumnType::Real,
        (ColumnType::Ascii, ColumnType::Text) | (ColumnType::TimeUuid, ColumnType::Uuid) => true,
        // A set of scalars is an array in Arrow.
        (set @ ColumnType::Nested(_), list @ ColumnType::List(_)) => set.as_array() == list,
        _ => false,
    }
}

/// Whether Postgres has a cast between the types, written out.
pub fn exists(from: ColumnType, to: ColumnType) -> bool {
    use ColumnType as C;
    if let (C::List(from), C::List(to)) = (from, to) {
        return exists(from.get(), to.get());
    }
    if from.as_nested().is_some() || to.as_nested().is_some() {
        return exists_nested(from, to);
    }
    let texts = |ty| matches!(ty, C::Text | C::Ascii);
    let numbers = |ty| width(ty).is_some() || matches!(ty, C::VarInt | C::Decimal { .. } | C::Real | C::Double);
    let instants = |ty| matches!(ty, C::Date | C::Timestamp | C::LocalTimestamp);
    from == to
        || texts(from)
        || texts(to)
        || (numbers(from) && numbers(to))
        || (instants(from) && instants(to))
        || matches!(
            (from, to),
            (C::Boolean, C::Int)
                | (C::Int, C::Boolean)
                | (C::Timestamp | C::LocalTimestamp, C::Time)
                | (C::Time, C::Duration)
                | (C::Duration, C::Time)
                | (C::Uuid, C::TimeUuid)
                | (C::TimeUuid, C::Uuid)
                | (C::Json | C::Jsonb, C::Json | C::Jsonb | C::Boolean)
        )
        || (matches!(from, C::Json | C::Jsonb) && numbers(to))
}

/// Casts of nested values: to text and JSON and from them, and to a type whose parts theirs can be cast to.
fn exists_nested(from: ColumnType, to: ColumnType) -> bool {
    use ColumnType as C;
    let written = |ty| matches!(ty, C::Text | C::Ascii | C::Json | C::Jsonb);
    if from.is_variant() || to.is_variant() {
        return from.is_scalar() || to.is_scalar() || from == to;
    }
    if written(from) || written(to) {
        return true;
    }
    let list = |ty: C| match (ty, ty.as_nested()) {
        (C::List(element), _) => Some(element.get()),
        (_, Some(Nested::List(element) | Nested::Set(element))) => Some(*element),
        (_, Some(Nested::Vector(_))) => Some(C::Real),
        _ => None,
    };
    if let (Some(from), Some(to)) = (list(from), list(to)) {
        return exists(from, to);
    }
    let (Some(from), Some(to)) = (from.as_nested(), to.as_nested()) else { return false };
    let each = |from: &[C], to: &[C]| from.iter().zip(to).all(|(from, to)| exists(*from, *to));
    match (from, to) {
        (Nested::Map(..), Nested::Map(..)) => each(&from.parts(), &to.parts()),
        _ => match (from.fields(), to.fields()) {
            (Some(from), Some(to)) => from.len() <= to.len() && each(&from, &to),
            _ => false,
        },
    }
}

/// The value of one type cast to another; `zone` is the session's.
pub fn cast_value(value: Value, from: ColumnType, to: ColumnType, zone: Zone) -> Result<Value> {
    cast_to_target(value, from, Target::of(to), zone)
}

/// As [`cast_value`], to a type with a length or digits.
pub fn cast_to_target(value: Value, from: ColumnType, target: Target, zone: Zone) -> Result<Value> {
    use ColumnType as C;
    let to = target.ty;
    let east = |micros: i64| i64::from(zone.offset_at(micros)) * 1_000_000;
    let east_of_local = |micros: i64| i64::from(zone.offset_at_local(micros)) * 1_000_000;
    let cast = match (value, to) {
        (Value::Null, _) => return Ok(Value::Null),
        (Value::Variant(held), to) if to.is_scalar() && !matches!(to, C::Json | C::Jsonb) => {
            let ty = held.natural_type().unwrap_or(C::Text);
            return cast_to_target(*held, ty, target, zone);
        }
        (Value::List(elements), C::List(to)) => {
            let (from, target) = (from.element().unwrap_or(to.get()), Target { ty: to.get(), ..target });
            let cast = elements.into_iter().map(|element| cast_to_target(element, from, target, zone));
            return cast.collect::<Result<_>>().map(Value::List);
        }
        (Value::Boolean(value), C::Int) => Value::Int(i32::from(value)),
        (Value::Int(value), C::Boolean) => Value::Boolean(value != 0),
        (value, C::Text | C::Ascii) => Value::Text(text_of(&value, from, zone)).cast(to)?,
        (value, C::Json | C::Jsonb) if from.as_nested().is_some() => {
            Value::Text(json_of(&value, from, zone)).cast(to)?
        }
        (value, C::Json | C::Jsonb) => value.cast(to)?,
        (Value::Text(text), _) if matches!(from, C::Json | C::Jsonb) && !to.is_scalar() => {
            Value::of_json(&text, to, &resolver(zone))?
        }
        (Value::Text(text), _) if matches!(from, C::Json | C::Jsonb) => json_scalar(&text, to)?,
        (Value::Text(text), C::Nested(_)) => Value::parse_zoned(&text, to, &resolver(zone))?,
        (value, C::Nested(_)) => nested_cast(value, from, to, zone)?,
        (value, C::Timestamp | C::LocalTimestamp | C::Date | C::Time) if value.infinity().is_some() => {
            value.cast(to)?
        }
        (Value::Text(text), C::Timestamp | C::List(_)) => Value::parse_zoned(&text, to, &resolver(zone))?,
        (Value::Timestamp(at), C::LocalTimestamp) if from == C::Timestamp => Value::Timestamp(at + east(at)),
        (Value::Timestamp(at), C::Timestamp) if from == C::LocalTimestamp => Value::Timestamp(at - east_of_local(at)),
        (Value::Timestamp(at), C::Date | C::Time) if from == C::Timestamp => {
            Value::Timestamp(at + east(at)).cast(to)?
        }
        (value @ Value::Date(_), C::Timestamp) => match value.cast(C::LocalTimestamp)? {
            Value::Timestamp(at) => Value::Timestamp(at - east_of_local(at)),
            other => other,
        },
        (value, to) => value.cast(to)?,
    };
    Ok(cut(cast, target))
}

/// Part by part, as a cast of each is done.
fn nested_cast(value: Value, from: ColumnType, to: ColumnType, zone: Zone) -> Result<Value> {
    let one = |value, from, to| cast_value(value, from, to, zone);
    let Some(wanted) = to.as_nested() else { return value.cast(to) };
    match (value, wanted) {
        (Value::List(elements), Nested::List(element) | Nested::Set(element)) => {
            let own = from.element().or_else(|| from.as_nested().and_then(|own| own.parts().first().copied()));
            let own = own.unwrap_or(*element);
            let cast = elements.into_iter().map(|value| one(value, own, *element)).collect::<Result<_>>()?;
            Value::List(cast).cast(to)
        }
        (Value::List(elements), Nested::Vector(_)) => {
            let own = from.element().unwrap_or(ColumnType::Real);
            let cast = elements.into_iter().map(|value| one(value, own, ColumnType::Real)).collect::<Result<_>>()?;
            Value::List(cast).cast(to)
        }
        (Value::Map(entries), Nested::Map(key, value)) => {
            let own = from.as_nested().map(Nested::parts).unwrap_or_default();
            let [from_key, from_value] = own[..] else { return Value::Map(entries).cast(to) };
            let cast = entries.into_iter().map(|(k, v)| Ok((one(k, from_key, *key)?, one(v, from_value, *value)?)));
            Value::map(cast.collect::<Result<_>>()?, *key)
        }
        (Value::Tuple(fields), wanted) => {
            let own = from.as_nested().map(Nested::parts).unwrap_or_default();
            let types = own.into_iter().zip(wanted.parts());
            let cast = fields.into_iter().zip(types).map(|(field, (from, to))| one(field, from, to));
            Value::Tuple(cast.collect::<Result<_>>()?).cast(to)
        }
        (value, _) => value.cast(to),
    }
}

/// Reads instants without a zone in this one.
pub fn resolver(zone: Zone) -> impl Fn(Option<&str>, i64) -> Result<i32> {
    move |name, local| match name {
        Some(name) => Ok(Zone::named(name)?.offset_at_local(local)),
        None => Ok(zone.offset_at_local(local)),
    }
}

/// A value as JSON: numbers and booleans as such, instants in ISO 8601, the rest as its text.
pub fn json_of(value: &Value, ty: ColumnType, zone: Zone) -> String {
    let (json, key) = (|value: &Value, ty| scalar_json(value, ty, zone), |key: &Value, ty| text_of(key, ty, zone));
    json_of_value(value, ty, &JsonForm { json: &json, key: &key, spaced: false })
}

fn scalar_json(value: &Value, ty: ColumnType, zone: Zone) -> String {
    match value {
        Value::Boolean(value) => value.to_string(),
        Value::TinyInt(_) | Value::SmallInt(_) | Value::Int(_) | Value::BigInt(_) | Value::Decimal(..) => {
            text_of(value, ty, zone)
        }
        Value::Real(number) if number.is_finite() => text_of(value, ty, zone),
        Value::Double(number) if number.is_finite() => text_of(value, ty, zone),
        Value::Text(text) if matches!(ty, ColumnType::Json | ColumnType::Jsonb) => text.clone(),
        Value::Timestamp(_) => {
            let text = text_of(value, ty, zone).replacen(' ', "T", 1);
            let short = ty == ColumnType::Timestamp && text.rfind(['+', '-']).is_some_and(|at| text.len() - at == 3);
            quoted(&if short { text + ":00" } else { text })
        }
        value => quoted(&text_of(value, ty, zone)),
    }
}

/// The text of a value as a cast to text gives it.
pub fn text_of(value: &Value, ty: ColumnType, zone: Zone) -> String {
    match value {
        Value::Variant(held) => text_of(held, held.natural_type().unwrap_or(ColumnType::Text), zone),
        value if (ty.is_packed() || ty.dimension().is_some()) && !value.is_null() => {
            nested_text(value, ty, &|at| timestamp_text(at, zone.offset_at(at)))
        }
        Value::Boolean(value) => value.to_string(),
        Value::Timestamp(micros) if ty == ColumnType::Timestamp => timestamp_text(*micros, zone.offset_at(*micros)),
        Value::List(elements) => array_text(elements.iter().map(|element| element_text(element, ty, zone))),
        value => value.to_text(ty),
    }
}

/// The text of a list's element within the list's text; none for NULL.
fn element_text(element: &Value, list: ColumnType, zone: Zone) -> Option<String> {
    let ty = list.element().unwrap_or(list);
    (!element.is_null()).then(|| output_text(element, ty, zone))
}

/// The text of a value within another one's: as a cast to text gives it, but of booleans the letter.
pub fn output_text(value: &Value, ty: ColumnType, zone: Zone) -> String {
    match value {
        Value::Boolean(_) => value.to_text(ty),
        value => text_of(value, ty, zone),
    }
}

fn json_scalar(text: &str, to: ColumnType) -> Result<Value> {
    let error = |kind: &str| {
        let message = format!("cannot cast jsonb {kind} to type {}", type_name(to));
        Error::new(ErrorKind::InvalidParameter, message)
    };
    Ok(match (Json::parse(text)?, to) {
        (Json::Boolean(value), ColumnType::Boolean) => Value::Boolean(value),
        (Json::Number(text), to) if to != ColumnType::Boolean => match numeric_literal(&text) {
            Some((value, _)) => value.cast(to)?,
            None => Value::parse(&text, to)?,
        },
        (Json::Null, _) => return Err(error("null")),
        (Json::Text(_), _) => return Err(error("string")),
        (Json::Array(_), _) => return Err(error("array")),
        (Json::Object(_), _) => return Err(error("object")),
        (Json::Boolean(_), _) => return Err(error("boolean")),
        (Json::Number(_), _) => return Err(error("numeric")),
    })
}

/// A text cut to the length that a cast names, a time rounded to its digits.
pub fn cut(value: Value, target: Target) -> Value {
    match (value, target.max_length) {
        (Value::Text(mut text), length) if target.trims => {
            let end = length.and_then(|length| text.char_indices().nth(length as usize)).map(|(end, _)| end);
            text.truncate(end.unwrap_or(text.len()));
            text.truncate(text.trim_end_matches(' ').len());
            Value::Text(text)
        }
        (Value::List(elements), None) if target.trims => {
            Value::List(elements.into_iter().map(|element| cut(element, target)).collect())
        }
        (Value::List(elements), None) if target.second_digits.is_some() => {
            Value::List(elements.into_iter().map(|element| cut(element, target)).collect())
        }
        (value, None) => match target.second_digits {
            Some(digits) => value.with_second_digits(u32::from(digits)),
            None => value,
        },
        (Value::Text(text), Some(length)) if text.len() > length as usize => {
            Value::Text(text.chars().take(length as usize).collect())
        }
        (Value::List(elements), Some(_)) => {
            Value::List(elements.into_iter().map(|element| cut(element, target)).collect())
        }
        (value, _) => value,
    }
}

/// The values of an array's text as numerics, with as many digits after the point as the longest of them.
pub fn numeric_list(text: &str) -> Option<(Value, ColumnType)> {
    let elements = elements(text).ok()?;
    let numbers = elements.iter().map(|element| match element {
        Some(text) => numeric_literal(text).map(Some),
        None => Some(None),
    });
    let numbers = numbers.collect::<Option<Vec<_>>>()?;
    let scale = numbers.iter().flatten().map(|(_, ty)| scale_of(*ty)).max().unwrap_or(0);
    let values = numbers.into_iter().map(|number| match number {
        Some((value, _)) => value.cast(decimal(scale)).ok(),
        None => Some(Value::Null),
    });
    Some((Value::List(values.collect::<Option<_>>()?), ColumnType::list(decimal(scale))))
}

/// A number with as many digits after the point as are written, if it fits; `1e3` too.
pub fn numeric_literal(text: &str) -> Option<(Value, ColumnType)> {
    let text = text.trim().replace('_', "");
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], text[at + 1..].parse::<i32>().ok()?),
        None => (text.as_str(), 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let mut value: i128 = digits.parse().ok()?;
    let mut scale = i32::try_from(fraction.len()).ok()? - exponent;
    while scale < 0 {
        value = value.checked_mul(10)?;
        scale += 1;
    }
    let fits = value.unsigned_abs() < 10_u128.pow(38) && scale <= 37;
    let scale = i8::try_from(scale).ok()?;
    fits.then_some((Value::Decimal(value, scale), ColumnType::Decimal { precision: DECIMAL_DIGITS, scale }))
}
