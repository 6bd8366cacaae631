//! Definitions as CQL text that runs again: DESCRIBE and SHOW CREATE TABLE.

mod sequence;
mod view;

pub(crate) use view::create as view;

use crate::names::sequence_default;
use keyspan_cql::quoted;
use keyspan_model::{
    COMMENT_ON_COLUMN, COMMENT_ON_CONSTRAINT, Catalog, ColumnDef, ColumnRole, ColumnType, FamilyDef, FamilyKind,
    ForeignKeyDef, GcRule, Identity, IndexDef, KEY_NAME, KeyColumn, KeyspaceDef, Member, TableDef, TableId, TextType,
    UserType, Value, ViewDef,
};

/// A column's type with its length.
pub(crate) fn type_text(column: &ColumnDef) -> String {
    let text = match column.text_type {
        TextType::Char if column.max_length.is_none() => "bpchar",
        TextType::Char => "char",
        TextType::Text | TextType::Varchar => "varchar",
    };
    let (one, list) = match column.ty.element() {
        Some(element) => (element, "[]"),
        None => (column.ty, ""),
    };
    let Some(length) = column.max_length else {
        return match one {
            _ if column.counter => "counter".into(),
            ColumnType::Text if column.text_type != TextType::Text => format!("{text}{list}"),
            _ => column.ty.name(),
        };
    };
    match one {
        ColumnType::LocalTimestamp => format!("timestamp({length}) without time zone{list}"),
        ColumnType::Duration => format!("interval({length}){list}"),
        ColumnType::Time | ColumnType::Timestamp => format!("{}({length}){list}", one.name()),
        _ => format!("{text}({length}){list}"),
    }
}

/// What part of the key a column is.
pub(crate) fn key_text(column: &ColumnDef) -> &'static str {
    match column.role {
        ColumnRole::Partition => "partition",
        ColumnRole::Clustering { descending: false } => "clustering",
        ColumnRole::Clustering { descending: true } => "clustering desc",
        ColumnRole::Static => "static",
        ColumnRole::Regular => "",
    }
}

/// The CREATE TABLE of a table.
pub(crate) fn table(catalog: &Catalog, table: &TableDef) -> String {
    let shown = table.members().into_iter().filter_map(|member| match member {
        Member::Column(each) => (!each.hidden).then(|| column(catalog, table, each)),
        Member::Family(_, each) => Some(format!("{} {}", quoted(&each.name), family(each))),
    });
    let mut parts: Vec<String> = shown.collect();
    if !table.columns.iter().any(|column| column.hidden) {
        parts.push(primary_key(table));
    }
    let constraints = table.indexes.iter().filter(|index| index.is_constraint());
    parts.extend(
        constraints.map(|index| format!("CONSTRAINT {} UNIQUE {}", quoted(&index.name), columns(table, index))),
    );
    parts.extend(table.checks.iter().map(|check| format!("CONSTRAINT {} CHECK ({})", quoted(&check.name), check.sql)));
    let (keyspace, name) = (quoted(&table.keyspace), quoted(&table.name));
    let options = options(table);
    format!("CREATE TABLE {keyspace}.{name} (\n    {}\n){options};", parts.join(",\n    "))
}

/// The CREATE INDEX of an index of a table.
pub(crate) fn index(table: &TableDef, index: &IndexDef) -> String {
    let (keyspace, of) = (quoted(&table.keyspace), quoted(&table.name));
    if let Some(similarity) = index.similarity {
        return format!(
            "CREATE CUSTOM INDEX {} ON {keyspace}.{of} {} USING 'StorageAttachedIndex' \
             WITH OPTIONS = {{'similarity_function': '{}'}};",
            quoted(&index.name),
            columns(table, index),
            similarity.name()
        );
    }
    let unique = if index.unique.is_some() { "UNIQUE " } else { "" };
    format!("CREATE {unique}INDEX {} ON {keyspace}.{of} {};", quoted(&index.name), columns(table, index))
}

