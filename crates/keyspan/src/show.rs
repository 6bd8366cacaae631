//! SHOW and DESCRIBE.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use keyspan_cql::{Describe, ObjectName, Show};
use keyspan_model::array::array_of;
use keyspan_model::schema::temporary::is_temporary;
use keyspan_model::{Catalog, ColumnType, Error, ErrorKind, Result, Value};

use crate::context::ClientContext;
use crate::describe;
use crate::names::{self, TableOrView};
use crate::outcome::{Outcome, Rows, Tag, text_schema};
use crate::settings::definition;

/// The columns of a SHOW.
pub(crate) fn schema(context: &ClientContext, show: &Show) -> Result<SchemaRef> {
    Ok(match show {
        Show::Setting(name) => {
            context.settings.expect(name)?;
            text_schema(&[definition(name).map_or(name.as_str(), |definition| definition.name)])
        }
        Show::All => text_schema(&["name", "setting", "description"]),
        Show::Tables { .. } => text_schema(&["keyspace", "name"]),
        Show::Keyspaces => text_schema(&["name"]),
        Show::Views => text_schema(&["keyspace", "name"]),
        Show::Functions => text_schema(&["name"]),
        Show::Columns(_) => text_schema(&["column_name", "type", "nullable", "key", "default"]),
        Show::Files(_) => text_schema(&["file", "holds", "rows", "bytes", "settled", "reason"]),
        Show::Create(_) => text_schema(&["create_statement"]),
    })
}

/// `SHOW`.
pub(crate) fn run(context: &mut ClientContext, show: &Show) -> Result<Outcome> {
    let catalog = context.shown_catalog();
    let schema = schema(context, show)?;
    let rows: Vec<Vec<String>> = match show {
        Show::Setting(name) => vec![vec![context.settings.expect(name)?.to_string()]],
        Show::All => {
            let all = context.settings.all().into_iter();
            all.map(|(name, value, description)| vec![name, value, description.to_string()]).collect()
        }
        Show::Tables { keyspace } => {
            let path = match keyspace {
                Some(keyspace) => vec![keyspace.clone()],
                None => context.settings.search_path(),
            };
            if let Some(keyspace) = keyspace {
                names::expect_keyspace(&catalog, keyspace)?;
            }
            sorted(
                catalog
                    .tables
                    .values()
                    .filter(|table| path.contains(&table.keyspace))
                    .map(|t| vec![t.keyspace.clone(), t.name.clone()]),
            )
        }
        Show::Keyspaces => catalog.keyspaces.keys().map(|name| vec![name.clone()]).collect(),
        Show::Views => sorted(catalog.views.values().map(|view| vec![view.keyspace.clone(), view.name.clone()])),
        Show::Functions => {
            let error = Error::not_supported("SHOW FUNCTIONS is not supported");
            return Err(error.with_hint("SELECT proname FROM pg_catalog.pg_proc."));
        }
        Show::Columns(name) => columns(context, &catalog, name)?,
        Show::Files(name) => files(context, &catalog, name)?,
        Show::Create(name) => vec![vec![create_text(context, &catalog, name)?]],
    };
    answer("SHOW", schema, &rows)
}

fn sorted(rows: impl Iterator<Item = Vec<String>>) -> Vec<Vec<String>> {
    let mut rows: Vec<_> = rows.collect();
    rows.sort();
    rows
}

fn answer(command: &'static str, schema: SchemaRef, rows: &[Vec<String>]) -> Result<Outcome> {
    let column = |index: usize| {
        let values: Vec<Value> = rows.iter().map(|row| Value::Text(row[index].clone())).collect();
        array_of(ColumnType::Text, &values)
    };
    let arrays = (0..schema.fields().len()).map(column).collect::<Result<Vec<_>>>()?;
    let batch = RecordBatch::try_new(schema.clone(), arrays)?;
    Ok(Outcome::with_rows(Tag::plain(command), Rows::ready(schema, vec![batch])))
}

fn columns(context: &ClientContext, catalog: &Catalog, name: &ObjectName) -> Result<Vec<Vec<String>>> {
    let TableOrView::Table(table) = names::expect(catalog, &context.settings.search_path(), name)? else {
        let error = Error::new(ErrorKind::WrongObjectType, format!("\"{}\" is a view, not a table", name.name));
        return Err(error.with_hint("SELECT … FROM information_schema.columns knows views too."));
    };
    let shown = table.shown_columns();
    let row = |column: &keyspan_model::ColumnDef| {
        let nullable = if column.not_null || column.is_key() { "NO" } else { "YES" };
        vec![
            column.name.clone(),
            describe::type_text(column),
            nullable.to_string(),
            describe::key_text(column).to_string(),
            column.default.clone().unwrap_or_default(),
        ]
    };
    Ok(shown.map(row).collect())
}

