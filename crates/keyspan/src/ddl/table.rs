//! CREATE TABLE.

use std::collections::BTreeMap;
use std::sync::Arc;

use keyspan_cql::{
    ClusteringOrder, ColumnDefinition, ColumnSequence, CreateTable, FamilyDefinition, PrimaryKey, TableOption,
};
use keyspan_model::{
    Catalog, ColumnDef, ColumnId, ColumnRole, ColumnType, Encoding, Error, ErrorKind, KEY_NAME, RelationId, Result,
    Retention, TableDef, TableId, TextType,
};

use super::{
    change_with, check_free, family, foreign_key, option, sequence, skipping, statics, temporary, unique, user_type,
    validate,
};
use crate::advice;
use crate::context::ClientContext;
use crate::outcome::{Notice, Outcome, Tag};

/// Columns of one table at most, as in PostgreSQL.
const COLUMNS_MAX: usize = 1_600;

/// `CREATE TABLE`, whose LIKE is replaced by columns.
pub(crate) async fn create(context: &mut ClientContext, statement: &CreateTable) -> Result<Outcome> {
    let path = context.settings.search_path();
    let catalog = context.catalog();
    let keyspace = temporary::keyspace_for(context, &catalog, &path, &statement.name, statement.on_commit.is_some())?;
    if statement.if_not_exists && is_taken(&catalog, &keyspace, &statement.name.name) {
        skipping(context, "relation", &statement.name.name);
        return Ok(Outcome::done(Tag::plain("CREATE TABLE")));
    }
    check_free(&catalog, &keyspace, &statement.name)?;
    for column in &statement.columns {
        validate::default(context, column)?;
    }
    if !statement.uniques.is_empty() {
        unique::check_caps(context)?;
    }
    foreign_key::check(context, (&keyspace, &statement.name.name), &statement.foreign_keys)?;
    let shape = NewTable {
        keyspace,
        name: statement.name.name.clone(),
        columns: statement.columns.iter().map(NewColumn::declared).collect::<Result<_>>()?,
        families: statement.families.clone(),
        primary_key: statement.primary_key.clone(),
        clustering_order: statement.clustering_order.clone(),
        options: statement.options.clone(),
    };
    let mut draft = shape.build(&mut Catalog::initial())?;
    user_type::settle(&catalog, &mut draft).map_err(|error| user_type::placed(error, statement))?;
    let checks = validate::name_checks(&draft, &statement.checks)?;
    for check in &statement.checks {
        validate::check(context, &draft, &check.check.expression)?;
        statics::check_condition(&draft, &check.check.expression)?;
    }
    if temporary::goes_at_once(context, statement.on_commit) {
        return Ok(Outcome::done(Tag::plain("CREATE TABLE")));
    }
    let created = change_with(context, temporary::check(statement.on_commit.is_some()), |catalog| {
        if statement.if_not_exists && is_taken(catalog, &shape.keyspace, &shape.name) {
            return Ok(false);
        }
        temporary::expect_keyspace(catalog, &shape.keyspace)?;
        check_free(catalog, &shape.keyspace, &statement.name)?;
        let mut table = TableDef { checks: checks.clone(), ..shape.build(catalog)? };
        user_type::settle(catalog, &mut table)?;
        sequence::attach(catalog, &mut table, &shape.columns)?;
        unique::attach(catalog, &mut table, &statement.uniques)?;
        foreign_key::attach(catalog, &path, &mut table, &statement.foreign_keys)?;
        temporary::note(&mut table, statement.on_commit);
        catalog.tables.insert(table.id, Arc::new(table));
        Ok(true)
    });
    if !created.await? {
        skipping(context, "relation", &shape.name);
        return Ok(Outcome::done(Tag::plain("CREATE TABLE")));
    }
    foreign_key::notify(context, &statement.foreign_keys);
    statement.columns.iter().filter_map(scale_notice).for_each(|notice| context.notice(notice));
    option::warnings(&shape.options).for_each(|warning| context.notice(warning));
    if statement.on_commit.is_none() {
        // Temporary tables are gone before their keys hurt.
        match context.catalog().table(&shape.keyspace, &shape.name).cloned() {
            _ if statement.primary_key.is_none() => context.notice(no_key_notice(&draft)),
            Some(table) => advice::notify(context, &table),
            None => {}
        }
    }
    Ok(Outcome::done(Tag::plain("CREATE TABLE")))
}

