//! The language as tables: what each statement reads as, what is refused and where, and that nothing ends the process.

use keyspan_model::ErrorKind;

use crate::{Statement, parse, parse_one};

/// Statement and a part of its debug form, spans left out.
fn reads(table: &[(&str, &str)]) {
    for (sql, expected) in table {
        let parsed = parse_one(sql).unwrap_or_else(|error| panic!("{sql}: {error} at {:?}", error.position));
        assert_eq!(parsed.text, *sql);
        let shown = match &parsed.statement {
            Statement::Query(query) => query.query.to_string(),
            statement => format!("{statement:?}"),
        };
        assert!(shown.contains(expected), "{sql}\n  reads as {shown}\n  not as {expected}");
    }
}

/// Statement, kind, part of the message, position.
fn refuses(table: &[(&str, ErrorKind, &str, usize)]) {
    for (sql, kind, message, position) in table {
        let error = parse(sql).expect_err(sql);
        let got = (error.kind, error.position);
        assert_eq!(got, (*kind, Some(*position)), "{sql}: {error}");
        assert!(error.message.contains(message), "{sql}: {error}");
    }
}

#[test]
fn misreadings_are_rewritten() {
    reads(&[
        ("SELECT interval FROM t", "SELECT \"interval\" FROM t"),
        ("SELECT max(interval) FROM t WHERE interval > 1", "max(\"interval\") FROM t WHERE \"interval\" > 1"),
        ("SELECT CAST(a AS interval), interval '1 day' FROM t", "CAST(a AS INTERVAL), INTERVAL '1 day'"),
        ("SELECT user FROM t WHERE user = 'x'", "SELECT \"user\" FROM t WHERE \"user\" = 'x'"),
        ("SELECT user", "SELECT user"),
        ("SELECT json, a FROM t", "SELECT json, a FROM t"),
        ("SELECT json -> 'a' FROM json", "SELECT json -> 'a' FROM json"),
        ("SELECT 12345678-1234-1234-1234-123456789012", "SELECT UUID '12345678-1234-1234-1234-123456789012'"),
        ("SELECT 1h30m, P1DT2H, 0xCAFE", "INTERVAL '1 hours 30 minutes', INTERVAL '1 days 2 hours', X'CAFE'"),
        ("SELECT P1D.a FROM P1D", "SELECT p1d.a FROM p1d"),
        ("SELECT a FROM t WHERE x > ?-1 AND j ? 'k'", "x > $1 - 1 AND j ? 'k'"),
        ("SELECT a FROM t WHERE x IN ? AND y NOT IN ?", "x = ANY($1) AND y <> ALL($2)"),
        ("SELECT a FROM t WHERE x IN ()", "x IN ()"),
        (
            "SELECT * FROM t PER PARTITION LIMIT 2 LIMIT 9 ALLOW FILTERING",
            "LIMIT 9 SETTINGS per_partition_limit = 2, allow_filtering = true",
        ),
        ("SELECT * FROM (SELECT * FROM t PER PARTITION LIMIT 1) x", "FROM t SETTINGS per_partition_limit = 1) x"),
        (
            "SELECT key, value, time, token, ttl, first, last, convert, settings, path FROM t",
            "convert, settings, path FROM",
        ),
        (
            "SELECT a FROM t WHERE b OPERATOR(pg_catalog.~) '^t' COLLATE pg_catalog.default",
            "COLLATE pg_catalog.default",
        ),
        ("SELECT a::varint, CAST(b AS timeuuid), c::float8[] FROM t", "a::varint"),
        ("SELECT * FROM planes(with_history => true)", "planes(with_history => true)"),
    ]);
    refuses(&[
        ("SELECT 1a", ErrorKind::Syntax, "trailing junk after numeric literal at or near \"1a\"", 8),
        ("SELECT a FROM t PER PARTITION LIMIT 1 UNION SELECT 2", ErrorKind::NotSupported, "PER PARTITION LIMIT", 17),
    ]);
}

