//! Which encoding a column gets in a row group: codes into a dictionary, or what suits its type without one.
//!
//! Integers that move in small steps, as counters, gauges and times do, are smaller as differences of neighbours than
//! as codes of their values; those that jump among a few values, or stay for long, are not. Floats of which only some
//! bytes differ are smaller split by bytes and compressed, but take four times as long to read: a table that is to be
//! read fast gives up as much as half of the room for codes. Values of which there are too many for a dictionary never
//! begin with one. The choice is made on the group's first block.

use std::collections::HashSet;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int64Type};
use foldhash::fast::FixedState;
use keyspan_model::Encoding;
use parquet::basic::ZstdLevel;

use super::layout::{DICTIONARY_BYTES, FLOAT_DICTIONARY_BYTES};
use super::{BLOCK_ROWS, GROUP_ROWS};

/// Equal neighbours that Parquet's hybrid of runs and packed codes writes as a run.
const RUN: usize = 8;
/// Differences that are packed with one number of bits, and blocks of these that have one base (of 64-bit numbers).
const MINI_BLOCK: usize = 64;
const MINI_BLOCKS: usize = 4;
/// Bits in front of a block of differences: its base and the widths of its parts.
const BLOCK_HEADER_BITS: usize = 48;
/// Before each text of a dictionary.
const LENGTH_BYTES: usize = 4;
/// Blocks of a row group, which share a dictionary.
const BLOCKS: usize = GROUP_ROWS / BLOCK_ROWS;

/// Whether a column whose row group begins with these rows is better off without a dictionary. False for what has no
/// better encoding.
pub(super) fn is_better_without_codes(array: &ArrayRef, encoding: Encoding) -> bool {
    match array.data_type() {
        DataType::Float32 => {
            let values = array.as_primitive::<Float32Type>().iter().flatten();
            let (numbers, bits) = values.map(|value| (f64::from(value), u64::from(value.to_bits()))).unzip();
            split_is_better(numbers, bits, 4, encoding)
        }
        DataType::Float64 => {
            let values = array.as_primitive::<Float64Type>().iter().flatten();
            let (numbers, bits) = values.map(|value| (value, value.to_bits())).unzip();
            split_is_better(numbers, bits, 8, encoding)
        }
        DataType::Timestamp(..) | DataType::Time64(_) | DataType::Int64 => deltas_are_smaller(array, 8),
        // Parquet has no narrower integers.
        DataType::Date32 | DataType::Int32 | DataType::Int16 | DataType::Int8 => deltas_are_smaller(array, 4),
        DataType::Utf8View => are_too_many(array.as_string_view().iter().flatten().map(str::as_bytes).collect()),
        DataType::BinaryView => are_too_many(array.as_binary_view().iter().flatten().collect()),
        _ => false,
    }
}

/// Whether texts have no place in a dictionary, by far: it would be given up in the middle of a block, whose rows then stand
/// in two pages.
fn are_too_many(texts: Vec<&[u8]>) -> bool {
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    let width = bytes / texts.len().max(1) + LENGTH_BYTES;
    code_bits(&texts, width, 2 * DICTIONARY_BYTES, usize::MAX).is_none()
}

/// `width`: bytes of a value in a dictionary.
fn deltas_are_smaller(array: &ArrayRef, width: usize) -> bool {
    let Ok(numbers) = cast(array, &DataType::Int64) else { return false };
    let numbers: &Int64Array = numbers.as_primitive::<Int64Type>();
    let present: Vec<i64> = numbers.iter().flatten().collect();
    let codes = code_bits(&present, width, DICTIONARY_BYTES, usize::MAX);
    codes.is_none_or(|codes| delta_bits(&present) < codes)
}

