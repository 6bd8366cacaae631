//! Recognition of whole keys and spans in a WHERE clause, without a query planner.
//!
//! The rule kept: what is recognised means exactly what the WHERE means. What is neither literal nor parameter (a
//! function, a text that needs the session's time zone) is asked of the caller; anything doubtful (another type, a
//! column twice) is `Other`, and the planner decides.

use std::borrow::Cow;
use std::ops::Bound;

use datafusion::sql::sqlparser::ast::{self, BinaryOperator};
use keyspan_model::{ColumnDef, ColumnRole, ColumnType, Error, ErrorKind, Result, Span, TableDef, Value};

use super::build::{merge, range_after};
use crate::syntax::{folded, row_of};
use crate::types::cast::Target;

/// Most keys or spans that a statement may name one by one.
const MOST_KEYS: usize = 100_000;
/// Most of them for each element of an array whose length is not known yet.
const MOST_KEYS_OF_AN_ELEMENT: usize = 100;

/// A value in a WHERE: known now, or with the parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyPart {
    /// A literal, already of the column's type.
    Value(Value),
    /// `$n`, counted from 0, compared with a column of this type.
    Parameter(usize, ColumnType),
}

/// What some key columns may be: `a IN (1, 2)`, `(a, b) IN ((1, 2), (3, 4))` of several together, `a = ANY($1)`.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyList {
    /// Places of the columns in the key.
    columns: Vec<usize>,
    values: KeyValues,
}

/// Values of some key columns, of which a row has one.
#[derive(Clone, Debug, PartialEq)]
enum KeyValues {
    Rows(Vec<Vec<KeyPart>>),
    /// The elements of the array that `$n` is, counted from 0, compared with a column of this type.
    Elements(usize, ColumnType),
}

/// Equal on a key prefix, and at most one range on the key columns behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyRanges {
    /// What the leading key columns may be, each of them in one list.
    prefix: Vec<KeyList>,
    /// Least values of the next columns, which are compared as a row (by value, whatever the columns' direction).
    lower: Bound<Vec<KeyPart>>,
    /// Greatest values of the next columns.
    upper: Bound<Vec<KeyPart>>,
}

/// What a WHERE says of the row key.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyMatch {
    /// `=` on every key column and nothing else: one part per key column, in key order.
    WholeKey(Vec<KeyPart>),
    /// As `WholeKey`, for several keys (`IN` on key columns or rows of them).
    WholeKeys(KeyRanges),
    /// Exactly these spans: blind in CQL.
    SpansOnly(KeyRanges),
    /// As `WholeKeys` or `SpansOnly`, but more than may be named one by one.
    TooMany,
    /// Anything else, also no WHERE at all.
    Other,
}

impl KeyPart {
    /// The value; for a parameter, the one given, converted to the column's type.
    ///
    /// # Errors
    /// 42P02 for a parameter that was not given; 22003, 22P02 for one that does not fit the column.
    pub fn bind(&self, parameters: &[Value]) -> Result<Value> {
        let (index, ty) = match self {
            KeyPart::Value(value) => return Ok(value.clone()),
            KeyPart::Parameter(index, ty) => (*index, *ty),
        };
        fitted(given(parameters, index)?, ty)
    }

    /// The value, or null where a parameter is none of the column's values: no row has such a key.
    ///
    /// # Errors
    /// 42P02 for a parameter that was not given; 22P02 for a text that is no value.
    pub fn find(&self, parameters: &[Value]) -> Result<Value> {
        or_null(self.bind(parameters))
    }
}

/// A parameter, counted from 0.
fn given(parameters: &[Value], index: usize) -> Result<&Value> {
    let message = || format!("there is no parameter ${}", index + 1);
    parameters.get(index).ok_or_else(|| Error::new(ErrorKind::UndefinedParameter, message()))
}

/// What was given in a parameter, whose type compares as the column's does, as a value of that.
fn fitted(given: &Value, ty: ColumnType) -> Result<Value> {
    match given.fits(ty) {
        true => Ok(given.clone().canonical()),
        false => given.clone().cast(ty).map(Value::canonical),
    }
}

