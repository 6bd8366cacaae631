//! The variables of `\set`: those that statements name as `:name`, and those that the shell itself obeys.

use std::collections::BTreeMap;

use crate::failure::{Failure, Result};

/// Variables by name.
#[derive(Clone, Debug, Default)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }

    /// Sets a variable.
    ///
    /// # Errors
    /// A name of other than letters, digits and `_`; a value that a variable of the shell cannot have.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        if name.is_empty() || !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
            return Err(Failure::new(format!("invalid variable name: \"{name}\"")));
        }
        if matches!(name, "ON_ERROR_STOP" | "QUIET") && truth(value).is_none() {
            return Err(Failure::new(format!("\"{value}\" is neither on nor off: {name} is as it was")));
        }
        if name == "ECHO" && !matches!(value, "none" | "all" | "queries" | "errors") {
            return Err(Failure::new(format!("\"{value}\" is not none, all, queries or errors: ECHO is as it was")));
        }
        self.0.insert(name.to_string(), value.to_string());
        Ok(())
    }

    /// Takes a variable away.
    pub fn unset(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// All of them, as `\set` lists them.
    pub fn list(&self) -> Vec<String> {
        self.0.iter().map(|(name, value)| format!("{name} = '{}'", value.replace('\'', "''"))).collect()
    }

    fn is_on(&self, name: &str, default: bool) -> bool {
        self.0.get(name).and_then(|value| truth(value)).unwrap_or(default)
    }

    /// Whether a script ends at its first error.
    pub fn stops_at_errors(&self) -> bool {
        self.is_on("ON_ERROR_STOP", true)
    }

    /// Whether messages of the shell itself are left out.
    pub fn is_quiet(&self) -> bool {
        self.is_on("QUIET", false)
    }

    /// Whether statements are shown before they run.
    pub fn echoes(&self) -> bool {
        matches!(self.0.get("ECHO").map(String::as_str), Some("all" | "queries"))
    }

    /// Whether statements that fail are shown.
    pub fn echoes_errors(&self) -> bool {
        self.0.get("ECHO").is_some_and(|echo| echo == "errors")
    }

    /// Notes what became of a statement: `:ROW_COUNT`, `:ERROR`, `:LAST_ERROR_MESSAGE`.
    pub fn note(&mut self, rows: u64, error: Option<&str>) {
        let mut put = |name: &str, value: String| self.0.insert(name.to_string(), value);
        put("ROW_COUNT", if error.is_some() { 0 } else { rows }.to_string());
        put("ERROR", error.is_some().to_string());
        if let Some(error) = error {
            put("LAST_ERROR_MESSAGE", error.to_string());
        }
    }
}

/// `on`, `true`, `yes`, `1`, nothing, and their opposites, or the beginnings of them, as psql reads them.
pub fn truth(text: &str) -> Option<bool> {
    let text = text.to_ascii_lowercase();
    let begins = |word: &str| !text.is_empty() && word.starts_with(&text);
    match text.as_str() {
        "" | "1" | "on" => Some(true),
        "0" | "of" | "off" => Some(false),
        _ if begins("true") || begins("yes") => Some(true),
        _ if begins("false") || begins("no") => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_and_values_that_mean_something_are_taken() {
        let mut variables = Variables::default();
        assert!(variables.stops_at_errors() && !variables.is_quiet());
        variables.set("ON_ERROR_STOP", "off").expect("a truth value");
        assert!(!variables.stops_at_errors());
        assert!(variables.set("ON_ERROR_STOP", "perhaps").is_err() && variables.set("a b", "1").is_err());
        variables.set("x", "it's").expect("a name");
        assert_eq!(variables.list(), ["ON_ERROR_STOP = 'off'", "x = 'it''s'"]);
    }
}
