//! Loads of made-up segments: what the policy must keep true whatever arrives in which order.

use std::collections::BTreeMap;
use std::sync::Arc;

use keyspan_model::{GcRule, KeyEncoder, RelationId, RelationKind, Retention, Value};

use super::*;
use crate::run::RunMeta;
use crate::segment::fixture::readings;

const HOUR: i64 = 3_600_000_000;

/// A record of rows of all hosts between two instants.
fn record(relation: &RelationDef, id: u64, seq: (u64, u64), time: (i64, i64), rows: u64) -> SegmentRecord {
    let encoder = KeyEncoder::new(&relation.key);
    let key =
        |host: &str, time: i64| encoder.encode(&[Value::Text(host.into()), Value::Timestamp(time)]).expect("a key");
    let column = |at: usize, value: Value| KeyEncoder::new(&relation.key[at..=at]).encode(&[value]).expect("a value");
    let all = Extent {
        rows,
        key: (key("a", time.0), key("z", time.1)),
        columns: vec![
            (column(0, Value::Text("a".into())), column(0, Value::Text("z".into()))),
            (column(1, Value::Timestamp(time.0)), column(1, Value::Timestamp(time.1))),
        ],
        ts: Some((seq.0 as i64, seq.1 as i64)),
        everlasting: true,
        ..Extent::default()
    };
    let meta = RunMeta { all, groups: Vec::new(), seq, bytes: rows * 10 };
    SegmentRecord {
        id: SegmentId(id),
        relation: RelationId(1),
        schema_version: 1,
        file_bytes: rows * 10,
        footer_crc: 0,
        index_bytes: 100,
        index_crc: 0,
        meta,
        ts_base: 0,
    }
}

/// Nothing has come lately, and there is room.
fn quiet() -> Situation {
    Situation { fresh: BTreeSet::new(), room: u64::MAX, all: false }
}

/// A store that only counts.
struct Store {
    relation: Arc<RelationDef>,
    segments: Vec<SegmentRecord>,
    next: u64,
    written: u64,
    merged: u64,
    /// How long rows live from their time on.
    life: Option<i64>,
}

impl Store {
    fn new() -> Store {
        Store { relation: readings(), segments: Vec::new(), next: 1, written: 0, merged: 0, life: None }
    }

    /// Flushes rows, given as (first instant, last instant, rows), divided by window as a real flush does.
    fn flush(&mut self, parts: &[(i64, i64, u64)]) {
        let all: Vec<Extent> =
            parts.iter().map(|part| record(&self.relation, 0, (1, 1), (part.0, part.1), part.2).meta.all).collect();
        let level = window_level(&self.relation, self.segments.iter().map(|segment| &segment.meta.all).chain(&all));
        let level = output_level(&self.relation, &all, level);
        self.written += parts.iter().map(|part| part.2).sum::<u64>();
        self.put(parts, level, None);
        // What has come with this flush is fresh; what was there is quiet.
        let newest = self.segments.iter().map(|segment| segment.meta.seq.1).max();
        let fresh = |segment: &&SegmentRecord| Some(segment.meta.seq.1) == newest;
        let fresh = self.segments.iter().filter(fresh).map(|segment| segment.id).collect();
        self.rest(Situation { fresh, ..quiet() });
    }

    /// Merges until there is nothing more to merge.
    fn rest(&mut self, situation: Situation) {
        for _ in 0..1_000 {
            let Some(pick) = pick(&self.relation, &self.segments, &situation) else { return };
            self.merge(pick);
        }
        panic!("the policy never comes to rest");
    }

    /// In how many segments a series has rows.
    fn segments_of_a_series(&self) -> usize {
        layers(&self.segments.iter().collect::<Vec<_>>()).len()
    }

    fn merge(&mut self, pick: Pick) {
        let taken = |segment: &SegmentRecord| pick.inputs.contains(&segment.id);
        let inputs: Vec<SegmentRecord> = self.segments.iter().filter(|segment| taken(segment)).cloned().collect();
        assert_eq!(inputs.len(), pick.inputs.len());
        self.segments.retain(|segment| !taken(segment));
        self.merged += inputs.iter().map(|input| input.meta.all.rows).sum::<u64>();
        let seq = (
            inputs.iter().map(|i| i.meta.seq.0).min().unwrap_or(0),
            inputs.iter().map(|i| i.meta.seq.1).max().unwrap_or(0),
        );
        let parts: Vec<(i64, i64, u64)> = inputs
            .iter()
            .map(|input| {
                let (first, last) = times(&self.relation, &input.meta.all).expect("a window column");
                (first, last, input.meta.all.rows)
            })
            .collect();
        self.put(&parts, pick.level, Some(seq));
    }