/// Whether comparing a column with a parameter of a type is comparing it with the parameter's value in the column's type,
/// if it has one there. A parameter whose type nobody has said takes the column's.
pub fn compares_alike(parameter: Option<ColumnType>, column: ColumnType) -> bool {
    use ColumnType as C;
    let family = |ty| match ty {
        C::TinyInt | C::SmallInt | C::Int | C::BigInt => C::BigInt,
        C::Text | C::Ascii => C::Text,
        C::Uuid | C::TimeUuid => C::Uuid,
        other => other,
    };
    parameter.is_none_or(|parameter| family(parameter) == family(column))
}

fn or_null(bound: Result<Value>) -> Result<Value> {
    match bound {
        Err(error) if error.kind == ErrorKind::NumericOverflow => Ok(Value::Null),
        bound => bound,
    }
}

impl KeyList {
    /// The rows of values; of an array without those that the column cannot hold.
    fn rows(&self, parameters: &[Value]) -> Result<Cow<'_, [Vec<KeyPart>]>> {
        let (index, ty) = match &self.values {
            KeyValues::Rows(rows) => return Ok(Cow::Borrowed(rows)),
            KeyValues::Elements(index, ty) => (*index, *ty),
        };
        let array = match given(parameters, index)? {
            Value::Null => return Ok(Cow::default()),
            Value::List(elements) => elements,
            _ => return Err(Error::internal("an array is no list")),
        };
        let element = |element: &Value| or_null(fitted(element, ty)).map(|value| vec![KeyPart::Value(value)]);
        array.iter().map(element).collect()
    }
}

impl KeyRanges {
    /// The spans of row keys, in key order; none where no key can be in them (a null, or bounds that cross).
    ///
    /// # Errors
    /// Those of [`KeyPart::bind`].
    pub fn bind(&self, table: &TableDef, parameters: &[Value]) -> Result<Vec<Span>> {
        self.spans(table, parameters, KeyPart::bind)
    }

    fn spans(
        &self,
        table: &TableDef,
        parameters: &[Value],
        bind: impl Fn(&KeyPart, &[Value]) -> Result<Value>,
    ) -> Result<Vec<Span>> {
        let relation = table.rows_relation();
        let leading: usize = self.prefix.iter().map(|list| list.columns.len()).sum();
        let descending = relation.key.get(leading).is_some_and(|column| column.descending);
        let bounds = (bind_bound(&self.lower, parameters)?, bind_bound(&self.upper, parameters)?);
        let (Some(lower), Some(upper)) = bounds else { return Ok(Vec::new()) };
        let mut spans = Vec::new();
        let lists = self.prefix.iter().map(|list| Ok((list.columns.as_slice(), list.rows(parameters)?)));
        for prefix in combinations(&lists.collect::<Result<Vec<_>>>()?) {
            let prefix = prefix.iter().map(|part| bind(part, parameters)).collect::<Result<Vec<_>>>()?;
            if !prefix.iter().any(Value::is_null) {
                spans.push(range_after(&prefix, &lower, &upper, descending));
            }
        }
        Ok(merge(spans, &relation.key))
    }

    /// The keys that [`KeyMatch::WholeKeys`] means, each once, in key order.
    ///
    /// # Errors
    /// Those of [`KeyPart::bind`].
    pub fn keys(&self, table: &TableDef, parameters: &[Value]) -> Result<Vec<Vec<Value>>> {
        Ok(keys_of(self.bind(table, parameters)?))
    }

    /// As [`KeyRanges::keys`], without those that no row can have.
    ///
    /// # Errors
    /// Those of [`KeyPart::find`].
    pub fn keys_to_find(&self, table: &TableDef, parameters: &[Value]) -> Result<Vec<Vec<Value>>> {
        Ok(keys_of(self.spans(table, parameters, KeyPart::find)?))
    }

