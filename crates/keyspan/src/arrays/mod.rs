//! Arrays given as one text or as one parameter: `x = ANY($1)`, `x <> ALL('{1,2}')`, `$1::int[]`.
//!
//! ```text
//! when prepared   x = ANY($1) ─▶ x = $1            $1::int[] ─▶ ARRAY[$1::int]          so $1 has its element's type
//! when run        x = ANY($1) ─▶ x IN (1, 2, 3)    $1::int[] ─▶ ARRAY[1::int, …]        as if it had been written so
//! ```
//!
//! The rule: there are no array values. A client binds an array as its text, `{1,2,NULL}`, and the statement is planned
//! again with the elements in its place, so that they become spans like those of any other list.

mod text;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use keyspan_cql::{ConflictAction, InsertSource, InsertValue, Parsed, Statement, ast};
use keyspan_model::{ColumnType, Error, ErrorKind, Result, Value};

use ast::{BinaryOperator, DataType, Expr, VisitMut, VisitorMut};

use crate::parameter::parameter_index;

/// Places of array parameters, and whether their elements are declared as `oid`, which clients tell from bigint.
pub(crate) type Arrays = BTreeMap<usize, bool>;

/// The statement with a parameter of the element's type in the place of each array parameter, and which parameters are
/// arrays. Arrays given as texts are lists of their elements in it. None if it has no arrays.
pub(crate) fn find_parameters(parsed: &Parsed) -> Result<Option<(Arc<Parsed>, Arrays)>> {
    if !mentions_arrays(&parsed.text) {
        return Ok(None);
    }
    let mut expansion = Expansion { bound: None, arrays: Arrays::new(), of_oids: false, changed: false };
    let described = expansion.applied(parsed)?;
    Ok(expansion.changed.then(|| (Arc::new(described), expansion.arrays)))
}

/// Whether a statement's text has a word that arrays need. Most have none, and their trees need not be walked.
fn mentions_arrays(text: &str) -> bool {
    let words: [&[u8]; 4] = [b"any", b"all", b"some", b"[]"];
    words.iter().any(|word| text.as_bytes().windows(word.len()).any(|part| part.eq_ignore_ascii_case(word)))
}

/// The statement with the elements of its array parameters in their places. `values` are all parameters.
pub(crate) fn put_elements(parsed: &Parsed, arrays: &Arrays, types: &[ColumnType], values: &[Value]) -> Result<Parsed> {
    let mut texts = Vec::with_capacity(values.len());
    for (index, value) in values.iter().enumerate() {
        texts.push(match value {
            _ if !arrays.contains_key(&index) => None,
            Value::Null => Some(None),
            Value::Text(text) => Some(Some(text.clone())),
            _ => return Err(Error::new(ErrorKind::DatatypeMismatch, "an array parameter is given as a text: {1,2,3}")),
        });
    }
    let bound = Some(BoundArrays { texts, types });
    Expansion { bound, arrays: Arrays::new(), of_oids: false, changed: false }.applied(parsed)
}

/// Puts the elements of arrays given as texts in their places: for queries that are not prepared, such as a view's.
pub(crate) fn expand(query: &mut ast::Query) -> Result<()> {
    let mut expansion = Expansion { bound: None, arrays: Arrays::new(), of_oids: false, changed: false };
    into_result(query.visit(&mut expansion))
}

/// The values of array parameters.
struct BoundArrays<'a> {
    /// By parameter: the text of an array, or null.
    texts: Vec<Option<Option<String>>>,
    types: &'a [ColumnType],
}

struct Expansion<'a> {
    bound: Option<BoundArrays<'a>>,
    arrays: Arrays,
    /// Whether the array being read is cast to `oid[]`.
    of_oids: bool,
    changed: bool,
}

/// The elements of an array.
enum Elements {
    /// Not known yet: this stands for each of them.
    Each(Expr),
    /// These.
    All(Vec<Expr>),
    /// The array is null.
    Null,
}

