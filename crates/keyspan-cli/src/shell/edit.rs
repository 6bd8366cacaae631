//! The statement being typed: edited in an editor, written to a file, run again and again.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::{Input, Shell};
use crate::failure::{Failure, Result};
use crate::output::{Out, Pager};

/// Seconds between the runs of `\watch`.
const WATCH_SECONDS: f64 = 2.0;

impl Shell {
    /// `\e`: edits a file, or what has been typed, or the last statement. Answers what was saved, to be read on.
    pub(super) fn edit(&mut self, file: Option<&str>, line: Option<&str>, input: &mut Input) -> Result<String> {
        if let Some(file) = file.filter(|file| line.is_none() && !file.chars().all(|c| c.is_ascii_digit())) {
            run_editor(Path::new(file), None)?;
            input.clear();
            let text = std::fs::read_to_string(file).map_err(|error| Failure::from(error).context(file))?;
            return self.show_edited(text);
        }
        let typed = if input.is_blank() { self.previous.clone() } else { input.statement.trim().to_string() };
        let named = line.and(file);
        let (path, _kept) = match named {
            Some(file) => (PathBuf::from(file), None),
            None => {
                let temporary = tempfile::Builder::new().prefix("keyspan-").suffix(".sql").tempfile()?;
                writeln!(temporary.as_file(), "{typed}")?;
                (temporary.path().to_path_buf(), Some(temporary))
            }
        };
        run_editor(&path, line.or(file.filter(|_| named.is_none())))?;
        let text = std::fs::read_to_string(&path).map_err(|error| Failure::from(error).context(path.display()))?;
        input.clear();
        // Who leaves without saving runs nothing.
        if named.is_none() && text.trim() == typed.trim() {
            return Ok(String::new());
        }
        self.show_edited(text)
    }

    fn show_edited(&mut self, text: String) -> Result<String> {
        if self.is_conversation {
            self.printer.say(text.trim_end())?;
        }
        Ok(text)
    }

    /// `\w`: writes what has been typed, or the last statement, to a file or program.
    pub(super) fn write(&mut self, target: Option<String>, input: &Input) -> Result<()> {
        let target = super::meta::needed(target, "\\w", "a file")?;
        let text = if input.is_blank() { self.previous.as_str() } else { input.statement.trim_end() };
        let mut out = Out::to(&target)?;
        writeln!(out, "{text}")?;
        out.close()
    }

    /// `\watch`: runs a statement every so many seconds, until Ctrl-C, an error, or so many times.
    pub(super) fn watch(&mut self, statement: &str, words: &[String]) -> Result<()> {
        let Watch { seconds, times, least } = Watch::parse(words)?;
        let mut style = self.printer.style.clone();
        (style.pager, self.previous) = (Pager::Off, statement.to_string());
        let mut done = 0_u64;
        // One for all runs: Ctrl-C may come between two of them.
        let mut interrupts = {
            let _within = self.runtime.enter();
            signal(SignalKind::interrupt())?
        };
        loop {
            let now = chrono::Local::now().format("%a %b %e %H:%M:%S %Y");
            style.title = Some(match &self.printer.style.title {
                Some(title) => format!("{title}\t{now} (every {seconds}s)"),
                None => format!("{now} (every {seconds}s)"),
            });
            self.execute_to(statement, None, style.clone(), &mut ())?;
            done += 1;
            if times.is_some_and(|times| done >= times) || least.is_some_and(|least| self.printer.count() < least) {
                return Ok(());
            }
            let pressed = self.runtime.block_on(async {
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_secs_f64(seconds)) => false,
                    _ = interrupts.recv() => true,
                }
            });
            if pressed {
                return Ok(());
            }
        }
    }
}

/// The arguments of `\watch`.
#[derive(Debug, PartialEq)]
struct Watch {
    seconds: f64,
    times: Option<u64>,
    least: Option<u64>,
}

impl Watch {
    fn parse(words: &[String]) -> Result<Watch> {
        let mut watch = Watch { seconds: WATCH_SECONDS, times: None, least: None };
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or(("i", word));
            let count = || value.parse::<u64>().ok().filter(|count| *count > 0);
            let understood = match name {
                "i" | "interval" => {
                    value.parse().ok().filter(|s: &f64| (0.0..=86_400.0 * 365.0).contains(s)).map(|s| watch.seconds = s)
                }
                "c" | "count" => count().map(|count| watch.times = Some(count)),
                "m" | "min_rows" => count().map(|count| watch.least = Some(count)),
                _ => None,
            };
            if understood.is_none() {
                let failure = Failure::new(format!("\\watch: incorrect argument \"{word}\""));
                return Err(failure.with_hint("\\watch 5, or \\watch i=5 c=10 m=1: seconds, times, and rows at least."));
            }
        }
        Ok(watch)
    }
}

/// Opens a file in the editor, at a line.
fn run_editor(path: &Path, line: Option<&str>) -> Result<()> {
    let named =
        ["KEYSPAN_EDITOR", "PSQL_EDITOR", "EDITOR", "VISUAL"].into_iter().filter_map(|name| std::env::var(name).ok());
    let editor = { named }.find(|editor| !editor.trim().is_empty()).unwrap_or_else(|| "vi".to_string());
    let line = line.map(|line| format!("+{line} ")).unwrap_or_default();
    let path = path.display().to_string().replace('\'', "'\\''");
    let status = std::process::Command::new("sh").arg("-c").arg(format!("{editor} {line}'{path}'")).status()?;
    match status.success() {
        true => Ok(()),
        false => {
            Err(Failure::new(format!("the editor {editor} ended with {status}"))
                .with_hint("Set EDITOR to another one."))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watch_has_seconds_times_and_rows() {
        let parse = |text: &str| Watch::parse(&text.split_whitespace().map(str::to_string).collect::<Vec<_>>());
        assert_eq!(parse("").ok(), Some(Watch { seconds: 2.0, times: None, least: None }));
        assert_eq!(parse("0.5 c=3 m=1").ok(), Some(Watch { seconds: 0.5, times: Some(3), least: Some(1) }));
        for wrong in ["-1", "x", "c=0", "y=1", "inf"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
