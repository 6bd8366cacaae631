//! The one public error: a kind (what the caller should do), a message, and where known a detail, a hint and a
//! position.
//!
//! The server maps each kind to one SQLSTATE; every crate builds these, so that no layer re-words another's errors.

/// The result of anything in Keyspan that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! kinds {
    ($($name:ident $state:literal $doc:literal,)*) => {
        /// What went wrong, as the caller must treat it. Each kind has one SQLSTATE.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorKind { $(#[doc = $doc] $name,)* }

        impl ErrorKind {
            /// The five-character SQLSTATE of this kind (PostgreSQL, appendix A).
            pub fn sqlstate(self) -> &'static str {
                match self { $(ErrorKind::$name => $state,)* }
            }
        }
    };
}

kinds! {
    Syntax "42601" "The text is not a statement of the language.",
    UndefinedTable "42P01" "No such table or view.",
    UndefinedColumn "42703" "No such column.",
    UndefinedFunction "42883" "No such function or operator for these types.",
    UndefinedObject "42704" "No such type, setting, index or other object.",
    UndefinedSchema "3F000" "No such keyspace.",
    UndefinedDatabase "3D000" "No such database.",
    UndefinedCursor "34000" "No such cursor or portal.",
    UndefinedStatement "26000" "No such prepared statement.",
    UndefinedParameter "42P02" "A parameter that the statement does not have.",
    UndefinedSavepoint "3B001" "No such savepoint.",
    DuplicateTable "42P07" "A table or view of this name exists.",
    DuplicateColumn "42701" "A column named twice, or one that exists.",
    DuplicateSchema "42P06" "A keyspace of this name exists.",
    DuplicateObject "42710" "An object of this name exists.",
    DuplicateCursor "42P03" "A cursor of this name exists.",
    DuplicateStatement "42P05" "A prepared statement of this name exists.",
    AmbiguousFunction "42725" "More than one function has the name.",
    AmbiguousColumn "42702" "The column name fits more than one table.",
    Grouping "42803" "A column outside GROUP BY and aggregates.",
    InvalidRecursion "42P19" "A query that may not refer to itself in this place.",
    Windowing "42P20" "A window function where none may stand.",
    WrongObjectType "42809" "A view where a table is needed, or the like.",
    InvalidGrantOperation "0LP01" "What is granted cannot be granted so.",
    DependentObjects "2BP01" "Something else needs the object.",
    InvalidForeignKey "42830" "A foreign key that does not fit what it refers to.",
    InvalidTableDefinition "42P16" "The table as declared cannot exist.",
    InvalidColumnReference "42P10" "A column that cannot be used in this place.",
    InvalidName "42602" "Not a usable name.",
    ReservedName "42939" "A name kept for the system.",
    DatatypeMismatch "42804" "An expression of the wrong type.",
    IndeterminateDatatype "42P18" "A type that cannot be inferred.",
    CannotCoerce "42846" "No cast between these types.",
    InvalidText "22P02" "Text that is not a value of the type.",
    InvalidBinary "22P03" "Bytes that are not a value of the type.",
    InvalidCopy "22P04" "A COPY line that does not fit.",
    UntranslatableCharacter "22P05" "A character that an encoding has not, or an escape that stands for none.",
    InvalidEncoding "22021" "Bytes that are no text in their encoding.",
    NumericOverflow "22003" "A number out of the type's range.",
    DivisionByZero "22012" "Division by zero.",
    InvalidFrameOffset "22013" "The offset of a window frame is negative or NULL.",
    InvalidRowCount "2201W" "A LIMIT that is negative.",
    InvalidRowOffset "2201X" "An OFFSET that is negative.",
    NullValueNotAllowed "22004" "A NULL where a function takes none.",
    InvalidDatetime "22007" "Text that is not a date or time.",
    DatetimeOverflow "22008" "A date or time out of range.",
    InvalidEscape "22025" "An escape that is not one character, or escapes nothing.",
    InvalidUseOfEscape "2200C" "An escape in a pattern where none may stand.",
    InvalidRegex "2201B" "A pattern that is no regular expression.",
    Substring "22011" "A part of a text of negative length.",
    Logarithm "2201E" "A logarithm of what has none.",
    Power "2201F" "A power or root that is no real number.",
    ArraySubscript "2202E" "A subscript or a count beyond an array.",
    StringTooLong "22001" "A text longer than its column allows.",
    InvalidParameter "22023" "A parameter, option or setting value that is not allowed.",
    InvalidArgument "22000" "A value that this operation cannot take.",
    JsonMemberNotFound "2203A" "A path in strict mode names a member that is not there.",
    JsonArrayNotFound "22039" "A path in strict mode takes elements of what is no array.",
    JsonObjectNotFound "2203C" "A path in strict mode takes members of what is no object.",
    JsonSubscript "22033" "A subscript in a path that is no number, or beyond the array.",
    JsonNumberNotFound "2203B" "A path computes with what is no number.",
    JsonSingleton "22038" "A path gives several values, or none, where one is wanted.",
    JsonNonNumeric "22036" "A method of numbers in a path, of what is no number.",
    JsonDatetime "22031" "A method in a path that does not fit its value.",
    CardinalityViolation "21000" "A subquery or a statement met more rows than allowed.",
    SequenceLimit "2200H" "A sequence that has no further number.",
    GeneratedAlways "428C9" "A value for a column that is GENERATED ALWAYS.",
    NotNull "23502" "A null where the column forbids it.",
    Check "23514" "A row that breaks a CHECK.",
    Unique "23505" "A row whose key exists.",
    NotSupported "0A000" "Not supported, and refused by name.",
    CachedPlan "0A000" "A prepared statement whose columns would be others now.",
    Serialization "40001" "Another transaction wrote the same rows: run the transaction again.",
    Redefined "40001" "A table was altered, emptied or dropped since it was looked up: run the statement or transaction again.",
    Deadlock "40P01" "Two transactions wait for each other: run this one again.",
    LockTimeout "55P03" "A row lock was not free in time.",
    ObjectInUse "55006" "The object, or the data directory, is in use.",
    ObjectNotReady "55000" "The object is not in a state for this operation.",
    ReadOnly "25006" "A write where only reads are allowed.",
    FailedTransaction "25P02" "The transaction has failed: ROLLBACK first.",
    NoTransaction "25P01" "No transaction is open.",
    ActiveTransaction "25001" "Not allowed inside a transaction.",
    IdleTimeout "57P05" "The session was idle too long.",
    IdleInTransaction "25P03" "The session was idle too long inside a transaction.",
    Canceled "57014" "The statement was cancelled.",
    Shutdown "57P01" "The server is shutting down.",
    StartingUp "57P03" "The server cannot take connections now.",
    TooManyConnections "53300" "Too many connections.",
    DiskFull "53100" "No space left: writes are refused until space is freed.",
    OutOfMemory "53200" "The memory budget does not allow it.",
    TooComplex "54001" "A statement nested or chained too deeply.",
    LimitExceeded "54000" "A key, cell, row or statement beyond its limit.",
    TooManyColumns "54011" "Too many columns.",
    Unauthorized "42501" "Not allowed to this user.",
    InvalidAuthorization "28000" "The connection was refused.",
    InvalidPassword "28P01" "Wrong password.",
    Protocol "08P01" "Bytes that break the wire protocol.",
    ConnectionFailure "08006" "The connection broke.",
    Io "58030" "The operating system refused an operation on a file.",
    Corrupted "XX001" "Damage on disk: the message names the file.",
    FormatVersion "XX002" "A data directory of a format that this program does not know.",
    LogPoisoned "58000" "A write or sync of the commit log failed: restart to go on writing.",
    Internal "XX000" "A defect in Keyspan.",
}

