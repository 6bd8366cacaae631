//! The COPY statement: which way the data goes, and the rows of COPY TO.

use keyspan_cql::{Copy, CopySubject, CopyTarget};
use keyspan_model::{Error, ErrorKind, Result, Right, Value};

use crate::context::ClientContext;
use crate::dml::rights;
use crate::outcome::{CopyDirection, Outcome, Rows, Tag};
use crate::{names, query};

/// `COPY`. The outcome says which way the data goes; that of COPY TO has the rows.
pub(crate) async fn run(context: &mut ClientContext, statement: &Copy, parameters: &[Value]) -> Result<Outcome> {
    if let CopyTarget::File(path) = &statement.target {
        let error = Error::not_supported(format!("COPY with the server's file \"{path}\" is not supported"));
        return Err(error.with_hint("Use STDIN or STDOUT; psql's \\copy reads and writes the client's files."));
    }
    if statement.is_from {
        // Wrong names are told before any data is asked for.
        let CopySubject::Table { name, columns } = &statement.subject else {
            return Err(Error::new(ErrorKind::Syntax, "COPY FROM needs a table"));
        };
        let table = names::table(&context.catalog(), &context.settings.search_path(), name)?;
        let columns: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        context.require(&table, Right::Insert, &rights::ids(&table, &columns))?;
        let copy = Some(CopyDirection::In(Box::new(statement.clone())));
        return Ok(Outcome { tag: Tag::streamed("COPY"), rows: None, copy });
    }
    let query = match &statement.subject {
        CopySubject::Query(query) => query.query.clone(),
        CopySubject::Table { name, columns } => {
            let columns: Vec<String> = columns.iter().map(|column| keyspan_cql::quoted(&column.name)).collect();
            let columns = if columns.is_empty() { "*".to_string() } else { columns.join(", ") };
            names::parse_query(&format!("SELECT {columns} FROM {name}"))?
        }
    };
    let (schema, stream) = query::run(context, &query, parameters).await?;
    let stream = context.running.guard_stream(stream);
    let copy = Some(CopyDirection::Out(Box::new(statement.clone())));
    let rows = Some(Rows::new(schema, stream));
    Ok(Outcome { tag: Tag::streamed("COPY"), rows, copy })
}