/// Keeps the name that a table's key was given, or gives it one if its own is another's: a table that was renamed keeps
/// its key's.
pub(super) fn name_key(catalog: &Catalog, table: &mut TableDef, key: &PrimaryKey) -> Result<()> {
    let Some(name) = &key.name else {
        let others = |name: &String| is_taken(catalog, &table.keyspace, name);
        if others(&table.key_name()) {
            let free = (1_u32..).map(|number| format!("{}_pkey{number}", table.name)).find(|name| !others(name));
            table.options.extend(free.map(|name| (KEY_NAME.to_owned(), name)));
        }
        return Ok(());
    };
    if *name == table.name || is_taken(catalog, &table.keyspace, name) {
        return Err(super::exists(name).at(key.position));
    }
    table.options.insert(KEY_NAME.into(), name.clone());
    Ok(())
}

/// Whether a table, its key, a view, sequence or index has this name.
pub(super) fn is_taken(catalog: &Catalog, keyspace: &str, name: &str) -> bool {
    let view = || catalog.view(keyspace, name).is_some();
    let other = || catalog.sequence(keyspace, name).is_some() || catalog.index(keyspace, name).is_some();
    let key = || catalog.tables.values().any(|table| table.keyspace == keyspace && table.names_key(name));
    catalog.table(keyspace, name).is_some() || view() || other() || key()
}

/// A column to be.
#[derive(Clone, Debug)]
pub(super) struct NewColumn {
    pub(super) name: String,
    pub(super) ty: ColumnType,
    pub(super) not_null: bool,
    pub(super) default: Option<String>,
    pub(super) max_length: Option<u32>,
    pub(super) text_type: TextType,
    pub(super) counter: bool,
    pub(super) is_static: bool,
    pub(super) sequence: Option<ColumnSequence>,
    pub(super) position: Option<usize>,
}

impl NewColumn {
    /// A column with nothing but a name and a type.
    pub(super) fn plain(name: String, ty: ColumnType) -> NewColumn {
        NewColumn {
            name,
            ty,
            not_null: false,
            default: None,
            max_length: None,
            text_type: TextType::Text,
            counter: false,
            is_static: false,
            sequence: None,
            position: None,
        }
    }

    pub(super) fn declared(column: &ColumnDefinition) -> Result<NewColumn> {
        statics::check_column(column)?;
        Ok(NewColumn {
            name: column.name.clone(),
            ty: column.column_type,
            not_null: column.not_null,
            default: column.default.as_ref().map(|default| default.text.clone()),
            max_length: column.max_length,
            text_type: column.text_type,
            counter: column.counter,
            is_static: column.is_static,
            sequence: column.sequence.clone(),
            position: Some(column.position),
        })
    }
}

/// What a table with counters may not have. The texts are Cassandra's.
pub(super) fn check_counters(table: &TableDef) -> Result<()> {
    let error = |message: String| Err(Error::new(ErrorKind::InvalidTableDefinition, message));
    if !table.has_counters() {
        return Ok(());
    }
    if let Some(column) = table.columns.iter().find(|column| column.counter && column.is_key()) {
        return error(format!("counter type is not supported for PRIMARY KEY column '{}'", column.name));
    }
    let mixed = table.columns.iter().any(|column| !column.counter && !column.is_key()) || !table.families.is_empty();
    if mixed {
        return error("Cannot mix counter and non counter columns in the same table".into());
    }
    if let Some(column) = table.columns.iter().find(|column| column.counter && column.not_null) {
        return error(format!("counter \"{}\" cannot be NOT NULL: it is 0 until something is added", column.name));
    }
    if let Some(column) = table.columns.iter().find(|column| column.counter && column.default.is_some()) {
        return error(format!("counter \"{}\" cannot have a DEFAULT", column.name));
    }
    if table.default_ttl != 0 {
        return error("Cannot set default_time_to_live on a table with counters".into());
    }
    if table.retention.age.is_some() {
        return error("Cannot set retention on a table with counters".into());
    }
    Ok(())
}

/// Everything a table's definition is made from, ids aside.
#[derive(Clone, Debug)]
pub(super) struct NewTable {
    pub(super) keyspace: String,
    pub(super) name: String,
    pub(super) columns: Vec<NewColumn>,
    pub(super) families: Vec<FamilyDefinition>,
    pub(super) primary_key: Option<PrimaryKey>,
    pub(super) clustering_order: Vec<ClusteringOrder>,
    pub(super) options: Vec<TableOption>,
}

