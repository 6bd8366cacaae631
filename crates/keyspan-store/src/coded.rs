//! Compact columns of the block cache: few distinct values as one-byte codes, evenly stepping numbers as steps.
//!
//! A decoded block of a time series mostly repeats itself: a tag has a handful of values, a gauge some hundred, time
//! goes on by the second. So the block cache keeps
//!
//! ```text
//! codes   Dictionary(UInt8, T): one byte a row, at most 256 values, ascending in a block; passes upward where asked for
//! shared  two bytes a row, codes into the values of the whole row group, as they stand on disk
//! steps   base + unit × offset: two bytes a row                        numbers of 64 bits without nulls
//! plain   the array
//! ```
//!
//! Rule: equal codes mean equal values, to the bit; unequal codes may too, and those of several blocks need not ascend.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, DictionaryArray, Float64Array, Int64Array, NullBufferBuilder,
    PrimitiveArray, UInt8Array, UInt16Array, UInt32Array, make_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{concat, sort_to_indices, take};
use arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType, UInt8Type,
};
use foldhash::fast::FixedState;
use keyspan_model::{Error, Result, decoded};

/// Rows below which coding saves nothing.
const LEAST_ROWS: usize = 64;
/// Values that a code can name.
const MOST_VALUES: usize = 256;
/// Stretches in which offsets go up or down, from which on each row is looked at.
const MOST_SLOPES: usize = 64;
/// Numbers that are looked at together.
const STRETCH: usize = 64;
/// Values of several blocks, some of them the same, that are made one dictionary.
const MOST_JOINED: usize = 1024;
/// Rows after which it is asked whether a form still fits.
const LOOKS: usize = 1024;
/// Blocks that share values, in a row group as it mostly is.
const SHARING: usize = 32;
/// Whole numbers that are counted in a table, from the least to the greatest.
const TABLE: usize = 4096;

/// A column of a block as the cache keeps it.
#[derive(Debug)]
pub(crate) enum Coded {
    /// The array as it is, or codes into its distinct values.
    Array(ArrayRef),
    /// Row `n` is `base + unit × offsets[n]`.
    Steps { ty: DataType, base: i64, unit: i64, offsets: Vec<u16>, slopes: Option<Slopes> },
    /// Row `n` is `values[codes[n]]`; the blocks of a row group have the same `values`.
    Shared { values: ArrayRef, codes: UInt16Array },
}

/// Where offsets go up without a break, or down: the times of each series in a block.
#[derive(Debug)]
pub(crate) struct Slopes {
    pub(crate) descending: bool,
    /// First rows.
    starts: Vec<u16>,
}

impl Slopes {
    /// `None` if they are too many.
    pub(crate) fn of(offsets: &[u16]) -> Option<Slopes> {
        let starts = |descending: bool| {
            let mut starts = vec![0];
            for (before, pair) in offsets.windows(2).enumerate() {
                if if descending { pair[1] > pair[0] } else { pair[1] < pair[0] } {
                    starts.push(u16::try_from(before + 1).ok().filter(|_| starts.len() < MOST_SLOPES)?);
                }
            }
            Some(starts)
        };
        let slopes = |descending| starts(descending).map(|starts| Slopes { descending, starts });
        [false, true].into_iter().filter_map(slopes).min_by_key(|slopes| slopes.starts.len())
    }

    /// The rows of each, of so many rows.
    pub(crate) fn rows(&self, rows: usize) -> impl Iterator<Item = Range<usize>> {
        let ends = self.starts[1..].iter().map(|start| usize::from(*start)).chain([rows]);
        self.starts.iter().map(|start| usize::from(*start)).zip(ends).map(|(start, end)| start..end)
    }
}

impl Coded {
    /// The array in its smallest form.
    pub(crate) fn new(array: ArrayRef) -> Result<Coded> {
        if array.len() < LEAST_ROWS {
            return Ok(Coded::Array(array));
        }
        if let Some(steps) = steps(&array)? {
            return Ok(steps);
        }
        Ok(Coded::Array(dictionary(&array)?.unwrap_or(array)))
    }

