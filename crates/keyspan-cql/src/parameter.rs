//! Parameters: `$1`, `?` and `:name` all become `$n`, since that is the one form that DataFusion and the wire know.
//!
//! `?` are numbered from left to right; `:name` by first appearance, the same name the same number. One statement keeps
//! to one kind, since a mixture has no order that everyone would guess.

use keyspan_model::{Error, ErrorKind, Result};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::source::start;
use crate::statement::Parameter;

/// The most parameters of a statement: the wire protocol counts them in 16 bits.
const MAX_PARAMETERS: usize = 65_535;

/// Numbers the parameters of a statement.
pub(crate) fn number(tokens: &mut [TokenWithSpan]) -> Result<Vec<Parameter>> {
    let mut parameters: Vec<Parameter> = Vec::new();
    let mut names = std::collections::HashMap::new();
    let mut kind = None;
    for token in tokens {
        let at = start(token.span) + 1;
        let Token::Placeholder(text) = &mut token.token else { continue };
        let first = text.chars().next();
        if *kind.get_or_insert(first) != first {
            let error =
                Error::new(ErrorKind::Syntax, "cannot mix the parameter forms $1, ? and :name in one statement");
            return Err(error.at(at));
        }
        let number = match first {
            Some('$') => dollar_number(text, at)?,
            Some(':') => {
                let name = text[1..].to_owned();
                *names.entry(name.clone()).or_insert_with(|| {
                    parameters.push(Parameter { name: Some(name) });
                    parameters.len()
                })
            }
            _ => parameters.len() + 1,
        };
        if number > MAX_PARAMETERS {
            let error =
                Error::new(ErrorKind::LimitExceeded, format!("statement has more than {MAX_PARAMETERS} parameters"));
            return Err(error.at(at));
        }
        if number > parameters.len() {
            parameters.resize(number, Parameter::default());
        }
        *text = format!("${number}");
    }
    Ok(parameters)
}

fn dollar_number(text: &str, at: usize) -> Result<usize> {
    match text[1..].parse::<usize>() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(Error::new(ErrorKind::UndefinedParameter, format!("there is no parameter {text}")).at(at)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::tokenize;

    fn numbered(sql: &str) -> Result<(String, Vec<Option<String>>)> {
        let mut tokens = tokenize(sql).expect("lexes");
        let parameters = number(&mut tokens)?;
        let text = tokens.iter().map(|token| token.token.to_string()).collect::<Vec<_>>().join(" ");
        Ok((text, parameters.into_iter().map(|parameter| parameter.name).collect()))
    }

    #[test]
    fn every_form_becomes_a_number() {
        let named = |names: &[&str]| names.iter().map(|name| Some(name.to_string())).collect::<Vec<_>>();
        assert_eq!(numbered("a = ? or b in (?, ?-1)"), Ok(("a = $1 or b in ( $2 , $3 - 1 )".into(), vec![None; 3])));
        assert_eq!(
            numbered("x > :A and y = :b or z = :a"),
            Ok(("x > $1 and y = $2 or z = $1".into(), named(&["a", "b"])))
        );
        assert_eq!(numbered("$2 + $1"), Ok(("$2 + $1".into(), vec![None; 2])));
        assert_eq!(numbered("j ? 'k' and j ?| a"), Ok(("j ? 'k' and j ?| a".into(), vec![])));
    }

    #[test]
    fn wrong_ones_are_refused() {
        assert!(numbered("$1 + ?").is_err());
        assert!(numbered("$0").is_err());
        assert!(numbered("$99999").is_err());
        assert!(numbered("$99999999999999999999999").is_err());
    }
}
