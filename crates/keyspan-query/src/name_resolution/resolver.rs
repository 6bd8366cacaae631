//! The walk through a query: FROM first, then everything that may name its columns.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, AccessExpr, Cte, Distinct, ExcludeSelectItem, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    Join, JoinConstraint, JoinOperator, ObjectName, OrderBy, OrderByKind, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor, TableWithJoins, VisitMut, VisitorMut,
};
use keyspan_model::{ColumnType, Error, ErrorKind, Result};

use super::scope::{Scope, Side, not_known};
use super::{Columns, Named};
use crate::semantics;
use crate::syntax::{folded, parts_of};

/// A subquery's columns; `None`: not known.
type Output = Option<Vec<Named>>;

/// Where the walk is.
pub struct Resolver<'a> {
    columns: Columns<'a>,
    /// What bare names may mean, the innermost last.
    scopes: Vec<Scope>,
    /// The tables of WITH that are visible, the innermost last.
    ctes: Vec<(String, Output)>,
    /// Subqueries that have been given a name.
    named: usize,
}

impl<'a> Resolver<'a> {
    pub fn new(columns: Columns<'a>) -> Resolver<'a> {
        Resolver { columns, scopes: Vec::new(), ctes: Vec::new(), named: 0 }
    }

    /// Resolves a query and all within it; its columns.
    pub fn query(&mut self, query: &mut Query) -> Result<Output> {
        let visible = self.ctes.len();
        if let Some(with) = &mut query.with {
            for cte in &mut with.cte_tables {
                self.cte(cte, with.recursive)?;
            }
        }
        let output = match query.body.as_mut() {
            SetExpr::Select(select) => self.select(select, query.order_by.as_mut())?,
            other => self.body(other)?,
        };
        self.expressions(&mut query.limit_clause)?;
        self.ctes.truncate(visible);
        Ok(output)
    }

    fn cte(&mut self, cte: &mut Cte, recursive: bool) -> Result<()> {
        let name = folded(&cte.alias.name);
        let output = match cte.query.body.as_mut() {
            // The first branch names the columns that the second sees.
            SetExpr::SetOperation { left, right, .. } if recursive && cte.query.with.is_none() => {
                let output = renamed(self.body(left)?, &cte.alias);
                self.ctes.push((name, output));
                return self.body(right).map(drop);
            }
            _ => self.query(&mut cte.query)?,
        };
        self.ctes.push((name, renamed(output, &cte.alias)));
        Ok(())
    }

    fn body(&mut self, body: &mut SetExpr) -> Result<Output> {
        match body {
            SetExpr::Select(select) => self.select(select, None),
            SetExpr::Query(query) => self.query(query),
            SetExpr::SetOperation { left, right, .. } => {
                let (left, right) = (self.body(left)?, self.body(right)?);
                let (Some(mut columns), Some(right)) = (left, right) else { return Ok(None) };
                for ((_, ty), (_, other)) in columns.iter_mut().zip(right) {
                    *ty = ty.filter(|ty| Some(*ty) == other);
                }
                Ok(Some(columns))
            }
            SetExpr::Values(values) => {
                values.rows.iter_mut().try_for_each(|row| self.expressions(&mut row.content))?;
                let width = values.rows.first().map_or(0, |row| row.content.len());
                Ok(Some((1..=width).map(|number| (format!("column{number}"), None)).collect()))
            }
            _ => Ok(None),
        }
    }

    fn select(&mut self, select: &mut Select, order_by: Option<&mut OrderBy>) -> Result<Output> {
        let mut scope = Scope::default();
        for from in &mut select.from {
            // What is LATERAL sees the tables before it.
            let right = self.joined(from, &scope)?;
            scope.extend(right);
        }
        self.scopes.push(scope);
        let output = self.clauses(select, order_by);
        self.scopes.pop();
        output
    }

    fn clauses(&mut self, select: &mut Select, order_by: Option<&mut OrderBy>) -> Result<Output> {
        let items = std::mem::take(&mut select.projection);
        for item in items {
            self.expanded(item, &mut select.projection)?;
        }
        let output = self.output(&select.projection);
        select.projection.iter_mut().try_for_each(|item| self.item(item))?;
        if let Some(Distinct::On(exprs)) = &mut select.distinct {
            exprs.iter_mut().try_for_each(|expr| self.by_label(expr, &select.projection))?;
        }
        if let Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) = order_by {
            orders.iter_mut().try_for_each(|order| self.by_label(&mut order.expr, &select.projection))?;
        }
        self.expressions(&mut select.selection)?;
        self.expressions(&mut select.group_by)?;
        self.expressions(&mut select.having)?;
        self.expressions(&mut select.named_window)?;
        self.expressions(&mut select.qualify)?;
        Ok(output)
    }

