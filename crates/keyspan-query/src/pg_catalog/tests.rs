//! Queries as psql 15 and SQLAlchemy 2 send them (`captured.sql`), planned and run.

use std::sync::Arc;

use keyspan_model::{Catalog, Check, ColumnType, KeyspaceDef, TableDef, Value, ViewDef};

use crate::testing::{Bench, Rows};

/// The OID of the first table.
const M: &str = "17408";

fn bench() -> Bench {
    use ColumnType as C;
    let mut rows = Rows::default();
    let columns = [("host", C::Text, 'p'), ("at", C::Timestamp, 'd'), ("region", C::Text, '-'), ("v", C::Double, '-')];
    let table = rows.create("m", &columns, Vec::new());
    let mut table = TableDef::clone(&table);
    table.checks = vec![Check { name: "m_v_check".into(), sql: "v > 0".into() }];
    table.columns[2].default = Some("'x'".into());
    table.columns[2].not_null = true;
    rows.create("plain", &[("rowid", C::BigInt, 'r'), ("n", C::Decimal { precision: 10, scale: 2 }, '-')], Vec::new());
    let mut catalog = Catalog::clone(&rows.catalog);
    let view = ViewDef {
        id: catalog.new_table_id(),
        keyspace: "public".into(),
        name: "mv".into(),
        columns: Vec::new(),
        sql: "SELECT host, v FROM m".into(),
        search_path: vec!["public".into()],
        columns_before: None,
        materialized: None,
    };
    catalog.tables.insert(table.id, Arc::new(table));
    catalog.views.insert(view.id, Arc::new(view));
    let other = KeyspaceDef { name: "other".into(), options: Default::default(), attached: false };
    catalog.keyspaces.insert("other".into(), other);
    rows.catalog = Arc::new(catalog);
    let mut bench = Bench::new(rows);
    let mut info = crate::SessionInfo { user: "me".into(), database: "shop".into(), ..Default::default() };
    info.settings.insert("default_table_access_method".into(), "keyspan".into());
    bench.context.info = Arc::new(info);
    bench
}

async fn rows(sql: &str) -> Vec<String> {
    let (_, rows) = bench().query(sql).await.unwrap_or_else(|error| panic!("{error:?}\n{sql}"));
    rows.into_iter().map(|row| row.join("|")).collect()
}

fn captured() -> Vec<String> {
    include_str!("captured.sql").split("\n----\n").map(|sql| sql.replace("16388", M)).collect()
}

