//! Functions that only questions about the catalog use.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use keyspan_model::schema::temporary::is_temporary;
use keyspan_model::{ColumnType, Error, ErrorKind, ForeignKeyDef, IndexDef, Result, TableDef, Value};

use super::definition::{format_type, type_of_name, type_of_oid};
use super::procedures::{self, Procedure};
use super::relations::descending;
use super::source::{CLASS, Source, check_oid, id_of_table, index_oid, indexed_columns, key_oid, table_oid};
use crate::functions::{Call, Code, Overload, Parameter};
use crate::syntax::quote_ident;

use ColumnType as C;

const T: Parameter = Parameter::Is(C::Text);
const B: Parameter = Parameter::Is(C::Boolean);
const N: Parameter = Parameter::Is(C::BigInt);
const I: Parameter = Parameter::Is(C::Int);

/// Whether names of these kinds are found without their schema: all are system ones.
const ALWAYS_VISIBLE: [&str; 10] = [
    "pg_type_is_visible",
    "pg_function_is_visible",
    "pg_collation_is_visible",
    "pg_opclass_is_visible",
    "pg_operator_is_visible",
    "pg_opfamily_is_visible",
    "pg_conversion_is_visible",
    "pg_statistics_obj_is_visible",
    "pg_ts_config_is_visible",
    "pg_ts_dict_is_visible",
];

fn catalog() -> &'static BTreeMap<&'static str, Vec<Overload>> {
    static CATALOG: OnceLock<BTreeMap<&'static str, Vec<Overload>>> = OnceLock::new();
    CATALOG.get_or_init(|| {
        let mut catalog: BTreeMap<&'static str, Vec<Overload>> = BTreeMap::new();
        for overload in functions() {
            catalog.entry(overload.name).or_default().push(overload);
        }
        catalog
    })
}

/// The functions over the catalog of this name.
pub fn overloads(name: &str) -> Option<&'static [Overload]> {
    catalog().get(name).map(Vec::as_slice)
}

/// The functions over the catalog, by name.
pub fn function_names() -> impl Iterator<Item = &'static str> {
    catalog().keys().copied()
}

/// The functions.
fn functions() -> Vec<Overload> {
    let mut all = Vec::new();
    names(&mut all);
    texts(&mut all);
    nothing(&mut all);
    super::comments::add(&mut all);
    super::size::add(&mut all);
    super::privilege::add(&mut all);
    super::sequence::add(&mut all);
    all
}

