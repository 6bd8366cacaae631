//! Marks in a statement's tree the places where types decide, so that the planner of operators is asked there.
//!
//! DataFusion asks [`super::planner`] about binary operators only, with both sides already planned. So everything else
//! whose meaning depends on types (a literal, a cast, a call, CASE, IN, BETWEEN, LIKE) is made the left side of an
//! operator of our own, `x OPERATOR(keyspan.kind.detail) NULL`, and is put right there, from the leaves up. What has a
//! syntax of its own (`EXTRACT`, `SUBSTRING … FROM`, `AT TIME ZONE`) becomes a call.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, ArrayElemTypeDef, BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, GroupByExpr, Ident, ObjectName, Query, Select, SetExpr, TrimWhereField,
    UnaryOperator, Value, VisitorMut, WindowType,
};
use keyspan_model::{ColumnType, Error, ErrorKind, Result};

use super::frame;
use super::ordered_set;
use super::outer::OuterNames;
use super::window_names::WindowNames;
use crate::functions::array::{COMPARE_ALL, COMPARE_ANY};
use crate::functions::json::{ELEMENT, ELEMENTS_OF_LIST};
use crate::functions::pattern::{LIKE_ESCAPE, escaped_by_backslash};
use crate::syntax::{self, is_comparison, row_of};
use crate::types::cast::Target;
use crate::types::common_type;

/// First part of the names of our own operators.
const OWN: &str = "keyspan";

/// A mark: what kind of place this is, and its detail.
pub struct Mark<'a> {
    /// `number`, `negate`, `cast`, `interval`, `term`, `merged` or `after`.
    pub kind: &'a str,
    /// Digits, type name or unit.
    pub detail: &'a str,
}

/// A column of a recursive term, whose type is looked at before it is cast.
pub fn term_marked(expr: Expr) -> Expr {
    marked(Expr::Nested(Box::new(expr)), "term", "")
}

/// A merged column of a join: `left`, `right` or both in this order, as the type that both sides take.
pub fn merged(left: Expr, right: Expr, keeps: &str) -> Expr {
    let op = BinaryOperator::PGCustomBinaryOperator(vec![OWN.into(), "merged".into(), keeps.into()]);
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// The mark that an operator is, if it is one.
pub fn mark_of(op: &BinaryOperator) -> Option<Mark<'_>> {
    let BinaryOperator::PGCustomBinaryOperator(parts) = op else { return None };
    match parts.as_slice() {
        [own, kind, detail] if own == OWN => Some(Mark { kind, detail }),
        _ => None,
    }
}

fn marked(expr: Expr, kind: &str, detail: impl Into<String>) -> Expr {
    let op = BinaryOperator::PGCustomBinaryOperator(vec![OWN.into(), kind.into(), detail.into()]);
    Expr::BinaryOp { left: Box::new(expr), op, right: Box::new(null()) }
}

fn flow(result: Result<(), Error>) -> ControlFlow<Error> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

/// Joins have a condition: only CROSS JOIN and the comma have none.
fn check_joins<'a>(joins: impl IntoIterator<Item = &'a ast::Join>) -> Result<(), Error> {
    use ast::{JoinConstraint, JoinOperator as J};
    for join in joins {
        let (J::Join(constraint)
        | J::Inner(constraint)
        | J::Left(constraint)
        | J::LeftOuter(constraint)
        | J::Right(constraint)
        | J::RightOuter(constraint)
        | J::FullOuter(constraint)) = &join.join_operator
        else {
            continue;
        };
        if matches!(constraint, JoinConstraint::None) && !join.global {
            let error = Error::new(ErrorKind::Syntax, "syntax error: JOIN without ON or USING");
            return Err(error.with_hint("CROSS JOIN is without a condition."));
        }
    }
    Ok(())
}

/// Words that begin the next clause, which the parser takes for a table's name where that is missing.
fn is_reserved(word: &str) -> bool {
    let words = ["where", "group", "order", "having", "limit", "offset", "union", "on", "using", "select", "from"];
    words.iter().any(|each| each.eq_ignore_ascii_case(word))
}

fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

