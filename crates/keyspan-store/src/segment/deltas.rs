//! Parquet's packed differences: whole numbers that move in small steps.
//!
//! ```text
//! header   varint(numbers of a block)  varint(parts of a block)  varint(count)  signed(first number)
//! block    signed(least difference)    a byte for each part: its width    parts: what each difference is above the
//!                                                                         least, `width` bits, the lowest first
//! ```
//!
//! Rule: bytes that are no such numbers give `None`, never a panic and never more numbers than asked for.

use crate::varint::Input;

/// Widest differences that are read from one word of eight bytes.
const WORD: usize = 56;

/// These numbers of a page. They wrap around at 64 bits; those of narrower types are the lower bits.
pub(super) fn numbers(page: &[u8], count: usize) -> Option<Vec<i64>> {
    let mut input = Input::new(page);
    let block = usize::try_from(input.varint()?).ok()?;
    let parts = usize::try_from(input.varint()?).ok()?;
    let total = usize::try_from(input.varint()?).ok()?;
    let mut number = input.signed()?;
    let part = block.checked_div(parts).filter(|part| *part > 0)?;
    if total != count {
        return None;
    }
    let mut numbers = vec![0i64; count];
    let Some((first, mut rest)) = numbers.split_first_mut() else { return Some(numbers) };
    *first = number;
    while !rest.is_empty() {
        let least = input.signed()?;
        for width in input.take(parts)? {
            let width = usize::from(*width);
            let bytes = input.take_up_to(part.checked_mul(width)?.div_ceil(8));
            let wanted = part.min(rest.len());
            if width > 64 || bytes.len() * 8 < wanted * width {
                return None;
            }
            let (own, behind) = rest.split_at_mut(wanted);
            match width {
                0 => number = add_up(own, number, least, |_| 0),
                1..=WORD => number = add_up(own, number, least, |at| word(bytes, at, width)),
                _ => number = add_up(own, number, least, |at| long_word(bytes, at, width)),
            }
            rest = behind;
        }
    }
    Some(numbers)
}

/// Numbers from their differences, each of which is so much above the least; the last of them.
fn add_up(numbers: &mut [i64], before: i64, least: i64, above: impl Fn(usize) -> u64) -> i64 {
    let mut last = before;
    for (at, number) in numbers.iter_mut().enumerate() {
        last = last.wrapping_add(least).wrapping_add(above(at) as i64);
        *number = last;
    }
    last
}

fn word(bytes: &[u8], at: usize, width: usize) -> u64 {
    let rest = &bytes[at * width / 8..];
    let word = match rest.first_chunk::<8>() {
        Some(word) => u64::from_le_bytes(*word),
        None => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    };
    word >> (at * width % 8) & ((1 << width) - 1)
}

fn long_word(bytes: &[u8], at: usize, width: usize) -> u64 {
    let rest = &bytes[at * width / 8..];
    let word = rest.iter().take(9).rev().fold(0u128, |word, byte| word << 8 | u128::from(*byte));
    (word >> (at * width % 8) & ((1 << width) - 1)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::varint::{put_signed, put_varint};

    const PART: usize = 32;

    /// As Parquet's writers do: four parts of a block, the last filled up with zeros.
    fn page(numbers: &[i64]) -> Vec<u8> {
        let mut out = Vec::new();
        [4 * PART, 4, numbers.len()].iter().for_each(|number| put_varint(&mut out, *number as u64));
        put_signed(&mut out, numbers.first().copied().unwrap_or(0));
        let differences: Vec<i64> = numbers.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
        for block in differences.chunks(4 * PART) {
            let least = block.iter().min().copied().unwrap_or(0);
            put_signed(&mut out, least);
            let above = |part: &[i64]| part.iter().map(|d| d.wrapping_sub(least) as u64).collect::<Vec<u64>>();
            let parts: Vec<Vec<u64>> = block.chunks(PART).map(above).collect();
            let width = |part: &Vec<u64>| part.iter().map(|d| 64 - d.leading_zeros() as usize).max().unwrap_or(0);
            out.extend((0..4).map(|at| parts.get(at).map_or(0, width) as u8));
            for part in &parts {
                let width = width(part);
                let mut bytes = vec![0u8; PART * width / 8];
                for (at, difference) in part.iter().enumerate() {
                    for bit in (0..width).filter(|bit| difference >> bit & 1 == 1) {
                        bytes[(at * width + bit) / 8] |= 1 << ((at * width + bit) % 8);
                    }
                }
                out.extend(bytes);
            }
        }
        out
    }

    #[test]
    fn numbers_of_every_width_come_back() {
        let mut random = Random::new(5);
        for bits in 0..=64 {
            for count in [0, 1, 2, 64, 65, 257, 4096] {
                let wide: Vec<i64> =
                    (0..count).map(|_| (random.number() & ((1u128 << bits) - 1) as u64) as i64).collect();
                assert_eq!(numbers(&page(&wide), count), Some(wide), "{bits} bits");
            }
        }
        let extremes: Vec<i64> = (0..1000).map(|row| [i64::MIN, i64::MAX, 0, -1][row % 4]).collect();
        assert_eq!(numbers(&page(&extremes), 1000), Some(extremes));
        let steps: Vec<i64> = (0..1000).map(|row| 5 - row * 10_000_000).collect();
        assert_eq!(numbers(&page(&steps), 1000), Some(steps));
    }

    #[test]
    fn other_bytes_give_nothing() {
        let whole = page(&(0..500).map(|row| row * row % 97).collect::<Vec<i64>>());
        assert_eq!(numbers(&whole, 499), None, "another number of rows");
        (0..whole.len()).for_each(|end| assert!(numbers(&whole[..end], 500).is_none_or(|all| all.len() == 500)));
        assert_eq!(numbers(&whole[..20], 500), None, "cut short");
        assert_eq!(numbers(&[0, 0, 5, 2], 5), None, "no parts");
        let mut random = Random::new(7);
        for _ in 0..50_000 {
            let bytes: Vec<u8> = (0..random.below(40)).map(|_| random.below(256) as u8).collect();
            assert!(numbers(&bytes, 100).is_none_or(|numbers| numbers.len() == 100));
            let mut damaged = whole.clone();
            damaged[random.below(whole.len() as u64) as usize] = random.below(256) as u8;
            assert!(numbers(&damaged, 500).is_none_or(|numbers| numbers.len() == 500));
        }
    }
}
