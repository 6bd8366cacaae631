//! The options of a COPY, checked as PostgreSQL checks them and completed with its defaults.

use keyspan_cql::{CopyFormat, CopyHeader, CopyOptions};
use keyspan_model::{Error, ErrorKind, Result};

/// What stands before the rows of a binary COPY.
pub(super) const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";

/// How one COPY reads or writes.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) format: CopyFormat,
    pub(super) header: CopyHeader,
    pub(super) delimiter: u8,
    pub(super) null: Vec<u8>,
    pub(super) quote: u8,
    pub(super) escape: u8,
}

impl Rules {
    /// The rules of a statement with these options.
    ///
    /// # Errors
    /// 22023 and 42601 for options that contradict each other, 0A000 for what is not supported, as in PostgreSQL.
    pub(super) fn new(options: &CopyOptions, is_from: bool) -> Result<Rules> {
        let csv = options.format == CopyFormat::Csv;
        let default_delimiter = if csv { ',' } else { '\t' };
        let default_null = if csv { "" } else { "\\N" };
        let quote = one_byte(options.quote.unwrap_or('"'), "quote")?;
        let rules = Rules {
            format: options.format,
            header: options.header,
            delimiter: one_byte(options.delimiter.unwrap_or(default_delimiter), "delimiter")?,
            null: options.null.as_deref().unwrap_or(default_null).as_bytes().to_vec(),
            quote,
            escape: options.escape.map_or(Ok(quote), |escape| one_byte(escape, "escape"))?,
        };
        check_format(options)?;
        check_direction(options, is_from)?;
        if options.format != CopyFormat::Binary {
            rules.check_characters(csv)?;
        }
        Ok(rules)
    }

    fn check_characters(&self, csv: bool) -> Result<()> {
        let line_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
        if line_end(&self.delimiter) {
            return Err(wrong("COPY delimiter cannot be newline or carriage return"));
        }
        if self.null.iter().any(line_end) {
            return Err(wrong("COPY null representation cannot use newline or carriage return"));
        }
        if !csv && b"\\.abcdefghijklmnopqrstuvwxyz0123456789".contains(&self.delimiter) {
            return Err(wrong(format!("COPY delimiter cannot be \"{}\"", char::from(self.delimiter))));
        }
        if csv && self.delimiter == self.quote {
            return Err(wrong("COPY delimiter and quote must be different"));
        }
        if self.null.contains(&self.delimiter) {
            return Err(wrong("COPY delimiter character must not appear in the NULL specification"));
        }
        if csv && self.null.contains(&self.quote) {
            return Err(wrong("CSV quote character must not appear in the NULL specification"));
        }
        Ok(())
    }
}

fn check_format(options: &CopyOptions) -> Result<()> {
    if options.format == CopyFormat::Binary {
        let given = [
            (options.delimiter.is_some(), "DELIMITER"),
            (options.null.is_some(), "NULL"),
            (options.header != CopyHeader::None, "HEADER"),
        ];
        if let Some((_, name)) = given.iter().find(|(given, _)| *given) {
            return Err(Error::new(ErrorKind::Syntax, format!("cannot specify {name} in BINARY mode")));
        }
        if options.ignore_errors {
            return Err(Error::new(ErrorKind::Syntax, "only ON_ERROR STOP is allowed in BINARY mode"));
        }
    }
    if options.format != CopyFormat::Csv {
        let given = [
            (options.quote.is_some(), "QUOTE"),
            (options.escape.is_some(), "ESCAPE"),
            (options.force_quote.is_some(), "FORCE_QUOTE"),
            (!options.force_not_null.is_empty(), "FORCE_NOT_NULL"),
            (!options.force_null.is_empty(), "FORCE_NULL"),
        ];
        if let Some((_, name)) = given.iter().find(|(given, _)| *given) {
            return Err(Error::not_supported(format!("COPY {name} requires CSV mode")));
        }
    }
    match options.encoding.as_deref().map(str::to_ascii_lowercase).as_deref() {
        None | Some("utf8" | "utf-8" | "unicode") => Ok(()),
        Some(other) => Err(Error::not_supported(format!("COPY with ENCODING \"{other}\" is not supported"))
            .with_hint("Convert the data to UTF-8 first, as with iconv.")),
    }
}

fn check_direction(options: &CopyOptions, is_from: bool) -> Result<()> {
    let direction = if is_from { "COPY FROM" } else { "COPY TO" };
    let misplaced = match is_from {
        true => options.force_quote.is_some().then_some("FORCE_QUOTE"),
        false => (!options.force_not_null.is_empty())
            .then_some("FORCE_NOT_NULL")
            .or((!options.force_null.is_empty()).then_some("FORCE_NULL")),
    };
    if let Some(name) = misplaced {
        return Err(Error::not_supported(format!("COPY {name} cannot be used with {direction}")));
    }
    if !is_from && options.ignore_errors {
        return Err(wrong("COPY ON_ERROR cannot be used with COPY TO"));
    }
    if options.reject_limit.is_some() && !options.ignore_errors {
        return Err(wrong("COPY REJECT_LIMIT requires ON_ERROR to be set to IGNORE"));
    }
    if options.default.is_some() {
        return Err(Error::not_supported("COPY with DEFAULT is not supported")
            .with_hint("Leave the column out of the COPY's column list to give it its default."));
    }
    if !is_from && options.header == CopyHeader::Match {
        return Err(Error::not_supported("cannot use \"match\" with HEADER in COPY TO"));
    }
    Ok(())
}

fn one_byte(character: char, what: &str) -> Result<u8> {
    match u8::try_from(character) {
        Ok(byte) if byte.is_ascii() => Ok(byte),
        _ => Err(Error::not_supported(format!("COPY {what} must be a single one-byte character"))),
    }
}

fn wrong(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidParameter, message)
}