fn text(value: impl Into<String>) -> Expr {
    Expr::Value(Value::SingleQuotedString(value.into()).into())
}

/// The digits of a marked number.
fn number_of(expr: &Expr) -> Option<&str> {
    if let Expr::Nested(inner) = expr {
        return number_of(inner);
    }
    let Expr::BinaryOp { op, .. } = expr else { return None };
    mark_of(op).filter(|mark| mark.kind == "number").map(|mark| mark.detail)
}

/// A number where SQL wants a bare one (`ORDER BY 1`, `ROWS 5 PRECEDING`) without its mark.
pub fn unmark(expr: &mut Expr) {
    if matches!(expr, Expr::Nested(_)) {
        return;
    }
    if let Some(digits) = number_of(expr) {
        *expr = Expr::Value(Value::Number(digits.to_owned(), false).into());
    }
}

/// A call by name, marked: its function is chosen when the types of its arguments are known.
fn call(name: &str, args: Vec<Expr>) -> Expr {
    marked(syntax::call(name, args), "after", "")
}

/// The visitor that sets the marks. On its way it qualifies names of enclosing queries and replaces those of windows.
#[derive(Default)]
pub struct Marker {
    outer: OuterNames,
    windows: WindowNames,
}

impl VisitorMut for Marker {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        self.outer.enter(query);
        self.windows.enter();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        let joins = select.from.iter().flat_map(|table| &table.joins);
        flow(check_joins(joins).and_then(|()| self.windows.define(select)))
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        sign_first(expr);
        match row_comparison(expr) {
            Ok(Some(expanded)) => *expr = expanded,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        if let Some(cut) = cast_to_field(expr) {
            *expr = cut;
        }
        if let Some(spread) = cast_of_each(expr) {
            *expr = spread;
        }
        if let Err(error) = escape_by_backslash(expr).and_then(|()| self.windows.resolve(expr)) {
            return ControlFlow::Break(error);
        }
        super::access::fields(expr);
        if let Expr::Interval(interval) = expr {
            let fields = interval.leading_field.iter().chain(&interval.last_field).map(ToString::to_string);
            let fields = fields.collect::<Vec<_>>().join(" ").to_lowercase();
            *expr = marked(std::mem::replace(interval.value.as_mut(), null()), "interval", fields);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut ast::TableFactor) -> ControlFlow<Error> {
        if let ast::TableFactor::Table { name, .. } = factor
            && let [part] = name.0.as_slice()
        {
            let reserved = part.as_ident().filter(|name| name.quote_style.is_none() && is_reserved(&name.value));
            if let Some(name) = reserved {
                let message = format!("syntax error at or near \"{}\"", name.value);
                return ControlFlow::Break(Error::new(ErrorKind::Syntax, message));
            }
        }
        match factor {
            ast::TableFactor::NestedJoin { table_with_joins, .. } => flow(check_joins(&table_with_joins.joins)),
            _ => ControlFlow::Continue(()),
        }
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        self.outer.qualify(expr);
        let own = std::mem::replace(expr, null());
        match place(own) {
            Ok(placed) => {
                *expr = placed;
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        self.outer.leave();
        self.windows.leave();
        if let SetExpr::Values(values) = query.body.as_mut() {
            columns_of_values(values);
        }
        if let Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(orders), .. }) = &mut query.order_by {
            orders.iter_mut().for_each(|order| unmark(&mut order.expr));
        }
        limits(query);
        let mut bodies = vec![query.body.as_mut()];
        while let Some(body) = bodies.pop() {
            match body {
                SetExpr::Select(select) => positions(select),
                SetExpr::SetOperation { left, right, .. } => bodies.extend([left.as_mut(), right.as_mut()]),
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }
}

/// `-x ^ 2` is `(-x) ^ 2`, as in PostgreSQL: signs go before powers, and powers from the left.
fn sign_first(expr: &mut Expr) {
    let is_sign = |op: &UnaryOperator| matches!(op, UnaryOperator::Minus | UnaryOperator::Plus);
    let may_be = match expr {
        Expr::UnaryOp { op, expr } => is_sign(op) && !matches!(expr.as_ref(), Expr::Value(_)),
        Expr::BinaryOp { op: BinaryOperator::PGExp, .. } => true,
        _ => false,
    };
    if may_be {
        let mut operands = Vec::new();
        powers(std::mem::replace(expr, null()), &mut operands);
        let power = |left: Expr, right: Expr| {
            let (left, right) = (Box::new(left), Box::new(right));
            Expr::BinaryOp { left, op: BinaryOperator::PGExp, right }
        };
        *expr = operands.into_iter().reduce(power).unwrap_or_else(null);
    }
}

/// The operands of a chain of powers, each with its signs.
fn powers(expr: Expr, operands: &mut Vec<Expr>) {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::PGExp, right } => {
            powers(*left, operands);
            powers(*right, operands);
        }
        Expr::UnaryOp { op: op @ (UnaryOperator::Minus | UnaryOperator::Plus), expr } => {
            let first = operands.len();
            powers(*expr, operands);
            let signed = std::mem::replace(&mut operands[first], null());
            operands[first] = Expr::UnaryOp { op, expr: Box::new(signed) };
        }
        other => operands.push(other),
    }
}

/// In a column of VALUES, bare literals and parameters take the type that another row is cast to or whose number it has.
fn columns_of_values(values: &mut ast::Values) {
    let columns = values.rows.first().map_or(0, |row| row.len());
    for column in 0..columns {
        one_type_of_time(values, column);
        let cells = values.rows.iter().filter_map(|row| row.get(column));
        let Some(ty) = cells.filter_map(type_of_cell).reduce(wider) else { continue };
        for row in &mut values.rows {
            let Some(cell) = row.get_mut(column) else { continue };
            let bare = matches!(cell, Expr::Value(value) if !matches!(value.value, Value::Boolean(_)));
            // Beside a float, a number is a float, too.
            let float = number_of(cell).is_some() && is_float(&ty);
            if bare || float {
                let own = std::mem::replace(cell, null());
                *cell = marked(own, "cast", ty.clone());
            }
        }
    }
}

/// Dates and times of several types in one column become those of the one that all of them can be, in the session's zone.
fn one_type_of_time(values: &mut ast::Values, column: usize) {
    let type_of = |cell: &Expr| {
        let ty = Target::parse(&type_of_cell(cell)?).ok()?.ty;
        matches!(ty, ColumnType::Date | ColumnType::Timestamp | ColumnType::LocalTimestamp).then_some(ty)
    };
    let cells = values.rows.iter().filter_map(|row| type_of(row.get(column)?));
    let Some(common) = cells.reduce(|a, b| common_type(a, b).unwrap_or(a)) else { return };
    let name = match common {
        ColumnType::Timestamp => "timestamptz",
        ColumnType::LocalTimestamp => "timestamp without time zone",
        _ => return,
    };
    for cell in values.rows.iter_mut().filter_map(|row| row.get_mut(column)) {
        if type_of(cell).is_some_and(|ty| ty != common) {
            let own = std::mem::replace(cell, null());
            *cell = marked(own, "cast", name);
        }
    }
}

fn is_float(ty: &str) -> bool {
    let ty = ty.to_lowercase();
    ty == "real" || ty.contains("double") || ty.contains("float")
}

fn type_of_cell(cell: &Expr) -> Option<String> {
    if matches!(cell, Expr::Value(value) if matches!(value.value, Value::Boolean(_))) {
        return Some("boolean".into());
    }
    let Expr::BinaryOp { op, .. } = cell else { return None };
    let mark = mark_of(op)?;
    match mark.kind {
        "cast" => Some(without_length(mark.detail).to_owned()),
        "interval" => Some("interval".into()),
        "number" if mark.detail.contains(['.', 'e', 'E']) => Some("numeric".into()),
        "number" if mark.detail.parse::<i32>().is_ok() => Some("int".into()),
        "number" => Some("bigint".into()),
        _ => None,
    }
}

/// A text's length and a time's digits are those of the one row that says them; a vector's are part of its type.
fn without_length(ty: &str) -> &str {
    match ty.split_once('(') {
        Some((name, rest)) if name.trim() != "vector" && !rest.contains(',') && rest.ends_with(')') => name.trim(),
        _ => ty,
    }
}

/// Of two number types by which literals are read, the wider; a written cast goes before both.
fn wider(a: String, b: String) -> String {
    let rank = |ty: &str| ["int", "bigint", "numeric"].iter().position(|each| *each == ty);
    match (rank(&a), rank(&b)) {
        (Some(first), Some(second)) if second > first => b,
        (Some(_), None) => b,
        _ => a,
    }
}

/// LIMIT and OFFSET are `bigint`: 2.5 is 3, as when it is assigned to such a column.
fn limits(query: &mut Query) {
    let bigint = |expr: &mut Expr| {
        // With its mark 2.5 is a numeric, without it a float.
        let typed = expr.clone();
        unmark(expr);
        let rows = match expr {
            Expr::Value(value) => match &value.value {
                Value::Null => return,
                Value::Number(digits, _) if digits.bytes().all(|digit| digit.is_ascii_digit()) => return,
                Value::Number(..) => typed,
                _ => expr.clone(),
            },
            _ => typed,
        };
        *expr = marked(rows, "cast", "bigint");
    };
    match &mut query.limit_clause {
        Some(ast::LimitClause::LimitOffset { limit, offset, .. }) => {
            limit.iter_mut().for_each(bigint);
            offset.iter_mut().for_each(|offset| bigint(&mut offset.value));
        }
        Some(ast::LimitClause::OffsetCommaLimit { offset, limit }) => [offset, limit].into_iter().for_each(bigint),
        None => {}
    }
    if let Some(quantity) = query.fetch.as_mut().and_then(|fetch| fetch.quantity.as_mut()) {
        bigint(quantity);
    }
}

/// GROUP BY and DISTINCT ON take positions.
fn positions(select: &mut Select) {
    if let GroupByExpr::Expressions(exprs, _) = &mut select.group_by {
        for expr in exprs {
            unmark(expr);
            if let Expr::GroupingSets(sets) | Expr::Cube(sets) | Expr::Rollup(sets) = expr {
                sets.iter_mut().flatten().for_each(unmark);
            }
        }
    }
    if let Some(ast::Distinct::On(exprs)) = &mut select.distinct {
        exprs.iter_mut().for_each(unmark);
    }
}

fn place(expr: Expr) -> Result<Expr, Error> {
    Ok(match expr {
        Expr::Value(value) => match value.value {
            Value::Number(digits, _) => marked(null(), "number", digits),
            _ => Expr::Value(value),
        },
        Expr::UnaryOp { op, expr } => unary(op, *expr),
        Expr::Cast {
            kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
            expr,
            data_type,
            array: false,
            format: None,
        } => marked(*expr, "cast", data_type.to_string()),
        Expr::TypedString(typed) => {
            let uses = typed.data_type.to_string();
            marked(Expr::Value(typed.value), "cast", uses)
        }
        Expr::Extract { field, expr, .. } => {
            let field = field.to_string();
            call("extract", vec![text(field.trim_matches(['\'', '"']).to_lowercase()), *expr])
        }
        Expr::AtTimeZone { timestamp, time_zone } => call("timezone", vec![*time_zone, *timestamp]),
        Expr::Ceil { expr, .. } => call("ceil", vec![*expr]),
        Expr::Floor { expr, .. } => call("floor", vec![*expr]),
        Expr::Position { expr, r#in } => call("strpos", vec![*r#in, *expr]),
        Expr::Substring { expr, substring_from, substring_for, .. } => {
            let from = substring_from.map_or_else(|| marked(null(), "number", "1"), |from| *from);
            call("substring", [Some(*expr), Some(from), substring_for.map(|e| *e)].into_iter().flatten().collect())
        }
        Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
            let name = match trim_where {
                Some(TrimWhereField::Leading) => "ltrim",
                Some(TrimWhereField::Trailing) => "rtrim",
                _ => "btrim",
            };
            let what = trim_what.map(|what| *what).or_else(|| trim_characters?.into_iter().next());
            call(name, [Some(*expr), what].into_iter().flatten().collect())
        }
        Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
            let parts = [Some(*expr), Some(*overlay_what), Some(*overlay_from), overlay_for.map(|e| *e)];
            call("overlay", parts.into_iter().flatten().collect())
        }
        Expr::AnyOp { left, compare_op, right, .. } => {
            call(COMPARE_ANY, vec![text(compare_op.to_string()), *right, *left])
        }
        Expr::AllOp { left, compare_op, right } => call(COMPARE_ALL, vec![text(compare_op.to_string()), *right, *left]),
        Expr::Function(function) => function_call(function)?,
        Expr::InList { .. }
        | Expr::InSubquery { .. }
        | Expr::Between { .. }
        | Expr::Like { .. }
        | Expr::ILike { .. }
        | Expr::SimilarTo { .. }
        | Expr::Case { .. }
        | Expr::IsDistinctFrom(..)
        | Expr::IsNotDistinctFrom(..) => marked(expr, "after", ""),
        other => other,
    })
}

