//! Subqueries and clauses that DataFusion does not plan, or plans to another answer, as forms that it does plan.
//!
//! ```text
//! x > ALL (q)           x > ALL (array)       of the greatest value of q, and null if there is one
//! x > ANY (q)           x > ANY (array)       of the least value
//! SELECT EXISTS (q)     SELECT (SELECT count(*) > 0 FROM q)
//! EXISTS (SELECT count(*) FROM t HAVING h)    (SELECT h FROM t) IS TRUE
//! generate_series(…)    unnest(generate_series_list(…))
//! FETCH FIRST 3 ROWS    LIMIT 3; [`ties`] for WITH TIES
//! FROM unnest(a) AS x   FROM unnest(a) AS x(x)
//! x IN (q UNION r)      x IN (SELECT * FROM (q UNION r) AS q)
//! GROUP BY ()           HAVING count(*) >= 0, and so HAVING without aggregates and GROUP BY
//! (a, b) OVERLAPS (c, d)  overlaps(a, b, c, d)
//! ARRAY(q)              coalesce((SELECT array_agg(c) FROM q), '{}')
//! ```
//!
//! [`member`], [`row_member`], [`row_comparison`] and [`relation`] have forms of their own.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, GroupByExpr, Ident, LimitClause, Query, Select, SelectItem, SetExpr, TableFactor,
    Value, VisitMut, VisitorMut,
};
use keyspan_model::{ColumnType, Error, ErrorKind, Result};

use super::filled::{filled, over, parsed};
use super::{
    hypothetical, json_rows, like_any, member, percentiles, recursive, referring_values, relation, row_comparison,
    row_member, set_all, set_order, short_names, ties, user, values, with, with_names,
};
use crate::asof;
use crate::functions::has_aggregate;
use crate::pg_catalog;
use crate::syntax::{call, cast_to, has_subquery, parts_of, visit_own};

/// The most grouping sets of one GROUP BY, as in PostgreSQL.
const MOST_SETS: usize = 4096;

