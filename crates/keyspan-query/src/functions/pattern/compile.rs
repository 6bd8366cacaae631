//! A regular expression of PostgreSQL's as one of the library's.
//!
//! What is written otherwise: words begin and end with `\\m` and `\\M`, `\\y` is at either; a dot is any character, the end
//! of a line too, unless a flag says other; options stand before the pattern, `(?i)`; a `{` that no number follows is a
//! character; in brackets only `[:…:]` is special. Of alternatives the longest match counts, not the first one.
//! A match with backreferences, lookaround or alternatives goes back and tries again; past a number of steps that is an
//! error (54001).

use std::rc::Rc;

use fancy_regex::{CompileError, Regex, RegexBuilder};
use keyspan_model::{Error, ErrorKind, Result};

use super::super::compiled::Compiled;

/// A compiled pattern. It is shared, never copied: a copy of the library's expression begins without what that has found
/// out while matching.
pub struct Pattern {
    /// The pattern.
    pub regex: Regex,
    /// Flag `g`: all matches.
    pub global: bool,
}

thread_local! {
    static PATTERNS: Compiled<(String, String), Rc<Pattern>> = Compiled::default();
}

/// The pattern with these flags.
///
/// # Errors
/// 2201B for what is no pattern, 22023 for what is no flag, 54001 for one that is too large.
pub fn compiled(pattern: &str, flags: &str) -> Result<Rc<Pattern>> {
    let make = || Ok(((pattern.to_owned(), flags.to_owned()), Rc::new(compile(pattern, flags)?)));
    PATTERNS.with(|patterns| patterns.get(|(own, of)| own == pattern && of == flags, make))
}

fn compile(pattern: &str, flags: &str) -> Result<Pattern> {
    let read = with_options(pattern, Options::parse(flags)?)?;
    let options = read.options;
    let mut builder = RegexBuilder::new(&read.text);
    builder.case_insensitive(options.insensitive).ignore_whitespace(options.expanded);
    builder.dot_matches_new_line(!options.dot_stops).multi_line(options.lines);
    builder.leftmost_longest(read.alternatives && !read.lazy);
    let regex = builder.build().map_err(|error| invalid(pattern, error))?;
    Ok(Pattern { regex, global: options.global })
}

/// [`compiled`] for a function to which all matches mean nothing: 22023 for flag `g`.
pub fn compiled_once(function: &str, pattern: &str, flags: &str) -> Result<Rc<Pattern>> {
    let pattern = compiled(pattern, flags)?;
    match pattern.global {
        true => {
            let message = format!("{function}() does not support the \"global\" option");
            Err(Error::new(ErrorKind::InvalidParameter, message))
        }
        false => Ok(pattern),
    }
}

/// A pattern that is the library's already.
pub fn of_library(pattern: &str) -> Result<Regex> {
    Regex::new(pattern).map_err(|error| invalid(pattern, error))
}

/// The pattern of an operator, with its options in front, for the library whose time for a match is linear; none if it
/// has backreferences or lookaround, which that one lacks.
///
/// # Errors
/// As [`compiled`].
pub fn translated(pattern: &str) -> Result<Option<String>> {
    compiled(pattern, "")?;
    let read = with_options(pattern, Options::default())?;
    if read.backtracks {
        return Ok(None);
    }
    let (translated, options) = (read.text, read.options);
    let mut letters = String::new();
    letters.push_str(if options.insensitive { "i" } else { "" });
    letters.push_str(if options.expanded { "x" } else { "" });
    letters.push_str(if options.lines { "m" } else { "" });
    letters.push_str(if !options.dot_stops && translated.contains('.') { "s" } else { "" });
    let options = if letters.is_empty() { String::new() } else { format!("(?{letters})") };
    // DataFusion makes LIKE of what is but letters, and does not escape a backslash there. With a group it does not.
    let group = if translated.contains(r"\\") || translated.to_ascii_lowercase().contains("5c") { "()" } else { "" };
    Ok(Some(format!("{options}{group}{translated}")))
}

/// What went wrong while a pattern was compiled, or matched.
pub fn invalid(pattern: &str, error: fancy_regex::Error) -> Error {
    let too_large = match &error {
        fancy_regex::Error::RuntimeError(_) => true,
        fancy_regex::Error::CompileError(error) => {
            matches!(error.as_ref(), CompileError::InnerError(inner) if inner.size_limit().is_some())
        }
        _ => false,
    };
    match too_large {
        true => Error::new(ErrorKind::TooComplex, format!("regular expression is too complex: {pattern}")),
        false => Error::new(ErrorKind::InvalidRegex, "invalid regular expression").with_detail(error.to_string()),
    }
}

