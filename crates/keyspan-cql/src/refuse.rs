//! Statements that the language knows and Keyspan does not do: refused by name, with what to do instead.

use keyspan_model::Error;

use crate::reader::Reader;

const SEQUENCE: &str = "Write CREATE SEQUENCE, and drop it in the end; a temporary table may have a serial column.";

/// First words, the name to refuse them by, and what to do instead.
const REFUSED: &[(&[&str], &str, &str)] = &[
    (&["lock"], "LOCK", "Writes are resolved per cell and transactions at COMMIT: no lock is needed."),
    (&["list"], "LIST", "Read pg_roles and information_schema.table_privileges."),
    (&["replace"], "REPLACE", "INSERT replaces the row of an existing key."),
    (&["upsert"], "UPSERT", "INSERT replaces the row of an existing key."),
    (&["call"], "CALL", "Write SELECT function(…)."),
    (&["do"], "DO", "Run the statements from a client program."),
    (&["load"], "LOAD", "Use COPY or keyspan import."),
    (&["cluster"], "CLUSTER", "Rows are always in the order of the row key."),
    (&["reindex"], "REINDEX", "Write COMPACT table."),
    (&["reassign"], "REASSIGN OWNED", "Write ALTER TABLE … OWNER TO."),
    (&["import"], "IMPORT", "Use COPY or keyspan import."),
    (&["security"], "SECURITY LABEL", "Grant rights instead."),
    (&["create", "temp", "sequence"], "temporary sequences", SEQUENCE),
    (&["create", "temporary", "sequence"], "temporary sequences", SEQUENCE),
    (&["create", "foreign"], "foreign tables", "Load the data with COPY or keyspan import."),
    (&["create", "external"], "external tables", "Load the data with COPY or keyspan import."),
    (&["create", "recursive"], "CREATE RECURSIVE VIEW", "Write CREATE VIEW … AS WITH RECURSIVE …."),
    (&["create", "database"], "CREATE DATABASE", "Write CREATE KEYSPACE; a data directory is one database."),
    (&["create", "domain"], "CREATE DOMAIN", "Use a column with CHECK."),
    (&["create", "function"], "CREATE FUNCTION", "Use a view, or a function of the client program."),
    (&["create", "or"], "CREATE OR REPLACE of anything but a view", "Drop it first, then create it."),
    (&["create", "aggregate"], "CREATE AGGREGATE", "Use the aggregates there are, or a view."),
    (&["create", "procedure"], "CREATE PROCEDURE", "Run the statements from a client program."),
    (&["create", "trigger"], "CREATE TRIGGER", "Run the statements from a client program."),
    (&["create", "collation"], "CREATE COLLATION", "Text is ordered by its bytes."),
    (&["create", "rule"], "CREATE RULE", "Use a view."),
    (&["create", "policy"], "CREATE POLICY", "Grant rights on a view that shows the rows."),
    (&["create", "server"], "CREATE SERVER", "Load the data with COPY or keyspan import."),
    (&["create", "publication"], "CREATE PUBLICATION", "There is no replication."),
    (&["create", "subscription"], "CREATE SUBSCRIPTION", "There is no replication."),
    (&["create", "statistics"], "CREATE STATISTICS", "Statistics are kept without being asked for."),
    (&["create", "cast"], "CREATE CAST", "Use the casts there are."),
    (&["create", "operator"], "CREATE OPERATOR", "Use the operators there are."),
    (&["create", "event"], "CREATE EVENT TRIGGER", "Run the statements from a client program."),
    (&["create", "tablespace"], "CREATE TABLESPACE", "A data directory is one place."),
    (&["alter", "database"], "ALTER DATABASE", "Write SET in the session."),
    (&["alter", "function"], "ALTER FUNCTION", "There are no functions of one's own."),
    (&["alter", "default"], "ALTER DEFAULT PRIVILEGES", "GRANT … ON KEYSPACE is about its later tables, too."),
    (&["alter", "system"], "ALTER SYSTEM", "Write SET in the session, or give the option to keyspan serve."),
    (&["alter", "domain"], "ALTER DOMAIN", "There are no domains."),
    (&["alter", "extension"], "ALTER EXTENSION", "There are no extensions."),
    (&["drop", "owned"], "DROP OWNED", "Drop the tables, or write ALTER TABLE … OWNER TO."),
    (&["drop", "database"], "DROP DATABASE", "Write DROP KEYSPACE, or delete the data directory."),
    (&["drop", "domain"], "DROP DOMAIN", "There are no domains."),
    (&["drop", "function"], "DROP FUNCTION", "There are no functions of one's own."),
    (&["drop", "aggregate"], "DROP AGGREGATE", "There are no aggregates of one's own."),
    (&["drop", "procedure"], "DROP PROCEDURE", "There are no procedures."),
    (&["drop", "trigger"], "DROP TRIGGER", "There are no triggers."),
    (&["drop", "policy"], "DROP POLICY", "There are no policies."),
    (&["drop", "foreign"], "DROP FOREIGN TABLE", "There are no foreign tables."),
];

/// The refusal of the statement that begins here, if it is a known one.
pub(crate) fn known(reader: &Reader) -> Option<Error> {
    let (_, name, hint) = REFUSED.iter().find(|(words, ..)| reader.at_all(words))?;
    let verb = if name.starts_with(char::is_lowercase) || name.ends_with("tables") { "are" } else { "is" };
    Some(reader.not_supported(format!("{name} {verb} not supported")).with_hint(*hint))
}
