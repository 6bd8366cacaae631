//! What system rows are made from, and the OIDs of things.
//!
//! An OID stays the same as long as the thing is there: of tables and views it is made from the table's id, which is
//! never reused; of a keyspace from its name.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use keyspan_model::{
    Catalog, Check, ColumnDef, ColumnRole, FamilyDef, ForeignKeyDef, IndexDef, Member, TableDef, TableId, TextType,
};

use super::ViewColumns;
use super::definition;
use crate::context::Facts;
use crate::context::SessionInfo;
use crate::syntax::{columns_of, parsed_expression};

/// Owner of what no role owns.
pub const OWNER: i64 = 10;
/// The OID of `pg_class`.
pub const CLASS: i64 = 1259;
/// The one database.
pub const DATABASE: i64 = 5;
/// Access method of tables.
pub const TABLE_METHOD: i64 = 2;
/// Access method of keys.
pub const INDEX_METHOD: i64 = 403;
/// OIDs per table: the table, its index, its constraints.
const STRIDE: i64 = 1024;
/// Below are Postgres' own.
const FIRST: i64 = 16_384;
/// OIDs of keyspaces other than `public` are in these many from this one.
const KEYSPACES: (i64, u64) = (3_900_000_000, 100_000_000);
/// OIDs of defaults are column ids above this.
const DEFAULTS: i64 = 3_000_000_000;

/// A catalog, and who asks.
pub struct Source {
    /// What there is.
    pub catalog: Arc<Catalog>,
    /// The session.
    pub info: Arc<SessionInfo>,
    /// Keyspaces searched.
    pub search_path: Arc<Vec<String>>,
    /// Columns of views.
    pub views: Arc<ViewColumns>,
}

/// A relation in the sense of `pg_class`.
#[derive(Clone, Debug)]
pub struct Class {
    /// Its OID.
    pub oid: i64,
    /// Its keyspace or system schema.
    pub schema: String,
    /// Its name.
    pub name: String,
}

/// The OID of a table, view, sequence or secondary index.
pub fn table_oid(id: TableId) -> i64 {
    FIRST + i64::from(id.0) * STRIDE
}

/// The table, view, sequence or index of this OID.
pub fn id_of_table(oid: i64) -> Option<TableId> {
    let id = (oid - FIRST).div_euclid(STRIDE);
    u32::try_from(id).ok().map(TableId).filter(|id| table_oid(*id) == oid)
}

/// The OID of a table's key as an index.
pub fn index_oid(id: TableId) -> i64 {
    table_oid(id) + 1
}

/// The OID of a table's key, or of a unique index, as a constraint.
pub fn key_oid(id: TableId) -> i64 {
    table_oid(id) + 2
}

/// The OID of a table's row type.
pub fn row_type_oid(id: TableId) -> i64 {
    table_oid(id) + 3
}

/// The OID of a table's nth CHECK.
pub fn check_oid(id: TableId, place: usize) -> i64 {
    table_oid(id) + 8 + i64::try_from(place).unwrap_or(0).min(STRIDE - 9)
}

/// The OID of a column's DEFAULT.
pub fn default_oid(column: &ColumnDef) -> i64 {
    DEFAULTS + i64::from(column.id.0)
}

/// Whether a table has a key that its users know of.
pub fn has_key(table: &TableDef) -> bool {
    table.has_key()
}

/// The name of a table's key.
pub fn key_name(table: &TableDef) -> String {
    table.key_name()
}

/// The columns that are shown, and the families as what clients get of them, with their numbers.
pub fn shown(table: &TableDef) -> impl Iterator<Item = (usize, Cow<'_, ColumnDef>)> {
    let members = table.members().into_iter().filter_map(|member| match member {
        Member::Column(column) => (!column.hidden).then_some(Cow::Borrowed(column)),
        Member::Family(_, family) => Some(Cow::Owned(as_column(family))),
    });
    members.enumerate().map(|(place, column)| (place + 1, column))
}

fn as_column(family: &FamilyDef) -> ColumnDef {
    ColumnDef {
        id: family.value.id,
        name: family.name.clone(),
        ty: family.whole_type(),
        role: ColumnRole::Regular,
        not_null: false,
        default: None,
        max_length: None,
        text_type: TextType::Text,
        hidden: false,
        counter: false,
        identity: None,
    }
}

/// Numbers of the key's columns.
pub fn key_numbers(table: &TableDef) -> Vec<i64> {
    numbers(table, table.key())
}

/// The columns of a secondary index.
pub fn indexed_columns<'a>(table: &'a TableDef, index: &'a IndexDef) -> impl Iterator<Item = &'a ColumnDef> {
    index.columns.iter().filter_map(|column| table.column_by_id(*column))
}

/// The numbers under which columns are shown.
pub fn numbers<'a>(table: &TableDef, columns: impl Iterator<Item = &'a ColumnDef>) -> Vec<i64> {
    let place = |own: &ColumnDef| shown(table).find(|(_, column)| column.id == own.id).map(|(number, _)| number);
    columns.filter_map(place).filter_map(|number| i64::try_from(number).ok()).collect()
}

