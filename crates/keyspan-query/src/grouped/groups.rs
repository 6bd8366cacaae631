//! The groups found so far: each a number, found by its values.
//!
//! A value is one word ([`values`]). So a group's values are a few words, compared and hashed as such.

mod combinations;
mod interner;
mod near;
mod values;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, BooleanBufferBuilder, Decimal128Array, FixedSizeBinaryArray, Float64Array, Int64Array,
    StringViewArray, TimestampMicrosecondArray,
};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{SortColumn, SortOptions, cast, lexsort_to_indices};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::HashMap;
use datafusion::error::{DataFusionError, Result};

pub(super) use self::combinations::Numbered;
use self::combinations::{Combinations, UNKNOWN};
pub(super) use self::interner::Interner;
use self::near::Near;
pub(crate) use self::values::Values;
pub(super) use self::values::{Column, out_of_range};
use crate::functions::step::Step;

/// Most columns of a group.
pub(crate) const MOST_PARTS: usize = 6;
/// The word that says which parts are null, a bit for each.
const NULLS: usize = MOST_PARTS;
/// Rows of a batch whose groups were not guessed, after which no more is guessed if they are the most.
const SURPRISES: usize = 64;
/// Average rows of a run below which each row is looked at on its own.
const SHORT_RUN: usize = 8;

/// Groups from which on it is asked whether they are many: where rows are hashed, and where they have places.
const MANY: usize = 10_000;
const MANY_BY_PLACE: usize = 100_000;
/// Rows of a group, on average, below which groups are many.
const ROWS_OF_A_GROUP: usize = 16;

/// A group's values as words; those beyond its parts, and of parts that are null, are zero.
pub(super) type Words = [u64; MOST_PARTS + 1];

/// One expression of GROUP BY.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) value: PartValue,
    /// Name and type.
    pub(crate) field: FieldRef,
}

/// What a part is of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartValue {
    /// The input of this place.
    Input(usize),
    /// The begin of the step into which the time of this place falls.
    Step(usize, Step),
    /// Not of a row: which grouping set it is counted in ([`GroupingSet`]).
    Set,
}

/// One of several sets of parts that rows are grouped by: the others are null in its groups.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupingSet {
    /// A bit for each part that is null.
    pub(super) nulls: u64,
    /// What its groups have in the part that tells the sets apart.
    pub(super) number: u64,
}

/// Rows of a batch that stand together and are of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) group: usize,
    pub(crate) rows: Range<usize>,
}

/// The groups of a batch's rows.
#[derive(Debug)]
pub(crate) enum RowGroups {
    /// Runs of rows; those between them are of none.
    Runs(Vec<Run>),
    /// All rows in runs whose first row is of the run's group, the second of the group after that, and so on: several
    /// series have the same times.
    Ascending(Vec<Run>),
    /// The group of each row.
    Rows(Vec<usize>),
}

impl RowGroups {
    /// Whether no row is of a group.
    pub(super) fn are_none(&self) -> bool {
        match self {
            RowGroups::Runs(runs) | RowGroups::Ascending(runs) => runs.is_empty(),
            RowGroups::Rows(groups) => groups.is_empty(),
        }
    }

    /// The group of each of so many rows, and which rows are of one, if not all.
    pub(crate) fn of_each(&self, rows: usize) -> (Cow<'_, [usize]>, Option<BooleanBuffer>) {
        let runs = match self {
            RowGroups::Runs(runs) => runs,
            RowGroups::Ascending(runs) => {
                return (runs.iter().flat_map(|run| run.group..run.group + run.rows.len()).collect(), None);
            }
            RowGroups::Rows(groups) => return (Cow::Borrowed(groups), None),
        };
        let mut groups = vec![0; rows];
        let mut within = BooleanBufferBuilder::new(rows);
        for Run { group, rows } in runs {
            groups[rows.clone()].fill(*group);
            within.append_n(rows.start - within.len(), false);
            within.append_n(rows.len(), true);
        }
        within.append_n(rows - within.len(), false);
        let within = Some(within.finish()).filter(|within| within.count_set_bits() < rows);
        (Cow::Owned(groups), within)
    }
}

