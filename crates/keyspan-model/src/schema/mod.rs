//! Tables, columns, relations, and the catalog that names them.
//!
//! Invariant: ids (table, relation, column, segment) are never reused; names live in the catalog only. TRUNCATE and
//! re-CREATE give a table new relation ids, so that nothing written before can show through.
//!
//! Definitions are kept as JSON. A field that a program does not know is refused: it would be lost with the next
//! change.

pub mod attached;
mod encoding;
mod family;
mod foreign_key;
mod index;
mod redefined;
mod relation;
mod retention;
pub mod rights;
pub mod sequence;
pub mod temporary;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result, nearest};
use crate::types::{ColumnType, TypeId, TypeName, UserType};
pub use encoding::Encoding;
pub use family::{FamilyDef, FamilyKind, GcRule, KnownCell};
pub use foreign_key::{ForeignKeyAction, ForeignKeyDef, ForeignKeyRules, ReferencedKey};
pub use index::{IndexDef, UniqueDef};
pub use relation::{PRESENCE_COLUMN, RelationDef, VERSION_COLUMN};
pub use retention::Retention;
use rights::Rights;
use sequence::{Identity, SequenceDef};
pub use view::{Materialized, RollupDef, StoredDef, ViewDef};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(/// Identifies a table for ever.
    TableId(u32));
id!(/// Identifies a relation (one sorted map of a table) for ever.
    RelationId(u32));
id!(/// Identifies a column for ever; also its Parquet `field_id`.
    ColumnId(u32));
id!(/// Identifies a segment for ever.
    SegmentId(u64));

/// What part a column plays in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnRole {
    /// Part of the partition key.
    Partition,
    /// A clustering column.
    Clustering {
        /// Whether larger values come first.
        descending: bool,
    },
    /// One value per partition.
    Static,
    /// One value per row.
    Regular,
}

/// A column as declared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnDef {
    /// Never reused, not even after DROP and ADD of the same name.
    pub id: ColumnId,
    /// Unique in its table.
    pub name: String,
    /// Type of its values.
    pub ty: ColumnType,
    /// Part in the key, or none.
    pub role: ColumnRole,
    /// Whether NULL is refused. Key columns always refuse it.
    pub not_null: bool,
    /// Source text of the DEFAULT expression.
    pub default: Option<String>,
    /// Largest number of characters, or of digits after a time's second: `varchar(n)`, `timestamp(n)`.
    pub max_length: Option<u32>,
    /// As which of SQL's text types it was declared. One with a length is a varchar, unless it says `char`.
    #[serde(default, skip_serializing_if = "TextType::is_text")]
    pub text_type: TextType,
    /// Not shown by `SELECT *` nor by the catalog: the `rowid` of a table without a key.
    pub hidden: bool,
    /// Whether it is declared `counter`: a bigint that is only added to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counter: bool,
    /// Of an identity column: whether INSERT may give its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
}

/// SQL's text types. They differ in what clients are told, and `char(n)` keeps no blanks at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextType {
    /// `text`.
    #[default]
    Text,
    /// `varchar`, `character varying`.
    Varchar,
    /// `char`, `character`, `bpchar`.
    Char,
}

impl TextType {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
    fn is_text(&self) -> bool {
        *self == TextType::Text
    }
}

