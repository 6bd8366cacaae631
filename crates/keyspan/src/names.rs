//! Names to things: tables and views along the search path, and time zones.

use std::sync::Arc;

use chrono::{DateTime, MappedLocalTime, Offset, TimeZone};
use chrono_tz::{TZ_VARIANTS, Tz};
use keyspan_cql::{ObjectName, Statement, ast};
use keyspan_model::{Catalog, Error, ErrorKind, Result, TableDef, ViewDef, nearest};

/// What a relation name stands for.
#[derive(Clone, Debug)]
pub(crate) enum Named {
    Table(Arc<TableDef>),
    View(Arc<ViewDef>),
}

/// Keyspaces that belong to the system: read only.
pub(crate) const SYSTEM: &[&str] = &["pg_catalog", "information_schema", "system", "system_schema", "pg_toast"];

/// The table or view of this name: in its own keyspace, or in the first of the search path that has it.
pub(crate) fn find(catalog: &Catalog, path: &[String], name: &ObjectName) -> Option<Named> {
    let in_keyspace = |keyspace: &str| {
        let table = catalog.table(keyspace, &name.name).cloned().map(Named::Table);
        table.or_else(|| catalog.view(keyspace, &name.name).cloned().map(Named::View))
    };
    match &name.keyspace {
        Some(keyspace) => in_keyspace(keyspace),
        None => path.iter().find_map(|keyspace| in_keyspace(keyspace)),
    }
}

/// [`find`], or 42P01 (3F000 for an unknown keyspace) with the nearest name.
pub(crate) fn expect(catalog: &Catalog, path: &[String], name: &ObjectName) -> Result<Named> {
    find(catalog, path, name).ok_or_else(|| {
        let error = Error::new(ErrorKind::UndefinedTable, format!("relation \"{}\" does not exist", plain(name)));
        let error = error.at(name.position);
        let tables = catalog.tables.values().map(|table| (&table.keyspace, table.name.as_str()));
        let views = catalog.views.values().map(|view| (&view.keyspace, view.name.as_str()));
        let searched = |keyspace: &String| match &name.keyspace {
            Some(own) => own == keyspace,
            None => path.contains(keyspace),
        };
        let names = tables.chain(views).filter(|(keyspace, _)| searched(keyspace)).map(|(_, name)| name);
        match nearest(&name.name, names) {
            Some(near) => error.with_hint(format!("Perhaps you meant \"{near}\".")),
            None => error,
        }
    })
}

/// The table of this name for a statement that writes to it.
pub(crate) fn table(catalog: &Catalog, path: &[String], name: &ObjectName) -> Result<Arc<TableDef>> {
    if name.keyspace.as_deref().is_some_and(|keyspace| SYSTEM.contains(&keyspace)) {
        let message = format!("permission denied: \"{}\" is a system catalog", plain(name));
        return Err(Error::new(ErrorKind::Unauthorized, message));
    }
    match expect(catalog, path, name)? {
        Named::Table(table) => Ok(table),
        Named::View(view) => {
            let message = format!("\"{}\" is a view, not a table", view.name);
            let hint = "Views cannot be written to; write to the tables they read.";
            Err(Error::new(ErrorKind::WrongObjectType, message).with_hint(hint).at(name.position))
        }
    }
}

/// The keyspace in which a new object of this name is made.
pub(crate) fn keyspace_for(catalog: &Catalog, path: &[String], name: &ObjectName) -> Result<String> {
    let keyspace = match &name.keyspace {
        Some(keyspace) => keyspace,
        None => match path.iter().find(|keyspace| catalog.keyspaces.contains_key(*keyspace)) {
            Some(keyspace) => keyspace,
            None => {
                let error = Error::new(ErrorKind::UndefinedSchema, "no keyspace has been selected to create in");
                return Err(error.with_hint("Name one, or SET search_path to one that exists."));
            }
        },
    };
    if SYSTEM.contains(&keyspace.as_str()) {
        let message = format!("permission denied to create \"{}\"", plain(name));
        return Err(Error::new(ErrorKind::Unauthorized, message));
    }
    expect_keyspace(catalog, keyspace)?;
    Ok(keyspace.clone())
}

/// Fails with 3F000 unless the keyspace exists.
pub(crate) fn expect_keyspace(catalog: &Catalog, keyspace: &str) -> Result<()> {
    if catalog.keyspaces.contains_key(keyspace) {
        return Ok(());
    }
    let error = Error::new(ErrorKind::UndefinedSchema, format!("schema \"{keyspace}\" does not exist"));
    Err(match nearest(keyspace, catalog.keyspaces.keys().map(String::as_str)) {
        Some(near) => error.with_hint(format!("Perhaps you meant \"{near}\".")),
        None => error,
    })
}

