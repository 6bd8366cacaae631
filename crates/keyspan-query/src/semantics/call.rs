//! Calls: which of the functions of a name is meant, as Postgres resolves it from the arguments' types.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{AggregateFunction, Case, Cast, ScalarFunction, WindowFunction};
use datafusion::logical_expr::planner::PlannerResult;
use datafusion::logical_expr::{AggregateUDF, Expr, ExprSchemable, SortExpr, WindowFunctionDefinition, lit};
use datafusion::sql::sqlparser::ast;
use keyspan_model::{ColumnType, Error, ErrorKind, Nested};

use super::branches::{known_type, unified};
use super::cast::{argument, implicit};
use super::frame;
use super::operator::calculated;
use super::order;
use super::series;
use crate::builtins;
use crate::functions::array::{COMPARE_ALL, COMPARE_ANY, JOINED, SORTED};
use crate::functions::extreme::{GREATEST_OF, LEAST_OF};
use crate::functions::once::{COALESCE_OF, NULLIF_OF};
use crate::functions::pairs::is_of_pairs;
use crate::functions::row_key::{ROW_KEY, has_key};
use crate::functions::{self, Overload, Parameter, list_function, value_call};
use crate::types::arithmetic::Op;
use crate::types::{Ty, fail, is_nested_literal, sortable_form, type_of};
use crate::types::{common_type, compared_type, decimal, number_rank, scale_of};

/// 42883 for a name with these argument types.
pub fn missing<T>(name: &str, types: &[Ty]) -> Result<T> {
    let arguments = types.iter().map(Ty::name).collect::<Vec<_>>().join(", ");
    let error = Error::new(ErrorKind::UndefinedFunction, format!("function {name}({arguments}) does not exist"));
    let hint = match builtins::exists(name) {
        true => {
            "No function matches the given name and argument types. You might need to add explicit type casts.".into()
        }
        false => match builtins::nearest_name(name) {
            Some(near) => format!("Perhaps you meant \"{near}\"."),
            None => "No function matches the given name and argument types. You might need to add explicit type casts."
                .into(),
        },
    };
    fail(error.with_hint(hint))
}

pub fn types_of(args: &[Expr], schema: &DFSchema) -> Result<Vec<Ty>> {
    args.iter().map(|arg| type_of(arg, schema)).collect()
}

/// A scalar call.
pub fn scalar(function: ScalarFunction, schema: &DFSchema) -> Result<Expr> {
    let call = scalar_call(function, schema)?;
    // Lengths and places in lists are bigint, as counts are.
    let unsigned =
        matches!(call, Expr::ScalarFunction(_)) && call.get_type(schema).is_ok_and(|ty| ty == DataType::UInt64);
    Ok(if unsigned { Expr::Cast(Cast::new(Box::new(call), DataType::Int64)) } else { call })
}

fn is_over_rows(part: &Expr) -> bool {
    matches!(part, Expr::AggregateFunction(_) | Expr::WindowFunction(_))
}

/// An argument that a subquery computes does not tell its type when the call runs.
fn subquery_with_type(arg: Expr, schema: &DFSchema) -> Result<Expr> {
    if !matches!(arg, Expr::ScalarSubquery(_)) {
        return Ok(arg);
    }
    let ty = type_of(&arg, schema)?.known();
    Ok(functions::retyped(arg, ty))
}