/// `bits`: those of the numbers, in `width` bytes.
fn split_is_better(numbers: Vec<f64>, bits: Vec<u64>, width: usize, encoding: Encoding) -> bool {
    let codes = code_bits(&bits, width, FLOAT_DICTIONARY_BYTES, most_distinct(numbers));
    let Some(codes) = codes else { return true };
    let split: Vec<u8> = (0..width).flat_map(|byte| bits.iter().map(move |bits| bits.to_le_bytes()[byte])).collect();
    let Ok(compressed) = zstd::bulk::compress(&split, ZstdLevel::default().compression_level()) else { return false };
    let split = compressed.len() * 8;
    match encoding {
        Encoding::Fast => split * 2 < codes,
        Encoding::Small => split < codes,
    }
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

/// How many numbers there can be from the least of these to the greatest, if none are closer than two of these are: of
/// numbers with two decimals, few.
fn most_distinct(mut numbers: Vec<f64>) -> usize {
    numbers.retain(|number| number.is_finite());
    numbers.sort_unstable_by(f64::total_cmp);
    let gap = numbers.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 0.0).min_by(f64::total_cmp);
    match (numbers.first(), numbers.last(), gap) {
        (Some(least), Some(greatest), Some(gap)) => (((greatest - least) / gap) as usize).saturating_add(1),
        _ => usize::MAX,
    }
}

/// Bits of the codes of one block's values and of its share in the dictionary; `None` if the group has more distinct
/// values than a dictionary of `bytes` holds. There are no more than `most` of them.
fn code_bits<T>(values: &[T], width: usize, bytes: usize, most: usize) -> Option<usize>
where
    T: Copy + Eq + std::hash::Hash,
{
    let distinct = values.iter().copied().collect::<HashSet<T, FixedState>>().len();
    let runs = values.chunk_by(|a, b| a == b).map(<[T]>::len);
    let (count, packed) =
        runs.fold((0, 0), |(count, packed), length| (count + 1, packed + if length < RUN { length } else { 0 }));
    let of_group = distinct_of(distinct, count, count * BLOCKS).min(most);
    let fits = of_group * width <= bytes;
    fits.then(|| packed * bits(of_group.saturating_sub(1) as u64) + of_group * width * 8 / BLOCKS)
}

/// Estimated number of distinct values after `more` further draws, where `draws` draws gave `distinct`, if all values
/// are equally frequent.
fn distinct_of(distinct: usize, draws: usize, more: usize) -> usize {
    if distinct == draws {
        return more;
    }
    let brought = |values: f64, draws: usize| values * (1.0 - (-(draws as f64) / values).exp());
    // That many values there are, between what was seen and what would make seeing two alike a surprise.
    let (mut low, mut high) = (distinct as f64, (draws * draws) as f64);
    for _ in 0..40 {
        let middle = (low * high).sqrt();
        if brought(middle, draws) < distinct as f64 { low = middle } else { high = middle }
    }
    brought(high, more).round() as usize
}

