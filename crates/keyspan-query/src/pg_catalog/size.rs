//! Sizes: what a table takes in memory and on disk, as the statement's snapshot knows it.
//!
//! A key is no structure of its own here: `pg_indexes_size` is of secondary indexes.

use keyspan_model::{ColumnType, Error, ErrorKind, IndexDef, Result, TableDef, Value};
use keyspan_seam::Known;

use super::functions::{number, text};
use super::index;
use super::source::{DATABASE, Source, table_oid};
use crate::context::Facts;
use crate::functions::{Call, Code, Overload, Parameter};

use ColumnType as C;

const T: Parameter = Parameter::Is(C::Text);
const N: Parameter = Parameter::Is(C::BigInt);

/// The functions.
pub fn add(all: &mut Vec<Overload>) {
    let mut add =
        |name, parameters, returns, code: Code| all.push(Overload::new(name, parameters, returns, code).stable());
    for name in ["pg_table_size", "pg_relation_size"] {
        add(name, &[N], C::BigInt, |call, v| Ok(relation_size(&call.facts, number(&v[0]))));
        add(name, &[T], C::BigInt, |call, v| named_size(call, v, relation_size));
    }
    for parameters in [&[N, T][..], &[T, T]] {
        add("pg_relation_size", parameters, C::BigInt, |call, v| match text(&v[1]) {
            Some("main") if text(&v[0]).is_some() => named_size(call, v, relation_size),
            Some("main") => Ok(relation_size(&call.facts, number(&v[0]))),
            Some("fsm" | "vm" | "init") => Ok(Value::BigInt(0)),
            _ => {
                let hint = "Valid fork names are \"main\", \"fsm\", \"vm\", and \"init\".";
                Err(Error::new(ErrorKind::InvalidParameter, "invalid fork name").with_hint(hint))
            }
        });
    }
    add("pg_indexes_size", &[N], C::BigInt, |call, v| Ok(indexes_size(&call.facts, number(&v[0]))));
    add("pg_indexes_size", &[T], C::BigInt, |call, v| named_size(call, v, indexes_size));
    add("pg_total_relation_size", &[N], C::BigInt, |call, v| Ok(total_size(&call.facts, number(&v[0]))));
    add("pg_total_relation_size", &[T], C::BigInt, |call, v| named_size(call, v, total_size));
    add("pg_database_size", &[N], C::BigInt, |call, v| {
        Ok(if number(&v[0]) == Some(DATABASE) { database_size(&call.facts) } else { Value::Null })
    });
    add("pg_database_size", &[T], C::BigInt, |call, v| match text(&v[0]) {
        Some(name) if name == Source::of(&call.facts).database() => Ok(database_size(&call.facts)),
        name => {
            let message = format!("database \"{}\" does not exist", name.unwrap_or_default());
            Err(Error::new(ErrorKind::UndefinedDatabase, message))
        }
    });
    add("pg_size_pretty", &[N], C::Text, |_, v| {
        Ok(number(&v[0]).map_or(Value::Null, |size| Value::Text(size_text(size))))
    });
}

/// The size of a thing by its OID.
type SizeOf = fn(&Facts, Option<i64>) -> Value;

fn named_size(call: &Call<'_>, values: &[Value], size: SizeOf) -> Result<Value> {
    let name = text(&values[0]).unwrap_or_default();
    let class = Source::of(&call.facts).class_of_name(name);
    let missing = || Error::new(ErrorKind::UndefinedTable, format!("relation \"{name}\" does not exist"));
    class.map(|class| size(&call.facts, Some(class.oid))).ok_or_else(missing)
}

/// The size of a table's secondary indexes.
fn indexes_size(facts: &Facts, oid: Option<i64>) -> Value {
    let table = facts.catalog.indexed_tables().find(|table| Some(table_oid(table.id)) == oid);
    let bytes = table.map_or(0, |table| table.indexes.iter().map(|each| index_bytes(facts, table, each)).sum());
    Value::BigInt(bytes)
}

fn index_bytes(facts: &Facts, table: &TableDef, of: &IndexDef) -> i64 {
    let state = facts.snapshot.as_ref().and_then(|snapshot| index::state(snapshot.as_ref(), table, of));
    state.and_then(|state| i64::try_from(state.bytes).ok()).unwrap_or(0)
}

/// The size of a table with its secondary indexes.
fn total_size(facts: &Facts, oid: Option<i64>) -> Value {
    match (relation_size(facts, oid), indexes_size(facts, oid)) {
        (Value::BigInt(own), Value::BigInt(indexes)) => Value::BigInt(own + indexes),
        (own, _) => own,
    }
}

/// The size of what has this OID: 0 for views, system tables and keys, null for what is not there.
fn relation_size(facts: &Facts, oid: Option<i64>) -> Value {
    let own = facts.catalog.tables.values().map(|table| (table.id, &**table));
    let kept = facts.catalog.views.values().filter_map(|view| Some((view.id, view.rows()?)));
    let table = own.chain(kept).find(|(id, _)| Some(table_oid(*id)) == oid);
    let source = Source::of(facts);
    match table {
        Some((_, table)) => table_bytes(facts, table).map_or(Value::Null, Value::BigInt),
        None => match oid.map(|oid| (source.index_of_oid(oid), source.class_of_oid(oid))) {
            Some((Some((table, of)), _)) => Value::BigInt(index_bytes(facts, table, of)),
            Some((None, Some(_))) => Value::BigInt(0),
            Some((None, None)) | None => Value::Null,
        },
    }
}

/// None where the store does not know.
fn table_bytes(facts: &Facts, table: &TableDef) -> Option<i64> {
    let snapshot = facts.snapshot.as_ref()?;
    let each = table.relations().into_iter().map(|relation| match snapshot.relation_bytes(relation.id) {
        Known::Exact(bytes) | Known::Estimate(bytes) => i64::try_from(bytes).ok(),
        Known::Unknown => None,
    });
    each.sum()
}

fn database_size(facts: &Facts) -> Value {
    let total: Option<i64> = facts.catalog.all_tables().map(|table| table_bytes(facts, table)).sum();
    total.map_or(Value::Null, Value::BigInt)
}

fn size_text(size: i64) -> String {
    let units = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    let (mut size, mut unit) = (i128::from(size), 0);
    while size.abs() >= 10 * 1024 && unit + 1 < units.len() {
        size = (size + 512).div_euclid(1024);
        unit += 1;
    }
    format!("{size} {}", units[unit])
}
