//! Which of two versions of a cell wins: Cassandra's rules (`docs/decisions.md`, write conflicts), in one place.

use std::cmp::Ordering;

/// One version of a cell or marker, as far as the rules look before its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Write timestamp, in microseconds.
    pub ts: i64,
    /// Whether it is a tombstone.
    pub tombstone: bool,
    /// When it expires, in microseconds; an expired one still shadows what is older.
    pub expires: Option<i64>,
}

/// Whether `a` beats `b`: larger timestamp; then tombstone, then expiring, then plain live; then later expiry; then
/// larger bytes, which are looked at last. Of two that are the same neither beats the other.
pub fn stronger(a: Candidate, b: Candidate, bytes: impl FnOnce() -> Ordering) -> bool {
    let rank = |c: Candidate| match (c.tombstone, c.expires) {
        (true, _) => 2,
        (false, Some(_)) => 1,
        (false, None) => 0,
    };
    let order = a.ts.cmp(&b.ts).then(rank(a).cmp(&rank(b))).then(a.expires.cmp(&b.expires));
    order.then_with(bytes).is_gt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(ts: i64) -> Candidate {
        Candidate { ts, tombstone: false, expires: None }
    }

    fn tombstone(ts: i64) -> Candidate {
        Candidate { tombstone: true, ..live(ts) }
    }

    fn expiring(ts: i64, expires: i64) -> Candidate {
        Candidate { expires: Some(expires), ..live(ts) }
    }

    fn beats(a: Candidate, b: Candidate) -> bool {
        let wins = stronger(a, b, || Ordering::Equal);
        assert!(!(wins && stronger(b, a, || Ordering::Equal)), "one of them at most wins");
        wins
    }

    #[test]
    fn the_larger_timestamp_wins_whatever_it_is() {
        assert!(beats(live(2), tombstone(1)));
        assert!(beats(tombstone(2), expiring(1, 9)));
    }

    #[test]
    fn of_equal_timestamps_tombstone_beats_expiring_beats_live() {
        assert!(beats(tombstone(1), expiring(1, 9)));
        assert!(beats(tombstone(1), live(1)));
        assert!(beats(expiring(1, 9), live(1)));
    }

    #[test]
    fn of_two_expiring_the_later_expiry_wins() {
        assert!(beats(expiring(1, 10), expiring(1, 9)));
    }

    #[test]
    fn last_of_all_the_larger_bytes_win() {
        assert!(stronger(live(1), live(1), || b"b".as_slice().cmp(b"a".as_slice())));
        assert!(!stronger(live(1), live(1), || b"a".as_slice().cmp(b"b".as_slice())));
        assert!(!beats(live(1), live(1)));
    }
}
