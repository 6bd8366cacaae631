//! The functions that `pg_proc` lists, read from `functions.txt`.
//!
//! A line is `oid name kind returns-a-set volatility strict result variadic parameter,…` with the OIDs of types: those of
//! PostgreSQL's functions that are answered here, with their OIDs, and from 14000 on functions that only Keyspan has.

use std::sync::OnceLock;

use super::definition::format_type;
use super::row::Row;
use super::source::OWNER;

/// A function.
#[derive(Debug)]
pub struct Procedure {
    /// As in PostgreSQL.
    pub oid: i64,
    /// Several may have one.
    pub name: &'static str,
    /// `f`, `a` for aggregates, `w` for functions of windows.
    kind: &'static str,
    returns_set: bool,
    /// `i`, `s` or `v`.
    volatility: &'static str,
    strict: bool,
    result: i64,
    variadic: i64,
    parameters: Vec<i64>,
}

/// All functions.
pub fn all() -> &'static [Procedure] {
    static ALL: OnceLock<Vec<Procedure>> = OnceLock::new();
    ALL.get_or_init(|| include_str!("functions.txt").lines().filter_map(procedure).collect())
}

fn procedure(line: &'static str) -> Option<Procedure> {
    let mut words = line.split(' ');
    Some(Procedure {
        oid: words.next()?.parse().ok()?,
        name: words.next()?,
        kind: words.next()?,
        returns_set: words.next()? == "t",
        volatility: words.next()?,
        strict: words.next()? == "t",
        result: words.next()?.parse().ok()?,
        variadic: words.next()?.parse().ok()?,
        parameters: words.next().unwrap_or_default().split(',').filter_map(|oid| oid.parse().ok()).collect(),
    })
}

/// The function of this name, if there is but one.
pub fn of_name(name: &str) -> Option<&'static Procedure> {
    let mut found = all().iter().filter(|each| each.name == name);
    found.next().filter(|_| found.next().is_none())
}

/// The function with this OID.
pub fn of_oid(oid: i64) -> Option<&'static Procedure> {
    all().iter().find(|each| each.oid == oid)
}

impl Procedure {
    /// The types of its parameters: `integer, VARIADIC "any"`.
    pub fn arguments(&self) -> String {
        let last = self.parameters.len().saturating_sub(1);
        let shown = self.parameters.iter().enumerate().map(|(place, ty)| {
            let variadic = if self.variadic != 0 && place == last { "VARIADIC " } else { "" };
            format!("{variadic}{}", type_name(*ty))
        });
        shown.collect::<Vec<_>>().join(", ")
    }

    /// The type of its result: `SETOF integer`.
    pub fn result(&self) -> String {
        let set = if self.returns_set { "SETOF " } else { "" };
        format!("{set}{}", type_name(self.result))
    }
}

/// A type, or what stands for any type.
fn type_name(oid: i64) -> String {
    match oid {
        2276 => "\"any\"".into(),
        2277 => "anyarray".into(),
        2281 => "internal".into(),
        2283 => "anyelement".into(),
        2776 => "anynonarray".into(),
        5077 => "anycompatible".into(),
        5078 => "anycompatiblearray".into(),
        5079 => "anycompatiblenonarray".into(),
        oid => format_type(oid, -1),
    }
}

/// The rows of `pg_proc`.
pub fn rows() -> Vec<Row> {
    let row = |each: &Procedure| {
        Row::new()
            .with("oid", each.oid)
            .with("proname", each.name)
            .with("pronamespace", 11_i64)
            .with("proowner", OWNER)
            .with("prolang", INTERNAL)
            .with("procost", 1_i64)
            .with("prorows", if each.returns_set { 1_000_i64 } else { 0 })
            .with("provariadic", each.variadic)
            .with("prokind", each.kind)
            .with("proisstrict", each.strict)
            .with("proretset", each.returns_set)
            .with("provolatile", each.volatility)
            .with("proparallel", "s")
            .with("pronargs", each.parameters.len())
            .with("prorettype", each.result)
            .with("proargtypes", each.parameters.clone())
            .with("prosrc", each.name)
    };
    all().iter().map(row).collect()
}

/// The OID of the language that PostgreSQL's own functions are written in.
pub const INTERNAL: i64 = 12;
