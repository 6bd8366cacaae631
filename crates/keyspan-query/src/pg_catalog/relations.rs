//! Rows about tables, views, columns, keys, constraints and types.

use arrow::datatypes::Schema;
use keyspan_model::schema::temporary::is_temporary;
use keyspan_model::{
    ColumnDef, ColumnId, ColumnRole, ForeignKeyAction, ForeignKeyDef, Identity, IndexDef, Object, ReferencedKey,
    TableDef, TableId, ViewDef,
};

use super::comments;
use super::default::default_text;
use super::definition::{
    self, Definition, PgType, SystemColumn, type_of_column, type_of_field, type_of_oid, type_of_system,
};
use super::row::Row;
use super::source::{
    INDEX_METHOD, OWNER, Source, TABLE_METHOD, check_oid, checked_columns, default_oid, has_key, index_oid,
    indexed_columns, key_name, key_numbers, key_oid, numbers, row_type_oid, shown, table_oid,
};

/// The rows of a table of `pg_catalog`; `None` for those of other kinds.
pub fn rows(name: &str, source: &Source) -> Option<Vec<Row>> {
    Some(match name {
        "pg_namespace" => namespaces(source),
        "pg_class" => classes(source),
        "pg_attribute" => attributes(source),
        "pg_attrdef" => defaults(source),
        "pg_index" => indexes(source),
        "pg_constraint" => constraints(source),
        "pg_description" => comments::rows(source),
        "pg_type" => types(source),
        "pg_tables" => tables(source),
        "pg_views" => views(source),
        "pg_matviews" => materialized_views(source),
        "pg_indexes" => index_list(source),
        _ => return None,
    })
}

fn schema_oid(source: &Source, name: &str) -> i64 {
    source.namespaces().get(name).copied().unwrap_or(0)
}

fn namespaces(source: &Source) -> Vec<Row> {
    let row = |(name, oid): (String, i64)| {
        let row = Row::new().with("oid", oid).with("nspname", &name).with("nspowner", source.schema_owner(&name));
        row.with("nspacl", source.access(&Object::Keyspace(name)))
    };
    source.namespaces().into_iter().map(row).collect()
}

fn classes(source: &Source) -> Vec<Row> {
    let spaces = source.namespaces();
    let space = |name: &str| spaces.get(name).copied().unwrap_or(0);
    let class = |oid: i64, name: &str, schema: &str, kind: &str, columns: usize| {
        Row::new()
            .with("oid", oid)
            .with("relname", name)
            .with("relnamespace", space(schema))
            .with("relowner", OWNER)
            .with("relkind", kind)
            .with("relnatts", columns)
            .with("relpersistence", if is_temporary(schema) { "t" } else { "p" })
            .with("relreplident", if kind == "r" { "d" } else { "n" })
            .with("reltuples", -1_i64)
            .flags(&["relispopulated"])
    };
    let mut rows: Vec<Row> = definition::all()
        .iter()
        .map(|table| class(table.oid, table.name, table.schema, table.kind, table.columns.len()))
        .collect();
    for table in source.catalog.tables.values() {
        let row = class(table_oid(table.id), &table.name, &table.keyspace, "r", shown(table).count());
        rows.push(
            owned(source, row, table.id)
                .with("reltype", row_type_oid(table.id))
                .with("relam", TABLE_METHOD)
                .with("relfilenode", table_oid(table.id))
                .with("relhasindex", has_key(table) || !table.indexes.is_empty())
                .with("relchecks", table.checks.len())
                // In PostgreSQL triggers enforce foreign keys; programs look here before they ask for those.
                .with("relhastriggers", is_in_foreign_key(source, table)),
        );
        if has_key(table) {
            let row = class(index_oid(table.id), &key_name(table), &table.keyspace, "i", table.key_len());
            rows.push(row.with("relam", INDEX_METHOD).with("relfilenode", index_oid(table.id)));
        }
    }
    for (table, index) in source.indexes() {
        let row = class(table_oid(index.id), &index.name, &table.keyspace, "i", index.columns.len());
        let row = row.with("relowner", source.owner(table.id));
        rows.push(row.with("relam", INDEX_METHOD).with("relfilenode", table_oid(index.id)));
    }
    for sequence in source.catalog.sequences.values() {
        let row = class(table_oid(sequence.id), &sequence.name, &sequence.keyspace, "S", 3);
        rows.push(owned(source, row, sequence.id).with("relfilenode", table_oid(sequence.id)));
    }
    for view in source.catalog.views.values() {
        let planned = source.views.iter().find(|(id, _)| *id == view.id).map(|(_, schema)| schema.fields().len());
        let kept = view.rows().map(|rows| shown(rows).count());
        let columns = planned.or(kept).unwrap_or(view.columns.len());
        let kind = if view.materialized.is_some() { "m" } else { "v" };
        let row = owned(source, class(table_oid(view.id), &view.name, &view.keyspace, kind, columns), view.id);
        let row = row.with("reltype", row_type_oid(view.id)).flags(&["relhasrules"]);
        rows.push(match &view.materialized {
            Some(_) => {
                let row = row.with("relam", TABLE_METHOD).with("relfilenode", table_oid(view.id));
                row.with("relispopulated", is_populated(view)).with("relhasindex", has_indexes(view))
            }
            None => row,
        });
    }
    rows
}