fn scalar_call(function: ScalarFunction, schema: &DFSchema) -> Result<Expr> {
    let name = function.func.name().to_owned();
    let ScalarFunction { func, args } = function;
    let args = args.into_iter().map(|arg| subquery_with_type(arg, schema)).collect::<Result<Vec<_>>>()?;
    match name.as_str() {
        "coalesce" | "greatest" | "least" => {
            let args = unified(&name.to_uppercase(), args, schema)?;
            let ty = known_type(&args, schema)?;
            let several_times =
                name == "coalesce" && args[..args.len().saturating_sub(1)].iter().any(Expr::is_volatile);
            if let Some(ty) = ty.filter(|_| several_times) {
                let types = vec![ty; args.len()];
                return functions::typed_call(COALESCE_OF, args, &types, ty);
            }
            if let Some(ty) = ty.filter(|ty| name != "coalesce" && sortable_form(*ty).is_some()) {
                let own = if name == "greatest" { GREATEST_OF } else { LEAST_OF };
                let types = vec![ty; args.len()];
                return functions::typed_call(own, args, &types, ty);
            }
            return Ok(functions::retyped(Expr::ScalarFunction(ScalarFunction { func, args }), ty));
        }
        // A day beside a zone is its first instant.
        "timezone" if args.len() == 2 && type_of(&args[1], schema)? == Ty::Known(ColumnType::Date) => {
            let instant = implicit(args[1].clone(), &Ty::Known(ColumnType::Date), ColumnType::Timestamp)?;
            let of_zone = type_of(&args[0], schema)?;
            let by = of_zone.known().unwrap_or(ColumnType::Text);
            return value_call(
                &name,
                vec![implicit(args[0].clone(), &of_zone, by)?, instant],
                &[by, ColumnType::Timestamp],
            );
        }
        // `ARRAY[…]` of a nested query.
        "make_array" if !args.is_empty() => {
            return Ok(match super::array::planned(args, schema)? {
                PlannerResult::Planned(array) => array,
                PlannerResult::Original(args) => Expr::ScalarFunction(ScalarFunction { func, args }),
            });
        }
        name if functions::vector::is_of_two(name) => return super::vector::compared(name, args, schema),
        COMPARE_ANY | COMPARE_ALL => return super::quantified::planned(&name, args, schema),
        "array_has" => {
            let args = super::member::alike(args, schema)?;
            return Ok(Expr::ScalarFunction(ScalarFunction { func, args }));
        }
        "nullif" => {
            let [left, right] =
                <[Expr; 2]>::try_from(args).or_else(|args| missing(&name, &types_of(&args, schema)?))?;
            if left.is_volatile()
                && let Some(first) = type_of(&left, schema)?.known()
            {
                let args = unified("NULLIF", vec![left, right], schema)?;
                if let Some(ty) = known_type(&args, schema)? {
                    let value = functions::typed_call(NULLIF_OF, args, &[ty, ty], ty)?;
                    return implicit(value, &Ty::Known(ty), first);
                }
                return missing(&name, &types_of(&args, schema)?);
            }
            let first = left.clone();
            let other = type_of(&right, schema)?.known();
            let equal = super::operator::compared(datafusion::logical_expr::Operator::Eq, left, right, schema)?;
            let ty = type_of(&first, schema)?;
            let of_other = other.unwrap_or(ColumnType::Text);
            let first = match ty.known().zip(other).and_then(|(own, other)| compared_as(own, other)) {
                Some(wide) => implicit(first, &ty, wide)?,
                None if ty == Ty::Unknown => implicit(first, &ty, of_other)?,
                None => first,
            };
            let known = type_of(&first, schema)?.known();
            let value = datafusion::logical_expr::when(equal, typed_null(&first, schema)?).otherwise(first)?;
            return Ok(functions::retyped(value, known));
        }
        functions::collection::COUNT if args.len() == 1 && matches!(type_of(&args[0], schema)?, Ty::Other(_)) => {
            let count = datafusion::functions_nested::expr_fn::cardinality(args[0].clone());
            return Ok(Expr::Cast(Cast::new(Box::new(count), DataType::Int32)));
        }
        "map_keys" | "map_values" if args.len() == 1 => {
            if let Ty::Known(ty) = type_of(&args[0], schema)?
                && matches!(ty.as_nested(), Some(Nested::Map(..)))
            {
                let own = if name == "map_keys" { functions::nested::KEYS } else { functions::nested::VALUES };
                return value_call(own, args, &[ty]);
            }
        }
        "pg_typeof" => {
            let types = types_of(&args, schema)?;
            let name = types.first().map_or_else(|| "unknown".into(), Ty::name);
            let name = crate::types::literal(&keyspan_model::Value::Text(name), ColumnType::Text)?;
            return match args.into_iter().next() {
                // The query still has one row for each group.
                Some(arg) if arg.exists(|part| Ok(is_over_rows(part)))? => {
                    datafusion::logical_expr::when(arg.is_null(), name.clone()).otherwise(name)
                }
                _ => Ok(name),
            };
        }
        "concat" | "concat_ws" | "format" => {
            let types = types_of(&args, schema)?;
            // These print a boolean as `t`, where a cast to text gives `true`.
            let texts = args.into_iter().zip(&types).map(|(arg, ty)| match ty {
                Ty::Known(ColumnType::Boolean) => value_call("boolean_output", vec![arg], &[ColumnType::Boolean]),
                ty => implicit(arg, ty, ColumnType::Text),
            });
            let texts = texts.collect::<Result<Vec<_>>>()?;
            let wanted = vec![ColumnType::Text; texts.len()];
            return value_call(&name, texts, &wanted);
        }
        _ => {}
    }
    let args = match name.as_str() {
        "overlaps" => ends_of_spans(args, schema)?,
        name if functions::json::takes_any(name) => json_of_others(name, args, schema)?,
        name if functions::json::takes_path(name) => path_as_text(args, schema)?,
        _ => args,
    };
    let mut types = types_of(&args, schema)?;
    // A literal inside of another one is the JSON that it is.
    if is_nested_literal(&name) {
        for (arg, ty) in args.iter().zip(&mut types) {
            if matches!(arg, Expr::ScalarFunction(call) if is_nested_literal(call.func.name())) {
                *ty = Ty::Known(ColumnType::Json);
            }
        }
    }
    let Some(overloads) = builtins::overloads(&name) else {
        if functions::is_missing(&func) {
            return missing(&name, &types);
        }
        return plain(ScalarFunction { func, args }, &types);
    };
    match resolve(overloads, &types) {
        Some((overload, wanted)) => {
            let args = args.into_iter().zip(&types).zip(&wanted).map(|((arg, from), to)| match to {
                Some(to) => implicit(arg, from, *to),
                None => Ok(arg),
            });
            let args = args.collect::<Result<Vec<_>>>()?;
            let wanted: Vec<ColumnType> = wanted.iter().map(|ty| ty.unwrap_or(ColumnType::Text)).collect();
            match overload.native {
                true => Ok(Expr::ScalarFunction(ScalarFunction { func, args })),
                false => {
                    let result = shown_scale(&name, &args, &wanted);
                    Ok(functions::call_overload(overload, args, &wanted, result))
                }
            }
        }
        None => missing(&name, &types),
    }
}