/// Changes a query; called before anything else looks at it.
///
/// # Errors
/// 0A000 for what would be answered wrongly.
pub fn expand(query: &mut Query) -> Result<()> {
    with_names::made_unique(query);
    match query.visit(&mut Expander::default()) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Changes an expression outside of a query, such as one of SET, VALUES, CHECK or DEFAULT, in the same way.
///
/// # Errors
/// Those of [`expand`].
pub fn expand_expression(expr: &mut Expr) -> Result<()> {
    match expr.visit(&mut Expander::default()) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

#[derive(Default)]
struct Expander {
    users: user::Users,
    elements: json_rows::Elements,
    /// The number of the next CTE that is named several times.
    shared: u64,
    /// Whether the next query is VALUES in FROM.
    values_in_from: bool,
}

impl VisitorMut for Expander {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        if let Err(error) = set_order::by_own_columns(query) {
            return ControlFlow::Break(error);
        }
        self.users.enter(query);
        self.elements.enter(query);
        subqueries_by_place(query);
        let checked = query.with.as_mut().map_or(Ok(()), |with| recursive::check(with, gives_rows));
        let named = query.with.as_mut().filter(|with| !with.recursive);
        let named = named.map_or(Ok(()), |with| with.cte_tables.iter_mut().try_for_each(short_names::of_cte));
        let marked = checked.and(named).and_then(|()| with::mark(query, &mut self.shared));
        if let Err(error) = marked.and_then(|()| fetch(query)).and_then(|()| member::look_up(query)) {
            return ControlFlow::Break(error);
        }
        let in_from = std::mem::take(&mut self.values_in_from);
        let mut bodies = vec![query.body.as_mut()];
        while let Some(body) = bodies.pop() {
            let formed = set_all::numbered(body).and_then(|()| referring_values::as_union(body));
            let formed = formed.and_then(|()| if in_from { Ok(()) } else { values::as_relation(body) });
            if let Err(error) = formed {
                return ControlFlow::Break(error);
            }
            match body {
                SetExpr::Select(select) => {
                    select.projection.iter_mut().for_each(item);
                    join_laterals(&mut select.from);
                    select.from.iter_mut().for_each(asof::nested);
                    select.from.iter_mut().flat_map(|from| &mut from.joins).for_each(condition_of_text);
                    if let Err(error) = row_member::in_conditions(select) {
                        return ControlFlow::Break(error);
                    }
                    plain_groups(select);
                    if let Err(error) = one_list_of_sets(select).and_then(|()| relation::lists_apart(select)) {
                        return ControlFlow::Break(error);
                    }
                }
                SetExpr::SetOperation { left, right, .. } => bodies.extend([left.as_mut(), right.as_mut()]),
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        self.users.leave();
        self.elements.leave();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        match factor {
            TableFactor::Table { sample: Some(_), .. } => {
                let error = Error::not_supported("TABLESAMPLE is not supported");
                ControlFlow::Break(error.with_hint("Use WHERE random() < 0.1."))
            }
            factor => {
                if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
                    asof::nested_inside(table_with_joins);
                }
                name_column(factor);
                if let Err(error) = relation::of_function(factor) {
                    return ControlFlow::Break(error);
                }
                self.values_in_from =
                    matches!(factor, TableFactor::Derived { subquery, .. } if values::is_only_values(subquery));
                ControlFlow::Continue(())
            }
        }
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if let Expr::Function(function) = expr
            && let Err(error) = super::series::by_place(function)
        {
            return ControlFlow::Break(error);
        }
        self.users.call(expr);
        self.elements.value(expr);
        if let Some(rows) = relation::series(expr).or_else(|| relation::expanded(expr)) {
            *expr = rows;
        }
        for form in [
            overlapping,
            exists_group,
            quantified,
            row_member::anywhere,
            row_comparison::with_subquery,
            row_comparison::distinct,
            like_any::expanded,
            collected,
            hypothetical::expanded,
            percentiles::expanded,
        ] {
            match form(expr) {
                Ok(Some(expanded)) => *expr = expanded,
                Ok(None) => {}
                Err(error) => return ControlFlow::Break(error),
            }
        }
        match expr {
            // The planner takes names and literals only.
            Expr::Tuple(parts) if !parts.iter().all(|part| is_name(part) || matches!(part, Expr::Value(_))) => {
                *expr = call("row", std::mem::take(parts));
                ControlFlow::Continue(())
            }
            Expr::Subquery(query) => as_relation(query),
            Expr::InSubquery { subquery, .. } => {
                name_branches(subquery);
                as_relation(subquery)
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match json_rows::expanded(expr) {
            Ok(Some(expanded)) => *expr = expanded,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}

fn is_name(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

/// Names what IN looks for where it is a CASE: DataFusion makes its text the name of a column, and takes the columns
/// within for others of that name.
fn name_branches(query: &mut Query) {
    if let SetExpr::Select(select) = query.body.as_mut()
        && let [SelectItem::UnnamedExpr(expr)] = select.projection.as_mut_slice()
        && matches!(expr, Expr::Case { .. })
    {
        let alias = Ident::with_quote('"', "\u{1}in");
        select.projection[0] = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
    }
}

/// Whether an expression is a subquery that [`as_relation`] changes.
fn is_set_operation(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => is_set_operation(inner),
        Expr::Subquery(query) => operates_on_sets(query),
        _ => false,
    }
}

fn operates_on_sets(query: &Query) -> bool {
    match query.body.as_ref() {
        SetExpr::Query(inner) => operates_on_sets(inner),
        body => matches!(body, SetExpr::SetOperation { .. }),
    }
}

/// The query of an expression as a relation, if it is a set operation: types of relations are settled.
fn as_relation(query: &mut Query) -> ControlFlow<Error> {
    if !operates_on_sets(query) {
        return ControlFlow::Continue(());
    }
    match parsed("(SELECT * FROM q)") {
        Ok(Expr::Subquery(mut around)) => {
            if let SetExpr::Select(select) = around.body.as_mut()
                && let Some(from) = select.from.first_mut()
            {
                from.relation = derived(query, &[""; 0]);
            }
            *query = *around;
            ControlFlow::Continue(())
        }
        Ok(other) => ControlFlow::Break(Error::internal(format!("{other} is no subquery"))),
        Err(error) => ControlFlow::Break(error),
    }
}

/// A query as the relation `q`, its columns named so.
pub(super) fn derived(query: &Query, columns: &[impl AsRef<str>]) -> TableFactor {
    let column = |name: &_| {
        let name = Ident::with_quote('"', AsRef::<str>::as_ref(name));
        ast::TableAliasColumnDef { name, data_type: None }
    };
    let columns = columns.iter().map(column).collect();
    let alias = Some(ast::TableAlias { explicit: true, name: Ident::new("q"), columns, at: None });
    TableFactor::Derived { lateral: false, subquery: Box::new(query.clone()), alias, sample: None }
}

/// `FROM a, LATERAL b JOIN c ON …` as `FROM a CROSS JOIN LATERAL b JOIN c ON …`, where b may refer to a. The same rows, as
/// long as no join keeps rows of c by themselves.
fn join_laterals(from: &mut Vec<ast::TableWithJoins>) {
    let mut at = 1;
    while at < from.len() {
        let item = &from[at];
        let refers = match &item.relation {
            TableFactor::Derived { lateral, .. } => *lateral,
            TableFactor::Table { args, .. } => args.is_some(),
            TableFactor::Function { .. } | TableFactor::UNNEST { .. } | TableFactor::TableFunction { .. } => true,
            _ => false,
        };
        if !refers || item.joins.is_empty() || !item.joins.iter().all(keeps_left_rows) {
            at += 1;
            continue;
        }
        let ast::TableWithJoins { relation, joins } = from.remove(at);
        let cross = ast::JoinOperator::CrossJoin(ast::JoinConstraint::None);
        from[at - 1].joins.push(ast::Join { relation, global: false, join_operator: cross });
        from[at - 1].joins.extend(joins);
    }
}

/// Whether a join is CROSS JOIN, or an inner or left one by a condition.
fn keeps_left_rows(join: &ast::Join) -> bool {
    use ast::JoinConstraint::{None, On};
    use ast::JoinOperator as J;
    matches!(
        &join.join_operator,
        J::CrossJoin(None) | J::Join(On(_)) | J::Inner(On(_)) | J::Left(On(_)) | J::LeftOuter(On(_))
    )
}

/// `JOIN … ON ('true')`, as Hasura writes it: a text is a boolean where one is wanted.
fn condition_of_text(join: &mut ast::Join) {
    use ast::JoinOperator as J;
    let (J::Join(constraint) | J::Inner(constraint) | J::Left(constraint) | J::LeftOuter(constraint)) =
        &mut join.join_operator
    else {
        return;
    };
    if let ast::JoinConstraint::On(condition) = constraint
        && is_text(condition)
    {
        *condition = cast_to(condition.clone(), ColumnType::Boolean);
    }
}

fn is_text(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_text(inner),
        Expr::Value(value) => matches!(value.value, Value::SingleQuotedString(_)),
        _ => false,
    }
}

/// `FROM unnest(…) AS x`: the one column of a function that gives single values is called as the table is.
fn name_column(factor: &mut TableFactor) {
    let alias = match factor {
        TableFactor::UNNEST { alias, array_exprs, with_ordinality: false, .. } if array_exprs.len() == 1 => alias,
        TableFactor::Table { name, alias, args: Some(_), with_ordinality: false, .. }
        | TableFactor::Function { name, alias, with_ordinality: false, .. }
            if parts_of(name).is_some_and(|(_, name)| name == "generate_series") =>
        {
            alias
        }
        _ => return,
    };
    if let Some(alias) = alias
        && alias.columns.is_empty()
    {
        alias.columns.push(ast::TableAliasColumnDef { name: alias.name.clone(), data_type: None });
    }
}

/// FETCH FIRST as LIMIT.
fn fetch(query: &mut Query) -> Result<()> {
    let Some(fetch) = query.fetch.take() else { return Ok(()) };
    if fetch.percent {
        let error = Error::not_supported("FETCH FIRST … PERCENT is not supported");
        return Err(error.with_hint("Number the rows: … WHERE percent_rank() OVER (ORDER BY …) in a subquery."));
    }
    let rows = fetch.quantity.unwrap_or_else(|| number("1"));
    if fetch.with_ties {
        return ties::kept(query, rows);
    }
    match &mut query.limit_clause {
        None => {
            query.limit_clause =
                Some(LimitClause::LimitOffset { limit: Some(rows), offset: None, limit_by: Vec::new() });
        }
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => *limit = Some(rows),
        Some(_) => return Err(Error::new(keyspan_model::ErrorKind::Syntax, "multiple LIMIT clauses not allowed")),
    }
    Ok(())
}

fn number(digits: &str) -> Expr {
    Expr::Value(Value::Number(digits.into(), false).into())
}

/// `(a, b) OVERLAPS (c, d)` as a call.
fn overlapping(expr: &Expr) -> Result<Option<Expr>> {
    let Expr::BinaryOp { left, op: BinaryOperator::Overlaps, right } = expr else { return Ok(None) };
    let (Expr::Tuple(first), Expr::Tuple(second)) = (left.as_ref(), right.as_ref()) else { return Ok(None) };
    for (side, parts) in [("left", first), ("right", second)] {
        if parts.len() != 2 {
            let message = format!("wrong number of parameters on {side} side of OVERLAPS expression");
            return Err(Error::new(ErrorKind::Syntax, message));
        }
    }
    Ok(Some(call("overlaps", first.iter().chain(second).cloned().collect())))
}

/// `GROUP BY x, ()` as GROUP BY x, and `GROUP BY (a, b)` as GROUP BY a, b; `GROUP BY ()`, or a HAVING alone, as an
/// aggregate, which a HAVING makes of a SELECT without one.
fn plain_groups(select: &mut Select) {
    let GroupByExpr::Expressions(groups, _) = &mut select.group_by else { return };
    let written = groups.len();
    *groups = std::mem::take(groups).into_iter().flat_map(parts_of_group).collect();
    let alone = written == 0 && select.having.as_ref().is_some_and(|having| !has_aggregate(having));
    if alone || written > 0 && groups.is_empty() {
        let one =
            Expr::BinaryOp { left: Box::new(count_of_rows()), op: BinaryOperator::GtEq, right: Box::new(number("0")) };
        let having = select.having.take().map(|having| Box::new(Expr::Nested(Box::new(having))));
        select.having = Some(match having {
            Some(right) => Expr::BinaryOp { left: Box::new(one), op: BinaryOperator::And, right },
            None => one,
        });
    }
}

/// `SELECT f(q) … GROUP BY f(q)` of a subquery `q` as GROUP BY 1: the planner does not know the two for one.
fn subqueries_by_place(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let Select { projection, group_by: GroupByExpr::Expressions(groups, _), .. } = select.as_mut() else { return };
    for group in groups.iter_mut().filter(|group| has_subquery(group)) {
        let is_group = |item: &SelectItem| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => expr == group,
            _ => false,
        };
        let is_star = |item| matches!(item, &SelectItem::Wildcard(_) | &SelectItem::QualifiedWildcard(..));
        let place = projection.iter().position(is_group);
        if let Some(place) = place.filter(|place| !projection[..*place].iter().any(is_star)) {
            *group = number(&(place + 1).to_string());
        }
    }
}

/// `GROUP BY (a, b)` groups as `GROUP BY a, b` does.
fn parts_of_group(group: Expr) -> Vec<Expr> {
    match group {
        Expr::Tuple(parts) => parts,
        group => vec![group],
    }
}

/// `GROUP BY a, ROLLUP (b)` as GROUPING SETS ((a, b), (a)), with places in the SELECT list as what stands there. Where other
/// groups stand beside sets, DataFusion puts all that they determine into each set: with `a` the key of the table, `b` too.
fn one_list_of_sets(select: &mut Select) -> Result<()> {
    let GroupByExpr::Expressions(groups, _) = &mut select.group_by else { return Ok(()) };
    let is_list = |group: &Expr| matches!(group, Expr::GroupingSets(_) | Expr::Rollup(_) | Expr::Cube(_));
    if !groups.iter().any(is_list) {
        return Ok(());
    }
    let mut all: Vec<Vec<Expr>> = vec![Vec::new()];
    for group in groups.iter() {
        let mut own = sets_of(group);
        own.iter_mut().flatten().try_for_each(|part| place_as_expression(part, &select.projection))?;
        if all.len().saturating_mul(own.len()) > MOST_SETS {
            let message = format!("too many grouping sets present (maximum {MOST_SETS})");
            return Err(Error::new(ErrorKind::TooComplex, message));
        }
        let with = |first: &Vec<Expr>, second: &Vec<Expr>| {
            let new = second.iter().filter(|expr| !first.contains(expr)).cloned();
            first.iter().cloned().chain(new).collect()
        };
        all = all.iter().flat_map(|first| own.iter().map(move |second| with(first, second))).collect();
    }
    *groups = vec![Expr::GroupingSets(all)];
    Ok(())
}

/// A place in a SELECT list as what stands there.
///
/// # Errors
/// 42P10 for a place that the list does not have; 0A000 for one behind a `*`, of which it is not known how many it is.
fn place_as_expression(part: &mut Expr, items: &[SelectItem]) -> Result<()> {
    let Expr::Value(value) = &*part else { return Ok(()) };
    let Value::Number(number, _) = &value.value else { return Ok(()) };
    let Ok(place) = number.parse::<usize>() else { return Ok(()) };
    for (at, item) in items.iter().enumerate() {
        match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } if at + 1 == place => {
                *part = expr.clone();
                return Ok(());
            }
            SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. } => {}
            _ => return Err(Error::not_supported("a position behind * in grouping sets is not supported")),
        }
    }
    let message = format!("GROUP BY position {place} is not in select list");
    Err(Error::new(ErrorKind::InvalidColumnReference, message))
}

/// The sets that an element of GROUP BY stands for.
fn sets_of(group: &Expr) -> Vec<Vec<Expr>> {
    match group {
        Expr::GroupingSets(sets) => sets.clone(),
        Expr::Rollup(parts) => (0..=parts.len()).rev().map(|count| parts[..count].concat()).collect(),
        Expr::Cube(parts) => {
            let set = |bits: usize| {
                let chosen = parts.iter().enumerate().filter(|(place, _)| bits & (1 << place) == 0);
                chosen.flat_map(|(_, part)| part.iter().cloned()).collect()
            };
            // Parsing lets no more than 12 pass.
            (0..1_usize << parts.len()).map(set).collect()
        }
        group => vec![vec![group.clone()]],
    }
}

/// `count(*)`.
fn count_of_rows() -> Expr {
    let star = ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard);
    let mut count = crate::syntax::call("count", Vec::new());
    if let Expr::Function(ast::Function { args: ast::FunctionArguments::List(list), .. }) = &mut count {
        list.args.push(star);
    }
    count
}

