//! A condition keeps the same rows whichever way they are found: by spans and kept plans, with its values in the text or as
//! parameters; or over a join with a table that holds the values, where nothing can be concluded from them beforehand.

use keyspan::Database;
use keyspan_model::Value;
use keyspan_tests::random::Random;

use crate::order::rows_with;

const CONDITIONS: usize = 240;
const SEED: u64 = 20_261_123;
/// Values of a condition, at most: columns of the table that holds them.
const MOST_VALUES: usize = 16;

const TEXTS: [&str; 7] = ["", "a", "ab", "b", "b%", "é", "_b"];

/// A condition; where a value stands, its text has `@i3@` for the number, or `@t3@` for the text, with number 3.
#[derive(Default)]
struct Condition {
    text: String,
    values: usize,
}

impl Condition {
    fn new(random: &mut Random) -> Condition {
        loop {
            let mut condition = Condition::default();
            condition.text = condition.tree(random, 3);
            if (1..=MOST_VALUES).contains(&condition.values) {
                return condition;
            }
        }
    }

    fn value(&mut self, kind: char) -> String {
        self.values += 1;
        format!("@{kind}{}@", self.values - 1)
    }

    fn values(&mut self, kind: char, count: usize) -> String {
        (0..count).map(|_| self.value(kind)).collect::<Vec<_>>().join(", ")
    }

    fn tree(&mut self, random: &mut Random, depth: usize) -> String {
        match if depth == 0 { 9 } else { random.below(10) } {
            0..=2 => format!("({} AND {})", self.tree(random, depth - 1), self.tree(random, depth - 1)),
            3..=4 => format!("({} OR {})", self.tree(random, depth - 1), self.tree(random, depth - 1)),
            5 => format!("NOT {}", self.tree(random, depth - 1)),
            _ => self.leaf(random),
        }
    }

    fn leaf(&mut self, random: &mut Random) -> String {
        let number = ["b", "b", "v"][random.below(3)];
        let text = ["a", "a", "w"][random.below(3)];
        let op = ["=", "=", "<>", "<", "<=", ">", ">="][random.below(7)];
        let not = ["", "NOT "][random.below(2)];
        let count = 1 + random.below(3);
        match random.below(13) {
            0 | 1 => format!("{number} {op} {}", self.value('i')),
            2 | 3 => format!("{text} {op} {}", self.value('t')),
            4 => format!("{} {op} {number}", self.value('i')),
            5 => format!("{number} {not}BETWEEN {} AND {}", self.value('i'), self.value('i')),
            6 => format!("{number} {not}IN ({})", self.values('i', count)),
            7 => format!("{text} {not}IN ({})", self.values('t', count)),
            8 => format!("{number} {not}IN (b, {})", self.value('i')),
            9 => format!("{text} {not}LIKE {}", self.value('t')),
            10 => format!("{number} IS {not}DISTINCT FROM {}", self.value('i')),
            11 => format!("(a, b) {op} ({}, {})", self.value('t'), self.value('i')),
            _ => format!("({text} || {} = {} OR w IS {not}NULL)", self.value('t'), self.value('t')),
        }
    }

    /// The text with each value as `of` writes it.
    fn with(&self, mut of: impl FnMut(usize, bool) -> String) -> String {
        let parts = self.text.split('@').enumerate();
        let part = |(at, part): (usize, &str)| match at % 2 {
            0 => part.to_owned(),
            _ => of(part[1..].parse().unwrap(), part.starts_with('t')),
        };
        parts.map(part).collect()
    }
}

fn literal(value: &Value) -> String {
    match value {
        Value::Int(number) => format!("({number})"),
        Value::Text(text) => format!("'{text}'"),
        _ => "NULL".to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_condition_keeps_the_same_rows_however_they_are_found() {
    println!("seed {SEED}");
    let mut random = Random::new(SEED);
    let database = Database::in_memory().unwrap();
    let mut session = database.session();
    session.execute("CREATE TABLE t (a text, b int, v int, w text, PRIMARY KEY (a, b))").await.unwrap();
    let held: Vec<String> = (0..MOST_VALUES).map(|at| format!("i{at} int, t{at} text")).collect();
    session.execute(&format!("CREATE TABLE held (k int PRIMARY KEY, {})", held.join(", "))).await.unwrap();
    for row in 0..60 {
        let (v, w) = (random.below(6), TEXTS[random.below(TEXTS.len())]);
        let v = if v == 5 { "NULL".to_owned() } else { v.to_string() };
        let w = if row % 7 == 0 { "NULL".to_owned() } else { format!("'{w}'") };
        let insert = format!("INSERT INTO t VALUES ('{}', {}, {v}, {w})", TEXTS[row % 6], row / 6 % 5);
        session.execute(&insert).await.unwrap();
    }
    for number in 0..CONDITIONS {
        match number {
            80 => drop(session.execute("FLUSH").await.unwrap()),
            160 => drop(session.execute("UPDATE t SET v = 1 WHERE b = 2; FLUSH; COMPACT").await.unwrap()),
            _ => {}
        }
        let condition = Condition::new(&mut random);
        for _ in 0..3 {
            let value = |random: &mut Random, text: bool| match (random.below(14), text) {
                (0, _) => Value::Null,
                (_, true) => Value::Text(TEXTS[random.below(TEXTS.len())].to_owned()),
                (_, false) => Value::Int(random.below(7) as i32 - 1),
            };
            let pairs: Vec<[Value; 2]> =
                (0..MOST_VALUES).map(|_| [value(&mut random, false), value(&mut random, true)]).collect();
            let all = pairs.iter().flatten().map(literal).collect::<Vec<_>>().join(", ");
            session.execute(&format!("INSERT INTO held VALUES (1, {all})")).await.unwrap();
            let joined = condition.with(|at, text| format!("{}{at}", if text { 't' } else { 'i' }));
            let joined = format!("SELECT a, b FROM t CROSS JOIN held WHERE {joined}");
            let mut expected = rows_with(&mut session, &joined, &[]).await;
            expected.sort();
            for literals in [10, 5, 0] {
                let mut parameters = Vec::new();
                let condition = condition.with(|at, text| {
                    let value = &pairs[at][usize::from(text)];
                    if random.below(10) < literals {
                        return literal(value);
                    }
                    parameters.push(value.clone());
                    format!("${}", parameters.len())
                });
                let sql = format!("SELECT a, b FROM t WHERE {condition}");
                let mut found = rows_with(&mut session, &sql, &parameters).await;
                found.sort();
                assert_eq!(found, expected, "{sql} {parameters:?}; values in {joined}: {all}");
            }
        }
    }
}
