//! The planner of operators that DataFusion asks first; through the marks of [`super::mark`] it also sees literals,
//! casts, calls, CASE, IN, BETWEEN and LIKE, from the leaves up and with the types of what they are made of.

use arrow::datatypes::{DataType, Field};
use datafusion::common::TableReference;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Case, Cast, InList, ScalarFunction};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr};
use datafusion::logical_expr::{Between, Expr, Like, LogicalPlan, LogicalPlanBuilder, Operator};
use keyspan_model::{ColumnType, Error, ErrorKind};

use super::branches::{known_type, unified};
use super::call;
use super::cast::{explicit, implicit, number};
use super::mark::{Mark, mark_of};
use super::operator::{binary, calculated, compared};
use crate::error::external;
use crate::functions::{SIMILAR_PATTERN, interval_to, retyped, similar_pattern, value_call};
use crate::types::arithmetic::Op;
use crate::types::cast::Target;
use crate::types::compared_type;
use crate::types::{Ty, fail, field_type, literal, literal_text, number_rank, type_of, value_of_literal};

/// Plans expressions as Postgres does.
#[derive(Debug)]
pub struct PostgresPlanner;

impl ExprPlanner for PostgresPlanner {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let planned = match mark_of(&expr.op) {
            Some(mark) if mark.kind == "merged" => {
                Some(merged(mark.detail, expr.left.clone(), expr.right.clone(), schema)?)
            }
            Some(mark) => Some(marked(&mark, expr.left.clone(), schema)?),
            None => binary(&expr.op, expr.left.clone(), expr.right.clone(), schema)?,
        };
        Ok(match planned {
            Some(planned) => PlannerResult::Planned(planned),
            None => PlannerResult::Original(expr),
        })
    }

    fn plan_array_literal(&self, exprs: Vec<Expr>, schema: &DFSchema) -> Result<PlannerResult<Vec<Expr>>> {
        super::array::planned(exprs, schema)
    }

    fn plan_field_access(
        &self,
        expr: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        super::access::planned(expr, schema)
    }

    fn plan_compound_identifier(
        &self,
        field: &Field,
        qualifier: Option<&TableReference>,
        names: &[String],
    ) -> Result<PlannerResult<Vec<Expr>>> {
        let Some(mut ty) = field_type(field).known().filter(|ty| ty.is_packed()) else {
            return Ok(PlannerResult::Original(Vec::new()));
        };
        let mut expr = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        for name in names {
            expr = super::access::named_field(expr, ty, name)?;
            ty = ty.as_nested().and_then(|nested| nested.field(name)).map_or(ty, |(_, ty)| ty);
        }
        Ok(PlannerResult::Planned(expr))
    }
}

fn marked(mark: &Mark<'_>, expr: Expr, schema: &DFSchema) -> Result<Expr> {
    match mark.kind {
        "number" => number(mark.detail),
        "negate" => negate(expr, schema),
        "cast" => explicit(expr, Target::parse(mark.detail).map_err(external)?, schema),
        "interval" => interval(&expr, mark.detail),
        "term" => {
            let ty = type_of(&expr, schema)?;
            Ok(super::recursive::planned(expr, &ty))
        }
        _ => after(expr, schema),
    }
}

/// A merged column of JOIN USING as the type that both sides take: the side that always has the value, or COALESCE.
fn merged(keeps: &str, left: Expr, right: Expr, schema: &DFSchema) -> Result<Expr> {
    let mut sides = unified("JOIN/USING", vec![left, right], schema)?;
    match keeps {
        "left" => Ok(sides.swap_remove(0)),
        "right" => Ok(sides.swap_remove(1)),
        _ => {
            let ty = known_type(&sides, schema)?;
            let coalesce = datafusion::functions::core::coalesce();
            Ok(retyped(Expr::ScalarFunction(ScalarFunction::new_udf(coalesce, sides)), ty))
        }
    }
}