#[test]
fn definitions() {
    reads(&[
        (
            "CREATE KEYSPACE IF NOT EXISTS k WITH replication = {'class': 'S', 'rf': 3} AND durable_writes = true",
            "[(\"class\", Text(\"S\")), (\"rf\", Number(\"3\"))]",
        ),
        ("USE \"K\"", "Use(\"K\")"),
        ("CREATE TABLE T (a int, b text STATIC, PRIMARY KEY ((a), c))", "partition: [\"a\"], clustering: [\"c\"]"),
        (
            "CREATE TABLE t (a int PRIMARY KEY) WITH CLUSTERING ORDER BY (b DESC) AND gc_grace_seconds = 5",
            "column: \"b\", descending: true",
        ),
        ("CREATE TABLE t (a int DEFAULT 5 NOT NULL CHECK (a > 0))", "not_null: true"),
        ("CREATE TABLE t (a int DEFAULT now() + 1h NOT NULL)", "text: \"now() + 1h\""),
        ("CREATE TABLE t (a timestamp(3) without time zone, b double precision, c numeric(10, 2))", "LocalTimestamp"),
        ("CREATE TABLE t (a varchar(7))", "max_length: Some(7)"),
        ("CREATE TABLE t (a int[3], b frozen<list<text>>)", "List(Int)"),
        ("CREATE TABLE t (a int ARRAY, b frozen<list<text>>)", "List(Text)"),
        ("CREATE TABLE t (a int, CONSTRAINT q CHECK (a <> 1 OR a IS NULL))", "name: Some(\"q\"), check:"),
        ("CREATE TABLE db.s.t (user text, interval interval)", "name: \"interval\", column_type: Duration"),
        ("CREATE TABLE t (a, b, PRIMARY KEY (a)) AS SELECT 1, 2", "columns: [\"a\", \"b\"], primary_key: Some"),
        ("CREATE TABLE t AS SELECT 1 AS a WITH NO DATA", "with_data: false"),
        ("CREATE OR REPLACE VIEW v (x) AS SELECT - -1 AS y", "text: \"SELECT - -1 AS y\""),
        ("CREATE MATERIALIZED VIEW v WITH (a = 1, b = 2) AS SELECT 1 AS y WITH NO DATA", "with_data: false"),
        (
            "CREATE MATERIALIZED VIEW IF NOT EXISTS s.v (x) WITH a = 1 AND b = 2 AS SELECT 1 WITH DATA",
            "with_data: true",
        ),
        ("DROP MATERIALIZED VIEW IF EXISTS a, s.b", "kind: MaterializedView, if_exists: true"),
        ("REFRESH MATERIALIZED VIEW CONCURRENTLY s.v WITH DATA", "with_data: true"),
        ("REFRESH MATERIALIZED VIEW v WITH NO DATA", "with_data: false"),
        ("ALTER MATERIALIZED VIEW v RENAME TO w", "kind: \"materialized view\""),
        ("DROP TABLE IF EXISTS a, s.b CASCADE", "kind: Table, if_exists: true"),
        ("ALTER TABLE t ADD a int, b text", "name: \"b\", column_type: Text"),
        ("ALTER TABLE t ADD COLUMN IF NOT EXISTS a int, DROP COLUMN b", "DropColumn { if_exists: false, column: \"b\""),
        ("ALTER TABLE t DROP a, b", "column: \"b\", cascade: false"),
        ("ALTER TABLE t RENAME a TO b", "RenameColumn { from: \"a\", to: \"b\" }"),
        ("ALTER TABLE t RENAME TO u", "RenameTo(\"u\")"),
        ("ALTER TABLE t WITH comment = 'x'", "SetOptions"),
        (
            "ALTER TABLE t ALTER COLUMN a SET DEFAULT 1, ALTER a DROP NOT NULL",
            "SetNotNull { column: \"a\", not_null: false }",
        ),
        ("CREATE INDEX ON t (KEYS(m), full(f))", "parts: [Elements(\"keys\", \"m\"), Column(\"f\")]"),
        ("CREATE INDEX \"ix\" ON t (\"index\", lower(a) DESC)", "parts: [Column(\"index\"), Expression(\"lower(a)\")]"),
        (
            "CREATE CUSTOM INDEX ON t (a) USING 'sai' WITH OPTIONS = {'ascii': 'true'}",
            "method: Some(\"sai\"), operator_class: None, options: [(\"ascii\"",
        ),
        ("COMMENT ON COLUMN s.t.c IS NULL", "column: Some(\"c\"), comment: None"),
        ("TRUNCATE TABLE a, b", "Truncate"),
    ]);
    refuses(&[
        ("CREATE LOCAL VIEW v AS SELECT 1", ErrorKind::Syntax, "\"VIEW\"", 14),
        ("CREATE TABLE t (a int) ON COMMIT DROP", ErrorKind::InvalidTableDefinition, "temporary tables", 24),
        ("CREATE TABLE t (a map<text, list<int>>)", ErrorKind::InvalidTableDefinition, ": list<int>", 29),
        ("CREATE TABLE t (a int[][])", ErrorKind::NotSupported, "more than one dimension", 19),
        ("CREATE TABLE t (a int UNIQUE NULLS NOT DISTINCT)", ErrorKind::NotSupported, "NULLS NOT DISTINCT", 30),
        ("CREATE TABLE t (a int, UNIQUE (a) DEFERRABLE)", ErrorKind::NotSupported, "DEFERRABLE", 35),
        ("CREATE TABLE t (a int REFERENCES u MATCH PARTIAL)", ErrorKind::NotSupported, "MATCH PARTIAL", 36),
        (
            "CREATE TABLE t (a int PRIMARY KEY, b int PRIMARY KEY)",
            ErrorKind::InvalidTableDefinition,
            "multiple primary keys",
            42,
        ),
        ("CREATE TABLE t (a, b int)", ErrorKind::Syntax, "has no type", 17),
        ("CREATE DOMAIN x", ErrorKind::NotSupported, "CREATE DOMAIN is", 1),
    ]);
}

