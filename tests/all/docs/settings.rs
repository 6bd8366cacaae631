//! `docs/settings.md` is made from the settings' definitions: `cargo xtask settings` writes it, and the test compares.

use std::fmt::Write;

use keyspan::settings::{DEFINITIONS, Definition, Kind};

use super::page::root;

/// How descriptions of settings begin that exist for PostgreSQL's clients only.
const IGNORED: &str = "Accepted for compatibility";

const HEAD: &str = "\
# Settings

To see, change and reset a setting of your session:

```sql
SHOW statement_timeout;
SET statement_timeout = '30s';
SET TIME ZONE 'Europe/Berlin';
RESET statement_timeout;
SHOW ALL;
```

- A setting holds for one session. `SET` inside a transaction is undone by ROLLBACK; `SET LOCAL` also ends with COMMIT.
- A client can give settings when it connects: `PGOPTIONS='-c statement_timeout=30s' psql …`, or `options` in a driver.
  RESET goes back to these.
- Times take a unit: `us`, `ms`, `s`, `min`, `h`, `d`; without one they are milliseconds. 0 means no limit.
- Names of your own with a dot, such as `app.user`, hold any text.
- Memory, the port and logging belong to the server, not to a session: [operating](operating.md).

This page is made from the program's own definitions by `cargo xtask settings`.
";

fn page() -> String {
    let mut page = HEAD.to_string();
    let all = || DEFINITIONS.iter();
    let is_ignored = |setting: &&Definition| setting.description.starts_with(IGNORED);
    let fixed = all().filter(|setting| setting.kind == Kind::Fixed && !is_ignored(setting)).collect();
    let ignored = all().filter(is_ignored).collect();
    let used = all().filter(|setting| setting.kind != Kind::Fixed && !is_ignored(setting)).collect();
    section(&mut page, "Settings that change something", used, described);
    section(&mut page, "Settings that cannot be changed", fixed, described);
    let title = "Settings that are accepted and change nothing";
    section(&mut page, title, ignored, |setting| format!("- `{}`{}", setting.name, reason(setting)));
    page
}

fn section(page: &mut String, title: &str, mut settings: Vec<&Definition>, line: impl Fn(&Definition) -> String) {
    write!(page, "\n## {title}\n\n").expect("a String takes all");
    settings.sort_by_key(|setting| setting.key());
    for setting in settings {
        page.push_str(&wrapped(&line(setting)));
    }
}

fn described(setting: &Definition) -> String {
    let default = match setting.default {
        "" => "empty".to_string(),
        value => format!("`{value}`"),
    };
    format!("- **`{}`**: {} Default: {default}.{}", setting.name, setting.description, values(setting.kind))
}

/// What stands behind the words that say that a setting is ignored.
fn reason(setting: &Definition) -> String {
    setting.description.strip_prefix(IGNORED).unwrap_or_default().trim_end_matches('.').to_string()
}

fn values(kind: Kind) -> String {
    match kind {
        Kind::Word(words) => {
            let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
            format!(" Values: {}.", words.join(", "))
        }
        Kind::Boolean => " Values: `on`, `off`.".to_string(),
        Kind::Integer(least, i64::MAX) => format!(" A whole number from {least}."),
        Kind::Integer(least, most) => format!(" A whole number from {least} to {most}."),
        Kind::Duration => " A time.".to_string(),
        Kind::Bytes => " A size with its unit, such as `500MB`.".to_string(),
        Kind::Names => " A list of names.".to_string(),
        Kind::TimeZone => " An IANA name or hours east of UTC.".to_string(),
        Kind::DateStyle => " `ISO` and one of `MDY`, `DMY`, `YMD`.".to_string(),
        Kind::Text | Kind::Encoding | Kind::Fixed => String::new(),
    }
}

/// An item of a list in lines of at most 120 characters, broken between words and never within code.
fn wrapped(item: &str) -> String {
    let (mut lines, mut length, mut inside) = (String::new(), 0, false);
    let words = item.split(|c| {
        inside ^= c == '`';
        c == ' ' && !inside
    });
    for word in words {
        if length > 0 && length + 1 + word.chars().count() > 120 {
            lines.push_str("\n ");
            length = 1;
        }
        if length > 0 {
            lines.push(' ');
            length += 1;
        }
        lines.push_str(word);
        length += word.chars().count();
    }
    lines + "\n"
}

#[test]
fn settings_page() {
    let path = root().join("docs/settings.md");
    if std::env::var_os("KEYSPAN_WRITE_DOCS").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == page(), "docs/settings.md is out of date: cargo xtask settings writes it");
}
