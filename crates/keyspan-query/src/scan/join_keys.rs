//! Keys that a join's build side turns out to have, as spans and ranges of a scan on its probe side.
//!
//! The node over the build side notes the keys as rows pass it ([`JoinKeys::add`]), and the least and the greatest of those
//! that are numbers or times; a scan that waits for them ([`AwaitedKeys`]) reads nothing before. A hash join reads its
//! build side to the end before it asks the probe side for a row, so nothing waits for itself. A few keys are spans. Of
//! others there are the bounds between which they are, and a condition ([`KeySet`]) where many numbers between are none.
//! The join still compares every row.

use std::collections::{HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, TimeUnit};
use arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::{Column, ScalarValue};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Expr, col, lit};
use datafusion::physical_plan::metrics::MetricBuilder;
use datafusion_functions_aggregate_common::min_max::{max_batch, min_batch};
use keyspan_model::array::value_at;
use keyspan_model::{ColumnId, ColumnRange, ColumnType, Scan, Value};
use keyspan_seam::RowCondition;
use parking_lot::Mutex;
use tokio::sync::{OnceCell, watch};

use super::exec::SpanScanExec;
use super::key_set::{IsKey, KeySet};
use super::layout::Divided;
use super::statistics;
use crate::spans;

/// Keys beyond which only their bounds are used: each costs a search in every segment.
const MOST_KEYS: usize = 2_000;
/// Rows of a build side after which its keys are no longer noted.
const MOST_ROWS: usize = 100_000;

/// Rows beyond which the spans of the keys must hold less than so large a part of the rows: one of two.
const MOST_PART: (u64, u64) = (8192, 2);

/// Joins and scans of all plans, so that two in one plan are never taken for each other.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

/// A number that no other join or scan has.
pub(crate) fn new_number() -> u64 {
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

/// What one run of a plan knows of its joins' keys. Part of the run's settings.
#[derive(Debug, Default)]
pub(crate) struct KeysOfJoins {
    joins: Mutex<HashMap<u64, Arc<JoinKeys>>>,
    scans: Mutex<HashMap<u64, Arc<OnceCell<SpanScanExec>>>>,
}

impl KeysOfJoins {
    pub(crate) fn join(&self, number: u64) -> Arc<JoinKeys> {
        self.joins.lock().entry(number).or_default().clone()
    }

    fn scan(&self, number: u64) -> Arc<OnceCell<SpanScanExec>> {
        self.scans.lock().entry(number).or_default().clone()
    }
}

/// What is known of the keys of a build side.
#[derive(Clone, Debug, Default)]
struct Found {
    /// The distinct ones; `None`: too many.
    keys: Option<Vec<Vec<ScalarValue>>>,
    /// What is known of each part of a key.
    parts: Vec<FoundPart>,
}

/// What is known of one part of all keys, of those that are not null, if parts of this type are compared.
#[derive(Clone, Debug, Default, PartialEq)]
struct FoundPart {
    /// The least and the greatest.
    bounds: Option<(ScalarValue, ScalarValue)>,
    /// All of them; `None`: they are far apart.
    set: Option<Arc<KeySet>>,
}

/// The keys of one build side, while they are noted and then.
#[derive(Debug)]
pub(crate) struct JoinKeys {
    noted: Mutex<Noted>,
    found: watch::Sender<Option<Arc<Found>>>,
}

impl Default for JoinKeys {
    fn default() -> Self {
        JoinKeys { noted: Mutex::default(), found: watch::Sender::new(None) }
    }
}

#[derive(Debug, Default)]
struct Noted {
    /// Distinct keys, as long as they are few.
    distinct: FewKeys,
    many: bool,
    parts: Vec<NotedPart>,
    rows: usize,
    ended: usize,
}

#[derive(Debug)]
struct NotedPart {
    bounds: Option<(ScalarValue, ScalarValue)>,
    set: Option<KeySet>,
}

impl Default for NotedPart {
    fn default() -> Self {
        NotedPart { bounds: None, set: Some(KeySet::default()) }
    }
}

impl NotedPart {
    fn add(&mut self, column: &ArrayRef) -> Result<()> {
        let (least, greatest) = (min_batch(column)?, max_batch(column)?);
        if least.is_null() {
            return Ok(());
        }
        let number = |bound: &ScalarValue| match bound.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(number)) => number,
            _ => None,
        };
        let near = number(&least).zip(number(&greatest));
        self.set = self.set.take().filter(|_| near.is_some());
        if let Some((set, bounds)) = self.set.as_mut().zip(near)
            && !set.add(column, bounds)
        {
            self.set = None;
        }
        self.bounds = Some(match self.bounds.take() {
            Some((own, own_greatest)) => (least_of(own, least), greatest_of(own_greatest, greatest)),
            None => (least, greatest),
        });
        Ok(())
    }

    fn found(self) -> FoundPart {
        let set = self.set.filter(|set| self.bounds.is_some() && set.has_gaps());
        FoundPart { bounds: self.bounds, set: set.map(Arc::new) }
    }
}