/// A CHECK constraint: its name and the source text of its condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Unique in its table.
    pub name: String,
    /// Source text of the condition.
    pub sql: String,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableDef {
    /// Never reused.
    pub id: TableId,
    /// Keyspace that holds it.
    pub keyspace: String,
    /// Unique in its keyspace, views included.
    pub name: String,
    /// Counts the changes of this definition.
    pub version: u32,
    /// Key columns in key order, then the others in declaration order. That of all, which users see, is the order of
    /// their ids ([`TableDef::members`]).
    pub columns: Vec<ColumnDef>,
    /// The relation of the rows.
    pub rows: RelationId,
    /// The relation of the static columns, if there are any. Its name on disk is one that programs do not know which
    /// cannot write it, so that they refuse the table.
    #[serde(rename = "static_cells", alias = "statics", default, skip_serializing_if = "Option::is_none")]
    pub statics: Option<RelationId>,
    /// Families of dynamic columns.
    pub families: Vec<FamilyDef>,
    /// The key column whose time divides the table into windows.
    pub window: Option<ColumnId>,
    /// Seconds that cells live unless a statement says otherwise; 0: for ever.
    pub default_ttl: u32,
    /// How long what is written is read. A program that knows no retention refuses a table that has one.
    #[serde(default, skip_serializing_if = "Retention::is_unset")]
    pub retention: Retention,
    /// How values are written to disk. A program that knows no encodings refuses a table that has another than the
    /// default.
    #[serde(default, skip_serializing_if = "Encoding::is_default")]
    pub encoding: Encoding,
    /// Seconds that tombstones are kept.
    pub gc_grace: u32,
    /// Constraints on rows.
    pub checks: Vec<Check>,
    /// Every option as written, known or not: pasted Cassandra DDL is stored and shown.
    pub options: BTreeMap<String, String>,
    /// Secondary indexes. A program that knows none refuses a table that has some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<IndexDef>,
    /// Foreign keys, which nothing enforces. A program that knows none refuses a table that has some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreign_keys: Vec<ForeignKeyDef>,
}

/// A key column of a relation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyColumn {
    /// The column's id, also in segments.
    pub id: ColumnId,
    /// Name of the column in segments, for those who read the files.
    pub name: String,
    /// Type of its values.
    pub ty: ColumnType,
    /// Whether larger values come first.
    pub descending: bool,
}

/// A value column of a relation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValueColumn {
    /// The column's id, also in segments.
    pub id: ColumnId,
    /// Name of the column in segments, for those who read the files.
    pub name: String,
    /// Type of its values.
    pub ty: ColumnType,
}

/// What a relation holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RelationKind {
    /// Key = row key; values = typed columns.
    Rows,
    /// Key = partition key; values = static columns.
    Statics,
    /// Key = row key, qualifier, write timestamp descending; one value. Versions are rows of their own.
    Family,
    /// Key = row key, element; one value.
    Collection,
    /// Key = columns of a unique index; values = the rest of the row key.
    Index,
    /// Rows of a materialized view.
    View,
}

/// A keyspace, which is also a Postgres schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyspaceDef {
    /// Unique.
    pub name: String,
    /// Options as written (replication, durable_writes, …): stored and shown.
    pub options: BTreeMap<String, String>,
    /// Whether it is another database's, attached until this one is closed. Never stored.
    #[serde(skip)]
    pub attached: bool,
}

/// Everything that has a name. Immutable: a change makes a new catalog.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalog {
    /// Counts the changes.
    pub version: u64,
    /// By name.
    pub keyspaces: BTreeMap<String, KeyspaceDef>,
    /// By id.
    #[serde(with = "crate::shared_map")]
    pub tables: BTreeMap<TableId, Arc<TableDef>>,
    /// By id.
    #[serde(with = "crate::shared_map")]
    pub views: BTreeMap<TableId, Arc<ViewDef>>,
    /// By id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", with = "crate::shared_map")]
    pub sequences: BTreeMap<TableId, Arc<SequenceDef>>,
    /// User types, by id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", with = "crate::shared_map")]
    pub types: BTreeMap<TypeId, Arc<UserType>>,
    /// Comments on views, sequences and indexes, by id. Those on tables and keyspaces are among their options.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub comments: BTreeMap<TableId, String>,
    /// Next unused table (and view, sequence, index and type) id.
    pub next_table: u32,
    /// Next unused relation id.
    pub next_relation: u32,
    /// Next unused column id.
    pub next_column: u32,
    /// Roles and what they may do. A program that knows no roles refuses a catalog that has some.
    #[serde(default, skip_serializing_if = "Rights::is_empty")]
    pub rights: Rights,
}

impl ColumnDef {
    /// Whether the column is part of the row key.
    pub fn is_key(&self) -> bool {
        matches!(self.role, ColumnRole::Partition | ColumnRole::Clustering { .. })
    }
}

