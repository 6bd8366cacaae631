//! Filters to spans: a table of texts, recognised keys, and random predicates against a scan that checks every row.

use std::ops::Bound;

use datafusion::sql::sqlparser::ast;
use keyspan_model::{ColumnType, Span, TableDef, Value};

use super::{KeyMatch, KeyPart, KeyRanges, key_of, no_constants};
use crate::testing::{Bench, Rows, expression};

fn text(value: &str) -> Value {
    Value::Text(value.into())
}

/// Key (k text, n int DESC, t timestamp), value v.
fn table(rows: &mut Rows) -> std::sync::Arc<TableDef> {
    let columns = [
        ("k", ColumnType::Text, 'p'),
        ("n", ColumnType::Int, 'd'),
        ("t", ColumnType::Timestamp, 'a'),
        ("v", ColumnType::Int, '-'),
    ];
    let mut data = Vec::new();
    for (place, k) in ["", "a", "ab", "abc", "b", "ba", "c"].into_iter().enumerate() {
        for n in -2..3 {
            for t in 0..4_i64 {
                let v = place as i32 + n * 2 + t as i32;
                let v = if v % 5 == 0 { Value::Null } else { Value::Int(v) };
                data.push(vec![text(k), Value::Int(n), Value::Timestamp(t * 1_000_000), v]);
            }
        }
    }
    rows.create("t", &columns, data)
}

fn bench() -> Bench {
    let mut rows = Rows::default();
    table(&mut rows);
    Bench::new(rows)
}

#[tokio::test]
async fn filters_become_spans() {
    let bench = bench();
    for (filter, spans, exact) in [
        ("k = 'a'", "[('a')]", true),
        ("'a' = k", "[('a')]", true),
        ("k = 'a' AND n = 1", "[('a', 1)]", true),
        ("k IN ('b', 'a') AND n IN (1, 2)", "[('a', 2), ('a', 1), ('b', 2), ('b', 1)]", true),
        ("k = 'a' AND n > 0", "[('a', (0 ..))]", true),
        ("k = 'a' AND n BETWEEN 0 AND 1", "[('a', [0 .. 1])]", true),
        ("k = 'a' AND n <> 0", "[('a', (0 ..)), ('a', (.. 0))]", true),
        ("k = 'a' AND n = 1 AND t < '1970-01-01 00:00:02Z'", "[('a', 1, (.. 1970-01-01 00:00:02+00))]", true),
        ("k LIKE 'a%'", "[(['a' .. 'b'))]", true),
        ("k LIKE 'a%c'", "[(['a' .. 'b'))]", false),
        ("k LIKE 'a_'", "[(['a' .. 'b'))]", false),
        ("starts_with(k, 'ab')", "[(['ab' .. 'ac'))]", true),
        ("k NOT LIKE 'a%'", "[all]", false),
        ("k = 'a' OR k = 'b'", "[('a'), ('b')]", true),
        ("k = 'a' OR (k = 'b' AND n > 1)", "[('a'), ('b', (1 ..))]", true),
        ("k = 'a' OR v = 1", "[all]", false),
        ("n = 1", "[all]", true),
        ("n IN (1, 2)", "[all]", false),
        ("n = 1 OR v = 1", "[all]", false),
        ("k = 'a' AND t = '1970-01-01 00:00:01Z'", "[('a')]", true),
        ("k > 'a' AND n = 1", "[(('a' ..))]", true),
        ("(k = 'a' AND t > '1970-01-01') OR (k = 'b' AND t > '1970-01-01 00:00:01Z')", "[('a'), ('b')]", false),
        ("(k = 'a' OR k = 'b') AND t > '1970-01-01'", "[('a'), ('b')]", true),
        ("(k, n) > ('a', 1)", "[('a', (1 ..)), (('a' ..))]", true),
        ("(k, n) < ('b', 0)", "[((.. 'b')), ('b', (.. 0))]", true),
        ("(k, n) = ('a', 1)", "[('a', 1)]", true),
        ("k > 'a' AND k < 'b'", "[(('a' .. 'b'))]", true),
        ("k = 'a' AND v > 3", "[('a')]", false),
        ("upper(k) = 'A'", "[all]", false),
        ("k || 'x' = 'ax' AND k >= 'a'", "[(['a' ..))]", false),
        ("row_key LIKE 'a#1#%'", "[('a', 1)]", true),
        ("row_key LIKE 'a#1%'", "[('a')]", false),
        ("row_key LIKE 'a%'", "[(['a' .. 'b'))]", true),
    ] {
        let plan = bench.explain(&format!("SELECT v FROM t WHERE {filter}"), false).await.expect(filter);
        let line = plan.lines().last().unwrap_or_default();
        assert!(line.contains(&format!("spans={spans}, ")), "{filter}: {plan}");
        assert_eq!(!line.contains("filter=") && !plan.contains("Filter:"), exact, "{filter}: {plan}");
    }
    for (filter, ranges) in [
        ("t >= '1970-01-01' AND t < '1970-01-02'", "t: [1970-01-01 00:00:00+00 .. 1970-01-02 00:00:00+00)"),
        ("n = 1 AND t < '1970-01-02' AND v > 1", "n: [1 .. 1], t: (.. 1970-01-02 00:00:00+00)"),
        ("k = 'a' AND t > '1970-01-01'", "t: (1970-01-01 00:00:00+00 ..)"),
    ] {
        let plan = bench.explain(&format!("SELECT v FROM t WHERE {filter}"), false).await.expect(filter);
        assert!(plan.contains(&format!("ranges=[{ranges}], ")), "{filter}: {plan}");
    }
    let plan = bench.explain("SELECT v FROM t WHERE k = 'a' AND k = 'b'", false).await.expect("a plan");
    assert!(plan.contains("spans=[],") || plan.contains("Empty"), "{plan}");
}