/// `interval '1' day`: a unit outside of the text belongs to a bare number in it, the last one of several.
/// `interval '1:20' minute second` has no hours.
fn interval(expr: &Expr, units: &str) -> Result<Expr> {
    // `INTERVAL 3 HOURS`, as in DuckDB.
    let number = if units.is_empty() { None } else { number_text(expr)? };
    let Some(text) = number.as_deref().or_else(|| literal_text(expr)) else {
        let error = Error::not_supported("the amount of an INTERVAL must be a literal");
        return fail(error.with_hint("Write x * INTERVAL '1 hour', or make_interval(hours => x)."));
    };
    let unit = units.rsplit(' ').next().unwrap_or_default();
    let bare = !unit.is_empty() && text.trim().parse::<f64>().is_ok();
    let text = match units {
        _ if bare => format!("{text} {unit}"),
        "minute second" if text.matches(':').count() == 1 => match text.trim().strip_prefix('-') {
            Some(text) => format!("-00:{text}"),
            None => format!("00:{}", text.trim()),
        },
        _ => text.to_owned(),
    };
    let value = keyspan_model::Value::parse(&text, ColumnType::Duration).map_err(external)?;
    let value = match unit {
        "" | "second" => value,
        unit => interval_to(unit, &value).map_err(external)?,
    };
    literal(&value, ColumnType::Duration)
}

/// The digits of a number that is written out.
fn number_text(expr: &Expr) -> Result<Option<String>> {
    let ty = type_of(expr, &DFSchema::empty())?.known().filter(|ty| number_rank(*ty).is_some());
    let value = ty.and_then(|ty| Some((value_of_literal(expr, ty)?, ty)));
    Ok(value.map(|(value, ty)| value.to_text(ty)))
}

fn negate(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let ty = match type_of(&expr, schema)? {
        Ty::Known(ty) => ty,
        Ty::Unknown => ColumnType::Double,
        Ty::Other(_) => return Ok(Expr::Negative(Box::new(expr))),
    };
    if ty == ColumnType::Duration {
        return value_call("interval_negate", vec![expr], &[ty]);
    }
    let Some((left, _, result)) = crate::types::arithmetic::types(Op::Subtract, ty, ty) else {
        let message = format!("operator does not exist: - {}", crate::types::type_name(ty));
        let hint = "No operator matches the given name and argument type. You might need to add an explicit type cast.";
        return fail(Error::new(ErrorKind::UndefinedFunction, message).with_hint(hint));
    };
    // From -0.0, so that a negated float zero keeps its sign.
    let zero = match left {
        ColumnType::Double => keyspan_model::Value::Double(0.0),
        ColumnType::Real => keyspan_model::Value::Real(0.0),
        left => keyspan_model::Value::Int(0).cast(left).map_err(external)?,
    };
    let expr = implicit(expr, &Ty::Known(ty), left)?;
    calculated(Op::Subtract, literal(&zero, left)?, expr, result)
}

/// What DataFusion has planned, with the types of its parts brought together.
fn after(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    match expr {
        Expr::Alias(alias) => after(*alias.expr, schema),
        Expr::ScalarFunction(function) => call::scalar(function, schema),
        Expr::AggregateFunction(function) => call::aggregate(function, schema),
        Expr::WindowFunction(function) => call::window(*function, schema),
        Expr::InList(list) => in_list(among_reals(list, schema)?, schema),
        Expr::Between(between) => between_expr(between, schema),
        Expr::Like(like) => like_texts(like, schema).and_then(with_whole_escapes).map(Expr::Like),
        Expr::SimilarTo(like) => similar(like_texts(like, schema)?),
        Expr::Case(case) => case_expr(case, schema),
        Expr::BinaryExpr(binary) if matches!(binary.op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom) => {
            compared(binary.op, *binary.left, *binary.right, schema)
        }
        Expr::InSubquery(subquery) => in_subquery(subquery, schema),
        Expr::Unnest(unnest) => {
            let element = type_of(&unnest.expr, schema)?.known().and_then(ColumnType::element);
            Ok(retyped(Expr::Unnest(unnest), element))
        }
        other => Ok(other),
    }
}