    /// A `*` as the columns that Postgres gives, where joins have merged some.
    fn expanded(&self, item: SelectItem, items: &mut Vec<SelectItem>) -> Result<()> {
        let scope = self.scopes.last().filter(|scope| scope.has_merged());
        let (SelectItem::Wildcard(options), Some(scope)) = (&item, scope) else {
            items.push(item);
            return Ok(());
        };
        if scope.open {
            return Err(not_known("* over JOIN USING"));
        }
        if options.opt_exclude.is_some() || options.opt_except.is_some() || options.opt_replace.is_some() {
            return Err(Error::not_supported("* EXCLUDE over JOIN USING is not supported"));
        }
        for column in &scope.columns {
            if !column.merged && scope.columns.iter().filter(|other| other.value == column.value).count() > 1 {
                let message = format!("* over JOIN USING and a subquery with two columns \"{}\"", column.name);
                return Err(Error::not_supported(message).with_hint("Give them names of their own."));
            }
            items.push(labelled(column.value.clone(), &column.name));
        }
        Ok(())
    }

    /// The columns of a SELECT list before it is changed.
    fn output(&self, items: &[SelectItem]) -> Output {
        let scope = self.scopes.last()?;
        let mut output = Vec::with_capacity(items.len());
        for item in items {
            match item {
                SelectItem::UnnamedExpr(expr) => output.push((semantics::label(expr), self.type_of(expr))),
                SelectItem::ExprWithAlias { expr, alias } => output.push((folded(alias), self.type_of(expr))),
                SelectItem::Wildcard(_) if scope.open => return None,
                SelectItem::Wildcard(options) => {
                    let is_last = |left_out: &ObjectName, name: &str| {
                        let last = left_out.0.last().and_then(|part| part.as_ident());
                        last.is_some_and(|ident| folded(ident) == name)
                    };
                    let left_out = |name: &str| match &options.opt_exclude {
                        Some(ExcludeSelectItem::Single(left_out)) => is_last(left_out, name),
                        Some(ExcludeSelectItem::Multiple(left_out)) => left_out.iter().any(|each| is_last(each, name)),
                        None => false,
                    };
                    let shown = scope.columns.iter().filter(|column| !left_out(&column.name));
                    output.extend(shown.map(|column| (column.name.clone(), column.ty)));
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                    output.extend_from_slice(scope.table(&parts_of(name)?.1)?);
                }
                _ => return None,
            }
        }
        Some(output)
    }

    /// The type of an expression that is a column of the innermost FROM.
    fn type_of(&self, expr: &Expr) -> Option<ColumnType> {
        let scope = self.scopes.last()?;
        if let Some(column) = scope.columns.iter().find(|column| column.value == *expr) {
            return column.ty;
        }
        match expr {
            Expr::Identifier(name) => scope.named(&folded(name)).next()?.ty,
            Expr::CompoundIdentifier(path) => {
                let [.., table, name] = path.as_slice() else { return None };
                let name = folded(name);
                scope.table(&folded(table))?.iter().find(|(other, _)| *other == name)?.1
            }
            _ => None,
        }
    }

    fn item(&mut self, item: &mut SelectItem) -> Result<()> {
        let SelectItem::UnnamedExpr(expr) = item else { return self.expressions(item) };
        let label = semantics::label(expr);
        self.expressions(expr)?;
        *item = labelled(expr.clone(), &label);
        Ok(())
    }

    /// An expression of ORDER BY or DISTINCT ON, which is an output column if it is only a name and there is one.
    fn by_label(&mut self, expr: &mut Expr, items: &[SelectItem]) -> Result<()> {
        let Expr::Identifier(name) = &*expr else { return self.expressions(expr) };
        let name = folded(name);
        let labels = items.iter().filter_map(|item| match item {
            SelectItem::UnnamedExpr(value) => Some((item, value, semantics::label(value))),
            SelectItem::ExprWithAlias { expr, alias } => Some((item, expr, folded(alias))),
            _ => None,
        });
        let mut found = labels.filter(|(_, _, label)| *label == name);
        let Some((item, value, _)) = found.next() else { return self.expressions(expr) };
        if found.any(|(_, other, _)| other != value) {
            return Err(Error::new(ErrorKind::AmbiguousColumn, format!("ORDER BY \"{name}\" is ambiguous")));
        }
        // Beside columns of its name that are not among the items, DataFusion would not know which is meant.
        if let (SelectItem::UnnamedExpr(_), Expr::CompoundIdentifier(_)) = (item, value) {
            *expr = value.clone();
        }
        Ok(())
    }

