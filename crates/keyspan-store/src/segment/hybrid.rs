//! Parquet's hybrid of runs and packed numbers: codes into a dictionary, and which rows have a value.
//!
//! ```text
//! run      varint(length × 2)          value, in whole bytes
//! packed   varint(groups × 2 + 1)      groups of 8 numbers, `width` bytes each, the lowest bits first
//! ```
//!
//! Rule: bytes that are no such numbers give `None`, never a panic and never more numbers than asked for.

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::{BooleanBuffer, NullBuffer};

use crate::varint::Input;

/// Widest numbers that are decoded here.
const MOST_BITS: usize = 16;
/// Numbers of a packed group.
const GROUP: usize = 8;

enum Run<'a> {
    Repeated { number: u16, count: usize },
    Packed { bytes: &'a [u8], count: usize },
}

/// Takes runs until there are `count` numbers.
fn runs<'a>(bytes: &'a [u8], width: usize, count: usize, mut take: impl FnMut(Run<'a>)) -> Option<()> {
    let mut input = Input::new(bytes);
    let mut left = count;
    while left > 0 {
        let header = usize::try_from(input.varint()?).ok()?;
        if header & 1 == 0 {
            let mut number = [0; 2];
            let value = input.take(width.div_ceil(8))?;
            number.get_mut(..value.len())?.copy_from_slice(value);
            let count = (header >> 1).min(left);
            take(Run::Repeated { number: u16::from_le_bytes(number), count });
            left -= count;
            // A run of no numbers would never end.
            (count > 0).then_some(())?;
        } else {
            let (groups, all) = (header >> 1, (header >> 1).checked_mul(width)?);
            let bytes = input.take_up_to(all);
            let mut count = groups.checked_mul(GROUP)?.min(left);
            // The last group may be cut short.
            if bytes.len() < all {
                count = count.min(bytes.len() * GROUP / width);
            }
            take(Run::Packed { bytes, count });
            left -= count;
            (count > 0).then_some(())?;
        }
    }
    Some(())
}

/// Codes of a data page: a byte with their width, then their runs.
pub(super) fn codes(page: &[u8], count: usize) -> Option<Vec<u16>> {
    let (width, bytes) = page.split_first()?;
    let width = usize::from(*width);
    if width > MOST_BITS {
        return None;
    }
    // The last group is unpacked whole.
    let mut codes = vec![0u16; count + GROUP];
    let mut at = 0;
    runs(bytes, width, count, |run| match run {
        Run::Repeated { number, count } => {
            codes[at..at + count].fill(number);
            at += count;
        }
        Run::Packed { bytes, count } => {
            unpack(bytes, width, &mut codes[at..at + count.next_multiple_of(GROUP)]);
            at += count;
        }
    })?;
    codes.truncate(count);
    Some(codes)
}

/// Whole groups of packed numbers.
fn unpack(bytes: &[u8], width: usize, into: &mut [u16]) {
    match width {
        0 => into.fill(0),
        8 => into.iter_mut().zip(bytes).for_each(|(number, byte)| *number = u16::from(*byte)),
        1 => unpack_groups::<1>(bytes, into),
        2 => unpack_groups::<2>(bytes, into),
        3 => unpack_groups::<3>(bytes, into),
        4 => unpack_groups::<4>(bytes, into),
        5 => unpack_groups::<5>(bytes, into),
        6 => unpack_groups::<6>(bytes, into),
        7 => unpack_groups::<7>(bytes, into),
        9 => unpack_groups::<9>(bytes, into),
        10 => unpack_groups::<10>(bytes, into),
        11 => unpack_groups::<11>(bytes, into),
        12 => unpack_groups::<12>(bytes, into),
        13 => unpack_groups::<13>(bytes, into),
        14 => unpack_groups::<14>(bytes, into),
        15 => unpack_groups::<15>(bytes, into),
        _ => unpack_groups::<16>(bytes, into),
    }
}

/// The 8 numbers of each group, which is read as two words. With the width known every shift is a constant.
fn unpack_groups<const WIDTH: usize>(bytes: &[u8], into: &mut [u16]) {
    let mask = ((1u32 << WIDTH) - 1) as u16;
    for (start, group) in (0..bytes.len()).step_by(WIDTH).zip(into.as_chunks_mut::<GROUP>().0) {
        let words = match bytes[start..].first_chunk::<16>() {
            Some(words) => u128::from_le_bytes(*words),
            None => bytes[start..].iter().rev().fold(0, |word, byte| word << 8 | u128::from(*byte)),
        };
        let (low, high) = (words as u64, (words >> 64) as u64);
        let number = |at: usize| match at * WIDTH {
            0 => low,
            shift if shift + WIDTH <= 64 => low >> shift,
            shift if shift >= 64 => high >> (shift - 64),
            shift => low >> shift | high << (64 - shift),
        };
        *group = std::array::from_fn(|at| number(at) as u16 & mask);
    }
}

