//! `SET`, `RESET`, `DISCARD`.

use keyspan_model::Result;
use sqlparser::tokenizer::Token;

use crate::describe::setting;
use crate::reader::Reader;
use crate::statement::{Discard, Set, SetConstraints, SetTransaction, Statement};
use crate::transaction::modes;

/// `SET [SESSION | LOCAL] name TO | = value, …` and its special forms.
pub(crate) fn set(reader: &mut Reader) -> Result<Statement> {
    reader.skip();
    if reader.eat_all(&["session", "characteristics", "as", "transaction"]) {
        return Ok(Statement::SetTransaction(SetTransaction { session: true, modes: modes(reader)? }));
    }
    if reader.at("constraints") && *reader.token(1) != Token::Eq {
        return set_constraints(reader);
    }
    let scope = if matches!(reader.token(1), Token::Eq) { None } else { reader.eat_any(&["session", "local"]) };
    let local = scope == Some("local");
    if reader.eat("transaction") {
        return Ok(Statement::SetTransaction(SetTransaction { session: false, modes: modes(reader)? }));
    }
    let (name, values) = if reader.eat_all(&["time", "zone"]) {
        ("timezone".to_owned(), time_zone(reader)?)
    } else if let Some((words, name)) = SPECIAL.iter().find(|(words, _)| special(reader, words)) {
        reader.eat_all(words);
        (name.to_string(), values(reader)?)
    } else {
        let name = setting(reader)?;
        if !reader.eat("to") {
            reader.expect_token(&Token::Eq)?;
        }
        (name, values(reader)?)
    };
    Ok(Statement::Set(Set { name, values, local }))
}

fn set_constraints(reader: &mut Reader) -> Result<Statement> {
    reader.skip();
    let names = if reader.eat("all") { None } else { Some(reader.list(Reader::object_name)?) };
    let deferred = match reader.eat_any(&["deferred", "immediate"]) {
        Some(when) => when == "deferred",
        None => return Err(reader.unexpected()),
    };
    Ok(Statement::SetConstraints(SetConstraints { names, deferred }))
}

/// Forms without TO, and the setting that each sets.
const SPECIAL: &[(&[&str], &str)] = &[
    (&["names"], "client_encoding"),
    (&["schema"], "search_path"),
    (&["role"], "role"),
    (&["authorization"], "session_authorization"),
    (&["session", "authorization"], "session_authorization"),
];

fn special(reader: &Reader, words: &[&str]) -> bool {
    reader.at_all(words) && *reader.token(words.len()) != Token::Eq && reader.word(words.len()) != Some("to")
}

/// `value, …`; none for DEFAULT.
fn values(reader: &mut Reader) -> Result<Option<Vec<String>>> {
    if reader.eat("default") { Ok(None) } else { reader.list(value).map(Some) }
}

fn value(reader: &mut Reader) -> Result<String> {
    let negative = reader.eat_token(&Token::Minus);
    match reader.token(0).clone() {
        Token::Word(word) if !negative => {
            reader.skip();
            Ok(word.value)
        }
        Token::SingleQuotedString(text) if !negative => {
            reader.skip();
            Ok(text)
        }
        Token::Number(digits, _) => {
            reader.skip();
            Ok(if negative { format!("-{digits}") } else { digits })
        }
        _ => Err(reader.unexpected()),
    }
}

/// The value of SET TIME ZONE.
fn time_zone(reader: &mut Reader) -> Result<Option<Vec<String>>> {
    if reader.eat_any(&["local", "default"]).is_some() {
        return Ok(None);
    }
    if reader.eat("interval") {
        let offset = reader.string()?;
        if reader.eat("hour") && reader.eat("to") {
            reader.expect("minute")?;
        }
        return Ok(Some(vec![hours(&offset).unwrap_or(offset)]));
    }
    value(reader).map(|zone| Some(vec![zone]))
}

/// `+05:30` as the number of hours, which is how a zone is given by its offset to the east.
fn hours(offset: &str) -> Option<String> {
    let (hours, minutes) = offset.split_once(':')?;
    let (whole, part) = (hours.parse::<i32>().ok()?, f64::from(minutes.parse::<u8>().ok()?) / 60.0);
    let sign = if hours.starts_with('-') { "-" } else { "+" };
    Some(format!("{sign}{}", f64::from(whole.abs()) + part))
}

/// `RESET name | ALL`.
pub(crate) fn reset(reader: &mut Reader) -> Result<Statement> {
    reader.skip();
    if reader.eat("all") {
        return Ok(Statement::Reset(None));
    }
    if reader.eat_all(&["time", "zone"]) {
        return Ok(Statement::Reset(Some("timezone".to_owned())));
    }
    if reader.eat_all(&["session", "authorization"]) {
        return Ok(Statement::Reset(Some("session_authorization".to_owned())));
    }
    setting(reader).map(|name| Statement::Reset(Some(name)))
}

/// `DISCARD ALL | PLANS | SEQUENCES | TEMP`.
pub(crate) fn discard(reader: &mut Reader) -> Result<Statement> {
    reader.skip();
    let what = match reader.eat_any(&["all", "plans", "sequences", "temp", "temporary"]) {
        Some("all") => Discard::All,
        Some("plans") => Discard::Plans,
        Some("sequences") => Discard::Sequences,
        Some(_) => Discard::Temporary,
        None => return Err(reader.unexpected()),
    };
    Ok(Statement::Discard(what))
}
