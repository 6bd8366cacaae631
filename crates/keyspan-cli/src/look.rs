//! A look at a file's rows before a table is made for them: the types of its columns, and what tells its rows apart.
//!
//! The rule: what is not of its column's type is told with its line, column and value, and with the argument that goes on.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{BufRead, Read};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, SchemaRef};
use futures::executor::block_on;
use keyspan::copy::{CopyParser, Reading};
use keyspan::text::{ArrayText, TextStyle};
use keyspan::{ColumnType, CopyHeader, CopyOptions, Value};

use crate::advice::Sample;
use crate::dialect::Names;
use crate::failure::{Failure, Result};
use crate::infer::{Class, Seen};
use crate::json_text::{members, text_of};

/// Bytes of CSV that are read at a time.
const PIECE: usize = 1 << 18;

/// What was seen of a file's rows: all of NDJSON, the first of other formats.
#[derive(Clone, Debug, Default)]
pub struct Look {
    columns: Vec<Column>,
    sample: Sample,
    reading: Reading,
    tolerant: bool,
}

/// What was seen of a column.
#[derive(Clone, Debug, Default)]
struct Column {
    /// As the table has it.
    name: String,
    /// As the file has it.
    source: String,
    /// The type that the user has said, or the file.
    given: Option<ColumnType>,
    seen: Seen,
    /// Why a value is not of the given type.
    wrong: Option<String>,
}

/// What the user has said of the file: types by column, and how its texts are read.
#[derive(Clone, Debug, Default)]
pub struct Given {
    types: Vec<(String, ColumnType)>,
    /// How columns are called in the table.
    pub names: Names,
    /// How texts are read.
    pub reading: Reading,
    /// Whether rows that do not fit are left out, so that a column has the type of most of its values.
    pub tolerant: bool,
}

impl Given {
    /// From `COLUMN=TYPE`, any number of them.
    pub fn parse(arguments: &[String]) -> Result<Given> {
        let given = arguments.iter().map(|argument| {
            let wrong = || Failure::new(format!("--type \"{argument}\" is not COLUMN=TYPE"));
            let (column, ty) = argument.rsplit_once('=').ok_or_else(wrong)?;
            Ok((
                column.to_string(),
                parsed_type(ty).map_err(|failure| failure.context(format_args!("--type {argument}")))?,
            ))
        });
        Ok(Given { types: given.collect::<Result<_>>()?, ..Given::default() })
    }

    /// The type of a column.
    pub fn of(&self, column: &str) -> Option<ColumnType> {
        self.types.iter().rev().find(|(name, _)| name == column).map(|(_, ty)| *ty)
    }

    /// Fails for a column that the file has not.
    pub fn check(&self, names: &[String]) -> Result<()> {
        match self.types.iter().find(|(name, _)| !names.contains(name)) {
            Some((name, _)) => Err(Failure::new(format!("--type: the file has no column \"{name}\""))
                .with_hint(format!("Its columns are {}.", names.join(", ")))),
            None => Ok(()),
        }
    }
}

/// `text`, `double precision`, `decimal(10,2)`.
pub fn parsed_type(text: &str) -> Result<ColumnType> {
    if let Some(element) = text.trim().strip_suffix("[]") {
        return Ok(parsed_type(element)?.into_list()?);
    }
    let (name, arguments) = match text.trim().split_once('(') {
        Some((name, rest)) => (name, rest.trim_end_matches(')')),
        None => (text.trim(), ""),
    };
    let numbers = arguments.split(',').filter(|argument| !argument.trim().is_empty());
    let numbers: Result<Vec<i64>, _> = numbers.map(|number| number.trim().parse()).collect();
    let numbers = numbers.map_err(|_| Failure::new(format!("\"{arguments}\" are no numbers")))?;
    Ok(ColumnType::parse(name, &numbers)?)
}

impl Look {
    /// At the first rows of a CSV file whose columns have these names in the table.
    pub fn at_csv(names: &[String], given: &Given, options: &CopyOptions, mut file: impl Read) -> Result<Look> {
        let column = |name: &String| Column::new(name, name, given.of(name));
        let mut look = Look { columns: names.iter().map(column).collect(), ..Look::of(given) };
        let texts: Vec<(String, ColumnType)> = names.iter().map(|name| (name.clone(), ColumnType::Text)).collect();
        let parser = CopyParser::new("the file", &texts, options, "UTC")?;
        let mut parser = if given.tolerant { parser.leave_out(&[]) } else { parser };
        let header = options.header != CopyHeader::None;
        let mut line =
            1 + names.iter().map(|name| line_ends(name)).sum::<u64>() * u64::from(header) + u64::from(header);
        let mut piece = vec![0; PIECE];
        while look.sample.room() > 0 {
            let count = file.read(&mut piece)?;
            let batches = if count == 0 { block_on(parser.finish())? } else { block_on(parser.push(&piece[..count]))? };
            batches.iter().for_each(|batch| look.add_csv(batch, &mut line));
            if count == 0 {
                break;
            }
        }
        Ok(look)
    }

