//! The arguments of a command, as psql reads them: blanks between them, quotes around them, variables in them, and an
//! unquoted backslash behind them.

use crate::failure::{Failure, Result};
use crate::script::{Form, Lookup, literal, variable};

/// What follows a command's name.
pub(super) struct Arguments<'a> {
    rest: &'a str,
    value: Lookup<'a>,
}

impl<'a> Arguments<'a> {
    /// Arguments in a text, with the values of variables.
    pub(super) fn new(rest: &'a str, value: Lookup<'a>) -> Arguments<'a> {
        Arguments { rest, value }
    }

    /// The next argument.
    pub(super) fn next(&mut self) -> Result<Option<String>> {
        self.rest = self.rest.trim_start();
        if self.rest.is_empty() || self.rest.starts_with('\\') {
            return Ok(None);
        }
        let mut argument = String::new();
        while let Some(first) = self.rest.chars().next().filter(|c| !c.is_whitespace() && *c != '\\') {
            match first {
                '\'' => self.text(&mut argument)?,
                '"' => self.name(&mut argument)?,
                '`' => self.command(&mut argument)?,
                ':' if variable(self.rest).is_some() => self.variable(&mut argument),
                other => self.take(other.len_utf8(), &mut argument),
            }
        }
        Ok(Some(argument))
    }

    /// All arguments that are left.
    pub(super) fn all(&mut self) -> Result<Vec<String>> {
        std::iter::from_fn(|| self.next().transpose()).collect()
    }

    /// A file, or all of the line if it begins with `|`: a program.
    pub(super) fn file_or_program(&mut self) -> Result<Option<String>> {
        self.rest = self.rest.trim_start();
        if self.rest.starts_with('|') { Ok(Some(self.line())) } else { self.next() }
    }

    /// All of the line.
    pub(super) fn line(&mut self) -> String {
        std::mem::take(&mut self.rest).trim().to_string()
    }

    /// What follows the command on its line: `\\` only ends it.
    pub(super) fn rest(&self) -> String {
        let rest = self.rest.trim_start();
        rest.strip_prefix("\\\\").unwrap_or(rest).to_string()
    }

    fn take(&mut self, bytes: usize, argument: &mut String) {
        argument.push_str(&self.rest[..bytes]);
        self.rest = &self.rest[bytes..];
    }

    fn variable(&mut self, argument: &mut String) {
        let Some(found) = variable(self.rest) else { return };
        match (found.form, (self.value)(&found.name)) {
            (Form::IsSet, value) => argument.push_str(if value.is_some() { "TRUE" } else { "FALSE" }),
            (_, None) => argument.push_str(&self.rest[..found.length]),
            (Form::Bare, Some(value)) => argument.push_str(&value),
            (Form::Text, Some(value)) => argument.push_str(&literal(&value)),
            (Form::Name, Some(value)) => argument.push_str(&keyspan::quoted(&value)),
        }
        self.rest = &self.rest[found.length..];
    }

    /// `'…'` with the escapes of C.
    fn text(&mut self, argument: &mut String) -> Result<()> {
        let mut rest = self.rest[1..].chars();
        loop {
            match rest.next() {
                None => return Err(Failure::new("unterminated quoted string")),
                Some('\'') if rest.as_str().starts_with('\'') => {
                    rest.next();
                    argument.push('\'');
                }
                Some('\'') => break,
                Some('\\') => argument.push(match rest.next() {
                    Some('n') => '\n',
                    Some('t') => '\t',
                    Some('r') => '\r',
                    Some('b') => '\u{8}',
                    Some('f') => '\u{c}',
                    Some('0') => '\0',
                    Some(other) => other,
                    None => return Err(Failure::new("unterminated quoted string")),
                }),
                Some(other) => argument.push(other),
            }
        }
        self.rest = rest.as_str();
        Ok(())
    }

    /// `"…"`: its quotes stay, they belong to the name.
    fn name(&mut self, argument: &mut String) -> Result<()> {
        let end = self.rest[1..].find('"').ok_or_else(|| Failure::new("unterminated quoted string"))?;
        self.take(end + 2, argument);
        Ok(())
    }

    /// `` `…` ``: what a program prints.
    fn command(&mut self, argument: &mut String) -> Result<()> {
        let end = self.rest[1..].find('`').ok_or_else(|| Failure::new("unterminated backquoted string"))?;
        let command = &self.rest[1..=end];
        let output = std::process::Command::new("sh").arg("-c").arg(command).output()?;
        if !output.status.success() {
            return Err(Failure::new(format!("`{command}` ended with {}", output.status)));
        }
        argument.push_str(String::from_utf8_lossy(&output.stdout).trim_end_matches('\n'));
        self.rest = &self.rest[end + 2..];
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_as_psql_reads_them() {
        let value = |name: &str| (name == "x").then(|| "a b".to_string());
        let read = |text: &str| {
            let mut arguments = Arguments::new(text, &value);
            (arguments.all().expect("arguments"), arguments.rest())
        };
        let owned = |all: &[&str], rest: &str| (all.iter().map(|text| text.to_string()).collect(), rest.to_string());
        assert_eq!(read(" one 'two words' 'it''s\\n'"), owned(&["one", "two words", "it's\n"], ""));
        assert_eq!(read(":x :'x' :\"x\" :y x:x"), owned(&["a b", "'a b'", "\"a b\"", ":y", "xa b"], ""));
        assert_eq!(read("\"My Table\".x `echo hello`"), owned(&["\"My Table\".x", "hello"], ""));
        assert_eq!(read("on \\\\ SELECT 1;"), owned(&["on"], " SELECT 1;"));
        assert_eq!(read("on \\x"), owned(&["on"], "\\x"));
        assert!(Arguments::new("'open", &value).next().is_err());
        assert_eq!(
            Arguments::new("| grep 'x' | head", &value).file_or_program().ok().flatten().as_deref(),
            Some("| grep 'x' | head")
        );
    }
}