#[derive(Clone, Copy, Default)]
struct Options {
    global: bool,
    insensitive: bool,
    expanded: bool,
    literal: bool,
    /// A dot and `[^…]` do not match the end of a line.
    dot_stops: bool,
    /// `^` and `$` match at each line.
    lines: bool,
}

impl Options {
    fn parse(flags: &str) -> Result<Options> {
        let mut options = Options::default();
        flags.chars().try_for_each(|flag| options.add(flag))?;
        Ok(options)
    }

    fn add(&mut self, flag: char) -> Result<()> {
        match flag {
            'g' => self.global = true,
            'c' => self.insensitive = false,
            'i' => self.insensitive = true,
            'm' | 'n' => (self.dot_stops, self.lines) = (true, true),
            'p' => (self.dot_stops, self.lines) = (true, false),
            'w' => (self.dot_stops, self.lines) = (false, true),
            's' => (self.dot_stops, self.lines) = (false, false),
            'q' => self.literal = true,
            'x' => self.expanded = true,
            't' => self.expanded = false,
            'e' => {}
            'b' => return Err(Error::not_supported("basic regular expressions are not supported")),
            other => {
                let message = format!("invalid regular expression option: \"{other}\"");
                return Err(Error::new(ErrorKind::InvalidParameter, message));
            }
        }
        Ok(())
    }
}

/// A pattern in the library's words.
struct Translated {
    text: String,
    /// Those that stand before the pattern, too.
    options: Options,
    /// It has backreferences or lookaround.
    backtracks: bool,
    /// It has a `|`.
    alternatives: bool,
    /// It has a quantifier that takes as little as it can.
    lazy: bool,
    /// Groups that can be referred to, so far.
    groups: usize,
}

impl Translated {
    fn new(text: String, options: Options) -> Translated {
        Translated { text, options, backtracks: false, alternatives: false, lazy: false, groups: 0 }
    }
}

fn with_options(pattern: &str, mut options: Options) -> Result<Translated> {
    let literal = |text: &str, options| Ok(Translated::new(fancy_regex::escape(text).into_owned(), options));
    if options.literal {
        return literal(pattern, options);
    }
    let mut rest = pattern;
    if let Some(text) = rest.strip_prefix("***=") {
        return literal(text, options);
    }
    rest = rest.strip_prefix("***:").unwrap_or(rest);
    if let Some(inner) = rest.strip_prefix("(?")
        && let Some(end) = inner.find(')')
        && inner[..end].chars().all(|c| c.is_ascii_lowercase())
        && end > 0
    {
        inner[..end].chars().filter(|flag| *flag != 'g').try_for_each(|flag| options.add(flag))?;
        rest = &inner[end + 1..];
        if options.literal {
            return literal(rest, options);
        }
    }
    Translated::new(String::new(), options).all(rest)
}

