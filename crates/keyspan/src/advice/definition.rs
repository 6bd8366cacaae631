//! What a table's definition tells, the gravest first.

use keyspan_cql::quoted;
use keyspan_model::{ColumnDef, ColumnRole, ColumnType, FamilyDef, FamilyKind, TableDef};

use super::Finding;

/// Families that a table may have without being told that they are many.
const FAMILIES_MAX: usize = 10;

/// Words in the names of tables whose rows nobody needs for ever.
const EVENTS: &[&str] = &["event", "log", "click", "metric", "reading", "trace", "visit", "measurement"];

/// Everything that will hurt.
pub(super) fn findings(table: &TableDef) -> Vec<Finding> {
    let rules: [fn(&TableDef) -> Option<Finding>; 6] =
        [leading_time, number_first, hash_first, time_as_qualifier, endless_events, many_families];
    rules.iter().filter_map(|rule| rule(table)).collect()
}

fn is_time(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Timestamp | ColumnType::LocalTimestamp | ColumnType::Date)
}

/// The key, if its first column alone is the partition key, as it is written.
fn first(table: &TableDef) -> Option<&ColumnDef> {
    let first = table.key().next().filter(|column| !column.hidden)?;
    (table.partition_len() == 1).then_some(first)
}

/// A column by which rows may be told apart before their time.
fn source<'a>(table: &'a TableDef, except: &ColumnDef) -> Option<&'a ColumnDef> {
    use ColumnType as T;
    let is_label = |ty| matches!(ty, T::Text | T::Ascii | T::Uuid | T::Int | T::BigInt | T::SmallInt | T::VarInt);
    let shown =
        || table.columns.iter().filter(|column| !column.hidden && column.id != except.id && is_label(column.ty));
    shown().find(|column| column.is_key()).or_else(|| shown().next())
}

/// `PRIMARY KEY (source, first, …)`.
fn turned(table: &TableDef, source: &ColumnDef) -> String {
    let rest = table.key().filter(|column| column.id != source.id).map(|column| quoted(&column.name));
    let columns: Vec<String> = std::iter::once(quoted(&source.name)).chain(rest).collect();
    format!("PRIMARY KEY ({})", columns.join(", "))
}

fn leading_time(table: &TableDef) -> Option<Finding> {
    let time = first(table).filter(|column| is_time(column.ty))?;
    let finding = format!(
        "the key of table \"{}\" begins with the time \"{}\": what one source writes lies spread over the whole table",
        table.name, time.name
    );
    let hint = match source(table, time) {
        Some(source) => format!("Put the source first: {}.", turned(table, source)),
        None => "Put what identifies the source first and the time behind it; \
                 with the time alone, rows of one moment overwrite each other."
            .to_owned(),
    };
    Some(Finding { finding, hint, remedy: None })
}

fn number_first(table: &TableDef) -> Option<Finding> {
    let number = first(table)?;
    let is_numbered =
        number.identity.is_some() || number.default.as_ref().is_some_and(|text| text.starts_with("nextval("));
    if !is_numbered {
        return None;
    }
    let finding = format!(
        "the key of table \"{}\" is a number from a sequence, \"{}\": rows that are read together do not stand together",
        table.name, number.name
    );
    let hint = match source(table, number) {
        Some(source) => {
            format!("If rows are read by another column, put it first, for instance {}.", turned(table, source))
        }
        None => "Begin the key with what queries ask for.".to_owned(),
    };
    Some(Finding { finding, hint, remedy: None })
}

fn hash_first(table: &TableDef) -> Option<Finding> {
    let hash = first(table)?;
    let name = hash.name.to_lowercase();
    let is_hash = name == "hash" || ["_hash", "_md5", "_sha1", "_sha256"].iter().any(|end| name.ends_with(end));
    if !is_hash || table.key().count() == 1 {
        return None;
    }
    let finding = format!(
        "the key of table \"{}\" begins with the hash \"{}\": neighbours in the key have nothing in common",
        table.name, hash.name
    );
    let hint = "Rows of one machine need not be spread: begin with what is read together, from coarse to fine.";
    Some(Finding { finding, hint: hint.to_owned(), remedy: None })
}

fn families(table: &TableDef) -> impl Iterator<Item = &FamilyDef> {
    table.families.iter().filter(|family| family.kind == FamilyKind::Family)
}

fn time_as_qualifier(table: &TableDef) -> Option<Finding> {
    let family = families(table).find(|family| family.qualifier.iter().all(|part| is_time(part.ty)))?;
    let finding = format!(
        "qualifiers of family \"{}\" are times alone: two values of one moment overwrite each other",
        family.name
    );
    let hint = "Put the time into the key of a table, with what tells two values apart behind it, \
                or keep versions: GC max_age = '30d'.";
    Some(Finding { finding, hint: hint.to_owned(), remedy: None })
}

fn endless_events(table: &TableDef) -> Option<Finding> {
    let name = table.name.to_lowercase();
    let is_named = EVENTS.iter().any(|word| name.contains(word));
    let time = table.key().find(|column| {
        matches!(column.role, ColumnRole::Clustering { .. })
            && (is_time(column.ty) || column.ty == ColumnType::TimeUuid)
    })?;
    if !is_named || table.default_ttl != 0 || table.retention.age.is_some() || table.has_counters() {
        return None;
    }
    let finding = format!("rows of table \"{}\" are kept for ever: it grows with \"{}\"", table.name, time.name);
    let remedy = format!("ALTER TABLE {}.{} WITH retention = '90d'", quoted(&table.keyspace), quoted(&table.name));
    let hint = format!("If old rows may go, say so before there are many: {remedy}.");
    Some(Finding { finding, hint, remedy: Some(remedy) })
}

fn many_families(table: &TableDef) -> Option<Finding> {
    let count = families(table).count();
    if count <= FAMILIES_MAX {
        return None;
    }
    let finding = format!("table \"{}\" has {count} families, each with files of its own", table.name);
    let hint = "What is read together and kept alike belongs into one family, under qualifiers.";
    Some(Finding { finding, hint: hint.to_owned(), remedy: None })
}
