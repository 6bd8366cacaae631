//! Indexes on vectors, as Cassandra and pgvector declare them. The search is exact and needs none: an index says by
//! which similarity `ANN OF` sorts, and a notice that nothing is built.

use keyspan_cql::{CreateIndex, IndexedPart};
use keyspan_model::{Error, ErrorKind, Result, Similarity, TableDef};

use super::index::check_method;
use crate::context::ClientContext;
use crate::outcome::Notice;

/// Kinds of index that stand for this one.
const METHODS: &[&str] = &["sai", "storageattachedindex", "hnsw", "ivfflat"];

/// pgvector's operator classes.
const CLASSES: [(&str, Similarity); 3] = [
    ("vector_cosine_ops", Similarity::Cosine),
    ("vector_l2_ops", Similarity::Euclidean),
    ("vector_ip_ops", Similarity::DotProduct),
];

/// What an index compares vectors by; `None` if it is not on a vector.
///
/// # Errors
/// 0A000 for a vector among other columns, for other options and operator classes; 22023 for an unknown similarity; 42710
/// where another index on the column says another one.
pub(super) fn similarity(table: &TableDef, statement: &CreateIndex) -> Result<Option<Similarity>> {
    let vector = |part: &IndexedPart| match part {
        IndexedPart::Column(name) => table.column(name).filter(|column| column.ty.dimension().is_some()),
        _ => None,
    };
    let Some(column) = statement.parts.iter().find_map(vector) else { return Ok(None) };
    if statement.parts.len() > 1 {
        let error = Error::not_supported("an index on a vector and on other columns is not supported");
        return Err(error.with_hint("Make an index on each."));
    }
    check_method(statement, METHODS)?;
    let similarity = declared(statement)?;
    match table.indexes_on(column.id).find(|index| index.similarity.is_some_and(|own| own != similarity)) {
        None => Ok(Some(similarity)),
        Some(index) => {
            let name = &index.name;
            let message = format!("index \"{name}\" says another similarity of column \"{}\"", column.name);
            let error = Error::new(ErrorKind::DuplicateObject, message);
            Err(error.with_hint(format!("DROP INDEX \"{name}\" first, or call another similarity by its name.")))
        }
    }
}

fn declared(statement: &CreateIndex) -> Result<Similarity> {
    let mut similarity = match &statement.operator_class {
        None => Similarity::default(),
        Some(class) => match CLASSES.into_iter().find(|(name, _)| name == class) {
            Some((_, similarity)) => similarity,
            None => {
                let error = Error::not_supported(format!("operator class \"{class}\" is not supported for vectors"));
                return Err(error.with_hint("There are vector_cosine_ops, vector_l2_ops and vector_ip_ops."));
            }
        },
    };
    for (option, value) in &statement.options {
        match option.as_str() {
            "similarity_function" => similarity = named(&value.text())?,
            // How an approximate index would be built.
            "optimize_for" | "maximum_node_connections" | "construction_beam_width" | "source_model" => {}
            _ => {
                let message = format!("index option '{option}' is not supported for vectors");
                return Err(Error::not_supported(message).with_hint("Leave it out."));
            }
        }
    }
    Ok(similarity)
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