/// The files of a table, of which some hold more than a query finds, or less.
fn files(context: &ClientContext, catalog: &Catalog, name: &ObjectName) -> Result<Vec<Vec<String>>> {
    context.require_superuser("execute SHOW FILES")?;
    let table = names::table(catalog, &context.settings.search_path(), name)?;
    let family = |id| table.families.iter().find(|family| family.relation == id).map(|family| family.name.clone());
    let holds = |id| match family(id) {
        Some(name) => name,
        None if id == table.rows => "rows".to_string(),
        None => "static columns".to_string(),
    };
    let relations: Vec<_> = table.relations().iter().map(|relation| relation.id).collect();
    let files = context.database.embedded("files")?.segment_files(&relations).into_iter();
    Ok(files
        .map(|file| {
            let settled = if file.unsettled.is_none() { "yes" } else { "no" };
            vec![
                file.path.unwrap_or_else(|| "(in memory)".to_string()),
                holds(file.relation),
                file.rows.to_string(),
                file.bytes.to_string(),
                settled.to_string(),
                file.unsettled.unwrap_or_default().to_string(),
            ]
        })
        .collect())
}

fn create_text(context: &ClientContext, catalog: &Catalog, name: &ObjectName) -> Result<String> {
    Ok(match names::expect(catalog, &context.settings.search_path(), name)? {
        TableOrView::Table(table) => {
            let indexes = table.indexes.iter().filter(|index| !index.is_constraint());
            let indexes = indexes.map(|index| describe::index(&table, index));
            let keys = describe::foreign_keys(catalog, &table).into_iter().map(|(_, text)| text);
            let comments = describe::comments(&table).into_iter().map(|(_, text)| text);
            let own = std::iter::once(describe::table(catalog, &table));
            let all: Vec<String> = own.chain(indexes).chain(keys).chain(comments).collect();
            all.join("\n")
        }
        TableOrView::View(view) => {
            let rows = view.stored().map(|stored| &stored.rows);
            let indexes =
                rows.into_iter().flat_map(|rows| rows.indexes.iter().map(|index| describe::index(rows, index)));
            std::iter::once(describe::view(catalog, &view)).chain(indexes).collect::<Vec<_>>().join("\n")
        }
    })
}

/// The columns of a DESCRIBE, those of Cassandra's.
pub(crate) fn describe_schema() -> SchemaRef {
    text_schema(&["keyspace_name", "type", "name", "create_statement"])
}

/// `DESCRIBE`.
pub(crate) fn describe(context: &mut ClientContext, statement: &Describe) -> Result<Outcome> {
    let catalog = context.shown_catalog();
    let everything_of = |keyspace: &str| describe::keyspace_rows(&catalog, keyspace);
    let rows = match statement {
        Describe::Cluster => vec![row("", "cluster", "keyspan", "")],
        Describe::Schema => catalog.keyspaces.keys().flat_map(|keyspace| everything_of(keyspace)).collect(),
        Describe::Keyspaces => catalog.keyspaces.keys().map(|name| row(name, "keyspace", name, "")).collect(),
        Describe::Keyspace(name) => {
            let path = context.settings.search_path().into_iter().filter(|keyspace| !is_temporary(keyspace));
            let current = path.into_iter().find(|keyspace| catalog.keyspaces.contains_key(keyspace));
            let name = name.clone().or(current).unwrap_or_default();
            names::expect_keyspace(&catalog, &name)?;
            everything_of(&name)
        }
        Describe::Tables => catalog.tables.values().map(|t| row(&t.keyspace, "table", &t.name, "")).collect(),
        Describe::Types => catalog.types.values().map(|ty| row(&ty.keyspace, "type", &ty.name, "")).collect(),
        Describe::Type(name) => {
            let found = names::expect_type(&catalog, &context.settings.search_path(), name)?;
            vec![describe::type_row(&found)]
        }
        Describe::Any(name) if name.keyspace.is_none() && catalog.keyspaces.contains_key(&name.name) => {
            everything_of(&name.name)
        }
        Describe::Index(name) => {
            let path = context.settings.search_path();
            let keyspaces = name.keyspace.as_ref().map_or(path.as_slice(), std::slice::from_ref);
            let found = keyspaces.iter().find_map(|keyspace| catalog.index(keyspace, &name.name));
            let missing = || {
                let message = format!("index \"{}\" does not exist", names::display(name));
                Error::new(ErrorKind::UndefinedObject, message)
            };
            let (table, index) = found.ok_or_else(missing)?;
            vec![describe::index_row(table, index)]
        }
        Describe::Table(name) | Describe::Any(name) => {
            match names::expect(&catalog, &context.settings.search_path(), name)? {
                TableOrView::Table(table) => {
                    let keys = describe::foreign_key_rows(&catalog, &table);
                    describe::table_rows(&catalog, &table).into_iter().chain(keys).collect()
                }
                TableOrView::View(view) => describe::view_rows(&catalog, &view),
            }
        }
    };
    answer("DESCRIBE", describe_schema(), &rows)
}

fn row(keyspace: &str, kind: &str, name: &str, text: &str) -> Vec<String> {
    [keyspace, kind, name, text].map(str::to_string).to_vec()
}