fn unary(op: UnaryOperator, expr: Expr) -> Expr {
    match op {
        // Of a literal at once, so that the least integer can be written.
        UnaryOperator::Minus => match number_of(&expr) {
            Some(digits) => {
                let negated = digits.strip_prefix('-').map_or_else(|| format!("-{digits}"), str::to_owned);
                marked(null(), "number", negated)
            }
            None => marked(expr, "negate", ""),
        },
        UnaryOperator::Plus => expr,
        UnaryOperator::PGAbs => call("abs", vec![expr]),
        UnaryOperator::PGSquareRoot => call("sqrt", vec![expr]),
        UnaryOperator::PGCubeRoot => call("cbrt", vec![expr]),
        UnaryOperator::BitwiseNot => call("bitnot", vec![expr]),
        op => Expr::UnaryOp { op, expr: Box::new(expr) },
    }
}

/// Names of ours for what another function does, and the parts of a call that are not plain arguments.
fn function_call(mut function: Function) -> Result<Expr, Error> {
    let parts = function.name.0.as_slice();
    if let [schema, name] = parts {
        let system = schema.as_ident().is_some_and(|schema| schema.value.eq_ignore_ascii_case("pg_catalog"));
        if system {
            function.name = ObjectName(vec![name.clone()]);
        }
    }
    if let Some(WindowType::WindowSpec(spec)) = &mut function.over {
        frame::literals(spec)?;
    }
    if matches!(function.args, FunctionArguments::None) {
        let list = FunctionArgumentList { duplicate_treatment: None, args: Vec::new(), clauses: Vec::new() };
        function.args = FunctionArguments::List(list);
    }
    let name = match function.name.0.as_slice() {
        [part] => part.as_ident().map(|name| name.value.to_lowercase()).unwrap_or_default(),
        _ => String::new(),
    };
    match name.as_str() {
        "variance" => function.name = ObjectName::from(vec![Ident::new("var_samp")]),
        "every" => function.name = ObjectName::from(vec![Ident::new("bool_and")]),
        name if ordered_set::is_ordered_set(&function, name) => {
            let after = |call| marked(call, "after", "");
            return ordered_set::over_array(function, name, after).map(after);
        }
        "json_agg" | "jsonb_agg" | "json_object_agg" | "jsonb_object_agg" => return Ok(json_agg(function, &name)),
        _ => {}
    }
    Ok(marked(Expr::Function(function), "after", ""))
}

