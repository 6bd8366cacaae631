//! Views, and what is kept of materialized ones.

use serde::{Deserialize, Serialize};

use super::{ColumnId, TableDef, TableId};

/// A view: a named query, kept as its source text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ViewDef {
    /// Never reused.
    pub id: TableId,
    /// Keyspace that holds it.
    pub keyspace: String,
    /// Unique in its keyspace, tables included.
    pub name: String,
    /// Names of its columns, if given.
    pub columns: Vec<String>,
    /// Source text of the query.
    pub sql: String,
    /// The search path when it was created: its names mean what they meant then.
    pub search_path: Vec<String>,
    /// Columns from this number on are newer than the view, and no `*` in it stands for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns_before: Option<ColumnId>,
    /// Of a materialized view: the rows that are kept for it.
    #[serde(default, alias = "rollup", skip_serializing_if = "Option::is_none")]
    pub materialized: Option<Materialized>,
}

impl ViewDef {
    /// What messages call it.
    pub fn kind(&self) -> &'static str {
        if self.materialized.is_some() { "materialized view" } else { "view" }
    }

    /// Whether a column of a table it reads was there when it was created.
    pub fn knows(&self, column: ColumnId) -> bool {
        self.columns_before.is_none_or(|before| column < before)
    }

    /// Of a rollup: what is kept for it.
    pub fn rollup(&self) -> Option<&RollupDef> {
        match &self.materialized {
            Some(Materialized::Rollup(rollup)) => Some(rollup),
            Some(Materialized::Stored(_)) | None => None,
        }
    }

    /// Of a stored view: its rows.
    pub fn stored(&self) -> Option<&StoredDef> {
        match &self.materialized {
            Some(Materialized::Stored(stored)) => Some(stored),
            Some(Materialized::Rollup(_)) | None => None,
        }
    }

    /// Of a materialized view: the table that holds its rows.
    pub fn rows(&self) -> Option<&TableDef> {
        self.materialized.as_ref().map(Materialized::rows)
    }
}

/// The two kinds of materialized view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Materialized {
    /// Answers what its query would answer.
    Rollup(RollupDef),
    /// Answers what its query answered when it was refreshed last.
    Stored(StoredDef),
}

impl Materialized {
    /// The table that holds the rows. Nothing but the view names it.
    pub fn rows(&self) -> &TableDef {
        match self {
            Materialized::Rollup(rollup) => &rollup.rows,
            Materialized::Stored(stored) => &stored.rows,
        }
    }

    /// The table that holds the rows.
    pub fn rows_mut(&mut self) -> &mut TableDef {
        match self {
            Materialized::Rollup(rollup) => &mut rollup.rows,
            Materialized::Stored(stored) => &mut stored.rows,
        }
    }

    /// Gives the tables another name, that of the view.
    pub fn rename(&mut self, keyspace: &str, name: &str) {
        let renamed = |table: &mut TableDef| (table.keyspace, table.name) = (keyspace.to_owned(), name.to_owned());
        renamed(self.rows_mut());
        if let Materialized::Rollup(rollup) = self {
            renamed(&mut rollup.progress);
        }
    }
}

/// The rows of a stored view. A refresh writes them to a relation of its own, so that all change at once. They may have
/// indexes, which is why the table has the view's id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredDef {
    /// Holds the rows. Nothing but the view names it.
    pub rows: TableDef,
    /// Whether the query was run: a view WITH NO DATA cannot be read.
    pub populated: bool,
}

/// The rows of a rollup: the result of its query as of one batch. What has changed since is computed when the view is
/// read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RollupDef {
    /// Holds the rows. Nothing but the view names it.
    pub rows: TableDef,
    /// Holds one row, which is written together with the rows: the source's relation when they were computed (after
    /// TRUNCATE it has another), and the batch up to which they are right. No row: nothing is computed yet.
    pub progress: TableDef,
    /// The table that the query reads.
    pub source: TableId,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::schema::{Catalog, Encoding, Retention};

    #[test]
    fn what_older_programs_wrote_of_a_rollup_is_read() {
        let mut catalog = Catalog::initial();
        let mut table = || TableDef {
            id: catalog.new_table_id(),
            keyspace: "public".into(),
            name: "hourly".into(),
            version: 1,
            columns: Vec::new(),
            rows: catalog.new_relation_id(),
            statics: None,
            families: Vec::new(),
            default_ttl: 0,
            retention: Retention::default(),
            encoding: Encoding::default(),
            gc_grace: 0,
            window: None,
            checks: Vec::new(),
            options: BTreeMap::new(),
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
        };
        let (rows, progress) = (table(), table());
        let rollup = RollupDef { rows: rows.clone(), progress, source: TableId(7) };
        let view = |materialized| ViewDef {
            id: TableId(9),
            keyspace: "public".into(),
            name: "hourly".into(),
            columns: Vec::new(),
            sql: "SELECT 1".into(),
            search_path: Vec::new(),
            columns_before: None,
            materialized,
        };
        let now = view(Some(Materialized::Rollup(rollup)));
        let before = serde_json::to_string(&now).expect("as JSON").replacen("\"materialized\"", "\"rollup\"", 1);
        assert_eq!(serde_json::from_str::<ViewDef>(&before).expect("from JSON"), now);
        let stored = view(Some(Materialized::Stored(StoredDef { rows, populated: false })));
        let text = serde_json::to_string(&stored).expect("as JSON");
        assert_eq!(serde_json::from_str::<ViewDef>(&text).expect("from JSON"), stored);
    }
}
