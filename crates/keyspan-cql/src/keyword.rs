//! The words of the language: which begin a statement, which the shell completes, which an identifier must quote.
//!
//! The rule: Keyspan reserves what PostgreSQL reserves and nothing more, so that Cassandra's column names (`key`,
//! `value`, `token`, `ttl`, `user`) need no quotes where the place alone says that a name must follow.

/// Words that begin a statement, for misspellings.
pub(crate) const FIRST: &[&str] = &[
    "ABORT",
    "ADVISE",
    "ALTER",
    "ANALYZE",
    "BACKUP",
    "BEGIN",
    "CHECKPOINT",
    "CLOSE",
    "COMMENT",
    "COMMIT",
    "COMPACT",
    "COPY",
    "CREATE",
    "DEALLOCATE",
    "DECLARE",
    "DELETE",
    "DESC",
    "DESCRIBE",
    "DISCARD",
    "DROP",
    "END",
    "EXECUTE",
    "EXPLAIN",
    "FETCH",
    "FLUSH",
    "GRANT",
    "INSERT",
    "LISTEN",
    "MERGE",
    "MOVE",
    "NOTIFY",
    "PREPARE",
    "RELEASE",
    "RESET",
    "REVOKE",
    "ROLLBACK",
    "SAVEPOINT",
    "SCAN",
    "SELECT",
    "SET",
    "SHOW",
    "START",
    "TABLE",
    "TRUNCATE",
    "UNLISTEN",
    "UPDATE",
    "USE",
    "VACUUM",
    "VALUES",
    "WITH",
];

/// Words inside statements, for misspellings and completion.
const INNER: &[&str] = &[
    "ADD",
    "ALL",
    "ALLOW",
    "AND",
    "ANY",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "CASCADE",
    "CASE",
    "CAST",
    "CHECK",
    "CLUSTERING",
    "COLUMN",
    "CONFLICT",
    "CONSTRAINT",
    "CROSS",
    "CURSOR",
    "DEFAULT",
    "DISTINCT",
    "DO",
    "ELSE",
    "EXCEPT",
    "EXISTS",
    "FALSE",
    "FILTER",
    "FILTERING",
    "FIRST",
    "FOR",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "IF",
    "ILIKE",
    "IN",
    "INDEX",
    "INNER",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "ISOLATION",
    "JOIN",
    "KEY",
    "KEYSPACE",
    "KEYSPACES",
    "LAST",
    "LATERAL",
    "LEFT",
    "LEVEL",
    "LIKE",
    "LIMIT",
    "NATURAL",
    "NOT",
    "NOTHING",
    "NULL",
    "NULLS",
    "OFFSET",
    "ON",
    "ONLY",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "PARTITION",
    "PER",
    "PRIMARY",
    "READ",
    "RENAME",
    "REPLACE",
    "RESTRICT",
    "RETURNING",
    "RIGHT",
    "SCHEMA",
    "SIMILAR",
    "STATIC",
    "STDIN",
    "STDOUT",
    "TABLES",
    "THEN",
    "TIMESTAMP",
    "TO",
    "TRANSACTION",
    "TRUE",
    "TTL",
    "UNION",
    "USING",
    "VIEW",
    "WHEN",
    "WHERE",
    "WINDOW",
    "WORK",
];

/// PostgreSQL's reserved words: these are not names unless quoted.
const RESERVED: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "column",
    "constraint",
    "create",
    "current_catalog",
    "current_date",
    "current_role",
    "current_time",
    "current_timestamp",
    "current_user",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "from",
    "grant",
    "group",
    "having",
    "in",
    "initially",
    "intersect",
    "into",
    "lateral",
    "leading",
    "limit",
    "localtime",
    "localtimestamp",
    "not",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "placing",
    "primary",
    "references",
    "returning",
    "select",
    "session_user",
    "some",
    "symmetric",
    "table",
    "then",
    "to",
    "trailing",
    "true",
    "union",
    "unique",
    "using",
    "variadic",
    "when",
    "where",
    "window",
    "with",
];

/// The words that the shell completes, in upper case and sorted.
pub fn keywords() -> Vec<&'static str> {
    let mut words: Vec<&'static str> = FIRST.iter().chain(INNER).copied().collect();
    words.sort_unstable();
    words.dedup();
    words
}

/// Whether the word, in any case, must be quoted to be a name.
pub fn is_reserved(word: &str) -> bool {
    RESERVED.binary_search(&word.to_ascii_lowercase().as_str()).is_ok()
}

/// The nearest of `candidates` to a word that none of them is.
pub(crate) fn nearest_keyword<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let upper = word.to_uppercase();
    if upper.chars().count() < 2 {
        return None;
    }
    // Two letters swapped are the commonest slip, and edit distance counts them as two.
    let candidates: Vec<&str> = candidates.into_iter().collect();
    let swapped = candidates.iter().copied().find(|candidate| is_swapped(&upper, candidate));
    swapped.or_else(|| keyspan_model::nearest(&upper, candidates).filter(|near| *near != upper))
}

/// Whether the words differ by two neighbouring letters only.
fn is_swapped(word: &str, candidate: &str) -> bool {
    let (word, candidate) = (word.as_bytes(), candidate.as_bytes());
    word.len() == candidate.len()
        && (1..word.len()).any(|at| {
            word[at - 1] == candidate[at]
                && word[at] == candidate[at - 1]
                && word[at] != word[at - 1]
                && word[..at - 1] == candidate[..at - 1]
                && word[at + 1..] == candidate[at + 1..]
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_words_are_sorted_for_the_search() {
        assert!(RESERVED.is_sorted());
        assert!(is_reserved("Select") && !is_reserved("key") && !is_reserved("user"));
    }

    #[test]
    fn a_misspelled_keyword_has_a_nearest_one() {
        assert_eq!(nearest_keyword("FORM", keywords()), Some("FROM"));
        assert_eq!(nearest_keyword("SELEC", FIRST.iter().copied()), Some("SELECT"));
        assert_eq!(nearest_keyword("temperature", keywords()), None);
        assert_eq!(nearest_keyword("x", keywords()), None);
    }
}