impl NewTable {
    /// The definition, with new ids of the catalog.
    pub(super) fn build(&self, catalog: &mut Catalog) -> Result<TableDef> {
        self.check_columns()?;
        let mut columns = Vec::with_capacity(self.columns.len() + 1);
        if self.primary_key.is_none() {
            columns.push(self.row_id(catalog));
        }
        let (column_ids, family_ids) = self.new_ids(catalog);
        if let Some(key) = &self.primary_key {
            self.key_columns(&column_ids, key, &mut columns)?;
        }
        let keys: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let others = self.columns.iter().zip(column_ids).filter(|(column, _)| !keys.contains(&column.name));
        columns.extend(others.map(|(column, id)| column.define(id, column.role())));
        let id: TableId = catalog.new_table_id();
        let rows: RelationId = catalog.new_relation_id();
        let mut table = TableDef {
            id,
            keyspace: self.keyspace.clone(),
            name: self.name.clone(),
            version: 1,
            window: option::window_column(&columns),
            columns,
            rows,
            statics: None,
            families: Vec::new(),
            default_ttl: 0,
            retention: Retention::default(),
            encoding: Encoding::default(),
            gc_grace: option::GC_GRACE,
            checks: Vec::new(),
            options: BTreeMap::new(),
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
        };
        option::apply(&mut table, &self.options, None)?;
        if let Some(key) = &self.primary_key {
            name_key(catalog, &mut table, key)?;
        }
        for (each, ids) in self.families.iter().zip(family_ids) {
            family::add(catalog, &mut table, each, ids)?;
        }
        check_counters(&table)?;
        statics::follow(catalog, &mut table)?;
        Ok(table)
    }

    /// Ids of the columns and of the families. They say the order in which both were declared.
    fn new_ids(&self, catalog: &mut Catalog) -> (Vec<ColumnId>, Vec<family::Ids>) {
        let mut families = self.families.iter().peekable();
        let (mut columns, mut of_families) = (Vec::new(), Vec::new());
        for place in 0..self.columns.len() {
            while let Some(before) = families.next_if(|family| family.place <= place) {
                of_families.push(family::Ids::new(catalog, before));
            }
            columns.push(catalog.new_column_id());
        }
        of_families.extend(families.map(|family| family::Ids::new(catalog, family)));
        (columns, of_families)
    }

    fn check_columns(&self) -> Result<()> {
        if self.columns.len() > COLUMNS_MAX {
            let message = format!("tables can have at most {COLUMNS_MAX} columns");
            return Err(Error::new(ErrorKind::TooManyColumns, message));
        }
        for (index, column) in self.columns.iter().enumerate() {
            if self.columns[..index].iter().any(|earlier| earlier.name == column.name) {
                let message = format!("column \"{}\" specified more than once", column.name);
                return Err(at_position(Error::new(ErrorKind::DuplicateColumn, message), column.position));
            }
        }
        Ok(())
    }

    fn row_id(&self, catalog: &mut Catalog) -> ColumnDef {
        let taken = self.columns.iter().any(|column| column.name == "rowid");
        ColumnDef {
            id: catalog.new_column_id(),
            name: if taken { "_rowid" } else { "rowid" }.into(),
            ty: ColumnType::BigInt,
            role: ColumnRole::Partition,
            not_null: true,
            default: None,
            max_length: None,
            text_type: TextType::Text,
            hidden: true,
            counter: false,
            identity: None,
        }
    }

    /// Adds the columns of the key, in its order; `ids` are those of all columns.
    fn key_columns(&self, ids: &[ColumnId], key: &PrimaryKey, columns: &mut Vec<ColumnDef>) -> Result<()> {
        let descending = self.descending(key)?;
        let partition = key.partition.iter().map(|name| (name, ColumnRole::Partition));
        let clustering = key.clustering.iter().zip(descending);
        let clustering = clustering.map(|(name, descending)| (name, ColumnRole::Clustering { descending }));
        for (name, role) in partition.chain(clustering) {
            if columns.iter().any(|column| column.name == *name) {
                let message = format!("column \"{name}\" appears twice in primary key constraint");
                return Err(Error::new(ErrorKind::DuplicateColumn, message).at(key.position));
            }
            let Some((column, id)) = self.columns.iter().zip(ids).find(|(column, _)| column.name == *name) else {
                let message = format!("column \"{name}\" named in key does not exist");
                return Err(Error::new(ErrorKind::UndefinedColumn, message).at(key.position));
            };
            if column.is_static {
                let message = format!("Static column '{name}' cannot be part of the PRIMARY KEY");
                return Err(at_position(Error::new(ErrorKind::InvalidTableDefinition, message), column.position));
            }
            column.ty.allowed_in_key().map_err(|error| at_position(error, column.position))?;
            columns.push(ColumnDef { not_null: true, ..column.define(*id, role) });
        }
        Ok(())
    }

