//! Commands of HBase's shell, as they are written. What their arguments mean is decided where the table is known.

use super::ObjectName;

/// `verb 'table', argument, …, {NAME => value, …}`.
#[derive(Clone, Debug, PartialEq)]
pub struct HbaseCommand {
    /// What to do.
    pub verb: HbaseVerb,
    /// The table, or what LIST compares names with.
    pub table: Option<ObjectName>,
    /// What follows, in order.
    pub arguments: Vec<HbaseArgument>,
}

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HbaseVerb {
    /// `scan 't' [, {…}]`.
    Scan,
    /// `get 't', 'row' [, column …] [, {…}]`.
    Get,
    /// `put 't', 'row', 'family:qualifier', value [, timestamp]`.
    Put,
    /// `delete 't', 'row', 'family:qualifier' [, timestamp]`.
    Delete,
    /// `deleteall 't', 'row' [, column [, timestamp]]`.
    DeleteAll,
    /// `count 't' [, {…}]`.
    Count,
    /// `incr 't', 'row', 'family:qualifier' [, by]`.
    Incr,
    /// `create 't', 'family' | {NAME => 'family', …}, …`.
    Create,
    /// `describe 't'`.
    Describe,
    /// `list ['pattern']`.
    List,
    /// `exists 't'`.
    Exists,
    /// `truncate 't'`.
    Truncate,
    /// `drop 't'`.
    Drop,
    /// `disable 't'`.
    Disable,
    /// `enable 't'`.
    Enable,
}

/// One argument of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct HbaseArgument {
    /// What it is.
    pub value: HbaseValue,
    /// Where it begins: characters from 1.
    pub position: usize,
}

/// A value as Ruby writes it.
#[derive(Clone, Debug, PartialEq)]
pub enum HbaseValue {
    /// `'text'` or `"text"`.
    Text(String),
    /// `5`, as it is written.
    Number(String),
    /// `true`, `FOREVER`, in upper case.
    Word(String),
    /// `['a', 'b']`.
    List(Vec<HbaseValue>),
    /// `{NAME => value, …}`, names in upper case.
    Attributes(Vec<(String, HbaseArgument)>),
}