    /// A table of FROM with its joins. `before` are the tables to the left of it.
    fn joined(&mut self, from: &mut TableWithJoins, before: &Scope) -> Result<Scope> {
        let mut left = self.factor(&mut from.relation, before)?;
        for join in &mut from.joins {
            let mut visible = before.clone();
            visible.extend(left.clone());
            let right = self.factor(&mut join.relation, &visible)?;
            left = self.join(left, right, join)?;
        }
        Ok(left)
    }

    fn join(&mut self, mut left: Scope, right: Scope, join: &mut Join) -> Result<Scope> {
        use JoinOperator as J;
        let asof = join.global || matches!(join.join_operator, J::AsOf { .. });
        let (keeps, constraint) = match &mut join.join_operator {
            J::Join(constraint) | J::Inner(constraint) | J::CrossJoin(constraint) => (Side::Neither, constraint),
            J::Left(constraint) | J::LeftOuter(constraint) | J::AsOf { constraint, .. } => (Side::Left, constraint),
            J::Right(constraint) | J::RightOuter(constraint) => (Side::Right, constraint),
            J::FullOuter(constraint) => (Side::Both, constraint),
            _ => {
                left.extend(Scope::unknown());
                return Ok(left);
            }
        };
        let mut right = right;
        if matches!(keeps, Side::Left | Side::Both) {
            right.make_nullable();
        }
        if matches!(keeps, Side::Right | Side::Both) {
            left.make_nullable();
        }
        let names = match constraint {
            JoinConstraint::Using(names) => Some(names.iter().map(column_name).collect::<Result<Vec<_>>>()?),
            JoinConstraint::Natural => Some(left.common_names(&right)?),
            JoinConstraint::On(_) | JoinConstraint::None => None,
        };
        match names {
            Some(names) if asof => left.extend(right.without(&names)),
            Some(names) => {
                let (joined, condition) = left.merged(right, &names, keeps)?;
                // NATURAL without a common column pairs every row with every other.
                *constraint = JoinConstraint::On(condition.unwrap_or_else(always));
                return Ok(joined);
            }
            None => left.extend(right),
        }
        self.scopes.push(left);
        let resolved = self.expressions(&mut join.join_operator);
        let left = self.scopes.pop().unwrap_or_default();
        resolved.map(|()| left)
    }