/// OIDs to names and back.
fn names(all: &mut Vec<Overload>) {
    let mut add =
        |name, parameters, returns, code: Code| all.push(Overload::new(name, parameters, returns, code).stable());
    add("pg_table_is_visible", &[N], C::Boolean, |call, v| {
        let source = Source::of(&call.facts);
        let class = number(&v[0]).and_then(|oid| source.class_of_oid(oid));
        Ok(class.map_or(Value::Null, |class| Value::Boolean(source.is_visible(&class))))
    });
    for name in ALWAYS_VISIBLE {
        add(name, &[N], C::Boolean, |_, _| Ok(Value::Boolean(true)));
    }
    add("to_regclass", &[T], C::BigInt, |call, v| {
        let class = text(&v[0]).and_then(|name| Source::of(&call.facts).class_of_name(name));
        Ok(class.map_or(Value::Null, |class| Value::BigInt(class.oid)))
    });
    add("to_regtype", &[T], C::BigInt, |_, v| Ok(type_oid(&v[0])));
    add("to_regnamespace", &[T], C::BigInt, |call, v| Ok(namespace_oid(call, &v[0])));
    add("to_regrole", &[T], C::BigInt, |call, v| {
        let oid = text(&v[0]).and_then(|name| Source::of(&call.facts).role_oid(name));
        Ok(oid.map_or(Value::Null, Value::BigInt))
    });
    add("pg_get_userbyid", &[N], C::Text, |call, v| {
        let source = Source::of(&call.facts);
        let oid = number(&v[0]).unwrap_or(0);
        Ok(Value::Text(source.role_name(oid).map_or_else(|| format!("unknown (OID={oid})"), str::to_owned)))
    });
    for name in ["to_regproc", "to_regprocedure"] {
        add(name, &[T], C::BigInt, |_, v| {
            let found = text(&v[0]).and_then(|name| function_oid(name).ok());
            Ok(found.map_or(Value::Null, Value::BigInt))
        });
    }
    add("oidvectortypes", &[Parameter::Array], C::Text, |_, v| {
        let Value::List(types) = &v[0] else { return Ok(Value::Null) };
        let names: Vec<String> = types.iter().map(|oid| format_type(number(oid).unwrap_or(0), -1)).collect();
        Ok(Value::Text(names.join(", ")))
    });
    add("pg_identify_object", &[N, N, I], C::Text, identified);
    add("reg_oid", &[T, N], C::BigInt, |_, v| Ok(v[1].clone()));
    add("reg_oid", &[T, I], C::BigInt, |_, v| v[1].clone().cast(C::BigInt));
    add("reg_oid", &[T, T], C::BigInt, reg_oid);
    add("reg_name", &[T, N], C::Text, |call, v| Ok(Value::Text(reg_name(call, &v[0], number(&v[1]).unwrap_or(0)))));
    add("reg_name", &[T, T], C::Text, |call, v| match reg_oid(call, v)? {
        Value::BigInt(oid) => Ok(Value::Text(reg_name(call, &v[0], oid))),
        other => Ok(other),
    });
    add("reg_proc", &[T], C::Text, |_, v| reg_proc(&v[0]));
    add("reg_proc", &[N], C::Text, |call, v| {
        Ok(number(&v[0]).map_or(Value::Null, |oid| Value::Text(reg_name(call, &Value::Text("regproc".into()), oid))))
    });
}

/// Definitions as text.
fn texts(all: &mut Vec<Overload>) {
    let mut add =
        |name, parameters, returns, code: Code| all.push(Overload::new(name, parameters, returns, code).stable());
    for parameters in [&[N][..], &[N, B], &[N, I]] {
        add("pg_get_viewdef", parameters, C::Text, |call, v| Ok(view_text(call, &v[0])));
    }
    for parameters in [&[N][..], &[N, N, B]] {
        add("pg_get_indexdef", parameters, C::Text, |call, v| Ok(index_definition(call, v)));
    }
    for parameters in [&[N][..], &[N, B]] {
        add("pg_get_constraintdef", parameters, C::Text, |call, v| Ok(constraint_text(call, &v[0])));
    }
    let format: Code = |_, v| {
        let modifier = match &v[1] {
            Value::Int(value) => i64::from(*value),
            _ => -1,
        };
        Ok(number(&v[0]).map_or(Value::Null, |oid| Value::Text(format_type(oid, modifier))))
    };
    all.push(Overload::new("format_type", &[N, I], C::Text, format).with_nulls());
}

/// What is asked of things that are not there.
fn nothing(all: &mut Vec<Overload>) {
    let mut add =
        |name, parameters, returns, code: Code| all.push(Overload::new(name, parameters, returns, code).stable());
    let null: Code = |_, _| Ok(Value::Null);
    for name in ["pg_get_statisticsobjdef_columns", "pg_get_function_sqlbody"] {
        add(name, &[N], C::Text, null);
    }
    for name in ["pg_get_function_arguments", "pg_get_function_identity_arguments"] {
        add(name, &[N], C::Text, |_, v| Ok(procedure(&v[0]).map_or(Value::Null, |it| Value::Text(it.arguments()))));
    }
    add("pg_get_function_result", &[N], C::Text, |_, v| {
        Ok(procedure(&v[0]).map_or(Value::Null, |it| Value::Text(it.result())))
    });
    for name in ["pg_get_triggerdef", "pg_get_ruledef", "pg_get_partkeydef"] {
        add(name, &[N], C::Text, null);
        add(name, &[N, B], C::Text, null);
    }
    add("pg_relation_is_publishable", &[N], C::Boolean, |_, _| Ok(Value::Boolean(false)));
    add("pg_my_temp_schema", &[], C::BigInt, |call, _| {
        let source = Source::of(&call.facts);
        let own = source.search_path.iter().find(|keyspace| is_temporary(keyspace));
        let oid = own.and_then(|keyspace| source.namespaces().get(keyspace).copied());
        Ok(Value::BigInt(oid.unwrap_or(0)))
    });
    add("pg_is_other_temp_schema", &[N], C::Boolean, |_, _| Ok(Value::Boolean(false)));
    add("pg_tablespace_location", &[N], C::Text, |_, _| Ok(Value::Text(String::new())));
    add("getdatabaseencoding", &[], C::Text, |_, _| Ok(Value::Text("UTF8".into())));
}

