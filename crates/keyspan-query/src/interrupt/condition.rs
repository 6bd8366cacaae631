//! A join's condition that fails once the statement has ended. Joins compute it for at most a batch of pairs at a time.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::joins::utils::JoinFilter;

use crate::error::external;

/// The same condition, checked for an interrupt each time that it is computed.
pub(super) fn checked(filter: &JoinFilter) -> JoinFilter {
    let condition = Arc::new(Checked { condition: filter.expression().clone() });
    JoinFilter::new(condition, filter.column_indices().to_vec(), filter.schema().clone())
}

#[derive(Debug, Eq)]
struct Checked {
    condition: Arc<dyn PhysicalExpr>,
}

impl PartialEq for Checked {
    fn eq(&self, other: &Checked) -> bool {
        self.condition.eq(&other.condition)
    }
}

impl Hash for Checked {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.hash(state);
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt(f)
    }
}

impl PhysicalExpr for Checked {
    fn data_type(&self, input: &Schema) -> Result<DataType> {
        self.condition.data_type(input)
    }

    fn nullable(&self, input: &Schema) -> Result<bool> {
        self.condition.nullable(input)
    }

    fn return_field(&self, input: &Schema) -> Result<FieldRef> {
        self.condition.return_field(input)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        super::check().map_err(external)?;
        self.condition.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.condition]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let condition = children.pop().unwrap_or_else(|| self.condition.clone());
        Ok(Arc::new(Checked { condition }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt_sql(f)
    }
}