/// Whether groups can be made of values of this type.
pub(crate) fn supports(ty: &DataType) -> bool {
    is_ranked(ty) || matches!(ty, DataType::Float32 | DataType::Float64 | DataType::Decimal128(..))
}

/// Whether the order of words, and of what they name, is that of values of this type.
pub(super) fn is_ranked(ty: &DataType) -> bool {
    let whole = matches!(ty, DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Boolean);
    whole
        || matches!(ty, DataType::Date32 | DataType::Timestamp(..) | DataType::Utf8View | DataType::FixedSizeBinary(_))
}

/// The numbers of groups by their words: of one or two parts, of which most are, by no more than these have.
#[derive(Debug)]
enum Numbers {
    One {
        numbers: HashMap<u64, usize>,
        null: Option<usize>,
    },
    /// Two words, and which are null.
    Two(HashMap<(u64, u64, u64), usize>),
    Several(HashMap<Words, usize>),
}

impl Numbers {
    /// Of groups of so many parts.
    fn of(parts: usize) -> Numbers {
        match parts {
            1 => Numbers::One { numbers: HashMap::default(), null: None },
            2 => Numbers::Two(HashMap::default()),
            _ => Numbers::Several(HashMap::default()),
        }
    }

    /// The number of the group with these words: `next` if it is new.
    fn number(&mut self, words: &Words, next: usize) -> usize {
        match self {
            Numbers::One { null, .. } if words[NULLS] != 0 => *null.get_or_insert(next),
            Numbers::One { numbers, .. } => *numbers.entry(words[0]).or_insert(next),
            Numbers::Two(numbers) => *numbers.entry((words[0], words[1], words[NULLS])).or_insert(next),
            Numbers::Several(numbers) => *numbers.entry(*words).or_insert(next),
        }
    }

    /// Bytes in memory, about.
    fn bytes(&self) -> usize {
        match self {
            Numbers::One { numbers, .. } => numbers.capacity() * (size_of::<(u64, usize)>() + 1),
            Numbers::Two(numbers) => numbers.capacity() * (4 * size_of::<u64>() + 1),
            Numbers::Several(numbers) => numbers.capacity() * (size_of::<(Words, usize)>() + 1),
        }
    }
}

/// The groups found so far.
#[derive(Debug)]
pub(crate) struct Groups {
    parts: Arc<[Part]>,
    kept: Vec<Interner>,
    numbers: Numbers,
    combinations: Combinations,
    near: Near,
    words: Vec<Words>,
    /// Of each group the one that came after it last: series have the same times, one after another.
    next: Vec<usize>,
    /// Whether groups of the last batch's rows were found by hashing each row's values.
    hashed: bool,
}

impl Groups {
    pub(crate) fn new(parts: Arc<[Part]>) -> Groups {
        let kept = parts.iter().map(|_| Interner::default()).collect();
        let numbers = Numbers::of(parts.len());
        let (combinations, near) = (Combinations::default(), Near::default());
        Groups { parts, kept, numbers, combinations, near, words: Vec::new(), next: Vec::new(), hashed: false }
    }

    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether there are so many groups in so few rows that looking them up one by one takes longer than hashing whole
    /// batches on all cores.
    pub(super) fn are_many(&self, rows: usize) -> bool {
        let most = if self.hashed { MANY } else { MANY_BY_PLACE };
        self.len() > most && rows / self.len() < ROWS_OF_A_GROUP
    }

    /// Bytes in memory, about.
    pub(crate) fn bytes(&self) -> usize {
        let texts: usize = self.kept.iter().map(Interner::bytes).sum();
        let of_words = self.words.capacity() * (size_of::<Words>() + size_of::<usize>());
        of_words + self.numbers.bytes() + self.combinations.bytes() + self.near.bytes() + texts
    }

    /// The number of the group that this row belongs to.
    pub(super) fn of(&mut self, values: &Values, row: usize) -> Result<usize> {
        let mut words = Words::default();
        for (part, (column, kept)) in values.columns.iter().zip(&mut self.kept).enumerate() {
            match column.word(row, kept)? {
                Some(word) => words[part] = word,
                None => words[NULLS] |= 1 << part,
            }
        }
        Ok(self.number(words))
    }

