//! The settings there are. One line each: name as SHOW spells it, default, kind, whether clients are told of changes.

use keyspan_model::IntervalStyle;
use keyspan_query::{POSTGRES_VERSION, POSTGRES_VERSION_NUM};

/// What values a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// `on` or `off`.
    Boolean,
    /// A whole number within bounds.
    Integer(i64, i64),
    /// A time, kept in milliseconds; 0 is none.
    Duration,
    /// Bytes, with their unit; 0 is none.
    Bytes,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list of names.
    Names,
    /// A time zone.
    TimeZone,
    /// `ISO` with an order of day, month and year.
    DateStyle,
    /// An encoding of texts.
    Encoding,
    /// Cannot be changed.
    Fixed,
}

/// One setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The name as PostgreSQL spells it.
    pub name: &'static str,
    /// The value of a new session.
    pub default: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// Whether the wire protocol tells the client of every change (ParameterStatus).
    pub reported: bool,
    /// For SHOW ALL.
    pub description: &'static str,
}

impl Definition {
    /// The name in lower case.
    pub fn key(&self) -> String {
        self.name.to_lowercase()
    }
}

const fn own(name: &'static str, default: &'static str, kind: Kind, description: &'static str) -> Definition {
    Definition { name, default, kind, reported: false, description }
}

const fn reported(name: &'static str, default: &'static str, kind: Kind, description: &'static str) -> Definition {
    Definition { name, default, kind, reported: true, description }
}

/// A setting of PostgreSQL's planner.
const fn planner(name: &'static str, default: &'static str, kind: Kind) -> Definition {
    own(name, default, kind, "Accepted for compatibility: plans do not depend on it.")
}

const ISOLATION: Kind = Kind::Word(&["read uncommitted", "read committed", "repeatable read", "serializable"]);
const LEVELS: Kind = Kind::Word(&[
    "debug5", "debug4", "debug3", "debug2", "debug1", "debug", "info", "log", "notice", "warning", "error", "fatal",
    "panic",
]);