/// `json_agg(x)`: the list of the values' JSON texts, then one text of them; `json_object_agg(k, v)`: of members' texts.
/// Of distinct values it is the list of these values that is made first: their texts sort otherwise.
fn json_agg(mut function: Function, name: &str) -> Expr {
    let (part, whole) = match name {
        "json_agg" => (ELEMENT, "json_of_list"),
        "jsonb_agg" => (ELEMENT, "jsonb_of_list"),
        "json_object_agg" => ("json_pair", "json_of_pairs"),
        _ => ("json_pair", "jsonb_of_pairs"),
    };
    let distinct = part == ELEMENT && is_distinct(&function);
    if let FunctionArguments::List(list) = &mut function.args
        && !distinct
    {
        let own = std::mem::take(&mut list.args);
        let values = own.iter().map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
            _ => None,
        });
        list.args = match values.collect::<Option<Vec<_>>>() {
            Some(values) => vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(call(part, values)))],
            None => own,
        };
    }
    function.name = ObjectName::from(vec![Ident::new("array_agg")]);
    let list = marked(Expr::Function(function), "after", "");
    call(whole, vec![if distinct { call(ELEMENTS_OF_LIST, vec![list]) } else { list }])
}

fn is_distinct(function: &Function) -> bool {
    matches!(&function.args, FunctionArguments::List(list)
        if list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct))
}

