//! How rows are printed: what psql's `\pset` sets.

use clap::ValueEnum;

/// How rows are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned columns, as psql prints them.
    #[default]
    #[value(alias = "table")]
    Aligned,
    /// One line for each row, with | between its values.
    Unaligned,
    /// Comma-separated with a header line; null is empty.
    Csv,
    /// A JSON array of objects for each answer.
    Json,
}

impl Format {
    /// Whether command tags stand beside the rows.
    pub fn is_for_people(self) -> bool {
        matches!(self, Format::Aligned | Format::Unaligned)
    }

    /// Its name in `\pset format`.
    pub fn name(self) -> &'static str {
        match self {
            Format::Aligned => "aligned",
            Format::Unaligned => "unaligned",
            Format::Csv => "csv",
            Format::Json => "json",
        }
    }
}

/// When each column has a line of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expanded {
    /// Never.
    #[default]
    Off,
    /// Always.
    On,
    /// When a row would be wider than the terminal, of so many columns.
    Wider(usize),
}

impl Expanded {
    /// Its name in `\pset expanded`.
    pub fn name(self) -> &'static str {
        match self {
            Expanded::Off => "off",
            Expanded::On => "on",
            Expanded::Wider(_) => "auto",
        }
    }
}

/// When answers go through the pager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pager {
    /// Never.
    Off,
    /// When they are longer than the terminal.
    #[default]
    On,
    /// Always.
    Always,
}

/// How rows are printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Style {
    /// In which form.
    pub format: Format,
    /// When columns have lines of their own.
    pub expanded: Expanded,
    /// What stands for null; of csv as well.
    pub null: String,
    /// Rows alone, without titles and footers.
    pub tuples_only: bool,
    /// Whether the number of rows is told.
    pub footer: bool,
    /// What stands below a table instead of the number of rows.
    pub footers: Vec<String>,
    /// Lines around aligned columns: 0 none, 1 between them, 2 all around.
    pub border: u8,
    /// What stands between the values of unaligned rows.
    pub field_separator: String,
    /// What stands behind unaligned rows.
    pub record_separator: String,
    /// What stands between csv's values.
    pub csv_separator: char,
    /// What stands above tables.
    pub title: Option<String>,
    /// When answers go through the pager.
    pub pager: Pager,
}

impl Style {
    /// A form with psql's defaults.
    pub fn new(format: Format) -> Style {
        Style {
            format,
            expanded: Expanded::Off,
            null: String::new(),
            tuples_only: false,
            footer: true,
            footers: Vec::new(),
            border: 1,
            field_separator: "|".to_string(),
            record_separator: "\n".to_string(),
            csv_separator: ',',
            title: None,
            pager: Pager::On,
        }
    }

    /// The `(3 rows)` below a table, if it is wanted, or what stands there instead.
    pub(super) fn count(&self, rows: u64) -> Option<String> {
        let wanted = self.footer && !self.tuples_only;
        if wanted && !self.footers.is_empty() {
            return Some(self.footers.join("\n"));
        }
        wanted.then(|| format!("({rows} row{})", if rows == 1 { "" } else { "s" }))
    }

    /// What is printed for a cell.
    pub(super) fn cell<'a>(&'a self, cell: &'a Option<String>) -> &'a str {
        cell.as_deref().unwrap_or(&self.null)
    }
}