pub(super) fn number(value: &Value) -> Option<i64> {
    match value {
        Value::BigInt(value) => Some(*value),
        Value::Int(value) => Some(i64::from(*value)),
        _ => None,
    }
}

pub(super) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

fn type_oid(value: &Value) -> Value {
    text(value).and_then(type_of_name).map_or(Value::Null, |ty| Value::BigInt(ty.oid))
}

fn namespace_oid(call: &Call<'_>, value: &Value) -> Value {
    let name = text(value).map(super::source::name_parts).and_then(|mut parts| parts.pop()).unwrap_or_default();
    Source::of(&call.facts).namespaces().get(&name).map_or(Value::Null, |oid| Value::BigInt(*oid))
}

/// `'name'::regclass` and the like: digits are an OID, a name must be known.
fn reg_oid(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    let (kind, name) = (text(&values[0]).unwrap_or_default(), text(&values[1]).unwrap_or_default());
    if let Ok(oid) = name.parse::<i64>() {
        return Ok(Value::BigInt(oid));
    }
    let source = Source::of(&call.facts);
    let (found, error, message) = match kind {
        "regclass" => {
            let found = source.class_of_name(name).map(|class| class.oid);
            let shown = super::source::name_parts(name).join(".");
            (found, ErrorKind::UndefinedTable, format!("relation \"{shown}\" does not exist"))
        }
        "regtype" => {
            let found = type_of_name(name).map(|ty| ty.oid);
            (found, ErrorKind::UndefinedObject, format!("type \"{name}\" does not exist"))
        }
        "regnamespace" => {
            let found = number(&namespace_oid(call, &values[1]));
            (found, ErrorKind::UndefinedSchema, format!("schema \"{name}\" does not exist"))
        }
        "regrole" => {
            let found = source.role_oid(name);
            (found, ErrorKind::UndefinedObject, format!("role \"{name}\" does not exist"))
        }
        _ => return function_oid(name).map(Value::BigInt),
    };
    found.map(Value::BigInt).ok_or_else(|| Error::new(error, message))
}

fn procedure(oid: &Value) -> Option<&'static Procedure> {
    number(oid).and_then(procedures::of_oid)
}

/// The OID of the function that a `regproc` or, with the types of its parameters, a `regprocedure` names.
fn function_oid(written: &str) -> Result<i64> {
    let (name, parameters) = match written.trim_end().strip_suffix(')').and_then(|all| all.split_once('(')) {
        Some((name, parameters)) => (name, Some(parameters)),
        None => (written, None),
    };
    if name == "-" {
        return Ok(0);
    }
    let name = super::source::name_parts(name.trim()).pop().unwrap_or_default();
    let found = match parameters {
        None => procedures::of_name(&name),
        Some(parameters) => {
            let canonical = |ty: &str| type_of_name(ty).map_or_else(|| ty.trim().to_owned(), |ty| ty.sql_name.into());
            let parameters = parameters.split(',').map(canonical).collect::<Vec<_>>().join(", ");
            procedures::all().iter().find(|each| each.name == name && each.arguments() == parameters)
        }
    };
    let known = || procedures::all().iter().any(|each| each.name == name);
    found.map(|each| each.oid).ok_or_else(|| match parameters {
        None if known() => {
            Error::new(ErrorKind::AmbiguousFunction, format!("more than one function named \"{written}\""))
        }
        _ => Error::new(ErrorKind::UndefinedFunction, format!("function \"{written}\" does not exist")),
    })
}

