//! The settings as `pg_settings` has them.

use std::sync::LazyLock;

use keyspan_query::DescribedSetting;

use super::definition::{DEFINITIONS, Definition, Kind};
use super::value::milliseconds;

/// Settings that only superusers change: those of the server's log, which others read.
pub(crate) const OF_SUPERUSERS: [&str; 2] = ["log_keys", "log_min_duration_statement"];

/// All settings.
pub(crate) fn described() -> &'static [DescribedSetting] {
    static DESCRIBED: LazyLock<Vec<DescribedSetting>> = LazyLock::new(|| DEFINITIONS.iter().map(describe).collect());
    &DESCRIBED
}

fn describe(definition: &Definition) -> DescribedSetting {
    let plain: fn(&str) -> String = str::to_owned;
    let in_milliseconds: fn(&str) -> String = |value| milliseconds(value).unwrap_or(0).to_string();
    let (kind, unit, bounds, words, in_unit): (_, _, _, &[&str], _) = match definition.kind {
        Kind::Boolean => ("bool", None, None, &[], plain),
        Kind::Integer(least, most) => ("integer", None, Some((least, most)), &[], plain),
        Kind::Duration => ("integer", Some("ms"), Some((0, i64::from(i32::MAX))), &[], in_milliseconds),
        Kind::Word(words) => ("enum", None, None, words, plain),
        Kind::Text | Kind::Bytes | Kind::Names | Kind::TimeZone | Kind::DateStyle | Kind::Encoding | Kind::Fixed => {
            ("string", None, None, &[], plain)
        }
    };
    let context = match definition.kind {
        Kind::Fixed => "internal",
        _ if OF_SUPERUSERS.contains(&definition.name) => "superuser",
        _ => "user",
    };
    let unit = if definition.name == "log_min_duration_statement" { Some("ms") } else { unit };
    DescribedSetting {
        name: definition.name,
        description: definition.description,
        kind,
        unit,
        bounds,
        words,
        default: in_unit(definition.default),
        context,
        in_unit,
    }
}