#[test]
fn whole_keys_and_single_spans_are_recognised() {
    let mut rows = Rows::default();
    let table = table(&mut rows);
    let find = |condition: &str| key_of(&expression(condition), &table, "UTC", &[], &mut no_constants);
    let value = |value: Value| KeyPart::Value(value);
    let count = |keys: &KeyRanges| keys.keys(&table, &[]).expect("keys").len();
    let second = value(Value::Timestamp(1_000_000));
    let whole = KeyMatch::WholeKey(vec![value(text("a")), KeyPart::Parameter(0, ColumnType::Int), second]);
    assert_eq!(find("t = '1970-01-01 00:00:01' AND (k = 'a') AND $1 = n"), whole);
    assert!(
        matches!(find("k = 'a' AND n IN (1, 2, 1) AND t = '1970-01-01'"), KeyMatch::WholeKeys(keys) if count(&keys) == 2)
    );
    let KeyMatch::SpansOnly(range) = find("k = 'a' AND n > -1 AND n <= 2") else { panic!("not a span") };
    let with = |n: i32| vec![text("a"), Value::Int(n)];
    let span = Span { start: Bound::Included(with(2)), end: Bound::Excluded(with(-1)) };
    assert_eq!(range.bind(&table, &[]), Ok(vec![span]));
    let KeyMatch::SpansOnly(range) = find("k IN ('b', 'a', $1) AND n = 1") else { panic!("not spans") };
    let prefix = |k: &str| Span::prefix(vec![text(k), Value::Int(1)]);
    assert_eq!(range.bind(&table, &[Value::Null]), Ok(vec![prefix("a"), prefix("b")]));
    let many = |count: usize| (0..count).map(|each| each.to_string()).collect::<Vec<_>>().join(", ");
    let keys = |count| format!("k = 'a' AND n IN ({0}) AND t IN ('1970-01-01Z', {1})", many(count), "'1970-01-02Z'");
    let rows = "(t, k) IN (('1970-01-01Z', 'a'), ('1970-01-02Z', $1)) AND n IN (1, 2)";
    let KeyMatch::WholeKeys(of_rows) = find(rows) else { panic!("not keys") };
    let day = Value::Timestamp(86_400_000_000);
    let key = |k: &str, n: i32, t: &Value| vec![text(k), Value::Int(n), t.clone()];
    let zero = Value::Timestamp(0);
    let expected = vec![key("a", 2, &zero), key("a", 1, &zero), key("b", 2, &day), key("b", 1, &day)];
    assert_eq!(of_rows.keys(&table, &[text("b")]), Ok(expected));
    let KeyMatch::SpansOnly(of_rows) = find("(k, n) IN (('b', 1), ('a', 2), ('b', 1))") else { panic!("not spans") };
    let span = |k: &str, n: i32| Span::prefix(vec![text(k), Value::Int(n)]);
    assert_eq!(of_rows.bind(&table, &[]), Ok(vec![span("a", 2), span("b", 1)]));
    assert!(matches!(find("((k)) IN (('a'))"), KeyMatch::SpansOnly(_)));
    let KeyMatch::WholeKeys(any) = find("k = ANY($2::text[]) AND n = 1 AND t = ANY(ARRAY['1970-01-01Z']::timestamp[])")
    else {
        panic!("not keys")
    };
    assert_eq!(any.parameters(), [(1, ColumnType::list(ColumnType::Text))]);
    let array = Value::List(vec![text("b"), Value::Null, text("a"), text("b")]);
    assert_eq!(any.keys(&table, &[Value::Null, array]), Ok(vec![key("a", 1, &zero), key("b", 1, &zero)]));
    assert_eq!(any.keys(&table, &[Value::Null, Value::Null]), Ok(Vec::new()));
    assert!(any.keys(&table, &[]).is_err());
    let KeyMatch::SpansOnly(any) = find("k = 'a' AND n = ANY($1)") else { panic!("not spans") };
    let array = Value::List(vec![Value::BigInt(1), Value::BigInt(5_000_000_000), Value::BigInt(2)]);
    assert_eq!(any.bind(&table, &[array]), Ok(vec![span("a", 2), span("a", 1)]));
    assert!(matches!(find(&keys(1_000)), KeyMatch::WholeKeys(keys) if count(&keys) == 2_000));
    assert_eq!(find(&keys(50_001)), KeyMatch::TooMany);
    let KeyMatch::SpansOnly(crossed) = find("k = 'a' AND n > 2 AND n < 1") else { panic!("not a span") };
    assert_eq!(crossed.bind(&table, &[]), Ok(Vec::new()));
    for other in [
        "k = 'a' AND v = 1",
        "n = 1",
        "k = 'a' AND t = '1970-01-01'",
        "k = 'a' OR k = 'b'",
        "k = upper('a')",
        "k = 1",
        "k = 'a' AND k = 'b'",
        "k = NULL",
        "n = 1.5 AND k = 'a'",
        "k <> 'a'",
        "other.k = 'a'",
        "NOT k = 'a'",
        "(k, n) IN (('a', 1), ('b'))",
        "(k, v) IN (('a', 1))",
        "(k, n) IN (('a', 1)) AND n = 1",
        "(n, t) IN ((1, '1970-01-01Z'))",
        "k = ANY($1) AND n = ANY($2)",
        "k = ANY('{a}')",
        "k <> ANY($1)",
        "k = ANY(ARRAY[v])",
    ] {
        assert_eq!(find(other), KeyMatch::Other, "{other}");
    }
    let local = expression("k = 'a' AND n = 1 AND t = '1970-01-01 00:00:01'");
    assert_eq!(key_of(&local, &table, "Europe/Berlin", &[], &mut no_constants), KeyMatch::Other);
    let mut computed = |_: &ast::Expr, ty| (ty == ColumnType::Timestamp).then_some(Value::Timestamp(1));
    let key = KeyMatch::WholeKey(vec![value(text("a")), value(Value::Int(1)), value(Value::Timestamp(1))]);
    assert_eq!(key_of(&local, &table, "Europe/Berlin", &[], &mut computed), key);
}