    fn factor(&mut self, factor: &mut TableFactor, before: &Scope) -> Result<Scope> {
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let columns = renamed_by(self.table(name)?, alias.as_ref());
                let path = || name.0.iter().filter_map(|part| part.as_ident().cloned()).collect();
                let qualifier: Vec<Ident> = alias.as_ref().map_or_else(path, |alias| vec![alias.name.clone()]);
                Ok(Scope::of_table(&qualifier, columns))
            }
            TableFactor::Derived { lateral, subquery, alias, .. } => {
                let output =
                    if *lateral { self.beside(before, |it| it.query(subquery))? } else { self.query(subquery)? };
                let alias = alias.get_or_insert_with(|| self.fresh_name());
                Ok(Scope::of_table(std::slice::from_ref(&alias.name), renamed(output, alias)))
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let scope = self.joined(table_with_joins, before)?;
                match alias {
                    None => Ok(scope),
                    Some(alias) => {
                        let columns = scope.columns.iter().map(|column| (column.name.clone(), column.ty)).collect();
                        let output = renamed((!scope.open).then_some(columns), alias);
                        let named = Scope::of_table(std::slice::from_ref(&alias.name), output);
                        *factor = derived(&scope, table_with_joins, alias)?;
                        Ok(named)
                    }
                }
            }
            TableFactor::Function { .. } | TableFactor::UNNEST { .. } | TableFactor::Table { .. } => {
                self.beside(before, |it| it.expressions(factor))?;
                self.function(factor)
            }
            _ => Ok(Scope::unknown()),
        }
    }

    /// A function in FROM: one that reads a table has its columns, another those that its alias names.
    fn function(&self, factor: &mut TableFactor) -> Result<Scope> {
        if let TableFactor::Table { name, alias, args: Some(args), .. } = factor
            && let Some(read) = (self.columns)(name, Some(&args.args))?
        {
            // As in Postgres a function is called by its name.
            let own = || name.0.last().and_then(|part| part.as_ident().cloned()).unwrap_or_else(|| Ident::new("f"));
            let alias =
                alias.get_or_insert_with(|| TableAlias { explicit: true, name: own(), columns: Vec::new(), at: None });
            return Ok(Scope::of_table(std::slice::from_ref(&alias.name), renamed(Some(read), alias)));
        }
        let (TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::Table { alias, .. }) = factor
        else {
            return Ok(Scope::unknown());
        };
        let Some(alias) = alias else { return Ok(Scope::unknown()) };
        let columns: Vec<Named> = alias.columns.iter().map(|column| (folded(&column.name), None)).collect();
        Ok(Scope::of_table(std::slice::from_ref(&alias.name), (!columns.is_empty()).then_some(columns)))
    }

    /// The columns of a table, a view or a table of WITH.
    fn table(&self, name: &ObjectName) -> Result<Output> {
        if let Some((None, name)) = parts_of(name)
            && let Some((_, output)) = self.ctes.iter().rev().find(|(cte, _)| *cte == name)
        {
            return Ok(output.clone());
        }
        (self.columns)(name, None)
    }

    fn fresh_name(&mut self) -> TableAlias {
        self.named += 1;
        let name = Ident::with_quote('"', format!("\u{1}{}", self.named));
        TableAlias { explicit: true, name, columns: Vec::new(), at: None }
    }

    /// Does something where the tables to the left are visible too.
    fn beside<T>(&mut self, before: &Scope, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.scopes.push(before.clone());
        let done = work(self);
        self.scopes.pop();
        done
    }

    /// Resolves the bare names of expressions, and the queries in them.
    fn expressions(&mut self, part: &mut impl VisitMut) -> Result<()> {
        match part.visit(&mut Uses { resolver: self, depth: 0 }) {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(()),
        }
    }

    /// What becomes of an expression whose parts are resolved.
    fn changed(&self, expr: &mut Expr) -> Result<()> {
        match expr {
            Expr::Identifier(name) => {
                if let Some(value) = self.meaning(name)? {
                    *expr = value;
                }
            }
            Expr::Function(function) => {
                if let FunctionArguments::List(list) = &mut function.args {
                    list.args.iter_mut().for_each(|arg| self.whole_row(arg));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// `f(t.*)` as `f(t)`.
    fn whole_row(&self, arg: &mut FunctionArg) {
        let FunctionArg::Unnamed(inner) = arg else { return };
        if let FunctionArgExpr::QualifiedWildcard(name) = inner
            && let Some((_, name)) = parts_of(name)
            && let Some(row) = self.row(&name)
        {
            *inner = FunctionArgExpr::Expr(row);
        }
    }

    /// `t.*` as one value.
    fn row(&self, name: &str) -> Option<Expr> {
        self.scopes.iter().rev().find_map(|scope| scope.row(name))
    }

    /// `t IS NULL` of a whole row; `t` may be a column unless it is written as `t.*`.
    fn row_is_null(&self, name: &Ident, is_row: bool, negated: bool) -> Option<Expr> {
        let folded = folded(name);
        for scope in self.scopes.iter().rev() {
            if !is_row && (scope.open || scope.named(&folded).next().is_some()) {
                return None;
            }
            if let Some(test) = scope.row_is_null(&folded, negated) {
                return Some(test);
            }
        }
        None
    }

    /// What a bare name stands for, if it is a merged column or a table's whole row.
    fn meaning(&self, name: &Ident) -> Result<Option<Expr>> {
        let folded = folded(name);
        for (depth, scope) in self.scopes.iter().enumerate().rev() {
            let mut found = scope.named(&folded);
            match (found.next(), found.next()) {
                (Some(first), second) => {
                    let merged = first.merged || second.is_some_and(|column| column.merged);
                    if merged && second.is_some() {
                        let message = format!("column reference \"{folded}\" is ambiguous");
                        return Err(Error::new(ErrorKind::AmbiguousColumn, message));
                    }
                    return Ok(merged.then(|| first.value.clone()));
                }
                (None, _) if scope.row(&folded).is_some() => return Ok(scope.row(&folded)),
                (None, _) if scope.open => {
                    let outer = self.scopes[..depth].iter().flat_map(|scope| scope.named(&folded));
                    return if outer.into_iter().any(|column| column.merged) {
                        Err(not_known("JOIN USING"))
                    } else {
                        Ok(None)
                    };
                }
                (None, _) => {}
            }
        }
        Ok(None)
    }
}

/// Visits the expressions of one query; those within are the resolver's.
struct Uses<'a, 'b> {
    resolver: &'a mut Resolver<'b>,
    depth: usize,
}

impl VisitorMut for Uses<'_, '_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        self.depth += 1;
        if self.depth > 1 {
            return ControlFlow::Continue(());
        }
        match self.resolver.query(query) {
            Ok(_) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        hide_fields(expr);
        let test = match &mut *expr {
            Expr::Exists { subquery, .. } => {
                without_star(subquery);
                None
            }
            Expr::IsNull(inner) | Expr::IsNotNull(inner) => row_name(inner).map(|name| (name, is_row(inner))),
            Expr::QualifiedWildcard(..) => {
                if let Some(name) = row_name(expr) {
                    *expr = self.resolver.row(&folded(&name)).unwrap_or(Expr::Identifier(name));
                }
                None
            }
            _ => None,
        };
        let negated = matches!(expr, Expr::IsNotNull(_));
        if let Some(test) = test.and_then(|(name, is_row)| self.resolver.row_is_null(&name, is_row, negated)) {
            *expr = test;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        show_fields(expr);
        match self.resolver.changed(expr) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// The name of what may be a table's whole row: `t`, `t.*`, `(t.*)`.
fn row_name(expr: &Expr) -> Option<Ident> {
    match expr {
        Expr::Identifier(name) => Some(name.clone()),
        Expr::QualifiedWildcard(name, _) => name.0.last()?.as_ident().cloned(),
        Expr::Nested(inner) => row_name(inner),
        _ => None,
    }
}

/// Whether a [`row_name`] is written as a row.
fn is_row(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_row(inner),
        expr => matches!(expr, Expr::QualifiedWildcard(..)),
    }
}

/// Makes the name after a point, which is a field's, a path, so that it is not taken for a column's.
fn hide_fields(expr: &mut Expr) {
    let Expr::CompoundFieldAccess { access_chain, .. } = expr else { return };
    for access in access_chain {
        if let AccessExpr::Dot(field @ Expr::Identifier(_)) = access
            && let Expr::Identifier(name) = &*field
        {
            *field = Expr::CompoundIdentifier(vec![name.clone()]);
        }
    }
}

/// Undoes [`hide_fields`].
fn show_fields(expr: &mut Expr) {
    let Expr::CompoundFieldAccess { access_chain, .. } = expr else { return };
    for access in access_chain {
        if let AccessExpr::Dot(Expr::CompoundIdentifier(path)) = access
            && let [name] = path.as_slice()
        {
            *access = AccessExpr::Dot(Expr::Identifier(name.clone()));
        }
    }
}

/// `EXISTS (SELECT * …)` as `EXISTS (SELECT 1 …)`: nobody asks for the columns, whose names may clash with others.
fn without_star(query: &mut Query) {
    if let SetExpr::Select(select) = query.body.as_mut()
        && let [item @ SelectItem::Wildcard(_)] = select.projection.as_mut_slice()
    {
        *item = SelectItem::UnnamedExpr(Expr::Value(ast::Value::Number("1".into(), false).into()));
    }
}

/// A column that keeps its label whatever stands for it.
fn labelled(expr: Expr, label: &str) -> SelectItem {
    if semantics::label(&expr) == label {
        return SelectItem::UnnamedExpr(expr);
    }
    SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', label) }
}

/// The one name that USING takes.
fn column_name(name: &ObjectName) -> Result<String> {
    match parts_of(name) {
        Some((None, name)) => Ok(name),
        _ => Err(Error::new(ErrorKind::Syntax, format!("USING takes names of columns, not {name}"))),
    }
}

/// The columns under the names that an alias gives the first of them.
fn renamed(output: Output, alias: &TableAlias) -> Output {
    let mut columns = output?;
    for ((name, _), given) in columns.iter_mut().zip(&alias.columns) {
        *name = folded(&given.name);
    }
    Some(columns)
}

fn renamed_by(output: Output, alias: Option<&TableAlias>) -> Output {
    match alias {
        Some(alias) => renamed(output, alias),
        None => output,
    }
}

/// `(a JOIN b …) AS j` as a subquery: its tables have no other name outside.
fn derived(scope: &Scope, from: &TableWithJoins, alias: &TableAlias) -> Result<TableFactor> {
    if scope.open {
        return Err(not_known("JOIN USING"));
    }
    let Expr::Subquery(mut query) = semantics::parsed("(SELECT 1)")? else {
        return Err(Error::internal("a subquery that is none"));
    };
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = scope.columns.iter().map(|column| labelled(column.value.clone(), &column.name)).collect();
        select.from = vec![from.clone()];
    }
    Ok(TableFactor::Derived { lateral: false, subquery: query, alias: Some(alias.clone()), sample: None })
}

fn always() -> Expr {
    Expr::Value(ast::Value::Boolean(true).into())
}
