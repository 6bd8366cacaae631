//! A range of one column's values in encoded bytes: what extents and zones are compared with.

use std::ops::{Bound, RangeBounds};

use keyspan_model::{ColumnRange, KeyColumn, KeyEncoder, Result, Value};

/// A range in the order that the column's values have when they are encoded, which is the other one if it descends.
#[derive(Clone, Debug)]
pub(crate) struct EncodedRange {
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
}

impl EncodedRange {
    /// The values of `range` as `column` encodes them; an error is a value that is not of its type.
    pub(crate) fn new(column: &KeyColumn, range: &ColumnRange) -> Result<EncodedRange> {
        let encoder = KeyEncoder::new(std::slice::from_ref(column));
        let encode = |bound: &Bound<Value>| -> Result<Bound<Vec<u8>>> {
            let bytes = |value: &Value| encoder.encode(std::slice::from_ref(value));
            Ok(match bound {
                Bound::Unbounded => Bound::Unbounded,
                Bound::Included(value) => Bound::Included(bytes(value)?),
                Bound::Excluded(value) => Bound::Excluded(bytes(value)?),
            })
        };
        let (lower, upper) = (encode(&range.lower)?, encode(&range.upper)?);
        Ok(match column.descending {
            true => EncodedRange { lower: upper, upper: lower },
            false => EncodedRange { lower, upper },
        })
    }

    /// From the first to the last of two encoded values, both inside; `None`: no end.
    pub(crate) fn between(first: Option<Vec<u8>>, last: Option<Vec<u8>>) -> EncodedRange {
        let bound = |value: Option<Vec<u8>>| value.map_or(Bound::Unbounded, Bound::Included);
        EncodedRange { lower: bound(first), upper: bound(last) }
    }

    /// Whether some value between these two may be inside.
    pub(crate) fn overlaps(&self, least: &[u8], greatest: &[u8]) -> bool {
        let from_least = (self.lower.as_ref().map(Vec::as_slice), Bound::Unbounded);
        let to_greatest = (Bound::Unbounded, self.upper.as_ref().map(Vec::as_slice));
        RangeBounds::<[u8]>::contains(&from_least, greatest) && RangeBounds::<[u8]>::contains(&to_greatest, least)
    }

    /// Whether every value between these two is inside.
    pub(crate) fn holds(&self, least: &[u8], greatest: &[u8]) -> bool {
        let range = (self.lower.as_ref().map(Vec::as_slice), self.upper.as_ref().map(Vec::as_slice));
        RangeBounds::<[u8]>::contains(&range, least) && RangeBounds::<[u8]>::contains(&range, greatest)
    }
}

#[cfg(test)]
mod tests {
    use keyspan_model::{ColumnId, ColumnType};

    use super::*;

    #[test]
    fn ends_count_as_they_are_given_in_both_directions() {
        for descending in [false, true] {
            let column = KeyColumn { id: ColumnId(1), name: "k".into(), ty: ColumnType::Int, descending };
            let encoder = KeyEncoder::new(std::slice::from_ref(&column));
            // Whether the range overlaps, and holds, the values from `a` to `b`.
            let asked = |lower: Bound<i32>, upper: Bound<i32>, (a, b): (i32, i32)| {
                let (lower, upper) = (lower.map(Value::Int), upper.map(Value::Int));
                let range = EncodedRange::new(&column, &ColumnRange::between(ColumnId(1), lower, upper)).expect("ints");
                let mut ends = [a, b].map(|value| encoder.encode(&[Value::Int(value)]).expect("an int"));
                ends.sort();
                (range.overlaps(&ends[0], &ends[1]), range.holds(&ends[0], &ends[1]))
            };
            use Bound::{Excluded, Included, Unbounded};
            assert_eq!(asked(Included(3), Excluded(7), (3, 6)), (true, true));
            assert_eq!(asked(Included(3), Excluded(7), (2, 3)), (true, false));
            assert_eq!(asked(Included(3), Excluded(7), (6, 7)), (true, false));
            assert_eq!(asked(Included(3), Excluded(7), (7, 9)), (false, false));
            assert_eq!(asked(Excluded(3), Included(7), (1, 3)), (false, false));
            assert_eq!(asked(Excluded(3), Included(7), (4, 7)), (true, true));
            assert_eq!(asked(Excluded(3), Unbounded, (3, 4)), (true, false));
            assert_eq!(asked(Unbounded, Included(3), (-9, 3)), (true, true));
            assert_eq!(asked(Unbounded, Unbounded, (i32::MIN, i32::MAX)), (true, true));
            assert_eq!(asked(Included(3), Included(7), (0, 9)), (true, false));
        }
    }
}
