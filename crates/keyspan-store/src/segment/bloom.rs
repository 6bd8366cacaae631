//! A bloom filter over encoded partition keys.
//!
//! Split-block: a key sets eight bits in one block of 256 bits, so that a question touches one cache line. At ten bits
//! a key about one question in a hundred for an absent key is answered "maybe"; a present key never "no".
//! The hash is part of the format: two rounds of a 64-bit mix over the key's bytes, eight at a time.

/// Bits spent on each distinct partition key.
const BITS_PER_KEY: usize = 10;
/// Largest filter in blocks: 8 MB, enough for 6.7 million partition keys at full sharpness.
const MAX_BLOCKS: usize = 1 << 18;
/// Odd multipliers that pick the bit in each of a block's eight words (Parquet's split-block bloom filter).
const SALT: [u32; 8] =
    [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];

/// Hash of an encoded partition key.
pub(super) fn hash(key: &[u8]) -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15 ^ key.len() as u64;
    let mut words = key.chunks_exact(8);
    for word in &mut words {
        state = mix(state ^ u64::from_le_bytes(word.try_into().expect("a chunk of eight bytes")));
    }
    let mut tail = [0u8; 8];
    tail[..words.remainder().len()].copy_from_slice(words.remainder());
    mix(mix(state ^ u64::from_le_bytes(tail)))
}

fn mix(mut x: u64) -> u64 {
    x ^= x >> 32;
    x = x.wrapping_mul(0xe703_7ed1_a0b4_28db);
    x ^= x >> 29;
    x = x.wrapping_mul(0x8ebc_6af0_9c88_c6e3);
    x ^ (x >> 32)
}

/// The filter. Empty: nothing is known and every question is answered "maybe".
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Bloom {
    blocks: Vec<[u32; 8]>,
}

impl Bloom {
    /// The filter of these hashes (repeated ones do no harm).
    pub(super) fn build(hashes: &[u64]) -> Bloom {
        let blocks = (hashes.len() * BITS_PER_KEY).div_ceil(256).clamp(1, MAX_BLOCKS);
        let mut bloom = Bloom { blocks: vec![[0; 8]; blocks] };
        for hash in hashes {
            let block = bloom.block_of(*hash);
            let bits = bits(*hash);
            for (word, bit) in bloom.blocks[block].iter_mut().zip(bits) {
                *word |= bit;
            }
        }
        bloom
    }

    /// Whether the key with this hash may be present.
    pub(super) fn may_contain(&self, hash: u64) -> bool {
        if self.blocks.is_empty() {
            return true;
        }
        let block = &self.blocks[self.block_of(hash)];
        block.iter().zip(bits(hash)).all(|(word, bit)| word & bit != 0)
    }

    fn block_of(&self, hash: u64) -> usize {
        (((hash >> 32) * self.blocks.len() as u64) >> 32) as usize
    }

    /// The filter's bytes.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        self.blocks.iter().flatten().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// The filter with these bytes; `None` if they are not whole blocks.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Bloom> {
        if !bytes.len().is_multiple_of(32) || bytes.len() / 32 > MAX_BLOCKS {
            return None;
        }
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("a chunk of four bytes"));
        let block = |bytes: &[u8]| std::array::from_fn(|i| word(&bytes[i * 4..i * 4 + 4]));
        Some(Bloom { blocks: bytes.chunks_exact(32).map(block).collect() })
    }

    /// Bytes in memory.
    pub(super) fn memory(&self) -> usize {
        self.blocks.len() * 32
    }
}

fn bits(hash: u64) -> [u32; 8] {
    SALT.map(|salt| 1 << ((hash as u32).wrapping_mul(salt) >> 27))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn present_keys_are_found_and_few_absent_ones() {
        let key = |i: u32| format!("host_{i}").into_bytes();
        let hashes: Vec<u64> = (0..10_000).map(|i| hash(&key(i))).collect();
        let bloom = Bloom::build(&hashes);
        let bloom = Bloom::from_bytes(&bloom.to_bytes()).expect("own bytes");
        assert!(hashes.iter().all(|hash| bloom.may_contain(*hash)));
        let wrong = (10_000..110_000).filter(|i| bloom.may_contain(hash(&key(*i)))).count();
        assert!(wrong < 2_500, "{wrong} of 100,000 absent keys answered maybe");
    }

    #[test]
    fn the_hash_is_part_of_the_format() {
        assert_eq!(hash(b""), GOLDEN[0]);
        assert_eq!(hash(b"host_1"), GOLDEN[1]);
        assert_eq!(hash(b"a longer partition key"), GOLDEN[2]);
    }

    const GOLDEN: [u64; 3] = [0xa8a6b55b3a740d45, 0x91c62b3700e2681b, 0x2715976617d15279];

    #[test]
    fn an_empty_filter_says_maybe() {
        assert!(Bloom::default().may_contain(hash(b"x")));
        assert_eq!(Bloom::from_bytes(&[0; 31]), None);
    }
}
