//! Table options that have an effect. All others are stored and shown, so that DDL written for Cassandra runs.

use keyspan_cql::{OptionValue, TableOption};
use keyspan_model::{
    ColumnDef, ColumnId, ColumnRole, ColumnType, Encoding, Error, ErrorKind, Result, Retention, TableDef, nearest,
    parse_fixed_duration,
};

use crate::dml::using::TTL_MAX;
use crate::outcome::Notice;

/// Cassandra's default for how long tombstones are kept: ten days, in seconds.
pub(crate) const GC_GRACE: u32 = 864_000;

/// Microseconds within which an ALTER TABLE is committed, or a quarter of its table's retention if that is less. What the
/// retention ends within them is gone with it.
const COMMITTED_WITHIN: i64 = 60_000_000;

/// Options that mean something here.
const KNOWN: [&str; 7] =
    ["comment", "compression", "default_time_to_live", "encoding", "gc_grace_seconds", "retention", "window"];

/// Options of Cassandra, ScyllaDB and PostgreSQL, which are stored and shown.
const SHOWN: [&str; 25] = [
    "additional_write_policy",
    "allow_auto_snapshot",
    "bloom_filter_fp_chance",
    "caching",
    "cdc",
    "compaction",
    "crc_check_chance",
    "dclocal_read_repair_chance",
    "extensions",
    "fillfactor",
    "id",
    "incremental_backups",
    "max_index_interval",
    "memtable",
    "memtable_flush_period_in_ms",
    "min_index_interval",
    "oids",
    "parallel_workers",
    "paxos_grace_seconds",
    "read_repair",
    "read_repair_chance",
    "speculative_retry",
    "synchronous_updates",
    "tombstone_gc",
    "user_catalog_table",
];

/// Warns of options that no program has, which may be misspelled.
pub(super) fn warnings(options: &[TableOption]) -> impl Iterator<Item = Notice> {
    options.iter().filter(|option| !is_known(&option.name)).map(|option| {
        let warning = Notice::warning("01000", format!("option \"{}\" is stored, but means nothing", option.name));
        match nearest(&option.name, KNOWN) {
            Some(near) => warning.with_hint(format!("Perhaps you meant \"{near}\".")),
            None => warning,
        }
    })
}

fn is_known(name: &str) -> bool {
    let of_postgres = ["autovacuum_", "log_autovacuum_", "vacuum_", "toast_", "toast."];
    KNOWN.contains(&name) || SHOWN.contains(&name) || of_postgres.iter().any(|prefix| name.starts_with(prefix))
}

/// Stores the options and what they mean in the definition. `now`: the time of the clock, in microseconds since 1970;
/// `None` where the table is new, and inside of a transaction, which may end at any time.
pub(super) fn apply(table: &mut TableDef, options: &[TableOption], now: Option<i64>) -> Result<()> {
    for option in options {
        match option.name.as_str() {
            "default_time_to_live" => table.default_ttl = seconds(option, TTL_MAX)?,
            "retention" => table.retention = retention(table, option, now)?,
            "gc_grace_seconds" => table.gc_grace = seconds(option, i64::from(i32::MAX))?,
            "encoding" => table.encoding = encoding(option)?,
            "compression" if !names_encoding(table, options) => table.encoding = encoding_of_compression(option),
            "window" => table.window = window_named(table, option)?,
            _ => {}
        }
        table.options.insert(option.name.clone(), option.value.to_string());
    }
    Ok(())
}

fn encoding(option: &TableOption) -> Result<Encoding> {
    let name = option.value.text();
    Encoding::of_name(&name).ok_or_else(|| {
        let message = format!("encoding must be 'fast' or 'small', but was '{name}'");
        Error::new(ErrorKind::InvalidParameter, message).at(option.position)
    })
}

fn names_encoding(table: &TableDef, options: &[TableOption]) -> bool {
    table.options.contains_key("encoding") || options.iter().any(|option| option.name == "encoding")
}