/// The captured query with this in it.
fn query(part: &str) -> String {
    captured().into_iter().find(|sql| sql.contains(part)).expect("a captured query")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_captured_query_is_planned_and_run() {
    let bench = bench();
    let mut failed = Vec::new();
    for sql in captured() {
        if let Err(error) = bench.run(&sql).await {
            failed.push(format!("{error:?}\n{sql}\n"));
        }
    }
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn psql_lists_tables_and_views() {
    let found = rows(&query("IN ('r','p','v','m','S','f','')")).await;
    assert_eq!(found, ["public|m|table|me", "public|mv|view|me", "public|plain|table|me"]);
    assert_eq!(rows(&query("^pg_' AND n.nspname")).await, ["other|me", "public|me"]);
    assert_eq!(rows(&query("daticulocale")).await, ["shop|me|UTF8|C.UTF-8|C.UTF-8|∅|libc|∅"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn psql_describes_a_table() {
    assert_eq!(rows(&query("'^(m)$'")).await, [format!("{M}|public|m")]);
    let columns = rows(&query("AS attcollation,\n  a.attidentity,\n  a.attgenerated\nFROM")).await;
    let expected = [
        "host|text|∅|t|∅||",
        "at|timestamp with time zone|∅|t|∅||",
        "region|text|'x'::text|t|∅||",
        "v|double precision|∅|f|∅||",
    ];
    assert_eq!(columns, expected);
    let index = "m_pkey|t|t|f|t|CREATE UNIQUE INDEX m_pkey ON public.m USING btree (host, at DESC)";
    assert_eq!(rows(&query("indisclustered")).await, [format!("{index}|PRIMARY KEY (host, at)|p|f|f|f|0")]);
    assert_eq!(rows(&query("r.contype = 'c'")).await, ["m_v_check|CHECK (v > 0)"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn psql_describes_a_view() {
    let sql = query("AS attcollation,\n  a.attidentity,\n  a.attgenerated\nFROM").replace(M, "19456");
    assert_eq!(rows(&sql).await, ["host|text|∅|f|∅||", "v|double precision|∅|f|∅||"]);
    assert_eq!(rows("SELECT pg_get_viewdef('mv'::regclass, true)").await, [" SELECT host, v FROM m;"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_oids() {
    let same = format!("SELECT 'm'::regclass, 'm'::regclass::oid, 'public.m'::regclass = {M}, to_regclass('nothing')");
    assert_eq!(rows(&same).await, [format!("m|{M}|t|∅")]);
    assert_eq!(
        rows("SELECT 23::regtype::text, 'integer'::regtype::oid, format_type(1700, 655366)").await,
        ["integer|23|numeric(10,2)"]
    );
    let error = bench().query("SELECT 'nothing'::regclass").await.expect_err("no such table");
    assert_eq!(error.message, "relation \"nothing\" does not exist");
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_are_listed() {
    let receive = "SELECT count(*) = count(p.oid) FROM pg_type t LEFT JOIN pg_proc p ON p.oid = t.typreceive \
                   WHERE t.typtype = 'b' AND t.typname <> 'aclitem' AND t.typname <> '_aclitem'";
    assert_eq!(rows(receive).await, ["t"]);
    // Npgsql's, which asks for all types, and pgcli's.
    let all = "SELECT count(*) > 0 FROM pg_type t LEFT JOIN pg_proc p ON p.oid = t.typreceive";
    assert_eq!(rows(all).await, ["t"]);
    assert_eq!(rows("SELECT 'trigger'::regtype::oid, 'event_trigger'::regtype").await, ["2279|event_trigger"]);
    assert_eq!(
        rows("SELECT 'array_recv'::regproc::text, to_regproc('lower'), to_regproc('abs')").await,
        ["array_recv|870|∅"]
    );
    let lower =
        "SELECT pg_get_function_result(oid), pg_get_function_arguments(oid) FROM pg_proc WHERE proname = 'lower'";
    assert_eq!(rows(lower).await, ["text|text"]);
    assert_eq!(rows("SELECT 'lower(text)'::regprocedure::oid").await, ["870"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn information_schema_knows_columns_and_keys() {
    let sql = "SELECT column_name, data_type, is_nullable, column_default, numeric_precision FROM \
               information_schema.columns WHERE table_schema = 'public' ORDER BY table_name, ordinal_position";
    let expected = [
        "host|text|NO|∅|∅",
        "at|timestamp with time zone|NO|∅|∅",
        "region|text|NO|'x'::text|∅",
        "v|double precision|YES|∅|53",
        "host|text|YES|∅|∅",
        "v|double precision|YES|∅|53",
        "n|numeric|YES|∅|10",
    ];
    assert_eq!(rows(sql).await, expected);
    let keys = "SELECT column_name, ordinal_position FROM information_schema.key_column_usage k JOIN \
                information_schema.table_constraints c USING (constraint_name) WHERE constraint_type = 'PRIMARY KEY' \
                ORDER BY 2";
    assert_eq!(rows(keys).await, ["host|1", "at|2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_have_types() {
    let sql = "SELECT typname, oid::regtype::text FROM pg_type t WHERE t.oid = to_regtype($1)";
    let (_, rows) = bench().query_with(sql, &[Value::Text("uuid".into())]).await.expect("rows");
    assert_eq!(rows, [["uuid", "uuid"]]);
}