    /// The groups of rows in whatever order they come.
    pub(crate) fn of_rows(&mut self, values: Values, rows: usize) -> Result<RowGroups> {
        self.hashed = false;
        if let Some(runs) = values.long_runs(rows) {
            let run = |rows: Range<usize>| Ok(Run { group: self.of(&values, rows.start)?, rows });
            return Ok(RowGroups::Runs(runs.into_iter().map(run).collect::<Result<_>>()?));
        }
        if let Some(places) = self.combinations.places(&values, &mut self.kept, rows)? {
            return self.of_places(&values, &places);
        }
        let columns =
            values.columns.into_iter().zip(&mut self.kept).map(|(column, kept)| column.with_words(kept, rows));
        let values = Values { columns: columns.collect::<Result<_>>()? };
        self.hashed = true;
        self.of_values(&values, rows)
    }

    /// Of rows with these places in the table of combinations.
    fn of_places(&mut self, values: &Values, places: &[u32]) -> Result<RowGroups> {
        let changes = places.windows(2).filter(|pair| pair[0] != pair[1]).count();
        if places.len() < SHORT_RUN * (changes + 1) {
            for (row, place) in places.iter().enumerate() {
                self.at_place(*place, values, row)?;
            }
            // A loop that cannot fail is a quick one.
            let groups = &self.combinations.groups;
            return Ok(RowGroups::Rows(places.iter().map(|place| groups[*place as usize] as usize).collect()));
        }
        let mut runs = Vec::with_capacity(changes + 1);
        for rows in stretches(places, PartialEq::eq) {
            runs.push(Run { group: self.at_place(places[rows.start], values, rows.start)?, rows });
        }
        Ok(RowGroups::Runs(runs))
    }

    /// The group of a row, which has this place.
    fn at_place(&mut self, place: u32, values: &Values, row: usize) -> Result<usize> {
        let known = self.combinations.groups[place as usize];
        if known != UNKNOWN {
            return Ok(known as usize);
        }
        let group = self.of(values, row)?;
        self.combinations.groups[place as usize] = group as u32;
        Ok(group)
    }

    fn of_values(&mut self, values: &Values, rows: usize) -> Result<RowGroups> {
        let mut groups: Vec<usize> = Vec::with_capacity(rows);
        let (mut changes, mut breaks) = (0, 0);
        let mut surprises = 0;
        while groups.len() < rows {
            let row = groups.len();
            let group = match groups.last() {
                // Where groups follow each other in no order it is in vain to guess.
                Some(_) if surprises > SURPRISES && surprises > row / 2 && self.near.holds(&values.numbers()) => {
                    self.of_near(values.numbers().unwrap_or_default(), &mut groups);
                    self.hashed = false;
                    changes += groups[row - 1..].windows(2).filter(|pair| pair[0] != pair[1]).count();
                    breaks += rows - row;
                    break;
                }
                Some(last) if surprises > SURPRISES && surprises > row / 2 => {
                    let group = self.of(values, row)?;
                    changes += usize::from(group != *last);
                    breaks += 1;
                    groups.push(group);
                    continue;
                }
                Some(last) => {
                    let (group, guessed) = self.behind(*last, values, row)?;
                    surprises += usize::from(!guessed);
                    changes += usize::from(group != *last);
                    breaks += usize::from(group != *last + 1);
                    group
                }
                None => self.of(values, row)?,
            };
            if groups.last() == Some(&group) {
                let more = values.same(row, rows);
                groups.extend(std::iter::repeat_n(group, 1 + more));
                breaks += more;
                continue;
            }
            let more = self.ascending(group + 1, values, row + 1..rows);
            groups.extend(group..=group + more);
            changes += more;
        }
        if rows >= SHORT_RUN * (breaks + 1) {
            return Ok(RowGroups::Ascending(runs(&groups, |a, b| *b == a + 1)));
        }
        if rows >= SHORT_RUN * (changes + 1) {
            return Ok(RowGroups::Runs(runs(&groups, PartialEq::eq)));
        }
        Ok(RowGroups::Rows(groups))
    }