/// The type that a number gets beside another one, where no operator compares the two as they are: `nullif(1, 2.0)` is a
/// numeric in PostgreSQL, since that is what it has compared.
fn compared_as(own: ColumnType, other: ColumnType) -> Option<ColumnType> {
    use ColumnType as C;
    let whole = |ty| matches!(ty, C::TinyInt | C::SmallInt | C::Int | C::BigInt);
    let float = |ty| matches!(ty, C::Real | C::Double);
    match (own, other) {
        (own, C::Decimal { .. }) if whole(own) => Some(C::Decimal { precision: 38, scale: 0 }),
        (own, other) if float(other) && (whole(own) || matches!(own, C::Decimal { .. })) => Some(C::Double),
        _ => None,
    }
}

/// The ends of OVERLAPS: the second one of a span may be given as its length.
fn ends_of_spans(mut args: Vec<Expr>, schema: &DFSchema) -> Result<Vec<Expr>> {
    for place in (1..args.len()).step_by(2) {
        if type_of(&args[place], schema)? == Ty::Known(ColumnType::Duration) {
            let (begin, length) = (args[place - 1].clone(), args[place].clone());
            let end = super::operator::binary(&ast::BinaryOperator::Plus, begin, length, schema)?;
            args[place] = end.map_or_else(|| missing("overlaps", &types_of(&args, schema)?), Ok)?;
        }
    }
    Ok(args)
}

/// Lists and rows as JSON, for functions that take values of any type as JSON.
fn json_of_others(name: &str, args: Vec<Expr>, schema: &DFSchema) -> Result<Vec<Expr>> {
    use functions::json::{ELEMENT, OF_ITEM, OF_VALUE, OF_VALUE_CQL, TO_CQL_JSON};
    let function = match name {
        ELEMENT => OF_ITEM,
        TO_CQL_JSON => OF_VALUE_CQL,
        _ => OF_VALUE,
    };
    let types = types_of(&args, schema)?;
    let each = args.into_iter().zip(&types).map(|(arg, ty)| match ty.is_nested() {
        true => super::nested::json_of(function, arg),
        false => arg,
    });
    Ok(each.collect())
}

/// The second argument of a function that takes a path, where it is an array.
fn path_as_text(mut args: Vec<Expr>, schema: &DFSchema) -> Result<Vec<Expr>> {
    if let Some(path) = args.get_mut(1)
        && let ty = type_of(path, schema)?
        && ty.known().is_some_and(|ty| ty.element().is_some())
    {
        *path = implicit(path.clone(), &ty, ColumnType::Text)?;
    }
    Ok(args)
}

