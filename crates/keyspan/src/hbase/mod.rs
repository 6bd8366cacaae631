//! HBase's shell: each command is the statement of the language that does the same, and is run as that one.
//!
//! The rule: a command is made into the text of one statement from the table's definition, each name and value quoted,
//! so that rights, types, transactions and errors are those of the language. Timestamps are milliseconds, as in HBase.
//!
//! - [`argument`]: what stands behind the table; [`row`]: row keys and columns as HBase writes them;
//! - [`filter`]: the language of filters; [`read`]: scan, get, count; [`write`]: put, delete, incr; [`define`]: create.

mod argument;
mod define;
mod filter;
mod read;
mod row;
mod write;

use keyspan_cql::{HbaseCommand, HbaseVerb, Parsed, Statement, parse_one, quoted};
use keyspan_model::{Error, ErrorKind, Result, TableDef};

use crate::context::ClientContext;
use crate::names;

/// The statement that does what a command of HBase's shell does, with the command's text.
pub(crate) fn translated(context: &mut ClientContext, parsed: &Parsed, command: &HbaseCommand) -> Result<Parsed> {
    let sql = statement(context, command)?;
    let mut statement = parse_one(&sql).map_err(|error| Error { position: None, ..error })?.statement;
    if let Statement::Update(update) = &mut statement {
        update.upserts = true;
    }
    Ok(Parsed { statement, text: parsed.text.clone(), offset: parsed.offset, parameters: Vec::new() })
}

fn statement(context: &mut ClientContext, command: &HbaseCommand) -> Result<String> {
    match command.verb {
        HbaseVerb::Create => return define::create(context, command),
        HbaseVerb::List => return define::list(context, command),
        HbaseVerb::Exists => return define::exists(context, command),
        _ => {}
    }
    let name = command.table.as_ref().ok_or_else(|| Error::internal("a command without a table"))?;
    let table = names::table(&context.catalog(), &context.settings.search_path(), name)?;
    let path = path(&table);
    match command.verb {
        HbaseVerb::Scan => read::scan(&table, command),
        HbaseVerb::Get => read::get(&table, command),
        HbaseVerb::Count => read::count(&table, command),
        HbaseVerb::Put | HbaseVerb::Incr if context.settings.postgres_writes() => {
            let message = "put and incr make rows that are not there, which write_semantics = postgres does not";
            let hint = "SET write_semantics = 'cql', or write INSERT or UPDATE.";
            Err(Error::new(ErrorKind::InvalidArgument, message).with_hint(hint))
        }
        HbaseVerb::Put => write::put(&table, command),
        HbaseVerb::Incr => write::incr(&table, command),
        HbaseVerb::Delete => write::delete(&table, command),
        HbaseVerb::DeleteAll => write::delete_all(&table, command),
        verb => {
            argument::Arguments::of(command).end()?;
            Ok(match verb {
                HbaseVerb::Describe => format!("DESCRIBE TABLE {path}"),
                HbaseVerb::Truncate => format!("TRUNCATE {path}"),
                HbaseVerb::Drop => format!("DROP TABLE {path}"),
                HbaseVerb::Disable => format!("SELECT '{DISABLE}' AS disable"),
                _ => "SELECT 'Tables are always enabled.' AS enable".to_owned(),
            })
        }
    }
}

const DISABLE: &str = "Tables need not be disabled: alter, truncate and drop them as they are.";

/// The table's name with its keyspace.
fn path(table: &TableDef) -> String {
    format!("{}.{}", quoted(&table.keyspace), quoted(&table.name))
}

/// A literal of this text.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidParameter, message)
}