fn is_in_foreign_key(source: &Source, table: &TableDef) -> bool {
    !table.foreign_keys.is_empty() || source.catalog.references_to(table.id).next().is_some()
}

/// With the owner and the access list of a table or view.
fn owned(source: &Source, row: Row, id: TableId) -> Row {
    row.with("relowner", source.owner(id)).with("relacl", source.access(&Object::Relation(id)))
}

fn attribute(relation: i64, name: &str, number: usize, (oid, modifier): (i64, i64)) -> Row {
    let ty = type_of_oid(oid);
    let row = Row::new()
        .with("attrelid", relation)
        .with("attname", name)
        .with("atttypid", oid)
        .with("atttypmod", modifier)
        .with("attnum", number)
        .with("attstattarget", -1_i64)
        .with("attcacheoff", -1_i64)
        .flags(&["attislocal"]);
    match ty {
        Some(ty) => row
            .with("attlen", ty.length)
            .with("attbyval", ty.by_value)
            .with("attalign", ty.align)
            .with("attstorage", ty.storage)
            .with("attcollation", ty.collation)
            .with("attndims", i64::from(ty.name.starts_with('_'))),
        None => row,
    }
}

fn identity(column: &ColumnDef) -> &'static str {
    match column.identity {
        Some(Identity::Always) => "a",
        Some(Identity::ByDefault) => "d",
        None => "",
    }
}

fn attributes(source: &Source) -> Vec<Row> {
    let mut rows = Vec::new();
    for table in definition::all() {
        rows.extend(table.columns.iter().enumerate().map(|(place, column)| system_attribute(table, place, column)));
    }
    for table in source.catalog.tables.values() {
        for (number, column) in shown(table) {
            let row = attribute(table_oid(table.id), &column.name, number, type_of_column(&column));
            let row = row.with("attidentity", identity(&column));
            let row = row.with("attacl", source.access(&Object::Column(table.id, column.id)));
            rows.push(
                row.with("attnotnull", column.not_null || column.is_key())
                    .with("atthasdef", default_text(&column).is_some()),
            );
        }
        if has_key(table) {
            let key = table.key().enumerate();
            let key = key.map(|(place, c)| attribute(index_oid(table.id), &c.name, place + 1, type_of_column(c)));
            rows.extend(key);
        }
    }
    for (table, index) in source.indexes() {
        let columns = indexed_columns(table, index).enumerate();
        rows.extend(columns.map(|(place, c)| attribute(table_oid(index.id), &c.name, place + 1, type_of_column(c))));
    }
    for (id, schema) in source.views.iter() {
        rows.extend(view_attributes(table_oid(*id), schema));
    }
    rows
}

fn view_attributes(relation: i64, schema: &Schema) -> Vec<Row> {
    let fields = schema.fields().iter().enumerate();
    let each = fields.map(|(place, field)| attribute(relation, field.name(), place + 1, type_of_field(field)));
    each.collect()
}

fn system_attribute(table: &Definition, place: usize, column: &SystemColumn) -> Row {
    attribute(table.oid, column.name, place + 1, (type_of_system(column), -1)).with("attnotnull", column.not_null)
}

fn defaults(source: &Source) -> Vec<Row> {
    let mut rows = Vec::new();
    for table in source.catalog.tables.values() {
        for (number, column) in shown(table) {
            if let Some(default) = default_text(&column) {
                let row = Row::new().with("oid", default_oid(&column)).with("adrelid", table_oid(table.id));
                rows.push(row.with("adnum", number).with("adbin", default));
            }
        }
    }
    rows
}

pub fn keyed(source: &Source) -> impl Iterator<Item = &TableDef> {
    source.catalog.tables.values().map(AsRef::as_ref).filter(|table| has_key(table))
}

