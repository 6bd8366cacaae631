//! The table that a file's rows go into: made for them, counted, and taken away again if they do not come.
//!
//! The rule: a table that was made for a file is there with its rows, or not at all.

use keyspan::{ColumnType, quoted};

use crate::client::Client;
use crate::failure::{Failure, Result};
use crate::look::parsed_type;
use crate::progress::grouped;
use crate::script::literal;
use crate::source::Source;

/// A table.
pub struct Target<'a> {
    name: &'a str,
    client: &'a mut Client,
    /// The types of its columns, if it was made for the file.
    made: Option<Vec<ColumnType>>,
    /// Its rows before, if they could be counted.
    before: Option<u64>,
    /// What is to be said of it once it has its rows.
    notices: Vec<String>,
}

impl<'a> Target<'a> {
    /// A table that is there.
    pub async fn existing(name: &'a str, client: &'a mut Client) -> Target<'a> {
        let mut target = Target { name, client, made: None, before: None, notices: Vec::new() };
        target.before = target.count().await;
        target
    }

    /// A new table for a file's columns, of these types.
    pub async fn made(
        name: &'a str,
        client: &'a mut Client,
        source: &Source,
        types: Vec<ColumnType>,
        key: Option<&str>,
    ) -> Result<Target<'a>> {
        let statement = create_table(name, source.names(), &types, key);
        let created = client.rows(&statement).await;
        created.map_err(|failure| failure.context("creating the table"))?;
        let mut notices = source.look().notices();
        let of_statement = client.take_notices();
        match source.look().key_hint(&types).filter(|_| key.is_none()) {
            // The rows tell more about keys than the columns, of which the statement's own notice speaks.
            Some(hint) => notices.push(format!(
                "NOTICE:  table {name} has no PRIMARY KEY: its rows are kept in arrival order\nHINT:  {hint}"
            )),
            None => notices.extend(of_statement),
        }
        Ok(Target { name, client, made: Some(types), before: Some(0), notices })
    }

    /// The database.
    pub fn client(&mut self) -> &mut Client {
        self.client
    }

    /// The columns of the table, in order; none if the catalog does not tell.
    pub async fn columns(&mut self) -> Result<Vec<TableColumn>> {
        let query = format!(
            "SELECT attname, pg_catalog.format_type(atttypid, atttypmod), attnotnull FROM pg_catalog.pg_attribute \
             WHERE attrelid = {}::pg_catalog.regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            literal(self.name)
        );
        Ok(self.client.rows(&query).await?.rows.into_iter().map(TableColumn::from_row).collect())
    }

    /// Columns in which a quoted nothing is no value: those of a new table that are not of texts.
    pub fn without_empty_texts(&self, source: &Source) -> Vec<String> {
        let types = self.made.iter().flatten();
        let pairs = source.names().iter().zip(types);
        pairs
            .filter(|(_, ty)| !matches!(ty, ColumnType::Text | ColumnType::Ascii))
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Says what became of so many rows of a file: answers how many have overwritten others, if any has.
    pub async fn tell(&mut self, rows: u64) -> Option<String> {
        self.notices.iter().for_each(|notice| eprintln!("{notice}"));
        let (before, after) = (self.before?, self.count().await?);
        // Where others write at the same time nothing is known.
        let new = after.checked_sub(before).filter(|new| *new < rows)?;
        let lost = grouped(rows - new);
        Some(match before {
            0 => format!("{lost} of them overwrote an earlier one with the same key, {} remain", grouped(after)),
            _ => format!(
                "{lost} of them overwrote one with the same key, of the table or of the file; {} are new",
                grouped(new)
            ),
        })
    }

    /// Takes a table away that was made for rows that have not come.
    pub async fn give_up(&mut self, source: &Source, failure: Failure) -> Failure {
        if self.made.is_none() {
            return failure;
        }
        let failure = self.with_type_hint(failure, source);
        if self.count().await != Some(0) {
            return failure;
        }
        let statement = format!("DROP TABLE {}", self.name);
        match self.client.rows(&statement).await {
            Ok(_) => failure,
            Err(error) => failure.context(format_args!("table {} is left without rows ({})", self.name, error.message)),
        }
    }

    /// Which argument goes on after a value that does not fit the type of its column.
    fn with_type_hint(&self, failure: Failure, source: &Source) -> Failure {
        let told = format!("{} {}", failure.message, failure.detail.as_deref().unwrap_or_default());
        let columns = source.names().iter().zip(self.made.iter().flatten());
        let mut found = columns.filter(|(name, _)| told.contains(&format!(", column {name}: ")));
        let Some((name, ty)) = found.next().filter(|_| failure.hint.is_none()) else { return failure };
        let wider = if *ty == ColumnType::BigInt { format!("--type '{name}=double' or ") } else { String::new() };
        failure.with_hint(format!(
            "The types are those of the first rows. Mend the file, or say the column's: {wider}--type '{name}=text'."
        ))
    }

    async fn count(&mut self) -> Option<u64> {
        // Whoever may only write cannot count.
        let counted = self.client.rows(&format!("SELECT count(*) FROM {}", self.name)).await.ok()?;
        self.client.take_notices();
        counted.value()?.parse().ok()
    }
}

