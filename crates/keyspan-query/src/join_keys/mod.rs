//! Joins become spans: the keys of a small build side, once they are known, are spans of the table on the probe side.
//!
//! ```text
//! SELECT … FROM cpu WHERE tags_id IN (SELECT id FROM tags WHERE region = 'eu')      PRIMARY KEY (tags_id, ts)
//!
//! HashJoin tags_id = id
//!   JoinKeys id ─────────────┐   the build side: its keys are noted as its rows pass
//!     SpanScan tags          │
//!   SpanScan cpu ◀───────────┘   the probe side: waits, then reads the spans of these keys
//! ```
//!
//! Of many keys, and of columns that do not lead, only those rows are read that lie between the least key and the greatest.
//!
//! - [`rule`]: which scans wait for which joins.
//! - [`exec`]: the node over the build side.
//! - [`scan::join_keys`](crate::scan): how keys become spans and ranges.
//!
//! Rule: a scan may be narrowed only where rows that meet no key change nothing of what the join sees: not on the side
//! that an outer join keeps, not below a limit or a window over other rows. The join stays and compares every row.
//! The nodes keep nothing between runs, so that plans which hold them may be cached. A recursive query's are left alone:
//! it runs its plan several times in one run.

mod exec;
mod rule;

pub(crate) use exec::JoinKeysExec;
pub use rule::KeysAsSpans;
