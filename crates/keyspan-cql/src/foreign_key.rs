//! `REFERENCES` and `FOREIGN KEY … REFERENCES`.

use keyspan_model::{Error, ErrorKind, ForeignKeyAction, ForeignKeyRules, Result};
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
    let mut said = Vec::new();
    loop {
        let position = reader.position();
        let Some(subject) = rule(reader, &mut definition)? else { break };
        if said.contains(&subject) {
            let message = format!("a foreign key says {subject} twice");
            return Err(Error::new(ErrorKind::Syntax, message).at(position));
        }
        said.push(subject);
    }
    if definition.rules.deferred && !definition.rules.deferrable {
        if said.contains(&"DEFERRABLE") {
            let message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
            return Err(Error::new(ErrorKind::Syntax, message).at(position));
        }
        definition.rules.deferrable = true;
    }
    Ok(definition)
}

/// Reads one of what may follow, and says what it is about; none if nothing follows.
fn rule(reader: &mut Reader, definition: &mut ForeignKeyDefinition) -> Result<Option<&'static str>> {
    let rules = &mut definition.rules;
    if reader.at_all(&["match", "partial"]) {
        return Err(reader.not_supported("MATCH PARTIAL is not supported"));
    }
    if reader.at("enforced") {
        return Err(refused().at(reader.position()));
    }
    Ok(if reader.eat_all(&["match", "full"]) {
        rules.match_full = true;
        Some("MATCH")
    } else if reader.eat_all(&["match", "simple"]) {
        Some("MATCH")
    } else if reader.eat_all(&["on", "update"]) {
        rules.on_update = action(reader)?;
        Some("ON UPDATE")
    } else if reader.eat_all(&["on", "delete"]) {
        rules.on_delete = action(reader)?;
        Some("ON DELETE")
    } else if reader.eat_all(&["initially", "deferred"]) {
        rules.deferred = true;
        Some("INITIALLY")
    } else if reader.eat_all(&["initially", "immediate"]) {
        Some("INITIALLY")
    } else if reader.eat("deferrable") {
        rules.deferrable = true;
        Some("DEFERRABLE")
    } else if reader.eat_all(&["not", "deferrable"]) {
        Some("DEFERRABLE")
    } else if reader.eat_all(&["not", "enforced"]) {
        definition.not_enforced = true;
        Some("ENFORCED")
    } else if reader.eat_all(&["not", "valid"]) {
        Some("VALID")
    } else {
        None
    })
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
    let takes_columns = matches!(action, ForeignKeyAction::SetNull | ForeignKeyAction::SetDefault);
    if takes_columns && *reader.token(0) == Token::LParen {
        return Err(reader.not_supported("a list of columns behind SET NULL or SET DEFAULT is not supported"));
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