/// Which of the rows of a page have a value, and the bytes behind; `None` inside: all.
pub(super) fn levels(page: &[u8], rows: usize) -> Option<(Option<NullBuffer>, &[u8])> {
    let (length, rest) = page.split_first_chunk::<4>()?;
    let (levels, values) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let mut valid = BooleanBufferBuilder::new(rows);
    runs(levels, 1, rows, |run| match run {
        Run::Repeated { number, count } => valid.append_n(count, number & 1 == 1),
        Run::Packed { bytes, count } => valid.append_buffer(&BooleanBuffer::new(bytes.to_vec().into(), 0, count)),
    })?;
    let nulls = NullBuffer::new(valid.finish());
    Some(((nulls.null_count() > 0).then_some(nulls), values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::varint::put_varint;

    /// As Parquet's writers do: runs of 8 and more as such, the rest packed.
    fn packed(numbers: &[u16], width: usize) -> Vec<u8> {
        let groups = numbers.len().div_ceil(GROUP);
        let mut out = Vec::new();
        put_varint(&mut out, (groups as u64) << 1 | 1);
        let mut bits = vec![0u8; groups * width];
        for (at, number) in numbers.iter().enumerate() {
            for bit in (0..width).filter(|bit| number >> bit & 1 == 1) {
                bits[(at * width + bit) / 8] |= 1 << ((at * width + bit) % 8);
            }
        }
        out.extend(bits);
        out
    }

    #[test]
    fn packed_numbers_of_every_width_come_back() {
        let mut random = Random::new(3);
        for width in 1..=MOST_BITS {
            let numbers: Vec<u16> = (0..1003).map(|_| random.below(1 << width) as u16).collect();
            let page = [vec![width as u8], packed(&numbers, width)].concat();
            assert_eq!(codes(&page, numbers.len()), Some(numbers.clone()), "{width} bits");
            assert_eq!(codes(&page, 7).expect("fewer"), numbers[..7]);
        }
    }

    #[test]
    fn runs_and_packed_groups_follow_each_other() {
        let page = [vec![9, 10, 0x2c, 0x01], packed(&[1, 2, 3, 4, 5, 6, 7, 8], 9), vec![20, 5, 0]].concat();
        let expected: Vec<u16> = [300; 5].into_iter().chain(1..=8).chain([5; 10]).collect();
        assert_eq!(codes(&page, 23), Some(expected));
        assert_eq!(codes(&[0, 14], 7), Some(vec![0; 7]), "one value needs no bits");
    }

    #[test]
    fn levels_tell_which_rows_have_a_value() {
        let levels_of = |runs: &[u8]| [&(runs.len() as u32).to_le_bytes(), runs, b"rest"].concat();
        assert_eq!(levels(&levels_of(&[40, 1]), 20), Some((None, b"rest".as_slice())));
        let page = levels_of(&[8, 0, 3, 0b1010_0101]);
        let (nulls, rest) = levels(&page, 12).expect("levels");
        let valid: Vec<usize> = nulls.expect("some null").valid_indices().collect();
        assert_eq!((valid, rest), (vec![4, 6, 9, 11], b"rest".as_slice()));
    }

    #[test]
    fn other_bytes_give_nothing() {
        assert_eq!(codes(&[], 1), None);
        assert_eq!(codes(&[17, 2, 0], 1), None, "too wide");
        assert_eq!(codes(&[8, 0, 0], 1), None, "an empty run");
        assert_eq!(codes(&[8, 9, 1, 2], 9), None, "cut short");
        assert_eq!(levels(&[9, 0, 0, 0, 2], 1), None);
        let mut random = Random::new(7);
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..random.below(24)).map(|_| random.below(256) as u8).collect();
            assert!(codes(&bytes, 100).is_none_or(|codes| codes.len() == 100));
            assert!(levels(&bytes, 100).is_none_or(|(nulls, _)| nulls.is_none_or(|nulls| nulls.len() == 100)));
        }
    }
}
