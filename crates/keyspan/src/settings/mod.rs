//! A session's settings: what SET, SHOW and RESET act on.
//!
//! The rule: every value is checked and written in one canonical form when it is set, so that readers need not check.
//! SET inside a transaction ends with ROLLBACK, SET LOCAL also with COMMIT, as in PostgreSQL.

mod definition;
mod described;
mod value;

use std::collections::BTreeMap;
use std::time::Duration;

use keyspan_model::{Error, ErrorKind, IntervalStyle, Result, nearest};
use keyspan_query::Zone;

use crate::outcome::Severity;
use crate::text::TextStyle;

pub use definition::{DEFINITIONS, Definition, Kind};
pub(crate) use described::{OF_SUPERUSERS, described};
pub(crate) use value::milliseconds;
pub use value::{client_encodings, parse_bytes};

/// Where the server's files are.
pub(crate) const DATA_DIRECTORY: &str = "data_directory";

/// The values of one session.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    values: BTreeMap<String, String>,
    /// What RESET goes back to where it is not the definition's default: the connection's start-up values.
    initial: BTreeMap<String, String>,
    /// The keyspace of the session's temporary tables, if it has had any.
    temporary: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings::new()
    }
}

impl Settings {
    /// The defaults.
    pub fn new() -> Settings {
        let values = DEFINITIONS.iter().map(|d| (d.key(), d.default.to_string())).collect();
        Settings { values, initial: BTreeMap::new(), temporary: None }
    }

