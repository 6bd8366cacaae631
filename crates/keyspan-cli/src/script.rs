//! Lines cut into statements, without understanding them, and the `:variables` of psql put in.
//!
//! The rule: a semicolon ends a statement, and a backslash begins a command of the shell, unless it stands in a string, a
//! quoted name, a `$tag$` text or a comment. A variable that is not set stays as it was typed. Whether the rest is a
//! statement is the database's to say.

use std::rc::Rc;

use keyspan::quoted;

/// The value of a variable.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Why reading a line has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The statement is whole; its semicolon belongs to it.
    Semicolon,
    /// A command of the shell begins.
    Backslash,
    /// The line has ended.
    End,
}

/// What the next character stands in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Plain,
    Text {
        escapes: bool,
    },
    Name,
    /// With the tag that ends it, dollars included.
    Dollar(String),
    /// So many comments deep.
    Comment(usize),
}

/// Reads lines one after the other.
#[derive(Clone, Debug, Default)]
pub struct Lexer {
    state: State,
}

/// A line that is being read, and the values of variables that stand in it.
#[derive(Debug)]
pub struct Line {
    /// The name of the variable, its text, and how much of it has been read.
    levels: Vec<(String, Rc<str>, usize)>,
}

impl Line {
    /// A line, with its end.
    pub fn new(text: &str) -> Line {
        Line { levels: vec![(String::new(), text.into(), 0)] }
    }

    /// Takes all that has not been read.
    pub fn take_rest(&mut self) -> String {
        let levels = std::mem::take(&mut self.levels);
        levels.iter().rev().map(|(_, text, at)| &text[*at..]).collect()
    }

    /// Goes on with this text.
    pub fn push(&mut self, name: &str, text: String) {
        self.levels.push((name.to_string(), text.into(), 0));
    }

    fn skip(&mut self, bytes: usize) {
        if let Some((_, _, at)) = self.levels.last_mut() {
            *at += bytes;
        }
    }
}

impl Lexer {
    /// Whether a statement may end here: neither a text nor a comment is open.
    pub fn is_plain(&self) -> bool {
        self.state == State::Plain
    }

    /// Whether a comment is open.
    pub fn is_in_comment(&self) -> bool {
        matches!(self.state, State::Comment(_))
    }