/// The columns that the condition of a CHECK names, in the table's order.
pub fn checked_columns<'a>(table: &'a TableDef, check: &Check) -> Vec<&'a ColumnDef> {
    let named = parsed_expression(&check.sql).map(|condition| columns_of(&condition)).unwrap_or_default();
    table.columns.iter().filter(|column| named.contains(&column.name)).collect()
}

impl Source {
    /// The surroundings of a function.
    pub fn of(facts: &Facts) -> Source {
        Source {
            catalog: facts.catalog.clone(),
            info: facts.info.clone(),
            search_path: facts.search_path.clone(),
            views: Arc::default(),
        }
    }

    /// The user.
    pub fn user(&self) -> &str {
        if self.info.user.is_empty() { "keyspan" } else { &self.info.user }
    }

    /// The database's name.
    pub fn database(&self) -> &str {
        if self.info.database.is_empty() { "keyspan" } else { &self.info.database }
    }

    /// OIDs of all schemas by name.
    pub fn namespaces(&self) -> BTreeMap<String, i64> {
        let mut all = BTreeMap::from([("pg_catalog".to_owned(), 11), ("information_schema".to_owned(), 13_000)]);
        for name in self.catalog.keyspaces.keys() {
            let mut oid = namespace_hash(name);
            while all.values().any(|taken| *taken == oid) {
                oid += 1;
            }
            all.insert(name.clone(), oid);
        }
        all
    }

    /// Every relation: system tables, tables with their keys, views, sequences.
    pub fn classes(&self) -> Vec<Class> {
        let class = |oid, schema: &str, name: &str| Class { oid, schema: schema.to_owned(), name: name.to_owned() };
        let mut all: Vec<Class> =
            definition::all().iter().map(|table| class(table.oid, table.schema, table.name)).collect();
        for table in self.catalog.tables.values() {
            all.push(class(table_oid(table.id), &table.keyspace, &table.name));
            if has_key(table) {
                all.push(class(index_oid(table.id), &table.keyspace, &key_name(table)));
            }
        }
        let indexes = self.indexes();
        all.extend(indexes.map(|(table, index)| class(table_oid(index.id), &table.keyspace, &index.name)));
        all.extend(self.catalog.views.values().map(|view| class(table_oid(view.id), &view.keyspace, &view.name)));
        let sequences = self.catalog.sequences.values();
        all.extend(sequences.map(|sequence| class(table_oid(sequence.id), &sequence.keyspace, &sequence.name)));
        all
    }

    /// The relation that a name means on the search path.
    pub fn class_of_name(&self, text: &str) -> Option<Class> {
        let parts = name_parts(text);
        let all = self.classes();
        match parts.as_slice() {
            [name] => {
                let system = std::iter::once("pg_catalog");
                let mut path = system.chain(self.search_path.iter().map(String::as_str));
                path.find_map(|schema| all.iter().find(|class| class.schema == schema && class.name == *name).cloned())
            }
            [.., schema, name] => all.into_iter().find(|class| class.schema == *schema && class.name == *name),
            [] => None,
        }
    }

    /// The relation with this OID.
    pub fn class_of_oid(&self, oid: i64) -> Option<Class> {
        self.classes().into_iter().find(|class| class.oid == oid)
    }

    /// Whether a relation is found by its name alone.
    pub fn is_visible(&self, class: &Class) -> bool {
        let quoted = format!("\"{}\"", class.name.replace('"', "\"\""));
        self.class_of_name(&quoted).is_some_and(|found| found.oid == class.oid)
    }

    /// The secondary indexes, and their tables.
    pub fn indexes(&self) -> impl Iterator<Item = (&TableDef, &IndexDef)> {
        self.catalog.indexes()
    }

    /// The UNIQUE constraints, and their tables.
    pub fn uniques(&self) -> impl Iterator<Item = (&TableDef, &IndexDef)> {
        self.indexes().filter(|(_, index)| index.is_constraint())
    }

    /// The foreign keys, and their tables.
    pub fn foreign_keys(&self) -> impl Iterator<Item = (&Arc<TableDef>, &ForeignKeyDef)> {
        self.catalog.tables.values().flat_map(|table| table.foreign_keys.iter().map(move |key| (table, key)))
    }

    /// The secondary index with this OID.
    pub fn index_of_oid(&self, oid: i64) -> Option<(&TableDef, &IndexDef)> {
        self.indexes().find(|(_, index)| table_oid(index.id) == oid)
    }

    /// The table whose OID or whose index's or constraint's OID this is.
    pub fn table_around(&self, oid: i64) -> Option<&Arc<TableDef>> {
        let id = u32::try_from((oid - FIRST).div_euclid(STRIDE)).ok()?;
        self.catalog.tables.get(&TableId(id))
    }
}

fn namespace_hash(name: &str) -> i64 {
    if name == "public" {
        return 2_200;
    }
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    KEYSPACES.0 + i64::try_from(hash % KEYSPACES.1).unwrap_or(0)
}

/// The parts of a dotted name; unquoted ones folded to lower case.
pub fn name_parts(text: &str) -> Vec<String> {
    let (mut parts, mut part, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = text.trim().chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                part.push('"');
                chars.next();
            }
            '"' => quoted = !quoted,
            '.' if !quoted => parts.push(std::mem::take(&mut part)),
            c if quoted => part.push(c),
            c => part.extend(c.to_lowercase()),
        }
    }
    parts.push(part);
    parts
}