/// What adds the foreign keys of a table, each with its name.
pub(crate) fn foreign_keys(catalog: &Catalog, table: &TableDef) -> Vec<(String, String)> {
    let names = |names: &mut dyn Iterator<Item = &str>| names.map(quoted).collect::<Vec<_>>().join(", ");
    let text = |key: &ForeignKeyDef| {
        let target = catalog.tables.get(&key.table)?;
        let (columns, references) = (names(&mut key.columns_in(table)), names(&mut key.references_in(target)));
        let (keyspace, own) = (quoted(&table.keyspace), quoted(&table.name));
        let (name, rules) = (quoted(&key.name), key.rules.text());
        let other = format!("{}.{}", quoted(&target.keyspace), quoted(&target.name));
        let what = format!("FOREIGN KEY ({columns}) REFERENCES {other} ({references}){rules}");
        Some((key.name.clone(), format!("ALTER TABLE {keyspace}.{own} ADD CONSTRAINT {name} {what};")))
    };
    table.foreign_keys.iter().filter_map(text).collect()
}

/// The rows of DESCRIBE of a table's foreign keys.
pub(crate) fn foreign_key_rows(catalog: &Catalog, table: &TableDef) -> Vec<Vec<String>> {
    let row = |(name, text)| vec![table.keyspace.clone(), "foreign_key".into(), name, text];
    foreign_keys(catalog, table).into_iter().map(row).collect()
}

/// What an index is on, in parentheses.
fn columns(table: &TableDef, index: &IndexDef) -> String {
    let part = |(function, name): (Option<&str>, &str)| match function {
        Some(function) => format!("{function}({})", quoted(name)),
        None => quoted(name),
    };
    let columns: Vec<String> = table.indexed_parts(index).into_iter().map(part).collect();
    format!("({})", columns.join(", "))
}

/// The type of a family and its rule.
pub(crate) fn family(family: &FamilyDef) -> String {
    let part = |part: &KeyColumn| {
        format!("{} {}{}", quoted(&part.name), part.ty.name(), if part.descending { " DESC" } else { "" })
    };
    let named = family.qualifier.iter().any(|part| part.name != "qualifier" || part.descending);
    let qualifier = match named && family.kind == FamilyKind::Family {
        true => format!("({})", family.qualifier.iter().map(part).collect::<Vec<_>>().join(", ")),
        false => family.qualifier[0].ty.name(),
    };
    let value = family.value.ty.name();
    match family.kind {
        FamilyKind::Family => format!("family<{qualifier}, {value}>{} GC {}", known(family), gc(&family.gc)),
        FamilyKind::Map => format!("map<{qualifier}, {value}>"),
        FamilyKind::Set => format!("set<{qualifier}>"),
        FamilyKind::List => format!("list<{value}>"),
    }
}

fn known(family: &FamilyDef) -> String {
    let each = family.known.iter().map(|known| format!("{} {}", quoted(&known.name), known.ty.name()));
    let each = each.collect::<Vec<_>>().join(", ");
    if each.is_empty() { each } else { format!(" ({each})") }
}

fn gc(rule: &GcRule) -> String {
    let versions = rule.max_versions.map(|versions| format!("max_versions = {versions}"));
    let age = rule.max_age.map(|age| {
        let age = Value::Duration(0, 0, age.saturating_mul(1_000));
        format!("max_age = '{}'", age.to_text(ColumnType::Duration))
    });
    let inner = rule.inner.iter().map(|rule| format!("({})", gc(rule)));
    let limits: Vec<String> = versions.into_iter().chain(age).chain(inner).collect();
    if limits.is_empty() { "NONE".into() } else { limits.join(if rule.both { " AND " } else { " OR " }) }
}

fn column(catalog: &Catalog, table: &TableDef, column: &ColumnDef) -> String {
    let mut text = format!("{} {}", quoted(&column.name), type_text(column));
    // With the sequence that it was made with.
    let own = sequence_default(&table.keyspace, &format!("{}_{}_seq", table.name, column.name));
    match (column.identity, column.ty) {
        (Some(identity), _) => {
            let always = if identity == Identity::Always { "ALWAYS" } else { "BY DEFAULT" };
            let options = sequence::of_column(catalog, table, column).map(sequence::options).unwrap_or_default();
            let options = if options.is_empty() { options } else { format!(" ({options})") };
            return format!("{text} GENERATED {always} AS IDENTITY{options}");
        }
        (None, ty) if column.default.as_ref() == Some(&own) => {
            let serial = match ty {
                ColumnType::SmallInt => "smallserial",
                ColumnType::Int => "serial",
                _ => "bigserial",
            };
            return format!("{} {serial}", quoted(&column.name));
        }
        (None, _) => {}
    }
    if column.role == ColumnRole::Static {
        text.push_str(" STATIC");
    }
    if column.not_null && !column.is_key() {
        text.push_str(" NOT NULL");
    }
    if let Some(default) = &column.default {
        text.push_str(&format!(" DEFAULT {default}"));
    }
    text
}

