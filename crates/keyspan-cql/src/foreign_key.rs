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
        let Some(subject) = clause(reader, &mut definition)? else { break };
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

/// A clause, what it is about, and what it says.
type Clause = (&'static [&'static str], &'static str, fn(&mut ForeignKeyDefinition));

const CLAUSES: [Clause; 8] = [
    (&["match", "full"], "MATCH", |key| key.rules.match_full = true),
    (&["match", "simple"], "MATCH", |_| {}),
    (&["deferrable"], "DEFERRABLE", |key| key.rules.deferrable = true),
    (&["not", "deferrable"], "DEFERRABLE", |_| {}),
    (&["initially", "deferred"], "INITIALLY", |key| key.rules.deferred = true),
    (&["initially", "immediate"], "INITIALLY", |_| {}),
    (&["not", "enforced"], "ENFORCED", |key| key.not_enforced = true),
    (&["not", "valid"], "VALID", |_| {}),
];

/// Reads a clause, and says what it is about; none if no clause follows.
fn clause(reader: &mut Reader, key: &mut ForeignKeyDefinition) -> Result<Option<&'static str>> {
    if reader.at_all(&["match", "partial"]) {
        return Err(reader.not_supported("MATCH PARTIAL is not supported"));
    }
    if reader.at("enforced") {
        return Err(refused().at(reader.position()));
    }
    if reader.eat_all(&["on", "update"]) {
        key.rules.on_update = action(reader)?;
        return Ok(Some("ON UPDATE"));
    }
    if reader.eat_all(&["on", "delete"]) {
        key.rules.on_delete = action(reader)?;
        return Ok(Some("ON DELETE"));
    }
    let found = CLAUSES.iter().find(|(words, ..)| reader.eat_all(words));
    Ok(found.map(|(_, subject, say)| {
        say(key);
        *subject
    }))
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