/// `'name'::regproc`: the name of a function of ours or of one that reads values of a type; types of its parameters are
/// left out.
fn reg_proc(name: &Value) -> Result<Value> {
    let written = text(name).unwrap_or_default();
    let mut parts = super::source::name_parts(written.split('(').next().unwrap_or_default());
    let function = parts.pop().unwrap_or_default();
    let reads = || super::definition::types().iter().any(|ty| ty.functions().contains(&function));
    let known = parts.iter().all(|schema| schema == "pg_catalog")
        && (written == "-" || crate::functions::exists(&function) || overloads(&function).is_some() || reads());
    match known {
        true => Ok(Value::Text(function)),
        false => Err(Error::new(ErrorKind::UndefinedFunction, format!("function \"{written}\" does not exist"))),
    }
}

/// A relation, or a column of one, as the text of PostgreSQL's row: `(table,public,t,public.t)`. Null for other objects.
fn identified(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    let source = Source::of(&call.facts);
    let oid = number(&values[1]).filter(|_| values[0] == Value::BigInt(CLASS));
    let Some(class) = oid.and_then(|oid| source.class_of_oid(oid)) else { return Ok(Value::Null) };
    let id = id_of_table(class.oid);
    // What is neither a table nor a view nor a sequence is an index.
    let kind = id.and_then(|id| source.catalog.kind_and_name(id)).map_or("index", |(kind, _)| kind);
    let (schema, name) = (quote_ident(&class.schema), quote_ident(&class.name));
    let column = number(&values[2]).filter(|place| *place > 0).and_then(|place| {
        let table = source.catalog.tables.get(&id?)?;
        let column = super::source::shown(table).find(|(number, _)| i64::try_from(*number) == Ok(place));
        column.map(|(_, column)| quote_ident(&column.name))
    });
    Ok(Value::Text(match column {
        Some(column) => format!("(\"table column\",{schema},{name},{schema}.{name}.{column})"),
        None => format!("({kind},{schema},{name},{schema}.{name})"),
    }))
}

/// The name behind an OID as Postgres prints it; the digits if there is none.
fn reg_name(call: &Call<'_>, kind: &Value, oid: i64) -> String {
    let source = Source::of(&call.facts);
    let found = match text(kind).unwrap_or_default() {
        _ if oid == 0 => Some("-".into()),
        "regclass" => source.class_of_oid(oid).map(|class| match source.is_visible(&class) {
            true => quote_ident(&class.name),
            false => format!("{}.{}", quote_ident(&class.schema), quote_ident(&class.name)),
        }),
        "regtype" => type_of_oid(oid).map(|_| format_type(oid, -1)),
        "regnamespace" => source.namespaces().iter().find(|(_, each)| **each == oid).map(|(name, _)| quote_ident(name)),
        "regrole" => source.role_name(oid).map(quote_ident),
        "regproc" => procedures::of_oid(oid).map(|each| each.name.to_owned()),
        "regprocedure" => procedures::of_oid(oid).map(|each| format!("{}({})", each.name, each.arguments())),
        _ => None,
    };
    found.unwrap_or_else(|| oid.to_string())
}

fn view_text(call: &Call<'_>, oid: &Value) -> Value {
    let source = Source::of(&call.facts);
    let view = source.catalog.views.values().find(|view| Some(table_oid(view.id)) == number(oid));
    view.map_or(Value::Null, |view| Value::Text(format!(" {};", view.sql)))
}

/// `CREATE UNIQUE INDEX …` of a table's key.
pub fn index_text(table: &TableDef) -> String {
    let (schema, name) = (quote_ident(&table.keyspace), quote_ident(&table.name));
    let index = quote_ident(&super::source::key_name(table));
    let column = |column: &keyspan_model::ColumnDef| {
        format!("{}{}", quote_ident(&column.name), if descending(column) { " DESC" } else { "" })
    };
    let columns: Vec<String> = table.key().map(column).collect();
    format!("CREATE UNIQUE INDEX {index} ON {schema}.{name} USING btree ({})", columns.join(", "))
}

