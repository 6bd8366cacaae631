//! Positions of a list's elements.
//!
//! A list that is written as a whole counts from 0. What is put behind a list gets positions by the clock, what is put
//! before it the same, negative; so both go on without reading the list.

use std::ops::Range;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

/// Positions that one microsecond has room for.
const EACH_MICROSECOND: i64 = 1 << 10;

/// The first position that was not given yet.
static NEXT: AtomicI64 = AtomicI64::new(0);

/// So many positions behind all that were given before.
pub(super) fn behind(count: usize) -> Range<i64> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let clock = i64::try_from(now.as_micros()).unwrap_or(i64::MAX).saturating_mul(EACH_MICROSECOND);
    let end = |next: i64| next.max(clock).saturating_add(count as i64);
    let next = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| Some(end(next)));
    let end = end(next.unwrap_or_else(|next| next));
    end - count as i64..end
}

/// So many positions before all that were given before.
pub(super) fn before(count: usize) -> Range<i64> {
    let taken = behind(count);
    -taken.end..-taken.start
}