    /// What a prompt says of the state: psql's `'`, `"`, `$`, `*`, or nothing.
    pub fn prompt(&self) -> &'static str {
        match self.state {
            State::Plain => "",
            State::Text { .. } => "'",
            State::Name => "\"",
            State::Dollar(_) => "$",
            State::Comment(_) => "*",
        }
    }

    /// Moves the line's text to the statement, up to the end of the statement or to a command.
    pub fn read(&mut self, line: &mut Line, statement: &mut String, value: Lookup) -> Stop {
        loop {
            let Some((_, text, at)) = line.levels.last() else { return Stop::End };
            let (text, at) = (Rc::clone(text), *at);
            let rest = &text[at..];
            if rest.is_empty() {
                line.levels.pop();
                continue;
            }
            if let Some(variable) = (self.state == State::Plain).then(|| variable(rest)).flatten() {
                self.replace(line, statement, &variable, value);
                continue;
            }
            if let Some(stop) = self.take(rest, line, statement) {
                return stop;
            }
        }
    }

    /// Takes text up to where a variable may stand, a statement ends or a command begins.
    fn take(&mut self, rest: &str, line: &mut Line, statement: &mut String) -> Option<Stop> {
        let mut at = 0;
        let stop = loop {
            let left = &rest[at..];
            if left.is_empty() || (at > 0 && self.state == State::Plain && variable(left).is_some()) {
                break None;
            }
            match (&self.state, left.as_bytes()) {
                (State::Plain, [b';', ..]) => {
                    at += 1;
                    break Some(Stop::Semicolon);
                }
                // A semicolon that ends nothing, as psql has it.
                (State::Plain, [b'\\', b';', ..]) => {
                    statement.push_str(&rest[..at]);
                    statement.push(';');
                    line.skip(at + 2);
                    return None;
                }
                (State::Plain, [b'\\', ..]) => break Some(Stop::Backslash),
                _ => at += self.step(left),
            }
        };
        statement.push_str(&rest[..at]);
        line.skip(at);
        stop
    }

    /// The bytes of the token that begins a text; changes the state at quotes.
    fn step(&mut self, text: &str) -> usize {
        let bytes = text.as_bytes();
        let (taken, state) = match &self.state {
            State::Plain => return self.plain(text),
            State::Text { escapes } => within(bytes, b'\'', *escapes),
            State::Name => within(bytes, b'"', false),
            State::Dollar(tag) => match text.find(tag.as_str()) {
                Some(at) => (at + tag.len(), true),
                None => (text.len(), false),
            },
            State::Comment(depth) => {
                let (taken, depth) = comment(bytes, *depth);
                self.state = if depth == 0 { State::Plain } else { State::Comment(depth) };
                return taken;
            }
        };
        if state {
            self.state = State::Plain;
        }
        taken
    }

    fn plain(&mut self, text: &str) -> usize {
        let bytes = text.as_bytes();
        match bytes {
            [b'\'', ..] => self.open(State::Text { escapes: false }, 1),
            [b'e' | b'E', b'\'', ..] => self.open(State::Text { escapes: true }, 2),
            [b'"', ..] => self.open(State::Name, 1),
            [b'-', b'-', ..] | [b'/', b'/', ..] => text.find('\n').unwrap_or(text.len()),
            [b'/', b'*', ..] => self.open(State::Comment(1), 2),
            [b'$', ..] => match dollar_tag(text) {
                Some(tag) => self.open(State::Dollar(tag.to_string()), tag.len()),
                None => 1,
            },
            // Two points are a cast.
            [b':', b':' | b'=', ..] => 2,
            [byte, ..] if byte.is_ascii_alphanumeric() || *byte == b'_' => word(text),
            _ => text.chars().next().map_or(1, char::len_utf8),
        }
    }

    fn open(&mut self, state: State, taken: usize) -> usize {
        self.state = state;
        taken
    }

    /// Puts a variable's value in its place; goes on behind its name if it has none.
    fn replace(&mut self, line: &mut Line, statement: &mut String, variable: &Variable, value: Lookup) {
        let Variable { name, form, length } = variable;
        let is_open = line.levels.iter().any(|(open, _, _)| open == name);
        let found = value(name).filter(|_| !is_open || *form != Form::Bare);
        let typed = line.levels.last().map(|(_, text, at)| text[*at..*at + length].to_string()).unwrap_or_default();
        line.skip(*length);
        match (form, found) {
            (Form::IsSet, found) => statement.push_str(if found.is_some() { "TRUE" } else { "FALSE" }),
            (_, None) => statement.push_str(&typed),
            // Its text is read as if it had been typed.
            (Form::Bare, Some(text)) => line.push(name, text),
            (Form::Text, Some(text)) => statement.push_str(&literal(&text)),
            (Form::Name, Some(text)) => statement.push_str(&name_of(&text)),
        }
    }
}

/// A text as a literal.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A text as a quoted name.
fn name_of(text: &str) -> String {
    quoted(text)
}

/// How a variable is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `:name`
    Bare,
    /// `:'name'`
    Text,
    /// `:"name"`
    Name,
    /// `:{?name}`
    IsSet,
}

/// A variable in a text.
#[derive(Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// How it is asked for.
    pub form: Form,
    /// Bytes that asking for it takes.
    pub length: usize,
}

/// The variable that begins a text.
pub fn variable(text: &str) -> Option<Variable> {
    let rest = text.strip_prefix(':')?;
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let found =
        |name: &str, form, around: usize| Variable { name: name.to_string(), form, length: 1 + name.len() + around };
    let end_of = |text: &str| text.find(|c| !is_name(c)).unwrap_or(text.len());
    for (open, close, form) in [("'", "'", Form::Text), ("\"", "\"", Form::Name), ("{?", "}", Form::IsSet)] {
        if let Some(inner) = rest.strip_prefix(open) {
            let name = &inner[..end_of(inner)];
            let closed = !name.is_empty() && inner[name.len()..].starts_with(close);
            return closed.then(|| found(name, form, open.len() + close.len()));
        }
    }
    let name = &rest[..end_of(rest)];
    (!name.is_empty()).then(|| found(name, Form::Bare, 0))
}

/// Whether a text has nothing but blanks, comments and semicolons.
pub fn is_blank(text: &str) -> bool {
    after_comments(text).is_empty()
}

/// A text from its first character on that is no blank, comment or semicolon.
pub fn after_comments(text: &str) -> &str {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ';');
        let taken = match rest.as_bytes() {
            [b'-', b'-', ..] | [b'/', b'/', ..] => rest.find('\n').unwrap_or(rest.len()),
            [b'/', b'*', ..] => 2 + comment(&rest.as_bytes()[2..], 1).0,
            _ => return rest,
        };
        rest = &rest[taken..];
    }
}

