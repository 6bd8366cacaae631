//! Values as numbers that come in the order of ORDER BY: what is left out for coming too late is compared by these.
//!
//! Rule: a value with a greater rank comes later; of equal ranks either may. Numerics and texts have the rank of a float and
//! of their first eight bytes, so that some different ones have the same.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::error::Result;
use keyspan_model::value::double_rank;

/// Whether values of this type have ranks.
pub(crate) fn is_ranked(ty: &DataType) -> bool {
    use DataType::{Date32, Decimal128, Float32, Float64, Int8, Int16, Int32, Int64, Timestamp, Utf8View};
    let whole = matches!(ty, Int8 | Int16 | Int32 | Int64 | Date32 | Timestamp(..));
    whole || matches!(ty, Float32 | Float64 | Decimal128(..) | Utf8View)
}

/// The rank of NULL.
pub(crate) fn null_rank(order: SortOptions) -> u64 {
    if order.nulls_first { 0 } else { u64::MAX }
}

/// A number for each value, lower where it comes earlier.
pub(crate) fn ranks(values: &ArrayRef, order: SortOptions) -> Result<Vec<u64>> {
    let numbers: Vec<u64> = match values.data_type() {
        DataType::Float32 | DataType::Float64 | DataType::Decimal128(..) => {
            let floats = cast(values, &DataType::Float64)?;
            floats.as_primitive::<Float64Type>().values().iter().map(|number| double_rank(*number)).collect()
        }
        DataType::Utf8View => {
            let texts = values.as_string_view();
            (0..texts.len()).map(|row| first_bytes(texts.value(row).as_bytes())).collect()
        }
        ty => {
            let whole = match ty {
                DataType::Date32 => cast(&cast(values, &DataType::Int32)?, &DataType::Int64)?,
                _ => cast(values, &DataType::Int64)?,
            };
            whole.as_primitive::<Int64Type>().values().iter().map(|number| *number as u64 ^ 1 << 63).collect()
        }
    };
    let ordered = numbers.into_iter().map(|number| if order.descending { !number } else { number });
    Ok(match values.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => ordered.collect(),
        Some(valid) => of_valid(ordered, valid, null_rank(order)),
    })
}

/// The first eight bytes as a number; a shorter text comes before all that begin with it.
fn first_bytes(text: &[u8]) -> u64 {
    let mut first = [0; 8];
    let known = text.len().min(8);
    first[..known].copy_from_slice(&text[..known]);
    u64::from_be_bytes(first)
}

fn of_valid(ranks: impl Iterator<Item = u64>, valid: &NullBuffer, null: u64) -> Vec<u64> {
    ranks.zip(valid).map(|(rank, valid)| if valid { rank } else { null }).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use arrow::array::{Date32Array, Decimal128Array, Float64Array, Int64Array, StringViewArray};
    use arrow::compute::sort_to_indices;

    use super::*;

    #[test]
    fn ranks_come_in_the_order_of_their_values() {
        let texts = ["", "a", "a\0", "aaaaaaaa", "aaaaaaaab", "aaaaaaaac", "b", "é", "\u{10ffff}"];
        let texts: StringViewArray = texts.into_iter().map(Some).chain([None]).collect();
        let digits = [-10_i128.pow(37), -1, 0, 1, 2, 10_i128.pow(17), 10_i128.pow(17) + 1, 10_i128.pow(37)];
        let numbers: Decimal128Array = digits.into_iter().map(Some).chain([None]).collect();
        let numbers = numbers.with_precision_and_scale(38, 10).expect("fits");
        let floats: Float64Array = [f64::NEG_INFINITY, -1.5, 0.0, 1.5].into_iter().map(Some).chain([None]).collect();
        let whole: Int64Array = [i64::MIN, -1, 0, 1].into_iter().map(Some).chain([None]).collect();
        let dates: Date32Array = [-1, 0, 1].into_iter().map(Some).chain([None]).collect();
        // And how many different ranks values have: texts by their first eight bytes, numerics as floats.
        let cases: [(ArrayRef, usize); 5] = [
            (Arc::new(texts), 6),
            (Arc::new(numbers), 7),
            (Arc::new(floats), 4),
            (Arc::new(whole), 4),
            (Arc::new(dates), 3),
        ];
        for (values, different) in cases {
            for (descending, nulls_first) in [(false, false), (false, true), (true, false), (true, true)] {
                let order = SortOptions { descending, nulls_first };
                let ranks = ranks(&values, order).expect("a rank each");
                let sorted = sort_to_indices(&values, Some(order), None).expect("sorts");
                assert!(sorted.values().iter().is_sorted_by_key(|row| ranks[*row as usize]), "{order:?} {values:?}");
                let found: BTreeSet<u64> = ranks[..ranks.len() - 1].iter().copied().collect();
                assert_eq!(found.len(), different, "{order:?} {values:?}");
            }
        }
    }
}