fn primary_key(table: &TableDef) -> String {
    let names = |wanted: fn(&ColumnRole) -> bool| -> Vec<String> {
        table.columns.iter().filter(|column| wanted(&column.role)).map(|column| quoted(&column.name)).collect()
    };
    let partition = names(|role| *role == ColumnRole::Partition);
    let clustering = names(|role| matches!(role, ColumnRole::Clustering { .. }));
    let partition = if partition.len() == 1 { partition[0].clone() } else { format!("({})", partition.join(", ")) };
    let all: Vec<String> = std::iter::once(partition).chain(clustering).collect();
    let name = table.options.get(KEY_NAME).map(|name| format!("CONSTRAINT {} ", quoted(name))).unwrap_or_default();
    format!("{name}PRIMARY KEY ({})", all.join(", "))
}

fn options(table: &TableDef) -> String {
    let order = |column: &ColumnDef| match column.role {
        ColumnRole::Clustering { descending } => {
            Some(format!("{} {}", quoted(&column.name), if descending { "DESC" } else { "ASC" }))
        }
        _ => None,
    };
    let orders: Vec<String> = table.columns.iter().filter_map(order).collect();
    let mut all = Vec::new();
    if orders.iter().any(|order| order.ends_with(" DESC")) {
        all.push(format!("CLUSTERING ORDER BY ({})", orders.join(", ")));
    }
    let plain = table.options.iter().filter(|(name, _)| !name.contains('.'));
    all.extend(plain.map(|(name, value)| format!("{name} = {value}")));
    if all.is_empty() { String::new() } else { format!(" WITH {}", all.join("\n    AND ")) }
}

/// The CREATE TYPE of a user type.
fn user_type(ty: &UserType) -> String {
    let fields: Vec<String> =
        ty.fields.iter().map(|field| format!("{} {}", quoted(&field.name), field.ty.name())).collect();
    format!("CREATE TYPE {}.{} (\n    {}\n);", quoted(&ty.keyspace), quoted(&ty.name), fields.join(",\n    "))
}

/// A user type's row of DESCRIBE.
pub(crate) fn type_row(ty: &UserType) -> Vec<String> {
    vec![ty.keyspace.clone(), "type".into(), ty.name.clone(), user_type(ty)]
}

/// The user types of a keyspace, each behind those that it has in it.
fn types_in_order<'a>(catalog: &'a Catalog, keyspace: &str) -> Vec<&'a UserType> {
    let types = catalog.types.values().map(|ty| &**ty).filter(|ty| ty.keyspace == keyspace);
    behind_what_they_need(types.collect(), |ty, other| ty.id != other.id && ty.holds(other.id))
}

/// Definitions in an order in which they can be made: each behind those that it needs.
fn behind_what_they_need<T>(mut left: Vec<T>, needs: impl Fn(&T, &T) -> bool) -> Vec<T> {
    let mut ordered = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let next = left.iter().position(|one| !left.iter().any(|other| needs(one, other))).unwrap_or(0);
        ordered.push(left.remove(next));
    }
    ordered
}

fn keyspace(keyspace: &KeyspaceDef) -> String {
    let options: Vec<String> = keyspace.options.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let options = if options.is_empty() { String::new() } else { format!(" WITH {}", options.join(" AND ")) };
    format!("CREATE KEYSPACE {}{options};", quoted(&keyspace.name))
}

/// A keyspace's row of DESCRIBE.
fn keyspace_row(definition: &KeyspaceDef) -> Vec<String> {
    vec![definition.name.clone(), "keyspace".into(), definition.name.clone(), keyspace(definition)]
}