/// Results whose digits after the point a literal argument decides: `round(x, 2)`, `extract(year from x)`.
fn shown_scale(name: &str, args: &[Expr], types: &[ColumnType]) -> Option<ColumnType> {
    match (name, args) {
        ("round" | "trunc", [_, Expr::Literal(ScalarValue::Int32(Some(places)), _)]) => {
            let places = i8::try_from((*places).clamp(0, 37)).ok()?;
            Some(decimal(places))
        }
        ("extract", [unit, _]) => {
            let scale = match crate::types::literal_text(unit)? {
                "epoch" if types.get(1) == Some(&ColumnType::Date) => 0,
                "second" | "seconds" | "epoch" | "julian" => 6,
                "millisecond" | "milliseconds" => 3,
                _ => 0,
            };
            Some(decimal(scale))
        }
        _ => None,
    }
}

fn typed_null(like: &Expr, schema: &DFSchema) -> Result<Expr> {
    use datafusion::logical_expr::ExprSchemable;
    Ok(Expr::Literal(ScalarValue::try_from(&like.get_type(schema)?)?, None))
}

/// A function of DataFusion's that nothing is known about: bare literals are texts.
fn plain(function: ScalarFunction, types: &[Ty]) -> Result<Expr> {
    let ScalarFunction { func, args } = function;
    let args = args.into_iter().zip(types).map(|(arg, ty)| match (&arg, ty) {
        (Expr::Placeholder(_), Ty::Unknown) => implicit(arg, ty, ColumnType::Text),
        _ => Ok(arg),
    });
    Ok(Expr::ScalarFunction(ScalarFunction { func, args: args.collect::<Result<Vec<_>>>()? }))
}

type Wanted = Vec<Option<ColumnType>>;

/// The overload that fits best: most arguments of exactly its types, then the preferred types.
fn resolve<'a>(overloads: &'a [Overload], types: &[Ty]) -> Option<(&'a Overload, Wanted)> {
    let mut best: Option<(u32, &Overload, Wanted)> = None;
    for overload in overloads {
        let Some((cost, wanted)) = fits(overload, types) else { continue };
        if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
            best = Some((cost, overload, wanted));
        }
    }
    best.map(|(_, overload, wanted)| (overload, wanted))
}

fn fits(overload: &Overload, types: &[Ty]) -> Option<(u32, Wanted)> {
    let fixed = overload.parameters.len();
    if types.len() != fixed && !(overload.variadic && types.len() + 1 >= fixed) {
        return None;
    }
    let element = if is_of_arrays(overload) { Some(common_element(overload, types)?) } else { None };
    let mut cost = 0;
    let mut wanted = Vec::with_capacity(types.len());
    for (index, ty) in types.iter().enumerate() {
        let parameter = overload.parameters.get(index).or(overload.parameters.last())?;
        let (each, to) = match (parameter, element) {
            (Parameter::Array, Some(element)) => (1, Some(ColumnType::list(element))),
            (Parameter::Element, Some(element)) => (1, Some(element)),
            _ => fit(*parameter, ty)?,
        };
        cost += each;
        wanted.push(to);
    }
    Some((cost, wanted))
}

fn is_of_arrays(overload: &Overload) -> bool {
    overload.parameters.iter().any(|parameter| matches!(parameter, Parameter::Array | Parameter::Element))
}

/// The type of the elements of all arrays, to which every element goes without a cast being written; none if there is
/// none, or what should be an array is not.
fn common_element(overload: &Overload, types: &[Ty]) -> Option<ColumnType> {
    let mut common: Option<ColumnType> = None;
    for (index, ty) in types.iter().enumerate() {
        let parameter = overload.parameters.get(index).or(overload.parameters.last())?;
        let own = match (parameter, ty) {
            (Parameter::Array, Ty::Known(list)) => list.element()?,
            // `int2vector`, which only system tables have.
            (Parameter::Array, Ty::Other(list)) => ColumnType::of_arrow(list)?.element()?,
            (Parameter::Element, Ty::Known(ty)) => *ty,
            (Parameter::Element, Ty::Other(_)) => return None,
            _ => continue,
        };
        common = Some(common.map_or(Some(own), |before| common_type(before, own))?);
    }
    Some(common.unwrap_or(ColumnType::Text))
}

