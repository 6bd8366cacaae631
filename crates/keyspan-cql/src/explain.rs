//! `EXPLAIN`.

use keyspan_model::{Error, ErrorKind, Result};
use sqlparser::tokenizer::Token;

use crate::reader::{ParseStatement, Reader};
use crate::statement::{Explain, Statement};

/// PostgreSQL's options of which the plan says the same either way.
const WITHOUT_EFFECT: [&str; 8] =
    ["buffers", "costs", "generic_plan", "memory", "settings", "summary", "timing", "wal"];

/// `EXPLAIN [ANALYZE] [VERBOSE] [FORMAT name] statement` and `EXPLAIN (options) statement`. `parse` reads the
/// statement.
pub(crate) fn statement(reader: &mut Reader, parse: ParseStatement) -> Result<Statement> {
    reader.expect("explain")?;
    let (mut analyze, mut verbose, mut json) = (false, false, false);
    if *reader.token(0) == Token::LParen && !reader.at_query() {
        for Choice { name, value, position } in reader.parenthesized(option)? {
            let on = || is_on(&name, value.as_deref()).map_err(|error| error.at(position));
            match name.as_str() {
                "analyze" | "analyse" => analyze = on()?,
                "verbose" => verbose = on()?,
                "format" => json = is_json(value.as_deref()).map_err(|error| error.at(position))?,
                other if WITHOUT_EFFECT.contains(&other) => drop(on()?),
                other => {
                    let message = format!("unrecognized EXPLAIN option \"{other}\"");
                    return Err(Error::new(ErrorKind::Syntax, message).at(position));
                }
            }
        }
    } else {
        analyze = reader.eat_any(&["analyze", "analyse"]).is_some();
        verbose = reader.eat("verbose");
        if reader.eat("format") {
            json = is_json(Some(&reader.name()?))?;
        }
    }
    if reader.at("explain") {
        return Err(reader.unexpected());
    }
    let statement = Box::new(reader.nested(parse)?);
    Ok(Statement::Explain(Explain { analyze, verbose, json, statement }))
}

/// An option as it is written.
struct Choice {
    name: String,
    value: Option<String>,
    position: usize,
}

fn option(reader: &mut Reader) -> Result<Choice> {
    let position = reader.position();
    let Token::Word(name) = reader.token(0).clone() else { return Err(reader.unexpected()) };
    reader.skip();
    let value = match reader.token(0).clone() {
        Token::Word(word) => Some(word.value),
        Token::Number(text, _) | Token::SingleQuotedString(text) => Some(text),
        _ => None,
    };
    if value.is_some() {
        reader.skip();
    }
    Ok(Choice { name: name.value, value, position })
}

fn is_on(name: &str, value: Option<&str>) -> Result<bool> {
    match value.map(str::to_lowercase).as_deref() {
        None | Some("on" | "true" | "1") => Ok(true),
        Some("off" | "false" | "0") => Ok(false),
        Some(_) => Err(Error::new(ErrorKind::Syntax, format!("{name} requires a Boolean value"))),
    }
}

fn is_json(format: Option<&str>) -> Result<bool> {
    let format = format.unwrap_or_default().to_lowercase();
    match format.as_str() {
        "text" => Ok(false),
        "json" => Ok(true),
        "xml" | "yaml" => Err(Error::not_supported(format!("EXPLAIN (FORMAT {format}) is not supported"))
            .with_hint("Use FORMAT text or json.")),
        _ => {
            let message = format!("unrecognized value for EXPLAIN option \"format\": \"{format}\"");
            Err(Error::new(ErrorKind::InvalidParameter, message))
        }
    }
}