    /// The groups of the rows behind those that have theirs, all of whole numbers.
    fn of_near(&mut self, numbers: &[i64], groups: &mut Vec<usize>) {
        for number in &numbers[groups.len()..] {
            let group = self.near.group(*number).unwrap_or_else(|| {
                let mut words = Words::default();
                words[0] = *number as u64;
                let group = self.number(words);
                self.near.note(*number, group);
                group
            });
            groups.push(group);
        }
    }

    /// How many rows are, one by one, of the groups from this one on; rows of more than one part are not looked at.
    fn ascending(&self, first: usize, values: &Values, rows: Range<usize>) -> usize {
        let Some(numbers) = values.numbers() else { return 0 };
        let groups = self.words.get(first..).unwrap_or_default();
        let is = |(number, words): &(&i64, &Words)| words[0] == **number as u64 && words[NULLS] == 0;
        numbers[rows].iter().zip(groups).take_while(is).count()
    }

    /// The group of a row behind one of this group: most likely the same, or the one that came behind it before. Whether
    /// it is one of these.
    fn behind(&mut self, last: usize, values: &Values, row: usize) -> Result<(usize, bool)> {
        let likely = [last, self.next[last]].into_iter().find(|group| self.holds(*group, values, row));
        if let Some(group) = likely {
            return Ok((group, true));
        }
        let group = self.of(values, row)?;
        self.next[last] = group;
        Ok((group, false))
    }

    /// Whether a row is of a group none of whose values is null.
    fn holds(&self, group: usize, values: &Values, row: usize) -> bool {
        let words = &self.words[group];
        let is = |((column, word), kept): ((&Column, &u64), &Interner)| column.is(row, *word, kept);
        words[NULLS] == 0 && values.columns.iter().zip(words).zip(&self.kept).all(is)
    }

    /// Makes the one group of all rows, if there was no row.
    pub(super) fn whole(&mut self) {
        self.number(Words::default());
    }

    fn number(&mut self, words: Words) -> usize {
        let next = self.words.len();
        let number = self.numbers.number(&words, next);
        if number == next {
            self.words.push(words);
            self.next.push(number);
        }
        number
    }

    /// Takes over another's groups: for each of them its number here.
    pub(super) fn join(&mut self, other: &Groups) -> Vec<usize> {
        self.join_as(other, |words| words)
    }

    /// Takes over another's groups as those of a grouping set; there is one of all rows although there was none.
    pub(super) fn join_set(&mut self, other: &Groups, set: &GroupingSet) -> Vec<usize> {
        let last = self.parts.len() - 1;
        let of_set = |mut words: Words| {
            words[NULLS] |= set.nulls;
            words[last] = set.number;
            for (part, word) in words[..last].iter_mut().enumerate() {
                *word = if has_bit(set.nulls, part) { 0 } else { *word };
            }
            words
        };
        if other.len() == 0 && (0..last).all(|part| has_bit(set.nulls, part)) {
            self.number(of_set(Words::default()));
        }
        self.join_as(other, of_set)
    }

    fn join_as(&mut self, other: &Groups, change: impl Fn(Words) -> Words) -> Vec<usize> {
        let moved: Vec<Vec<u64>> = other
            .kept
            .iter()
            .zip(&mut self.kept)
            .map(|(theirs, own)| theirs.values().map(|value| own.number(value)).collect())
            .collect();
        let here = |mut words: Words| {
            // Whole numbers are their own words: nothing of them is kept, nothing moves.
            for (part, moved) in moved.iter().enumerate() {
                if !moved.is_empty() && !has_bit(words[NULLS], part) {
                    words[part] = moved[words[part] as usize];
                }
            }
            words
        };
        other.words.iter().map(|words| self.number(change(here(*words)))).collect()
    }