/// The CREATE TABLE for a file's columns.
fn create_table(table: &str, names: &[String], types: &[ColumnType], key: Option<&str>) -> String {
    let mut parts: Vec<String> =
        names.iter().zip(types).map(|(name, ty)| format!("{} {}", quoted(name), ty.name())).collect();
    parts.extend(key.map(|key| format!("PRIMARY KEY ({key})")));
    format!("CREATE TABLE {table} ({})", parts.join(", "))
}

/// Fails for what is no list of columns, as it stands in PRIMARY KEY.
pub fn check_key(key: &str) -> Result<()> {
    let (mut depth, mut quoted) = (0_i32, false);
    let mut previous = ' ';
    for c in key.chars() {
        quoted ^= c == '"';
        match c {
            _ if quoted => {}
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        let is_comment = matches!((previous, c), ('-', '-') | ('/', '/' | '*'));
        if !quoted && (depth < 0 || c == ';' || is_comment) {
            depth = -1;
            break;
        }
        previous = c;
    }
    if depth == 0 && !quoted {
        return Ok(());
    }
    Err(Failure::new(format!("--key \"{key}\" is no list of columns")).with_hint("Write 'a,b' or '(a,b),c'."))
}

/// Shows the table that would be made for files, and the key that it could have.
pub fn propose(name: &str, source: &Source, types: &[ColumnType], key: Option<&str>) {
    say!("{};", create_table(name, source.names(), types, key));
    source.look().notices().iter().for_each(|notice| eprintln!("{notice}"));
    if let Some(hint) = source.look().key_hint(types).filter(|_| key.is_none()) {
        eprintln!("HINT:  {hint}");
    }
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct TableColumn {
    /// Its name.
    pub name: String,
    ty: ColumnType,
    /// Whether it takes no nulls.
    pub required: bool,
    /// Characters of its texts at most.
    pub longest: Option<u32>,
}

impl TableColumn {
    /// Of its name, its type and whether it takes no nulls.
    fn from_row(cells: Vec<Option<String>>) -> TableColumn {
        let mut cells = cells.into_iter().map(Option::unwrap_or_default);
        let (name, ty, required) = (cells.next(), cells.next(), cells.next());
        let ty = ty.unwrap_or_default();
        let longest = ty.strip_prefix("character").and_then(|rest| rest.split_once('('));
        let longest = longest.and_then(|(_, length)| length.trim_end_matches(')').parse().ok());
        let ty = parsed_type(&ty).ok().filter(|ty| ty.as_nested().is_none());
        TableColumn {
            longest,
            name: name.unwrap_or_default(),
            ty: ty.unwrap_or(ColumnType::Text),
            required: required.as_deref() == Some("t"),
        }
    }
}

/// The type that a column's texts are read as. Those whose values nest, or that are not there, are left to the
/// database.
pub fn type_of(columns: &[TableColumn], name: &str) -> ColumnType {
    columns.iter().find(|column| column.name == name).map_or(ColumnType::Text, |column| column.ty)
}
