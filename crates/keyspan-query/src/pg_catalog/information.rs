//! The rows of `information_schema`: tables, columns, schemas, keys, checks.

use arrow::datatypes::Schema;
use keyspan_model::schema::temporary::is_temporary;
use keyspan_model::{ColumnDef, ColumnId, ForeignKeyDef, Identity, Principal, ReferencedKey, TableDef};

use super::default::default_text;
use super::definition::{format_type, type_of_column, type_of_field, type_of_oid};
use super::roles::{role_oid, table_privileges};
use super::row::Row;
use super::source::{Source, checked_columns, has_key, indexed_columns, key_name, shown};

/// The rows of a table.
pub fn rows(name: &str, source: &Source) -> Vec<Row> {
    match name {
        "information_schema_catalog_name" => vec![Row::new().with("catalog_name", source.database())],
        "schemata" => schemata(source),
        "tables" => tables(source),
        "columns" => columns(source),
        "views" => views(source),
        "table_constraints" => table_constraints(source),
        "key_column_usage" => key_columns(source),
        "constraint_column_usage" => constraint_columns(source),
        "referential_constraints" => referential_constraints(source),
        "check_constraints" => checks(source),
        "sequences" => super::sequence::in_information_schema(source),
        "enabled_roles" => enabled_roles(source),
        "table_privileges" | "role_table_grants" => table_privileges(source),
        _ => Vec::new(),
    }
}

fn enabled_roles(source: &Source) -> Vec<Row> {
    let names: Vec<&str> = match source.info.principal {
        Principal::Owner => vec![source.user()],
        Principal::Role(id) => {
            let enabled = source.catalog.rights.memberships(id);
            enabled.iter().filter_map(|id| source.role_name(role_oid(*id))).collect()
        }
    };
    names.into_iter().map(|name| Row::new().with("role_name", name)).collect()
}

fn schemata(source: &Source) -> Vec<Row> {
    let row = |(name, _): (String, i64)| {
        let owner = source.role_name(source.schema_owner(&name)).map(str::to_owned);
        Row::new().with("catalog_name", source.database()).with("schema_name", name).with("schema_owner", owner)
    };
    source.namespaces().into_iter().map(row).collect()
}

fn relation(source: &Source, schema: &str, name: &str) -> Row {
    Row::new().with("table_catalog", source.database()).with("table_schema", schema).with("table_name", name)
}

fn tables(source: &Source) -> Vec<Row> {
    let system = super::definition::all().iter().map(|table| {
        let kind = if table.kind == "r" { "BASE TABLE" } else { "VIEW" };
        relation(source, table.schema, table.name).with("table_type", kind).with("is_insertable_into", "NO")
    });
    let own = source.catalog.tables.values().map(|table| {
        let kind = if is_temporary(&table.keyspace) { "LOCAL TEMPORARY" } else { "BASE TABLE" };
        let row = relation(source, &table.keyspace, &table.name).with("table_type", kind);
        row.with("is_insertable_into", "YES")
    });
    // Materialized views too, unlike Postgres: programs that look here for what they can read are to find them.
    let views = source.catalog.views.values().map(|view| {
        relation(source, &view.keyspace, &view.name).with("table_type", "VIEW").with("is_insertable_into", "NO")
    });
    system.chain(own).chain(views).map(|row| row.with("is_typed", "NO")).collect()
}

fn views(source: &Source) -> Vec<Row> {
    let row = |view: &std::sync::Arc<keyspan_model::ViewDef>| {
        let row = relation(source, &view.keyspace, &view.name).with("view_definition", format!(" {};", view.sql));
        row.with("check_option", "NONE").with("is_updatable", "NO").with("is_insertable_into", "NO")
    };
    source.catalog.views.values().filter(|view| view.materialized.is_none()).map(row).collect()
}

fn yes(value: bool) -> &'static str {
    if value { "YES" } else { "NO" }
}