    /// The value of a setting as SHOW prints it, by name in any case.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(&name.to_lowercase()).map(String::as_str)
    }

    /// The value of a setting that exists, else 42704 with the nearest name.
    pub fn expect(&self, name: &str) -> Result<&str> {
        self.get(name).ok_or_else(|| unknown(name))
    }

    /// Sets a value; several values are a list, as of `search_path`.
    ///
    /// # Errors
    /// 42704 for an unknown name without a point, 22023 for a value that is not allowed, 55P02 for one that is fixed.
    pub fn set(&mut self, name: &str, values: &[String]) -> Result<()> {
        let key = name.to_lowercase();
        let value = match definition(&key) {
            Some(definition) => value::canonical(definition, values)?,
            None if is_custom(&key) => values.join(", "),
            None => return Err(unknown(name)),
        };
        self.values.insert(key, value);
        Ok(())
    }

    /// Sets a value from the connection's start-up packet: RESET goes back to it.
    pub fn set_initial(&mut self, name: &str, value: &str) -> Result<()> {
        self.set(name, &self.values_of(name, value))?;
        let key = name.to_lowercase();
        self.initial.insert(key.clone(), self.values[&key].clone());
        self.follow_defaults();
        Ok(())
    }

    /// The values that one text stands for: several where the setting is a list of names.
    pub(crate) fn values_of(&self, name: &str, value: &str) -> Vec<String> {
        match definition(&name.to_lowercase()) {
            Some(Definition { kind: Kind::Names, .. }) => value::names(value),
            _ => vec![value.to_string()],
        }
    }

    /// Back to the default.
    pub fn reset(&mut self, name: &str) -> Result<()> {
        let key = name.to_lowercase();
        match (self.initial.get(&key), definition(&key)) {
            (Some(initial), _) => self.values.insert(key, initial.clone()),
            (None, Some(definition)) => self.values.insert(key, definition.default.to_string()),
            (None, None) if is_custom(&key) => self.values.remove(&key),
            (None, None) => return Err(unknown(name)),
        };
        Ok(())
    }

    /// Everything back to the defaults.
    pub fn reset_all(&mut self) {
        let fixed = Settings::new().values;
        self.values = fixed;
        self.values.extend(self.initial.clone());
    }

    /// Outside of a transaction `transaction_isolation` and the like tell what the next one will begin with.
    pub(crate) fn follow_defaults(&mut self) {
        for name in ["transaction_isolation", "transaction_read_only", "transaction_deferrable"] {
            if let Some(default) = self.values.get(&format!("default_{name}")).cloned() {
                self.values.insert(name.into(), default);
            }
        }
    }

    /// Puts back what SET LOCAL changed: names in lower case with their former values.
    pub(crate) fn restore(&mut self, former: &[(String, String)]) {
        // Backwards: of two changes to one setting the first knows the value to go back to.
        for (key, value) in former.iter().rev() {
            self.values.insert(key.clone(), value.clone());
        }
    }

    /// `SHOW session_authorization` tells the connected user.
    pub(crate) fn set_session_user(&mut self, user: &str) {
        self.values.insert("session_authorization".into(), user.to_string());
        self.initial.insert("session_authorization".into(), user.to_string());
    }

    /// `SHOW max_connections` tells the server's limit.
    pub(crate) fn set_max_connections(&mut self, limit: usize) {
        self.values.insert("max_connections".into(), limit.to_string());
        self.initial.insert("max_connections".into(), limit.to_string());
    }

    /// What a database tells of itself: settings that nobody sets, or with what they begin.
    pub(crate) fn set_facts(&mut self, facts: &[(&'static str, String)]) {
        for (name, value) in facts {
            self.values.insert((*name).into(), value.clone());
            self.initial.insert((*name).into(), value.clone());
        }
    }

    /// `SHOW is_superuser`. As in PostgreSQL others do not learn where the server's files are.
    pub(crate) fn set_superuser(&mut self, superuser: bool) {
        self.values.insert("is_superuser".into(), if superuser { "on" } else { "off" }.into());
        let directory = self.initial.get(DATA_DIRECTORY).filter(|_| superuser).cloned().unwrap_or_default();
        self.values.insert(DATA_DIRECTORY.into(), directory);
    }

    /// All names (as they are spelled) with values and descriptions, in order.
    pub fn all(&self) -> Vec<(String, String, &'static str)> {
        let spelled =
            |key: &str| definition(key).map_or((key.to_string(), ""), |d| (d.name.to_string(), d.description));
        self.values
            .iter()
            .map(|(key, value)| {
                let (name, description) = spelled(key);
                (name, value.clone(), description)
            })
            .collect()
    }

    /// Every value by its name in lower case.
    pub fn values(&self) -> &BTreeMap<String, String> {
        &self.values
    }

    /// Settings that the wire protocol reports to clients, with their values.
    pub fn reported(&self) -> Vec<(&'static str, String)> {
        DEFINITIONS
            .iter()
            .filter(|definition| definition.reported)
            .map(|d| (d.name, self.values.get(&d.key()).cloned().unwrap_or_default()))
            .collect()
    }

    /// Keyspaces in which unqualified names are looked up, in order; first that of the session's temporary tables, if
    /// it has any; `"$user"` left out.
    pub fn search_path(&self) -> Vec<String> {
        let path = self.values.get("search_path").map_or("", String::as_str);
        let own = |name: &String| !matches!(name.as_str(), "$user" | "pg_temp");
        self.temporary.iter().cloned().chain(value::names(path).into_iter().filter(own)).collect()
    }

    /// The keyspace of the session's temporary tables, if it has had any.
    pub(crate) fn temporary(&self) -> Option<&str> {
        self.temporary.as_deref()
    }

    /// Says which keyspace has the session's temporary tables.
    pub(crate) fn set_temporary(&mut self, keyspace: String) {
        self.temporary = Some(keyspace);
    }

    /// The session's time zone: an IANA name or an offset.
    pub fn time_zone(&self) -> &str {
        self.values.get("timezone").map_or("UTC", String::as_str)
    }

    /// Whether the client is told of notices of this severity.
    pub fn tells(&self, severity: Severity) -> bool {
        match self.get("client_min_messages") {
            Some("warning") => severity >= Severity::Warning,
            Some("error" | "fatal" | "panic") => false,
            _ => true,
        }
    }

    /// How values are printed.
    pub fn text_style(&self) -> TextStyle {
        let intervals = self.get("intervalstyle").map_or(IntervalStyle::default(), IntervalStyle::of_name);
        TextStyle { zone: Zone::of_setting(self.time_zone()), intervals }
    }

    /// How long a statement may run; none: as long as it takes.
    pub fn statement_timeout(&self) -> Option<Duration> {
        self.duration("statement_timeout")
    }

    /// Bytes that the queries of one statement may take; none: as many as there are for all.
    pub fn statement_memory(&self) -> Option<usize> {
        self.bytes("statement_memory")
    }

    /// A number of bytes; none where it is 0.
    pub(crate) fn bytes(&self, name: &str) -> Option<usize> {
        self.get(name).and_then(|text| parse_bytes(text).ok()).filter(|bytes| *bytes > 0)
    }

    /// How long a statement waits for a row lock; none: as long as it takes.
    pub fn lock_timeout(&self) -> Option<Duration> {
        self.duration("lock_timeout")
    }

    /// How long a session may be idle before it is ended, inside a transaction or outside; none: for ever.
    pub fn idle_timeout(&self, in_transaction: bool) -> Option<Duration> {
        self.duration(if in_transaction { "idle_in_transaction_session_timeout" } else { "idle_session_timeout" })
    }

    /// Whether commits are answered before they are on disk.
    pub fn relaxed_durability(&self) -> bool {
        self.get("durability") == Some("relaxed") || self.get("synchronous_commit") == Some("off")
    }

    /// Whether INSERT refuses keys that exist and UPDATE makes no rows, as in PostgreSQL.
    pub fn postgres_writes(&self) -> bool {
        self.get("write_semantics") == Some("postgres")
    }

    /// Whether foreign keys are taken that nothing enforces.
    pub fn ignores_foreign_keys(&self) -> bool {
        self.get("foreign_keys") == Some("not enforced")
    }

    /// How long a statement must take to be logged; none: none is.
    pub fn slow_statement(&self) -> Option<Duration> {
        let milliseconds: i64 = self.get("log_min_duration_statement")?.parse().ok()?;
        u64::try_from(milliseconds).ok().map(Duration::from_millis)
    }

    /// Whether a boolean setting is on.
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name) == Some("on")
    }

    fn duration(&self, name: &str) -> Option<Duration> {
        let milliseconds = self.get(name).and_then(milliseconds).unwrap_or(0);
        (milliseconds > 0).then(|| Duration::from_millis(milliseconds))
    }
}

