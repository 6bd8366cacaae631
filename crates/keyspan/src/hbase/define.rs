//! `create`, `list` and `exists`.

use keyspan_cql::{HbaseArgument, HbaseCommand, HbaseValue, ObjectName, quoted};
use keyspan_model::{Error, ErrorKind, Result};

use super::argument::{self, Arguments};
use super::{invalid, literal};
use crate::context::ClientContext;
use crate::names;
use crate::outcome::Notice;

/// What HBase takes of a family or table that changes nothing here.
const IGNORED: &[&str] = &[
    "BLOCKCACHE",
    "BLOCKSIZE",
    "BLOOMFILTER",
    "COMPRESSION",
    "CONFIGURATION",
    "DATA_BLOCK_ENCODING",
    "DURABILITY",
    "INDEX_BLOCK_ENCODING",
    "IN_MEMORY",
    "KEEP_DELETED_CELLS",
    "METADATA",
    "NUMREGIONS",
    "REGION_REPLICATION",
    "REPLICATION_SCOPE",
    "SPLITALGO",
    "SPLITS",
    "SPLITS_FILE",
    "STORAGE_POLICY",
];

/// Longer than any time to live: for ever.
const FOREVER: i64 = i32::MAX as i64;

/// `create 't', 'family', {NAME => 'family', VERSIONS => 3, TTL => 86400}, …`.
pub(super) fn create(context: &mut ClientContext, command: &HbaseCommand) -> Result<String> {
    let name = expect_table(command)?;
    let (mut families, mut ignored) = (Vec::new(), Vec::new());
    for argument in &command.arguments {
        match &argument.value {
            HbaseValue::Text(name) => families.push(family(name, "GC max_versions = 1")),
            HbaseValue::Attributes(attributes) => families.extend(declared(attributes, &mut ignored)?),
            _ => return Err(invalid("the name of a family is needed here").at(argument.position)),
        }
    }
    if families.is_empty() {
        let error = Error::new(ErrorKind::InvalidTableDefinition, "a table of HBase's needs a family");
        return Err(error.at(name.position).with_hint("Write create 't', 'family'."));
    }
    if !ignored.is_empty() {
        let message = format!("{} change nothing here", ignored.join(", "));
        context.notice(Notice::plain(message));
    }
    Ok(format!("CREATE TABLE {name} (id text PRIMARY KEY, {})", families.join(", ")))
}

/// A family whose qualifiers and values are texts, as HBase's shell writes them.
fn family(name: &str, rule: &str) -> String {
    format!("{} family<text, text> {rule}", quoted(name))
}

/// The family that attributes declare; none where they are about the table alone.
fn declared<'a>(attributes: &'a [(String, HbaseArgument)], ignored: &mut Vec<&'a str>) -> Result<Option<String>> {
    let (mut name, mut versions, mut least, mut age) = (None, 1, 0, None);
    for (attribute, argument) in attributes {
        match attribute.as_str() {
            "NAME" => name = Some(argument::text(argument)?),
            "VERSIONS" => versions = argument::count(argument)?,
            "MIN_VERSIONS" => least = argument::integer(argument)?,
            "TTL" => age = seconds(argument)?,
            known if IGNORED.contains(&known) => ignored.push(known),
            other => {
                let error = Error::not_supported(format!("attribute {other} is not supported"));
                return Err(error.at(argument.position).with_hint("There are NAME, VERSIONS, MIN_VERSIONS and TTL."));
            }
        }
    }
    let Some(name) = name else { return Ok(None) };
    let rule = match age {
        None => format!("GC max_versions = {versions}"),
        Some(_) if least > versions => return Err(invalid("MIN_VERSIONS must not be greater than VERSIONS")),
        Some(age) if least <= 0 => format!("GC max_versions = {versions} OR max_age = '{age}s'"),
        Some(age) => format!("GC max_versions = {versions} OR (max_versions = {least} AND max_age = '{age}s')"),
    };
    Ok(Some(family(name, &rule)))
}

/// A time to live in seconds; none for FOREVER.
fn seconds(argument: &HbaseArgument) -> Result<Option<i64>> {
    if argument::text(argument)? == "FOREVER" {
        return Ok(None);
    }
    Ok(Some(argument::count(argument)?).filter(|seconds| *seconds < FOREVER))
}

/// `list ['pattern']`: tables, those whose whole name has the pattern.
pub(super) fn list(context: &mut ClientContext, command: &HbaseCommand) -> Result<String> {
    Arguments::of(command).end()?;
    let named = match &command.table {
        Some(pattern) => format!(" AND table_name ~ {}", literal(&format!("^({})$", pattern.name))),
        None => String::new(),
    };
    let keyspaces = match command.table.as_ref().and_then(|pattern| pattern.keyspace.clone()) {
        Some(keyspace) => vec![keyspace],
        None => context.settings.search_path(),
    };
    let keyspaces: Vec<String> = keyspaces.iter().map(|keyspace| literal(keyspace)).collect();
    let within = if keyspaces.is_empty() { "''".to_owned() } else { keyspaces.join(", ") };
    Ok(format!(
        "SELECT table_name AS \"TABLE\" FROM information_schema.tables \
         WHERE table_type = 'BASE TABLE' AND table_schema IN ({within}){named} ORDER BY table_name"
    ))
}

/// `exists 't'`.
pub(super) fn exists(context: &mut ClientContext, command: &HbaseCommand) -> Result<String> {
    Arguments::of(command).end()?;
    let name = expect_table(command)?;
    let found = names::table(&context.catalog(), &context.settings.search_path(), name).is_ok();
    Ok(format!("SELECT {found} AS exists"))
}

fn expect_table(command: &HbaseCommand) -> Result<&ObjectName> {
    command.table.as_ref().ok_or_else(|| Error::internal("a command without a table"))
}
