//! Lists, collected into an Arrow array.

use arrow::array::{ListArray, NullBufferBuilder};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::Field;

use super::ColumnBuilder;
use crate::error::{Error, ErrorKind, Result};
use crate::types::ColumnType;
use crate::value::Value;

/// Collects lists.
pub(super) struct ListBuilder {
    element: ColumnType,
    items: ColumnBuilder,
    offsets: Vec<i32>,
    nulls: NullBufferBuilder,
}

impl ListBuilder {
    pub(super) fn with_capacity(element: ColumnType, rows: usize) -> ListBuilder {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        ListBuilder { element, items: ColumnBuilder::new(element), offsets, nulls: NullBufferBuilder::new(rows) }
    }

    pub(super) fn append_value(&mut self, elements: &[Value]) -> Result<()> {
        for element in elements {
            self.items.append(element)?;
        }
        let end = i32::try_from(self.items.len());
        let end =
            end.map_err(|_| Error::new(ErrorKind::LimitExceeded, "the lists of a batch have too many elements"))?;
        self.offsets.push(end);
        self.nulls.append_non_null();
        Ok(())
    }

    pub(super) fn append_null(&mut self) {
        self.offsets.push(self.offsets.last().copied().unwrap_or(0));
        self.nulls.append_null();
    }

    pub(super) fn len(&self) -> usize {
        self.nulls.len()
    }

    pub(super) fn finish(&mut self) -> ListArray {
        let items = std::mem::replace(&mut self.items, ColumnBuilder::new(self.element)).finish();
        let offsets = OffsetBuffer::new(std::mem::replace(&mut self.offsets, vec![0]).into());
        let field = Field::new_list_field(self.element.arrow(), true);
        ListArray::new(field.into(), offsets, items, self.nulls.finish())
    }
}