/// What comes near Cassandra's `compression = {'class': 'ZstdCompressor'}`, whose compressors are fast or thorough.
fn encoding_of_compression(option: &TableOption) -> Encoding {
    let OptionValue::Map(entries) = &option.value else { return Encoding::Fast };
    let named = |name: &str| entries.iter().find(|(own, _)| own == name).map(|(_, value)| value.text());
    let class = named("class").or_else(|| named("sstable_compression")).unwrap_or_default();
    let thorough = ["ZstdCompressor", "DeflateCompressor"].iter().any(|name| class.ends_with(name));
    let enabled = named("enabled").is_none_or(|enabled| !enabled.eq_ignore_ascii_case("false"));
    if thorough && enabled { Encoding::Small } else { Encoding::Fast }
}

/// The column whose time divides the table into windows: the first of a time type after the partition key.
pub(super) fn window_column(columns: &[ColumnDef]) -> Option<ColumnId> {
    let clustering = |column: &&ColumnDef| matches!(column.role, ColumnRole::Clustering { .. });
    columns.iter().filter(clustering).find(|column| is_time(column.ty)).map(|column| column.id)
}

fn is_time(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Timestamp | ColumnType::LocalTimestamp | ColumnType::Date | ColumnType::TimeUuid)
}

fn window_named(table: &TableDef, option: &TableOption) -> Result<Option<ColumnId>> {
    let name = option.value.text();
    if name.eq_ignore_ascii_case("none") {
        return Ok(None);
    }
    let column = table.expect_column(&name).map_err(|error| error.at(option.position))?;
    if !column.is_key() || !is_time(column.ty) {
        let message = format!("option window: column \"{name}\" is not a key column of a time type");
        let hint = "Name a key column of type timestamp, date or timeuuid, or 'none'.";
        return Err(Error::new(ErrorKind::InvalidParameter, message).with_hint(hint).at(option.position));
    }
    Ok(Some(column.id))
}

fn retention(table: &TableDef, option: &TableOption, now: Option<i64>) -> Result<Retention> {
    let text = option.value.text();
    let age = match text.eq_ignore_ascii_case("none") {
        true => None,
        false => Some(age(&text).map_err(|error| error.at(option.position))?),
    };
    if !table.retention.is_shorter_than(age) {
        return Ok(Retention { age, ..table.retention });
    }
    let Some(now) = now else {
        let message = "a retention cannot be made longer inside a transaction block";
        let hint = "COMMIT first, and write ALTER TABLE by itself.";
        return Err(Error::new(ErrorKind::ActiveTransaction, message).with_hint(hint).at(option.position));
    };
    Ok(table.retention.lengthened(age, now, COMMITTED_WITHIN))
}

fn age(text: &str) -> Result<i64> {
    let unfit = || {
        let message = format!("retention must be a positive time without months, but was '{text}'");
        let hint = "Write days or hours, such as '30d' or '12h', or 'none'.";
        Error::new(ErrorKind::InvalidParameter, message).with_hint(hint)
    };
    // A plain number could be meant as seconds or as days.
    if text.parse::<f64>().is_ok() {
        return Err(unfit());
    }
    parse_fixed_duration(text).map_err(|_| unfit())?.ok_or_else(unfit)
}

fn seconds(option: &TableOption, most: i64) -> Result<u32> {
    let text = option.value.text();
    let number: Option<i64> = text.parse().ok();
    match number {
        Some(number) if (0..=most).contains(&number) => Ok(number as u32),
        _ => {
            let message = format!("{} must be a whole number of seconds from 0 to {most}, but was {text}", option.name);
            Err(Error::new(ErrorKind::InvalidParameter, message).at(option.position))
        }
    }
}

/// Changes options of a table that has rows; `now` as for [`apply`]. The window column is fixed: the files are divided
/// by it.
pub(super) fn change_options(table: &mut TableDef, options: &[TableOption], now: Option<i64>) -> Result<()> {
    if let Some(option) = options.iter().find(|option| option.name == "window") {
        let error = Error::not_supported("the window column of a table cannot be changed");
        return Err(error.with_hint("Create a new table and INSERT … SELECT.").at(option.position));
    }
    apply(table, options, now)
}