    /// The parameters, counted from 0, with the types that they are compared as.
    pub fn parameters(&self) -> Vec<(usize, ColumnType)> {
        let arrays = self.prefix.iter().filter_map(|list| match list.values {
            KeyValues::Elements(index, ty) => Some((index, ColumnType::list(ty))),
            KeyValues::Rows(_) => None,
        });
        let parts = self.parts().filter_map(|part| match part {
            KeyPart::Parameter(index, ty) => Some((*index, *ty)),
            KeyPart::Value(_) => None,
        });
        arrays.chain(parts).collect()
    }

    fn parts(&self) -> impl Iterator<Item = &KeyPart> {
        let of_bounds = [&self.lower, &self.upper].into_iter().filter_map(|bound| match bound {
            Bound::Included(parts) | Bound::Excluded(parts) => Some(parts),
            Bound::Unbounded => None,
        });
        let of_lists = self.prefix.iter().flat_map(|list| match &list.values {
            KeyValues::Rows(rows) => rows.as_slice(),
            KeyValues::Elements(..) => &[],
        });
        of_lists.chain(of_bounds).flatten()
    }
}

/// The keys that spans of one key each begin with.
fn keys_of(spans: Vec<Span>) -> Vec<Vec<Value>> {
    let key = |span| match span {
        Span { start: Bound::Included(key), .. } => Some(key),
        _ => None,
    };
    spans.into_iter().filter_map(key).collect()
}

/// The values of a bound. `None` if no row is within it: nothing is more or less than null. A row of values is compared
/// up to the first null: what differs before that decides.
fn bind_bound(bound: &RowBound, parameters: &[Value]) -> Result<Option<Bound<Vec<Value>>>> {
    let (parts, included) = match bound {
        Bound::Included(parts) => (parts, true),
        Bound::Excluded(parts) => (parts, false),
        Bound::Unbounded => return Ok(Some(Bound::Unbounded)),
    };
    let mut values = parts.iter().map(|part| part.bind(parameters)).collect::<Result<Vec<_>>>()?;
    let null = values.iter().position(Value::is_null);
    values.truncate(null.unwrap_or(values.len()));
    Ok(match null {
        Some(0) => None,
        None if included => Some(Bound::Included(values)),
        _ => Some(Bound::Excluded(values)),
    })
}

/// The columns of a list and its rows.
type BoundList<'a> = (&'a [usize], Cow<'a, [Vec<KeyPart>]>);

/// One of each list, in all ways, in key order.
fn combinations<'a>(lists: &'a [BoundList<'_>]) -> Vec<Vec<&'a KeyPart>> {
    let mut all: Vec<Vec<(usize, &KeyPart)>> = vec![Vec::new()];
    for (columns, rows) in lists {
        all = all.iter().flat_map(|one| rows.iter().map(|row| with(one, columns, row))).collect();
    }
    let in_order = |mut parts: Vec<(usize, _)>| {
        parts.sort_unstable_by_key(|(column, _)| *column);
        parts.into_iter().map(|(_, part)| part).collect()
    };
    all.into_iter().map(in_order).collect()
}

fn with<'a>(one: &[(usize, &'a KeyPart)], columns: &[usize], row: &'a [KeyPart]) -> Vec<(usize, &'a KeyPart)> {
    one.iter().copied().chain(columns.iter().copied().zip(row)).collect()
}

/// Computes what a key column is compared with and is neither literal nor parameter: the value of the column's type
/// that means the same in the comparison, if there is one.
pub type Constants<'a> = dyn FnMut(&ast::Expr, ColumnType) -> Option<Value> + 'a;

/// For [`key_of`]: computes nothing.
pub fn no_constants(_: &ast::Expr, _: ColumnType) -> Option<Value> {
    None
}

/// What `condition` says of the table's row key. `time_zone` is the session's; `parameters` are the types of `$1`, `$2`, …,
/// as far as they are known: those of any other are not.
pub fn key_of(
    condition: &ast::Expr,
    table: &TableDef,
    time_zone: &str,
    parameters: &[Option<ColumnType>],
    constants: &mut Constants<'_>,
) -> KeyMatch {
    let utc = is_utc(time_zone);
    let mut found = KeyConditions { table, utc, parameters, constants, equal: Vec::new(), range: None };
    match found.add(condition) {
        Some(()) => found.finish(),
        None => KeyMatch::Other,
    }
}

