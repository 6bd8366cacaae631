//! Sequences as text: those of their own before the tables, what belongs to a column after them.

use keyspan_cql::quoted;
use keyspan_model::{Catalog, ColumnDef, SequenceDef, TableDef, range_of};

use crate::names::sequence_default;

/// The sequence that a column was made with, or that was given to it.
pub(super) fn of_column<'a>(catalog: &'a Catalog, table: &TableDef, column: &ColumnDef) -> Option<&'a SequenceDef> {
    let of = Some((table.id, column.id));
    catalog.sequences.values().map(|sequence| &**sequence).find(|sequence| sequence.owned_by == of)
}

/// What a sequence is besides its type, as far as it is not what it would be by itself.
pub(super) fn options(sequence: &SequenceDef) -> String {
    let SequenceDef { start, increment, min, max, cycle, cache, .. } = *sequence;
    let rises = increment > 0;
    let (least, greatest) = range_of(sequence.ty).unwrap_or((i64::MIN, i64::MAX));
    let (usual_min, usual_max) = if rises { (1, greatest) } else { (least, -1) };
    let said = |is_usual: bool, text: String| (!is_usual).then_some(text);
    let all = [
        said(start == if rises { min } else { max }, format!("START WITH {start}")),
        said(increment == 1, format!("INCREMENT BY {increment}")),
        said(min == usual_min, format!("MINVALUE {min}")),
        said(max == usual_max, format!("MAXVALUE {max}")),
        said(cache == 1, format!("CACHE {cache}")),
        said(!cycle, "CYCLE".into()),
    ];
    all.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// How a sequence came to be.
enum Made<'a> {
    /// By CREATE SEQUENCE; it may belong to a column since.
    Alone(Option<(&'a TableDef, &'a ColumnDef)>),
    /// With an identity column, which says all about it.
    Identity,
    /// With a serial column.
    Serial,
}

fn made<'a>(catalog: &'a Catalog, sequence: &SequenceDef) -> Made<'a> {
    let owner = sequence.owned_by.and_then(|(table, column)| {
        let table = catalog.tables.get(&table)?;
        Some((&**table, table.columns.iter().find(|each| each.id == column)?))
    });
    let Some((table, column)) = owner else { return Made::Alone(None) };
    let own = sequence_default(&table.keyspace, &format!("{}_{}_seq", table.name, column.name));
    let is_own = sequence_default(&sequence.keyspace, &sequence.name) == own;
    match column.identity {
        Some(_) => Made::Identity,
        None if is_own && column.default.as_ref() == Some(&own) => Made::Serial,
        None => Made::Alone(owner),
    }
}

/// The row of DESCRIBE that makes a sequence, if no column does.
pub(super) fn create_row(catalog: &Catalog, sequence: &SequenceDef) -> Option<Vec<String>> {
    if !matches!(made(catalog, sequence), Made::Alone(_)) {
        return None;
    }
    let (name, options) = (name_of(sequence), options(sequence));
    let options = if options.is_empty() { options } else { format!(" {options}") };
    Some(row(sequence, format!("CREATE SEQUENCE {name} AS {}{options};", sequence.ty.name())))
}

/// The row of DESCRIBE that says what the sequence of a column is besides, if there is anything to say.
pub(super) fn alter_row(catalog: &Catalog, sequence: &SequenceDef) -> Option<Vec<String>> {
    let change = match made(catalog, sequence) {
        Made::Alone(Some((table, column))) => {
            let (keyspace, table, column) = (quoted(&table.keyspace), quoted(&table.name), quoted(&column.name));
            format!("OWNED BY {keyspace}.{table}.{column}")
        }
        Made::Serial => options(sequence),
        Made::Alone(None) | Made::Identity => return None,
    };
    (!change.is_empty()).then(|| row(sequence, format!("ALTER SEQUENCE {} {change};", name_of(sequence))))
}

fn name_of(sequence: &SequenceDef) -> String {
    format!("{}.{}", quoted(&sequence.keyspace), quoted(&sequence.name))
}

fn row(sequence: &SequenceDef, text: String) -> Vec<String> {
    vec![sequence.keyspace.clone(), "sequence".into(), sequence.name.clone(), text]
}
