//! Sequences: `nextval` and its kin, and the system tables that show them.

use std::sync::Arc;

use keyspan_model::{ColumnType, Error, ErrorKind, Object, Result, Right, SequenceDef, SequenceState, TableDef, Value};

use super::functions::{number, text};
use super::row::Row;
use super::source::{CLASS, Source, name_parts, shown, table_oid};
use crate::context::Sequences;
use crate::functions::{Call, Code, Overload, Parameter};
use crate::syntax::quote_ident;

use ColumnType as C;

const T: Parameter = Parameter::Is(C::Text);
const N: Parameter = Parameter::Is(C::BigInt);
const B: Parameter = Parameter::Is(C::Boolean);

/// The functions.
pub fn add(all: &mut Vec<Overload>) {
    let mut add = |name, parameters, code: Code| all.push(Overload::new(name, parameters, C::BigInt, code).volatile());
    for parameters in [&[T][..], &[N]] {
        add("nextval", parameters, |call, v| {
            let sequence = usable(call, &v[0])?;
            Ok(Value::BigInt(numbers(call)?.next(&sequence)?))
        });
        add("currval", parameters, |call, v| {
            let sequence = usable(call, &v[0])?;
            let undefined = || {
                let message = format!("currval of sequence \"{}\" is not yet defined in this session", sequence.name);
                Error::new(ErrorKind::ObjectNotReady, message)
            };
            numbers(call)?.current(&sequence).map(Value::BigInt).ok_or_else(undefined)
        });
        add("pg_sequence_last_value", parameters, |call, v| {
            let sequence = find(call, &v[0])?;
            let state = numbers(call)?.state(&sequence)?;
            Ok(if state.called { Value::BigInt(state.last) } else { Value::Null })
        });
    }
    add("lastval", &[], |call, _| {
        let undefined = || Error::new(ErrorKind::ObjectNotReady, "lastval is not yet defined in this session");
        numbers(call)?.last().map(Value::BigInt).ok_or_else(undefined)
    });
    for parameters in [&[T, N][..], &[N, N], &[T, N, B], &[N, N, B]] {
        add("setval", parameters, |call, v| {
            let sequence = usable(call, &v[0])?;
            let last = number(&v[1]).unwrap_or(0);
            let called = v.get(2).is_none_or(|called| *called == Value::Boolean(true));
            numbers(call)?.set(&sequence, SequenceState { last, called })?;
            Ok(Value::BigInt(last))
        });
    }
    all.push(Overload::new("pg_get_serial_sequence", &[T, T], C::Text, of_column).stable());
}

fn numbers(call: &Call<'_>) -> Result<Arc<dyn Sequences>> {
    let none = || Error::not_supported("sequences cannot be used here");
    call.facts.info.sequences.clone().ok_or_else(none)
}

/// The sequence of this name or OID.
fn find(call: &Call<'_>, name: &Value) -> Result<Arc<SequenceDef>> {
    let source = Source::of(&call.facts);
    let class = match text(name) {
        Some(name) => source.class_of_name(name),
        None => number(name).and_then(|oid| source.class_of_oid(oid)),
    };
    let shown = text(name).map_or_else(|| number(name).unwrap_or(0).to_string(), str::to_owned);
    let Some(class) = class else {
        return Err(Error::new(ErrorKind::UndefinedTable, format!("relation \"{shown}\" does not exist")));
    };
    let found = source.catalog.sequences.values().find(|sequence| table_oid(sequence.id) == class.oid);
    let wrong = || Error::new(ErrorKind::WrongObjectType, format!("\"{}\" is not a sequence", class.name));
    found.cloned().ok_or_else(wrong)
}

/// The sequence, if the principal may take its numbers: it owns it, or writes to the table whose column does.
fn usable(call: &Call<'_>, name: &Value) -> Result<Arc<SequenceDef>> {
    let sequence = find(call, name)?;
    let (principal, catalog) = (call.facts.info.principal, &call.facts.catalog);
    let writes = |right| {
        let of_column = |(table, column)| catalog.allows(principal, &Object::Column(table, column), right);
        sequence.owned_by.is_some_and(of_column)
    };
    match catalog.owns(principal, &Object::Relation(sequence.id))
        || [Right::Insert, Right::Update].map(writes).contains(&true)
    {
        true => Ok(sequence),
        false => {
            let message = format!("permission denied for sequence {}", sequence.name);
            Err(Error::new(ErrorKind::Unauthorized, message))
        }
    }
}