#[test]
fn batches() {
    let first_words = |sql: &str| -> Vec<String> {
        let statements = parse(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        statements.iter().map(|parsed| parsed.text.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect()
    };
    let wanted = ["BEGIN BATCH", "INSERT INTO", "UPDATE t", "DELETE v", "APPLY BATCH", "SELECT 1"];
    for ends in [";", ""] {
        let sql = format!(
            "BEGIN BATCH INSERT INTO t (k) VALUES (1){ends} UPDATE t SET v = 1 WHERE k = 1{ends} \
             DELETE v FROM t WHERE k = 2{ends} APPLY BATCH; SELECT 1"
        );
        assert_eq!(first_words(&sql), wanted, "{sql}");
    }
    let timed = "BEGIN UNLOGGED BATCH USING TIMESTAMP ? INSERT INTO t (k) VALUES (?) ON CONFLICT DO UPDATE SET v = 2 APPLY BATCH";
    assert_eq!(first_words(timed), ["BEGIN UNLOGGED", "INSERT INTO", "APPLY BATCH"]);
    assert_eq!(parse(timed).expect("parses")[1].parameters.len(), 1);
    // Only in a batch may semicolons be missing.
    assert!(parse("INSERT INTO t (k) VALUES (1) APPLY BATCH").is_err());
    assert!(parse("BEGIN; INSERT INTO t (k) VALUES (1) INSERT INTO t (k) VALUES (2)").is_err());
    reads(&[
        ("BEGIN LOGGED BATCH USING TIMESTAMP 7", "timestamp: Some("),
        ("APPLY BATCH", "ApplyBatch"),
        ("BEGIN COUNTER BATCH", "counter: true"),
    ]);
}

#[test]
fn families() {
    reads(&[
        ("INSERT INTO t (k, f['q']) VALUES (1, 2)", "qualifier: Some(Value("),
        ("INSERT INTO t VALUES (1, {'a': 1, $1: lower('B')}, {})", "Map([])"),
        ("UPDATE t SET f[:q] = {1: 2}, f = f WHERE k = 1", "Placeholder(\"$1\")"),
        ("DELETE f['q'], g FROM t WHERE k = 1", "name: \"g\""),
        (
            "CREATE TABLE t (k int PRIMARY KEY, f family<text, int[]>)",
            "max_versions: Some(1), max_age: None, both: false",
        ),
        ("CREATE TABLE t (k int PRIMARY KEY, f family<int, text> GC NONE, v int)", "max_versions: None, max_age: None"),
        (
            "CREATE TABLE t (k int PRIMARY KEY, f family<int> GC NONE)",
            "value: Boolean, gc: GcRule { max_versions: None",
        ),
        (
            "ALTER TABLE t ADD f family<text, text> GC max_age = '1d' AND max_versions = 2",
            "max_versions: Some(2), max_age: Some(86400000000), both: true",
        ),
        ("ALTER TABLE t ALTER f SET GC max_versions = 3 OR max_age = '30m'", "max_age: Some(1800000000), both: false"),
        (
            "ALTER TABLE t ALTER f SET GC max_versions = 9 OR (max_versions = 3 AND (max_age = '1s')) OR max_versions = 7",
            "GcRule { max_versions: Some(7), max_age: None, both: false, inner: [GcRule { max_versions: Some(3), \
             max_age: Some(1000000), both: true, inner: [] }] }",
        ),
        ("CREATE TABLE t (family int PRIMARY KEY, gc text)", "name: \"gc\""),
        ("CREATE TABLE t (k int PRIMARY KEY, n counter, counter int)", "type_text: \"counter\""),
        (
            "CREATE TABLE t (k int PRIMARY KEY, s set<int>)",
            "kind: Set, qualifier: [QualifierPart { name: \"qualifier\", column_type: Int, descending: false }], value: Boolean",
        ),
        (
            "ALTER TABLE t ADD l list<varchar>",
            "kind: List, qualifier: [QualifierPart { name: \"qualifier\", column_type: BigInt, descending: false }], value: Text",
        ),
        (
            "CREATE TABLE t (k int PRIMARY KEY, m map<text, frozen<list<int>>>, set int)",
            "kind: Map, qualifier: [QualifierPart { name: \"qualifier\", column_type: Text",
        ),
        ("UPDATE t SET s = s + {1, 2} WHERE k = 1", "change: Append, value: Set(["),
        ("UPDATE t SET \"S\" = \"S\" - {} WHERE k = 1", "change: Remove, value: Map([])"),
        ("UPDATE t SET l = [1] + l, m['a'] = 2 WHERE k = 1", "change: Prepend, value: List(["),
        ("UPDATE t SET l += [1], n -= 2 * 3 WHERE k = 1", "op: Minus, right: Nested(BinaryOp"),
        ("INSERT INTO t (l) VALUES ([1, f(2)])", "List(["),
        (
            "SELECT 1 FROM t WHERE a CONTAINS 1 AND contains CONTAINS KEY 'k'",
            "1 = ANY(collection_values(a)) AND contains['k'] IS NOT NULL",
        ),
        ("SELECT a contains FROM t", "contains"),
    ]);
    refuses(&[
        ("CREATE TABLE t (k int, f map<text>)", ErrorKind::Syntax, "syntax error", 34),
        ("CREATE TABLE t (k int, f family<(a text, a int), int>)", ErrorKind::DuplicateColumn, "cannot be called", 42),
        ("CREATE TABLE t (k int, f family<int[], int>)", ErrorKind::InvalidTableDefinition, "for qualifiers", 24),
        ("CREATE TABLE t (k int, s set<json>)", ErrorKind::InvalidTableDefinition, "for elements of sets", 24),
        ("CREATE TABLE t (k int, s set<int, int>)", ErrorKind::Syntax, "syntax error", 33),
        ("INSERT INTO t (s) VALUES ({1, 2: 3})", ErrorKind::Syntax, "syntax error", 32),
        ("UPDATE t SET l = l + [1 WHERE k = 1", ErrorKind::Syntax, "syntax error", 25),
        ("ALTER TABLE t ALTER f SET GC max_age = '1 month'", ErrorKind::InvalidParameter, "months", 30),
        ("ALTER TABLE t ALTER f SET GC max_age = 'x'", ErrorKind::InvalidDatetime, "interval", 30),
        ("ALTER TABLE t ALTER f SET GC versions = 2", ErrorKind::Syntax, "syntax error", 30),
    ]);
}

#[test]
fn writes() {
    reads(&[
        (
            "INSERT INTO t AS x (a) VALUES (1), (DEFAULT) USING TIMESTAMP 6 AND TTL ? IF NOT EXISTS",
            "if_not_exists: true",
        ),
        ("INSERT INTO t (values, \"B\") VALUES (1, -2)", "name: \"B\""),
        ("INSERT INTO t DEFAULT VALUES RETURNING a", "source: DefaultValues"),
        ("INSERT INTO t (SELECT 1)", "text: \"(SELECT 1)\""),
        (
            "INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET b = excluded.b, (c, d) = (1, DEFAULT) WHERE t.a = 1",
            "name: \"d\"",
        ),
        ("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING RETURNING *", "action: Nothing"),
        ("UPDATE t AS x USING TTL 5 SET a = a + 1 WHERE k = 1 IF b = 2 AND c = 3 RETURNING a", "condition: Some(If("),
        ("UPDATE t SET a = 1 WHERE k = 1 IF EXISTS", "condition: Some(Exists)"),
        ("DELETE a, b FROM t USING TIMESTAMP 5 WHERE k = 1", "name: \"b\""),
        ("DELETE FROM t x WHERE x.a = 1 RETURNING *", "alias: Some(\"x\")"),
        ("UPDATE t SET a = 1 FROM u", "value: \"u\""),
        ("DELETE FROM t USING u WHERE a = 1", "value: \"u\""),
        (
            "COPY t (a) FROM STDIN WITH (FORMAT csv, HEADER, DELIMITER ';', NULL '')",
            "format: Csv, header: Present, delimiter: Some(';'), null: Some(\"\")",
        ),
        ("COPY t TO STDOUT CSV HEADER QUOTE AS '\"'", "quote: Some('\"')"),
        ("COPY (SELECT 1) TO 'f.csv'", "target: File(\"f.csv\")"),
        (
            "COPY t FROM STDIN (ON_ERROR ignore, REJECT_LIMIT 5, LOG_VERBOSITY 'verbose')",
            "ignore_errors: true, reject_limit: Some(5), verbosity: Verbose",
        ),
    ]);
    refuses(&[
        ("INSERT INTO t (m['a') VALUES (1)", ErrorKind::Syntax, "syntax error", 21),
        ("INSERT INTO t VALUES ({'a': 1)", ErrorKind::Syntax, "syntax error", 30),
        ("COPY t FROM STDIN (ON_ERROR x)", ErrorKind::InvalidParameter, "\"x\" not recognized", 29),
        ("COPY t FROM STDIN (REJECT_LIMIT 0)", ErrorKind::InvalidParameter, "greater than zero", 33),
        ("COPY t FROM PROGRAM 'x'", ErrorKind::NotSupported, "PROGRAM", 13),
        ("INSERT INTO t VALUES (1", ErrorKind::Syntax, "syntax error at end of input", 24),
    ]);
}

#[test]
fn what_is_refused_says_what_to_write_instead() {
    let merge = "MERGE INTO t USING s ON t.k = s.k WHEN NOT MATCHED";
    for (sql, hint) in [
        (&*format!("{merge} BY SOURCE THEN DELETE"), "NOT EXISTS"),
        (&*format!("{merge} BY TARGET THEN INSERT DEFAULT VALUES"), "VALUES (DEFAULT, …)"),
        ("WITH x AS (MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE) SELECT 1", "Run MERGE by itself"),
        ("WITH x AS (DELETE FROM t) CREATE TABLE n (k int)", "CREATE TABLE … AS takes WITH"),
        ("CREATE TEMP SEQUENCE s", "Write CREATE SEQUENCE"),
        ("CREATE TABLE t (k int PRIMARY KEY, v variant)", "family<text, variant>"),
        ("CREATE TABLE t (k int PRIMARY KEY, s set<variant>)", "family<text, variant>"),
        ("CREATE TABLE t (k int PRIMARY KEY, f family<variant, text>)", "family<text, variant>"),
    ] {
        let error = parse(sql).expect_err(sql);
        assert_eq!(error.kind, ErrorKind::NotSupported, "{sql}: {error}");
        assert!(error.hint.as_deref().is_some_and(|own| own.contains(hint)), "{sql}: {:?}", error.hint);
        assert!(error.position.is_some(), "{sql}");
    }
    assert_eq!(parse("MERG INTO t").expect_err("misspelled").hint.as_deref(), Some("Perhaps you meant MERGE."));
}

#[test]
fn grouping_sets_are_counted_while_they_are_made() {
    let names = |from: u8| (from..from + 12).map(|c| char::from(c).to_string()).collect::<Vec<_>>().join(", ");
    let cube = format!("CUBE ({})", names(b'a'));
    assert!(parse(&format!("SELECT 1 FROM t GROUP BY GROUPING SETS ({cube})")).is_ok());
    let many = vec![cube.clone(); 1000].join(", ");
    for sets in [many.as_str(), &format!("{cube}, z"), &format!("GROUPING SETS ({cube}), ROLLUP (a, b)")] {
        let error = parse(&format!("SELECT 1 FROM t GROUP BY GROUPING SETS ({sets})")).expect_err("too many");
        assert_eq!(error.message, "too many grouping sets present (maximum 4096)");
    }
    for cube in ["CUBE (a, b, c, d, e, f, g, h, i, j, k, l, m)", "CUBE ((a, b), b, c, d, e, f, g, h, i, j, k, l, m)"] {
        let error = parse(&format!("SELECT 1 FROM t GROUP BY {cube}")).expect_err("too many");
        assert_eq!(error.message, "CUBE is limited to 12 elements");
    }
}

#[test]
fn sessions_and_the_rest() {
    reads(&[
        (
            "scan 'vehicles', {ROWPREFIXFILTER => 'STC#22#', LIMIT => 10, COLUMNS => ['a', 'b']}",
            "Attributes([(\"ROWPREFIXFILTER\", HbaseArgument { value: Text(\"STC#22#\"), position: 38 }), \
             (\"LIMIT\", HbaseArgument { value: Number(\"10\"), position: 58 }), \
             (\"COLUMNS\", HbaseArgument { value: List([Text(\"a\"), Text(\"b\")]), position: 73 })])",
        ),
        ("put 't', 'r', \"f:q\", -5", "verb: Put"),
        ("count 't', INTERVAL => 10, CACHE => 5", "(\"CACHE\", "),
        ("list", "verb: List, table: None"),
        ("DELETE \"a\" FROM t", "Delete(Delete"),
        ("EXPLAIN ANALYZE VERBOSE SELECT 1", "analyze: true, verbose: true"),
        ("EXPLAIN (ANALYZE off, FORMAT json) DELETE FROM t", "analyze: false, verbose: false, json: true"),
        ("SHOW TRANSACTION ISOLATION LEVEL", "Setting(\"transaction_isolation\")"),
        ("SHOW TABLES FROM k", "Tables { keyspace: Some(\"k\") }"),
        ("SHOW FILES FROM k.t", "Files(ObjectName"),
        ("DESCRIBE TABLE s.t", "Table(ObjectName"),
        ("DESC KEYSPACES", "Keyspaces"),
        ("SET search_path TO a, \"B\"", "values: Some([\"a\", \"B\"])"),
        ("SET LOCAL TIME ZONE 'UTC'", "name: \"timezone\", values: Some([\"UTC\"]), local: true"),
        ("SET full_scan = 'warn'", "values: Some([\"warn\"])"),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "session: true"),
        ("RESET ALL", "Reset(None)"),
        ("DISCARD ALL", "Discard(All)"),
        (
            "BEGIN ISOLATION LEVEL REPEATABLE READ, READ WRITE NOT DEFERRABLE",
            "Some(RepeatableRead), read_only: Some(false), deferrable: Some(false)",
        ),
        ("START TRANSACTION", "Begin"),
        ("COMMIT AND CHAIN", "chain: true"),
        ("ROLLBACK TO SAVEPOINT s", "RollbackTo(\"s\")"),
        ("RELEASE s", "Release(\"s\")"),
        ("PREPARE q (int, double precision) AS SELECT $1", "types: [Int, Double]"),
        ("EXECUTE q (1, 'x')", "Execute"),
        ("DEALLOCATE PREPARE ALL", "Deallocate(None)"),
        ("DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT 1", "scroll: Some(true), hold: true"),
        ("FETCH BACKWARD ALL IN c", "BackwardAll"),
        ("FETCH c", "cursor: \"c\", direction: Forward(1)"),
        ("MOVE 5 FROM c", "Forward(5), is_move: true"),
        ("CLOSE ALL", "Close(None)"),
        ("NOTIFY ch, 'x'", "payload: \"x\""),
        ("VACUUM FULL t", "Vacuum([ObjectName"),
        ("FLUSH TABLE t", "Flush([ObjectName"),
        ("COMPACT", "Compact([])"),
        ("CHECKPOINT", "Checkpoint"),
        ("BACKUP DATABASE TO '/a/b'", "Backup(\"/a/b\")"),
        ("ATTACH '/a/b' AS old (KEYSPACE Plant, READ_ONLY)", "name: \"old\", keyspace: \"plant\""),
        ("ATTACH DATABASE IF NOT EXISTS '/a/b' AS \"Old\"", "name: \"Old\", keyspace: \"public\", if_not_exists: true"),
        ("DETACH DATABASE IF EXISTS old", "name: \"old\", if_exists: true"),
    ]);
    refuses(&[
        ("LOCK TABLE t", ErrorKind::NotSupported, "LOCK is", 1),
        ("BEGIN BATCH USING TTL 5", ErrorKind::Syntax, "no TTL", 13),
        ("BEGIN UNLOGGED", ErrorKind::Syntax, "syntax error", 15),
        ("SELEC 1", ErrorKind::Syntax, "at or near \"SELEC\"", 1),
        ("SELECT * FORM t", ErrorKind::Syntax, "at or near \"FORM\"", 10),
        ("SELECT 1;\nSELECT 'é' FROM", ErrorKind::Syntax, "end of input", 26),
        ("SELECT 'abc", ErrorKind::Syntax, "unterminated quoted string", 8),
        ("EXPLAIN EXPLAIN SELECT 1", ErrorKind::Syntax, "at or near \"EXPLAIN\"", 9),
    ]);
    assert_eq!(parse("SELECT a FORM t").expect_err("misspelled").hint.as_deref(), Some("Perhaps you meant FROM."));
}

#[test]
fn statements_are_cut_at_semicolons() {
    let parsed = parse(" SELECT 'a;b' ; ;\n-- c;\nSELECT $1, $$;$$;").expect("parses");
    let texts: Vec<_> = parsed.iter().map(|p| (p.text.as_str(), p.offset, p.parameters.len())).collect();
    assert_eq!(texts, [("SELECT 'a;b'", 1, 0), ("SELECT $1, $$;$$", 24, 1)]);
    assert!(parse("-- nothing").expect("parses").is_empty());
    for (sql, incomplete) in [
        ("", false),
        ("SELECT 1", true),
        ("SELECT 1;", false),
        ("SELECT 'a;", true),
        ("/* x", true),
        ("SELECT (1;", false),
    ] {
        assert_eq!(crate::first_incomplete(sql), incomplete, "{sql}");
    }
}

/// Runs on a stack of 2 MB, as a server's thread has, and takes all that this does to the trees with it.
fn on_a_small_stack(run: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(run).expect("a thread");
    thread.join().expect("no panic and no overflow");
}

#[test]
fn long_and_deep_statements_end_well() {
    on_a_small_stack(|| {
        let chain = |term: &dyn Fn(usize) -> String, count: usize, operator: &str| {
            (0..count).map(term).collect::<Vec<_>>().join(operator)
        };
        let select = |condition: String| format!("SELECT * FROM t WHERE {condition}");
        let fine = [
            select(chain(&|i| format!("a = {i}"), 100_000, " OR ")),
            select(chain(&|i| format!("a <> {i}"), 100_000, " AND ")),
            select(format!("a IN ({})", chain(&|i| i.to_string(), 100_000, ","))),
            select(chain(&|i| format!("(a = {i} AND b = {i})"), 1_900, " OR ")),
            format!("SELECT {}", chain(&|i| i.to_string(), 450, " + ")),
            format!("SELECT {}1{}", "(".repeat(190), ")".repeat(190)),
            format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(60)),
            format!("SELECT * FROM t{}", " JOIN t USING (a)".repeat(120)),
            format!("SELECT {}1", "- ".repeat(450)),
        ];
        for sql in fine {
            let parsed = parse_one(&sql).unwrap_or_else(|error| panic!("{error}: {}…", &sql[..60]));
            let copy = parsed.clone();
            assert_eq!(copy, parsed);
            if let Statement::Query(query) = &parsed.statement {
                assert_eq!(query.text, sql);
                assert!(!query.query.to_string().is_empty());
            }
        }
        let refused = [
            select(chain(&|i| format!("(a = {i} AND b = {i})"), 3_000, " OR ")),
            format!("SELECT {}", chain(&|i| i.to_string(), 100_000, " + ")),
            format!("SELECT {}1", "NOT ".repeat(100_000)),
            format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(10_000)),
            format!("SELECT 1{}", "::int".repeat(100_000)),
            format!("SELECT 1::int{}", "[]".repeat(100_000)),
            format!("SELECT {}1", "INTERVAL ".repeat(100_000)),
            format!("SELECT {}", "(".repeat(100_000)),
            format!("SELECT {}", "floor(".repeat(150)),
            format!("SELECT {}", "CASE WHEN ".repeat(150)),
            format!("SELECT 1 FROM {}a", "(".repeat(150)),
            format!("SELECT 1::{}", "ARRAY<".repeat(100_000)),
            format!("SELECT a{}", ".a".repeat(100_000)),
        ];
        for sql in refused {
            let error = parse(&sql).expect_err("refused");
            assert!(matches!(error.kind, ErrorKind::TooComplex | ErrorKind::Syntax), "{error}");
        }
    });
}

