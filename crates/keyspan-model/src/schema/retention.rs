//! How long what is written to a table is read: `WITH retention = '30d'`.

use serde::{Deserialize, Serialize};

/// How long what is written is read. Judged when it is read, by the time it was written: a change holds for all rows.
///
/// What has once been too old stays so, since of its versions some may be gone and others not yet: were a longer
/// retention to show them again, an overwritten value could come back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// Microseconds since a write after which it is no longer read; `None`: it is read for ever.
    pub age: Option<i64>,
    /// The write timestamp, in microseconds since 1970, up to which writes were too old for an earlier retention.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<i64>,
}

impl Retention {
    /// Whether the table has no retention, and never had one.
    pub(super) fn is_unset(&self) -> bool {
        *self == Retention::default()
    }

    /// The time of the last writes that are too old to be read at `now`, both in microseconds since 1970; `None`: none
    /// is.
    pub fn horizon(&self, now: i64) -> Option<i64> {
        self.age.map(|age| now.saturating_sub(age)).max(self.ended)
    }

    /// Whether writes of this age, in microseconds (`None`: of any), are too old by this.
    pub fn is_shorter_than(&self, age: Option<i64>) -> bool {
        self.age.is_some_and(|own| age.is_none_or(|age| own < age))
    }

    /// The longer retention that follows `within` so many microseconds of `now` (microseconds since 1970), but no more
    /// than a quarter of the retention: what may be too old by then stays so, and what is written now does not.
    pub fn lengthened(&self, age: Option<i64>, now: i64, within: i64) -> Retention {
        let within = self.age.map_or(within, |own| within.min(own / 4));
        Retention { age, ended: self.horizon(now.saturating_add(within)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_too_old_stays_so() {
        let endless = Retention::default();
        assert_eq!(endless.horizon(1_000), None);
        let short = Retention { age: Some(100), ended: None };
        assert_eq!((short.horizon(1_000), short.horizon(1_050)), (Some(900), Some(950)));
        assert!(short.is_shorter_than(Some(101)) && short.is_shorter_than(None) && !short.is_shorter_than(Some(100)));
        assert!(!endless.is_shorter_than(None) && !endless.is_shorter_than(Some(1)));
        let long = short.lengthened(Some(500), 1_050, 0);
        assert_eq!((long.horizon(1_050), long.horizon(1_500)), (Some(950), Some(1_000)));
        let none = long.lengthened(None, 1_500, 10);
        assert_eq!((none.horizon(9_000), none.is_unset()), (Some(1_010), false));
    }

    #[test]
    fn what_is_written_when_it_is_made_longer_is_read() {
        let short = Retention { age: Some(100), ended: None };
        let long = short.lengthened(Some(1_000_000), 10_000, 60_000);
        assert_eq!(long.horizon(10_000), Some(9_925));
    }
}