/// The definition of a setting by its name in lower case.
pub(crate) fn definition(key: &str) -> Option<&'static Definition> {
    DEFINITIONS.iter().find(|definition| definition.name.eq_ignore_ascii_case(key))
}

/// `a.b`: a setting of the client's own, which PostgreSQL keeps without asking what it means.
fn is_custom(key: &str) -> bool {
    key.split_once('.').is_some_and(|(prefix, rest)| !prefix.is_empty() && !rest.is_empty())
}

fn unknown(name: &str) -> Error {
    let error = Error::new(ErrorKind::UndefinedObject, format!("unrecognized configuration parameter \"{name}\""));
    match nearest(name, DEFINITIONS.iter().map(|definition| definition.name)) {
        Some(near) => error.with_hint(format!("Perhaps you meant \"{near}\".")),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, value: &str) -> Result<Settings> {
        let mut settings = Settings::new();
        settings.set(name, &[value.to_string()])?;
        Ok(settings)
    }

    #[test]
    fn an_unknown_setting_names_the_nearest() {
        let error = set("statment_timeout", "1").expect_err("no such setting");
        assert_eq!(error.sqlstate(), "42704");
        assert_eq!(error.hint.as_deref(), Some("Perhaps you meant \"statement_timeout\"."));
    }

    #[test]
    fn custom_settings_are_kept_as_they_are() {
        assert_eq!(set("app.user", "ann").expect("custom").get("app.user"), Some("ann"));
    }

    #[test]
    fn durations_are_shown_with_their_unit() {
        let settings = set("statement_timeout", "90s").expect("a duration");
        assert_eq!(settings.get("statement_timeout"), Some("90s"));
        assert_eq!(settings.statement_timeout(), Some(Duration::from_secs(90)));
        assert_eq!(set("lock_timeout", "1500").expect("ms").get("lock_timeout"), Some("1500ms"));
    }

    #[test]
    fn a_list_is_a_search_path() {
        let mut settings = Settings::new();
        settings.set("search_path", &["plant".into(), "Public".into()]).expect("names");
        assert_eq!(settings.search_path(), ["plant", "Public"]);
        assert_eq!(settings.get("search_path"), Some("plant, \"Public\""));
    }

    #[test]
    fn a_wrong_value_tells_the_allowed_ones() {
        let error = set("durability", "sloppy").expect_err("not allowed");
        assert_eq!(error.sqlstate(), "22023");
        assert_eq!(error.hint.as_deref(), Some("Available values: full, relaxed."));
    }

    #[test]
    fn reset_goes_back_to_the_start_up_value() {
        let mut settings = Settings::new();
        settings.set_initial("application_name", "psql").expect("known");
        settings.set("application_name", &["other".into()]).expect("known");
        settings.reset_all();
        assert_eq!(settings.get("application_name"), Some("psql"));
    }
}