    /// The groups' numbers in the order of these parts: (part, descending), nulls last.
    pub(super) fn sorted(&self, order: &[(usize, bool)]) -> Result<Vec<usize>> {
        if !order.iter().all(|(part, _)| self.is_ranked(*part)) {
            return self.sorted_values(order);
        }
        let ranks: Vec<Vec<u64>> = self.kept.iter().map(ranks).collect();
        let rank = |group: usize, part: usize| {
            let word = self.words[group][part];
            match ranks[part].is_empty() {
                true => (word as i64).wrapping_sub(i64::MIN) as u64,
                false => ranks[part][word as usize],
            }
        };
        let mut keyed: Vec<(Words, usize)> = (0..self.len())
            .map(|group| {
                let mut key = Words::default();
                for (slot, (part, descending)) in key.iter_mut().zip(order) {
                    let rank = rank(group, *part);
                    *slot = if *descending { !rank } else { rank };
                }
                (key, group)
            })
            .collect();
        keyed.sort_unstable();
        Ok(keyed.into_iter().map(|(_, group)| group).collect())
    }

    fn is_ranked(&self, part: usize) -> bool {
        is_ranked(self.parts[part].field.data_type()) && self.words.iter().all(|words| !has_bit(words[NULLS], part))
    }

    fn sorted_values(&self, order: &[(usize, bool)]) -> Result<Vec<usize>> {
        let all: Vec<usize> = (0..self.len()).collect();
        let column = |(part, descending): &(usize, bool)| {
            let options = Some(SortOptions { descending: *descending, nulls_first: false });
            Ok(SortColumn { values: self.column(*part, &all)?, options })
        };
        let columns = order.iter().map(column).collect::<Result<Vec<_>>>()?;
        Ok(lexsort_to_indices(&columns, None)?.values().iter().map(|group| *group as usize).collect())
    }

    /// Whether all rows are of one group, since there is no GROUP BY.
    pub(super) fn are_whole(&self) -> bool {
        self.parts.is_empty()
    }

    /// All groups; afterwards there are none.
    pub(super) fn take(&mut self) -> Groups {
        let none = Groups::new(self.parts.clone());
        std::mem::replace(self, none)
    }

    /// The values of all parts in these groups.
    pub(super) fn columns(&self, groups: &[usize]) -> Result<Vec<ArrayRef>> {
        (0..self.parts.len()).map(|part| self.column(part, groups)).collect()
    }

    /// The values of a part in these groups.
    fn column(&self, part: usize, groups: &[usize]) -> Result<ArrayRef> {
        let words = groups.iter().map(|group| {
            let words = &self.words[*group];
            (!has_bit(words[NULLS], part)).then_some(words[part])
        });
        let numbers = || words.clone().map(|word| word.map(|word| word as i64)).collect::<Int64Array>();
        let value = |word: u64| self.kept[part].value(word);
        let ty = self.parts[part].field.data_type();
        Ok(match ty {
            DataType::Utf8View => {
                let text = |word| std::str::from_utf8(value(word)).map_err(|e| DataFusionError::External(Box::new(e)));
                Arc::new(words.map(|word| word.map(text).transpose()).collect::<Result<StringViewArray>>()?)
            }
            DataType::FixedSizeBinary(bytes) => {
                let values = words.map(|word| word.map(value));
                Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, *bytes)?)
            }
            DataType::Decimal128(precision, scale) => {
                let digits = |word| i128::from_le_bytes(value(word).try_into().unwrap_or_default());
                let digits: Decimal128Array = words.map(|word| word.map(digits)).collect();
                Arc::new(digits.with_precision_and_scale(*precision, *scale)?)
            }
            DataType::Float32 | DataType::Float64 => {
                let numbers: Float64Array = words.map(|word| word.map(f64::from_bits)).collect();
                cast(&numbers, ty)?
            }
            DataType::Boolean => Arc::new(words.map(|word| word.map(|word| word != 0)).collect::<BooleanArray>()),
            DataType::Timestamp(_, zone) => {
                let times: TimestampMicrosecondArray = numbers().reinterpret_cast();
                Arc::new(times.with_timezone_opt(zone.clone()))
            }
            DataType::Date32 => cast(&cast(&numbers(), &DataType::Int32)?, ty)?,
            _ => cast(&numbers(), ty)?,
        })
    }
}