    /// Rows of each part are spread evenly over its time.
    fn put(&mut self, parts: &[(i64, i64, u64)], level: u32, seq: Option<(u64, u64)>) {
        let mut windows: BTreeMap<Window, (i64, i64, u64)> = BTreeMap::new();
        for (first, last, rows) in parts {
            let (from, to) = (Window::of(*first, level).number, Window::of(*last, level).number);
            assert!(to - from < MAX_OPEN_WINDOWS, "{} windows at once", to - from + 1);
            for number in from..=to {
                let length = if level >= 30 { i64::MAX } else { 60_000_000i64 << level };
                let start = if level >= 30 { *first } else { (number * length).max(*first) };
                let end = if level >= 30 { *last } else { (number * length + length - 1).min(*last) };
                let share = (*rows as i128 * (end - start + 1) as i128 / (last - first + 1) as i128) as u64;
                let window = windows.entry(Window { level, number }).or_insert((start, end, 0));
                *window = (window.0.min(start), window.1.max(end), window.2 + share.max(1));
            }
        }
        for (first, last, rows) in windows.into_values() {
            let id = self.next;
            self.next += 1;
            let seq = seq.unwrap_or((self.written, self.written));
            let mut segment = record(&self.relation, id, seq, (first, last), rows);
            if let Some(life) = self.life {
                let all = &mut segment.meta.all;
                (all.everlasting, all.ts, all.expires) =
                    (false, Some((first, last)), Some((first + life, last + life)));
            }
            self.segments.push(segment);
        }
    }

    fn check(&self) {
        let most = most_runs_in_window(&self.relation, &self.segments);
        assert!(most <= MAX_DEPTH, "{most} runs overlap");
    }
}

fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// 360 million rows.
#[test]
fn rows_in_order_of_time_come_together_and_are_merged_at_most_three_times() {
    let mut store = Store::new();
    for hour in 0..1_000 {
        store.flush(&[(hour * HOUR, (hour + 1) * HOUR - 1, 360_000)]);
        store.check();
        // Of the open base window, of each size the windows before the next larger one, and of the largest.
        let bound = 4 + 2 * 8 + hour as usize / 100;
        assert!(store.segments_of_a_series() <= bound, "{} after {hour} hours", store.segments_of_a_series());
    }
    assert!(store.merged <= store.written * 3, "{} merged of {}", store.merged, store.written);
    // One load in order of time ends the same way.
    let mut loaded = Store::new();
    for hour in 0..1_000 {
        loaded.put(&[(hour * HOUR, (hour + 1) * HOUR - 1, 360_000)], 6, Some((7, 7)));
        loaded.written += 360_000;
    }
    loaded.rest(quiet());
    assert!(loaded.segments_of_a_series() <= 20, "{}", loaded.segments_of_a_series());
    assert!(loaded.merged <= loaded.written * 3, "{} merged of {}", loaded.merged, loaded.written);
}

#[test]
fn windows_stay_below_an_eighth_of_the_life_of_their_rows() {
    let mut store = Store { life: Some(64 * HOUR), ..Store::new() };
    for hour in 0..400 {
        store.flush(&[(hour * HOUR, (hour + 1) * HOUR - 1, 36_000)]);
    }
    let longest = store.segments.iter().filter_map(|segment| times(&store.relation, &segment.meta.all));
    let longest = longest.map(|(first, last)| last - first).max().expect("segments");
    assert!(longest > 4 * HOUR && longest <= 8 * HOUR, "{} minutes", longest / 60_000_000);
}