/// `pg_get_serial_sequence(table, column)`.
fn of_column(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    let source = Source::of(&call.facts);
    let (name, column) = (text(&values[0]).unwrap_or_default(), text(&values[1]).unwrap_or_default());
    let class = source.class_of_name(name);
    let table = class.as_ref().and_then(|class| source.catalog.table(&class.schema, &class.name));
    let Some(table) = table else {
        // A view's columns have no sequences.
        if class.is_some() {
            return Ok(Value::Null);
        }
        let shown = name_parts(name).join(".");
        return Err(Error::new(ErrorKind::UndefinedTable, format!("relation \"{shown}\" does not exist")));
    };
    let id = table.expect_column(column)?.id;
    let owned = source.catalog.sequences.values().find(|sequence| sequence.owned_by == Some((table.id, id)));
    Ok(owned.map_or(Value::Null, |sequence| {
        Value::Text(format!("{}.{}", quote_ident(&sequence.keyspace), quote_ident(&sequence.name)))
    }))
}

/// The rows of `pg_sequence`.
pub fn definitions(source: &Source) -> Vec<Row> {
    let row = |sequence: &Arc<SequenceDef>| {
        Row::new()
            .with("seqrelid", table_oid(sequence.id))
            .with("seqtypid", type_oid(sequence.ty))
            .with("seqstart", sequence.start)
            .with("seqincrement", sequence.increment)
            .with("seqmax", sequence.max)
            .with("seqmin", sequence.min)
            .with("seqcache", sequence.cache)
            .with("seqcycle", sequence.cycle)
    };
    source.catalog.sequences.values().map(row).collect()
}

/// The rows of `pg_sequences`.
pub fn listed(source: &Source) -> Vec<Row> {
    let row = |sequence: &Arc<SequenceDef>| {
        let state = source.info.sequences.as_ref().and_then(|numbers| numbers.state(sequence).ok());
        Row::new()
            .with("schemaname", &sequence.keyspace)
            .with("sequencename", &sequence.name)
            .with("sequenceowner", source.owner_name(sequence.id))
            .with("data_type", type_oid(sequence.ty))
            .with("start_value", sequence.start)
            .with("min_value", sequence.min)
            .with("max_value", sequence.max)
            .with("increment_by", sequence.increment)
            .with("cycle", sequence.cycle)
            .with("cache_size", sequence.cache)
            .with("last_value", state.filter(|state| state.called).map(|state| state.last))
    };
    source.catalog.sequences.values().map(row).collect()
}

/// The rows of `information_schema.sequences`.
pub fn in_information_schema(source: &Source) -> Vec<Row> {
    let row = |sequence: &Arc<SequenceDef>| {
        let (name, bits) = match sequence.ty {
            C::SmallInt => ("smallint", 16_i64),
            C::Int => ("integer", 32),
            _ => ("bigint", 64),
        };
        Row::new()
            .with("sequence_catalog", source.database())
            .with("sequence_schema", &sequence.keyspace)
            .with("sequence_name", &sequence.name)
            .with("data_type", name)
            .with("numeric_precision", bits)
            .with("numeric_precision_radix", 2_i64)
            .with("numeric_scale", 0_i64)
            .with("start_value", sequence.start.to_string())
            .with("minimum_value", sequence.min.to_string())
            .with("maximum_value", sequence.max.to_string())
            .with("increment", sequence.increment.to_string())
            .with("cycle_option", if sequence.cycle { "YES" } else { "NO" })
    };
    // Those of identity columns are no objects of their own.
    let own = |sequence: &&Arc<SequenceDef>| column_of(source, sequence).is_none_or(|(_, _, identity)| !identity);
    source.catalog.sequences.values().filter(own).map(row).collect()
}

/// The table and the column, by its number, to which a sequence belongs, and whether that is an identity column.
fn column_of<'a>(source: &'a Source, sequence: &SequenceDef) -> Option<(&'a TableDef, usize, bool)> {
    let (table, column) = sequence.owned_by?;
    let table = source.catalog.tables.get(&table)?;
    let (number, column) = shown(table).find(|(_, shown)| shown.id == column)?;
    Some((table, number, column.identity.is_some()))
}

/// The rows of `pg_depend`: sequences go with their columns.
pub fn dependencies(source: &Source) -> Vec<Row> {
    let row = |sequence: &Arc<SequenceDef>| {
        let (table, number, identity) = column_of(source, sequence)?;
        let row = Row::new().with("classid", CLASS).with("objid", table_oid(sequence.id)).with("refclassid", CLASS);
        let row = row.with("refobjid", table_oid(table.id)).with("refobjsubid", number);
        Some(row.with("deptype", if identity { "i" } else { "a" }))
    };
    source.catalog.sequences.values().filter_map(row).collect()
}

fn type_oid(ty: ColumnType) -> i64 {
    match ty {
        C::SmallInt => 21,
        C::Int => 23,
        _ => 20,
    }
}
