//! `DECLARE CURSOR`, `FETCH`, `MOVE`, `CLOSE`.

use keyspan_model::Result;
use sqlparser::tokenizer::Token;

use crate::reader::Reader;
use crate::statement::{DeclareCursor, Fetch, FetchDirection, Statement};

/// `DECLARE name [BINARY] [INSENSITIVE] [[NO] SCROLL] CURSOR [WITH | WITHOUT HOLD] FOR query`.
pub(crate) fn declare(reader: &mut Reader) -> Result<Statement> {
    reader.expect("declare")?;
    let name = reader.name()?;
    let (mut binary, mut scroll) = (false, None);
    loop {
        if reader.eat("binary") {
            binary = true;
        } else if reader.eat_any(&["insensitive", "asensitive"]).is_some() {
            // Every cursor reads one snapshot.
        } else if reader.eat_all(&["no", "scroll"]) {
            scroll = Some(false);
        } else if reader.eat("scroll") {
            scroll = Some(true);
        } else {
            break;
        }
    }
    reader.expect("cursor")?;
    let hold = reader.eat_all(&["with", "hold"]);
    if !hold {
        reader.eat_all(&["without", "hold"]);
    }
    reader.expect("for")?;
    let query = reader.query()?;
    Ok(Statement::DeclareCursor(DeclareCursor { name, binary, scroll, hold, query }))
}

/// `FETCH | MOVE [direction] [FROM | IN] cursor`.
pub(crate) fn fetch(reader: &mut Reader) -> Result<Statement> {
    let is_move = reader.at("move");
    reader.skip();
    let direction = direction(reader)?;
    reader.eat_any(&["from", "in"]);
    let cursor = reader.name()?;
    Ok(Statement::Fetch(Fetch { cursor, direction, is_move }))
}

fn direction(reader: &mut Reader) -> Result<FetchDirection> {
    if matches!(reader.token(0), Token::Number(..) | Token::Minus | Token::Plus) {
        return reader.integer().map(FetchDirection::Forward);
    }
    if reader.eat("all") {
        return Ok(FetchDirection::All);
    }
    // A word before the end is the cursor's name, even if it is one of the directions.
    if *reader.token(1) == Token::EOF {
        return Ok(FetchDirection::Forward(1));
    }
    let words = ["next", "prior", "first", "last", "absolute", "relative", "forward", "backward"];
    Ok(match reader.eat_any(&words) {
        Some("next") | None => FetchDirection::Forward(1),
        Some("prior") => FetchDirection::Backward(1),
        Some("first") => FetchDirection::First,
        Some("last") => FetchDirection::Last,
        Some("absolute") => FetchDirection::Absolute(reader.integer()?),
        Some("relative") => FetchDirection::Relative(reader.integer()?),
        Some(word) => {
            let (all, some): (_, fn(i64) -> _) = match word {
                "forward" => (FetchDirection::All, FetchDirection::Forward),
                _ => (FetchDirection::BackwardAll, FetchDirection::Backward),
            };
            if reader.eat("all") {
                all
            } else if matches!(reader.token(0), Token::Number(..) | Token::Minus | Token::Plus) {
                some(reader.integer()?)
            } else {
                some(1)
            }
        }
    })
}

/// `CLOSE name | ALL`.
pub(crate) fn close(reader: &mut Reader) -> Result<Statement> {
    reader.expect("close")?;
    if reader.eat("all") {
        return Ok(Statement::Close(None));
    }
    reader.name().map(|name| Statement::Close(Some(name)))
}