#[derive(Debug, Default)]
struct FewKeys {
    converter: Option<RowConverter>,
    rows: HashSet<OwnedRow>,
    keys: Vec<Vec<ScalarValue>>,
}

impl JoinKeys {
    /// Notes the keys of some rows; whether more are wanted.
    pub(crate) fn add(&self, columns: &[ArrayRef]) -> Result<bool> {
        let mut noted = self.noted.lock();
        if self.found.borrow().is_some() {
            return Ok(false);
        }
        noted.add(columns)
    }

    /// One of the build side's partitions has ended; with the last of them all keys are known.
    pub(crate) fn end(&self, partitions: usize) {
        let mut noted = self.noted.lock();
        noted.ended += 1;
        if noted.ended == partitions && self.found.borrow().is_none() {
            let Noted { distinct, many, parts, .. } = std::mem::take(&mut *noted);
            let parts = parts.into_iter().map(NotedPart::found).collect();
            self.found.send_replace(Some(Arc::new(Found { keys: (!many).then_some(distinct.keys), parts })));
        }
    }

    /// A partition was given up: nobody will know all keys.
    pub(crate) fn give_up(&self) {
        self.found.send_if_modified(|found| match found {
            Some(_) => false,
            None => {
                *found = Some(Arc::default());
                true
            }
        });
    }

    async fn found(&self) -> Arc<Found> {
        let mut found = self.found.subscribe();
        // The sender is this very object.
        let found = found.wait_for(Option::is_some).await;
        found.ok().and_then(|found| found.clone()).unwrap_or_default()
    }
}

impl Noted {
    /// Whether more keys are wanted.
    fn add(&mut self, columns: &[ArrayRef]) -> Result<bool> {
        self.rows += columns.first().map_or(0, |column| column.len());
        if !self.many && (self.rows > MOST_ROWS || !self.distinct.add(columns)?) {
            (self.many, self.distinct) = (true, FewKeys::default());
        }
        self.parts.resize_with(columns.len(), NotedPart::default);
        for (part, column) in self.parts.iter_mut().zip(columns) {
            if is_ordered(column.data_type()) {
                part.add(column)?;
            }
        }
        Ok(!self.many || columns.iter().any(|column| is_ordered(column.data_type())))
    }
}

/// Whether values of this type have bounds that a scan can use: whole numbers, dates and times.
fn is_ordered(ty: &DataType) -> bool {
    ty.is_signed_integer() || matches!(ty, DataType::Date32 | DataType::Timestamp(TimeUnit::Microsecond, _))
}

fn least_of(one: ScalarValue, other: ScalarValue) -> ScalarValue {
    if other < one { other } else { one }
}

fn greatest_of(one: ScalarValue, other: ScalarValue) -> ScalarValue {
    if other > one { other } else { one }
}

impl FewKeys {
    /// Whether the keys are still few.
    fn add(&mut self, columns: &[ArrayRef]) -> Result<bool> {
        let converter = match &mut self.converter {
            Some(converter) => converter,
            none => {
                let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
                none.insert(RowConverter::new(fields)?)
            }
        };
        let rows = converter.convert_columns(columns)?;
        for (place, row) in rows.iter().enumerate() {
            let repeated = place > 0 && row == rows.row(place - 1);
            if repeated || !self.rows.insert(row.owned()) {
                continue;
            }
            if self.keys.len() == MOST_KEYS {
                return Ok(false);
            }
            let key = columns.iter().map(|column| ScalarValue::try_from_array(column, place));
            self.keys.push(key.collect::<Result<_>>()?);
        }
        Ok(true)
    }
}

/// Keys of a join that a scan waits for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AwaitedKeys {
    /// The join.
    pub(crate) join: u64,
    /// Pairs of a place in the join's keys and the place of the key column that is equal to it.
    pub(crate) columns: Vec<(usize, usize)>,
    /// The same of columns that need only be between the least and the greatest key.
    pub(crate) bounded: Vec<(usize, ColumnId)>,
}