    fn of(given: &Given) -> Look {
        Look { reading: given.reading.clone(), tolerant: given.tolerant, ..Look::default() }
    }

    fn add_csv(&mut self, batch: &RecordBatch, line: &mut u64) {
        for row in 0..batch.num_rows().min(self.sample.room()) {
            self.sample.begin_row();
            let mut lines = 1;
            for (at, column) in batch.columns().iter().enumerate() {
                let Some(text) = column.as_string_view_opt().filter(|texts| texts.is_valid(row)) else { continue };
                let text = text.value(row);
                lines += line_ends(text);
                // Quoted: no value where the column is not of texts.
                let is_null = text.is_empty() || self.reading.is_null(text);
                if !is_null {
                    let text = self.reading.guessed(text);
                    self.columns[at].add(Class::of_text(&text), *line, &text);
                }
                if text.is_empty() || !is_null {
                    self.sample.add(at, text);
                }
            }
            *line += lines;
        }
    }

    /// At all lines of an NDJSON file: any may have a column that no other has.
    pub fn at_ndjson(given: &Given, mut lines: impl BufRead) -> Result<Look> {
        let mut look = Look::of(given);
        let (mut bytes, mut line) = (Vec::new(), 0);
        while lines.read_until(b'\n', &mut bytes)? > 0 {
            line += 1;
            if !bytes.trim_ascii().is_empty() {
                match members(&bytes).and_then(|object| look.add_object(given, &object, line)) {
                    // It is left out when the rows are read.
                    Err(error) if !given.tolerant => {
                        return Err(Failure::new(format!("line {line} is not a JSON object: {error}")));
                    }
                    _ => {}
                }
            }
            bytes.clear();
        }
        Ok(look)
    }

    fn add_object(&mut self, given: &Given, object: &BTreeMap<String, &str>, line: u64) -> serde_json::Result<()> {
        let sampled = self.sample.room() > 0;
        if sampled {
            self.sample.begin_row();
        }
        for (name, value) in object {
            let at = self.columns.iter().position(|column| column.source == *name).unwrap_or(self.columns.len());
            if at == self.columns.len() {
                let called = given.names.of(name);
                self.columns.push(Column::new(name, &called, given.of(&called)));
            }
            let Some((class, text)) = json_class(value, &self.reading)? else { continue };
            self.columns[at].add(class, line, &text);
            if sampled {
                self.sample.add(at, &text);
            }
        }
        Ok(())
    }

    /// At the first rows of a file whose columns have types.
    pub fn at_typed(
        schema: &SchemaRef,
        given: &Given,
        batches: impl Iterator<Item = Result<RecordBatch>>,
    ) -> Result<Look> {
        let column = |name: &String, ty| {
            let called = given.names.of(name);
            Column::new(name, &called, given.of(&called).or(Some(ty)))
        };
        let columns = schema.fields().iter().map(|field| column(field.name(), column_type(field))).collect();
        let mut look = Look { columns, ..Look::of(given) };
        for batch in batches {
            look.add_typed(&batch?)?;
            if look.sample.room() == 0 {
                break;
            }
        }
        Ok(look)
    }

    fn add_typed(&mut self, batch: &RecordBatch) -> Result<()> {
        let schema = batch.schema();
        let pairs = schema.fields().iter().zip(batch.columns());
        let columns: Vec<ArrayText> =
            pairs.map(|(field, array)| ArrayText::new(field, array, TextStyle::UTC)).collect::<keyspan::Result<_>>()?;
        for row in 0..batch.num_rows().min(self.sample.room()) {
            self.sample.begin_row();
            for (at, column) in columns.iter().enumerate().filter(|(_, column)| !column.is_null(row)) {
                let mut text = String::new();
                column.write(row, &mut text)?;
                self.sample.add(at, &text);
            }
        }
        Ok(())
    }

    /// The columns' names in the file, in order.
    pub fn sources(&self) -> Vec<String> {
        self.columns.iter().map(|column| column.source.clone()).collect()
    }

    /// The columns' names in the table, in order.
    pub fn names(&self) -> Vec<String> {
        self.columns.iter().map(|column| column.name.clone()).collect()
    }