    /// Floats that were not worth a dictionary on disk: only whole numbers near each other are looked for.
    pub(crate) fn of_split(array: ArrayRef) -> Result<Coded> {
        let found = match array.data_type() {
            _ if array.len() < LEAST_ROWS => None,
            DataType::Float64 => whole_codes::<Float64Type, u64>(&array, f64::to_bits, |v| v as i64, |n| n as f64),
            DataType::Float32 => whole_codes::<Float32Type, u32>(&array, f32::to_bits, |v| v as i64, |n| n as f32),
            _ => None,
        };
        let Some(found) = found else { return Ok(Coded::Array(array)) };
        Ok(Coded::Array(ascending_of(&array, found)?))
    }

    /// Values by their codes, which are names of `values`; those of null rows mean nothing. `shared`: other blocks that
    /// have these values are kept too, so that they may be held for all.
    pub(crate) fn of_codes(
        values: &ArrayRef,
        codes: Vec<u16>,
        nulls: Option<NullBuffer>,
        shared: bool,
    ) -> Result<Coded> {
        let known = values.len();
        if codes.len() >= LEAST_ROWS
            && has_codes(values.data_type())
            && let Some(used) = used_codes(&codes, known)
        {
            let (values, ranks) = ascending(&take(values, &used, None)?)?;
            let mut short = vec![0; known];
            used.values().iter().zip(ranks).for_each(|(code, rank)| short[*code as usize] = rank);
            let names = with_codes(short, values, None)?;
            return Ok(Coded::Array(take(&names, &UInt16Array::new(codes.into(), nulls), None)?));
        }
        let codes = UInt16Array::new(codes.into(), nulls);
        // Numbers of 64 bits may be steps, which a range finds its rows in without looking at each.
        if shared && !may_be_steps(values.data_type()) {
            return Ok(Coded::Shared { values: Arc::clone(values), codes });
        }
        let array = take(values, &codes, None)?;
        Ok(steps(&array)?.unwrap_or(Coded::Array(array)))
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Coded::Array(array) => array.get_array_memory_size(),
            Coded::Steps { offsets, .. } => offsets.len() * 2 + size_of::<Coded>(),
            // Each block counts its part of what all of a row group share.
            Coded::Shared { values, codes } => {
                codes.get_array_memory_size() + values.get_array_memory_size() / SHARING + size_of::<Coded>()
            }
        }
    }

    /// Some rows; codes stay codes.
    pub(crate) fn slice(&self, offset: usize, length: usize) -> Result<ArrayRef> {
        match self {
            Coded::Array(array) if length == array.len() => Ok(Arc::clone(array)),
            Coded::Array(array) => Ok(array.slice(offset, length)),
            Coded::Steps { ty, base, unit, offsets, .. } => {
                let of = |step: &u16| base + unit * i64::from(*step);
                let numbers: Vec<i64> = offsets[offset..offset + length].iter().map(of).collect();
                typed(Int64Array::from(numbers), ty)
            }
            Coded::Shared { values, codes } => named(values, &codes.slice(offset, length)),
        }
    }
}

/// What codes stand for.
fn named(values: &ArrayRef, codes: &UInt16Array) -> Result<ArrayRef> {
    match values.as_primitive_opt::<Float64Type>() {
        // `take` makes wider codes of them first.
        Some(floats) if floats.null_count() == 0 => {
            let floats: &[f64] = floats.values();
            let value = |code: &u16| floats.get(usize::from(*code)).copied().unwrap_or_default();
            let found: Vec<f64> = codes.values().iter().map(value).collect();
            Ok(Arc::new(Float64Array::new(found.into(), codes.nulls().cloned())))
        }
        _ => Ok(take(values, codes, None)?),
    }
}

fn typed(numbers: Int64Array, ty: &DataType) -> Result<ArrayRef> {
    let data = numbers.into_data().into_builder().data_type(ty.clone()).build();
    data.map(make_array).map_err(|error| Error::internal(format!("numbers could not be given their type: {error}")))
}

fn may_be_steps(ty: &DataType) -> bool {
    matches!(ty, DataType::Int64 | DataType::Timestamp(TimeUnit::Microsecond, _))
}