/// Whether keys of a join can be looked up in key columns of this type: equal to both means the same to both.
pub(crate) fn is_looked_up(ty: ColumnType) -> bool {
    matches!(
        ty,
        ColumnType::Boolean
            | ColumnType::TinyInt
            | ColumnType::SmallInt
            | ColumnType::Int
            | ColumnType::BigInt
            | ColumnType::Text
            | ColumnType::Uuid
            | ColumnType::Date
            | ColumnType::Timestamp
            | ColumnType::LocalTimestamp
    )
}

/// Whether bounds of a join's keys are ranges of columns of this type.
pub(crate) fn is_bounded(ty: ColumnType) -> bool {
    is_looked_up(ty) && is_ordered(&ty.arrow())
}

impl SpanScanExec {
    /// The scan as the keys have it that it waits for: itself if it waits for none.
    pub(crate) async fn with_awaited_keys(&self, context: &TaskContext) -> Result<SpanScanExec> {
        let Some(keys) = context.session_config().get_extension::<KeysOfJoins>().filter(|_| !self.awaited.is_empty())
        else {
            return Ok(self.clone());
        };
        let cell = keys.scan(self.number);
        cell.get_or_try_init(|| self.narrowed(&keys)).await.cloned()
    }

    async fn narrowed(&self, keys: &KeysOfJoins) -> Result<SpanScanExec> {
        let (mut filters, mut beside, mut all) = (Vec::new(), Narrowing::default(), Narrowing::default());
        for awaited in &self.awaited {
            let found = keys.join(awaited.join).found().await;
            let few = found.keys.as_ref().filter(|_| !awaited.columns.is_empty());
            if let Some(keys) = few {
                MetricBuilder::new(&self.metrics).global_counter("join_keys").add(keys.len());
                filters.push(self.is_among(keys, awaited));
            }
            for (part, column) in awaited.bounded.iter().copied() {
                let Some(found) = found.parts.get(part) else { continue };
                let Some(range) = self.between(found, column) else { continue };
                if few.is_none() || awaited.columns.iter().all(|(named, _)| *named != part) {
                    beside.add(range.clone(), found);
                }
                all.add(range, found);
            }
        }
        if !filters.is_empty()
            && let Some(scan) = self.among(&filters, beside.ranges).await?
        {
            return Ok(scan.with_conditions(beside.conditions));
        }
        if all.ranges.is_empty() {
            return Ok(self.clone());
        }
        let ranges = self.scan.ranges.iter().cloned().chain(all.ranges).collect();
        let scan = Scan { ranges, ..Scan::clone(&self.scan) };
        let divided = Divided::of(&self.plan, &scan, self.shape).await?;
        Ok(self.reading(scan, divided).with_conditions(all.conditions))
    }

    /// The scan as the filters have it, and within these ranges; `None` where that leaves too much to read.
    async fn among(&self, filters: &[Expr], beside: Vec<ColumnRange>) -> Result<Option<SpanScanExec>> {
        let plan = &self.plan;
        let own = plan.filters.iter();
        let before = spans::push(&own.clone().collect::<Vec<_>>(), &plan.relation);
        let pushed = spans::push(&own.chain(filters).collect::<Vec<_>>(), &plan.relation);
        let mut ranges = if self.scan.per_prefix.is_some() { Vec::new() } else { pushed.ranges.clone() };
        ranges.extend(beside);
        let scan = Scan { spans: pushed.spans.clone(), ranges, ..Scan::clone(&self.scan) };
        // What the store answered so far nobody else checks.
        let before = before.answered(&plan.snapshot.accept(&self.scan));
        let mut now = pushed.answered(&plan.snapshot.accept(&scan));
        if before.zip(&mut now).any(|(before, now)| before && !now) {
            return Ok(None);
        }
        let divided = Divided::of(plan, &scan, self.shape).await?;
        let rows = (statistics::estimated_rows(&self.estimate), statistics::estimated_rows(&divided.store.statistics));
        match rows {
            // Many spans cost more than one.
            (Some(before), Some(now)) if now > MOST_PART.0 && now > before / MOST_PART.1 => Ok(None),
            _ => {
                MetricBuilder::new(&self.metrics).global_counter("join_spans").add(scan.spans.len());
                Ok(Some(self.reading(scan, divided)))
            }
        }
    }

    /// The range of a column between the least and the greatest part of the keys; `None`: anywhere.
    fn between(&self, found: &FoundPart, column: ColumnId) -> Option<ColumnRange> {
        let (_, ty) = self.plan.relation.column(column)?;
        let value = |bound: &ScalarValue| value_at(&bound.cast_to(&ty.arrow()).ok()?.to_array().ok()?, 0, ty).ok();
        let (least, greatest) = found.bounds.as_ref()?;
        let (least, greatest) = (value(least)?, value(greatest)?);
        let is_null = least == Value::Null || greatest == Value::Null;
        (!is_null).then(|| ColumnRange::between(column, Bound::Included(least), Bound::Included(greatest)))
    }