/// Every member takes the tested value's type; members of another type are compared one by one.
pub fn in_list(list: InList, schema: &DFSchema) -> Result<Expr> {
    let InList { expr, list, negated } = list;
    let op = if negated { Operator::NotEq } else { Operator::Eq };
    let mut members = Vec::with_capacity(list.len());
    let mut uniform = true;
    let mut tested = None;
    let mut rest = Vec::with_capacity(list.len());
    for member in list {
        let comparison = compared(op, expr.as_ref().clone(), member, schema)?;
        if let Expr::BinaryExpr(binary) = &comparison {
            let same = tested.as_ref().is_none_or(|tested| tested == binary.left.as_ref());
            uniform &= same && matches!(binary.right.as_ref(), Expr::Literal(..) | Expr::Placeholder(_));
            tested.get_or_insert_with(|| binary.left.as_ref().clone());
            members.push(binary.right.as_ref().clone());
        } else {
            uniform = false;
        }
        rest.push(comparison);
    }
    if uniform && !members.is_empty() {
        let tested = tested.map_or(expr, Box::new);
        return Ok(Expr::InList(InList { expr: tested, list: members, negated }));
    }
    let joined = if negated { Operator::And } else { Operator::Or };
    let all = balanced(rest, joined);
    Ok(all.unwrap_or(Expr::Literal(ScalarValue::Boolean(Some(negated)), None)))
}

/// Several constants that a `real` is looked for among are `real`, too, unless one is a `double`: PostgreSQL makes an array
/// of their common type, where of one constant both would be `double`.
fn among_reals(list: InList, schema: &DFSchema) -> Result<InList> {
    let (real, double) = (Ty::Known(ColumnType::Real), Ty::Known(ColumnType::Double));
    if list.list.len() < 2 || type_of(&list.expr, schema)? != real || list.list.iter().any(Expr::any_column_refs) {
        return Ok(list);
    }
    let types = list.list.iter().map(|item| type_of(item, schema)).collect::<Result<Vec<_>>>()?;
    if types.contains(&double) {
        return Ok(list);
    }
    let each = list.list.into_iter().zip(types).map(|(item, ty)| match ty.known().and_then(number_rank) {
        Some(_) => explicit(item, Target::of(ColumnType::Real), schema),
        None => Ok(item),
    });
    Ok(InList { list: each.collect::<Result<_>>()?, ..list })
}

/// Joins many conditions without a deep tree.
pub fn balanced(mut exprs: Vec<Expr>, op: Operator) -> Option<Expr> {
    while exprs.len() > 1 {
        let mut next = Vec::with_capacity(exprs.len().div_ceil(2));
        let mut pairs = exprs.into_iter();
        while let Some(left) = pairs.next() {
            next.push(match pairs.next() {
                Some(right) => datafusion::logical_expr::binary_expr(left, op, right),
                None => left,
            });
        }
        exprs = next;
    }
    exprs.pop()
}

fn between_expr(between: Between, schema: &DFSchema) -> Result<Expr> {
    let Between { expr, negated, low, high } = between;
    let (from, to, joined) = match negated {
        false => (Operator::GtEq, Operator::LtEq, Operator::And),
        true => (Operator::Lt, Operator::Gt, Operator::Or),
    };
    let low = compared(from, expr.as_ref().clone(), *low, schema)?;
    let high = compared(to, *expr, *high, schema)?;
    Ok(datafusion::logical_expr::binary_expr(low, joined, high))
}

fn like_texts(like: Like, schema: &DFSchema) -> Result<Like> {
    let types = (type_of(&like.expr, schema)?, type_of(&like.pattern, schema)?);
    let text = |ty: &Ty| matches!(ty, Ty::Unknown | Ty::Known(ColumnType::Text | ColumnType::Ascii));
    if !text(&types.0) || !text(&types.1) {
        let symbol = if like.case_insensitive { "~~*" } else { "~~" };
        let message = format!("operator does not exist: {} {symbol} {}", types.0.name(), types.1.name());
        let hint = "No operator matches the given name and argument types. You might need to add explicit type casts.";
        return fail(Error::new(ErrorKind::UndefinedFunction, message).with_hint(hint));
    }
    let expr = Box::new(implicit(*like.expr, &types.0, ColumnType::Text)?);
    let pattern = Box::new(implicit(*like.pattern, &types.1, ColumnType::Text)?);
    Ok(Like { expr, pattern, ..like })
}