fn is_utc(time_zone: &str) -> bool {
    matches!(time_zone.to_ascii_lowercase().as_str(), "utc" | "gmt" | "etc/utc" | "zulu" | "z" | "+00:00" | "+00")
}

/// A bound on columns that are compared as a row.
type RowBound = Bound<Vec<KeyPart>>;

/// The conditions seen so far. Every step answers `None` for what it does not recognise.
struct KeyConditions<'a, 'c> {
    table: &'a TableDef,
    utc: bool,
    parameters: &'a [Option<ColumnType>],
    constants: &'a mut Constants<'c>,
    equal: Vec<KeyList>,
    range: Option<(usize, RowBound, RowBound)>,
}

impl<'a> KeyConditions<'a, '_> {
    fn add(&mut self, condition: &ast::Expr) -> Option<()> {
        let mut stack = vec![condition];
        while let Some(next) = stack.pop() {
            match next {
                ast::Expr::Nested(inner) => stack.push(inner),
                ast::Expr::BinaryOp { left, op: BinaryOperator::And, right } => stack.extend([&**right, &**left]),
                ast::Expr::BinaryOp { left, op, right } => self.comparison(left, op, right)?,
                ast::Expr::Between { expr, negated: false, low, high } => {
                    let (place, column) = self.column(expr)?;
                    let (low, high) = (self.part(low, column)?, self.part(high, column)?);
                    self.bound(place, Bound::Included(vec![low]), Bound::Unbounded)?;
                    self.bound(place, Bound::Unbounded, Bound::Included(vec![high]))?;
                }
                ast::Expr::InList { expr, list, negated: false } => self.in_list(expr, list)?,
                ast::Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => self.any_of(left, right)?,
                _ => return None,
            }
        }
        Some(())
    }

    fn comparison(&mut self, left: &ast::Expr, op: &BinaryOperator, right: &ast::Expr) -> Option<()> {
        if let (ast::Expr::Tuple(columns), ast::Expr::Tuple(values)) = (left, right) {
            if columns.len() != values.len() {
                return None;
            }
            if *op == BinaryOperator::Eq {
                return columns.iter().zip(values).try_for_each(|(column, value)| self.comparison(column, op, value));
            }
            return self.row_comparison(columns, op, values);
        }
        let (place, column, value, op) = match self.column(left) {
            Some((place, column)) => (place, column, right, op.clone()),
            None => {
                let (place, column) = self.column(right)?;
                (place, column, left, mirrored(op)?)
            }
        };
        let part = self.part(value, column)?;
        match op {
            BinaryOperator::Eq => {
                self.equal_to(KeyList { columns: vec![place], values: KeyValues::Rows(vec![vec![part]]) })
            }
            op => self.ordered(place, &op, vec![part]),
        }
    }

    /// `(a, b) > (1, 2)`: a span where the columns follow each other in the key, all of one direction.
    fn row_comparison(&mut self, columns: &[ast::Expr], op: &BinaryOperator, values: &[ast::Expr]) -> Option<()> {
        let (first, of_first) = self.column(columns.first()?)?;
        let mut parts = Vec::with_capacity(values.len());
        for (at, (column, value)) in columns.iter().zip(values).enumerate() {
            let (place, column) = self.column(column)?;
            if place != first + at || is_descending(column) != is_descending(of_first) || !has_order(column) {
                return None;
            }
            parts.push(self.part(value, column)?);
        }
        self.ordered(first, op, parts)
    }

    fn ordered(&mut self, place: usize, op: &BinaryOperator, parts: Vec<KeyPart>) -> Option<()> {
        match op {
            BinaryOperator::Lt => self.bound(place, Bound::Unbounded, Bound::Excluded(parts)),
            BinaryOperator::LtEq => self.bound(place, Bound::Unbounded, Bound::Included(parts)),
            BinaryOperator::Gt => self.bound(place, Bound::Excluded(parts), Bound::Unbounded),
            BinaryOperator::GtEq => self.bound(place, Bound::Included(parts), Bound::Unbounded),
            _ => None,
        }
    }

    fn in_list(&mut self, expr: &ast::Expr, list: &[ast::Expr]) -> Option<()> {
        let Some(columns) = row_of(expr) else {
            let (place, column) = self.column(expr)?;
            let parts = list.iter().map(|item| Some(vec![self.part(item, column)?])).collect::<Option<_>>()?;
            return self.equal_to(KeyList { columns: vec![place], values: KeyValues::Rows(parts) });
        };
        let columns = columns.into_iter().map(|column| self.column(column)).collect::<Option<Vec<_>>>()?;
        let row = |item: &ast::Expr| {
            let row = row_of(item).filter(|row| row.len() == columns.len())?;
            columns.iter().zip(row).map(|((_, column), item)| self.part(item, column)).collect::<Option<Vec<_>>>()
        };
        let rows = list.iter().map(row).collect::<Option<_>>()?;
        let columns = columns.into_iter().map(|(place, _)| place).collect();
        self.equal_to(KeyList { columns, values: KeyValues::Rows(rows) })
    }

    /// `a = ANY($1)` and `a = ANY(ARRAY[1, 2])`; also as an array of the column's type, if a cast to that changes nothing.
    fn any_of(&mut self, left: &ast::Expr, array: &ast::Expr) -> Option<()> {
        let (place, column) = self.column(left)?;
        let (array, is_cast) = match array {
            ast::Expr::Cast { expr, data_type, .. } if names_array(data_type, column.ty) => (&**expr, true),
            _ => (array, false),
        };
        let values = match array {
            ast::Expr::Array(array) => {
                let rows = array.elem.iter().map(|item| Some(vec![self.part(item, column)?]));
                KeyValues::Rows(rows.collect::<Option<_>>()?)
            }
            ast::Expr::Value(value) => {
                let ast::Value::Placeholder(name) = &value.value else { return None };
                let (index, given) = self.parameter(name)?;
                let element = match given {
                    Some(given) => Some(given.element()?),
                    None => None,
                };
                let alike = match is_cast {
                    true => element.is_none_or(|element| element == column.ty),
                    false => compares_alike(element, column.ty),
                };
                (alike && is_looked_up(column.ty)).then_some(KeyValues::Elements(index, column.ty))?
            }
            _ => return None,
        };
        self.equal_to(KeyList { columns: vec![place], values })
    }

    /// The place of `$n` from 0, and its type, if that is known.
    fn parameter(&self, name: &str) -> Option<(usize, Option<ColumnType>)> {
        let index = name.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)?;
        Some((index, self.parameters.get(index).copied().flatten()))
    }

    fn equal_to(&mut self, list: KeyList) -> Option<()> {
        let known = self.equal.iter().flat_map(|list| &list.columns);
        let mut all: Vec<usize> = known.chain(&list.columns).copied().collect();
        all.sort_unstable();
        if all.windows(2).any(|pair| pair[0] == pair[1]) {
            return None;
        }
        self.equal.push(list);
        Some(())
    }

    fn bound(&mut self, place: usize, lower: RowBound, upper: RowBound) -> Option<()> {
        if !has_order(self.table.key().nth(place)?) {
            return None;
        }
        let range = self.range.get_or_insert((place, Bound::Unbounded, Bound::Unbounded));
        if range.0 != place {
            return None;
        }
        for (kept, new) in [(&mut range.1, lower), (&mut range.2, upper)] {
            if new != Bound::Unbounded {
                if *kept != Bound::Unbounded {
                    return None;
                }
                *kept = new;
            }
        }
        Some(())
    }

    /// The key column that an expression names, and its place in the key.
    fn column(&self, expr: &ast::Expr) -> Option<(usize, &'a ColumnDef)> {
        let name = match expr {
            ast::Expr::Identifier(name) => name,
            ast::Expr::CompoundIdentifier(names) => match names.as_slice() {
                [table, name] if folded(table) == self.table.name => name,
                [keyspace, table, name]
                    if folded(table) == self.table.name && folded(keyspace) == self.table.keyspace =>
                {
                    name
                }
                _ => return None,
            },
            ast::Expr::Nested(inner) => return self.column(inner),
            _ => return None,
        };
        let name = folded(name);
        // Borrowed from the table, not from `self`, so that conditions may be added while it is held.
        let table: &'a TableDef = self.table;
        table.key().enumerate().find(|(_, column)| column.name == name)
    }

    fn part(&mut self, expr: &ast::Expr, column: &ColumnDef) -> Option<KeyPart> {
        self.simple(expr, column).or_else(|| (self.constants)(expr, column.ty).map(KeyPart::Value))
    }

    /// A literal or parameter.
    fn simple(&self, expr: &ast::Expr, column: &ColumnDef) -> Option<KeyPart> {
        match expr {
            ast::Expr::Nested(inner) => self.simple(inner, column),
            ast::Expr::Value(value) => match &value.value {
                ast::Value::Placeholder(name) => {
                    let (index, given) = self.parameter(name)?;
                    let alike = is_looked_up(column.ty) && compares_alike(given, column.ty);
                    alike.then_some(KeyPart::Parameter(index, column.ty))
                }
                literal => self.literal(literal, "", column.ty).map(KeyPart::Value),
            },
            ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => match expr.as_ref() {
                ast::Expr::Value(value) if matches!(value.value, ast::Value::Number(..)) => {
                    self.literal(&value.value, "-", column.ty).map(KeyPart::Value)
                }
                _ => None,
            },
            ast::Expr::Cast { expr, data_type, .. } => self.typed(expr, data_type, column.ty),
            ast::Expr::TypedString(typed) => match &typed.value.value {
                text @ ast::Value::SingleQuotedString(_) if names_type(&typed.data_type, column.ty) => {
                    self.literal(text, "", column.ty).map(KeyPart::Value)
                }
                _ => None,
            },
            _ => None,
        }
    }

    fn typed(&self, expr: &ast::Expr, data_type: &ast::DataType, ty: ColumnType) -> Option<KeyPart> {
        match expr {
            ast::Expr::Value(value) if names_type(data_type, ty) => match &value.value {
                text @ ast::Value::SingleQuotedString(_) => self.literal(text, "", ty).map(KeyPart::Value),
                _ => None,
            },
            _ => None,
        }
    }

    /// A literal as a value of the column; `None` unless comparing with it is comparing with that value.
    fn literal(&self, literal: &ast::Value, sign: &str, ty: ColumnType) -> Option<Value> {
        let value = match literal {
            ast::Value::Number(text, _) => return number(&format!("{sign}{text}"), ty),
            ast::Value::Boolean(value) if ty == ColumnType::Boolean => Value::Boolean(*value),
            ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text) => {
                Value::parse_zoned(text, ty, &|zone, _| match zone {
                    None if self.utc => Ok(0),
                    _ => Err(Error::internal("only the planner knows time zones")),
                })
                .ok()?
            }
            ast::Value::DollarQuotedString(text) if ty == ColumnType::Text => Value::Text(text.value.clone()),
            ast::Value::HexStringLiteral(hex) if ty == ColumnType::Blob => {
                Value::parse(&format!("\\x{hex}"), ty).ok()?
            }
            _ => return None,
        };
        value.fits(ty).then(|| value.canonical())
    }

    fn finish(self) -> KeyMatch {
        let prefix = self.equal;
        let mut columns: Vec<usize> = prefix.iter().flat_map(|list| list.columns.iter().copied()).collect();
        columns.sort_unstable();
        let prefix_len = columns.len();
        if columns.into_iter().ne(0..prefix_len) {
            return KeyMatch::Other;
        }
        let (mut arrays, mut count) = (0, Some(1_usize));
        for list in &prefix {
            match &list.values {
                KeyValues::Rows(rows) => count = count.and_then(|count| count.checked_mul(rows.len())),
                KeyValues::Elements(..) => arrays += 1,
            }
        }
        match count {
            Some(1..) if arrays > 1 => return KeyMatch::Other,
            Some(count) if arrays > 0 && count > MOST_KEYS_OF_AN_ELEMENT => return KeyMatch::Other,
            None => return KeyMatch::TooMany,
            Some(0) => return KeyMatch::Other,
            Some(count) if count > MOST_KEYS => return KeyMatch::TooMany,
            Some(_) => {}
        }
        let whole = prefix_len == self.table.key_len();
        match self.range {
            None if prefix_len == 0 => KeyMatch::Other,
            None if whole && count == Some(1) && arrays == 0 => KeyMatch::WholeKey(only_key(&prefix)),
            None => {
                let ranges = KeyRanges { prefix, lower: Bound::Unbounded, upper: Bound::Unbounded };
                if whole { KeyMatch::WholeKeys(ranges) } else { KeyMatch::SpansOnly(ranges) }
            }
            Some((place, lower, upper)) if place == prefix_len => {
                KeyMatch::SpansOnly(KeyRanges { prefix, lower, upper })
            }
            Some(_) => KeyMatch::Other,
        }
    }
}