    /// The type that a column's JSON values are read as, before they are cast; `None`: they are taken as texts. Numbers
    /// with a fraction are `double` only for a column that is made so: one that is there may keep more of their digits.
    pub fn read_type(&self, column: usize, create: bool) -> Option<ColumnType> {
        use ColumnType as T;
        let column = &self.columns[column];
        let simple =
            |ty: &T| matches!(ty, T::Boolean | T::BigInt | T::VarInt | T::Json) || (create && *ty == T::Double);
        let ty = column.seen.ty().ok().filter(simple);
        ty.filter(|ty| *ty == T::Json || column.given.is_none())
    }

    /// The types of the columns.
    ///
    /// # Errors
    /// Values that are not of their column's type.
    pub fn types(&self) -> Result<Vec<ColumnType>> {
        if self.tolerant {
            let most =
                |column: &Column| column.given.unwrap_or_else(|| column.seen.ty().unwrap_or_else(|misfit| misfit.ty));
            return Ok(self.columns.iter().map(most).collect());
        }
        if let Some(wrong) = self.columns.iter().find_map(|column| column.wrong.as_ref()) {
            return Err(Failure::new(wrong).with_hint("Nothing was loaded. Mend the value, or say another --type."));
        }
        let (mut types, mut misfits) = (Vec::new(), Vec::new());
        for column in &self.columns {
            match column.given.map_or_else(|| column.seen.ty(), Ok) {
                Ok(ty) => types.push(ty),
                Err(misfit) => misfits.push((&column.name, misfit)),
            }
        }
        if misfits.is_empty() {
            return Ok(types);
        }
        let told = misfits.iter().map(|(name, misfit)| {
            let (line, value, ty) = (misfit.first.line, shown(&misfit.first.value), misfit.ty.postgres_name());
            format!("line {line}, column \"{name}\": \"{value}\" is not of type {ty}, as most values of the column are")
        });
        let texts: Vec<String> = misfits.iter().map(|(name, _)| format!("--type '{name}=text'")).collect();
        let hint = format!(
            "Nothing was loaded. Mend the file, or go on with all values of the column as texts: {}.",
            texts.join(" ")
        );
        Err(Failure::new(told.collect::<Vec<_>>().join("\n")).with_hint(hint))
    }

    /// What else a user should know of the types.
    pub fn notices(&self) -> Vec<String> {
        let mixed = self.columns.iter().filter(|column| column.given.is_none());
        let mixed = mixed.filter_map(|column| Some((&column.name, column.seen.without_zone()?)));
        mixed
            .map(|(name, first)| {
                let (line, value) = (first.line, shown(&first.value));
                format!(
                    "NOTICE:  column \"{name}\" is timestamptz, but line {line} has \"{value}\", which names no zone: \
                     such times are taken to be in the session's time zone\n\
                     HINT:  With --type '{name}=text' they stay as they are."
                )
            })
            .collect()
    }

    /// Which key the table could have.
    pub fn key_hint(&self, types: &[ColumnType]) -> Option<String> {
        self.sample.hint(&self.names(), types)
    }
}

impl Column {
    fn new(source: &str, name: &str, given: Option<ColumnType>) -> Column {
        Column { name: name.to_string(), source: source.to_string(), given, ..Column::default() }
    }

    fn add(&mut self, class: Class, line: u64, text: &str) {
        self.seen.add(class, line, text);
        if let Some(ty) = self.given.filter(|_| self.wrong.is_none())
            && let Err(error) = Value::parse(text, ty)
        {
            self.wrong = Some(format!("line {line}, column \"{}\": {}", self.name, error.message));
        }
    }
}

/// A JSON value's class and text; `None` for null.
fn json_class<'a>(value: &'a str, reading: &Reading) -> serde_json::Result<Option<(Class, Cow<'a, str>)>> {
    let Some(text) = text_of(value)? else { return Ok(None) };
    let class = match value.as_bytes().first() {
        Some(b'"') if reading.is_null(&text) => return Ok(None),
        Some(b'"') if *reading != Reading::default() => {
            let text = reading.guessed(&text).into_owned();
            let class = if reading.decimal_comma { Class::of_text(&text) } else { Class::of_string(&text) };
            return Ok(Some((class, Cow::Owned(text))));
        }
        Some(b'"') => Class::of_string(&text),
        Some(b'{' | b'[') => Class::Json,
        _ => Class::of_text(&text),
    };
    Ok(Some((class, text)))
}

fn line_ends(text: &str) -> u64 {
    text.bytes().filter(|byte| *byte == b'\n').count() as u64
}

/// The beginning of a value, as an error shows it.
fn shown(value: &str) -> String {
    const MOST: usize = 100;
    match value.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &value[..end]),
        None => value.to_string(),
    }
}

/// The type of a column made for this field. What no type of ours holds is kept as JSON.
fn column_type(field: &Field) -> ColumnType {
    match field.data_type() {
        DataType::Null => ColumnType::Text,
        _ => ColumnType::of_field(field).unwrap_or(ColumnType::Json),
    }
}
