//! Temporary tables and views: those of a session are in a keyspace of its own, `pg_temp_7`, which only its search path
//! leads to.

use super::{Catalog, RelationId, TableDef, TableId};

/// The option of a temporary table that says what COMMIT does with it. Options with a point are not shown.
pub const ON_COMMIT: &str = "temporary.on_commit";
/// Of [`ON_COMMIT`]: the table goes.
pub const DROP: &str = "drop";
/// Of [`ON_COMMIT`]: its rows go.
pub const DELETE_ROWS: &str = "delete rows";

const PREFIX: &str = "pg_temp_";

/// The keyspace of the temporary tables of the session with this number.
pub fn temporary_keyspace(session: u64) -> String {
    format!("{PREFIX}{session}")
}

/// Whether a keyspace is that of a session's temporary tables.
pub fn is_temporary(keyspace: &str) -> bool {
    keyspace.starts_with(PREFIX)
}

/// The keyspace that a statement names: `pg_temp` is that of the session, which leads its search path. None for
/// another session's.
pub fn named_keyspace<'a>(path: &'a [String], keyspace: &'a str) -> Option<&'a str> {
    match keyspace {
        "pg_temp" => path.iter().map(String::as_str).find(|own| is_temporary(own)),
        other if is_temporary(other) => path.iter().map(String::as_str).find(|own| *own == other),
        other => Some(other),
    }
}

impl Catalog {
    /// The catalog without the temporary tables and views of sessions with other search paths; none if there are none.
    pub fn without_temporary_of_others(&self, path: &[String]) -> Option<Catalog> {
        let hidden = |keyspace: &str| is_temporary(keyspace) && !path.iter().any(|own| own == keyspace);
        if !self.keyspaces.keys().any(|keyspace| hidden(keyspace)) {
            return None;
        }
        let mut shown = self.clone();
        shown.keyspaces.retain(|keyspace, _| !hidden(keyspace));
        shown.tables.retain(|_, table| !hidden(&table.keyspace));
        shown.views.retain(|_, view| !hidden(&view.keyspace));
        shown.sequences.retain(|_, sequence| !hidden(&sequence.keyspace));
        Some(shown)
    }

    /// Drops keyspaces of temporary tables with all that is in them.
    pub fn drop_temporary(&mut self, gone: impl Fn(&str) -> bool) {
        let gone = |keyspace: &str| is_temporary(keyspace) && gone(keyspace);
        self.keyspaces.retain(|keyspace, _| !gone(keyspace));
        self.tables.retain(|_, table| !gone(&table.keyspace));
        self.views.retain(|_, view| !gone(&view.keyspace));
        self.sequences.retain(|_, sequence| !gone(&sequence.keyspace));
        self.types.retain(|_, ty| !gone(&ty.keyspace));
        self.forget_dropped();
    }

    /// The tables of a keyspace with which COMMIT does this.
    fn at_commit(&self, keyspace: &str, does: &str) -> impl Iterator<Item = &TableDef> {
        let tables =
            self.tables.values().map(AsRef::as_ref).filter(move |table: &&TableDef| table.keyspace == keyspace);
        tables.filter(move |table| table.options.get(ON_COMMIT).is_some_and(|what| what == does))
    }

    /// The tables of a keyspace that COMMIT drops.
    pub fn dropped_at_commit(&self, keyspace: &str) -> Vec<TableId> {
        self.at_commit(keyspace, DROP).map(|table| table.id).collect()
    }

    /// The relations of the tables of a keyspace whose rows COMMIT deletes: nothing is ever committed to them.
    pub fn emptied_at_commit(&self, keyspace: &str) -> Vec<RelationId> {
        let tables = self.at_commit(keyspace, DELETE_ROWS);
        tables.flat_map(|table| table.relations()).map(|relation| relation.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_names_its_own_temporary_tables_only() {
        let path = ["pg_temp_3".to_string(), "public".to_string()];
        assert_eq!(named_keyspace(&path, "pg_temp"), Some("pg_temp_3"));
        assert_eq!(named_keyspace(&path, "pg_temp_3"), Some("pg_temp_3"));
        assert_eq!(named_keyspace(&path, "pg_temp_4"), None);
        assert_eq!(named_keyspace(&path[1..], "pg_temp"), None);
        assert_eq!(named_keyspace(&path, "plant"), Some("plant"));
    }
}
