//! Advice on tables: what a definition alone tells (NOTICEs at CREATE TABLE), and what the data tells (ADVISE).
//!
//! The rule: advice is seldom and names what to do instead. CREATE TABLE gives at most two pieces of it, the gravest
//! first; `SET advice = 'off'` gives none.

mod definition;
mod report;

use keyspan_model::TableDef;

use crate::context::ClientContext;
use crate::outcome::Notice;

pub(crate) use report::{run, schema};

/// Most pieces of advice that a CREATE TABLE gives.
const NOTICES_MAX: usize = 2;

/// One thing that will hurt or hurts.
#[derive(Clone, Debug, PartialEq)]
struct Finding {
    /// What it is.
    finding: String,
    /// Why, and what is better.
    hint: String,
    /// The statement that mends it, where one does.
    remedy: Option<String>,
}

/// Tells the session what its new table's definition will hurt.
pub(crate) fn notify(context: &mut ClientContext, table: &TableDef) {
    if context.settings.get("advice") == Some("off") {
        return;
    }
    for found in definition::findings(table).into_iter().take(NOTICES_MAX) {
        context.notice(Notice::plain(found.finding).with_hint(found.hint));
    }
}
