//! `family_value(family, qualifier)`, `family_slice(family, low, high)`, `collection_values(collection)`, and which
//! qualifiers a plan names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, MapArray, StructArray, UInt32Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::kernels::cmp::eq;
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TableScan, Volatility,
};

use keyspan_model::{ColumnType, Error, ErrorKind, value_at};

use super::found::{self, FOUND};
use crate::error::external;
use crate::functions::nested::is_between;
use crate::types::fail;

/// The value of a cell.
pub(super) const VALUE: &str = "family_value";
/// The cells from one qualifier to another.
const SLICE: &str = "family_slice";
/// The values of a map, the elements of a set or list: what CONTAINS looks into.
pub const VALUES: &str = "collection_values";
/// Among the filters of a scan: of a family only these qualifiers are asked for. It drops no row.
const ONLY: &str = "family_only";

static VALUE_FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(Function::new(VALUE))));
static SLICE_FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(Function::new(SLICE))));
static ONLY_FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(Function::new(ONLY))));

/// The functions.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    let values = Arc::new(ScalarUDF::from(Function::new(VALUES)));
    vec![VALUE_FUNCTION.clone(), SLICE_FUNCTION.clone(), ONLY_FUNCTION.clone(), found::function(), values]
}

/// `family[qualifier]`; the qualifier is of the family's type.
pub fn value_call(family: Expr, qualifier: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(VALUE_FUNCTION.clone(), vec![family, qualifier]))
}