fn steps(array: &ArrayRef) -> Result<Option<Coded>> {
    let ty = array.data_type();
    if !may_be_steps(ty) || array.null_count() > 0 {
        return Ok(None);
    }
    let numbers = typed_numbers(array)?;
    let Some((base, unit)) = base_and_unit(numbers.values()) else { return Ok(None) };
    let offsets = offsets(numbers.values(), base, unit);
    let slopes = Slopes::of(&offsets);
    Ok(Some(Coded::Steps { ty: ty.clone(), base, unit, offsets, slopes }))
}

/// The least of the numbers, and the greatest unit that all are a multiple of away from it; `None` if the greatest is
/// more units away than an offset can say.
fn base_and_unit(numbers: &[i64]) -> Option<(i64, i64)> {
    let (first, rest) = numbers.split_first()?;
    let (mut least, mut greatest, mut unit) = (*first, *first, 0u64);
    // Differences may wrap around, but then so does the range, which is refused.
    let (mut before, mut last) = (*first, 0i64);
    let mut recent = Recent::default();
    for stretch in rest.chunks(STRETCH) {
        if let Some(end) = straight(before, last, stretch) {
            (before, least, greatest) = (end, least.min(end), greatest.max(end));
            continue;
        }
        for number in stretch {
            let difference = number.wrapping_sub(before);
            (before, least, greatest) = (*number, least.min(*number), greatest.max(*number));
            last = difference;
            if unit != 1 && recent.get(difference).is_none() {
                unit = common_divisor(unit, difference.unsigned_abs());
                recent.put(difference, 0);
            }
        }
        if greatest.wrapping_sub(least) as u64 >> u16::BITS > unit {
            return None;
        }
    }
    let unit = unit.max(1) as i64;
    let range = greatest.checked_sub(least)?;
    (range / unit <= i64::from(u16::MAX)).then_some((least, unit))
}

/// How many units each number is away from the base.
fn offsets(numbers: &[i64], base: i64, unit: i64) -> Vec<u16> {
    if unit == 1 {
        return numbers.iter().map(|number| (number - base) as u16).collect();
    }
    let mut offsets = vec![0u16; numbers.len()];
    // A division for each difference that did not come lately.
    let (mut before, mut at) = (base, 0u16);
    let mut recent = Recent::default();
    for (offset, number) in offsets.iter_mut().zip(numbers) {
        let difference = number - before;
        let step = recent.get(difference).unwrap_or_else(|| {
            let step = (difference / unit) as u16;
            recent.put(difference, step);
            step
        });
        (before, at) = (*number, at.wrapping_add(step));
        *offset = at;
    }
    offsets
}

/// The last few differences, and what was computed of each: of times there are mostly two or three, and a division takes
/// as long as all else. Of no difference it is 0.
#[derive(Default)]
struct Recent {
    differences: [i64; 4],
    steps: [u16; 4],
    next: usize,
}

impl Recent {
    fn get(&self, difference: i64) -> Option<u16> {
        let at = self.differences.iter().position(|known| *known == difference)?;
        Some(self.steps[at])
    }

    fn put(&mut self, difference: i64, step: u16) {
        (self.differences[self.next], self.steps[self.next]) = (difference, step);
        self.next = (self.next + 1) % self.differences.len();
    }
}

/// The last of numbers that go on from the one before by one difference; `None` if they do not.
fn straight(before: i64, difference: i64, numbers: &[i64]) -> Option<i64> {
    let (first, last) = (numbers.first()?, numbers.last()?);
    // Without a branch for each pair the loop is one of wide instructions.
    let bent = numbers.windows(2).fold(0, |bent, pair| bent | (pair[1].wrapping_sub(pair[0]) ^ difference));
    // Numbers that wrap around would not end where they should.
    let end = difference.checked_mul(numbers.len() as i64).and_then(|sum| before.checked_add(sum));
    (bent == 0 && first.wrapping_sub(before) == difference && end == Some(*last)).then_some(*last)
}

fn typed_numbers(array: &ArrayRef) -> Result<Int64Array> {
    let data = array.to_data().into_builder().data_type(DataType::Int64).build();
    data.map(Int64Array::from).map_err(|error| Error::internal(format!("a column is not of numbers: {error}")))
}

fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Codes into the distinct values, if these are few.
fn dictionary(array: &ArrayRef) -> Result<Option<ArrayRef>> {
    let found = match array.data_type() {
        DataType::Float64 => primitive::<Float64Type, u64>(array, f64::to_bits, |v| v as i64, |n| n as f64),
        DataType::Float32 => primitive::<Float32Type, u32>(array, f32::to_bits, |v| v as i64, |n| n as f32),
        DataType::Int8 => primitive::<Int8Type, i8>(array, |v| v, i64::from, |n| n as i8),
        DataType::Int16 => primitive::<Int16Type, i16>(array, |v| v, i64::from, |n| n as i16),
        DataType::Int32 => primitive::<Int32Type, i32>(array, |v| v, i64::from, |n| n as i32),
        DataType::Int64 => primitive::<Int64Type, i64>(array, |v| v, |v| v, |n| n),
        DataType::Date32 => primitive::<Date32Type, i32>(array, |v| v, i64::from, |n| n as i32),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            primitive::<TimestampMicrosecondType, i64>(array, |v| v, |v| v, |n| n)
        }
        DataType::Utf8View => {
            let texts = array.as_string_view();
            codes(texts.views().iter().copied(), |row| texts.value(row), array.nulls())
        }
        DataType::BinaryView => {
            let blobs = array.as_binary_view();
            codes(blobs.views().iter().copied(), |row| blobs.value(row), array.nulls())
        }
        _ => None,
    };
    found.map(|found| ascending_of(array, found)).transpose()
}

/// The codes of ascending values of an array.
fn ascending_of(array: &ArrayRef, (mut codes, firsts): Codes) -> Result<ArrayRef> {
    let (values, ranks) = ascending(&take(array, &UInt32Array::from(firsts), None)?)?;
    codes.iter_mut().for_each(|code| *code = ranks[usize::from(*code)]);
    with_codes(codes, values, array.nulls().cloned())
}

/// The codes that occur, of so many, ascending; `None` if they are more than a byte can name.
fn used_codes(codes: &[u16], known: usize) -> Option<UInt32Array> {
    let mut used = vec![false; known];
    for part in codes.chunks(LOOKS) {
        part.iter().for_each(|code| used[usize::from(*code)] = true);
        if known > MOST_VALUES && used.iter().filter(|used| **used).count() > MOST_VALUES {
            return None;
        }
    }
    Some((0..known as u32).filter(|code| used[*code as usize]).collect())
}

/// Whether columns of a type may have codes: every reader of codes knows these.
fn has_codes(ty: &DataType) -> bool {
    use DataType::{BinaryView, Date32, Float32, Float64, Int8, Int16, Int32, Int64, Timestamp, Utf8View};
    matches!(
        ty,
        Float64
            | Float32
            | Int8
            | Int16
            | Int32
            | Int64
            | Date32
            | Utf8View
            | BinaryView
            | Timestamp(TimeUnit::Microsecond, _)
    )
}

/// Distinct values, ascending, and the place there of each: so a reader finds the greatest of many rows by their codes.
fn ascending(values: &ArrayRef) -> Result<(ArrayRef, [u8; MOST_VALUES])> {
    let order = sort_to_indices(values, None, None)?;
    let mut ranks = [0; MOST_VALUES];
    order.values().iter().zip(0..=u8::MAX).for_each(|(from, to)| ranks[*from as usize] = to);
    Ok((compact(take(values, &order, None)?), ranks))
}

fn with_codes(codes: Vec<u8>, values: ArrayRef, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    Ok(Arc::new(DictionaryArray::try_new(UInt8Array::new(codes.into(), nulls), values)?))
}

/// Arrays of one type one after another. Codes stay codes where one byte can name all values of the arrays, some twice.
///
/// # Errors
/// XX000 for arrays of several types.
pub(crate) fn concat_coded(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    if let Some(joined) = joined_codes(arrays)? {
        return Ok(joined);
    }
    let arrays = arrays.iter().map(decoded).collect::<Result<Vec<_>>>()?;
    Ok(concat(&arrays.iter().map(ArrayRef::as_ref).collect::<Vec<_>>())?)
}