/// What stands in a SELECT list and is changed here is called as it was written.
fn item(item: &mut SelectItem) {
    let (expr, label) = match item {
        SelectItem::UnnamedExpr(expr) => {
            let label = super::label(expr);
            (expr, Some(label))
        }
        SelectItem::ExprWithAlias { expr, .. } => (expr, None),
        _ => return,
    };
    let is_row = matches!(expr, Expr::Tuple(_));
    let changes = is_row
        || gives_rows(expr)
        || row_member::is_one(expr)
        || row_comparison::is_one(expr)
        || collects(expr)
        || hypothetical::is_one(expr);
    if !changes && !percentiles::are_in(expr) && !is_set_operation(expr) {
        return;
    }
    if let Some(label) = label {
        let expr = match expr {
            Expr::Tuple(parts) => call("row", std::mem::take(parts)),
            expr => expr.clone(),
        };
        *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', label) };
    }
}

/// Whether an expression calls a function that [`Expander`] makes rows of.
fn gives_rows(expr: &Expr) -> bool {
    let found = ast::visit_expressions(expr, |part| match is_set(part) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    found.is_break()
}

fn is_set(call: &Expr) -> bool {
    relation::series(call).or_else(|| relation::expanded(call)).is_some() || json_rows::gives_rows(call)
}

/// Whether an expression makes rows: not what its subqueries make.
pub(super) fn makes_rows(expr: &Expr) -> bool {
    let unnests = |part: &Expr| match part {
        Expr::Function(function) => parts_of(&function.name).is_some_and(|(_, name)| name == "unnest"),
        _ => false,
    };
    let found = visit_own(expr, |part| match unnests(part) || is_set(part) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// EXISTS as a count, which may stand in a SELECT list.
pub(super) fn exists(expr: &Expr) -> Option<Expr> {
    let Expr::Exists { subquery, negated } = expr else { return None };
    let mut counted = subquery.clone();
    if as_relation(&mut counted).is_break() {
        return None;
    }
    let SetExpr::Select(select) = counted.body.as_mut() else { return None };
    let Select { group_by: GroupByExpr::Expressions(groups, _), distinct: None, having: None, .. } = select.as_ref()
    else {
        return None;
    };
    if !groups.is_empty() || counted.limit_clause.is_some() || select.projection.iter().any(has_aggregate) {
        return None;
    }
    let op = if *negated { BinaryOperator::Eq } else { BinaryOperator::Gt };
    let counted_rows = Expr::BinaryOp { left: Box::new(count_of_rows()), op, right: Box::new(number("0")) };
    select.projection = vec![SelectItem::UnnamedExpr(counted_rows)];
    counted.order_by = None;
    Some(Expr::Subquery(counted))
}

/// EXISTS of an aggregate without GROUP BY: there is its one row, whatever rows it is of, where HAVING is true.
fn exists_group(expr: &Expr) -> Result<Option<Expr>> {
    let Expr::Exists { subquery, negated } = expr else { return Ok(None) };
    let mut query = subquery.clone();
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(None) };
    let GroupByExpr::Expressions(groups, _) = &select.group_by else { return Ok(None) };
    let grouped = select.having.is_some() || select.projection.iter().any(has_aggregate);
    if !groups.is_empty() || !grouped || query.limit_clause.is_some() || query.fetch.is_some() {
        return Ok(None);
    }
    let holds = match select.having.take() {
        Some(having) if has_aggregate(&having) => having,
        Some(having) => filled("count(*) >= 0 AND h", &[("h", &having)])?,
        None => parsed("count(*) >= 0")?,
    };
    (select.projection, select.distinct) = (vec![SelectItem::UnnamedExpr(holds)], None);
    query.order_by = None;
    let holds = Box::new(Expr::Subquery(query));
    Ok(Some(if *negated { Expr::IsNotTrue(holds) } else { Expr::IsTrue(holds) }))
}

/// `x = ANY (q)` as `x IN (q)`, and `x <> ALL (q)` as `x NOT IN (q)`.
pub(super) fn member(expr: &Expr) -> Option<Expr> {
    let (left, right, negated) = match expr {
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => (left, right, false),
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => (left, right, true),
        _ => return None,
    };
    let Expr::Subquery(query) = right.as_ref() else { return None };
    Some(Expr::InSubquery { expr: left.clone(), subquery: query.clone(), negated })
}

/// `x op ANY (q)` and `x op ALL (q)`: of an array of the values that decide, which are the least or the greatest, and null if
/// there is one. So the subquery is computed once.
fn quantified(expr: &Expr) -> Result<Option<Expr>> {
    if let Some(member) = member(expr) {
        return Ok(Some(member));
    }
    let (left, op, right, any) = match expr {
        Expr::AnyOp { left, compare_op, right, .. } => (left, compare_op, right, true),
        Expr::AllOp { left, compare_op, right } => (left, compare_op, right, false),
        _ => return Ok(None),
    };
    let Expr::Subquery(query) = right.as_ref() else { return Ok(None) };
    use BinaryOperator as B;
    let ends = match (op, any) {
        (B::Gt | B::GtEq, true) | (B::Lt | B::LtEq, false) => "min(c)",
        (B::Lt | B::LtEq, true) | (B::Gt | B::GtEq, false) => "max(c)",
        (B::NotEq, true) | (B::Eq, false) => "min(c), max(c)",
        _ => return Err(Error::not_supported(format!("{op} ANY and ALL of a subquery are not supported"))),
    };
    let quantifier = if any { "ANY" } else { "ALL" };
    let deciding = format!(
        "CASE WHEN count(c) = count(*) AND count(*) > 0 THEN ARRAY[{ends}] WHEN count(*) > 0 THEN ARRAY[{ends}, NULL] ELSE '{{}}' END"
    );
    over(&format!("x {op} {quantifier} (coalesce((SELECT {deciding} FROM q)))"), query, &[("x", left)]).map(Some)
}

/// Whether [`collected`] changes an expression.
fn collects(expr: &Expr) -> bool {
    match expr {
        Expr::Function(function) => matches!(function.args, ast::FunctionArguments::Subquery(_)),
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } | Expr::CompoundFieldAccess { root: inner, .. } => {
            collects(inner)
        }
        _ => false,
    }
}

/// `ARRAY(q)`: the values of a subquery as an array.
fn collected(expr: &Expr) -> Result<Option<Expr>> {
    let Expr::Function(function) = expr else { return Ok(None) };
    let ast::FunctionArguments::Subquery(query) = &function.args else { return Ok(None) };
    if !matches!(parts_of(&function.name), Some((None, name)) if name == "array") {
        return Ok(None);
    }
    if pg_catalog::lists_policies(query) {
        return parsed("'{}'::text[]").map(Some);
    }
    over("coalesce((SELECT array_agg(c) FROM q), '{}')", &with_own_name(query), &[]).map(Some)
}

/// The query with a name of its own for a subquery that it selects: ORDER BY may name a column of the name that this has.
fn with_own_name(query: &Query) -> Query {
    let mut query = query.clone();
    if let SetExpr::Select(select) = query.body.as_mut()
        && let [item] = select.projection.as_mut_slice()
        && let SelectItem::UnnamedExpr(expr @ Expr::Subquery(_)) = item
    {
        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', "\u{1}element") };
    }
    query
}