    /// Whether each clustering column descends. CLUSTERING ORDER names them in key order, perhaps not all.
    fn descending(&self, key: &PrimaryKey) -> Result<Vec<bool>> {
        for (index, order) in self.clustering_order.iter().enumerate() {
            if !key.clustering.contains(&order.column) {
                let message = "Only clustering key columns can be defined in CLUSTERING ORDER directive";
                return Err(Error::new(ErrorKind::InvalidTableDefinition, message).at(order.position));
            }
            if key.clustering.get(index) != Some(&order.column) {
                let message = format!(
                    "The order of columns in the CLUSTERING ORDER directive must match that of the clustering columns ({})",
                    key.clustering.join(", ")
                );
                return Err(Error::new(ErrorKind::InvalidTableDefinition, message).at(order.position));
            }
        }
        let of = |name: &String| self.clustering_order.iter().any(|order| order.column == *name && order.descending);
        Ok(key.clustering.iter().map(of).collect())
    }
}

impl NewColumn {
    /// Its role, if it is not part of the key.
    pub(super) fn role(&self) -> ColumnRole {
        if self.is_static { ColumnRole::Static } else { ColumnRole::Regular }
    }

    pub(super) fn define(&self, id: ColumnId, role: ColumnRole) -> ColumnDef {
        ColumnDef {
            id,
            name: self.name.clone(),
            ty: self.ty,
            role,
            not_null: self.not_null,
            default: self.default.clone(),
            max_length: self.max_length,
            text_type: self.text_type,
            hidden: false,
            counter: self.counter,
            identity: None,
        }
    }
}

fn at_position(error: Error, position: Option<usize>) -> Error {
    match position {
        Some(position) => error.at(position),
        None => error,
    }
}

/// What a `numeric` that says no precision keeps, which in PostgreSQL is all digits.
pub(super) fn scale_notice(column: &ColumnDefinition) -> Option<Notice> {
    let bare = matches!(column.type_text.to_lowercase().as_str(), "numeric" | "decimal" | "dec");
    let ColumnType::Decimal { precision, scale } = column.column_type else { return None };
    bare.then(|| {
        let message = format!(
            "column \"{}\" of type {} keeps {scale} digits after the point: others are rounded away",
            column.name, column.type_text
        );
        Notice::plain(message).with_hint(format!("Declare more or fewer: numeric({precision}, 20)."))
    })
}

/// The notice for a table without a key, naming a better one.
pub(super) fn no_key_notice(table: &TableDef) -> Notice {
    let message = format!("table \"{}\" has no PRIMARY KEY: its rows are kept in arrival order", table.name);
    let notice = Notice::plain(message);
    match better_key(table) {
        Some(key) => notice.with_hint(format!(
            "Queries read only what they need with a key, for instance {key} if no two rows share it: \
             rows with the same key overwrite each other."
        )),
        None => notice.with_hint("Queries read only what they need with a key: columns that no two rows share."),
    }
}

/// A key worth proposing: what identifies a series, then its time. Without a time only what is called an id.
fn better_key(table: &TableDef) -> Option<String> {
    let shown: Vec<&ColumnDef> = table.shown_columns().collect();
    let is_label = |column: &&&ColumnDef| {
        use ColumnType as T;
        matches!(column.ty, T::Text | T::Ascii | T::Uuid | T::Int | T::BigInt | T::SmallInt | T::VarInt)
    };
    let is_time = |column: &&&ColumnDef| matches!(column.ty, ColumnType::Timestamp | ColumnType::LocalTimestamp);
    let named_id = |column: &&&ColumnDef| column.name == "id" || column.name.ends_with("_id");
    let time = shown.iter().find(is_time);
    let label = shown
        .iter()
        .find(|c| is_label(c) && named_id(c))
        .or_else(|| shown.iter().find(is_label).filter(|_| time.is_some()));
    let names: Vec<String> = label.into_iter().chain(time).map(|column| keyspan_cql::quoted(&column.name)).collect();
    (!names.is_empty()).then(|| format!("PRIMARY KEY ({})", names.join(", ")))
}