/// Fails for a literal pattern whose last character escapes nothing; PostgreSQL does when a text has come as far.
fn with_whole_escapes(like: Like) -> Result<Like> {
    let mut rest = literal_text(&like.pattern).unwrap_or_default().chars();
    while let Some(c) = rest.next() {
        if c == '\\' && rest.next().is_none() {
            return fail(Error::new(ErrorKind::InvalidEscape, "LIKE pattern must not end with escape character"));
        }
    }
    Ok(like)
}

/// SIMILAR TO, its pattern as a regular expression.
fn similar(like: Like) -> Result<Expr> {
    let Some(pattern) = literal_text(&like.pattern) else {
        let pattern = value_call(SIMILAR_PATTERN, vec![*like.pattern], &[ColumnType::Text])?;
        let flags = literal(&keyspan_model::Value::Text(String::new()), ColumnType::Text)?;
        let found = value_call("regexp_like", vec![*like.expr, pattern, flags], &[ColumnType::Text; 3])?;
        return Ok(if like.negated { Expr::Not(Box::new(found)) } else { found });
    };
    let pattern = similar_pattern(pattern);
    let pattern = literal(&keyspan_model::Value::Text(pattern), ColumnType::Text)?;
    let op = if like.negated { Operator::RegexNotMatch } else { Operator::RegexMatch };
    Ok(datafusion::logical_expr::binary_expr(*like.expr, op, pattern))
}

fn case_expr(case: Case, schema: &DFSchema) -> Result<Expr> {
    let Case { expr, when_then_expr, else_expr } = case;
    let (conditions, mut branches): (Vec<_>, Vec<_>) =
        when_then_expr.into_iter().map(|(when, then)| (*when, *then)).unzip();
    let (operand, whens) = match expr {
        Some(operand) if operand.is_volatile() => {
            // Computed once, which comparisons with each value would not do.
            let mut all = unified("CASE/WHEN", std::iter::once(*operand).chain(conditions).collect(), schema)?;
            (Some(Box::new(all.remove(0))), all)
        }
        operand => (None, conditions_of(operand.as_deref(), conditions, schema)?),
    };
    let has_else = else_expr.is_some();
    branches.extend(else_expr.map(|expr| *expr));
    let mut branches = unified("CASE", branches, schema)?;
    let ty = known_type(&branches, schema)?;
    let else_expr = if has_else { branches.pop().map(Box::new) } else { None };
    let pairs = whens.into_iter().zip(branches).map(|(when, then)| (Box::new(when), Box::new(then)));
    let case = Case { expr: operand, when_then_expr: pairs.collect(), else_expr };
    let plain = ty == Some(ColumnType::Boolean) && case.expr.is_none();
    Ok(if plain { guarded(case) } else { retyped(Expr::Case(case), ty) })
}

/// What a CASE asks before each branch.
fn conditions_of(operand: Option<&Expr>, whens: Vec<Expr>, schema: &DFSchema) -> Result<Vec<Expr>> {
    let condition = |when: Expr| match operand {
        Some(operand) => compared(Operator::Eq, operand.clone(), when, schema),
        None => {
            let ty = type_of(&when, schema)?;
            if !matches!(ty, Ty::Unknown | Ty::Known(ColumnType::Boolean)) {
                let message = format!("argument of CASE/WHEN must be type boolean, not type {}", ty.name());
                return fail(Error::new(ErrorKind::DatatypeMismatch, message));
            }
            implicit(when, &ty, ColumnType::Boolean)
        }
    };
    whens.into_iter().map(condition).collect()
}

