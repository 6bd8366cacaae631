//! What stands behind the table of a command: plain arguments in their order, then attributes by name.

use keyspan_cql::{HbaseArgument, HbaseCommand, HbaseValue};
use keyspan_model::{Error, ErrorKind, Result};

use super::invalid;

/// The arguments that nobody has asked for yet.
pub(super) struct Arguments<'a> {
    plain: std::vec::IntoIter<&'a HbaseArgument>,
    attributes: Vec<&'a (String, HbaseArgument)>,
}

impl<'a> Arguments<'a> {
    pub(super) fn of(command: &'a HbaseCommand) -> Arguments<'a> {
        let (mut plain, mut attributes) = (Vec::new(), Vec::new());
        for argument in &command.arguments {
            match &argument.value {
                HbaseValue::Attributes(more) => attributes.extend(more),
                _ => plain.push(argument),
            }
        }
        Arguments { plain: plain.into_iter(), attributes }
    }

    /// The next plain argument.
    pub(super) fn take_next(&mut self) -> Option<&'a HbaseArgument> {
        self.plain.next()
    }

    /// The next plain argument, which must be there.
    pub(super) fn expect(&mut self, what: &str) -> Result<&'a HbaseArgument> {
        self.take_next().ok_or_else(|| Error::new(ErrorKind::Syntax, format!("the command lacks the {what}")))
    }

    /// The attribute of one of these names, the last one if there are several.
    pub(super) fn take(&mut self, names: &[&str]) -> Option<&'a HbaseArgument> {
        let found = self.attributes.iter().rfind(|(name, _)| names.contains(&name.as_str())).map(|(_, value)| value);
        self.attributes.retain(|(name, _)| !names.contains(&name.as_str()));
        found
    }

    /// Leaves out attributes that say how HBase should work, not what it should answer.
    pub(super) fn ignore(&mut self, names: &[&str]) {
        self.attributes.retain(|(name, _)| !names.contains(&name.as_str()));
    }

    /// Nothing else may have been given. `known` are the names that could have been.
    pub(super) fn end_of(mut self, known: &[&str]) -> Result<()> {
        if let Some(argument) = self.plain.next() {
            return Err(Error::new(ErrorKind::Syntax, "the command has too many arguments").at(argument.position));
        }
        match self.attributes.first() {
            None => Ok(()),
            Some((name, argument)) => {
                let error = Error::not_supported(format!("attribute {name} is not supported")).at(argument.position);
                Err(match known {
                    [] => error,
                    known => error.with_hint(format!("There are {}. SELECT can do the rest.", known.join(", "))),
                })
            }
        }
    }

    /// As [`Arguments::end_of`], where no attribute is known.
    pub(super) fn end(self) -> Result<()> {
        self.end_of(&[])
    }
}

/// The text of an argument; numbers and words are texts as they are written.
pub(super) fn text(argument: &HbaseArgument) -> Result<&str> {
    text_of(&argument.value).ok_or_else(|| invalid("a text is needed here").at(argument.position))
}

fn text_of(value: &HbaseValue) -> Option<&str> {
    match value {
        HbaseValue::Text(text) | HbaseValue::Number(text) | HbaseValue::Word(text) => Some(text),
        HbaseValue::List(_) | HbaseValue::Attributes(_) => None,
    }
}

/// A text, or the texts of a list.
pub(super) fn texts(argument: &HbaseArgument) -> Result<Vec<&str>> {
    let texts = match &argument.value {
        HbaseValue::List(values) => values.iter().map(text_of).collect(),
        value => text_of(value).map(|text| vec![text]),
    };
    texts.ok_or_else(|| invalid("a text or a list of texts is needed here").at(argument.position))
}

/// A whole number; in HBase a text of one will do.
pub(super) fn integer(argument: &HbaseArgument) -> Result<i64> {
    let number = text_of(&argument.value).and_then(|text| text.parse().ok());
    number.ok_or_else(|| invalid("a whole number is needed here").at(argument.position))
}

/// A whole number from 1.
pub(super) fn count(argument: &HbaseArgument) -> Result<i64> {
    match integer(argument)? {
        count if count > 0 => Ok(count),
        _ => Err(invalid("a number from 1 is needed here").at(argument.position)),
    }
}

/// `true` or `false`.
pub(super) fn boolean(argument: &HbaseArgument) -> Result<bool> {
    match text_of(&argument.value).map(str::to_lowercase).as_deref() {
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        _ => Err(invalid("true or false is needed here").at(argument.position)),
    }
}

/// Milliseconds since 1970, in microseconds.
pub(super) fn microseconds(argument: &HbaseArgument) -> Result<i64> {
    scaled(integer(argument)?).ok_or_else(|| out_of_range(argument))
}

/// `[from, until]` in milliseconds, in microseconds.
pub(super) fn range(argument: &HbaseArgument) -> Result<(i64, i64)> {
    let HbaseValue::List(values) = &argument.value else {
        return Err(invalid("a range is [from, until] in milliseconds").at(argument.position));
    };
    let numbers: Option<Vec<i64>> = values.iter().map(|value| text_of(value)?.parse().ok()).collect();
    match numbers.as_deref() {
        Some([from, until]) if from <= until => scaled(*from).zip(scaled(*until)).ok_or_else(|| out_of_range(argument)),
        _ => Err(invalid("a range is [from, until] in milliseconds").at(argument.position)),
    }
}

/// The last millisecond stands for all time, as `Long.MAX_VALUE` does.
fn scaled(milliseconds: i64) -> Option<i64> {
    if milliseconds == i64::MAX { Some(i64::MAX) } else { milliseconds.checked_mul(1_000) }
}

fn out_of_range(argument: &HbaseArgument) -> Error {
    Error::new(ErrorKind::NumericOverflow, "timestamp out of range").at(argument.position)
}