/// How well an argument fits a parameter (0: exactly), and what it is cast to.
fn fit(parameter: Parameter, ty: &Ty) -> Option<(u32, Option<ColumnType>)> {
    match (parameter, ty) {
        (Parameter::Any, Ty::Unknown) => Some((1, Some(ColumnType::Text))),
        (Parameter::Any, Ty::Known(ty)) => Some((1, Some(*ty))),
        (Parameter::Any, Ty::Other(_)) => Some((1, None)),
        (Parameter::Is(to), Ty::Unknown) => {
            // Among several, Postgres prefers text for a bare literal, then the widest number.
            let cost = match to {
                ColumnType::Text => 1,
                ColumnType::Timestamp | ColumnType::Double => 2,
                _ => 3,
            };
            Some((cost, Some(to)))
        }
        (Parameter::Numeric, Ty::Unknown) => Some((3, Some(decimal(10)))),
        (Parameter::Numeric, Ty::Known(from)) => match from {
            ColumnType::Decimal { .. } => Some((0, Some(*from))),
            ColumnType::VarInt => Some((0, Some(decimal(0)))),
            from if number_rank(*from)? <= 4 => Some((4, Some(decimal(0)))),
            _ => None,
        },
        (Parameter::Is(to), Ty::Known(from)) if *from == to => Some((0, Some(to))),
        (Parameter::Is(to), Ty::Known(from)) => {
            // Implicit casts go up only.
            (compared_type(*from, to) == Some(to)).then(|| {
                let up = match (number_rank(*from), number_rank(to)) {
                    (Some(from), Some(to)) if to == 8 && from < 7 => 3,
                    (Some(from), Some(to)) => u32::from(to.saturating_sub(from)).min(2),
                    _ => 2,
                };
                (up, Some(to))
            })
        }
        (Parameter::Array | Parameter::Element, _) | (_, Ty::Other(_)) => None,
    }
}

/// An aggregate's arguments as Postgres takes them.
pub fn aggregate(mut function: AggregateFunction, schema: &DFSchema) -> Result<Expr> {
    function = series::resolved(function, schema)?;
    let name = function.func.name().to_owned();
    let distinct = if function.params.distinct { order_of_distinct(&name, &mut function)? } else { None };
    if let Some(filter) = &function.params.filter {
        function.params.args = function.params.args.into_iter().map(|arg| only_where(filter, arg)).collect();
    }
    if function.params.distinct {
        let args = std::mem::take(&mut function.params.args).into_iter();
        function.params.args = args.map(|arg| super::alike::canonical(arg, schema)).collect::<Result<_>>()?;
    }
    let mut types = types_of(&function.params.args, schema)?;
    if let ("array_agg", [Ty::Known(ty)]) = (name.as_str(), types.as_slice())
        && ty.is_packed()
    {
        // An array of nested values is an array of jsonb.
        let args = std::mem::take(&mut function.params.args);
        function.params.args =
            args.into_iter().map(|arg| argument(arg, *ty, ColumnType::Jsonb)).collect::<Result<_>>()?;
        types = vec![Ty::Known(ColumnType::Jsonb)];
    }
    if let ("count", true, [Ty::Other(row)]) = (name.as_str(), function.params.distinct, types.as_slice())
        && has_key(row)
    {
        let rows = std::mem::take(&mut function.params.args);
        function.params.args = vec![Expr::ScalarFunction(ScalarFunction::new_udf(list_function(ROW_KEY), rows))];
        return Ok(Expr::AggregateFunction(function));
    }
    if name == "avg"
        && let [Ty::Known(ty)] = types.as_slice()
        && (number_rank(*ty).is_some_and(|rank| rank <= 6) || *ty == ColumnType::Duration)
    {
        return average(function, *ty);
    }
    if let [Ty::Known(ty)] = types.as_slice()
        && let Some((exact, wanted)) = of_exact(&name, *ty)
    {
        let args = std::mem::take(&mut function.params.args).into_iter();
        function.params.args = args.map(|arg| argument(arg, *ty, wanted)).collect::<Result<_>>()?;
        function.func = exact;
        return Ok(Expr::AggregateFunction(function));
    }
    if let [Ty::Known(ty)] = types.as_slice()
        && let Some(extreme) = functions::extreme::of_type(&name, *ty)
    {
        function.func = extreme;
    }
    function.params.order_by = order::sortable(std::mem::take(&mut function.params.order_by), schema)?;
    if let Some((form, ty)) = order::extreme(&name, &function.params.args, &types)? {
        function.params.args = vec![form];
        return order::restored(Expr::AggregateFunction(function), ty);
    }
    function.params.args = arguments(&name, std::mem::take(&mut function.params.args), &types)?;
    match distinct {
        Some(order) => list_of_distinct(function, &name, &types, order, schema),
        None => Ok(with_result_type(Expr::AggregateFunction(function), &name, &types)),
    }
}