/// The name for messages, as PostgreSQL writes it: `plant.reading`.
pub(crate) fn plain(name: &ObjectName) -> String {
    match &name.keyspace {
        Some(keyspace) => format!("{keyspace}.{}", name.name),
        None => name.name.clone(),
    }
}

/// The parser of stored queries.
pub(crate) fn parse_query(sql: &str) -> Result<Box<ast::Query>> {
    match keyspan_cql::parse_one(sql)?.statement {
        Statement::Query(mut query) => {
            crate::arrays::expand(&mut query.query)?;
            Ok(query.query)
        }
        _ => Err(Error::internal("a stored query is not a query")),
    }
}

/// A session's time zone, for reading texts that stand for instants.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    own: Offsets,
}

#[derive(Clone, Copy, Debug)]
enum Offsets {
    Fixed(i32),
    Named(Tz),
}

impl Zone {
    /// The zone of this name or offset, as the setting keeps it.
    pub(crate) fn new(name: &str) -> Zone {
        Zone { own: offsets(name).unwrap_or(Offsets::Fixed(0)) }
    }

    /// Whether it is UTC, so that texts need no session.
    pub(crate) fn is_utc(&self) -> bool {
        matches!(self.own, Offsets::Fixed(0) | Offsets::Named(Tz::UTC))
    }

    /// Seconds east of UTC at an instant (microseconds since 1970-01-01 UTC).
    pub(crate) fn offset_at(&self, micros: i64) -> i32 {
        match self.own {
            Offsets::Fixed(seconds) => seconds,
            Offsets::Named(zone) => DateTime::from_timestamp_micros(micros)
                .map_or(0, |instant| zone.offset_from_utc_datetime(&instant.naive_utc()).fix().local_minus_utc()),
        }
    }

    /// Seconds east of UTC of a wall-clock time; `zone` is one that stood in the text.
    pub(crate) fn resolve(&self, zone: Option<&str>, local_micros: i64) -> Result<i32> {
        let offsets = match zone {
            None => self.own,
            Some(name) => offsets(name).ok_or_else(|| {
                Error::new(ErrorKind::InvalidParameter, format!("time zone \"{name}\" not recognized"))
            })?,
        };
        Ok(match offsets {
            Offsets::Fixed(seconds) => seconds,
            Offsets::Named(zone) => local_offset(zone, local_micros),
        })
    }
}

fn offsets(name: &str) -> Option<Offsets> {
    if let Some(rest) = name.strip_prefix(['+', '-']) {
        let (hours, minutes) = rest.split_once(':')?;
        let seconds = hours.parse::<i32>().ok()? * 3600 + minutes.parse::<i32>().ok()? * 60;
        return Some(Offsets::Fixed(if name.starts_with('-') { -seconds } else { seconds }));
    }
    if name.eq_ignore_ascii_case("utc") {
        return Some(Offsets::Fixed(0));
    }
    TZ_VARIANTS.iter().find(|zone| zone.name().eq_ignore_ascii_case(name)).copied().map(Offsets::Named)
}

/// The offset of a wall-clock time. Where it occurs twice or never, standard time's, as in PostgreSQL.
fn local_offset(zone: Tz, local_micros: i64) -> i32 {
    let Some(local) = DateTime::from_timestamp_micros(local_micros).map(|time| time.naive_utc()) else { return 0 };
    match zone.offset_from_local_datetime(&local) {
        MappedLocalTime::Single(offset) => offset.fix().local_minus_utc(),
        MappedLocalTime::Ambiguous(first, second) => first.fix().local_minus_utc().min(second.fix().local_minus_utc()),
        MappedLocalTime::None => {
            let before = local - chrono::Duration::hours(3);
            zone.offset_from_utc_datetime(&before).fix().local_minus_utc()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JULY: i64 = 1_719_835_200_000_000;
    const JANUARY: i64 = 1_704_110_400_000_000;

    #[test]
    fn a_named_zone_knows_summer() {
        let zone = Zone::new("Europe/Berlin");
        assert_eq!(zone.resolve(None, JULY), Ok(7200));
        assert_eq!(zone.resolve(None, JANUARY), Ok(3600));
        assert_eq!(zone.resolve(Some("america/new_york"), JULY), Ok(-14400));
        assert_eq!(Zone::new("-03:30").resolve(None, JULY), Ok(-12600));
    }

    #[test]
    fn an_unknown_zone_is_an_error() {
        assert_eq!(Zone::new("UTC").resolve(Some("Mars/Base"), JULY).expect_err("none").sqlstate(), "22023");
    }
}