/// What the type of a column says.
fn typed(row: Row, source: &Source, oid: i64, modifier: i64) -> Row {
    let numeric = match oid {
        21 => Some((16_i64, 2_i64, Some(0_i64))),
        23 => Some((32, 2, Some(0))),
        20 => Some((64, 2, Some(0))),
        700 => Some((24, 2, None)),
        701 => Some((53, 2, None)),
        1700 if modifier >= 4 => Some(((modifier - 4) >> 16, 10, Some((modifier - 4) & 0x7ff))),
        _ => None,
    };
    let row = match type_of_oid(oid) {
        Some(ty) if ty.name.starts_with('_') => row.with("data_type", "ARRAY").with("udt_name", ty.name),
        Some(ty) => row.with("data_type", format_type(oid, -1)).with("udt_name", ty.name),
        None => row.with("data_type", "USER-DEFINED"),
    };
    let digits = if (0..6).contains(&modifier) { modifier } else { 6 };
    let digits = matches!(oid, 1083 | 1114 | 1184 | 1186).then_some(digits);
    let length = (matches!(oid, 1042 | 1043) && modifier >= 4).then_some(modifier - 4);
    row.with("udt_catalog", source.database())
        .with("udt_schema", "pg_catalog")
        .with("character_maximum_length", length)
        .with("character_octet_length", matches!(oid, 25 | 1042 | 1043).then_some(1_i64 << 30))
        .with("numeric_precision", numeric.map(|each| each.0))
        .with("numeric_precision_radix", numeric.map(|each| each.1))
        .with("numeric_scale", numeric.and_then(|each| each.2))
        .with("datetime_precision", digits)
        .with("is_self_referencing", "NO")
        .with("is_identity", "NO")
        .with("identity_cycle", "NO")
        .with("is_generated", "NEVER")
}

fn columns(source: &Source) -> Vec<Row> {
    let mut rows = Vec::new();
    for table in super::definition::all() {
        for (place, column) in table.columns.iter().enumerate() {
            let row = relation(source, table.schema, table.name).with("column_name", column.name);
            let row = row.with("ordinal_position", place + 1).with("is_nullable", yes(!column.not_null));
            let row = row.with("dtd_identifier", (place + 1).to_string()).with("is_updatable", "NO");
            rows.push(typed(row, source, super::definition::type_of_system(column), -1));
        }
    }
    for table in source.catalog.tables.values() {
        rows.extend(shown(table).map(|(number, column)| column_row(source, table, number, &column)));
    }
    for (id, schema) in source.views.iter() {
        if let Some(view) = source.catalog.views.get(id) {
            rows.extend(view_columns(source, &view.keyspace, &view.name, schema));
        }
    }
    rows
}

fn column_row(source: &Source, table: &TableDef, number: usize, column: &ColumnDef) -> Row {
    let row = relation(source, &table.keyspace, &table.name).with("column_name", &column.name);
    let row = row.with("ordinal_position", number).with("is_nullable", yes(!(column.not_null || column.is_key())));
    let row = row.with("column_default", default_text(column)).with("is_updatable", "YES");
    let (oid, modifier) = type_of_column(column);
    let row = typed(row.with("dtd_identifier", number.to_string()), source, oid, modifier);
    match column.identity {
        Some(Identity::Always) => row.with("is_identity", "YES").with("identity_generation", "ALWAYS"),
        Some(Identity::ByDefault) => row.with("is_identity", "YES").with("identity_generation", "BY DEFAULT"),
        None => row,
    }
}

fn view_columns(source: &Source, keyspace: &str, name: &str, schema: &Schema) -> Vec<Row> {
    let each = schema.fields().iter().enumerate().map(|(place, field)| {
        let row = relation(source, keyspace, name).with("column_name", field.name());
        let row = row.with("ordinal_position", place + 1).with("is_nullable", "YES").with("is_updatable", "NO");
        let (oid, modifier) = type_of_field(field);
        typed(row.with("dtd_identifier", (place + 1).to_string()), source, oid, modifier)
    });
    each.collect()
}

fn constraint(source: &Source, table: &TableDef, name: &str) -> Row {
    relation(source, &table.keyspace, &table.name)
        .with("constraint_catalog", source.database())
        .with("constraint_schema", &table.keyspace)
        .with("constraint_name", name)
}

fn table_constraints(source: &Source) -> Vec<Row> {
    let mut rows = Vec::new();
    for table in source.catalog.tables.values() {
        let key =
            has_key(table).then(|| constraint(source, table, &key_name(table)).with("constraint_type", "PRIMARY KEY"));
        let checks = table.checks.iter();
        let checks = checks.map(|check| constraint(source, table, &check.name).with("constraint_type", "CHECK"));
        let fixed = |row: Row| row.with("is_deferrable", "NO").with("initially_deferred", "NO").with("enforced", "YES");
        let uniques = table.uniques().filter(|(_, unique)| unique.constraint);
        let uniques = uniques
            .map(|(index, _)| constraint(source, table, &index.name).with("constraint_type", "UNIQUE"))
            .map(|row| row.with("nulls_distinct", "YES"));
        rows.extend(key.into_iter().chain(uniques).chain(checks).map(fixed));
        rows.extend(table.foreign_keys.iter().map(|key| {
            let row = constraint(source, table, &key.name).with("constraint_type", "FOREIGN KEY");
            let row = row.with("is_deferrable", yes(key.rules.deferrable));
            row.with("initially_deferred", yes(key.rules.deferred)).with("enforced", "NO")
        }));
    }
    rows
}