impl Translated {
    fn all(mut self, pattern: &str) -> Result<Translated> {
        let mut rest = pattern;
        while let Some(c) = rest.chars().next() {
            let taken = match c {
                '\\' => self.backreference(&rest[1..]).map_or_else(|| self.escape(&rest[1..]), Ok)? + 1,
                '[' => self.class(rest)?,
                '(' if rest.starts_with("(?") => {
                    self.group(rest)?;
                    2
                }
                '{' if !rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                    self.text.push_str("\\{");
                    1
                }
                '{' if is_reversed(&rest[1..]) => {
                    let message = "invalid regular expression: invalid repetition count(s)";
                    return Err(Error::new(ErrorKind::InvalidRegex, message));
                }
                c => {
                    self.alternatives |= c == '|';
                    self.lazy |= matches!(c, '*' | '+' | '?' | '}') && rest[1..].starts_with('?');
                    self.groups += usize::from(c == '(');
                    self.text.push(c);
                    c.len_utf8()
                }
            };
            rest = &rest[taken..];
        }
        Ok(self)
    }

    /// `\1` to `\9`, and those of more digits that number a group; its length.
    fn backreference(&mut self, rest: &str) -> Option<usize> {
        let digits = leading(rest, 10);
        let group = digits.parse::<usize>().ok().filter(|group| !digits.starts_with('0') && *group > 0)?;
        if digits.len() > 1 && group > self.groups {
            return None;
        }
        // A digit that follows is a character.
        self.text.push_str(&format!("(?:\\{group})"));
        self.backtracks = true;
        Some(digits.len())
    }

    /// What stands after a backslash; its length.
    fn escape(&mut self, rest: &str) -> Result<usize> {
        let invalid = || Error::new(ErrorKind::InvalidRegex, "invalid regular expression: invalid escape \\ sequence");
        let c = rest.chars().next().ok_or_else(invalid)?;
        let coded = |digits: &str, radix| {
            let code = u32::from_str_radix(digits, radix).ok().and_then(char::from_u32).ok_or_else(invalid)?;
            Ok::<_, Error>(fancy_regex::escape(code.encode_utf8(&mut [0; 4])).into_owned())
        };
        match c {
            '1'..='9' if leading(rest, 10).len() == 1 => return Err(invalid()),
            // A byte in octal digits.
            '0'..='9' => {
                let digits = leading(rest, 8);
                let most = if digits.get(..3).is_some_and(|three| three <= "377") { 3 } else { 2 };
                let digits = &digits[..digits.len().min(most)];
                self.text.push_str(&coded(digits, 8)?);
                return Ok(digits.len());
            }
            'x' => {
                let digits = leading(&rest[1..], 16);
                self.text.push_str(&coded(digits, 16)?);
                return Ok(1 + digits.len());
            }
            'y' => self.text.push_str("\\b"),
            'Y' => self.text.push_str("\\B"),
            'm' => self.text.push_str("\\b{start}"),
            'M' => self.text.push_str("\\b{end}"),
            'Z' => self.text.push_str("\\z"),
            // Digits are those of ASCII, as in PostgreSQL.
            'd' => self.text.push_str("[0-9]"),
            'D' => self.text.push_str("[^0-9]"),
            'b' => self.text.push_str("\\x08"),
            'B' => self.text.push_str("\\\\"),
            'e' => self.text.push_str("\\x1B"),
            c if c.is_ascii_alphanumeric() => self.text.extend(['\\', c]),
            c => self.text.push_str(&fancy_regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
        Ok(c.len_utf8())
    }

    fn group(&mut self, rest: &str) -> Result<()> {
        let around = ["=", "!", "<=", "<!"].iter().any(|kind| rest[2..].starts_with(kind));
        if !around && !rest[2..].starts_with(':') {
            let message = "invalid regular expression: quantifier operand invalid";
            return Err(Error::new(ErrorKind::InvalidRegex, message));
        }
        self.backtracks |= around;
        self.text.push_str("(?");
        Ok(())
    }

    /// A bracket expression; its length.
    fn class(&mut self, rest: &str) -> Result<usize> {
        for (written, word) in [("[[:<:]]", "\\b{start}"), ("[[:>:]]", "\\b{end}")] {
            if rest.starts_with(written) {
                self.text.push_str(word);
                return Ok(written.len());
            }
        }
        let unbalanced = || Error::new(ErrorKind::InvalidRegex, "invalid regular expression: brackets [] not balanced");
        let mut at = 1;
        self.text.push('[');
        if rest[at..].starts_with('^') {
            self.text.push_str(if self.options.dot_stops { "^\\n" } else { "^" });
            at += 1;
        }
        let first = at;
        while let Some(c) = rest[at..].chars().next() {
            match c {
                ']' if at > first => {
                    self.text.push(']');
                    return Ok(at + 1);
                }
                '[' if rest[at..].starts_with("[:") => {
                    let end = rest[at..].find(":]").ok_or_else(unbalanced)? + 2;
                    self.text.push_str(named_class(&rest[at..at + end]));
                    at += end;
                    continue;
                }
                '[' if rest[at..].starts_with("[.") || rest[at..].starts_with("[=") => {
                    return Err(unsupported("collating elements"));
                }
                '\\' => {
                    at += 1;
                    let escaped = self.escape(&rest[at..])?;
                    // Not the sign of a range.
                    if rest[at..].starts_with('-') && !self.text.ends_with("\\-") {
                        self.text.insert(self.text.len() - 1, '\\');
                    }
                    at += escaped;
                    continue;
                }
                '[' | ']' | '&' | '~' | '#' | ' ' => self.text.extend(['\\', c]),
                c => self.text.push(c),
            }
            at += c.len_utf8();
        }
        Err(unbalanced())
    }
}

/// The digits that a text begins with.
fn leading(text: &str, radix: u32) -> &str {
    let end = text.find(|c: char| !c.is_digit(radix)).unwrap_or(text.len());
    &text[..end]
}

/// Whether a repetition, behind its `{`, is for more times at least than at most.
fn is_reversed(rest: &str) -> bool {
    let bounds = rest.split_once('}').and_then(|(bounds, _)| bounds.split_once(','));
    let bounds = bounds.and_then(|(least, most)| Some((least.parse::<u32>().ok()?, most.parse::<u32>().ok()?)));
    bounds.is_some_and(|(least, most)| least > most)
}

/// A class of characters as the library has it: letters are those of all languages.
fn named_class(class: &str) -> &str {
    match class {
        "[:alpha:]" => "\\p{Alphabetic}",
        "[:alnum:]" => "\\p{Alphabetic}0-9",
        "[:upper:]" => "\\p{Uppercase}",
        "[:lower:]" => "\\p{Lowercase}",
        other => other,
    }
}

fn unsupported(what: &str) -> Error {
    Error::not_supported(format!("{what} in regular expressions are not supported"))
}