/// Where values stand together, each of which goes on from the one before it.
fn stretches<T>(values: &[T], goes_on: impl FnMut(&T, &T) -> bool) -> impl Iterator<Item = Range<usize>> {
    values.chunk_by(goes_on).scan(0, |start, together| {
        let rows = *start..*start + together.len();
        *start = rows.end;
        Some(rows)
    })
}

/// Runs of rows of these groups, each by the group of its first row.
fn runs(groups: &[usize], goes_on: impl FnMut(&usize, &usize) -> bool) -> Vec<Run> {
    stretches(groups, goes_on).map(|rows| Run { group: groups[rows.start], rows }).collect()
}

/// Whether the bit of a part is set.
fn has_bit(nulls: u64, part: usize) -> bool {
    nulls & 1 << part != 0
}

/// For each kept value its place among them, ascending by bytes.
fn ranks(kept: &Interner) -> Vec<u64> {
    let mut order: Vec<usize> = (0..kept.len()).collect();
    order.sort_unstable_by_key(|number| kept.value(*number as u64));
    let mut ranks = vec![0; order.len()];
    order.into_iter().enumerate().for_each(|(rank, number)| ranks[number] = rank as u64);
    ranks
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray, DictionaryArray, UInt8Array};
    use arrow::datatypes::Field;

    use super::*;

    #[test]
    fn rows_of_one_column_are_runs_series_or_neither() {
        let field = Arc::new(Field::new("n", DataType::Int64, true));
        let parts: Arc<[Part]> = Arc::new([Part { value: PartValue::Input(0), field }]);
        let mut groups = Groups::new(Arc::clone(&parts));
        let mut of = |numbers: Vec<Option<i64>>| {
            let array: ArrayRef = Arc::new(Int64Array::from(numbers));
            let values = Values::new(&parts, std::slice::from_ref(&array)).expect("numbers");
            let found = groups.of_rows(values, array.len()).expect("groups");
            let (each, among) = found.of_each(array.len());
            assert!(among.is_none(), "all rows are of a group");
            // A group is that of its first row.
            let named = groups.column(0, &each).expect("values");
            assert_eq!(&named, &array);
            found
        };
        let run = |group, rows| Run { group, rows };
        // A series, the same again but for a row, the rest of it behind another one, and what has runs of one value.
        let series = |from: i64, to: i64| (from..to).map(|n| Some(n * 10)).collect::<Vec<_>>();
        assert!(matches!(of(series(0, 40)), RowGroups::Ascending(runs) if runs == [run(0, 0..40)]));
        let without = [series(0, 15), series(16, 40)].concat();
        let expected = [run(0, 0..15), run(16, 15..39)];
        assert!(matches!(of(without), RowGroups::Ascending(runs) if runs == expected));
        let twice = [series(20, 40), series(0, 20)].concat();
        let expected = [run(20, 0..20), run(0, 20..40)];
        assert!(matches!(of(twice), RowGroups::Ascending(runs) if runs == expected));
        let values = [vec![Some(50); 20], vec![Some(60); 1], vec![Some(70); 19]].concat();
        let expected = [run(5, 0..20), run(6, 20..21), run(7, 21..40)];
        assert!(matches!(of(values), RowGroups::Runs(runs) if runs == expected));
        let mixed: Vec<Option<i64>> = (0..40).map(|n| Some(n * 7 % 40 * 10)).collect();
        assert!(matches!(of(mixed), RowGroups::Rows(_)));
        let with_nulls = [series(0, 20), vec![None; 3], series(0, 17)].concat();
        of(with_nulls);
        // A NULL is kept as zero, and is none.
        of([vec![None], series(0, 39)].concat());
        of(series(0, 40));
    }

    /// Codes into other values in each batch, and numbers that become too many for a table.
    #[test]
    fn groups_last_from_batch_to_batch() {
        let text = Arc::new(Field::new("t", DataType::Utf8View, true));
        let float = Arc::new(Field::new("f", DataType::Float64, true));
        for with_texts in [true, false] {
            let fields = if with_texts { vec![text.clone(), float.clone()] } else { vec![float.clone()] };
            let part = |(place, field): (usize, Arc<Field>)| Part { value: PartValue::Input(place), field };
            let parts: Arc<[Part]> = fields.into_iter().enumerate().map(part).collect();
            let mut groups = Groups::new(Arc::clone(&parts));
            let mut different = std::collections::HashSet::new();
            for batch in 0..60usize {
                let rows = 500 + batch * 7 % 90;
                let number = |row: usize| row.wrapping_mul(2_654_435_761).wrapping_add(batch * 97) >> 7;
                let known = 3 + batch * 4;
                let names: StringViewArray =
                    (0..known).map(|n| Some(format!("text {}", (n + batch * 5) % 290))).collect();
                let code = |row: usize| (number(row) % 11 > 0).then_some((number(row) % known) as u8);
                let codes: UInt8Array = (0..rows).map(code).collect();
                let codes: ArrayRef = Arc::new(DictionaryArray::new(codes, Arc::new(names)));
                // A few, then more than a table has places for, then a few again.
                let domain = [7, 20, 4_000, 90_000, 12][batch / 12];
                let float = |row: usize| (number(row) % 17 > 0).then_some((number(row) / 5 % domain) as f64 / 4.0);
                let floats: ArrayRef = Arc::new((0..rows).map(float).collect::<Float64Array>());
                let inputs = if with_texts { vec![codes, floats] } else { vec![floats] };
                let found = groups.of_rows(Values::new(&parts, &inputs).expect("values"), rows).expect("groups");
                let (each, _) = found.of_each(rows);
                let named = groups.columns(&each).expect("values");
                let plain = inputs.iter().map(|input| keyspan_model::decoded(input).expect("values"));
                let plain: Vec<ArrayRef> = plain.collect();
                assert_eq!(named, plain, "batch {batch}");
                for row in 0..rows {
                    let text = with_texts.then(|| {
                        let texts = plain[0].as_string_view();
                        texts.is_valid(row).then(|| texts.value(row).to_owned())
                    });
                    different.insert((text, float(row).map(f64::to_bits)));
                }
            }
            assert_eq!(groups.len(), different.len());
        }
    }

    #[test]
    fn groups_of_many_values_in_no_order_are_those_of_each_row() {
        let number = Arc::new(Field::new("n", DataType::Int64, true));
        let text = Arc::new(Field::new("t", DataType::Utf8View, true));
        let parts: Arc<[Part]> = Arc::new([number, text].map(|field| {
            let place = usize::from(field.name() == "t");
            Part { value: PartValue::Input(place), field }
        }));
        let rows = 3000usize;
        let numbers = || (0..rows).map(|row| (row % 13 > 0).then_some((row * 7919 % 101) as i64));
        let texts = |row: usize| (!row.is_multiple_of(17)).then(|| format!("text {}", row * 104_729 % 97));
        // As they are, and as codes: more combinations than a table has.
        let values: StringViewArray = (0..rows).map(texts).collect();
        let names: StringViewArray = (0..97).map(|n| Some(format!("text {n}"))).collect();
        let codes: UInt8Array = (0..rows).map(|row| (row % 17 > 0).then_some((row * 104_729 % 97) as u8)).collect();
        let codes = DictionaryArray::new(codes, Arc::new(names));
        let numbers: ArrayRef = Arc::new(numbers().collect::<Int64Array>());
        let mut groups = Groups::new(Arc::clone(&parts));
        for texts in [Arc::new(values.clone()) as ArrayRef, Arc::new(codes)] {
            let inputs = [Arc::clone(&numbers), texts];
            let found = groups.of_rows(Values::new(&parts, &inputs).expect("values"), rows).expect("groups");
            let (each, _) = found.of_each(rows);
            let named = groups.columns(&each).expect("values");
            assert_eq!((&named[0], named[1].as_string_view()), (&numbers, &values));
        }
        let different: std::collections::HashSet<_> =
            (0..rows).map(|row| (row % 13 > 0, row * 7919 % 101 * usize::from(row % 13 > 0), texts(row))).collect();
        assert_eq!(groups.len(), different.len());
    }
}