/// Distinct values come in order, by default that of the values; `None` for other aggregates than those to which it
/// matters. 42P10 for an order by anything else.
fn order_of_distinct(name: &str, function: &mut AggregateFunction) -> Result<Option<SortExpr>> {
    if !matches!(name, "array_agg" | "string_agg") {
        return Ok(None);
    }
    let params = &mut function.params;
    if name == "string_agg" && params.args.get(1).is_some_and(|separator| separator.any_column_refs()) {
        return fail(Error::not_supported("string_agg(DISTINCT …) with a separator of each row is not supported"));
    }
    let given = std::mem::take(&mut params.order_by);
    if given.iter().any(|sort| !params.args.contains(&sort.expr)) {
        let message = "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
        return fail(Error::new(ErrorKind::InvalidColumnReference, message));
    }
    let first = params.args.first();
    let by_value = given.into_iter().find(|sort| Some(&sort.expr) == first);
    Ok(by_value.or_else(|| Some(SortExpr::new(first?.clone(), true, false))))
}

/// `array_agg` and `string_agg` of distinct values: the list of them, brought to its order.
fn list_of_distinct(
    mut function: AggregateFunction,
    name: &str,
    types: &[Ty],
    order: SortExpr,
    schema: &DFSchema,
) -> Result<Expr> {
    let separator = match (name, function.params.args.len()) {
        ("string_agg", 2) => function.params.args.pop(),
        _ => None,
    };
    function.func = functions::array_agg();
    let list = with_result_type(Expr::AggregateFunction(function), "array_agg", types);
    let Ty::Known(ty @ ColumnType::List(_)) = type_of(&list, schema)? else { return Ok(list) };
    let flags = [!order.asc, order.nulls_first].map(lit).to_vec();
    let args = [vec![list], flags].concat();
    let sorted = value_call(SORTED, args, &[ty, ColumnType::Boolean, ColumnType::Boolean])?;
    match separator {
        Some(separator) => value_call(JOINED, vec![sorted, separator], &[ty, ColumnType::Text]),
        None => Ok(sorted),
    }
}

/// The argument computed for rows that pass the filter, and for no others: it may fail for those.
fn only_where(filter: &Expr, arg: Expr) -> Expr {
    match arg {
        arg @ (Expr::BinaryExpr(_) | Expr::ScalarFunction(_) | Expr::Cast(_)) => {
            let case = (Box::new(filter.clone()), Box::new(arg));
            Expr::Case(Case { expr: None, when_then_expr: vec![case], else_expr: None })
        }
        arg => arg,
    }
}