/// `(a, b) < (x, y)` as `a < x OR (a = x AND b < y)`, and `(a, b) IN ((x, y), …)` as `(a = x AND b = y) OR …`: so each pair is
/// compared as values of its types are, and null is what it is there. `(a, b) IS NULL` asks it of each part, and so does
/// IS NOT NULL.
fn row_comparison(expr: &Expr) -> Result<Option<Expr>> {
    Ok(match expr {
        Expr::BinaryOp { left, op, right } => match (row_of(left), row_of(right)) {
            (Some(left), Some(right)) => compared_rows(left, op, right)?,
            _ => None,
        },
        Expr::InList { expr, list, negated } => match row_of(expr) {
            Some(row) => in_rows(row, list)?.map(|any| match negated {
                true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(any) },
                false => any,
            }),
            None => None,
        },
        Expr::IsNull(row) => row_of(row).and_then(|row| all_of(row, Expr::IsNull)),
        Expr::IsNotNull(row) => row_of(row).and_then(|row| all_of(row, Expr::IsNotNull)),
        _ => None,
    })
}

/// `x::interval day to hour` as `date_trunc('hour', x::interval)`; what is quoted is read as after `interval`, so that
/// `'5'::interval hour` has five of them.
fn cast_to_field(expr: &Expr) -> Option<Expr> {
    let Expr::Cast { kind, expr, data_type: DataType::Interval { fields: Some(fields), precision }, array, format } =
        expr
    else {
        return None;
    };
    let fields = fields.to_string().to_lowercase().replace(" to ", " ");
    let unit = fields.rsplit(' ').next()?;
    let text = |text: &str| Expr::Value(Value::SingleQuotedString(text.to_owned()).into());
    let is_quoted =
        matches!(expr.as_ref(), Expr::Value(ast::ValueWithSpan { value: Value::SingleQuotedString(_), .. }));
    let own = match is_quoted {
        true => Box::new(marked(expr.as_ref().clone(), "interval", fields.clone())),
        false => expr.clone(),
    };
    let data_type = DataType::Interval { fields: None, precision: *precision };
    let plain = Expr::Cast { kind: kind.clone(), expr: own, data_type, array: *array, format: format.clone() };
    Some(if unit == "second" { plain } else { call("date_trunc", vec![text(unit), plain]) })
}

