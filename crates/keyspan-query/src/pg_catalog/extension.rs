//! PostgreSQL's extensions of which something is built in: `pg_extension`, `pg_available_extensions`.

use super::row::Row;
use super::source::OWNER;

/// An extension.
#[derive(Debug)]
pub struct Extension {
    /// Its name.
    pub name: &'static str,
    /// The version that clients may expect: PostgreSQL 16's.
    version: &'static str,
    /// What there is of it, for people.
    pub has: &'static str,
}

/// All of which there is something.
pub const EXTENSIONS: [Extension; 3] = [
    Extension { name: "plpgsql", version: "1.0", has: "taken for dumps that name it; there is no procedural language" },
    Extension { name: "pgcrypto", version: "1.3", has: "the functions gen_random_uuid and digest" },
    Extension { name: "uuid-ossp", version: "1.1", has: "the function uuid_generate_v4" },
];

/// The OID of the first.
const FIRST_OID: i64 = 13_640;

/// The OIDs of the extensions, and what is said of them.
pub(super) fn comments() -> impl Iterator<Item = (i64, &'static str)> {
    (FIRST_OID..).zip(EXTENSIONS.iter().map(|extension| extension.has))
}

/// The rows of `pg_extension`.
pub fn installed() -> Vec<Row> {
    let row = |(oid, extension): (i64, &Extension)| {
        let row = Row::new().with("oid", oid).with("extname", extension.name).with("extowner", OWNER);
        row.with("extnamespace", 11_i64).with("extversion", extension.version)
    };
    (FIRST_OID..).zip(&EXTENSIONS).map(row).collect()
}

/// The rows of `pg_available_extension_versions`.
pub fn versions() -> Vec<Row> {
    let row = |extension: &Extension| {
        let row = Row::new().with("name", extension.name).with("version", extension.version);
        row.with("installed", true).with("comment", extension.has)
    };
    EXTENSIONS.iter().map(row).collect()
}

/// The rows of `pg_available_extensions`.
pub fn available() -> Vec<Row> {
    let row = |extension: &Extension| {
        let row = Row::new().with("name", extension.name).with("default_version", extension.version);
        row.with("installed_version", extension.version).with("comment", extension.has)
    };
    EXTENSIONS.iter().map(row).collect()
}