/// A window call's arguments as Postgres takes them.
pub fn window(mut function: WindowFunction, schema: &DFSchema) -> Result<Expr> {
    let name = function.fun.name().to_owned();
    series::refuse_window(&name)?;
    let types = types_of(&function.params.args, schema)?;
    let parts = std::mem::take(&mut function.params.partition_by).into_iter();
    function.params.partition_by = parts.map(|part| super::alike::canonical(part, schema)).collect::<Result<_>>()?;
    function.params.order_by = order::sortable(std::mem::take(&mut function.params.order_by), schema)?;
    function.params.window_frame =
        frame::of_order(function.params.window_frame, &mut function.params.order_by, schema)?;
    let args = std::mem::take(&mut function.params.args);
    if let Some((form, ty)) = order::extreme(&name, &args, &types)? {
        function.params.args = vec![form];
        return order::restored(Expr::WindowFunction(Box::new(function)), ty);
    }
    if name == "avg"
        && let ([Ty::Known(ty)], [arg]) = (types.as_slice(), args.as_slice())
        && (number_rank(*ty).is_some_and(|rank| rank <= 6) || *ty == ColumnType::Duration)
    {
        function.params.args = vec![argument(arg.clone(), *ty, total_type(*ty))?];
        let mut counted = function.clone();
        function.fun = WindowFunctionDefinition::AggregateUDF(total(*ty));
        counted.fun = WindowFunctionDefinition::AggregateUDF(functions::count());
        let (total, rows) = (Expr::WindowFunction(Box::new(function)), Expr::WindowFunction(Box::new(counted)));
        return quotient(total, rows, *ty);
    }
    if let ([Ty::Known(ty)], [arg]) = (types.as_slice(), args.as_slice())
        && let Some((exact, wanted)) = of_exact(&name, *ty)
    {
        function.params.args = vec![argument(arg.clone(), *ty, wanted)?];
        function.fun = WindowFunctionDefinition::AggregateUDF(exact);
        return Ok(Expr::WindowFunction(Box::new(function)));
    }
    if let [Ty::Known(ty @ ColumnType::Duration)] = types.as_slice()
        && let Some(extreme) = functions::extreme::of_type(&name, *ty)
    {
        function.fun = WindowFunctionDefinition::AggregateUDF(extreme);
    }
    function.params.args = arguments(&name, args, &types)?;
    let moves = !function.params.window_frame.start_bound.is_unbounded();
    let argument_types = types_of(&function.params.args, schema)?;
    let of_floats = matches!(argument_types.as_slice(), [Ty::Known(ColumnType::Double | ColumnType::Real)]);
    if moves
        && of_floats
        && !function.params.distinct
        && let Some(moving) = functions::moving::of_floats(&name)
    {
        function.fun = WindowFunctionDefinition::AggregateUDF(moving);
    }
    if let WindowFunctionDefinition::AggregateUDF(aggregate) = &function.fun
        && let Some(refolded) = match moves {
            true => functions::refold::over_moving_frame(aggregate),
            false => functions::refold::over_growing_frame(aggregate, of_floats),
        }
    {
        function.fun = WindowFunctionDefinition::AggregateUDF(refolded);
    }
    if let Some(shift) = functions::shift::by_columns(&name, &function.params.args) {
        function.fun = WindowFunctionDefinition::WindowUDF(shift);
    }
    Ok(with_result_type(Expr::WindowFunction(Box::new(function)), &name, &types))
}

/// Row numbers and ranks are `bigint`, the sum of `real` is `real`, and an array has elements of the type it is made of.
fn with_result_type(expr: Expr, name: &str, types: &[Ty]) -> Expr {
    match name {
        "array_agg" => {
            let element = types.first().and_then(Ty::known).filter(|ty| ty.element().is_none());
            functions::retyped(expr, element.map(ColumnType::list))
        }
        "sum" if types == [Ty::Known(ColumnType::Real)] => Expr::Cast(Cast::new(Box::new(expr), DataType::Float32)),
        "row_number" | "rank" | "dense_rank" => Expr::Cast(Cast::new(Box::new(expr), DataType::Int64)),
        "ntile" => Expr::Cast(Cast::new(Box::new(expr), DataType::Int32)),
        _ => expr,
    }
}

/// Aggregates that are computed otherwise of exact numbers and of intervals, and the type of their argument.
fn of_exact(name: &str, ty: ColumnType) -> Option<(Arc<AggregateUDF>, ColumnType)> {
    match (name, ty) {
        ("sum", ColumnType::Duration) => Some((total(ty), ty)),
        _ => functions::variance::of_exact(name, ty),
    }
}

/// `sum` of this type.
fn total(ty: ColumnType) -> Arc<AggregateUDF> {
    if ty == ColumnType::Duration { functions::interval_sum::sum_of_intervals() } else { functions::sum() }
}

fn total_type(ty: ColumnType) -> ColumnType {
    match ty {
        ColumnType::Duration => ty,
        ColumnType::Decimal { scale, .. } => decimal(scale),
        _ => decimal(0),
    }
}

/// `avg` of exact numbers is their sum by their count, as numeric; that of intervals is an interval.
fn average(mut function: AggregateFunction, ty: ColumnType) -> Result<Expr> {
    let args = std::mem::take(&mut function.params.args);
    let cast = |arg: Expr| argument(arg, ty, total_type(ty));
    function.params.args = args.into_iter().map(cast).collect::<Result<_>>()?;
    let mut counted = function.clone();
    function.func = total(ty);
    counted.func = functions::count();
    quotient(Expr::AggregateFunction(function), Expr::AggregateFunction(counted), ty)
}