/// `ARRAY['1.5', 2]::numeric[]` as `ARRAY['1.5'::numeric, 2::numeric]`: what is quoted has the type that it is cast to.
fn cast_of_each(expr: &Expr) -> Option<Expr> {
    let Expr::Cast { kind, expr, data_type: whole @ DataType::Array(element), array: false, format: None } = expr
    else {
        return None;
    };
    let (ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::AngleBracket(element)) = element else {
        return None;
    };
    let Expr::Array(array) = &**expr else { return None };
    let cast = |item: &Expr| {
        let data_type = match item {
            Expr::Array(_) => whole.clone(),
            Expr::Value(_) | Expr::UnaryOp { .. } => DataType::clone(element),
            _ => return None,
        };
        Some(Expr::Cast { kind: kind.clone(), expr: Box::new(item.clone()), data_type, array: false, format: None })
    };
    let elem = array.elem.iter().map(cast).collect::<Option<Vec<_>>>().filter(|items| !items.is_empty())?;
    Some(Expr::Array(ast::Array { elem, named: array.named }))
}

/// LIKE and SIMILAR TO with an ESCAPE: the pattern as one whose escape is the backslash.
fn escape_by_backslash(expr: &mut Expr) -> Result<()> {
    let (Expr::Like { pattern, escape_char, .. }
    | Expr::ILike { pattern, escape_char, .. }
    | Expr::SimilarTo { pattern, escape_char, .. }) = expr
    else {
        return Ok(());
    };
    let Some(escape) = escape_char.take().map(Expr::Value) else { return Ok(()) };
    **pattern = match (quoted(pattern), quoted(&escape)) {
        (Some(pattern), Some(escape)) => text(escaped_by_backslash(pattern, escape)?),
        _ => call(LIKE_ESCAPE, vec![std::mem::replace(pattern, null()), escape]),
    };
    Ok(())
}