fn joined_codes(arrays: &[ArrayRef]) -> Result<Option<ArrayRef>> {
    let coded: Option<Vec<_>> = arrays.iter().map(|array| array.as_dictionary_opt::<UInt8Type>()).collect();
    let Some(coded) = coded else { return Ok(None) };
    // Stretches of one block have the same values.
    let mut named: Vec<(&ArrayRef, usize)> = Vec::new();
    let mut known = 0;
    for values in coded.iter().map(|array| array.values()) {
        if !named.iter().any(|(other, _)| Arc::ptr_eq(other, values)) {
            named.push((values, known));
            known += values.len();
        }
    }
    if known > MOST_JOINED {
        return Ok(None);
    }
    let all = concat(&named.iter().map(|(values, _)| values.as_ref()).collect::<Vec<_>>())?;
    let (values, codes): (ArrayRef, Vec<u8>) = match named.as_slice() {
        // Texts that stand twice cost less than to compare them all.
        _ if named.len() == 1 || known <= MOST_VALUES && !all.data_type().is_primitive() => {
            (all, (0..=u8::MAX).take(known).collect())
        }
        _ => match dictionary(&all)? {
            Some(merged) => {
                let merged = merged.as_dictionary::<UInt8Type>();
                (Arc::clone(merged.values()), merged.keys().values().to_vec())
            }
            None => return Ok(None),
        },
    };
    let rows = coded.iter().map(|array| array.len()).sum();
    let (mut places, mut valid) = (Vec::with_capacity(rows), NullBufferBuilder::new(rows));
    for array in &coded {
        let first = named.iter().find(|(other, _)| Arc::ptr_eq(other, array.values())).map_or(0, |(_, first)| *first);
        let first = u16::try_from(first).map_err(|_| Error::internal("too many values to be joined"))?;
        places.extend(array.keys().values().iter().map(|code| first + u16::from(*code)));
        match array.nulls() {
            Some(nulls) => valid.append_buffer(nulls),
            None => valid.append_n_non_nulls(array.len()),
        }
    }
    let nulls = valid.finish();
    if rows < known {
        let code = |place: &u16| codes.get(usize::from(*place)).copied().unwrap_or_default();
        return with_codes(places.iter().map(code).collect(), values, nulls).map(Some);
    }
    // Each code of an array made of codes is checked; of one that is taken none is.
    let names = with_codes(codes, values, None)?;
    Ok(Some(take(&names, &UInt16Array::new(places.into(), nulls), None)?))
}

/// Views of distinct values in buffers of their own: else a few words would hold a whole page in memory.
fn compact(values: ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Utf8View => Arc::new(values.as_string_view().gc()),
        DataType::BinaryView => Arc::new(values.as_binary_view().gc()),
        _ => values,
    }
}

/// `number` of a value and the `value` of a number need agree for whole numbers only; `key` tells values apart.
fn primitive<P: ArrowPrimitiveType, K: Copy + Eq + Hash>(
    array: &ArrayRef,
    key: impl Fn(P::Native) -> K,
    number: impl Fn(P::Native) -> i64,
    value: impl Fn(i64) -> P::Native,
) -> Option<Codes> {
    whole_codes::<P, K>(array, &key, number, value).or_else(|| {
        let array: &PrimitiveArray<P> = array.as_primitive_opt()?;
        let values = array.values();
        codes(values.iter().map(|value| key(*value)), |row| key(values[row]), array.nulls())
    })
}

/// As [`primitive`], of whole numbers near each other only.
fn whole_codes<P: ArrowPrimitiveType, K: Copy + Eq + Hash>(
    array: &ArrayRef,
    key: impl Fn(P::Native) -> K,
    number: impl Fn(P::Native) -> i64,
    value: impl Fn(i64) -> P::Native,
) -> Option<Codes> {
    let array: &PrimitiveArray<P> = array.as_primitive_opt()?;
    let whole = |v: P::Native| Some(number(v)).filter(|number| key(value(*number)) == key(v));
    table_codes(array.values(), whole, array.nulls())
}

