//! `EXPLAIN`.

use keyspan_model::Result;
use sqlparser::tokenizer::Token;

use crate::reader::{ParseStatement, Reader};
use crate::statement::{Explain, Statement};

/// `EXPLAIN [ANALYZE] [VERBOSE] [FORMAT name] statement` and `EXPLAIN (options) statement`. `parse` reads the
/// statement.
pub(crate) fn statement(reader: &mut Reader, parse: ParseStatement) -> Result<Statement> {
    reader.expect("explain")?;
    let (mut analyze, mut verbose, mut options) = (false, false, Vec::new());
    if *reader.token(0) == Token::LParen && !reader.at_query() {
        for (name, value) in reader.parenthesized(option)? {
            let on = !matches!(value.as_str(), "off" | "false" | "0");
            match name.as_str() {
                "analyze" | "analyse" => analyze = on,
                "verbose" => verbose = on,
                _ => options.push((name, value)),
            }
        }
    } else {
        analyze = reader.eat_any(&["analyze", "analyse"]).is_some();
        verbose = reader.eat("verbose");
        if reader.eat("format") {
            options.push(("format".to_owned(), reader.name()?));
        }
    }
    if reader.at("explain") {
        return Err(reader.unexpected());
    }
    let statement = Box::new(reader.nested(parse)?);
    Ok(Statement::Explain(Explain { analyze, verbose, options, statement }))
}

fn option(reader: &mut Reader) -> Result<(String, String)> {
    let Token::Word(name) = reader.token(0).clone() else { return Err(reader.unexpected()) };
    reader.skip();
    let value = match reader.token(0).clone() {
        Token::Word(word) => word.value,
        Token::Number(text, _) | Token::SingleQuotedString(text) => text,
        _ => return Ok((name.value, "true".to_owned())),
    };
    reader.skip();
    Ok((name.value, value))
}
