//! Comments: kept among the options of a table or keyspace, as literals; of a view, sequence or index by its id.

use keyspan_model::{ColumnType, TableDef, Value};

use super::extension;
use super::functions::number;
use super::row::Row;
use super::source::{CLASS, Source, check_oid, key_oid, shown, table_oid};
use crate::functions::{Code, Overload, Parameter};

use ColumnType as C;

const N: Parameter = Parameter::Is(C::BigInt);
const T: Parameter = Parameter::Is(C::Text);

/// `pg_constraint`.
const CONSTRAINT: i64 = 2606;
/// `pg_namespace`.
const NAMESPACE: i64 = 2615;
/// `pg_extension`.
const EXTENSION: i64 = 3079;

/// A comment: the OID of what it is about and of the system table of such things, the number of a column, the text.
struct Comment {
    object: i64,
    class: i64,
    column: i64,
    text: String,
}

fn all(source: &Source) -> Vec<Comment> {
    let tables = source.catalog.tables.values().flat_map(|table| of_table(table));
    let by_id = source.catalog.comments.iter().filter(|(id, _)| source.catalog.may_have_comment(**id));
    let by_id = by_id.map(|(id, text)| comment(table_oid(*id), CLASS, text.clone()));
    let spaces = source.namespaces();
    let keyspaces = source.catalog.keyspaces.values().filter_map(|keyspace| {
        Some(comment(*spaces.get(&keyspace.name)?, NAMESPACE, unquoted(keyspace.options.get("comment")?)))
    });
    let extensions = extension::comments().map(|(oid, text)| comment(oid, EXTENSION, text.to_owned()));
    tables.chain(by_id).chain(keyspaces).chain(extensions).collect()
}

fn comment(object: i64, class: i64, text: String) -> Comment {
    Comment { object, class, column: 0, text }
}

fn of_table(table: &TableDef) -> Vec<Comment> {
    let object = table_oid(table.id);
    let text = |option: &str| table.options.get(option).map(|literal| unquoted(literal));
    let own = text("comment").map(|text| Comment { object, class: CLASS, column: 0, text });
    let columns = shown(table).filter_map(|(number, column)| {
        let (text, column) = (text(&format!("comment.{}", column.name))?, i64::try_from(number).ok()?);
        Some(Comment { object, class: CLASS, column, text })
    });
    let constraints = constraints(table).into_iter().filter_map(|(object, name)| {
        let text = text(&format!("comment on constraint.{name}"))?;
        Some(Comment { object, class: CONSTRAINT, column: 0, text })
    });
    own.into_iter().chain(columns).chain(constraints).collect()
}

fn constraints(table: &TableDef) -> Vec<(i64, String)> {
    let mut all = vec![(key_oid(table.id), table.key_name())];
    let uniques = table.indexes.iter().filter(|index| index.is_constraint());
    all.extend(uniques.map(|index| (key_oid(index.id), index.name.clone())));
    let checks = table.checks.iter().enumerate();
    all.extend(checks.map(|(place, check)| (check_oid(table.id, place), check.name.clone())));
    all.extend(table.foreign_keys.iter().map(|key| (key_oid(key.id), key.name.clone())));
    all
}

/// The text of a literal.
fn unquoted(literal: &str) -> String {
    match literal.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        Some(inner) => inner.replace("''", "'"),
        None => literal.to_owned(),
    }
}

/// The rows of `pg_description`.
pub(super) fn rows(source: &Source) -> Vec<Row> {
    let row = |comment: Comment| {
        let row = Row::new().with("objoid", comment.object).with("classoid", comment.class);
        row.with("objsubid", comment.column).with("description", comment.text)
    };
    all(source).into_iter().map(row).collect()
}

/// `obj_description` and `col_description`.
pub(super) fn add(all: &mut Vec<Overload>) {
    let mut add = |name, parameters, code: Code| all.push(Overload::new(name, parameters, C::Text, code).stable());
    let object: Code = |call, v| {
        let class = match v.get(1).and_then(super::functions::text) {
            Some("pg_class") => Some(CLASS),
            Some("pg_constraint") => Some(CONSTRAINT),
            Some("pg_namespace") => Some(NAMESPACE),
            Some("pg_extension") => Some(EXTENSION),
            Some(_) => return Ok(Value::Null),
            None => None,
        };
        Ok(found(&Source::of(&call.facts), number(&v[0]), class, Some(0)))
    };
    add("obj_description", &[N, T], object);
    add("obj_description", &[N], object);
    // Of a function, by its name: columns of the catalog that are `regproc` hold names.
    add("obj_description", &[T, T], |_, _| Ok(Value::Null));
    add("col_description", &[N, Parameter::Is(C::Int)], |call, v| {
        Ok(found(&Source::of(&call.facts), number(&v[0]), Some(CLASS), number(&v[1]).filter(|column| *column > 0)))
    });
}

fn found(source: &Source, object: Option<i64>, class: Option<i64>, column: Option<i64>) -> Value {
    let is = |comment: &Comment| {
        let same_class = class.is_none_or(|class| comment.class == class);
        Some(comment.object) == object && same_class && Some(comment.column) == column
    };
    all(source).into_iter().find(is).map_or(Value::Null, |comment| Value::Text(comment.text))
}
