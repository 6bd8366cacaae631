//! Spans as EXPLAIN shows them.
//!
//! ```text
//! all                                  every key
//! ('STC', 22)                          the keys that begin with these values
//! ('STC', [10 .. 20))                  ... and then have a value from 10 up to, without, 20 (by value, also if DESC)
//! {> ('STC', 22), <= ('TF')}           any other span: bounds in key order
//! ```

use std::ops::Bound;

use keyspan_model::{ColumnRange, KeyColumn, Span, Value};

/// Spans that EXPLAIN shows; the others are counted.
const SHOWN: usize = 8;

/// The text of a list of spans.
pub fn spans_text(spans: &[Span], key: &[KeyColumn]) -> String {
    let mut texts: Vec<String> = spans.iter().take(SHOWN).map(|span| span_text(span, key)).collect();
    if spans.len() > SHOWN {
        texts.push(format!("… {} more", spans.len() - SHOWN));
    }
    format!("[{}]", texts.join(", "))
}

/// The text of one span.
pub fn span_text(span: &Span, key: &[KeyColumn]) -> String {
    if span.is_all() {
        return "all".into();
    }
    if let (true, Bound::Included(values)) = (span.start == span.end, &span.start) {
        return tuple(values, key);
    }
    range_text(span, key).unwrap_or_else(|| bounds_text(span, key))
}

fn values_of(bound: &Bound<Vec<Value>>) -> &[Value] {
    match bound {
        Bound::Included(values) | Bound::Excluded(values) => values,
        Bound::Unbounded => &[],
    }
}

/// The text of the ranges of key columns; `None`: there are none.
///
/// ```text
/// ts: [2024-01-01 .. 2024-01-02)       a key column from one value up to, without, another
/// ```
pub fn ranges_text(ranges: &[ColumnRange], key: &[KeyColumn]) -> Option<String> {
    let text = |range: &ColumnRange| {
        let column = key.iter().find(|column| column.id == range.column)?;
        let interval = interval_text(range.lower.as_ref(), range.upper.as_ref(), column);
        Some(format!("{}: {interval}", column.name))
    };
    let texts: Vec<String> = ranges.iter().filter_map(text).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// A common prefix and a range of the next column.
fn range_text(span: &Span, key: &[KeyColumn]) -> Option<String> {
    let (start, end) = (values_of(&span.start), values_of(&span.end));
    let length = start.len().max(end.len()).checked_sub(1)?;
    let prefix = if start.len() > length { &start[..length] } else { &end[..length] };
    let first = after_prefix(&span.start, prefix)?;
    let last = after_prefix(&span.end, prefix)?;
    let column = key.get(length)?;
    let (lower, upper) = if column.descending { (last, first) } else { (first, last) };
    let mut text = String::from("(");
    for (value, column) in prefix.iter().zip(key) {
        text.push_str(&literal(value, column));
        text.push_str(", ");
    }
    text.push_str(&interval_text(lower, upper, column));
    text.push(')');
    Some(text)
}

fn interval_text(lower: Bound<&Value>, upper: Bound<&Value>, column: &KeyColumn) -> String {
    let lower = match lower {
        Bound::Included(value) => format!("[{} ..", literal(value, column)),
        Bound::Excluded(value) => format!("({} ..", literal(value, column)),
        Bound::Unbounded => "(..".into(),
    };
    let upper = match upper {
        Bound::Included(value) => format!(" {}]", literal(value, column)),
        Bound::Excluded(value) => format!(" {})", literal(value, column)),
        Bound::Unbounded => ")".into(),
    };
    lower + &upper
}

/// The bound on the column after the prefix; `None` when the bound is not of that shape.
fn after_prefix<'a>(bound: &'a Bound<Vec<Value>>, prefix: &[Value]) -> Option<Bound<&'a Value>> {
    match bound {
        Bound::Unbounded if prefix.is_empty() => Some(Bound::Unbounded),
        Bound::Included(values) if values.as_slice() == prefix => Some(Bound::Unbounded),
        Bound::Included(values) if values.len() == prefix.len() + 1 && values.starts_with(prefix) => {
            values.last().map(Bound::Included)
        }
        Bound::Excluded(values) if values.len() == prefix.len() + 1 && values.starts_with(prefix) => {
            values.last().map(Bound::Excluded)
        }
        _ => None,
    }
}

fn bounds_text(span: &Span, key: &[KeyColumn]) -> String {
    let start = match &span.start {
        Bound::Included(values) => Some(format!(">= {}", tuple(values, key))),
        Bound::Excluded(values) => Some(format!("> {}", tuple(values, key))),
        Bound::Unbounded => None,
    };
    let end = match &span.end {
        Bound::Included(values) => Some(format!("<= {}", tuple(values, key))),
        Bound::Excluded(values) => Some(format!("< {}", tuple(values, key))),
        Bound::Unbounded => None,
    };
    format!("{{{}}}", [start, end].into_iter().flatten().collect::<Vec<_>>().join(", "))
}

fn tuple(values: &[Value], key: &[KeyColumn]) -> String {
    let texts: Vec<String> = values.iter().zip(key).map(|(value, column)| literal(value, column)).collect();
    format!("({})", texts.join(", "))
}

fn literal(value: &Value, column: &KeyColumn) -> String {
    let text = value.to_text(column.ty);
    match value {
        Value::Text(_) => format!("'{}'", text.replace('\'', "''")),
        _ => text,
    }
}