/// All that is in a keyspace, in an order in which it can be made: what a definition names comes before it.
pub(crate) fn keyspace_rows(catalog: &Catalog, name: &str) -> Vec<Vec<String>> {
    let mut rows: Vec<_> = catalog.keyspaces.get(name).map(keyspace_row).into_iter().collect();
    rows.extend(types_in_order(catalog, name).into_iter().map(type_row));
    let tables = || catalog.tables.values().filter(|table| table.keyspace == name);
    let sequences = || catalog.sequences.values().filter(|sequence| sequence.keyspace == name);
    rows.extend(sequences().filter_map(|sequence| sequence::create_row(catalog, sequence)));
    rows.extend(tables().flat_map(|table| table_rows(catalog, table)));
    // After all tables: they may refer to one that is made later.
    rows.extend(tables().flat_map(|table| foreign_key_rows(catalog, table)));
    rows.extend(sequences().filter_map(|sequence| sequence::alter_row(catalog, sequence)));
    rows.extend(sequences().filter_map(|each| comment_row(catalog, ("SEQUENCE", each.id), name, &each.name)));
    rows.extend(view::in_order(catalog, name).into_iter().flat_map(|view| view_rows(catalog, view)));
    rows
}

/// The rows of DESCRIBE of a table, its indexes and the comments on its columns and constraints.
pub(crate) fn table_rows(catalog: &Catalog, definition: &TableDef) -> Vec<Vec<String>> {
    let own = vec![definition.keyspace.clone(), "table".into(), definition.name.clone(), table(catalog, definition)];
    let indexes = definition.indexes.iter().filter(|index| !index.is_constraint());
    let indexes = indexes.map(|index| index_row(definition, index));
    let comment = |index: &IndexDef| comment_row(catalog, ("INDEX", index.id), &definition.keyspace, &index.name);
    let of_indexes = definition.indexes.iter().filter_map(comment);
    let comments = comments(definition)
        .into_iter()
        .map(|(name, text)| vec![definition.keyspace.clone(), "comment".into(), name, text]);
    std::iter::once(own).chain(indexes).chain(comments).chain(of_indexes).collect()
}

/// The comments on columns and constraints of a table: what each is on, and the statement.
pub(crate) fn comments(table: &TableDef) -> Vec<(String, String)> {
    let of = format!("{}.{}", quoted(&table.keyspace), quoted(&table.name));
    let statement = |(option, text): (&String, &String)| {
        let constraint = option.strip_prefix(COMMENT_ON_CONSTRAINT);
        let name = constraint.or_else(|| option.strip_prefix(COMMENT_ON_COLUMN))?;
        let what = match constraint {
            Some(name) => format!("CONSTRAINT {} ON {of}", quoted(name)),
            None => format!("COLUMN {of}.{}", quoted(name)),
        };
        Some((name.to_owned(), format!("COMMENT ON {what} IS {text};")))
    };
    table.options.iter().filter_map(statement).collect()
}

/// The COMMENT ON of a view, sequence or index.
fn comment_row(catalog: &Catalog, (kind, id): (&str, TableId), keyspace: &str, name: &str) -> Option<Vec<String>> {
    let text = catalog.comments.get(&id)?.replace('\'', "''");
    let statement = format!("COMMENT ON {kind} {}.{} IS '{text}';", quoted(keyspace), quoted(name));
    Some(vec![keyspace.to_owned(), "comment".into(), name.to_owned(), statement])
}

/// An index's row of DESCRIBE.
pub(crate) fn index_row(of: &TableDef, definition: &IndexDef) -> Vec<String> {
    vec![of.keyspace.clone(), "index".into(), definition.name.clone(), index(of, definition)]
}

/// The rows of DESCRIBE of a view and its indexes.
pub(crate) fn view_rows(catalog: &Catalog, definition: &ViewDef) -> Vec<Vec<String>> {
    let kind = if definition.materialized.is_some() { "materialized_view" } else { "view" };
    let own =
        vec![definition.keyspace.clone(), kind.into(), definition.name.clone(), view::create(catalog, definition)];
    let rows = definition.stored().map(|stored| &stored.rows);
    let indexes = rows.into_iter().flat_map(|rows| rows.indexes.iter().map(|index| index_row(rows, index)));
    let kind = if definition.materialized.is_some() { "MATERIALIZED VIEW" } else { "VIEW" };
    let comment = comment_row(catalog, (kind, definition.id), &definition.keyspace, &definition.name);
    std::iter::once(own).chain(indexes).chain(comment).collect()
}