/// The one key of lists of one row.
fn only_key(lists: &[KeyList]) -> Vec<KeyPart> {
    let rows = lists.iter().filter_map(|list| Some((list.columns.as_slice(), list.rows(&[]).ok()?)));
    combinations(&rows.collect::<Vec<_>>()).into_iter().flatten().cloned().collect()
}

/// Whether a parameter of the column's type is looked up as it is: a numeric may have more digits than the column, and is
/// not rounded to those.
fn is_looked_up(ty: ColumnType) -> bool {
    !matches!(ty, ColumnType::Decimal { .. })
}

/// Whether SQL's order of the column's values is that of keys; CQL and SQL order timeuuids as keys do.
fn has_order(column: &ColumnDef) -> bool {
    column.ty.arrow_order_is_key_order() || column.ty == ColumnType::TimeUuid
}

fn is_descending(column: &ColumnDef) -> bool {
    matches!(column.role, ColumnRole::Clustering { descending: true })
}

fn mirrored(op: &BinaryOperator) -> Option<BinaryOperator> {
    Some(match op {
        BinaryOperator::Eq => BinaryOperator::Eq,
        BinaryOperator::Lt => BinaryOperator::Gt,
        BinaryOperator::LtEq => BinaryOperator::GtEq,
        BinaryOperator::Gt => BinaryOperator::Lt,
        BinaryOperator::GtEq => BinaryOperator::LtEq,
        _ => return None,
    })
}