/// A column or a family of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Member<'a> {
    /// A column.
    Column(&'a ColumnDef),
    /// A family, with its place among the families.
    Family(usize, &'a FamilyDef),
}

impl Member<'_> {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Member::Column(column) => &column.name,
            Member::Family(_, family) => &family.name,
        }
    }
}

/// The option of a table that names its PRIMARY KEY. Options with a point are not shown.
pub const KEY_NAME: &str = "key.name";
/// The options that hold the comments of columns and of constraints begin so.
pub const COMMENT_ON_COLUMN: &str = "comment.";
/// See [`COMMENT_ON_COLUMN`].
pub const COMMENT_ON_CONSTRAINT: &str = "comment on constraint.";

impl TableDef {
    /// The columns, hidden ones too, and the families as `SELECT *` has them: as they were declared.
    pub fn members(&self) -> Vec<Member<'_>> {
        let columns = self.columns.iter().map(Member::Column);
        let families = self.families.iter().enumerate().map(|(place, family)| Member::Family(place, family));
        let mut members: Vec<Member<'_>> = columns.chain(families).collect();
        // Ids are given in that order.
        members.sort_by_key(|member| match member {
            Member::Column(column) => column.id,
            Member::Family(_, family) => family.value.id,
        });
        members
    }

    /// The key columns in key order.
    pub fn key(&self) -> impl Iterator<Item = &ColumnDef> {
        self.columns.iter().filter(|column| column.is_key())
    }

    /// Whether it has a key that its users know of.
    pub fn has_key(&self) -> bool {
        self.key().all(|column| !column.hidden)
    }

    /// The name of its key as a constraint: the one it was given, else that of the table with `_pkey`.
    pub fn key_name(&self) -> String {
        self.options.get(KEY_NAME).cloned().unwrap_or_else(|| format!("{}_pkey", self.name))
    }

    /// Whether its key has this name as a constraint.
    pub fn names_key(&self, name: &str) -> bool {
        self.has_key()
            && match self.options.get(KEY_NAME) {
                Some(given) => given == name,
                None => name.strip_suffix("_pkey") == Some(self.name.as_str()),
            }
    }

    /// Whether its primary key, a unique constraint, a CHECK or a foreign key has this name.
    pub fn has_constraint(&self, name: &str) -> bool {
        let is_unique = self.indexes.iter().any(|index| index.name == name && index.is_constraint());
        let is_check = || self.checks.iter().any(|check| check.name == name);
        self.names_key(name) || is_unique || is_check() || self.foreign_keys.iter().any(|key| key.name == name)
    }

    /// The names of what `SELECT *` shows, in its order.
    pub fn shown_names(&self) -> Vec<String> {
        let members = self.members().into_iter();
        let members = members.filter(|member| !matches!(member, Member::Column(column) if column.hidden));
        members.map(|member| member.name().to_owned()).collect()
    }

    /// The columns that `SELECT *` shows, in its order, families aside.
    pub fn shown_columns(&self) -> impl Iterator<Item = &ColumnDef> {
        self.shown_places().map(|place| &self.columns[place])
    }

    /// The places of these among all columns.
    pub fn shown_places(&self) -> impl Iterator<Item = usize> + use<> {
        let shown = self.columns.iter().enumerate().filter(|(_, column)| !column.hidden);
        let mut places: Vec<(ColumnId, usize)> = shown.map(|(place, column)| (column.id, place)).collect();
        places.sort_unstable();
        places.into_iter().map(|(_, place)| place)
    }

    /// How many columns the row key has.
    pub fn key_len(&self) -> usize {
        self.key().count()
    }

    /// How many leading key columns are the partition key.
    pub fn partition_len(&self) -> usize {
        self.columns.iter().filter(|column| column.role == ColumnRole::Partition).count()
    }

    /// The column of this name.
    pub fn column(&self, name: &str) -> Option<&ColumnDef> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The column of this name, or 42703 that suggests the nearest.
    pub fn expect_column(&self, name: &str) -> Result<&ColumnDef> {
        self.column(name).ok_or_else(|| {
            if let Some(family) = self.family(name) {
                let what = if family.kind.is_collection() { "collection" } else { "family" };
                let message = format!("{what} \"{name}\" of relation \"{}\" is not supported here", self.name);
                return Error::not_supported(message).with_hint("Write it with INSERT or UPDATE, row by row.");
            }
            let error = Error::new(
                ErrorKind::UndefinedColumn,
                format!("column \"{name}\" of relation \"{}\" does not exist", self.name),
            );
            match nearest(name, self.columns.iter().map(|column| column.name.as_str())) {
                Some(near) => error.with_hint(format!("Perhaps you meant to reference the column \"{near}\".")),
                None => error,
            }
        })
    }

    /// Whether its columns are counters: then all are, but for the key.
    pub fn has_counters(&self) -> bool {
        self.columns.iter().any(|column| column.counter)
    }

    /// The family of this name.
    pub fn family(&self, name: &str) -> Option<&FamilyDef> {
        self.families.iter().find(|family| family.name == name)
    }

    /// The column with this id.
    pub fn column_by_id(&self, id: ColumnId) -> Option<&ColumnDef> {
        self.columns.iter().find(|column| column.id == id)
    }

    /// The types of its columns and of what its families hold, to be changed.
    pub fn types_mut(&mut self) -> impl Iterator<Item = &mut ColumnType> {
        let families = self
            .families
            .iter_mut()
            .flat_map(|family| family.qualifier.iter_mut().map(|part| &mut part.ty).chain([&mut family.value.ty]));
        self.columns.iter_mut().map(|column| &mut column.ty).chain(families)
    }

    /// The types of its columns and of what its families hold.
    pub fn types(&self) -> impl Iterator<Item = ColumnType> {
        let families = self
            .families
            .iter()
            .flat_map(|family| family.qualifier.iter().map(|part| part.ty).chain([family.value.ty]));
        self.columns.iter().map(|column| column.ty).chain(families)
    }

    /// The relations that hold the table.
    pub fn relations(&self) -> Vec<RelationDef> {
        let mut relations = vec![self.rows_relation()];
        relations.extend(self.statics_relation());
        relations.extend(self.families.iter().map(|family| self.family_relation(family)));
        relations.extend(self.uniques().map(|(index, unique)| self.entries_relation(index, unique)));
        relations
    }

    /// The unique indexes.
    pub fn uniques(&self) -> impl Iterator<Item = (&IndexDef, &UniqueDef)> {
        self.indexes.iter().filter_map(|index| Some((index, index.unique.as_ref()?)))
    }

    /// The relation of a unique index's entries: its columns, then those of the row key that are not among them.
    pub fn entries_relation(&self, index: &IndexDef, unique: &UniqueDef) -> RelationDef {
        let columns = index.columns.iter().filter_map(|column| self.column_by_id(*column));
        let key: Vec<KeyColumn> = columns.map(|c| KeyColumn { descending: false, ..key_column(c) }).collect();
        let rest = self.key().filter(|column| !index.columns.contains(&column.id));
        let values = rest.map(|c| ValueColumn { id: c.id, name: c.name.clone(), ty: c.ty }).collect();
        let partition_len = key.len();
        RelationDef { partition_len, ..self.relation(unique.entries, RelationKind::Index, key, values, None) }
    }

    /// The relation of the rows.
    pub fn rows_relation(&self) -> RelationDef {
        let key: Vec<KeyColumn> = self.key().map(key_column).collect();
        let window = self.window.and_then(|id| key.iter().position(|column| column.id == id));
        let mut values = self.values_of(ColumnRole::Regular);
        if !self.families.is_empty() {
            let name = "has_family_cells".into();
            values.push(ValueColumn { id: PRESENCE_COLUMN, name, ty: ColumnType::Boolean });
        }
        let relation = self.relation(self.rows, RelationKind::Rows, key, values, window);
        RelationDef { indexed: self.indexed(), ..relation }
    }

    /// The columns that its indexes are about, each once, but for the first key column: spans answer that one.
    fn indexed(&self) -> Vec<ColumnId> {
        let first = self.key().next().map(|column| column.id);
        let built = self.indexes.iter().filter(|index| index.similarity.is_none());
        let mut columns: Vec<ColumnId> = built.flat_map(|index| index.columns.clone()).collect();
        columns.retain(|column| Some(*column) != first && self.column_by_id(*column).is_some());
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// The columns of a family's cells that indexes are about, each once.
    fn indexed_in(&self, family: &FamilyDef) -> Vec<ColumnId> {
        let mut columns: Vec<ColumnId> = self.indexes.iter().flat_map(|index| index.columns.clone()).collect();
        columns.retain(|column| family.has_column(*column));
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// The family whose cells have this column.
    pub fn family_of_column(&self, id: ColumnId) -> Option<&FamilyDef> {
        self.families.iter().find(|family| family.has_column(id))
    }

    /// What an index is on, in order: names of columns, and of collections with the function that CQL writes around
    /// them, as `keys(m)`.
    pub fn indexed_parts<'a>(&'a self, index: &'a IndexDef) -> Vec<(Option<&'static str>, &'a str)> {
        let mut parts: Vec<(Option<&'static str>, &str)> = Vec::new();
        for id in &index.columns {
            let Some(family) = self.family_of_column(*id) else {
                parts.extend(self.column_by_id(*id).map(|column| (None, column.name.as_str())));
                continue;
            };
            let is_value = family.value.id == *id;
            let function = match family.kind {
                FamilyKind::Map | FamilyKind::Family => Some(if is_value { "values" } else { "keys" }),
                FamilyKind::Set | FamilyKind::List => None,
            };
            match parts.last_mut() {
                Some((known @ Some("keys"), name)) if is_value && *name == family.name => *known = Some("entries"),
                _ => parts.push((function, &family.name)),
            }
        }
        parts
    }

    /// The indexes on a column.
    pub fn indexes_on(&self, column: ColumnId) -> impl Iterator<Item = &IndexDef> {
        self.indexes.iter().filter(move |index| index.columns.contains(&column))
    }

    /// The relation of the static columns.
    pub fn statics_relation(&self) -> Option<RelationDef> {
        let key = self.key().take(self.partition_len()).map(key_column).collect();
        let values = self.values_of(ColumnRole::Static);
        self.statics.map(|id| self.relation(id, RelationKind::Statics, key, values, None))
    }

    /// The static columns as a table of their own, with a row for each partition.
    pub fn statics_table(&self) -> Option<TableDef> {
        let of_partition = |column: &&ColumnDef| matches!(column.role, ColumnRole::Partition | ColumnRole::Static);
        let regular = |column: ColumnDef| match column.role {
            ColumnRole::Static => ColumnDef { role: ColumnRole::Regular, ..column },
            _ => column,
        };
        Some(TableDef {
            rows: self.statics?,
            columns: self.columns.iter().filter(of_partition).cloned().map(regular).collect(),
            statics: None,
            families: Vec::new(),
            window: None,
            checks: Vec::new(),
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
            ..self.clone()
        })
    }

    /// The table without its static columns.
    pub fn without_statics(&self) -> TableDef {
        let mut table = TableDef { statics: None, ..self.clone() };
        table.columns.retain(|column| column.role != ColumnRole::Static);
        table
    }

    /// The relation of a family: its key is row key, qualifier, then [`VERSION_COLUMN`] descending.
    pub fn family_relation(&self, family: &FamilyDef) -> RelationDef {
        let mut key: Vec<KeyColumn> = self.key().map(key_column).collect();
        let window = self.window.and_then(|id| key.iter().position(|column| column.id == id));
        key.extend(family.qualifier.iter().cloned());
        let values = vec![family.value.clone()];
        if family.kind.is_collection() {
            let relation = self.relation(family.relation, RelationKind::Collection, key, values, window);
            return RelationDef { indexed: self.indexed_in(family), ..relation };
        }
        key.push(KeyColumn {
            id: VERSION_COLUMN,
            name: "written_at".into(),
            ty: ColumnType::Timestamp,
            descending: true,
        });
        let relation = self.relation(family.relation, RelationKind::Family, key, values, window);
        RelationDef { gc: family.gc.clone(), indexed: self.indexed_in(family), ..relation }
    }

    fn relation(
        &self,
        id: RelationId,
        kind: RelationKind,
        key: Vec<KeyColumn>,
        values: Vec<ValueColumn>,
        window: Option<usize>,
    ) -> RelationDef {
        RelationDef {
            id,
            table: self.id,
            kind,
            schema_version: self.version,
            partition_len: self.partition_len(),
            key,
            values,
            window,
            gc: GcRule::default(),
            // An entry of a unique index counts only with its row, which may have been written to later than the entry.
            retention: if kind == RelationKind::Index { Retention::default() } else { self.retention },
            encoding: self.encoding,
            gc_grace: self.gc_grace,
            indexed: Vec::new(),
        }
    }

    fn values_of(&self, role: ColumnRole) -> Vec<ValueColumn> {
        let columns = self.columns.iter().filter(|column| column.role == role);
        columns.map(|c| ValueColumn { id: c.id, name: c.name.clone(), ty: c.ty }).collect()
    }
}

fn key_column(column: &ColumnDef) -> KeyColumn {
    KeyColumn {
        id: column.id,
        name: column.name.clone(),
        ty: column.ty,
        descending: matches!(column.role, ColumnRole::Clustering { descending: true }),
    }
}

impl Catalog {
    /// A catalog with nothing but the keyspace `public`.
    pub fn initial() -> Catalog {
        let public = KeyspaceDef { name: "public".into(), options: BTreeMap::new(), attached: false };
        Catalog {
            keyspaces: BTreeMap::from([("public".to_string(), public)]),
            next_table: 1,
            next_relation: 1,
            next_column: 1,
            ..Catalog::default()
        }
    }

    /// The table of this name.
    pub fn table(&self, keyspace: &str, name: &str) -> Option<&Arc<TableDef>> {
        self.tables.values().find(|table| table.keyspace == keyspace && table.name == name)
    }

    /// The tables, and those that materialized views and sequences are kept in.
    pub fn all_tables(&self) -> impl Iterator<Item = &TableDef> {
        let views = self.views.values().filter_map(|view| view.rows());
        let rollups = self.views.values().filter_map(|view| view.rollup()).map(|rollup| &rollup.progress);
        let sequences = self.sequences.values().map(|sequence| &sequence.state);
        self.tables.values().map(|table| &**table).chain(views).chain(rollups).chain(sequences)
    }

    /// The rollups of this table.
    pub fn rollups_of(&self, source: TableId) -> impl Iterator<Item = (&Arc<ViewDef>, &RollupDef)> {
        let rollups = self.views.values().filter_map(|view| Some((view, view.rollup()?)));
        rollups.filter(move |(_, rollup)| rollup.source == source)
    }

    /// What messages call a table, view or sequence: its kind, and its name.
    pub fn kind_and_name(&self, id: TableId) -> Option<(&'static str, &str)> {
        let table = self.tables.get(&id).map(|table| ("table", table.name.as_str()));
        let view = || self.views.get(&id).map(|view| (view.kind(), view.name.as_str()));
        let sequence = || self.sequences.get(&id).map(|sequence| ("sequence", sequence.name.as_str()));
        table.or_else(view).or_else(sequence)
    }

    /// Whether there is a view, sequence or index of this id.
    pub fn may_have_comment(&self, id: TableId) -> bool {
        let index = || self.indexes().any(|(_, index)| index.id == id);
        self.views.contains_key(&id) || self.sequences.contains_key(&id) || index()
    }

    /// The view of this name.
    pub fn view(&self, keyspace: &str, name: &str) -> Option<&Arc<ViewDef>> {
        self.views.values().find(|view| view.keyspace == keyspace && view.name == name)
    }

    /// The sequence of this name.
    pub fn sequence(&self, keyspace: &str, name: &str) -> Option<&Arc<SequenceDef>> {
        self.sequences.values().find(|sequence| sequence.keyspace == keyspace && sequence.name == name)
    }

    /// The tables that may have indexes: those that have names, and those that stored views are kept in.
    pub fn indexed_tables(&self) -> impl Iterator<Item = &TableDef> {
        let stored = self.views.values().filter_map(|view| view.stored()).map(|stored| &stored.rows);
        self.tables.values().map(|table| &**table).chain(stored)
    }

    /// The indexes, and their tables.
    pub fn indexes(&self) -> impl Iterator<Item = (&TableDef, &IndexDef)> {
        self.indexed_tables().flat_map(|table| table.indexes.iter().map(move |index| (table, index)))
    }

    /// The index of this name, and its table.
    pub fn index(&self, keyspace: &str, name: &str) -> Option<(&TableDef, &IndexDef)> {
        self.indexes().find(|(table, index)| table.keyspace == keyspace && index.name == name)
    }

    /// Puts a changed table that may have indexes in its place.
    pub fn put_indexed(&mut self, table: TableDef) {
        match self.views.get_mut(&table.id).map(|view| &mut Arc::make_mut(view).materialized) {
            Some(Some(Materialized::Stored(stored))) => stored.rows = table,
            _ => drop(self.tables.insert(table.id, Arc::new(table))),
        }
    }

    /// The user type of this name.
    pub fn user_type(&self, keyspace: &str, name: &str) -> Option<&Arc<UserType>> {
        self.types.values().find(|ty| ty.keyspace == keyspace && ty.name == name)
    }

    /// 42704 for the name of a type that there is not, with the nearest one.
    pub fn undefined_type(&self, name: &TypeName) -> Error {
        let shown = name.keyspace.iter().map(|keyspace| format!("{keyspace}.")).collect::<String>();
        let message = format!("type \"{shown}{}\" does not exist", name.name);
        let error = Error::new(ErrorKind::UndefinedObject, message);
        let near = nearest(&name.name, self.types.values().map(|ty| ty.name.as_str()));
        let of_language = || ColumnType::parse(&name.name, &[]).err().and_then(|error| error.hint);
        match near.map(|near| format!("Perhaps you meant \"{near}\".")).or_else(of_language) {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }

    /// The sequence that a column owns.
    pub fn sequence_of(&self, table: TableId, column: ColumnId) -> Option<&Arc<SequenceDef>> {
        self.sequences.values().find(|sequence| sequence.owned_by == Some((table, column)))
    }

    /// Forgets what belonged to something that is gone: sequences of columns, comments, owners and grants.
    pub fn forget_dropped(&mut self) {
        self.forget_sequences_of_dropped();
        let gone: Vec<TableId> = self.comments.keys().copied().filter(|id| !self.may_have_comment(*id)).collect();
        gone.iter().for_each(|id| drop(self.comments.remove(id)));
        self.forget_rights_of_dropped();
    }

    fn forget_sequences_of_dropped(&mut self) {
        let tables = &self.tables;
        let lives = |(table, column): (TableId, ColumnId)| {
            tables.get(&table).is_some_and(|table| table.column_by_id(column).is_some())
        };
        self.sequences.retain(|_, sequence| sequence.owned_by.is_none_or(lives));
    }

    /// The relation with this id.
    pub fn relation(&self, id: RelationId) -> Option<RelationDef> {
        self.all_tables().flat_map(TableDef::relations).find(|relation| relation.id == id)
    }

    /// A new table (or view) id.
    pub fn new_table_id(&mut self) -> TableId {
        self.next_table += 1;
        TableId(self.next_table - 1)
    }

    /// A new type id.
    pub fn new_type_id(&mut self) -> TypeId {
        TypeId(self.new_table_id().0)
    }

    /// A new relation id.
    pub fn new_relation_id(&mut self) -> RelationId {
        self.next_relation += 1;
        RelationId(self.next_relation - 1)
    }

    /// A new column id.
    pub fn new_column_id(&mut self) -> ColumnId {
        self.next_column += 1;
        ColumnId(self.next_column - 1)
    }
}