/// What stands in quotes, if an expression is only that.
fn quoted(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Nested(inner) => quoted(inner),
        Expr::Value(ast::ValueWithSpan { value, .. }) => match value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text),
            Value::DollarQuotedString(text) => Some(&text.value),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a row is one of a list of rows; `None` if something else stands in the list that may be one.
fn in_rows(row: Vec<&Expr>, list: &[Expr]) -> Result<Option<Expr>> {
    let mut equal = Vec::with_capacity(list.len());
    for item in list {
        match row_of(item) {
            Some(other) => equal.extend(compared_rows(row.clone(), &BinaryOperator::Eq, other)?),
            None if is_literal(item) => return Err(unequal_rows()),
            None => return Ok(None),
        }
    }
    Ok(any_of(equal))
}

fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_literal(inner),
        Expr::Value(value) => !matches!(value.value, Value::Placeholder(_) | Value::Null),
        _ => false,
    }
}

fn unequal_rows() -> Error {
    Error::new(ErrorKind::Syntax, "unequal number of entries in row expressions")
}

/// Whether it is so of all parts.
fn all_of(parts: Vec<&Expr>, condition: fn(Box<Expr>) -> Expr) -> Option<Expr> {
    let each = parts.into_iter().map(|part| condition(Box::new(Expr::Nested(Box::new(part.clone())))));
    each.reduce(|all, next| nested(all, &BinaryOperator::And, next))
}

fn compared_rows(left: Vec<&Expr>, op: &BinaryOperator, right: Vec<&Expr>) -> Result<Option<Expr>> {
    if left.len() != right.len() && is_comparison(op) {
        return Err(unequal_rows());
    }
    let pairs: Vec<(&Expr, &Expr)> = left.into_iter().zip(right).collect();
    let compare = |pair: &(&Expr, &Expr), op: &BinaryOperator| nested(pair.0.clone(), op, pair.1.clone());
    let strict = match op {
        BinaryOperator::Lt | BinaryOperator::LtEq => BinaryOperator::Lt,
        BinaryOperator::Gt | BinaryOperator::GtEq => BinaryOperator::Gt,
        BinaryOperator::Eq | BinaryOperator::NotEq => {
            let joined = if *op == BinaryOperator::Eq { BinaryOperator::And } else { BinaryOperator::Or };
            return Ok(pairs.iter().map(|pair| compare(pair, op)).reduce(|all, next| nested(all, &joined, next)));
        }
        _ => return Ok(None),
    };
    let Some((last, first)) = pairs.split_last() else { return Ok(None) };
    let mut whole = compare(last, op);
    for pair in first.iter().rev() {
        let equal = nested(compare(pair, &BinaryOperator::Eq), &BinaryOperator::And, whole);
        whole = nested(compare(pair, &strict), &BinaryOperator::Or, equal);
    }
    Ok(Some(whole))
}

/// One of these conditions, no deeper than need be.
fn any_of(mut conditions: Vec<Expr>) -> Option<Expr> {
    while conditions.len() > 1 {
        let mut rest = conditions.into_iter();
        let mut paired = Vec::with_capacity(rest.len().div_ceil(2));
        while let Some(first) = rest.next() {
            paired.push(match rest.next() {
                Some(second) => nested(first, &BinaryOperator::Or, second),
                None => first,
            });
        }
        conditions = paired;
    }
    conditions.pop()
}

fn nested(left: Expr, op: &BinaryOperator, right: Expr) -> Expr {
    Expr::Nested(Box::new(Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) }))
}
