//! Rows about the database, its roles, access methods and settings. Of everything else there is nothing.

use super::extension;
use super::heat;
use super::peers;
use super::procedures;
use super::roles;
use super::row::Row;
use super::sequence;
use super::source::{DATABASE, INDEX_METHOD, OWNER, Source, TABLE_METHOD};

/// UTF8.
const ENCODING: i64 = 6;

/// Tables of `pg_catalog` that never have a row.
pub const ALWAYS_EMPTY: &[&str] = &[
    "pg_event_trigger",
    "pg_foreign_server",
    "pg_foreign_table",
    "pg_inherits",
    "pg_partitioned_table",
    "pg_policy",
    "pg_prepared_xacts",
    "pg_publication",
    "pg_publication_namespace",
    "pg_publication_rel",
    "pg_publication_tables",
    "pg_replication_slots",
    "pg_rewrite",
    "pg_rules",
    "pg_stat_replication",
    "pg_statistic_ext",
    "pg_subscription",
    "pg_trigger",
];

/// The rows of a table of `pg_catalog`.
pub fn rows(name: &str, source: &Source) -> Option<Vec<Row>> {
    Some(match name {
        "pg_database" => vec![database(source)],
        "pg_roles" | "pg_authid" => roles::roles(source),
        "pg_user" | "pg_shadow" => roles::users(source),
        "pg_sequence" => sequence::definitions(source),
        "pg_sequences" => sequence::listed(source),
        "pg_depend" => sequence::dependencies(source),
        "pg_auth_members" => roles::members(source),
        "pg_am" => methods(),
        "pg_settings" => settings(source),
        "keyspan_heat" => heat::rows(source),
        "pg_locks" => peers::locks(source),
        "pg_prepared_statements" => peers::prepared(source),
        "pg_cursors" => peers::cursors(source),
        "pg_stat_activity" => peers::activity(source),
        "pg_collation" => collations(),
        "pg_tablespace" => tablespaces(),
        "pg_language" => languages(),
        "pg_extension" => extension::installed(),
        "pg_available_extensions" => extension::available(),
        "pg_available_extension_versions" => extension::versions(),
        "pg_proc" => procedures::rows(),
        _ => return None,
    })
}

fn database(source: &Source) -> Row {
    Row::new()
        .with("oid", DATABASE)
        .with("datname", source.database())
        .with("datdba", OWNER)
        .with("encoding", ENCODING)
        .with("datlocprovider", "c")
        .flags(&["datallowconn"])
        .with("datconnlimit", -1_i64)
        .with("dattablespace", 1_663_i64)
        .with("datcollate", "C.UTF-8")
        .with("datctype", "C.UTF-8")
}

fn methods() -> Vec<Row> {
    let method =
        |oid: i64, name: &str, kind: &str| Row::new().with("oid", oid).with("amname", name).with("amtype", kind);
    vec![method(TABLE_METHOD, "keyspan", "t"), method(INDEX_METHOD, "btree", "i")]
}

fn collations() -> Vec<Row> {
    let row = |(oid, name, provider): (i64, &str, &str)| {
        let row = Row::new().with("oid", oid).with("collname", name).with("collnamespace", 11_i64);
        row.with("collowner", OWNER)
            .with("collprovider", provider)
            .with("collencoding", -1_i64)
            .flags(&["collisdeterministic"])
    };
    [(100, "default", "d"), (950, "C", "c")].map(row).into()
}

fn languages() -> Vec<Row> {
    let row = |oid: i64, name: &str| Row::new().with("oid", oid).with("lanname", name).with("lanowner", OWNER);
    vec![row(procedures::INTERNAL, "internal"), row(14, "sql").flags(&["lanpltrusted"])]
}

fn tablespaces() -> Vec<Row> {
    vec![Row::new().with("oid", 1_663_i64).with("spcname", "pg_default").with("spcowner", OWNER)]
}

fn settings(source: &Source) -> Vec<Row> {
    let row = |name: &str, value: &str, context: &str| {
        let row = Row::new().with("name", name).with("setting", value).with("category", "Keyspan");
        row.with("context", context).with("pending_restart", false)
    };
    let described = source.info.described.iter().filter_map(|setting| {
        let value = (setting.in_unit)(source.info.settings.get(&setting.name.to_lowercase())?);
        let from = if value == setting.default { "default" } else { "session" };
        let row = row(setting.name, &value, setting.context).with("short_desc", setting.description);
        let row = row.with("vartype", setting.kind).with("unit", setting.unit).with("source", from);
        let row = row.with("boot_val", &setting.default).with("reset_val", &setting.default);
        let words = setting.words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let row = row.with("enumvals", Some(words).filter(|words| !words.is_empty()));
        let bounds = setting.bounds.map(|(least, most)| (least.to_string(), most.to_string()));
        let (least, most) = bounds.unzip();
        Some(row.with("min_val", least).with("max_val", most))
    });
    let is_described = |name: &str| source.info.described.iter().any(|each| each.name.eq_ignore_ascii_case(name));
    let custom = source.info.settings.iter().filter(|(name, _)| !is_described(name)).map(|(name, value)| {
        row(name, value, "user").with("vartype", "string").with("source", "session").with("reset_val", value)
    });
    described.chain(custom).collect()
}
