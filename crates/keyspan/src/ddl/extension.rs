//! CREATE EXTENSION, DROP EXTENSION: what migrations ask for first. What an extension has is there or is not, so that
//! neither changes anything.

use keyspan_cql::{CreateExtension, DropExtension};
use keyspan_model::{Error, ErrorKind, Result};
use keyspan_query::{EXTENSIONS, Extension};

use crate::context::ClientContext;
use crate::outcome::{Notice, Outcome, Tag};

/// Says what there is of the extension.
///
/// # Errors
/// 0A000 for one of which there is nothing.
pub(crate) fn create(context: &mut ClientContext, statement: &CreateExtension) -> Result<Outcome> {
    let CreateExtension { name, position } = statement;
    let Some(extension) = built_in(name) else {
        let known: Vec<&str> = EXTENSIONS.iter().map(|extension| extension.name).collect();
        let error = Error::not_supported(format!("extension \"{name}\" is not available")).at(*position);
        return Err(error.with_hint(format!("Built in are, in part, {}.", known.join(", "))));
    };
    context.notice(Notice::plain(format!("extension \"{name}\" is built in: {}", extension.has)));
    Ok(Outcome::done(Tag::plain("CREATE EXTENSION")))
}

/// Says that it stays.
///
/// # Errors
/// 42704 for one that does not exist.
pub(crate) fn drop(context: &mut ClientContext, statement: &DropExtension) -> Result<Outcome> {
    for name in &statement.names {
        let notice = match (built_in(name), statement.if_exists) {
            (Some(_), _) => format!("extension \"{name}\" is built in, and stays"),
            (None, true) => format!("extension \"{name}\" does not exist, skipping"),
            (None, false) => {
                return expect(name).map(|()| Outcome::done(Tag::plain("DROP EXTENSION")));
            }
        };
        context.notice(Notice::plain(notice));
    }
    Ok(Outcome::done(Tag::plain("DROP EXTENSION")))
}

/// 42704 if it is not built in.
pub(super) fn expect(name: &str) -> Result<()> {
    let error = || Error::new(ErrorKind::UndefinedObject, format!("extension \"{name}\" does not exist"));
    built_in(name).map(|_| ()).ok_or_else(error)
}

fn built_in(name: &str) -> Option<&'static Extension> {
    EXTENSIONS.iter().find(|extension| extension.name == name)
}
