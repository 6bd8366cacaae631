//! CREATE INDEX: answered with a notice and no effect.
//!
//! A plain index changes no answer, only how fast it comes, and pandas' `to_sql` sends one with every table; so it is
//! harmless to accept and honest to say that nothing is built. A UNIQUE index would forbid rows: it is refused.

use keyspan_cql::CreateIndex;
use keyspan_model::{Error, Result};

use crate::context::ClientContext;
use crate::names;
use crate::outcome::{Notice, Outcome, Tag};

/// `CREATE INDEX`.
pub(crate) async fn create(context: &mut ClientContext, statement: &CreateIndex) -> Result<Outcome> {
    let catalog = context.catalog();
    let table = names::table(&catalog, &context.settings.search_path(), &statement.table)?;
    if statement.unique {
        let error = Error::not_supported("unique indexes are not supported");
        return Err(
            error.with_hint("Only the PRIMARY KEY is unique: put the columns into it, or into a table of their own.")
        );
    }
    let is_name = |column: &&String| column.chars().all(|c| c.is_alphanumeric() || c == '_');
    for column in statement.columns.iter().filter(is_name) {
        table.expect_column(column)?;
    }
    let default = || format!("{}_{}_idx", table.name, statement.columns.join("_"));
    let name = statement.name.clone().unwrap_or_else(default);
    let notice = Notice::plain(format!("index \"{name}\" is not built: there are no secondary indexes yet"));
    context.notice(notice.with_hint("Put columns that queries select by first in the PRIMARY KEY."));
    Ok(Outcome::done(Tag::plain("CREATE INDEX")))
}
