//! Families of dynamic columns: definitions of them, and their changes.

use keyspan_cql::{FamilyDefinition, QualifierPart};
use keyspan_model::{
    Catalog, ColumnId, Error, ErrorKind, FamilyDef, GcRule, KeyColumn, RelationId, Result, TableDef, ValueColumn,
};

/// Families of one table at most, as Bigtable advises.
const FAMILIES_MAX: usize = 100;

/// Ids of a family's columns: the parts of the qualifier, then the value.
pub(super) struct Ids(Vec<ColumnId>, ColumnId);

impl Ids {
    /// New ones.
    pub(super) fn new(catalog: &mut Catalog, family: &FamilyDefinition) -> Ids {
        let parts = family.qualifier.iter().map(|_| catalog.new_column_id()).collect();
        Ids(parts, catalog.new_column_id())
    }
}

/// Adds a family to a table.
///
/// # Errors
/// 42701 for a name that a column or family has, 42P16 for a table without a key, 54011 for too many.
pub(super) fn add(catalog: &mut Catalog, table: &mut TableDef, family: &FamilyDefinition, ids: Ids) -> Result<()> {
    let name = &family.name;
    let error = |kind, message| Err(Error::new(kind, message).at(family.position));
    if table.column(name).is_some() || table.family(name).is_some() {
        return error(ErrorKind::DuplicateColumn, format!("column \"{name}\" specified more than once"));
    }
    if table.columns.iter().any(|column| column.hidden) {
        return error(
            ErrorKind::InvalidTableDefinition,
            "a table with families or collections needs a PRIMARY KEY".into(),
        );
    }
    if table.families.len() == FAMILIES_MAX {
        return error(ErrorKind::TooManyColumns, format!("tables can have at most {FAMILIES_MAX} families"));
    }
    let Ids(parts, value) = ids;
    let part = |(part, id): (&QualifierPart, ColumnId)| KeyColumn {
        id,
        name: part.name.clone(),
        ty: part.column_type,
        descending: part.descending,
    };
    table.families.push(FamilyDef {
        relation: catalog.new_relation_id(),
        name: name.clone(),
        qualifier: family.qualifier.iter().zip(parts).map(part).collect(),
        value: ValueColumn { id: value, name: "value".into(), ty: family.value },
        gc: family.gc.clone(),
        kind: family.kind,
        several_parts: family.qualifier.len() > 1,
        known: family.known.clone(),
    });
    Ok(())
}

/// Gives a family another rule.
pub(super) fn set_gc(table: &mut TableDef, name: &str, gc: &GcRule) -> Result<()> {
    let Some(family) = table.families.iter_mut().find(|family| family.name == name) else {
        let message = format!("family \"{name}\" of relation \"{}\" does not exist", table.name);
        return Err(Error::new(ErrorKind::UndefinedColumn, message));
    };
    if family.kind.is_collection() {
        return Err(Error::not_supported("a collection keeps one version of each element"));
    }
    family.gc = gc.clone();
    Ok(())
}

/// Gives all families of a table new relations: nothing written before can show through.
pub(super) fn empty(catalog: &mut Catalog, table: &mut TableDef) {
    let relations: Vec<RelationId> = table.families.iter().map(|_| catalog.new_relation_id()).collect();
    table.families.iter_mut().zip(relations).for_each(|(family, relation)| family.relation = relation);
}
