//! The cells that a statement writes to the families of one row.
//!
//! Each family is a relation of its own. A row that has cells in one gets a presence entry among the rows, so that it is
//! found though neither an INSERT has made it nor a column has a value.

use std::collections::HashSet;

use keyspan_model::schema::PRESENCE_COLUMN;
use keyspan_model::{
    CellWrite, Error, ErrorKind, FamilyDef, Mutation, RelationId, Result, RowDelete, RowWrite, Span, SpanDelete, Value,
};

use crate::dml::using::Timing;
use crate::intake::whole::null_inside;
use crate::intake::{before, whole};
use crate::row::TableHandle;

/// A cell to write; none deletes it.
#[derive(Clone, Debug)]
struct FamilyCell {
    family: FamilyDef,
    qualifier: Value,
    value: Option<Value>,
}

/// The cells that a statement writes to the families of a row.
#[derive(Clone, Debug, Default)]
pub(crate) struct FamilyCells {
    /// Families that are deleted.
    deleted: Vec<FamilyDef>,
    /// Families that are written as a whole: what they had before the statement goes.
    replaced: Vec<FamilyDef>,
    cells: Vec<FamilyCell>,
    /// The cells by their qualifiers' texts: none is written twice.
    named: HashSet<(RelationId, String)>,
}

impl FamilyCells {
    /// Deletes a family of the row.
    pub(super) fn delete(&mut self, family: &FamilyDef) {
        self.deleted.push(family.clone());
    }

    /// Has the row's family consist of nothing but what is still put into it.
    pub(super) fn replace(&mut self, family: &FamilyDef) {
        self.replaced.push(family.clone());
    }

    /// Has the row's family consist of a value of the whole's type.
    pub(crate) fn whole(&mut self, family: &FamilyDef, whole: Value) -> Result<()> {
        self.replace(family);
        for (qualifier, value) in whole::cells(family, whole)? {
            self.put_element(family, qualifier, Some(value))?;
        }
        Ok(())
    }

    /// The cells that the row then has in a family that is written as a whole.
    pub(crate) fn of(&self, family: &FamilyDef) -> impl Iterator<Item = (&Value, &Value)> {
        let of_family = move |cell: &&FamilyCell| cell.family.relation == family.relation;
        let cells = self.cells.iter().filter(of_family);
        cells.filter_map(|cell| Some((&cell.qualifier, cell.value.as_ref()?)))
    }

    /// Writes a cell.
    pub(super) fn put(&mut self, family: &FamilyDef, qualifier: Value, value: Option<Value>) -> Result<()> {
        let shown = qualifier.to_text(family.qualifier_type());
        if family.qualifier_parts(&qualifier).iter().any(Value::is_null) {
            return Err(null_inside(family));
        }
        if !self.named.insert((family.relation, shown.clone())) {
            let message = format!("multiple assignments to \"{}\"['{shown}']", family.name);
            return Err(Error::new(ErrorKind::Syntax, message));
        }
        let value = value.map(|value| family.kept_value(&qualifier, value)).transpose()?;
        self.cells.push(FamilyCell { family: family.clone(), qualifier, value });
        Ok(())
    }

    /// Writes an element of a set, of which several may be the same.
    pub(super) fn put_element(&mut self, family: &FamilyDef, element: Value, value: Option<Value>) -> Result<()> {
        match self.named.contains(&(family.relation, element.to_text(family.qualifier_type()))) {
            true => Ok(()),
            false => self.put(family, element, value),
        }
    }

    /// The mutations for the row with this key, in [`FamilyAssignments::timing`].
    ///
    /// [`FamilyAssignments::timing`]: super::FamilyAssignments::timing
    pub(crate) fn mutations(&self, handle: &TableHandle, key: &[Value], timing: &Timing) -> Vec<Mutation> {
        let stamp = timing.stamp;
        let before = before(stamp);
        let path = |family: &FamilyDef, qualifier: &Value| {
            key.iter().cloned().chain(family.qualifier_parts(qualifier)).collect::<Vec<_>>()
        };
        let delete = |family: &FamilyDef, path: Vec<Value>, stamp| {
            Mutation::DeleteSpan(SpanDelete { relation: family.relation, span: Span::prefix(path), stamp })
        };
        let mut mutations: Vec<Mutation> = Vec::with_capacity(self.cells.len() + self.replaced.len() + 1);
        mutations.extend(self.deleted.iter().map(|family| delete(family, key.to_vec(), stamp)));
        mutations.extend(self.replaced.iter().map(|family| delete(family, key.to_vec(), before)));
        for FamilyCell { family, qualifier, value } in &self.cells {
            let (relation, key) = (family.relation, path(family, qualifier));
            mutations.push(match value {
                Some(value) => Mutation::Row(RowWrite {
                    relation,
                    key,
                    marker: false,
                    cells: vec![(family.value.id, CellWrite::Value(value.clone()))],
                    stamp,
                    ttl: timing.ttl,
                }),
                None if family.kind.is_collection() => Mutation::DeleteRow(RowDelete { relation, key, stamp }),
                // All versions.
                None => delete(family, key, stamp),
            });
        }
        if self.cells.iter().any(|cell| cell.value.is_some()) {
            mutations.push(Mutation::Row(RowWrite {
                relation: handle.relation.id,
                key: key.to_vec(),
                marker: false,
                cells: vec![(PRESENCE_COLUMN, CellWrite::Value(Value::Boolean(true)))],
                stamp,
                ttl: 0,
            }));
        }
        mutations
    }
}