fn indexes(source: &Source) -> Vec<Row> {
    let row = |table: &TableDef| {
        let each = |value: fn(&keyspan_model::ColumnDef) -> i64| table.key().map(value).collect::<Vec<i64>>();
        Row::new()
            .with("indexrelid", index_oid(table.id))
            .with("indrelid", table_oid(table.id))
            .with("indnatts", table.key_len())
            .with("indnkeyatts", table.key_len())
            .flags(&["indisunique", "indisprimary", "indimmediate", "indisvalid", "indisready", "indislive"])
            .with("indkey", key_numbers(table))
            .with("indcollation", each(|column| type_of_oid(type_of_column(column).0).map_or(0, |ty| ty.collation)))
            .with("indclass", each(|_| 0))
            // Postgres' bits: descending, nulls first.
            .with("indoption", each(|column| if descending(column) { 3 } else { 0 }))
    };
    keyed(source).map(row).chain(source.indexes().map(|(table, index)| index_row(table, index))).collect()
}

/// A secondary index. While it is being built it is valid, too: the rest is read out of the table.
fn index_row(table: &TableDef, index: &IndexDef) -> Row {
    let collation = |column: &ColumnDef| type_of_oid(type_of_column(column).0).map_or(0, |ty| ty.collation);
    let zeros: Vec<i64> = vec![0; index.columns.len()];
    let unique: &[&str] = if index.unique.is_some() { &["indisunique"] } else { &[] };
    Row::new()
        .with("indexrelid", table_oid(index.id))
        .with("indrelid", table_oid(table.id))
        .with("indnatts", index.columns.len())
        .with("indnkeyatts", index.columns.len())
        .flags(&["indimmediate", "indisvalid", "indisready", "indislive"])
        .flags(unique)
        .with("indkey", numbers(table, indexed_columns(table, index)))
        .with("indcollation", indexed_columns(table, index).map(collation).collect::<Vec<i64>>())
        .with("indclass", zeros.clone())
        .with("indoption", zeros)
}

/// Whether a key column is in descending order.
pub fn descending(column: &keyspan_model::ColumnDef) -> bool {
    matches!(column.role, ColumnRole::Clustering { descending: true })
}

fn constraints(source: &Source) -> Vec<Row> {
    let mut rows = Vec::new();
    for table in source.catalog.tables.values() {
        let space = schema_oid(source, &table.keyspace);
        let constraint = |oid: i64, name: &str, kind: &str| {
            Row::new()
                .with("oid", oid)
                .with("conname", name)
                .with("connamespace", space)
                .with("contype", kind)
                .with("conrelid", table_oid(table.id))
                .flags(&["convalidated", "conislocal", "connoinherit"])
        };
        if has_key(table) {
            let row = constraint(key_oid(table.id), &key_name(table), "p");
            rows.push(row.with("conindid", index_oid(table.id)).with("conkey", key_numbers(table)));
        }
        for index in table.uniques().filter(|(_, unique)| unique.constraint).map(|(index, _)| index) {
            let row = constraint(key_oid(index.id), &index.name, "u").with("conindid", table_oid(index.id));
            rows.push(row.with("conkey", numbers(table, indexed_columns(table, index))));
        }
        for (place, check) in table.checks.iter().enumerate() {
            let row = constraint(check_oid(table.id, place), &check.name, "c").with("conbin", &check.sql);
            rows.push(row.with("conkey", numbers(table, checked_columns(table, check).into_iter())));
        }
        let keys = table.foreign_keys.iter();
        rows.extend(keys.map(|key| foreign_key(source, table, key, constraint(key_oid(key.id), &key.name, "f"))));
    }
    rows
}

/// The row of a foreign key. It is not validated: nothing enforces it.
fn foreign_key(source: &Source, table: &TableDef, key: &ForeignKeyDef, row: Row) -> Row {
    let letter = |action: ForeignKeyAction| match action {
        ForeignKeyAction::NoAction => "a",
        ForeignKeyAction::Restrict => "r",
        ForeignKeyAction::Cascade => "c",
        ForeignKeyAction::SetNull => "n",
        ForeignKeyAction::SetDefault => "d",
    };
    let rules = key.rules;
    let columns =
        |table: &TableDef, ids: &[ColumnId]| numbers(table, ids.iter().filter_map(|id| table.column_by_id(*id)));
    let row = row
        .with("convalidated", false)
        .with("condeferrable", rules.deferrable)
        .with("condeferred", rules.deferred)
        .with("confupdtype", letter(rules.on_update))
        .with("confdeltype", letter(rules.on_delete))
        .with("confmatchtype", if rules.match_full { "f" } else { "s" })
        .with("conkey", columns(table, &key.columns))
        .with("confrelid", table_oid(key.table));
    let Some(target) = source.catalog.tables.get(&key.table) else { return row };
    let row = row.with("confkey", columns(target, &key.references));
    match target.key_on(&key.references) {
        Some(ReferencedKey::Primary) => row.with("conindid", index_oid(target.id)),
        Some(ReferencedKey::Unique(index)) => row.with("conindid", table_oid(index.id)),
        None => row,
    }
}