/// `family[low..high]`; the bounds are of the qualifiers' type.
pub fn slice_call(family: Expr, low: Expr, high: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(SLICE_FUNCTION.clone(), vec![family, low, high]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Function {
    name: &'static str,
    signature: Signature,
}

impl Function {
    pub(super) fn new(name: &'static str) -> Function {
        Function { name, signature: Signature::variadic_any(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match self.name {
            ONLY | FOUND => Ok(DataType::Boolean),
            VALUES => values_type(types),
            SLICE => Ok(types[0].clone()),
            _ => Ok(value_field(&types[0])?.data_type().clone()),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = match self.name {
            ONLY | FOUND => Field::new(self.name, DataType::Boolean, false),
            // Of a nested value that is bytes in Arrow the planner makes another call.
            VALUES if ColumnType::of_field(&args.arg_fields[0]).is_some_and(ColumnType::is_packed) => {
                args.arg_fields[0].as_ref().clone().with_name(VALUES)
            }
            VALUES => Field::new(VALUES, values_type(&[args.arg_fields[0].data_type().clone()])?, true),
            SLICE => args.arg_fields[0].as_ref().clone().with_nullable(true),
            _ => value_field(args.arg_fields[0].data_type())?.as_ref().clone().with_name(VALUE),
        };
        Ok(Arc::new(field))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if matches!(self.name, ONLY | FOUND) {
            return Err(DataFusionError::Internal(format!("a scan reads {}", self.name)));
        }
        let maps = args.args[0].to_array(args.number_rows)?;
        if self.name == VALUES {
            return Ok(ColumnarValue::Array(values(maps)?));
        }
        if self.name == SLICE {
            let bounds = [args.args[1].to_array(args.number_rows)?, args.args[2].to_array(args.number_rows)?];
            return Ok(ColumnarValue::Array(slices(&maps, &args.arg_fields[1], &bounds)?));
        }
        let found = match &args.args[1] {
            ColumnarValue::Scalar(qualifier) => {
                let same = eq(maps.as_map().keys(), &qualifier.to_scalar()?)?;
                first_true(&maps, |entry, _| same.is_valid(entry) && same.value(entry))
            }
            ColumnarValue::Array(qualifiers) => {
                let rows = rows_of_entries(&maps);
                let each = take(qualifiers, &rows, None)?;
                let same: BooleanArray = eq(&used_keys(&maps)?, &each)?;
                let first = maps.as_map().offsets()[0] as usize;
                first_true(&maps, |entry, _| same.is_valid(entry - first) && same.value(entry - first))
            }
        };
        Ok(ColumnarValue::Array(take(maps.as_map().values(), &found, None)?))
    }
}

fn values_type(types: &[DataType]) -> Result<DataType> {
    match types {
        [list @ DataType::List(_)] => Ok(list.clone()),
        [map @ DataType::Map(..)] => Ok(DataType::List(value_field(map)?)),
        [bytes @ DataType::Binary] => Ok(bytes.clone()),
        _ => fail(Error::new(ErrorKind::DatatypeMismatch, "CONTAINS needs a map, a set or a list on its left side")),
    }
}

fn values(collection: ArrayRef) -> Result<ArrayRef> {
    let DataType::Map(..) = collection.data_type() else { return Ok(collection) };
    let item = value_field(collection.data_type())?;
    let (_, offsets, entries, nulls, _) = collection.as_map().clone().into_parts();
    Ok(Arc::new(ListArray::try_new(item, offsets, entries.column(1).clone(), nulls)?))
}

fn value_field(map: &DataType) -> Result<FieldRef> {
    if let DataType::Map(entries, _) = map
        && let DataType::Struct(fields) = entries.data_type()
        && let [_, value] = fields.as_ref()
    {
        return Ok(Arc::new(value.as_ref().clone().with_nullable(true)));
    }
    Err(DataFusionError::Plan(format!("{map} is no family")))
}

/// Of each row the entries from one bound to the other, which are of this type; NULL where there is none.
fn slices(maps: &ArrayRef, ty: &Field, [low, high]: &[ArrayRef; 2]) -> Result<ArrayRef> {
    let ty = ColumnType::of_field(ty).unwrap_or(ColumnType::Text);
    let value = |array: &ArrayRef, row: usize| value_at(array, row, ty).map_err(external);
    let (field, offsets, entries, nulls, ordered) = maps.as_map().clone().into_parts();
    let mut kept: Vec<u32> = Vec::new();
    let mut lengths = Vec::with_capacity(maps.len());
    for row in 0..maps.len() {
        let (low, high) = (value(low, row)?, value(high, row)?);
        let before = kept.len();
        let of_row = match nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            true => 0..0,
            false => offsets[row] as usize..offsets[row + 1] as usize,
        };
        for entry in of_row {
            if is_between(ty, &value(entries.column(0), entry)?, &low, &high) {
                kept.push(entry as u32);
            }
        }
        lengths.push(kept.len() - before);
    }
    let nulls = NullBuffer::from_iter(lengths.iter().map(|length| *length > 0));
    let kept = UInt32Array::from(kept);
    let columns = entries.columns().iter().map(|column| take(column, &kept, None)).collect::<Result<Vec<_>, _>>()?;
    let entries = StructArray::try_new(entries.fields().clone(), columns, None)?;
    Ok(Arc::new(MapArray::try_new(field, OffsetBuffer::from_lengths(lengths), entries, Some(nulls), ordered)?))
}

/// The keys of the entries that rows have.
fn used_keys(maps: &ArrayRef) -> Result<ArrayRef> {
    let offsets = maps.as_map().offsets();
    let (first, last) = (offsets[0] as usize, offsets[maps.len()] as usize);
    Ok(maps.as_map().keys().slice(first, last - first))
}

/// For each entry the row that it is in.
fn rows_of_entries(maps: &ArrayRef) -> UInt32Array {
    let lengths = maps.as_map().offsets().lengths();
    lengths.enumerate().flat_map(|(row, length)| std::iter::repeat_n(row as u32, length)).collect()
}

/// For each row the first of its entries of which this is true.
fn first_true(maps: &ArrayRef, test: impl Fn(usize, usize) -> bool) -> UInt32Array {
    let offsets = maps.as_map().offsets();
    let entry = |row: usize| match maps.is_null(row) {
        true => None,
        false => (offsets[row] as usize..offsets[row + 1] as usize).find(|entry| test(*entry, row)),
    };
    (0..maps.len()).map(|row| entry(row).map(|entry| entry as u32)).collect()
}

/// What a plan asks for of the columns of one name.
#[derive(Debug)]
enum Asked {
    /// Cells of these qualifiers.
    Named(Vec<Expr>),
    /// The map.
    All,
}

/// The plan whose scans read of each family no more than the plan asks for.
pub fn named_only(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut families = BTreeSet::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            families.extend(families_of(scan));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if families.is_empty() {
        return Ok(plan);
    }
    let mut asked: BTreeMap<String, Asked> = BTreeMap::new();
    plan.apply_with_subqueries(|node| {
        if matches!(node, LogicalPlan::TableScan(_)) {
            return Ok(TreeNodeRecursion::Continue);
        }
        node.apply_expressions(|expr| expr.apply(|part| Ok(note(part, &families, &mut asked))))
    })?;
    plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::TableScan(mut scan) = node else { return Ok(Transformed::no(node)) };
        for family in families_of(&scan) {
            if let Some(Asked::Named(qualifiers)) = asked.get(&family) {
                let column = datafusion::common::Column::new(Some(scan.table_name.clone()), &family);
                let args = std::iter::once(Expr::Column(column)).chain(qualifiers.iter().cloned()).collect();
                scan.filters.push(Expr::ScalarFunction(ScalarFunction::new_udf(ONLY_FUNCTION.clone(), args)));
            }
        }
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    })
    .data()
}

/// The families that a scan delivers and that it was not yet told about: of a table's columns only they are maps.
fn families_of(scan: &TableScan) -> Vec<String> {
    let told = |name: &str| scan.filters.iter().any(|filter| only_of(filter).is_some_and(|only| only.0 == name));
    let fields = scan.projected_schema.fields().iter();
    let maps = fields.filter(|field| matches!(field.data_type(), DataType::Map(..)) && !told(field.name()));
    maps.map(|field| field.name().clone()).collect()
}

fn note(part: &Expr, families: &BTreeSet<String>, asked: &mut BTreeMap<String, Asked>) -> TreeNodeRecursion {
    match part {
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == VALUE => {
            if let [Expr::Column(column), qualifier @ (Expr::Literal(..) | Expr::Placeholder(_))] = args.as_slice() {
                let named = asked.entry(column.name.clone()).or_insert_with(|| Asked::Named(Vec::new()));
                if let Asked::Named(qualifiers) = named
                    && !qualifiers.contains(qualifier)
                {
                    qualifiers.push(qualifier.clone());
                }
                return TreeNodeRecursion::Jump;
            }
            TreeNodeRecursion::Continue
        }
        Expr::Column(column) if families.contains(&column.name) => {
            asked.insert(column.name.clone(), Asked::All);
            TreeNodeRecursion::Continue
        }
        _ => TreeNodeRecursion::Continue,
    }
}

/// The family and the qualifiers of a mark among a scan's filters.
pub fn only_of(filter: &Expr) -> Option<(&str, &[Expr])> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = filter else { return None };
    match args.split_first() {
        Some((Expr::Column(column), qualifiers)) if func.name() == ONLY => Some((&column.name, qualifiers)),
        _ => None,
    }
}