#[test]
fn parameters_of_other_types_are_left_to_the_planner() {
    use ColumnType as C;
    let mut rows = Rows::default();
    let table = table(&mut rows);
    let find = |condition: &str, types: &[Option<C>]| {
        key_of(&expression(condition), &table, "Europe/Berlin", types, &mut no_constants)
    };
    let whole = "k = $1 AND n = $2 AND t = $3";
    for types in [&[][..], &[None, Some(C::SmallInt)], &[Some(C::Text), Some(C::BigInt), Some(C::Timestamp)]] {
        assert!(matches!(find(whole, types), KeyMatch::WholeKey(_)), "{types:?}");
    }
    let numeric = C::Decimal { precision: 38, scale: 10 };
    for types in [
        [None, None, Some(C::LocalTimestamp)],
        [None, None, Some(C::Date)],
        [None, None, Some(C::Text)],
        [None, Some(numeric), None],
        [None, Some(C::Double), None],
        [Some(C::Uuid), None, None],
    ] {
        assert_eq!(find(whole, &types), KeyMatch::Other, "{types:?}");
    }
    let list = |ty| [Some(C::list(ty))];
    assert!(matches!(find("k = 'a' AND n = ANY($1)", &list(C::SmallInt)), KeyMatch::SpansOnly(_)));
    assert!(matches!(find("k = 'a' AND n = ANY($1::int[])", &list(C::Int)), KeyMatch::SpansOnly(_)));
    for (condition, types) in [
        ("k = 'a' AND n = ANY($1::int[])", list(C::BigInt)),
        ("k = 'a' AND n = ANY($1::int[])", list(numeric)),
        ("k = 'a' AND n = ANY($1)", list(C::Double)),
        ("k = 'a' AND n = ANY($1)", [Some(C::Text)]),
        ("k = ANY($1)", list(C::Uuid)),
        ("k = 'a' AND n = 1 AND t = ANY($1)", list(C::LocalTimestamp)),
    ] {
        assert_eq!(find(condition, &types), KeyMatch::Other, "{condition}, {types:?}");
    }
}

