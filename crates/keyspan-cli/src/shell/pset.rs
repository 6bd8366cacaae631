//! `\pset`: how rows are printed.

use super::Shell;
use super::meta::switched;
use crate::failure::{Failure, Result};
use crate::output::{Expanded, Format, Pager, Style};

const NAMES: &str =
    "border, csv_fieldsep, expanded, fieldsep, footer, format, null, pager, recordsep, title, tuples_only";

impl Shell {
    /// Sets one of them and says so; without a name lists them.
    pub(super) fn pset(&mut self, name: Option<&str>, value: Option<&str>) -> Result<()> {
        let Some(name) = name else {
            let style = self.printer.style.clone();
            return style.list().iter().try_for_each(|line| Ok(self.printer.say(line)?));
        };
        let width = self.width();
        let told = self.printer.style.set(name, value, width)?;
        self.say(&told)
    }

    /// Columns of the terminal.
    pub(super) fn width(&self) -> usize {
        crate::output::columns_of_terminal()
    }
}

impl Style {
    /// Sets what `\pset` sets; without a value switches over, or goes back. Answers what to say.
    pub fn set(&mut self, name: &str, value: Option<&str>, width: usize) -> Result<String> {
        let on = |now: bool| switched(name, value, now);
        match name {
            "format" => self.format = value.map_or(Ok(self.format), format)?,
            "x" | "expanded" | "vertical" => self.expanded = expanded(self.expanded, value, width)?,
            "null" => self.null = value.unwrap_or(&self.null).to_string(),
            "t" | "tuples_only" => self.tuples_only = on(self.tuples_only)?,
            "footer" => self.footer = on(self.footer)?,
            "fieldsep" => self.field_separator = value.unwrap_or(&self.field_separator).to_string(),
            "fieldsep_zero" => self.field_separator = "\0".to_string(),
            "recordsep" => self.record_separator = value.unwrap_or(&self.record_separator).to_string(),
            "recordsep_zero" => self.record_separator = "\0".to_string(),
            "csv_fieldsep" => self.csv_separator = value.map_or(Ok(self.csv_separator), separator)?,
            "title" | "C" => self.title = value.map(str::to_string),
            "border" => self.border = value.map_or(Ok(self.border), border)?,
            "pager" => self.pager = pager(self.pager, value)?,
            "linestyle" | "columns" | "numericlocale" | "pager_min_lines" | "tableattr" => {
                return Err(Failure::new(format!("\\pset {name} is not supported")).with_hint(known()));
            }
            _ => return Err(Failure::new(format!("\\pset: unknown option: {name}")).with_hint(known())),
        }
        Ok(self.told(name))
    }

    fn told(&self, name: &str) -> String {
        let switch = |on: bool| if on { "on" } else { "off" };
        match name {
            "format" => format!("Output format is {}.", self.format.name()),
            "x" | "expanded" | "vertical" => match self.expanded {
                Expanded::Wider(_) => "Expanded display is used automatically.".to_string(),
                other => format!("Expanded display is {}.", other.name()),
            },
            "null" => format!("Null display is \"{}\".", self.null),
            "t" | "tuples_only" => format!("Tuples only is {}.", switch(self.tuples_only)),
            "footer" => format!("Default footer is {}.", switch(self.footer)),
            "fieldsep" => format!("Field separator is \"{}\".", self.field_separator),
            "fieldsep_zero" => "Field separator is zero byte.".to_string(),
            "recordsep" if self.record_separator == "\n" => "Record separator is <newline>.".to_string(),
            "recordsep" => format!("Record separator is \"{}\".", self.record_separator),
            "recordsep_zero" => "Record separator is zero byte.".to_string(),
            "csv_fieldsep" => format!("Field separator for CSV is \"{}\".", self.csv_separator),
            "border" => format!("Border style is {}.", self.border),
            "pager" => match self.pager {
                Pager::On => "Pager is used for long output.".to_string(),
                Pager::Always => "Pager is always used.".to_string(),
                Pager::Off => "Pager usage is off.".to_string(),
            },
            _ => match &self.title {
                Some(title) => format!("Title is \"{title}\"."),
                None => "Title is unset.".to_string(),
            },
        }
    }

    fn list(&self) -> Vec<String> {
        let switch = |on: bool| if on { "on" } else { "off" }.to_string();
        let quoted = |text: &str| format!("'{}'", text.replace('\n', "\\n").replace('\0', "\\0"));
        let pager = match self.pager {
            Pager::Off => 0,
            Pager::On => 1,
            Pager::Always => 2,
        };
        let all = [
            ("border", self.border.to_string()),
            ("csv_fieldsep", quoted(&self.csv_separator.to_string())),
            ("expanded", self.expanded.name().to_string()),
            ("fieldsep", quoted(&self.field_separator)),
            ("footer", switch(self.footer)),
            ("format", self.format.name().to_string()),
            ("null", quoted(&self.null)),
            ("pager", pager.to_string()),
            ("recordsep", quoted(&self.record_separator)),
            ("title", self.title.clone().unwrap_or_default()),
            ("tuples_only", switch(self.tuples_only)),
        ];
        all.iter().map(|(name, value)| format!("{name:<24} {value}").trim_end().to_string()).collect()
    }
}

fn known() -> String {
    format!("There are {NAMES}.")
}

/// A format by its name or the begin of it.
fn format(name: &str) -> Result<Format> {
    let formats = [Format::Aligned, Format::Unaligned, Format::Csv, Format::Json];
    let lower = name.to_ascii_lowercase();
    let found = formats.into_iter().find(|format| !lower.is_empty() && format.name().starts_with(&lower));
    found
        .or_else(|| (lower == "table").then_some(Format::Aligned))
        .ok_or_else(|| Failure::new("\\pset: allowed formats are aligned, csv, json, unaligned"))
}

fn expanded(now: Expanded, value: Option<&str>, width: usize) -> Result<Expanded> {
    if value == Some("auto") {
        return Ok(Expanded::Wider(width));
    }
    Ok(if switched("expanded", value, now == Expanded::On)? { Expanded::On } else { Expanded::Off })
}

fn pager(now: Pager, value: Option<&str>) -> Result<Pager> {
    match value {
        Some("always" | "2") => Ok(Pager::Always),
        _ => Ok(if switched("pager", value, now != Pager::Off)? { Pager::On } else { Pager::Off }),
    }
}

fn separator(text: &str) -> Result<char> {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(one), None) if !['"', '\n', '\r'].contains(&one) => Ok(one),
        _ => Err(Failure::new("\\pset: csv_fieldsep must be a single character, no quote and no line end")),
    }
}

fn border(text: &str) -> Result<u8> {
    let wrong = || Failure::new(format!("\\pset: border is 0, 1 or 2, not \"{text}\""));
    text.parse().ok().filter(|border| *border <= 2).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_set_switched_and_refused() {
        let mut style = Style::new(Format::Aligned);
        assert_eq!(style.set("format", Some("csv"), 80).expect("a format"), "Output format is csv.");
        assert_eq!(style.set("x", None, 80).expect("a switch"), "Expanded display is on.");
        assert_eq!(
            style.set("expanded", Some("auto"), 80).expect("a switch"),
            "Expanded display is used automatically."
        );
        assert_eq!(style.set("null", Some("(null)"), 80).expect("a text"), "Null display is \"(null)\".");
        for (name, value) in
            [("format", "html"), ("border", "7"), ("csv_fieldsep", "::"), ("nothing", "1"), ("x", "maybe")]
        {
            assert!(style.set(name, Some(value), 80).is_err(), "{name} {value}");
        }
    }
}
