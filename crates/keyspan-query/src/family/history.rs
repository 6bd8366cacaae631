//! Versions of a family in the table's own form, that of Bigtable's SQL: `FROM t(with_history => true, latest_n => 3)`.
//!
//! ```text
//! t(with_history => true …)    f: a map from qualifier to [{"timestamp": …, "value": …}, …], the newest first
//! t(as_of => ts)               f: a map from qualifier to the newest value that is not later
//! ```
//!
//! Columns and collections have one version, and show it.

use std::collections::HashMap;

use arrow::array::{ArrayRef, AsArray, UInt32Array};
use arrow::datatypes::TimestampMicrosecondType;
use keyspan_model::array::array_of;
use keyspan_model::json::Json;
use keyspan_model::{ColumnType, Error, ErrorKind, FamilyDef, FamilyKind, Result, Value};

use super::cells::Cells;
use crate::error::from_datafusion;
use crate::functions::json::{Form, value_text};
use crate::types::{Zone, field_of};

/// The function that such a table is rewritten to: its arguments are the table's keyspace and name, then names and
/// values, all as texts.
pub const HISTORY: &str = "family_history";

/// The arguments of a table.
pub const ARGUMENTS: [&str; 7] =
    ["with_history", "latest_n", "as_of", "after", "after_or_equal", "before", "before_or_equal"];

/// Which versions of a family's cells are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Whether all are shown, with their times; else the newest one's value.
    pub arrays: bool,
    /// The newest so many of each cell.
    latest: Option<usize>,
    /// The earliest write timestamp, in microseconds.
    from: Option<i64>,
    /// The latest.
    until: Option<i64>,
}

impl History {
    /// What arguments ask for.
    ///
    /// # Errors
    /// 22023 for arguments that do not go together or are out of range, 22P02 for texts that are no values.
    pub fn parse(arguments: &[(&str, &str)], zone: Zone) -> Result<History> {
        let mut history = History::default();
        let time = |text: &str| {
            let resolve = |name: Option<&str>, local| zone.resolve(name, local);
            match Value::Text(text.to_owned()).cast_zoned(ColumnType::Timestamp, &resolve)? {
                Value::Timestamp(micros) => Ok(micros),
                _ => Err(invalid("the time of a version cannot be null")),
            }
        };
        let later = |bound: Option<i64>, micros: i64| Some(bound.map_or(micros, |other| other.max(micros)));
        let earlier = |bound: Option<i64>, micros: i64| Some(bound.map_or(micros, |other| other.min(micros)));
        for (name, text) in arguments {
            match *name {
                "with_history" => history.arrays = Value::parse(text, ColumnType::Boolean)? == Value::Boolean(true),
                "latest_n" => match Value::parse(text, ColumnType::BigInt)? {
                    Value::BigInt(count) if count > 0 => history.latest = usize::try_from(count).ok(),
                    _ => return Err(invalid("latest_n must be at least 1")),
                },
                "as_of" => {
                    history.until = earlier(history.until, time(text)?);
                    history.latest = Some(1);
                }
                "after" => history.from = later(history.from, time(text)?.saturating_add(1)),
                "after_or_equal" => history.from = later(history.from, time(text)?),
                "before" => history.until = earlier(history.until, time(text)?.saturating_sub(1)),
                "before_or_equal" => history.until = earlier(history.until, time(text)?),
                other => return Err(invalid(&format!("a table has no argument {other}"))),
            }
        }
        let of_history = |(name, _): &&(&str, &str)| !matches!(*name, "with_history" | "as_of");
        match arguments.iter().find(of_history) {
            Some((name, _)) if !history.arrays => Err(invalid(&format!("{name} needs with_history => true"))),
            _ => Ok(history),
        }
    }

    /// Of cells by path, the newest versions first, those that are read.
    pub(super) fn kept(
        &self,
        order: Vec<u32>,
        written: impl Fn(u32) -> i64,
        same: impl Fn(u32, u32) -> bool,
    ) -> Vec<u32> {
        let (mut kept, mut count): (Vec<u32>, usize) = (Vec::with_capacity(order.len()), 0);
        let most = if self.arrays { self.latest.unwrap_or(usize::MAX) } else { 1 };
        for cell in order {
            let at = written(cell);
            if self.from.is_some_and(|from| at < from) || self.until.is_some_and(|until| at > until) {
                continue;
            }
            count = if kept.last().is_some_and(|last| same(*last, cell)) { count + 1 } else { 1 };
            if count <= most {
                kept.push(cell);
            }
        }
        kept
    }

    /// Whether a family is shown with all versions.
    pub fn shows_versions(&self, family: &FamilyDef) -> bool {
        self.arrays && family.kind == FamilyKind::Family
    }
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidParameter, message)
}

/// Groups of versions: the newest of each, and all of it.
pub(super) fn grouped(kept: &[u32], same: impl Fn(u32, u32) -> bool) -> (Vec<u32>, HashMap<u32, Vec<u32>>) {
    let (mut newest, mut groups): (Vec<u32>, HashMap<u32, Vec<u32>>) = (Vec::new(), HashMap::new());
    for cell in kept {
        match newest.last() {
            Some(first) if same(*first, *cell) => groups.entry(*first).or_default().push(*cell),
            _ => {
                newest.push(*cell);
                groups.insert(*cell, vec![*cell]);
            }
        }
    }
    (newest, groups)
}

/// The versions of cells as JSON arrays, by the newest of each.
pub(super) fn arrays(
    family: &FamilyDef,
    cells: &Cells,
    groups: &HashMap<u32, Vec<u32>>,
    taken: &UInt32Array,
) -> Result<ArrayRef> {
    let columns = cells.batch.columns();
    let (written, values) = (&columns[columns.len() - 2], &columns[columns.len() - 1]);
    let written_field = field_of(ColumnType::Timestamp, "timestamp", false);
    let value_field = field_of(family.value.ty, "value", true);
    let version = |cell: &u32| {
        let row = *cell as usize;
        let timestamp = value_text(&written_field, written, row, Form::Postgres(Zone::UTC))?;
        let value = value_text(&value_field, values, row, Form::Postgres(Zone::UTC))?;
        Ok(format!("{{\"timestamp\": {timestamp}, \"value\": {value}}}"))
    };
    let text = |cell: &u32| {
        let versions = groups.get(cell).into_iter().flatten().map(version);
        let versions = versions.collect::<datafusion::error::Result<Vec<_>>>().map_err(from_datafusion)?;
        Json::parse(&format!("[{}]", versions.join(", "))).map(|json| Value::Text(json.to_string()))
    };
    array_of(ColumnType::Jsonb, &taken.values().iter().map(text).collect::<Result<Vec<_>>>()?)
}

/// When each cell was written.
pub(super) fn written(cells: &Cells) -> Option<impl Fn(u32) -> i64 + '_> {
    let columns = cells.batch.columns();
    let written = columns.len().checked_sub(2).map(|place| columns[place].as_primitive::<TimestampMicrosecondType>());
    written.map(|written| move |cell: u32| written.value(cell as usize))
}