/// A boolean CASE. The optimizer makes AND and OR of one, which compute all that is in them: where a branch, or a condition
/// after the first, may fail, it is one of numbers.
fn guarded(mut case: Case) -> Expr {
    let may_fail = |branch: &Expr| {
        branch.exists(|part| Ok(matches!(part, Expr::ScalarFunction(_) | Expr::Cast(_)))).unwrap_or(true)
    };
    // The first condition is computed for every row.
    let conditions = case.when_then_expr.iter().skip(1).map(|(when, _)| when);
    let values = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
    if !conditions.chain(values).any(|branch| may_fail(branch)) {
        return Expr::Case(case);
    }
    for branch in case.when_then_expr.iter_mut().map(|(_, then)| then).chain(&mut case.else_expr) {
        let value = std::mem::take(branch.as_mut());
        **branch = Expr::Cast(Cast::new(Box::new(value), DataType::Int32));
    }
    // Compared with 1, a CASE of constants would be made boolean again.
    Expr::Cast(Cast::new(Box::new(Expr::Case(case)), DataType::Boolean))
}

/// The tested value takes the type of the subquery's column, as far as it is a literal; else types must agree.
fn in_subquery(mut subquery: datafusion::logical_expr::expr::InSubquery, schema: &DFSchema) -> Result<Expr> {
    // A rule asks for the expression of the column, which VALUES has not.
    if let values @ LogicalPlan::Values(_) = subquery.subquery.subquery.as_ref() {
        let columns = values.schema().columns().into_iter().map(Expr::Column);
        let column = LogicalPlanBuilder::from(values.clone()).project(columns)?.build()?;
        subquery.subquery.subquery = std::sync::Arc::new(column);
    }
    let plan = subquery.subquery.subquery.schema();
    if plan.fields().len() != 1 {
        return Ok(Expr::InSubquery(subquery));
    }
    let (left, right) = (type_of(&subquery.expr, schema)?, crate::types::field_type(plan.field(0)));
    match (&left, &right) {
        (Ty::Known(ColumnType::Jsonb) | Ty::Unknown, Ty::Known(ColumnType::Jsonb)) => {
            let value = implicit(*subquery.expr, &left, ColumnType::Jsonb)?;
            *subquery.expr = value_call("jsonb_order", vec![value], &[ColumnType::Jsonb])?;
            subquery.subquery.subquery = std::sync::Arc::new(super::alike::in_order(&subquery.subquery.subquery)?);
        }
        (Ty::Unknown, Ty::Known(ty)) => *subquery.expr = implicit(*subquery.expr, &left, *ty)?,
        (Ty::Known(a), Ty::Known(b)) if compared_type(*a, *b).is_none() => {
            let message = format!("operator does not exist: {} = {}", left.name(), right.name());
            let hint =
                "No operator matches the given name and argument types. You might need to add explicit type casts.";
            return fail(Error::new(ErrorKind::UndefinedFunction, message).with_hint(hint));
        }
        (Ty::Known(a), Ty::Known(b)) if !is_cast_alike(*a, *b) => {
            let common = compared_type(*a, *b).unwrap_or(*a);
            *subquery.expr = implicit(*subquery.expr, &left, common)?;
            let cast = super::alike::each_value(&subquery.subquery.subquery, |value| implicit(value, &right, common))?;
            subquery.subquery.subquery = std::sync::Arc::new(cast);
        }
        _ => {}
    }
    Ok(Expr::InSubquery(subquery))
}

/// Whether DataFusion casts both to what PostgreSQL does: not where the zone decides, nor a numeric beside a float.
fn is_cast_alike(a: ColumnType, b: ColumnType) -> bool {
    use ColumnType as C;
    let times = |ty| matches!(ty, C::Date | C::Timestamp | C::LocalTimestamp);
    let mixed = |a, b| matches!((a, b), (C::Decimal { .. } | C::VarInt, C::Real | C::Double));
    a == b || !(times(a) && times(b) || mixed(a, b) || mixed(b, a))
}