/// Token soup: any text gets statements or an error with a position inside it.
#[test]
fn random_texts_never_panic() {
    const WORDS: &str = "SELECT FROM WHERE INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE ALTER DROP ADD COLUMN PRIMARY KEY ( ( ) ) [ ] { } , , . ; : :: \
        = <> < > + - * / ? $1 $2 :a 'x' 'it''s' E'\\n' U&'\\0061' 1 2.5 1e9 0xCA 1h30m P1D a b t \"Q\" é NULL DEFAULT NOT AND OR BETWEEN IN LIKE CASE WHEN \
        THEN ELSE END CAST AS int text interval user json timestamp ttl USING TTL TIMESTAMP IF EXISTS WITH UNION ALL JOIN ON GROUP BY ORDER LIMIT OFFSET PER \
        PARTITION ALLOW FILTERING RETURNING CONFLICT DO NOTHING EXPLAIN ANALYZE SHOW COPY STDIN BEGIN COMMIT PREPARE EXECUTE FETCH scan => LATERAL WINDOW \
        OVER FILTER floor extract array '{' $$ $$x$$ -- /* */ // ' \" \\ @> -> ->> #> ! ~* CHECK CONSTRAINT VIEW KEYSPACE REFERENCES row ANY SETTINGS";
    on_a_small_stack(|| {
        let words: Vec<&str> = WORDS.split_whitespace().collect();
        let starts = [
            "SELECT",
            "INSERT INTO t",
            "UPDATE t SET",
            "DELETE FROM t",
            "CREATE TABLE t (",
            "ALTER TABLE t",
            "COPY t",
            "SELECT a FROM t WHERE",
            "",
        ];
        // Plain xorshift: the same texts every time.
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below as u64) as usize
        };
        for round in 0..20_000 {
            let mut sql = starts[random(starts.len())].to_owned();
            for _ in 0..random(24) {
                let gap = if random(8) == 0 { "" } else { " " };
                sql = format!("{sql}{gap}{}", words[random(words.len())]);
            }
            match parse(&sql) {
                Ok(statements) => {
                    statements.iter().for_each(|parsed| assert!(sql.contains(&parsed.text), "{round}: {sql}"))
                }
                Err(error) => {
                    let length = sql.chars().count();
                    assert!(
                        error.position.is_some_and(|at| (1..=length + 1).contains(&at)),
                        "{round}: {sql}: {error:?}"
                    );
                }
            }
            crate::first_incomplete(&sql);
        }
    });
}

