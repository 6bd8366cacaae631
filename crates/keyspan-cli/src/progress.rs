//! How far a long operation is: a bar on a terminal, one line at the end everywhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Counts rows, and bytes of a known total, while they are read.
pub struct Progress {
    bar: ProgressBar,
    rows: u64,
    started: Instant,
}

impl Progress {
    /// A bar that is full at `total` (bytes or rows); drawn on stderr if that is a terminal.
    pub fn new(what: &str, total: u64) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        if !std::io::stderr().is_terminal() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let style = ProgressStyle::with_template("{prefix:>12} [{bar:30}] {percent:>3}%  {msg}  {eta}");
        bar.set_style(style.expect("the template is a constant").progress_chars("=> "));
        bar.set_prefix(what.to_string());
        Progress { bar, rows: 0, started: Instant::now() }
    }

    /// Says how much of the total is done.
    pub fn at(&self, done: u64) {
        self.bar.set_position(done);
    }

    /// Counts rows.
    pub fn add_rows(&mut self, rows: u64) {
        self.rows += rows;
        self.bar.set_message(self.rate());
    }

    /// Takes the bar away; answers `336,776 rows in 1.2 s (280,646 rows/s)`.
    pub fn finish(self, rows: u64) -> String {
        self.bar.finish_and_clear();
        let took = self.started.elapsed();
        format!("{} rows in {} ({} rows/s)", grouped(rows), seconds(took), grouped(rate(rows, took)))
    }

    fn rate(&self) -> String {
        format!("{} rows, {} rows/s", grouped(self.rows), grouped(rate(self.rows, self.started.elapsed())))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn rate(rows: u64, took: Duration) -> u64 {
    (rows as f64 / took.as_secs_f64().max(1e-6)) as u64
}

/// A duration with as many digits as matter.
pub fn seconds(took: Duration) -> String {
    match took.as_secs_f64() {
        short if short < 1.0 => format!("{:.2} ms", short * 1000.0),
        long => format!("{long:.1} s"),
    }
}

/// A number with commas between its thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([grouped(7), grouped(1000), grouped(336_776)], ["7", "1,000", "336,776"]);
    }
}
