//! The common type of several expressions: of CASE's branches, of COALESCE's arguments; of two sides of a comparison.

use keyspan_model::types::DECIMAL_DIGITS;
use keyspan_model::{ColumnType, Nested};

use super::Ty;
use super::cast::exists;

/// The place of a number type in Postgres' order of preference; `None` for what is no number.
pub fn number_rank(ty: ColumnType) -> Option<u8> {
    Some(match ty {
        ColumnType::TinyInt => 1,
        ColumnType::SmallInt => 2,
        ColumnType::Int => 3,
        ColumnType::BigInt => 4,
        ColumnType::VarInt => 5,
        ColumnType::Decimal { .. } => 6,
        ColumnType::Real => 7,
        ColumnType::Double => 8,
        _ => return None,
    })
}

/// Digits after the point that a number of this type has.
pub fn scale_of(ty: ColumnType) -> i8 {
    match ty {
        ColumnType::Decimal { scale, .. } => scale,
        _ => 0,
    }
}

/// A decimal of as many digits as there are.
pub fn decimal(scale: i8) -> ColumnType {
    ColumnType::Decimal { precision: DECIMAL_DIGITS, scale }
}

/// The type as which two values are compared; `None` if there is none.
pub fn compared_type(a: ColumnType, b: ColumnType) -> Option<ColumnType> {
    let common = common_type(a, b)?;
    let lower = number_rank(a).min(number_rank(b));
    // A real has fewer digits than a whole number or a numeric.
    let narrow = common == ColumnType::Real && lower.is_some_and(|rank| (3..7).contains(&rank));
    Some(if narrow { ColumnType::Double } else { common })
}

/// The type to which both go without a cast being written; `None` if there is none.
pub fn common_type(a: ColumnType, b: ColumnType) -> Option<ColumnType> {
    use ColumnType as C;
    if a == b {
        return Some(a);
    }
    if let (Some(rank_a), Some(rank_b)) = (number_rank(a), number_rank(b)) {
        let higher = if rank_a >= rank_b { a } else { b };
        return Some(match higher {
            C::Decimal { .. } => decimal(scale_of(a).max(scale_of(b))),
            other => other,
        });
    }
    match (a, b) {
        // Only among themselves: what is compared with another type is asked for in it (`semantics::variant`).
        (a, b) if a.is_variant() || b.is_variant() => None,
        (C::Text | C::Ascii, C::Text | C::Ascii) => Some(C::Text),
        // What PostgreSQL refuses of json is answered as of jsonb (ADR 11).
        (C::Json | C::Jsonb, C::Json | C::Jsonb) => Some(C::Jsonb),
        (C::Uuid | C::TimeUuid, C::Uuid | C::TimeUuid) => Some(C::Uuid),
        (C::Date, C::LocalTimestamp) | (C::LocalTimestamp, C::Date) => Some(C::LocalTimestamp),
        (C::Date | C::LocalTimestamp, C::Timestamp) | (C::Timestamp, C::Date | C::LocalTimestamp) => Some(C::Timestamp),
        (C::Time, C::Duration) | (C::Duration, C::Time) => Some(C::Duration),
        (C::List(a), C::List(b)) => common_type(a.get(), b.get()).map(C::list),
        // A parameter's value does not tell all of its type, which may be a user type.
        (C::Nested(_), C::Nested(_)) if a.is_packed() && b.is_packed() => match (exists(b, a), exists(a, b)) {
            (true, _) => Some(a),
            (false, true) => Some(b),
            (false, false) => None,
        },
        // An array of numbers beside a vector is one, as it is written.
        (C::Nested(_), C::List(of)) if a.dimension().is_some() && number_rank(of.get()).is_some() => Some(a),
        (C::List(of), C::Nested(_)) if b.dimension().is_some() && number_rank(of.get()).is_some() => Some(b),
        // An array beside a set is one: its order does not count.
        (C::Nested(_), C::List(_)) if is_set(a) && common_type(a.as_array(), b) == Some(a.as_array()) => Some(a),
        (C::List(_), C::Nested(_)) if is_set(b) && common_type(a, b.as_array()) == Some(b.as_array()) => Some(b),
        (C::Nested(_), C::List(_)) if a.element().is_some() => common_type(a.as_array(), b),
        (C::List(_), C::Nested(_)) if b.element().is_some() => common_type(a, b.as_array()),
        (C::Nested(_), C::Nested(_)) if a.element().is_some() && b.element().is_some() => {
            common_type(a.as_array(), b.as_array())
        }
        _ => None,
    }
}

fn is_set(ty: ColumnType) -> bool {
    matches!(ty.as_nested(), Some(Nested::Set(_)))
}

/// The type of a list of branches: unknown ones follow, and are text if all are.
pub fn common_of_all(types: &[Ty]) -> Result<Option<ColumnType>, (Ty, Ty)> {
    let mut found: Option<ColumnType> = None;
    for ty in types {
        match ty {
            Ty::Unknown => {}
            // Lists and structs are left to DataFusion.
            Ty::Other(_) => return Ok(None),
            Ty::Known(ty) => {
                found = Some(match found {
                    None => *ty,
                    Some(before) => common_type(before, *ty).ok_or((Ty::Known(before), Ty::Known(*ty)))?,
                });
            }
        }
    }
    Ok(Some(found.unwrap_or(ColumnType::Text)))
}