#[test]
fn rows_in_random_order_of_time_keep_the_depth_bounded() {
    for seed in 1..6u64 {
        let (mut store, mut seed) = (Store::new(), seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for _ in 0..300 {
            let parts: Vec<(i64, i64, u64)> = (0..1 + random(&mut seed) % 4)
                .map(|_| {
                    let first = (random(&mut seed) % 2_000) as i64 * HOUR;
                    (first, first + (1 + random(&mut seed) % 400) as i64 * HOUR, 1_000 + random(&mut seed) % 200_000)
                })
                .collect();
            store.flush(&parts);
            store.check();
        }
        assert!(store.merged <= store.written * 12, "{} merged of {}", store.merged, store.written);
    }
}

#[test]
fn late_rows_are_merged_among_themselves_first() {
    let mut store = Store::new();
    store.flush(&[(0, HOUR, 4_000_000)]);
    let level = store.segments[0].id;
    for _ in 0..20 {
        store.flush(&[(0, HOUR, 10_000)]);
        store.check();
    }
    assert!(
        store.segments.iter().any(|segment| segment.id == level),
        "the large run was not rewritten for 5 % of late rows"
    );
}

#[test]
fn a_window_grows_only_when_it_is_closed_and_quiet() {
    let mut store = Store::new();
    store.put(&[(0, HOUR, 1_000_000)], 6, Some((1, 1)));
    store.put(&[(0, HOUR, 1_000_000)], 6, Some((2, 2)));
    let pick = |store: &Store, situation: &Situation| pick(&store.relation, &store.segments, situation);
    assert_eq!(pick(&store, &quiet()), None, "rows may still come");
    store.put(&[(9 * HOUR, 10 * HOUR, 1_000_000)], 6, Some((3, 3)));
    let fresh = Situation { fresh: store.segments.iter().map(|segment| segment.id).take(1).collect(), ..quiet() };
    assert_eq!(pick(&store, &fresh), None);
    assert_eq!(pick(&store, &quiet()).expect("closed and quiet").inputs.len(), 2);
    assert_eq!(pick(&store, &Situation { room: 19_999_999, ..quiet() }), None, "not as many bytes as its inputs have");
    assert!(pick(&store, &Situation { room: 20_000_000, ..quiet() }).is_some());
}

#[test]
fn a_table_without_time_becomes_one_level_once_it_is_quiet() {
    let relation = RelationDef { window: None, ..(*readings()).clone() };
    let of = |id: u64, rows: u64| record(&relation, id, (id, id), (0, HOUR), rows);
    let picked = |segments: &[SegmentRecord], situation: &Situation| {
        pick(&relation, segments, situation)
            .map(|pick| (pick.inputs.iter().map(|id| id.0).collect::<Vec<_>>(), pick.level))
    };
    let loaded = [of(1, 100), of(2, 100), of(3, 100)];
    assert_eq!(picked(&loaded, &quiet()), Some((vec![1, 2, 3], WHOLE)));
    assert_eq!(picked(&loaded, &Situation { fresh: BTreeSet::from([SegmentId(3)]), ..quiet() }), None);
    assert_eq!(picked(&loaded, &Situation { room: 2_000, ..quiet() }), None);
    let large = SMALL_BYTES / 10;
    assert_eq!(picked(&[of(1, large), of(2, large * 4 / 10)], &quiet()), None);
    assert_eq!(picked(&[of(1, large), of(2, large * 6 / 10)], &quiet()), Some((vec![1, 2], WHOLE)));
    assert_eq!(picked(&[of(1, 16_000), of(2, 1_000)], &quiet()), Some((vec![1, 2], WHOLE)));
    assert_eq!(picked(&[of(1, 16_000), of(2, 900)], &quiet()), None);
    assert_eq!(picked(&[of(1, 1_000)], &quiet()), None);
}

#[test]
fn base_windows_hold_up_to_a_million_rows() {
    let relation = readings();
    for (hours, rows) in [(12, 4_320_000u64), (24 * 365, 1_000_000_000), (24 * 3_650, 50_000_000), (1, 900_000_000)] {
        let all = record(&relation, 1, (1, 1), (0, hours * HOUR), rows).meta.all;
        let level = window_level(&relation, [&all]);
        let per_window = rows as f64 * f64::powi(2.0, level as i32) / (hours as f64 * 60.0 + 1.0);
        assert!((4e5..2e6).contains(&per_window) || level == 0, "{rows} rows in {hours} h: {per_window} a window");
    }
    let timeless = crate::segment::fixture::relation(&[("k", keyspan_model::ColumnType::Int, false)], &[]);
    assert_eq!(window_level(&timeless, []), WHOLE);
}

#[test]
fn compacting_everything_leaves_nothing_that_meets() {
    let mut store = Store::new();
    for hour in 0..3 {
        store.flush(&[(hour * HOUR / 2, hour * HOUR / 2 + HOUR, 100_000)]);
    }
    let mut merges = 0;
    while let Some(pick) = pick(&store.relation, &store.segments, &Situation { all: true, ..quiet() }) {
        store.merge(pick);
        merges += 1;
        assert!(merges < 10);
    }
    assert_eq!(most_runs_in_window(&store.relation, &store.segments), 1);
}

#[test]
fn a_segment_is_dropped_only_when_nothing_older_can_show_through() {
    let relation = readings();
    let now = 100 * 86_400_000_000;
    let mut old = record(&relation, 1, (50, 60), (0, HOUR), 1_000);
    old.meta.all.everlasting = false;
    old.meta.all.expires = Some((10, 20));
    let newer = record(&relation, 2, (61, 70), (0, HOUR), 1_000);
    let older = record(&relation, 3, (60, 70), (0, HOUR), 1_000);
    let elsewhere = record(&relation, 4, (1, 2), (2 * HOUR, 3 * HOUR), 1_000);
    let drops = |others: &[SegmentRecord], memory: &[Extent], now| {
        let all: Vec<SegmentRecord> = [&old].into_iter().chain(others).cloned().collect();
        expired(&relation, &all, memory, now)
    };
    assert_eq!(drops(&[newer.clone(), elsewhere], &[], now), vec![SegmentId(1)]);
    assert!(drops(std::slice::from_ref(&older), &[], now).is_empty(), "a segment written as early");
    assert!(drops(&[newer], std::slice::from_ref(&older.meta.all), now).is_empty(), "the log holds something as old");
    assert!(drops(&[], &[], 20).is_empty(), "gc_grace has not passed");
    old.meta.all.everlasting = true;
    assert!(expired(&relation, std::slice::from_ref(&old), &[], now).is_empty());
    let kept_for = |age| {
        let retention = Retention { age: Some(age), ended: None };
        RelationDef { retention, ..RelationDef::clone(&relation) }
    };
    let all = [old, older];
    assert!(expired(&kept_for(now - 59), &all, &[], now).is_empty(), "its newest write is of 60");
    assert_eq!(expired(&kept_for(now - 60), &all, &[], now), vec![SegmentId(1)], "whatever it overlaps");
}

#[test]
fn an_expired_version_stays_while_it_hides_an_older_one() {
    let plain = RelationDef { gc_grace: 0, ..RelationDef::clone(&readings()) };
    let gc = GcRule { max_versions: Some(1), ..GcRule::default() };
    let family = RelationDef { kind: RelationKind::Family, gc, ..plain.clone() };
    // Versions have keys of their own: these end in the time of the write.
    let older = record(&plain, 1, (10, 10), (10, 10), 1);
    let mut newer = record(&plain, 2, (20, 20), (20, 20), 1);
    (newer.meta.all.everlasting, newer.meta.all.expires) = (false, Some((30, 30)));
    let all = [older.clone(), newer.clone()];
    assert_eq!(expired(&plain, &all, &[], 40), [SegmentId(2)], "other rows");
    assert!(expired(&family, &all, &[], 40).is_empty(), "an older version of the cell");
    assert!(expired(&family, std::slice::from_ref(&newer), std::slice::from_ref(&older.meta.all), 40).is_empty());
    let mut of_others = older;
    let key = KeyEncoder::new(&plain.key[..1]).encode(&[Value::Text("zz".into())]).expect("a value");
    of_others.meta.all.columns[0] = (key.clone(), key);
    assert_eq!(expired(&family, &[of_others, newer], &[], 40), [SegmentId(2)], "versions of another cell");
}

#[test]
fn a_segment_is_freed_of_old_rows_where_they_came_over_a_long_time() {
    let retention = Retention { age: Some(1_000), ended: None };
    let relation = RelationDef { retention, ..RelationDef::clone(&readings()) };
    let extent = record(&relation, 1, (5_000, 6_000), (0, HOUR), 1_000).meta.all;
    let old = |now| old_rows(&relation, &extent, now);
    assert_eq!([5_999, 6_249, 6_999, 7_000, 9_000].map(old), [0, 250, 1_000, 1_000, 1_000]);
    let soon_gone = record(&relation, 1, (5_000, 5_250), (0, HOUR), 1_000).meta.all;
    assert_eq!(old_rows(&relation, &soon_gone, 6_200), 0);
    assert_eq!(old_rows(&readings(), &extent, 9_000), 0, "no retention");
}

#[test]
fn a_segment_is_freed_of_deleted_rows_when_there_are_many_and_room_for_the_rest() {
    let meta = record(&readings(), 1, (1, 1), (0, HOUR), 1_000).meta;
    assert!(!worth_freeing(&meta, 0, true, u64::MAX));
    assert!(worth_freeing(&meta, 1, true, u64::MAX), "asked for");
    assert!(!worth_freeing(&meta, 200, false, u64::MAX), "not worth it by itself");
    assert!(worth_freeing(&meta, 300, false, meta.bytes * 7 / 10));
    assert!(!worth_freeing(&meta, 300, false, meta.bytes * 7 / 10 - 1), "no room");
    assert!(worth_freeing(&meta, 1_000, false, 0), "nothing is left");
}