/// Words are taken whole, so that the `e` at the end of `name'…'` begins no string.
fn word(text: &str) -> usize {
    text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').unwrap_or(text.len())
}

/// How far a quoted text goes, and whether it ends there. A doubled quote is two quoted texts side by side, which end at
/// the same place.
fn within(bytes: &[u8], quote: u8, escapes: bool) -> (usize, bool) {
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        at += if escapes && *byte == b'\\' { 2 } else { 1 };
        if *byte == quote {
            // Of a text with escapes a doubled quote must not begin one without.
            match escapes && bytes.get(at) == Some(&quote) {
                true => at += 1,
                false => return (at, true),
            }
        }
    }
    (at.min(bytes.len()), false)
}

/// How far comments go that are so deep, and how deep they are then.
fn comment(bytes: &[u8], mut depth: usize) -> (usize, usize) {
    let mut at = 0;
    while depth > 0 && at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => (at, depth) = (at + 2, depth + 1),
            [b'*', b'/', ..] => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
    }
    (at.min(bytes.len()), depth)
}

/// `$tag$`; none if it is not one, as `$1`.
fn dollar_tag(text: &str) -> Option<&str> {
    let end = text[1..].find('$')? + 1;
    let name = &text[1..end];
    let is_tag =
        !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_tag.then(|| &text[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The statements of a text, read line by line, and what is left.
    fn split(text: &str) -> (Vec<String>, String) {
        let (mut lexer, mut statement, mut statements) = (Lexer::default(), String::new(), Vec::new());
        let value = |name: &str| match name {
            "t" => Some("flights".to_string()),
            "it" => Some("it's".to_string()),
            "two" => Some("SELECT 1; SELECT :t;".to_string()),
            "circle" => Some(":circle".to_string()),
            _ => None,
        };
        for line in text.split_inclusive('\n') {
            let mut line = Line::new(line);
            while lexer.read(&mut line, &mut statement, &value) == Stop::Semicolon {
                statements.push(std::mem::take(&mut statement).trim().to_string());
            }
        }
        (statements, statement)
    }

    #[test]
    fn only_bare_semicolons_end_statements() {
        let pieces = [
            "SELECT ';', \";\", E'\\';', E'a'';', 'it''s;';",
            "SELECT $$;$$, $a$ $$ ; $a$, $1;",
            "SELECT $$ one;\n two; $$, 'three;\nfour;';",
            "-- one; two\nSELECT 1;",
            "/* ; /* ; \n */ ; */ SELECT name'x;y';",
            "// cql; comment\nSELECT 'ö';",
        ];
        for piece in pieces {
            assert_eq!(split(piece), (vec![piece.to_string()], String::new()), "{piece}");
        }
        assert_eq!(split("SELECT 1; SELECT 'a;"), (vec!["SELECT 1;".to_string()], " SELECT 'a;".to_string()));
        assert_eq!(split("SELECT 1\\; SELECT 2;").0, ["SELECT 1; SELECT 2;"]);
    }

    #[test]
    fn variables_are_put_in_as_psql_does() {
        let one = |text: &str| split(text).0.join("|");
        assert_eq!(one("SELECT * FROM :t WHERE a = :'it';"), "SELECT * FROM flights WHERE a = 'it''s';");
        assert_eq!(one("SELECT :\"t\", :\"it\", :{?t}, :{?u};"), "SELECT flights, \"it's\", TRUE, FALSE;");
        assert_eq!(one(":two"), "SELECT 1;|SELECT flights;");
        // What is not set, is quoted or is no variable stays.
        for same in ["SELECT ':t', \":t\", x::t, :u, :'u', a[1:2], {'a':1};", "SELECT $$:t$$; -- :t", ":circle;"] {
            assert!(split(same).0.concat().starts_with(same.split(" --").next().expect("a part")), "{same}");
        }
    }

    #[test]
    fn a_backslash_begins_a_command() {
        let (mut lexer, mut statement, mut line) =
            (Lexer::default(), String::new(), Line::new("SELECT '\\' \\gx out\n"));
        assert_eq!(lexer.read(&mut line, &mut statement, &|_| None), Stop::Backslash);
        assert_eq!((statement.as_str(), line.take_rest().as_str()), ("SELECT '\\' ", "\\gx out\n"));
    }

    #[test]
    fn comments_and_semicolons_are_blank() {
        assert!(is_blank(" ; -- x\n/* y */ // z") && !is_blank("x") && !is_blank("/* a */ b"));
    }
}
