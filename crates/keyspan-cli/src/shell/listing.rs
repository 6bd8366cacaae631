//! `\d` and its relatives: what there is. They ask the catalog of any server that speaks PostgreSQL's protocol.

use super::Shell;
use crate::failure::{Failure, Result};
use crate::script::literal;

/// What a list shows: its title and its query, in which `{filter}` is a condition on schema and name.
struct List {
    title: &'static str,
    query: &'static str,
    schema: &'static str,
    name: &'static str,
}

const RELATIONS: &str = "SELECT n.nspname AS \"Keyspace\", c.relname AS \"Name\", CASE c.relkind WHEN 'r' THEN 'table' \
    WHEN 'p' THEN 'table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'i' THEN 'index' \
    WHEN 'S' THEN 'sequence' ELSE 'other' END AS \"Type\", pg_catalog.pg_get_userbyid(c.relowner) AS \"Owner\" \
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace \
    WHERE c.relkind IN ({kinds}) AND {filter} ORDER BY 1, 2";
const INDEXES: &str = "SELECT schemaname AS \"Keyspace\", indexname AS \"Name\", tablename AS \"Table\", \
    indexdef AS \"Definition\" FROM pg_catalog.pg_indexes WHERE {filter} ORDER BY 1, 3, 2";
const KEYSPACES: &str = "SELECT nspname AS \"Name\", pg_catalog.pg_get_userbyid(nspowner) AS \"Owner\" \
    FROM pg_catalog.pg_namespace WHERE {filter} ORDER BY 1";
const DATABASES: &str = "SELECT datname AS \"Name\" FROM pg_catalog.pg_database WHERE {filter} ORDER BY 1";
const ROLES: &str = "SELECT rolname AS \"Role name\", CASE WHEN rolsuper THEN 'Superuser' WHEN NOT rolcanlogin \
    THEN 'Cannot login' ELSE '' END AS \"Attributes\" FROM pg_catalog.pg_roles WHERE {filter} ORDER BY 1";
const FUNCTIONS: &str = "SELECT n.nspname AS \"Schema\", p.proname AS \"Name\", \
    pg_catalog.format_type(p.prorettype, NULL) AS \"Result data type\" FROM pg_catalog.pg_proc AS p \
    JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace WHERE {filter} ORDER BY 1, 2";
const TYPES: &str = "SELECT n.nspname AS \"Keyspace\", t.typname AS \"Name\" FROM pg_catalog.pg_type AS t \
    JOIN pg_catalog.pg_namespace AS n ON n.oid = t.typnamespace LEFT JOIN pg_catalog.pg_class AS c ON c.oid = t.typrelid \
    WHERE (t.typrelid = 0 OR c.relkind = 'c') AND t.typelem = 0 AND {filter} ORDER BY 1, 2";

/// The columns of a relation on any server.
const COLUMNS: &str = "SELECT a.attname AS \"Column\", pg_catalog.format_type(a.atttypid, a.atttypmod) AS \"Type\", \
    CASE WHEN a.attnotnull THEN 'not null' ELSE '' END AS \"Nullable\", \
    pg_catalog.pg_get_expr(d.adbin, d.adrelid) AS \"Default\" FROM pg_catalog.pg_attribute AS a \
    LEFT JOIN pg_catalog.pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
    WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";

impl List {
    /// The list of a command, and the kinds of relations in it.
    fn of(letters: &str) -> Option<(List, &'static str)> {
        let list = |title, query, schema, name| List { title, query, schema, name };
        let relations = list("List of relations", RELATIONS, "n.nspname", "c.relname");
        Some(match letters {
            "d" => (relations, "'r', 'p', 'v', 'm', 'S'"),
            "dt" => (relations, "'r', 'p'"),
            "dv" => (relations, "'v'"),
            "dm" => (relations, "'m'"),
            "ds" => (relations, "'S'"),
            "di" => (list("List of indexes", INDEXES, "schemaname", "indexname"), ""),
            "dn" => (list("List of keyspaces", KEYSPACES, "nspname", "nspname"), ""),
            "l" => (list("List of databases", DATABASES, "", "datname"), ""),
            "du" | "dg" => (list("List of roles", ROLES, "", "rolname"), ""),
            "df" => (list("List of functions", FUNCTIONS, "n.nspname", "p.proname"), ""),
            "dT" => (list("List of data types", TYPES, "n.nspname", "t.typname"), ""),
            _ => return None,
        })
    }
}

impl Shell {
    /// `\d…`, `\l`: lists what there is, or describes one relation.
    pub(super) fn list(&mut self, command: &str, pattern: Option<String>) -> Result<()> {
        let letters = command.trim_end_matches(['+', 'S']);
        let more = &command[letters.len()..];
        if letters == "d"
            && let Some(name) = pattern.as_deref().filter(|name| !name.contains(['*', '?']))
        {
            return self.describe(name, more.contains('+'));
        }
        let Some((list, kinds)) = List::of(letters) else {
            return Err(Failure::new(format!("invalid command \\{command}")).with_hint("Try \\? for help."));
        };
        let filter = filter(&list, pattern.as_deref(), more.contains('S'));
        let query = list.query.replace("{kinds}", kinds).replace("{filter}", &filter);
        self.run_titled(list.title, &query)
    }