fn type_row(ty: &PgType) -> Row {
    let [input, output, receive, send] = ty.functions();
    Row::new()
        .with("oid", ty.oid)
        .with("typname", ty.name)
        .with("typnamespace", 11_i64)
        .with("typowner", OWNER)
        .with("typlen", ty.length)
        .with("typbyval", ty.by_value)
        .with("typtype", ty.kind)
        .with("typcategory", ty.category)
        .with("typispreferred", ty.preferred)
        .flags(&["typisdefined"])
        .with("typdelim", ",")
        .with("typelem", ty.element)
        .with("typarray", ty.array)
        .with("typinput", input)
        .with("typoutput", output)
        .with("typreceive", receive)
        .with("typsend", send)
        .with("typalign", ty.align)
        .with("typstorage", ty.storage)
        .with("typtypmod", -1_i64)
        .with("typcollation", ty.collation)
}

fn types(source: &Source) -> Vec<Row> {
    let mut rows: Vec<Row> = definition::types().iter().map(type_row).collect();
    let tables = source.catalog.tables.values().map(|table| (table.id, &table.keyspace, &table.name));
    let views = source.catalog.views.values().map(|view| (view.id, &view.keyspace, &view.name));
    for (id, keyspace, name) in tables.chain(views) {
        let row = Row::new()
            .with("oid", row_type_oid(id))
            .with("typname", name)
            .with("typnamespace", schema_oid(source, keyspace))
            .with("typowner", OWNER)
            .with("typlen", -1_i64)
            .with("typtype", "c")
            .with("typcategory", "C")
            .with("typdelim", ",")
            .with("typrelid", table_oid(id));
        rows.push(row.with("typalign", "d").with("typstorage", "x").with("typtypmod", -1_i64).flags(&["typisdefined"]));
    }
    rows
}

fn tables(source: &Source) -> Vec<Row> {
    let row = |table: &TableDef| {
        let row = Row::new().with("schemaname", &table.keyspace).with("tablename", &table.name);
        row.with("tableowner", source.owner_name(table.id))
            .with("hasindexes", has_key(table) || !table.indexes.is_empty())
            .with("hasrules", false)
            .with("hastriggers", false)
            .with("rowsecurity", false)
    };
    source.catalog.tables.values().map(|table| row(table)).collect()
}

fn views(source: &Source) -> Vec<Row> {
    let row = |view: &ViewDef| {
        let row = Row::new().with("schemaname", &view.keyspace).with("viewname", &view.name);
        row.with("viewowner", source.owner_name(view.id)).with("definition", format!(" {};", view.sql))
    };
    source.catalog.views.values().filter(|view| view.materialized.is_none()).map(|view| row(view)).collect()
}

fn has_indexes(view: &ViewDef) -> bool {
    view.stored().is_some_and(|stored| !stored.rows.indexes.is_empty())
}

/// What a rollup has not computed yet is computed when it is read; a stored view waits for a refresh.
fn is_populated(view: &ViewDef) -> bool {
    view.stored().is_none_or(|stored| stored.populated)
}

fn materialized_views(source: &Source) -> Vec<Row> {
    let row = |view: &ViewDef| {
        let row = Row::new().with("schemaname", &view.keyspace).with("matviewname", &view.name);
        let row = row.with("matviewowner", source.owner_name(view.id)).with("definition", format!(" {};", view.sql));
        row.with("hasindexes", has_indexes(view)).with("ispopulated", is_populated(view))
    };
    source.catalog.views.values().filter(|view| view.materialized.is_some()).map(|view| row(view)).collect()
}

fn index_list(source: &Source) -> Vec<Row> {
    let row = |table: &TableDef| {
        let row = Row::new().with("schemaname", &table.keyspace).with("tablename", &table.name);
        row.with("indexname", key_name(table)).with("indexdef", super::functions::index_text(table))
    };
    let secondary = source.indexes().map(|(table, index)| {
        let row = Row::new().with("schemaname", &table.keyspace).with("tablename", &table.name);
        row.with("indexname", &index.name).with("indexdef", super::functions::secondary_index_text(table, index))
    });
    keyed(source).map(row).chain(secondary).collect()
}
