//! Which of a query file's answers hold on a store that keeps no order.

use keyspan_cql::Statement;
use sqllogictest::{DefaultColumnType, Normalizer, QueryExpect, Record};

/// What of an answer holds on the weak store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// All of it.
    Whole,
    /// Its rows, in any order: the statement asks for none, and the order is that of the embedded store.
    Unordered,
    /// Nothing: it tells of the embedded store's parts.
    OfTheEmbeddedStore,
}

/// What holds of a record's answer.
pub fn answer(record: &Record<DefaultColumnType>) -> Answer {
    let (sql, is_query) = match record {
        Record::Query { sql, expected: QueryExpect::Results { .. }, .. } => (sql, true),
        Record::Query { sql, .. } | Record::Statement { sql, .. } => (sql, false),
        _ => return Answer::Whole,
    };
    let Ok(parsed) = keyspan_cql::parse(sql) else { return Answer::Whole };
    match parsed.last().map(|parsed| &parsed.statement) {
        Some(Statement::Explain(_)) => Answer::OfTheEmbeddedStore,
        _ if is_query && sql.contains("_size(") => Answer::OfTheEmbeddedStore,
        Some(Statement::Query(query)) if is_query && query.query.order_by.is_none() => Answer::Unordered,
        // Rows as they were found; EXECUTE's query stands elsewhere.
        Some(Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) | Statement::Execute(_))
            if is_query =>
        {
            Answer::Unordered
        }
        _ => Answer::Whole,
    }
}

/// Whether the rows are those expected, in whatever order.
pub fn same_rows(normalizer: Normalizer, actual: &[Vec<String>], expected: &[String]) -> bool {
    let row = |row: &Vec<String>| row.iter().map(normalizer).collect::<Vec<_>>().join(" ");
    let mut actual: Vec<String> = actual.iter().map(row).collect();
    let mut expected: Vec<String> = expected.iter().map(normalizer).collect();
    actual.sort_unstable();
    expected.sort_unstable();
    actual == expected
}