fn key_columns(source: &Source) -> Vec<Row> {
    let mut rows = Vec::new();
    for table in source.catalog.tables.values().filter(|table| has_key(table)) {
        let name = key_name(table);
        for (place, column) in table.key().enumerate() {
            let row = constraint(source, table, &name).with("column_name", &column.name);
            rows.push(row.with("ordinal_position", place + 1));
        }
    }
    for (table, index) in source.uniques() {
        for (place, column) in indexed_columns(table, index).enumerate() {
            let row = constraint(source, table, &index.name).with("column_name", &column.name);
            rows.push(row.with("ordinal_position", place + 1));
        }
    }
    for (table, key) in source.foreign_keys() {
        let target = source.catalog.tables.get(&key.table);
        for (place, column) in key.columns_in(table).enumerate() {
            let row = constraint(source, table, &key.name).with("column_name", column);
            let of_key = target.and_then(|target| position_in_key(target, &key.references, place));
            rows.push(row.with("ordinal_position", place + 1).with("position_in_unique_constraint", of_key));
        }
    }
    rows
}

/// The place from 1, in the key that it refers to, of a foreign key's column.
fn position_in_key(target: &TableDef, references: &[ColumnId], place: usize) -> Option<i64> {
    let wanted = references.get(place)?;
    let found = match target.key_on(references)? {
        ReferencedKey::Primary => target.key().position(|column| column.id == *wanted),
        ReferencedKey::Unique(index) => index.columns.iter().position(|column| column == wanted),
    };
    i64::try_from(found? + 1).ok()
}

/// Foreign keys, and the keys that they refer to.
fn referential_constraints(source: &Source) -> Vec<Row> {
    let row = |(table, key): (&std::sync::Arc<TableDef>, &ForeignKeyDef)| {
        let row = Row::new()
            .with("constraint_catalog", source.database())
            .with("constraint_schema", &table.keyspace)
            .with("constraint_name", &key.name)
            .with("match_option", if key.rules.match_full { "FULL" } else { "NONE" })
            .with("update_rule", key.rules.on_update.text())
            .with("delete_rule", key.rules.on_delete.text());
        let Some(target) = source.catalog.tables.get(&key.table) else { return row };
        let name = match target.key_on(&key.references) {
            Some(ReferencedKey::Primary) => target.key_name(),
            Some(ReferencedKey::Unique(index)) => index.name.clone(),
            None => return row,
        };
        row.with("unique_constraint_catalog", source.database())
            .with("unique_constraint_schema", &target.keyspace)
            .with("unique_constraint_name", name)
    };
    source.foreign_keys().map(row).collect()
}

fn constraint_columns(source: &Source) -> Vec<Row> {
    let mut rows = Vec::new();
    for table in source.catalog.tables.values().filter(|table| has_key(table)) {
        let name = key_name(table);
        rows.extend(table.key().map(|column| constraint(source, table, &name).with("column_name", &column.name)));
    }
    for table in source.catalog.tables.values() {
        for check in &table.checks {
            let row = |column: &ColumnDef| constraint(source, table, &check.name).with("column_name", &column.name);
            rows.extend(checked_columns(table, check).into_iter().map(row));
        }
    }
    for (table, index) in source.uniques() {
        let row = |column: &ColumnDef| constraint(source, table, &index.name).with("column_name", &column.name);
        rows.extend(indexed_columns(table, index).map(row));
    }
    for (table, key) in source.foreign_keys() {
        let Some(target) = source.catalog.tables.get(&key.table) else { continue };
        let row = |column: &str| {
            constraint(source, table, &key.name)
                .with("table_schema", &target.keyspace)
                .with("table_name", &target.name)
                .with("column_name", column)
        };
        rows.extend(key.references_in(target).map(row));
    }
    rows
}

fn checks(source: &Source) -> Vec<Row> {
    let mut rows = Vec::new();
    for table in source.catalog.tables.values() {
        for check in &table.checks {
            let row =
                Row::new().with("constraint_catalog", source.database()).with("constraint_schema", &table.keyspace);
            rows.push(row.with("constraint_name", &check.name).with("check_clause", &check.sql));
        }
    }
    rows
}