/// Whether a cast to `data_type` is one to an array of the type.
fn names_array(data_type: &ast::DataType, element: ColumnType) -> bool {
    let ast::DataType::Array(named) = data_type else { return false };
    match named {
        ast::ArrayElemTypeDef::SquareBracket(named, None) | ast::ArrayElemTypeDef::AngleBracket(named) => {
            names_type(named, element)
        }
        _ => false,
    }
}

/// Whether a literal of this type is compared as one of the column's. A timeuuid is compared with uuids.
fn names_type(data_type: &ast::DataType, ty: ColumnType) -> bool {
    let is = |ty| Target::parse(&data_type.to_string()).is_ok_and(|target| target == Target::of(ty));
    is(ty) || ty == ColumnType::TimeUuid && is(ColumnType::Uuid)
}

/// A number as a value of the column, if nothing is rounded. A `real` column is compared as `double` in SQL, so its
/// literals are left to the planner.
fn number(text: &str, ty: ColumnType) -> Option<Value> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'.'));
    let fraction = text.split_once('.').map_or(0, |(_, digits)| digits.len());
    let exact = match ty {
        ColumnType::TinyInt | ColumnType::SmallInt | ColumnType::Int | ColumnType::BigInt | ColumnType::VarInt => {
            plain && fraction == 0
        }
        ColumnType::Decimal { scale, .. } => plain && fraction <= usize::from(scale.unsigned_abs()),
        ColumnType::Double => true,
        _ => false,
    };
    if exact { Value::parse(text, ty).ok().map(Value::canonical) } else { None }
}