/// All settings.
pub const DEFINITIONS: &[Definition] = &[
    own("advice", "on", Kind::Boolean, "Whether CREATE TABLE tells of keys that will hurt."),
    reported("application_name", "", Kind::Text, "Name of the application, for those who look at sessions."),
    own("array_nulls", "on", Kind::Boolean, "Accepted for compatibility."),
    own("backslash_quote", "safe_encoding", Kind::Text, "Accepted for compatibility."),
    own("block_size", "8192", Kind::Fixed, "Accepted for compatibility: blocks are of rows, not of bytes."),
    own("bytea_output", "hex", Kind::Word(&["hex"]), "Output format of bytes."),
    own("check_function_bodies", "on", Kind::Boolean, "Accepted for compatibility."),
    reported("client_encoding", "UTF8", Kind::Encoding, "Encoding of the texts that the client sends and gets."),
    own("client_min_messages", "notice", LEVELS, "Least severity of messages sent to the client."),
    own(
        "collection_size_fail",
        "0",
        Kind::Integer(0, i64::MAX),
        "Most elements that a statement may write into one collection; 0: no limit.",
    ),
    own(
        "collection_size_warn",
        "0",
        Kind::Integer(0, i64::MAX),
        "Elements beyond which a statement that writes them into one collection gets a WARNING; 0: never.",
    ),
    own("data_directory", "", Kind::Fixed, "The directory of the database, for superusers."),
    reported("DateStyle", "ISO, MDY", Kind::DateStyle, "Output format of dates: always ISO."),
    own("copy_commit_rows", "0", Kind::Integer(0, i64::MAX), "Rows after which COPY commits; 0: all or nothing."),
    own("deadlock_timeout", "1s", Kind::Duration, "Accepted for compatibility: deadlocks are found at once."),
    own("default_table_access_method", "keyspan", Kind::Text, "Accepted for compatibility."),
    own("default_tablespace", "", Kind::Text, "Accepted for compatibility."),
    reported("default_transaction_read_only", "off", Kind::Boolean, "Whether new transactions only read."),
    own("default_transaction_deferrable", "off", Kind::Boolean, "Accepted for compatibility."),
    own("default_transaction_isolation", "read committed", ISOLATION, "Isolation level of new transactions."),
    own("durability", "full", Kind::Word(&["full", "relaxed"]), "Whether a commit is on disk before it is answered."),
    own("escape_string_warning", "on", Kind::Boolean, "Accepted for compatibility: nothing is said of backslashes."),
    own("extra_float_digits", "1", Kind::Integer(-15, 3), "Accepted for compatibility: floats print exactly."),
    own(
        "foreign_keys",
        "refused",
        Kind::Word(&["refused", "not enforced"]),
        "Whether REFERENCES without NOT ENFORCED is refused, or kept without being enforced.",
    ),
    own("full_scan", "allow", Kind::Word(&["allow", "warn", "error"]), "Whether queries may read a whole table."),
    own("idle_in_transaction_session_timeout", "0", Kind::Duration, "Longest idle time inside a transaction."),
    own("idle_session_timeout", "0", Kind::Duration, "Longest idle time outside a transaction."),
    reported("in_hot_standby", "off", Kind::Fixed, "Whether the server is a standby."),
    reported("integer_datetimes", "on", Kind::Fixed, "Dates and times are integers."),
    reported("IntervalStyle", "postgres", Kind::Word(&IntervalStyle::NAMES), "Form of durations sent to the client."),
    reported("is_superuser", "on", Kind::Fixed, "Whether the user may do everything."),
    own("jit", "off", Kind::Boolean, "Accepted for compatibility."),
    own("keyspan_version", env!("CARGO_PKG_VERSION"), Kind::Fixed, "The version of the program."),
    own("lc_collate", "C", Kind::Fixed, "Texts are ordered by their bytes."),
    own("lc_ctype", "C.UTF-8", Kind::Fixed, "Classes of characters."),
    own("lc_messages", "C", Kind::Text, "Accepted for compatibility."),
    own("lc_monetary", "C", Kind::Text, "Accepted for compatibility."),
    own("lc_numeric", "C", Kind::Text, "Accepted for compatibility."),
    own("lc_time", "C", Kind::Text, "Accepted for compatibility."),
    own("lock_timeout", "0", Kind::Duration, "Longest wait for a row lock, an advisory lock or ALTER TABLE."),
    own(
        "log_keys",
        "redact",
        Kind::Word(&["redact", "show"]),
        "Whether values in logged statements read `?` (`redact`) or as they are (`show`).",
    ),
    own(
        "log_min_duration_statement",
        "-1",
        Kind::Integer(-1, i32::MAX as i64),
        "Milliseconds from which on a statement is logged; -1: none is.",
    ),
    own("maintenance_work_mem", "64MB", Kind::Text, "Accepted for compatibility: memory is shared by all queries."),
    own("max_connections", "100", Kind::Fixed, "Clients at a time: `serve --max-connections`."),
    own("max_identifier_length", "63", Kind::Fixed, "Longest name that PostgreSQL's tools expect."),
    own("max_index_keys", "32", Kind::Fixed, "Most key columns that PostgreSQL's tools expect."),
    own("max_prepared_transactions", "0", Kind::Fixed, "Accepted for compatibility: there is no two-phase commit."),
    own("memory", "", Kind::Fixed, "What memtables, blocks and queries may take together: `serve --memory`."),
    own(
        "partition_size_fail",
        "0",
        Kind::Bytes,
        "Size of a partition, by estimate, beyond which writes to it are refused; 0: no limit.",
    ),
    own(
        "partition_size_warn",
        "0",
        Kind::Bytes,
        "Size of a partition, by estimate, beyond which a statement that writes to it gets a WARNING; 0: never.",
    ),
    own(
        "password_encryption",
        "scram-sha-256",
        Kind::Word(&["scram-sha-256"]),
        "How verifiers of passwords are made: psql asks for it before it makes one.",
    ),
    own("role", "none", Kind::Text, "The role that statements run as; none: the session's user."),
    own("row_security", "on", Kind::Boolean, "Accepted for compatibility."),
    own("search_path", "\"$user\", public", Kind::Names, "Keyspaces in which names are looked up."),
    reported("server_encoding", "UTF8", Kind::Fixed, "Encoding of texts."),
    reported("server_version", POSTGRES_VERSION, Kind::Fixed, "PostgreSQL's version that clients may expect."),
    own("server_version_num", POSTGRES_VERSION_NUM, Kind::Fixed, "server_version as a number."),
    reported("session_authorization", "keyspan", Kind::Text, "The session's user."),
    own("session_replication_role", "origin", Kind::Text, "Accepted for compatibility."),
    reported("standard_conforming_strings", "on", Kind::Word(&["on"]), "Backslashes are ordinary characters in '…'."),
    own(
        "statement_memory",
        "0",
        Kind::Bytes,
        "Memory of all queries that one statement may take; 0: as much as `serve --statement-memory` allows.",
    ),
    own("statement_timeout", "0", Kind::Duration, "Longest time a statement may run."),
    own("synchronize_seqscans", "on", Kind::Boolean, "Accepted for compatibility."),
    own("superuser_reserved_connections", "3", Kind::Fixed, "Connections that only superusers may take."),
    own(
        "synchronous_commit",
        "on",
        Kind::Word(&["on", "off", "local", "remote_write", "remote_apply"]),
        "`off` is durability = relaxed.",
    ),
    own("temp_buffers", "8MB", Kind::Text, "Accepted for compatibility: temporary tables take no memory of their own."),
    own("temp_tablespaces", "", Kind::Text, "Accepted for compatibility."),
    own("tcp_keepalives_idle", "0", Kind::Integer(0, i32::MAX as i64), "Accepted for compatibility."),
    own(
        "tombstones_fail",
        "0",
        Kind::Integer(0, i64::MAX),
        "Most deleted and expired rows that a query may read; 0: no limit.",
    ),
    own(
        "tombstones_warn",
        "0",
        Kind::Integer(0, i64::MAX),
        "Deleted and expired rows beyond which a query that reads them gets a WARNING; 0: never.",
    ),
    reported("TimeZone", "UTC", Kind::TimeZone, "Time zone in which instants are read and shown."),
    own("transaction_deferrable", "off", Kind::Boolean, "Accepted for compatibility."),
    own("transaction_isolation", "read committed", ISOLATION, "Isolation level of the open transaction."),
    own("transaction_read_only", "off", Kind::Boolean, "Whether the open transaction only reads."),
    own("wal_level", "replica", Kind::Fixed, "Accepted for compatibility."),
    own("work_mem", "4MB", Kind::Text, "Accepted for compatibility: memory is shared by all queries."),
    own(
        "write_semantics",
        "cql",
        Kind::Word(&["cql", "postgres"]),
        "Whether INSERT overwrites a row and UPDATE makes one (`cql`), or 23505 and none (`postgres`).",
    ),
    planner("constraint_exclusion", "partition", Kind::Text),
    planner("cpu_index_tuple_cost", "0.005", Kind::Text),
    planner("cpu_operator_cost", "0.0025", Kind::Text),
    planner("cpu_tuple_cost", "0.01", Kind::Text),
    planner("default_statistics_target", "100", Kind::Integer(1, 10_000)),
    planner("effective_cache_size", "4GB", Kind::Text),
    planner("enable_bitmapscan", "on", Kind::Boolean),
    planner("enable_hashagg", "on", Kind::Boolean),
    planner("enable_hashjoin", "on", Kind::Boolean),
    planner("enable_incremental_sort", "on", Kind::Boolean),
    planner("enable_indexonlyscan", "on", Kind::Boolean),
    planner("enable_indexscan", "on", Kind::Boolean),
    planner("enable_material", "on", Kind::Boolean),
    planner("enable_memoize", "on", Kind::Boolean),
    planner("enable_mergejoin", "on", Kind::Boolean),
    planner("enable_nestloop", "on", Kind::Boolean),
    planner("enable_partition_pruning", "on", Kind::Boolean),
    planner("enable_seqscan", "on", Kind::Boolean),
    planner("enable_sort", "on", Kind::Boolean),
    planner("enable_tidscan", "on", Kind::Boolean),
    planner("from_collapse_limit", "8", Kind::Integer(1, i32::MAX as i64)),
    planner("geqo", "on", Kind::Boolean),
    planner("join_collapse_limit", "8", Kind::Integer(1, i32::MAX as i64)),
    planner("max_parallel_workers", "8", Kind::Integer(0, 1024)),
    planner("max_parallel_workers_per_gather", "2", Kind::Integer(0, 1024)),
    planner("plan_cache_mode", "auto", Kind::Word(&["auto", "force_generic_plan", "force_custom_plan"])),
    planner("random_page_cost", "4", Kind::Text),
    planner("seq_page_cost", "1", Kind::Text),
    own("xmloption", "content", Kind::Text, "Accepted for compatibility."),
];