/// `CREATE INDEX …` of a secondary index.
pub fn secondary_index_text(table: &TableDef, index: &IndexDef) -> String {
    let (schema, name) = (quote_ident(&table.keyspace), quote_ident(&table.name));
    let part = |(function, name): (Option<&str>, &str)| match function {
        Some(function) => format!("{function}({})", quote_ident(name)),
        None => quote_ident(name),
    };
    let columns: Vec<String> = table.indexed_parts(index).into_iter().map(part).collect();
    let (unique, own) = (if index.unique.is_some() { "UNIQUE " } else { "" }, quote_ident(&index.name));
    if let Some(similarity) = index.similarity {
        return format!(
            "CREATE INDEX {own} ON {schema}.{name} ({}) USING 'StorageAttachedIndex' \
             WITH OPTIONS = {{'similarity_function': '{}'}}",
            columns.join(", "),
            similarity.name()
        );
    }
    format!("CREATE {unique}INDEX {own} ON {schema}.{name} USING btree ({})", columns.join(", "))
}

fn index_definition(call: &Call<'_>, values: &[Value]) -> Value {
    let source = Source::of(&call.facts);
    let oid = number(&values[0]).unwrap_or(0);
    let key = source.table_around(oid).filter(|table| index_oid(table.id) == oid);
    let (text, columns) = match (key, source.index_of_oid(oid)) {
        (Some(table), _) => (index_text(table), table.key().collect::<Vec<_>>()),
        (None, Some((table, index))) => (secondary_index_text(table, index), indexed_columns(table, index).collect()),
        (None, None) => return Value::Null,
    };
    match values.get(1).and_then(number).and_then(|column| usize::try_from(column).ok()) {
        None | Some(0) => Value::Text(text),
        Some(column) => columns.get(column - 1).map_or(Value::Null, |column| Value::Text(quote_ident(&column.name))),
    }
}

fn constraint_text(call: &Call<'_>, oid: &Value) -> Value {
    let source = Source::of(&call.facts);
    let oid = number(oid).unwrap_or(0);
    if let Some((table, index)) = source.uniques().find(|(_, index)| key_oid(index.id) == oid) {
        let columns: Vec<String> = indexed_columns(table, index).map(|column| quote_ident(&column.name)).collect();
        return Value::Text(format!("UNIQUE ({})", columns.join(", ")));
    }
    if let Some((table, key)) = source.foreign_keys().find(|(_, key)| key_oid(key.id) == oid) {
        return foreign_key_text(&source, table, key).map_or(Value::Null, Value::Text);
    }
    let Some(table) = source.table_around(oid) else { return Value::Null };
    if key_oid(table.id) == oid {
        let columns: Vec<String> = table.key().map(|column| quote_ident(&column.name)).collect();
        return Value::Text(format!("PRIMARY KEY ({})", columns.join(", ")));
    }
    let checks = table.checks.iter().enumerate();
    let check = checks.map(|(place, check)| (check_oid(table.id, place), check)).find(|(each, _)| *each == oid);
    check.map_or(Value::Null, |(_, check)| Value::Text(format!("CHECK ({})", check.sql)))
}

/// `FOREIGN KEY (a) REFERENCES t(b) …`; none if the table that it refers to is gone.
fn foreign_key_text(source: &Source, table: &TableDef, key: &ForeignKeyDef) -> Option<String> {
    let target = source.catalog.tables.get(&key.table)?;
    let class = source.class_of_oid(table_oid(target.id))?;
    let names = |names: &mut dyn Iterator<Item = &str>| names.map(quote_ident).collect::<Vec<_>>().join(", ");
    let name = match source.is_visible(&class) {
        true => quote_ident(&target.name),
        false => format!("{}.{}", quote_ident(&target.keyspace), quote_ident(&target.name)),
    };
    let (columns, references) = (names(&mut key.columns_in(table)), names(&mut key.references_in(target)));
    Some(format!("FOREIGN KEY ({columns}) REFERENCES {name}({references}){}", key.rules.text()))
}