/// As [`codes`], of whole numbers near each other: a table indexed by the number takes the place of a hash map.
fn table_codes<T: Copy>(values: &[T], whole: impl Fn(T) -> Option<i64>, nulls: Option<&NullBuffer>) -> Option<Codes> {
    let first = nulls.map_or(Some(0), |nulls| nulls.valid_indices().next())?;
    let least = whole(*values.get(first)?)?.wrapping_sub(TABLE as i64 / 2);
    let mut rows = [u32::MAX; TABLE];
    let mut places = Vec::with_capacity(values.len());
    for (row, value) in values.iter().enumerate() {
        if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            places.push(0);
            continue;
        }
        let place = usize::try_from(whole(*value)?.wrapping_sub(least)).ok()?;
        *rows.get_mut(place)? = row as u32;
        places.push(place as u16);
    }
    let (least, greatest) = (places.iter().min().copied()?, places.iter().max().copied()?);
    let present: Vec<usize> =
        (usize::from(least)..=usize::from(greatest)).filter(|place| rows[*place] != u32::MAX).collect();
    if present.len() > MOST_VALUES {
        return None;
    }
    let mut table = [0u8; TABLE];
    present.iter().zip(0..=u8::MAX).for_each(|(place, code)| table[*place] = code);
    let codes = places.iter().map(|place| table[usize::from(*place)]).collect();
    Some((codes, present.iter().map(|place| rows[*place]).collect()))
}

/// For each row the code of its value, and for each value a row that has it.
type Codes = (Vec<u8>, Vec<u32>);

