//! Foreign keys: declared and shown, never enforced, since a write does not look at other tables.

use serde::{Deserialize, Serialize};

use super::{Catalog, ColumnId, IndexDef, TableDef, TableId};

/// A foreign key. What it names may be gone: then it says nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForeignKeyDef {
    /// Never reused.
    pub id: TableId,
    /// Unique among the constraints of its table.
    pub name: String,
    /// The columns that refer to others; at least one.
    pub columns: Vec<ColumnId>,
    /// The table that they refer to.
    pub table: TableId,
    /// The columns that they refer to, as many.
    pub references: Vec<ColumnId>,
    /// What was said to happen to the row, and when: shown as it was written.
    pub rules: ForeignKeyRules,
}

/// What a foreign key says about changes of the rows it refers to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForeignKeyRules {
    /// `ON UPDATE`.
    pub on_update: ForeignKeyAction,
    /// `ON DELETE`.
    pub on_delete: ForeignKeyAction,
    /// `MATCH FULL`.
    pub match_full: bool,
    /// `DEFERRABLE`.
    pub deferrable: bool,
    /// `INITIALLY DEFERRED`.
    pub deferred: bool,
}

/// What `ON UPDATE` or `ON DELETE` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForeignKeyAction {
    /// Nothing, or `NO ACTION`.
    #[default]
    NoAction,
    /// `RESTRICT`.
    Restrict,
    /// `CASCADE`.
    Cascade,
    /// `SET NULL`.
    SetNull,
    /// `SET DEFAULT`.
    SetDefault,
}

impl ForeignKeyAction {
    /// As SQL writes it.
    pub fn text(self) -> &'static str {
        match self {
            ForeignKeyAction::NoAction => "NO ACTION",
            ForeignKeyAction::Restrict => "RESTRICT",
            ForeignKeyAction::Cascade => "CASCADE",
            ForeignKeyAction::SetNull => "SET NULL",
            ForeignKeyAction::SetDefault => "SET DEFAULT",
        }
    }
}

impl ForeignKeyRules {
    /// As SQL writes them, each with a space before it; what is the default is left out.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if self.match_full {
            text.push_str(" MATCH FULL");
        }
        for (event, action) in [("UPDATE", self.on_update), ("DELETE", self.on_delete)] {
            if action != ForeignKeyAction::NoAction {
                text.push_str(&format!(" ON {event} {}", action.text()));
            }
        }
        if self.deferrable {
            text.push_str(" DEFERRABLE");
        }
        if self.deferred {
            text.push_str(" INITIALLY DEFERRED");
        }
        text.push_str(" NOT ENFORCED");
        text
    }
}

impl ForeignKeyDef {
    /// The columns that refer, by their names.
    pub fn columns_in<'a>(&'a self, table: &'a TableDef) -> impl Iterator<Item = &'a str> {
        names(table, &self.columns)
    }

    /// The columns that they refer to, by their names.
    pub fn references_in<'a>(&'a self, target: &'a TableDef) -> impl Iterator<Item = &'a str> {
        names(target, &self.references)
    }
}

fn names<'a>(table: &'a TableDef, ids: &'a [ColumnId]) -> impl Iterator<Item = &'a str> {
    ids.iter().filter_map(|id| table.column_by_id(*id)).map(|column| column.name.as_str())
}

/// The key of a table that a foreign key refers to: its primary key, or a unique index.
pub enum ReferencedKey<'a> {
    /// The primary key.
    Primary,
    /// A unique index on these columns.
    Unique(&'a IndexDef),
}

impl TableDef {
    /// The key on these columns, in any order.
    pub fn key_on(&self, columns: &[ColumnId]) -> Option<ReferencedKey<'_>> {
        let same = |mut own: Vec<ColumnId>| {
            let mut wanted = columns.to_vec();
            own.sort_unstable();
            wanted.sort_unstable();
            own == wanted
        };
        if self.has_key() && same(self.key().map(|column| column.id).collect()) {
            return Some(ReferencedKey::Primary);
        }
        let found = self.uniques().map(|(index, _)| index).find(|index| same(index.columns.clone()));
        found.map(ReferencedKey::Unique)
    }
}

impl Catalog {
    /// The foreign keys that refer to a table, each with the table that has it.
    pub fn references_to(&self, target: TableId) -> impl Iterator<Item = (&TableDef, &ForeignKeyDef)> {
        let tables = self.tables.values().map(|table| &**table);
        let keys = tables.flat_map(|table| table.foreign_keys.iter().map(move |key| (table, key)));
        keys.filter(move |(_, key)| key.table == target)
    }
}
