//! Indexes on vectors, as Cassandra and pgvector declare them. The search is exact and needs none: an index says by
//! which similarity `ANN OF` sorts, and a notice that nothing is built.

use keyspan_cql::{CreateIndex, IndexedPart};
use keyspan_model::{Error, ErrorKind, Result, Similarity, TableDef};

use crate::context::ClientContext;
use crate::outcome::Notice;

/// Kinds of index that stand for this one.
const METHODS: &[&str] = &["sai", "storageattachedindex", "hnsw", "ivfflat"];

/// What an index compares vectors by; `None` if it is not on a vector.
///
/// # Errors
/// 0A000 for a vector among other columns and for other options, 22023 for an unknown similarity.
pub(super) fn similarity(table: &TableDef, statement: &CreateIndex) -> Result<Option<Similarity>> {
    let is_vector = |part: &IndexedPart| match part {
        IndexedPart::Column(name) => table.column(name).is_some_and(|column| column.ty.dimension().is_some()),
        _ => false,
    };
    if !statement.parts.iter().any(is_vector) {
        return Ok(None);
    }
    if statement.parts.len() > 1 {
        let error = Error::not_supported("an index on a vector and on other columns is not supported");
        return Err(error.with_hint("Make an index on each."));
    }
    if let Some(method) = &statement.method {
        let own = method.rsplit('.').next().unwrap_or(method).to_ascii_lowercase();
        if !METHODS.contains(&own.as_str()) {
            let error = Error::not_supported(format!("index method \"{method}\" is not supported for vectors"));
            return Err(error.with_hint("Leave it out, or write USING 'StorageAttachedIndex'."));
        }
    }
    let mut similarity = Similarity::default();
    for (option, value) in &statement.options {
        match option.as_str() {
            "similarity_function" => similarity = named(&value.text())?,
            // How an approximate index would be built.
            "optimize_for"
            | "maximum_node_connections"
            | "construction_beam_width"
            | "source_model"
            | "m"
            | "ef_construction"
            | "lists" => {}
            _ => {
                let message = format!("index option '{option}' is not supported for vectors");
                return Err(Error::not_supported(message).with_hint("Leave it out."));
            }
        }
    }
    Ok(Some(similarity))
}

fn named(name: &str) -> Result<Similarity> {
    Similarity::of_name(name).ok_or_else(|| {
        let error = Error::new(ErrorKind::InvalidParameter, format!("similarity_function '{name}' is not known"));
        error.with_hint("It is 'cosine', 'dot_product' or 'euclidean'.")
    })
}

/// Tells that nothing is built.
pub(super) fn tell(context: &mut ClientContext, similarity: Similarity) {
    let message = format!(
        "the search by vectors is exact, and no index is built: this one says that ANN OF sorts by similarity_{}",
        similarity.name()
    );
    context.notice(Notice::plain(message));
}
