//! `REFERENCES` and `FOREIGN KEY … REFERENCES`.

use keyspan_model::{Error, ForeignKeyAction, ForeignKeyRules, Result};
use sqlparser::tokenizer::Token;

use crate::reader::Reader;
use crate::statement::ForeignKeyDefinition;

/// `FOREIGN KEY (columns) REFERENCES …`, or none if something else stands here.
pub(crate) fn of_table(reader: &mut Reader, name: &Option<String>) -> Result<Option<ForeignKeyDefinition>> {
    let position = reader.position();
    if !reader.eat_all(&["foreign", "key"]) {
        return Ok(None);
    }
    let columns = reader.names()?;
    references(reader, name.clone(), columns, position).map(Some)
}

/// `REFERENCES …` behind a column.
pub(crate) fn of_column(reader: &mut Reader, name: Option<String>, column: &str) -> Result<ForeignKeyDefinition> {
    let position = reader.position();
    references(reader, name, vec![column.to_owned()], position)
}

fn references(
    reader: &mut Reader,
    name: Option<String>,
    columns: Vec<String>,
    position: usize,
) -> Result<ForeignKeyDefinition> {
    reader.expect("references")?;
    let table = reader.object_name()?;
    let references = if *reader.token(0) == Token::LParen { reader.names()? } else { Vec::new() };
    let mut definition = ForeignKeyDefinition {
        name,
        columns,
        table,
        references,
        rules: ForeignKeyRules::default(),
        not_enforced: false,
        position,
    };
    while rule(reader, &mut definition)? {}
    Ok(definition)
}

/// One of what may follow; false if none does.
fn rule(reader: &mut Reader, definition: &mut ForeignKeyDefinition) -> Result<bool> {
    let rules = &mut definition.rules;
    if reader.at_all(&["match", "partial"]) {
        return Err(reader.not_supported("MATCH PARTIAL is not supported"));
    }
    if reader.eat_all(&["match", "full"]) {
        rules.match_full = true;
    } else if reader.eat_all(&["on", "update"]) {
        rules.on_update = action(reader)?;
    } else if reader.eat_all(&["on", "delete"]) {
        rules.on_delete = action(reader)?;
    } else if reader.eat_all(&["initially", "deferred"]) {
        (rules.deferrable, rules.deferred) = (true, true);
    } else if reader.eat_all(&["not", "enforced"]) {
        definition.not_enforced = true;
    } else if reader.at("enforced") {
        return Err(refused().at(reader.position()));
    } else if reader.eat("deferrable") {
        rules.deferrable = true;
    } else {
        let defaults =
            [&["match", "simple"][..], &["initially", "immediate"], &["not", "deferrable"], &["not", "valid"]];
        return Ok(defaults.iter().any(|words| reader.eat_all(words)));
    }
    Ok(true)
}

fn action(reader: &mut Reader) -> Result<ForeignKeyAction> {
    let actions = [
        (&["no", "action"][..], ForeignKeyAction::NoAction),
        (&["set", "null"], ForeignKeyAction::SetNull),
        (&["set", "default"], ForeignKeyAction::SetDefault),
        (&["restrict"], ForeignKeyAction::Restrict),
        (&["cascade"], ForeignKeyAction::Cascade),
    ];
    let found = actions.into_iter().find(|(words, _)| reader.eat_all(words));
    let Some((_, action)) = found else { return Err(reader.unexpected()) };
    if *reader.token(0) == Token::LParen {
        reader.names()?;
    }
    Ok(action)
}

/// 0A000 for a foreign key that is to be enforced.
pub fn refused() -> Error {
    Error::not_supported("REFERENCES is not enforced: a write does not look at other tables").with_hint(
        "Write REFERENCES … NOT ENFORCED, or SET foreign_keys = 'not enforced', and it is kept and shown. \
         Check with a join, or put both rows under one key.",
    )
}