/// Codes of values that `key` tells apart. Where one of `looks` equals that of the row before, so do their values.
fn codes<T: Eq, K: Eq + Hash>(
    looks: impl ExactSizeIterator<Item = T>,
    key: impl Fn(usize) -> K,
    nulls: Option<&NullBuffer>,
) -> Option<Codes> {
    let mut numbers: HashMap<K, u8, FixedState> = HashMap::with_capacity_and_hasher(MOST_VALUES, FixedState::default());
    let mut firsts: Vec<u32> = Vec::new();
    let mut codes = Vec::with_capacity(looks.len());
    let mut last: Option<(T, u8)> = None;
    for (row, look) in looks.enumerate() {
        if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            codes.push(0);
            continue;
        }
        let code = match last {
            Some((known, code)) if known == look => code,
            _ => {
                let key = key(row);
                match numbers.get(&key) {
                    Some(code) => *code,
                    None if firsts.len() == MOST_VALUES => return None,
                    None => {
                        let code = firsts.len() as u8;
                        numbers.insert(key, code);
                        firsts.push(row as u32);
                        code
                    }
                }
            }
        };
        last = Some((look, code));
        codes.push(code);
    }
    // All null: one value, the null itself.
    if firsts.is_empty() {
        firsts.push(0);
    }
    Some((codes, firsts))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int8Array, StringViewArray, TimestampMicrosecondArray};

    use super::*;
    use crate::random::Random;

    fn back(array: ArrayRef) -> (Coded, ArrayRef) {
        let rows = array.len();
        let coded = Coded::new(array).expect("codes");
        let whole = coded.slice(0, rows).expect("slices");
        (coded, decoded(&whole).expect("values"))
    }

    #[test]
    fn few_values_become_codes_and_come_back() {
        let numbers: Float64Array = (0..4096).map(|n| (n % 7 != 0).then_some(f64::from(n % 100))).collect();
        let (coded, same) = back(Arc::new(numbers.clone()));
        assert!(coded.bytes() < 8_000, "{}", coded.bytes());
        assert_eq!(same.as_primitive::<Float64Type>(), &numbers);
        let long = "a value longer than twelve bytes";
        let words: StringViewArray = (0..4096).map(|n| Some(if n < 2048 { "short" } else { long })).collect();
        let (coded, same) = back(Arc::new(words.clone()));
        assert!(coded.bytes() < 8_000, "{}", coded.bytes());
        assert_eq!(same.as_string_view(), &words);
        let part = coded.slice(2047, 2).expect("slices");
        assert_eq!(
            decoded(&part).expect("values").as_string_view().iter().collect::<Vec<_>>(),
            [Some("short"), Some(long)]
        );
    }

    #[test]
    fn as_many_values_as_a_byte_can_name_are_coded_and_no_more() {
        for (values, coded) in [(256, true), (257, false)] {
            let distinct: Vec<f64> = (0..values).map(|number| (number as f64).sqrt()).collect();
            let numbers = Float64Array::from_iter_values((0..4096).map(|row| distinct[row * 31 % values]));
            let (stored, same) = back(Arc::new(numbers.clone()));
            assert_eq!((same.as_primitive::<Float64Type>(), stored.bytes() < 8_000), (&numbers, coded), "{values}");
        }
    }

    #[test]
    fn whole_numbers_near_each_other_and_others_come_back_to_the_bit() {
        let odd = [0.0, -0.0, f64::NAN, f64::INFINITY, 1e300, 0.5];
        for (base, strange) in [(0.0, 0), (-2000.0, 0), (4e15, 0), (-50.0, 1), (7.0, odd.len())] {
            let value = |row: usize| match row % 97 {
                at if at < strange => odd[(at + strange) % odd.len()],
                at => base + ((at * 37) % 90) as f64,
            };
            let numbers: Float64Array = (0..4096).map(|row| (row % 5 != 0).then(|| value(row))).collect();
            for numbers in [numbers, Float64Array::from_iter_values((0..4096).map(value))] {
                let (coded, same) = back(Arc::new(numbers.clone()));
                assert!(coded.bytes() < 8_000, "{}", coded.bytes());
                let bits = |array: &Float64Array| array.iter().map(|v| v.map(f64::to_bits)).collect::<Vec<_>>();
                assert_eq!(bits(same.as_primitive()), bits(&numbers), "{base} {strange}");
                let Coded::Array(array) = coded else { panic!("no array") };
                let values: &Float64Array = array.as_any_dictionary().values().as_primitive();
                assert!(values.values().is_sorted_by(|a, b| a.total_cmp(b).is_lt()), "{values:?}");
            }
        }
        let bytes: Int8Array = (0..4096).map(|row| Some((row % 256) as u8 as i8)).collect();
        assert_eq!(back(Arc::new(bytes.clone())).1.as_primitive::<Int8Type>(), &bytes);
    }

    #[test]
    fn codes_of_a_row_group_stay_where_they_name_many_values() {
        let nulls = |rows: usize| NullBuffer::from((0..rows).map(|row| row % 5 != 3).collect::<Vec<bool>>());
        let texts: StringViewArray = (0..1000).map(|n| Some(format!("number {n} of a thousand"))).collect();
        let values: ArrayRef = Arc::new(texts);
        for (distinct, shared) in [(1000, true), (1000, false), (100, true), (100, false)] {
            let codes: Vec<u16> = (0..4096u16).map(|row| 999 - row * 7 % distinct).collect();
            let rows = UInt16Array::new(codes.clone().into(), Some(nulls(4096)));
            let expected = take(&values, &rows, None).expect("values");
            let coded = Coded::of_codes(&values, codes, Some(nulls(4096)), shared).expect("codes");
            assert_eq!(matches!(coded, Coded::Shared { .. }), shared && distinct > 256);
            assert_eq!(&decoded(&coded.slice(0, 4096).expect("slices")).expect("values"), &expected);
            let part = decoded(&coded.slice(1000, 77).expect("slices")).expect("values");
            assert_eq!(&part, &expected.slice(1000, 77));
            assert!(shared <= (coded.bytes() < 16_000), "{}", coded.bytes());
        }
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..1000).map(|n| n * 60)));
        let steps = Coded::of_codes(&numbers, (0..1000).collect(), None, true).expect("codes");
        assert!(matches!(steps, Coded::Steps { unit: 60, .. }), "{steps:?}");
    }

    #[test]
    fn even_steps_take_two_bytes_whatever_their_order() {
        let times = (0..4096i64).map(|n| 1_700_000_000_000_000 + (n * 37 % 4000) * 10_000_000);
        let times = TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC");
        let (coded, same) = back(Arc::new(times.clone()));
        assert!(matches!(coded, Coded::Steps { unit: 10_000_000, .. }));
        assert_eq!(same.as_primitive::<TimestampMicrosecondType>(), &times);
    }

    #[test]
    fn numbers_straight_and_bent_come_back() {
        let mut random = Random::new(21);
        for round in 0..300 {
            let unit = [1, 7, 10_000_000, -10_000_000][round % 4];
            let mut number = random.below(1 << 40) as i64;
            let mut next = || {
                let steps = if random.below(200) < round as u64 { random.below(40) as i64 - 20 } else { 1 };
                number += unit * steps;
                number
            };
            let numbers = Int64Array::from_iter_values((0..1000 + round as i64).map(|_| next()));
            let (coded, same) = back(Arc::new(numbers.clone()));
            assert_eq!(same.as_primitive::<Int64Type>(), &numbers, "{round}");
            assert!(matches!(coded, Coded::Steps { .. }), "{round}");
        }
    }

    #[test]
    fn many_values_stay_as_they_are_and_extremes_do_not_overflow() {
        let around = Int64Array::from_iter_values((0..4096i64).map(|n| (n << 62).wrapping_add(5)));
        assert_eq!(back(Arc::new(around.clone())).1.as_primitive::<Int64Type>(), &around);
        let many: Float64Array = (0..4096).map(|n| Some(f64::from(n) * 0.3)).collect();
        let (coded, same) = back(Arc::new(many.clone()));
        assert!(matches!(&coded, Coded::Array(array) if array.data_type() == &DataType::Float64));
        assert_eq!(same.as_primitive::<Float64Type>(), &many);
        let wide: Int64Array = (0..4096).map(|n| Some(if n % 2 == 0 { i64::MIN } else { i64::MAX - n })).collect();
        assert_eq!(back(Arc::new(wide.clone())).1.as_primitive::<Int64Type>(), &wide);
        let same_number = Int64Array::from(vec![i64::MAX; 100]);
        assert_eq!(back(Arc::new(same_number.clone())).1.as_primitive::<Int64Type>(), &same_number);
        let nothing = Float64Array::new_null(100);
        assert_eq!(back(Arc::new(nothing.clone())).1.as_primitive::<Float64Type>(), &nothing);
    }

    #[test]
    fn codes_one_after_another_stay_codes_while_a_byte_can_name_their_values() {
        let numbers = |from: i32, distinct: i32, null: i32| -> ArrayRef {
            let number = |n: i32| (n != null).then(|| f64::from(from + n % distinct));
            let coded = Coded::new(Arc::new((0..400).map(number).collect::<Float64Array>())).expect("codes");
            coded.slice(0, 400).expect("slices")
        };
        let texts = |from: i32| -> ArrayRef {
            let texts: StringViewArray = (0..400).map(|n| Some(format!("text {}", from + n % 100))).collect();
            Coded::new(Arc::new(texts)).expect("codes").slice(0, 400).expect("slices")
        };
        let (few, others, many) = (numbers(0, 100, -1), numbers(50, 150, 7), numbers(1000, 200, -1));
        assert!([&few, &others, &many].iter().all(|array| array.as_dictionary_opt::<UInt8Type>().is_some()));
        for (parts, stays) in [
            (vec![few.clone(), others.clone()], true),
            (vec![few.slice(3, 90), few.slice(200, 1), few.clone()], true),
            (vec![few.clone(), few.slice(3, 90), numbers(20, 150, 9), others.clone()], true),
            (vec![texts(0), texts(100), texts(0)], true),
            (vec![texts(0), texts(100), texts(200)], false),
            (vec![few.slice(0, 5), others.slice(0, 20), many.clone()], false),
            (vec![few.slice(0, 5), decoded(&others).expect("values")], false),
        ] {
            let joined = concat_coded(&parts).expect("one type");
            assert_eq!(joined.as_dictionary_opt::<UInt8Type>().is_some(), stays);
            let plain: Vec<ArrayRef> = parts.iter().map(|part| decoded(part).expect("values")).collect();
            let plain = concat(&plain.iter().map(ArrayRef::as_ref).collect::<Vec<_>>()).expect("one type");
            assert_eq!(&decoded(&joined).expect("values"), &plain);
        }
    }
}