/// Bits that a number needs.
fn bits(number: u64) -> usize {
    (u64::BITS - number.leading_zeros()) as usize
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        Date32Array, Float32Array, Float64Array, Int16Array, StringViewArray, TimestampMicrosecondArray,
    };

    use super::*;
    use crate::random::Random;

    fn smaller(numbers: impl Iterator<Item = i64>) -> bool {
        is_better_without_codes(&(Arc::new(Int64Array::from_iter_values(numbers)) as ArrayRef), Encoding::Fast)
    }

    fn floats_are_better(numbers: impl Iterator<Item = f64> + Clone, encoding: Encoding) -> (bool, bool) {
        let narrow = Float32Array::from_iter_values(numbers.clone().map(|number| number as f32));
        let wide = Float64Array::from_iter_values(numbers);
        (
            is_better_without_codes(&(Arc::new(narrow) as ArrayRef), encoding),
            is_better_without_codes(&(Arc::new(wide) as ArrayRef), encoding),
        )
    }

    /// A gauge that moves in small steps.
    fn walk(most: i64) -> Vec<i64> {
        let mut random = Random::new(5);
        let mut value = most / 2;
        let mut step = || {
            value = (value + random.below(3) as i64 - 1).clamp(0, most);
            value
        };
        (0..4096).map(|_| step()).collect()
    }

    #[test]
    fn what_moves_in_small_steps_is_smaller_as_differences() {
        assert!(smaller(walk(100).into_iter()));
        assert!(smaller((0..4096).map(|row| i64::MAX - row * 1000)), "a counter");
        let times = TimestampMicrosecondArray::from_iter_values((0..4096).map(|row| row * 10_000_000));
        assert!(is_better_without_codes(&(Arc::new(times) as ArrayRef), Encoding::Fast));
        let days = Date32Array::from_iter((0..4096).map(|row| (row % 3 > 0).then_some(row)));
        assert!(is_better_without_codes(&(Arc::new(days) as ArrayRef), Encoding::Fast), "nulls take no room");
    }

    #[test]
    fn what_jumps_or_stays_is_smaller_as_codes() {
        let mut random = Random::new(5);
        assert!(!smaller((0..4096).map(|_| random.below(100) as i64)));
        assert!(!smaller((0..4096).map(|row| row / 500)), "long runs");
        let flags = Int16Array::from_iter_values((0..4096).map(|_| random.below(2) as i16));
        assert!(!is_better_without_codes(&(Arc::new(flags) as ArrayRef), Encoding::Fast));
        assert!(!smaller((0..4096).map(|row| if row % 2 == 0 { i64::MIN } else { i64::MAX })), "no overflow");
    }

    #[test]
    fn floats_are_split_where_that_saves_something() {
        let mut random = Random::new(5);
        let split = |numbers: &[f64]| {
            [Encoding::Small, Encoding::Fast].map(|encoding| floats_are_better(numbers.iter().copied(), encoding))
        };
        let gauge: Vec<f64> = walk(100).into_iter().map(|value| value as f64).collect();
        assert_eq!(split(&gauge), [(true, true), (false, false)], "a third less, and four times as slow");
        let climbing: Vec<f64> = (0..4096).map(|row| f64::from(row / 2)).collect();
        assert_eq!(split(&climbing), [(true, true); 2], "much less");
        let jumping: Vec<f64> = (0..4096).map(|_| random.below(4) as f64).collect();
        assert_eq!(split(&jumping), [(false, false); 2], "two bits each");
        assert_eq!(split(&[1.5; 4096]), [(false, false); 2]);
        let prices: Vec<f64> = (0..4096).map(|_| random.below(3000) as f64 / 100.0).collect();
        assert!(split(&prices).iter().all(|(_, wide)| !wide), "few enough for a dictionary of the group");
        let mut once: Vec<f64> = (0..4096).map(|number| f64::from(number * 2) / 100.0).collect();
        (1..4096).for_each(|row| once.swap(row, random.below(row as u64) as usize));
        assert!(split(&once).iter().all(|(_, wide)| !wide), "all differ, but two decimals have no more than these");
        let far = [f64::MAX, f64::MIN, f64::NAN, f64::INFINITY, 0.0, f64::MIN_POSITIVE];
        assert_eq!(most_distinct(far.to_vec()), usize::MAX);
        let any: Vec<f64> = (0..4096).map(|_| f64::from_bits(random.below(1 << 62))).collect();
        assert!(split(&any).iter().all(|(_, wide)| *wide), "a dictionary of these would be given up");
    }

    #[test]
    fn distinct_values_of_a_group_are_guessed_from_a_block() {
        assert_eq!(distinct_of(7, 7, 224), 224, "all differ");
        assert_eq!(distinct_of(1, 4096, 131_072), 1);
        assert_eq!(distinct_of(100, 4096, 131_072), 100);
        let of_ten_thousand = distinct_of(3361, 4096, 131_072);
        assert!((9_900..=10_100).contains(&of_ten_thousand), "{of_ten_thousand}");
    }

    #[test]
    fn texts_have_codes_while_there_is_room_for_them() {
        let texts = |distinct: usize, prefix: &str| {
            let texts = (0..4096).map(|row| (row % 5 > 0).then(|| format!("{prefix}{}", row * 31 % distinct)));
            is_better_without_codes(&(Arc::new(texts.collect::<StringViewArray>()) as ArrayRef), Encoding::Fast)
        };
        assert!(!texts(2_000, "") && texts(3_000, "a text that is longer than most are"));
        assert!(!texts(100, "a text that is longer than most are") && texts(4_096, "all differ "));
    }

    #[test]
    fn what_has_no_other_encoding_has_codes() {
        assert!(!smaller(std::iter::empty()));
        assert_eq!(floats_are_better(std::iter::empty(), Encoding::Small), (false, false));
    }
}