fn quotient(total: Expr, rows: Expr, ty: ColumnType) -> Result<Expr> {
    if ty == ColumnType::Duration {
        let rows = implicit(rows, &Ty::Known(ColumnType::BigInt), ColumnType::Double)?;
        return value_call("interval_divide", vec![total, rows], &[ty, ColumnType::Double]);
    }
    let scale = scale_of(ty);
    let rows = implicit(rows, &Ty::Known(ColumnType::BigInt), decimal(0))?;
    // Of no rows the sum is null, so the quotient is null and not a division by zero.
    calculated(Op::Divide, total, rows, decimal(scale.max(16)))
}

fn arguments(name: &str, args: Vec<Expr>, types: &[Ty]) -> Result<Vec<Expr>> {
    if let Some(arguments) = series::arguments(name, &args, types) {
        return arguments;
    }
    let first = types.first().cloned();
    let number = first.as_ref().and_then(Ty::known).and_then(number_rank);
    let pairs = args.into_iter().zip(types);
    let all = |pairs: std::iter::Zip<std::vec::IntoIter<Expr>, std::slice::Iter<'_, Ty>>, to: ColumnType| {
        let cast = |(arg, ty): (Expr, &Ty)| match ty {
            Ty::Known(from) => argument(arg, *from, to),
            ty => implicit(arg, ty, to),
        };
        pairs.map(cast).collect::<Result<Vec<_>>>()
    };
    match name {
        "sum" => match (number, first) {
            (Some(4), _) => all(pairs, decimal(0)),
            (Some(_), _) => Ok(pairs.map(|(arg, _)| arg).collect()),
            _ => missing(name, types),
        },
        "avg" => match number {
            Some(_) => all(pairs, ColumnType::Double),
            None => missing(name, types),
        },
        name if is_of_pairs(name)
            || matches!(
                name,
                "stddev" | "stddev_pop" | "stddev_samp" | "var" | "var_pop" | "var_samp" | "variance" | "median"
            ) =>
        {
            match (number, first) {
                (Some(_), _) | (None, Some(Ty::Unknown)) => all(pairs, ColumnType::Double),
                _ => missing(name, types),
            }
        }
        "string_agg" => match types {
            [Ty::Known(ColumnType::Text | ColumnType::Ascii) | Ty::Unknown, _] => {
                Ok(pairs.map(|(arg, _)| bare(arg)).collect())
            }
            _ => missing(name, types),
        },
        "bool_and" | "bool_or" => match types {
            [Ty::Known(ColumnType::Boolean) | Ty::Unknown] => all(pairs, ColumnType::Boolean),
            _ => missing(name, types),
        },
        "percentile_cont" | "approx_percentile_cont" | "approx_percentile_cont_with_weight" | "quantile_cont" => {
            all(pairs, ColumnType::Double)
        }
        // The default takes the value's type, or both their common one.
        "lag" | "lead" if types.len() == 3 && types[0] != types[2] => {
            let common = match (types[0].known(), types[2].known()) {
                (Some(value), Some(default)) => common_type(value, default),
                (value, default) => value.or(default),
            };
            let Some(common) = common else { return missing(name, types) };
            let wanted = [common, ColumnType::BigInt, common];
            pairs.zip(wanted).map(|((arg, from), to)| implicit(arg, from, to)).collect()
        }
        "ntile" | "lag" | "lead" | "nth_value" => {
            let widen = |(index, (arg, ty)): (usize, (Expr, &Ty))| match ty {
                Ty::Known(ColumnType::Int | ColumnType::SmallInt) if (index == 1) != (name == "ntile") => {
                    implicit(arg, ty, ColumnType::BigInt)
                }
                _ => Ok(arg),
            };
            pairs.enumerate().map(widen).collect()
        }
        _ => Ok(pairs.map(|(arg, ty)| if *ty == Ty::Unknown { bare(arg) } else { arg }).collect()),
    }
}

/// A parameter of an aggregate that nothing gives a type to is text.
fn bare(arg: Expr) -> Expr {
    match &arg {
        Expr::Placeholder(placeholder) if placeholder.field.is_none() => {
            crate::types::typed_parameter(placeholder, ColumnType::Text)
        }
        // DataFusion asks for a plain literal here.
        Expr::Literal(scalar, Some(_)) => Expr::Literal(scalar.clone(), None),
        _ => arg,
    }
}