/// The error of every public operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}{}", bracketed(.detail), labelled(.hint))]
pub struct Error {
    /// What the caller should do.
    pub kind: ErrorKind,
    /// One sentence, as PostgreSQL or Cassandra would word it.
    pub message: String,
    /// More about this case.
    pub detail: Option<String>,
    /// What to write or do instead.
    pub hint: Option<String>,
    /// Where in the statement: characters from 1.
    pub position: Option<usize>,
    /// What the error is about, for programs.
    pub subject: Option<Box<ErrorSubject>>,
}

/// What an error is about: PostgreSQL's fields of the same names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorSubject {
    /// The keyspace.
    pub schema: String,
    /// The table.
    pub table: String,
    /// The column.
    pub column: Option<String>,
    /// The constraint that a row breaks.
    pub constraint: Option<String>,
}

impl Error {
    /// An error of this kind with this message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into(), detail: None, hint: None, position: None, subject: None }
    }

    /// A defect in Keyspan: something that cannot happen has.
    pub fn internal(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Internal, message)
    }

    /// A prepared statement whose columns would be others now: the client must prepare it anew.
    pub fn cached_plan() -> Error {
        Error::new(ErrorKind::CachedPlan, "cached plan must not change result type")
            .with_hint("Prepare the statement again (DEALLOCATE, PREPARE).")
    }

    /// Something the language knows and Keyspan does not do.
    pub fn not_supported(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::NotSupported, message)
    }

    /// Adds what to write or do instead.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds more about this case.
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Adds the place in the statement, in characters from 1.
    pub fn at(mut self, position: usize) -> Self {
        self.position = Some(position);
        self
    }

    /// Adds what the error is about.
    pub fn about(mut self, subject: ErrorSubject) -> Self {
        self.subject = Some(Box::new(subject));
        self
    }

    /// The SQLSTATE of the error's kind.
    pub fn sqlstate(&self) -> &'static str {
        self.kind.sqlstate()
    }
}

fn bracketed(detail: &Option<String>) -> String {
    detail.as_ref().map_or(String::new(), |detail| format!(" ({detail})"))
}

fn labelled(hint: &Option<String>) -> String {
    hint.as_ref().map_or(String::new(), |hint| format!("; hint: {hint}"))
}

impl From<arrow::error::ArrowError> for Error {
    fn from(error: arrow::error::ArrowError) -> Self {
        use arrow::error::ArrowError as A;
        let kind = match &error {
            A::DivideByZero => ErrorKind::DivisionByZero,
            A::ArithmeticOverflow(_) => ErrorKind::NumericOverflow,
            A::CastError(_) | A::ParseError(_) => ErrorKind::InvalidText,
            A::NotYetImplemented(_) => ErrorKind::NotSupported,
            A::ExternalError(source) => {
                if let Some(own) = source.downcast_ref::<Error>() {
                    return own.clone();
                }
                ErrorKind::Internal
            }
            _ => ErrorKind::Internal,
        };
        Error::new(kind, error.to_string())
    }
}

/// The candidate nearest to `name` by edit distance, if it is near enough to be what was meant.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(&name.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let replace = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_its_message_detail_and_hint() {
        let error = Error::internal("it broke");
        assert_eq!(error.to_string(), "it broke");
        assert_eq!(error.with_detail("twice").with_hint("Mend it.").to_string(), "it broke (twice); hint: Mend it.");
    }

    #[test]
    fn nearest_name_is_found_only_when_near() {
        assert_eq!(nearest("temprature", ["humidity", "temperature"]), Some("temperature"));
        assert_eq!(nearest("x", ["humidity", "temperature"]), None);
    }
}