    fn run_titled(&mut self, title: &str, query: &str) -> Result<()> {
        let before = self.printer.style.title.replace(title.to_string());
        let result = self.run_quietly(query);
        self.printer.style.title = before;
        result
    }

    /// `\d NAME`: columns, key and indexes; `\d+ NAME` what makes it.
    fn describe(&mut self, name: &str, in_full: bool) -> Result<()> {
        let of_name = format!("{}::pg_catalog.regclass", literal(name));
        let found = self.rows(&format!(
            "SELECT c.oid, n.nspname, c.relname, c.relkind FROM pg_catalog.pg_class AS c \
             JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = {of_name}"
        ))?;
        let cells: Vec<String> = found.rows.into_iter().flatten().map(Option::unwrap_or_default).collect();
        let [oid, keyspace, relation, kind] = cells.as_slice() else {
            return Err(Failure::new(format!("Did not find any relation named \"{name}\".")));
        };
        let is_keyspan = self.runtime.block_on(self.client.is_keyspan());
        if in_full && is_keyspan {
            return self.run_quietly(&format!("DESCRIBE {name}"));
        }
        let what = match kind.as_str() {
            "v" => "View",
            "m" => "Materialized view",
            "i" => "Index",
            "S" => "Sequence",
            _ => "Table",
        };
        let query = match is_keyspan && what == "Table" {
            true => format!("SHOW COLUMNS FROM {name}"),
            false => COLUMNS.replace("{oid}", oid),
        };
        self.printer.style.footers = self.indexes(keyspace, relation)?;
        let footer = std::mem::replace(&mut self.printer.style.footer, !self.printer.style.footers.is_empty());
        let result = self.run_titled(&format!("{what} \"{keyspace}.{relation}\""), &query);
        self.printer.style.footers.clear();
        self.printer.style.footer = footer;
        result
    }

    /// The indexes of a relation, as lines below its columns.
    fn indexes(&mut self, keyspace: &str, relation: &str) -> Result<Vec<String>> {
        let query = format!(
            "SELECT indexname, indexdef FROM pg_catalog.pg_indexes WHERE schemaname = {} AND tablename = {} ORDER BY 1",
            literal(keyspace),
            literal(relation)
        );
        let rows = self.rows(&query)?.rows.into_iter().map(|row| {
            let mut cells = row.into_iter().map(Option::unwrap_or_default);
            let (name, definition) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
            let definition = definition.split_once(" USING ").map_or(definition.as_str(), |(_, using)| using);
            format!("    \"{name}\" {definition}")
        });
        let lines: Vec<String> = rows.collect();
        Ok(if lines.is_empty() { lines } else { [vec!["Indexes:".to_string()], lines].concat() })
    }
}

/// A condition on what a list shows. A pattern has psql's `*` and `?`, and a keyspace before a point.
fn filter(list: &List, pattern: Option<&str>, system: bool) -> String {
    let Some(pattern) = pattern else {
        return match list.schema {
            "" => "true".to_string(),
            _ if system => "true".to_string(),
            schema => format!("{schema} NOT IN ('pg_catalog', 'information_schema')"),
        };
    };
    let (schema, name) = match pattern.split_once('.').filter(|_| !list.schema.is_empty() && list.schema != list.name) {
        Some((schema, name)) => (Some(schema), name),
        None => (None, pattern),
    };
    let like = |column: &str, pattern: &str| format!("{column} ~ {}", literal(&regular(pattern)));
    let schema = match schema {
        Some(schema) => format!(" AND {}", like(list.schema, schema)),
        None if list.schema.is_empty() || list.schema == list.name => String::new(),
        None => format!(" AND {} <> 'information_schema'", list.schema),
    };
    format!("{}{schema}", like(list.name, name))
}

/// A pattern as a regular expression, in lower case where it is not quoted.
fn regular(pattern: &str) -> String {
    let mut out = "^(".to_string();
    let mut quoted = false;
    for character in pattern.chars() {
        match character {
            '"' => quoted = !quoted,
            '*' if !quoted => out.push_str(".*"),
            '?' if !quoted => out.push('.'),
            c if c.is_alphanumeric() || c == '_' => match quoted {
                true => out.push(c),
                false => out.extend(c.to_lowercase()),
            },
            c => {
                out.push('\\');
                out.push(c);
            }
        }
    }
    out.push_str(")$");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_psqls() {
        assert_eq!(regular("Fl*"), "^(fl.*)$");
        assert_eq!(regular("\"My t\"?"), "^(My\\ t.)$");
        let list = List { title: "", query: "", schema: "n.nspname", name: "c.relname" };
        assert_eq!(filter(&list, Some("public.t*"), false), "c.relname ~ '^(t.*)$' AND n.nspname ~ '^(public)$'");
    }
}