    /// The filter: the key columns are one of these keys.
    fn is_among(&self, keys: &[Vec<ScalarValue>], awaited: &AwaitedKeys) -> Expr {
        let column = |place: usize| {
            let key = &self.plan.relation.key[place];
            (col(Column::from_name(&key.name)), key.ty.arrow())
        };
        // A value that the column cannot hold, as NULL, is equal to none of its. In another part of the key a NULL may
        // well be equal to one.
        let held = |key: &[ScalarValue], (part, place): (usize, usize)| {
            let (column, ty) = column(place);
            let value = key[part].cast_to(&ty).ok()?;
            let same = value.cast_to(&key[part].data_type()).is_ok_and(|back| back == key[part]);
            (same && !value.is_null()).then_some((column, value))
        };
        if let [only] = awaited.columns.as_slice() {
            let values = keys.iter().filter_map(|key| Some(Expr::Literal(held(key, *only)?.1, None)));
            return col(Column::from_name(&self.plan.relation.key[only.1].name)).in_list(values.collect(), false);
        }
        let each = keys.iter().filter_map(|key| {
            let parts = awaited.columns.iter().map(|pair| held(key, *pair));
            let parts = parts.collect::<Option<Vec<_>>>()?;
            parts.into_iter().map(|(column, value)| column.eq(Expr::Literal(value, None))).reduce(Expr::and)
        });
        disjunction(each.collect()).unwrap_or_else(|| lit(false))
    }
}

/// What keys say of columns.
#[derive(Default)]
struct Narrowing {
    ranges: Vec<ColumnRange>,
    conditions: Vec<Arc<dyn RowCondition>>,
}

impl Narrowing {
    fn add(&mut self, range: ColumnRange, found: &FoundPart) {
        if let Some(keys) = &found.set {
            self.conditions.push(Arc::new(IsKey { column: [range.column], keys: keys.clone() }));
        }
        self.ranges.push(range);
    }
}

/// The disjunction as a balanced tree, so that a long one is not deep.
fn disjunction(mut parts: Vec<Expr>) -> Option<Expr> {
    while parts.len() > 1 {
        let mut pairs = Vec::with_capacity(parts.len().div_ceil(2));
        let mut left = parts.into_iter();
        while let Some(first) = left.next() {
            pairs.push(match left.next() {
                Some(second) => first.or(second),
                None => first,
            });
        }
        parts = pairs;
    }
    parts.pop()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int32Array, StringViewArray};

    use super::*;

    #[tokio::test]
    async fn bounds_are_those_of_all_keys_that_are_not_null() {
        let noted = JoinKeys::default();
        for numbers in [vec![Some(7), Some(3)], vec![None, None], vec![], vec![Some(1000), None]] {
            let texts = StringViewArray::from_iter(numbers.iter().map(|_: &Option<i32>| Some("a")));
            noted.add(&[Arc::new(Int32Array::from(numbers)), Arc::new(texts)]).expect("keys");
        }
        noted.end(1);
        let found = noted.found().await;
        let number = |number| ScalarValue::Int32(Some(number));
        assert_eq!(found.parts[0].bounds, Some((number(3), number(1000))));
        assert!(found.parts[0].set.is_some());
        assert_eq!(found.parts[1], FoundPart::default());
        assert_eq!(found.keys.as_ref().map(Vec::len), Some(4), "null is one, too");
    }

    #[tokio::test]
    async fn of_many_keys_there_are_only_the_bounds() {
        let noted = JoinKeys::default();
        let many: ArrayRef = Arc::new(Int32Array::from_iter_values(-5..MOST_KEYS as i32));
        assert!(noted.add(&[many]).expect("keys"), "numbers have bounds");
        noted.end(1);
        let found = noted.found().await;
        let bounds = (ScalarValue::Int32(Some(-5)), ScalarValue::Int32(Some(MOST_KEYS as i32 - 1)));
        // All numbers between them are keys.
        assert_eq!(found.parts, [FoundPart { bounds: Some(bounds), set: None }]);
        assert_eq!(found.keys, None);
        let noted = JoinKeys::default();
        let many: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..=MOST_KEYS).map(|n| n.to_string())));
        assert!(!noted.add(&[many]).expect("keys"), "texts have none");
    }
}
