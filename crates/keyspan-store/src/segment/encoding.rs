//! Which encoding a column gets in a row group: codes into a dictionary, or what suits its type without one.
//!
//! Integers that move in small steps, as counters, gauges and times do, are smaller as differences of neighbours than as
//! codes of their values; those that jump among a few values, or stay for long, are not. The group's first block tells.

use std::collections::HashSet;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use foldhash::fast::FixedState;

/// Equal neighbours that Parquet's hybrid of runs and packed codes writes as a run.
const RUN: usize = 8;
/// Differences that are packed with one number of bits, and blocks of these that have one base (of 64-bit numbers).
const MINI_BLOCK: usize = 64;
const MINI_BLOCKS: usize = 4;
/// Bits in front of a block of differences: its base and the widths of its parts.
const BLOCK_HEADER_BITS: usize = 48;

/// Whether numbers take less room as differences than as codes. `share`: what part of a dictionary the rows have to pay
/// for, since later ones of their group use it too. False for what has no differences.
pub(super) fn deltas_are_smaller(array: &ArrayRef, share: f64) -> bool {
    let has_deltas = array.data_type().is_signed_integer()
        || matches!(array.data_type(), DataType::Timestamp(..) | DataType::Date32 | DataType::Time64(_));
    if !has_deltas {
        return false;
    }
    let Ok(numbers) = cast(array, &DataType::Int64) else { return false };
    let numbers: &Int64Array = numbers.as_primitive::<Int64Type>();
    let present: Vec<i64> = numbers.iter().flatten().collect();
    delta_bits(&present) < code_bits(&present, share)
}

fn delta_bits(numbers: &[i64]) -> usize {
    let deltas: Vec<i64> = numbers.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
    let blocks = deltas.chunks(MINI_BLOCK * MINI_BLOCKS).map(|block| {
        let base = block.iter().min().copied().unwrap_or(0);
        let width = |part: &[i64]| bits(part.iter().map(|delta| delta.wrapping_sub(base) as u64).max().unwrap_or(0));
        BLOCK_HEADER_BITS + block.chunks(MINI_BLOCK).map(|part| MINI_BLOCK * width(part)).sum::<usize>()
    });
    blocks.sum()
}

fn code_bits(numbers: &[i64], share: f64) -> usize {
    let distinct: HashSet<i64, FixedState> = numbers.iter().copied().collect();
    let packed: usize = numbers.chunk_by(|a, b| a == b).map(<[i64]>::len).filter(|length| *length < RUN).sum();
    let width = bits(distinct.len().saturating_sub(1) as u64);
    packed * width + (distinct.len() as f64 * 64.0 * share) as usize
}

/// Bits that a number needs.
fn bits(number: u64) -> usize {
    (u64::BITS - number.leading_zeros()) as usize
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Date32Array, Float64Array, Int16Array, TimestampMicrosecondArray};

    use super::*;
    use crate::random::Random;

    fn smaller(numbers: impl Iterator<Item = i64>) -> bool {
        deltas_are_smaller(&(Arc::new(Int64Array::from_iter_values(numbers)) as ArrayRef), 1.0 / 32.0)
    }

    #[test]
    fn what_moves_in_small_steps_is_smaller_as_differences() {
        let mut random = Random::new(5);
        let mut value = 50;
        let mut gauge = || {
            value = (value + random.below(7) as i64 - 3).clamp(0, 100);
            value
        };
        assert!(smaller((0..4096).map(|_| gauge())));
        assert!(smaller((0..4096).map(|row| i64::MAX - row * 1000)), "a counter");
        let times = TimestampMicrosecondArray::from_iter_values((0..4096).map(|row| row * 10_000_000));
        assert!(deltas_are_smaller(&(Arc::new(times) as ArrayRef), 0.0));
        let days = Date32Array::from_iter((0..4096).map(|row| (row % 3 > 0).then_some(row)));
        assert!(deltas_are_smaller(&(Arc::new(days) as ArrayRef), 0.0), "nulls take no room");
    }

    #[test]
    fn what_jumps_or_stays_is_smaller_as_codes() {
        let mut random = Random::new(5);
        assert!(!smaller((0..4096).map(|_| random.below(100) as i64)));
        assert!(!smaller((0..4096).map(|row| row / 500)), "long runs");
        let flags = Int16Array::from_iter_values((0..4096).map(|_| random.below(2) as i16));
        assert!(!deltas_are_smaller(&(Arc::new(flags) as ArrayRef), 0.0));
        assert!(!smaller((0..4096).map(|row| if row % 2 == 0 { i64::MIN } else { i64::MAX })), "no overflow");
    }

    #[test]
    fn what_has_no_differences_has_none() {
        assert!(!deltas_are_smaller(&(Arc::new(Float64Array::from_iter_values([1.0, 2.0])) as ArrayRef), 1.0));
        assert!(!smaller(std::iter::empty()));
    }
}