#[test]
fn types_of_casts() {
    use crate::ast::{Expr, SelectItem, SetExpr};
    let parsed = parse_one(
        "SELECT a::timestamp without time zone, CAST(b AS varint), c::decimal(10, 2), d::float(53), e::int4, f::bytea",
    )
    .expect("parses");
    let Statement::Query(query) = parsed.statement else { panic!("a query") };
    let SetExpr::Select(select) = *query.query.body else { panic!("a select") };
    let types: Vec<String> = select
        .projection
        .iter()
        .map(|item| match item {
            SelectItem::UnnamedExpr(Expr::Cast { data_type, .. }) => {
                crate::column_type(data_type).expect("a type").name()
            }
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(types, ["timestamp without time zone", "varint", "decimal(10,2)", "double", "int", "blob"]);
}

#[test]
fn roles_and_rights() {
    reads(&[
        ("CREATE ROLE ann", "CreateRole { name: \"ann\", if_not_exists: false, options: []"),
        ("CREATE USER ann WITH PASSWORD 'x' NOREPLICATION", "options: [Login(true), Password(Some(\"x\"))]"),
        (
            "CREATE ROLE IF NOT EXISTS ann WITH PASSWORD = 'x' AND LOGIN = true AND SUPERUSER = false",
            "options: [Password(Some(\"x\")), Login(true), Superuser(false)]",
        ),
        ("CREATE ROLE a NOLOGIN NOINHERIT CONNECTION LIMIT -1 IN ROLE b, c ADMIN d", "member_of: [\"b\", \"c\"]"),
        ("ALTER ROLE ann VALID UNTIL '2030-01-01' NOSUPERUSER", "[ValidUntil(\"2030-01-01\"), Superuser(false)]"),
        ("ALTER USER ann RENAME TO bob", "rename_to: Some(\"bob\")"),
        ("DROP ROLE IF EXISTS ann, bob", "DropRole { if_exists: true, names: [\"ann\", \"bob\"] }"),
        ("GRANT team TO ann, CURRENT_USER WITH ADMIN OPTION", "members: [Named(\"ann\"), Current], admin: true"),
        ("REVOKE ADMIN OPTION FOR team FROM ann CASCADE", "revoke: true, roles: [\"team\"]"),
        ("GRANT SELECT, UPDATE (a, b) ON t, k.u TO PUBLIC", "{ right: Update, columns: [\"a\", \"b\"] }"),
        ("GRANT ALL PERMISSIONS ON KEYSPACE k TO ann", "rights: None, objects: Keyspaces([\"k\"])"),
        ("GRANT MODIFY ON KEYSPACE k TO ann", "right: Modify, columns: [] }]), objects: Keyspaces"),
        ("GRANT USAGE ON SCHEMA k TO ann", "objects: Schemas([\"k\"])"),
        ("GRANT SELECT PERMISSION ON TABLE t TO 'ann'", "grantees: [Named(\"ann\")]"),
        ("REVOKE GRANT OPTION FOR ALL ON ALL TABLES IN SCHEMA a, b FROM ann", "grant_option: true"),
        ("ALTER TABLE t OWNER TO ann", "OwnerTo(Named(\"ann\"))"),
        ("CREATE SCHEMA s AUTHORIZATION ann", "owner: Some(Named(\"ann\"))"),
        ("ALTER SCHEMA s OWNER TO CURRENT_USER", "owner: Some(Current)"),
    ]);
    refuses(&[
        ("CREATE ROLE public", ErrorKind::ReservedName, "role name \"public\" is reserved", 13),
        ("CREATE ROLE a BYPASSRLS", ErrorKind::NotSupported, "the option BYPASSRLS", 15),
        ("GRANT CONNECT ON DATABASE d TO a", ErrorKind::NotSupported, "the privilege CONNECT", 7),
        ("GRANT ALL ON ALL SEQUENCES IN SCHEMA s TO a", ErrorKind::NotSupported, "privileges on ALL", 14),
        ("GRANT SELECT ON ALL KEYSPACES TO a", ErrorKind::NotSupported, "on ALL KEYSPACES", 17),
        ("ALTER ROLE a SET search_path TO b", ErrorKind::NotSupported, "settings of a role", 14),
        ("GRANT SELECT ON t", ErrorKind::Syntax, "end of input", 18),
    ]);
}