/// A small generator of numbers, so that a failure can be had again.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len() as u64) as usize]
    }

    fn predicate(&mut self, depth: u64) -> String {
        if depth > 0 && self.below(3) > 0 {
            let (left, right) = (self.predicate(depth - 1), self.predicate(depth - 1));
            return match self.below(5) {
                0 => format!("NOT ({left})"),
                1 | 2 => format!("({left} OR {right})"),
                _ => format!("({left} AND {right})"),
            };
        }
        let compare = self.of(&["=", "<", "<=", ">", ">=", "<>"]);
        let (k, other) = (self.of(&["''", "'a'", "'ab'", "'b'", "'bb'", "'c'"]), self.of(&["'a'", "'abc'", "'c'"]));
        let (n, m) = (self.below(5) as i64 - 2, self.below(5) as i64 - 2);
        let t = format!("'1970-01-01 00:00:0{}Z'", self.below(4));
        match self.below(11) {
            0 | 1 => format!("k {compare} {k}"),
            2 => format!("k IN ({k}, {other})"),
            3 => format!("k LIKE '{}'", self.of(&["a%", "%", "ab%", "a_", "_b%", "b"])),
            4 | 5 => format!("n {compare} {n}"),
            6 => format!("n BETWEEN {n} AND {m}"),
            7 => format!("t {compare} {t}"),
            8 => format!("(k, n) {} ({k}, {n})", self.of(&["<", "<=", ">", ">=", "="])),
            9 => format!("k NOT IN ({k}, {other})"),
            _ => format!("v {compare} {n}"),
        }
    }
}

#[tokio::test]
async fn random_predicates_find_the_same_rows_by_spans_and_row_by_row() {
    let bench = bench();
    let mut numbers = Numbers(20_251_121);
    let mut narrowed = 0;
    for _ in 0..300 {
        let predicate = numbers.predicate(3);
        let order = numbers.of(&[
            "",
            " ORDER BY k, n DESC, t",
            " ORDER BY k DESC, n, t DESC",
            " ORDER BY k, n DESC, t LIMIT 7",
        ]);
        let by_spans = format!("SELECT * FROM t WHERE {predicate}{order}");
        let by_row = format!("SELECT * FROM t WHERE CASE WHEN {predicate} THEN true ELSE false END{order}");
        let found = bench.query(&by_spans).await.unwrap_or_else(|error| panic!("{by_spans}: {error:?}"));
        let expected = bench.query(&by_row).await.unwrap_or_else(|error| panic!("{by_row}: {error:?}"));
        assert_eq!(found, expected, "{by_spans}");
        narrowed += usize::from(!bench.explain(&by_spans, false).await.expect("a plan").contains("spans=[all]"));
    }
    assert!(narrowed > 100, "only {narrowed} predicates became spans");
}