fn into_result(flow: ControlFlow<Error>) -> Result<()> {
    match flow {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

impl VisitorMut for Expansion<'_> {
    type Break = Error;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match self.expanded(expr) {
            Ok(Some(expanded)) => {
                self.changed = true;
                *expr = expanded;
                ControlFlow::Continue(())
            }
            Ok(None) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

impl Expansion<'_> {
    fn applied(&mut self, parsed: &Parsed) -> Result<Parsed> {
        let mut parsed = parsed.clone();
        into_result(self.statement(&mut parsed.statement))?;
        Ok(parsed)
    }

    fn statement(&mut self, statement: &mut Statement) -> ControlFlow<Error> {
        match statement {
            Statement::Query(query) => query.query.visit(self),
            Statement::CreateTableAs(create) => create.query.query.visit(self),
            Statement::CreateView(create) => create.query.query.visit(self),
            Statement::DeclareCursor(declare) => declare.query.query.visit(self),
            Statement::Explain(explain) => self.statement(&mut explain.statement.statement),
            Statement::Insert(insert) => {
                match &mut insert.source {
                    InsertSource::Values(rows) => rows.iter_mut().flatten().try_for_each(|value| self.value(value))?,
                    InsertSource::Query(query) => query.query.visit(self)?,
                    InsertSource::DefaultValues => {}
                }
                if let Some(conflict) = &mut insert.on_conflict
                    && let ConflictAction::Update { assignments, filter } = &mut conflict.action
                {
                    assignments.iter_mut().try_for_each(|assignment| self.value(&mut assignment.value))?;
                    filter.visit(self)?;
                }
                insert.returning.visit(self)
            }
            Statement::Update(update) => {
                update.assignments.iter_mut().try_for_each(|assignment| self.value(&mut assignment.value))?;
                update.from.visit(self)?;
                update.filter.visit(self)?;
                update.returning.visit(self)
            }
            Statement::Delete(delete) => {
                delete.from.visit(self)?;
                delete.filter.visit(self)?;
                delete.returning.visit(self)
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn value(&mut self, value: &mut InsertValue) -> ControlFlow<Error> {
        match value {
            InsertValue::Expression(expression) => expression.visit(self),
            InsertValue::Default => ControlFlow::Continue(()),
        }
    }

    /// The expression that replaces one with an array in it; none if it has none.
    fn expanded(&mut self, expr: &Expr) -> Result<Option<Expr>> {
        match expr {
            Expr::AnyOp { left, compare_op, right, .. } => {
                let elements = self.elements(right, false)?;
                Ok(elements.map(|elements| comparisons(left, compare_op, elements, BinaryOperator::Or)))
            }
            Expr::AllOp { left, compare_op, right } => {
                let elements = self.elements(right, false)?;
                Ok(elements.map(|elements| comparisons(left, compare_op, elements, BinaryOperator::And)))
            }
            Expr::Cast { data_type, expr: inner, .. } if element_type(data_type).is_some() && !is_null(inner) => {
                Ok(self.elements(expr, true)?.map(|elements| list(elements, data_type)))
            }
            // What is left of an array parameter: `$1 IS NULL`.
            Expr::Value(value) => match (&value.value, &self.bound) {
                (ast::Value::Placeholder(name), Some(bound)) => {
                    let text = parameter_index(name).and_then(|index| bound.texts.get(index)).and_then(Option::as_ref);
                    Ok(text.map(|text| text.as_deref().map_or_else(null, quoted)))
                }
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// The elements of an array given as a text or parameter. `typed`: each is cast to the type of the array's cast.
    fn elements(&mut self, expr: &Expr, typed: bool) -> Result<Option<Elements>> {
        match expr {
            Expr::Nested(inner) => self.elements(inner, typed),
            Expr::Cast { kind, expr, data_type, array: false, format: None } => {
                let Some(ty) = element_type(data_type) else { return Ok(None) };
                if !matches!(kind, ast::CastKind::Cast | ast::CastKind::DoubleColon) {
                    return Ok(None);
                }
                let known = keyspan_cql::column_type(ty).ok();
                self.of_oids = ty.to_string().to_lowercase().ends_with("oid");
                let elements = self.bare(expr, known);
                self.of_oids = false;
                let elements = elements?;
                Ok(elements.map(|elements| match elements {
                    Elements::Each(each) => Elements::Each(cast(each, ty)),
                    Elements::All(all) if typed => Elements::All(all.into_iter().map(|each| cast(each, ty)).collect()),
                    other => other,
                }))
            }
            other => self.bare(other, None),
        }
    }

    fn bare(&mut self, expr: &Expr, ty: Option<ColumnType>) -> Result<Option<Elements>> {
        let Expr::Value(value) = expr else { return Ok(None) };
        match &value.value {
            ast::Value::SingleQuotedString(text) => Ok(Some(Elements::All(literals(text, ty)?))),
            ast::Value::Placeholder(name) => {
                let Some(index) = parameter_index(name) else { return Ok(None) };
                let of_oids = self.of_oids;
                self.arrays.entry(index).and_modify(|oids| *oids |= of_oids).or_insert(of_oids);
                let Some(bound) = &self.bound else { return Ok(Some(Elements::Each(expr.clone()))) };
                let ty = ty.or_else(|| bound.types.get(index).copied());
                match bound.texts.get(index) {
                    Some(Some(Some(text))) => Ok(Some(Elements::All(literals(text, ty)?))),
                    _ => Ok(Some(Elements::Null)),
                }
            }
            ast::Value::Null => Ok(Some(Elements::Null)),
            _ => Ok(None),
        }
    }
}

fn element_type(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::Array(
            ast::ArrayElemTypeDef::SquareBracket(element, _)
            | ast::ArrayElemTypeDef::AngleBracket(element)
            | ast::ArrayElemTypeDef::Parenthesis(element),
        ) => Some(element),
        _ => None,
    }
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if value.value == ast::Value::Null)
}

fn null() -> Expr {
    Expr::Value(ast::Value::Null.into())
}

fn boolean(value: bool) -> Expr {
    Expr::Value(ast::Value::Boolean(value).into())
}

fn quoted(text: &str) -> Expr {
    Expr::Value(ast::Value::SingleQuotedString(text.to_string()).into())
}

fn cast(expr: Expr, ty: &DataType) -> Expr {
    let kind = ast::CastKind::Cast;
    Expr::Cast { kind, expr: Box::new(expr), data_type: ty.clone(), array: false, format: None }
}

fn literals(text: &str, ty: Option<ColumnType>) -> Result<Vec<Expr>> {
    let elements = text::elements(text)?;
    Ok(elements.into_iter().map(|element| element.map_or_else(null, |text| literal(&text, ty))).collect())
}

/// An exact number as one, so that it compares with numbers of other types; all else as a text that takes its type
/// from what it is compared with.
fn literal(text: &str, ty: Option<ColumnType>) -> Expr {
    use ColumnType as C;
    let is_number = matches!(ty, Some(C::TinyInt | C::SmallInt | C::Int | C::BigInt | C::VarInt | C::Decimal { .. }));
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.ends_with(|c: char| c.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && digits.matches('.').count() <= 1;
    if !is_number || !plain {
        return quoted(text);
    }
    let number = Expr::Value(ast::Value::Number(digits.to_string(), false).into());
    match text.starts_with('-') {
        true => Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr: Box::new(number) },
        false => number,
    }
}

/// `left op element`, for all elements, joined.
fn comparisons(left: &Expr, op: &BinaryOperator, elements: Elements, joined: BinaryOperator) -> Expr {
    let compare = |each: Expr| {
        let right = Box::new(each);
        Expr::BinaryOp { left: Box::new(left.clone()), op: op.clone(), right }
    };
    let any = joined == BinaryOperator::Or;
    let all = match elements {
        Elements::Null => return cast(null(), &DataType::Boolean),
        Elements::Each(each) => return Expr::Nested(Box::new(compare(each))),
        Elements::All(all) if all.is_empty() => return boolean(!any),
        Elements::All(all) => all,
    };
    match (op, any) {
        (BinaryOperator::Eq, true) | (BinaryOperator::NotEq, false) => {
            Expr::InList { expr: Box::new(left.clone()), list: all, negated: !any }
        }
        _ => Expr::Nested(Box::new(balanced(all.into_iter().map(compare).collect(), &joined))),
    }
}

/// Many conditions without a deep tree.
fn balanced(mut all: Vec<Expr>, op: &BinaryOperator) -> Expr {
    while all.len() > 1 {
        let mut pairs = all.into_iter();
        let mut next = Vec::new();
        while let Some(left) = pairs.next() {
            next.push(match pairs.next() {
                Some(right) => {
                    let both = Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) };
                    Expr::Nested(Box::new(both))
                }
                None => left,
            });
        }
        all = next;
    }
    all.pop().unwrap_or_else(null)
}

/// The array itself.
fn list(elements: Elements, array_type: &DataType) -> Expr {
    let array = |elem| Expr::Array(ast::Array { elem, named: true });
    let of_null = || array(vec![cast(null(), element_type(array_type).unwrap_or(array_type))]);
    match elements {
        Elements::Each(each) => array(vec![each]),
        Elements::All(all) if !all.is_empty() => array(all),
        // An empty list of a type has no literal.
        Elements::All(_) => {
            call("array_resize", vec![of_null(), Expr::Value(ast::Value::Number("0".into(), false).into())])
        }
        Elements::Null => Expr::Case {
            case_token: ast::helpers::attached_token::AttachedToken::empty(),
            end_token: ast::helpers::attached_token::AttachedToken::empty(),
            operand: None,
            conditions: vec![ast::CaseWhen { condition: boolean(false), result: of_null() }],
            else_result: None,
        },
    }
}

fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|arg| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(arg))).collect();
    let list = ast::FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() };
    Expr::Function(ast::Function {
        name: ast::ObjectName::from(vec![ast::Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(sql: &str, values: &[Value], ty: ColumnType) -> String {
        let parsed = keyspan_cql::parse_one(sql).expect("a statement");
        let (_, arrays) = find_parameters(&parsed).expect("arrays").expect("some");
        let types = vec![ty; values.len()];
        match put_elements(&parsed, &arrays, &types, values).expect("bound").statement {
            Statement::Query(query) => query.query.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn elements_become_a_list() {
        let any = "SELECT 1 FROM t WHERE a = ANY($1)";
        let of = |text: &str, ty| expanded(any, &[Value::Text(text.into())], ty);
        assert_eq!(of("{1,-2,NULL}", ColumnType::Int), "SELECT 1 FROM t WHERE a IN (1, -2, NULL)");
        assert_eq!(of("{1,\"it's\"}", ColumnType::Text), "SELECT 1 FROM t WHERE a IN ('1', 'it''s')");
        assert_eq!(of("{}", ColumnType::Int), "SELECT 1 FROM t WHERE false");
        assert_eq!(expanded(any, &[Value::Null], ColumnType::Int), "SELECT 1 FROM t WHERE CAST(NULL AS BOOLEAN)");
    }

    #[test]
    fn other_comparisons_are_joined() {
        let sql = "SELECT 1 FROM t WHERE a > ALL($1::int[]) OR $1 IS NULL";
        let text = expanded(sql, &[Value::Text("{1,2}".into())], ColumnType::Int);
        assert_eq!(text, "SELECT 1 FROM t WHERE ((a > 1 AND a > 2)) OR '{1,2}' IS NULL");
    }

    #[test]
    fn statements_without_arrays_are_left_alone() {
        let parsed = keyspan_cql::parse_one("SELECT a FROM t WHERE a = ANY(b) AND c = $1").expect("a statement");
        assert!(find_parameters(&parsed).expect("no arrays").is_none());
    }
}
