//! Changes to a query's tree before it is planned.
//!
//! - `WRITETIME(x)`, `TTL(x)` become columns of those names, which tables then have; `*` leaves them out. Those of whole
//!   collections become subqueries ([`stamps`]).
//! - `PER PARTITION LIMIT n` becomes a QUALIFY over the partition key; `ANN OF` a similarity ([`ann`]).
//! - What merges the columns of joins comes before: [`crate::name_resolution`].
//! - Output columns that repeat a name get names of their own; the labels that Postgres gives are kept beside the plan.
//! - Columns of nested queries are named as Postgres names them, since the outer query refers to them by these names.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    self, Expr, Ident, ObjectName, Query, Select, SelectItem, SetExpr, TableFactor, Value, VisitMut, VisitorMut,
};
use keyspan_model::{ColumnRole, Error, Result, TableDef};

use super::expanded::expanded;
use super::{ambiguous, ann, from, order_by, stamps, token};
use crate::name_resolution::{self, Columns};
use crate::pg_catalog;
use crate::semantics::{self, TypeNames, label_of};
use crate::syntax::{QUERY, folded, parts_of, quote_ident, relations};
use crate::table::{KeyspanTable, Mentions};

/// Separates a name from the number that makes it unique. No name contains it.
pub(super) const MARK: char = '\u{1}';

/// How much is renamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// What repeats among the expressions of one SELECT.
    Usual,
    /// Every expression beside a `*`, because something in the `*` has its name, and every bare one of the outermost
    /// SELECT, because two may have become the same.
    RenameAll,
}

/// A query ready for planning.
pub struct Rewritten {
    /// The changed tree.
    pub query: Box<Query>,
    /// What it mentions.
    pub mentions: Mentions,
    /// Labels of its output.
    pub labels: Labels,
}

/// The labels of a query's output columns, as far as its text gives them.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    /// `None` stands for the columns of a `*`.
    pub(super) items: Vec<Option<String>>,
}

impl Labels {
    /// One label per column, given the names the plan has for them.
    pub fn settle(self, names: Vec<&str>) -> Vec<String> {
        let plain = |name: &str| name.split(MARK).next().unwrap_or_default().to_owned();
        let stars = self.items.iter().filter(|item| item.is_none()).count();
        let explicit = self.items.len() - stars;
        let fits = if stars == 0 { explicit == names.len() } else { stars == 1 && explicit <= names.len() };
        if !fits {
            return names.into_iter().map(plain).collect();
        }
        let mut labels = Vec::with_capacity(names.len());
        for item in self.items {
            match item {
                Some(label) => labels.push(label),
                None => {
                    let from = labels.len();
                    labels.extend(names[from..from + names.len() - explicit].iter().map(|name| plain(name)));
                }
            }
        }
        labels
    }
}

/// Finds the table of a name in FROM.
pub type Resolve<'a> = &'a dyn Fn(&ObjectName) -> Option<Arc<TableDef>>;

/// Changes a query for planning.
///
/// # Errors
/// 0A000 for combinations that are not done; those of [`TypeNames::resolve`], [`semantics::expand`],
/// [`name_resolution::resolve`] and [`semantics::rewrite_query`].
pub fn rewrite(
    query: &Query,
    types: &TypeNames<'_>,
    resolve: Resolve<'_>,
    columns: Columns<'_>,
    effort: Effort,
) -> Result<Rewritten> {
    let mut query = Box::new(query.clone());
    types.resolve(&mut query)?;
    pg_catalog::simplify(&mut query);
    stamps::of_whole(&mut query, resolve)?;
    semantics::expand(&mut query)?;
    name_resolution::resolve(&mut query, columns)?;
    let mut collector = Collector::default();
    let _ = query.visit(&mut collector);
    let mentions = Mentions { expanded: expanded(&query), ..collector.mentions };
    let (with, repeated, labels) = (HashSet::new(), ambiguous::OfWith::new(), Labels::default());
    let mut nested = Nested { resolve, with, repeated, mentions: &mentions, effort, depth: 0, labels };
    if let ControlFlow::Break(error) = query.visit(&mut nested) {
        return Err(error);
    }
    let labels = nested.labels;
    pg_catalog::rewrite_query(&mut query)?;
    // Last: it hides from the others what they look for.
    semantics::rewrite_query(&mut query)?;
    Ok(Rewritten { query, mentions, labels })
}

/// The labels of the leftmost SELECT, which no walk has renamed yet.
fn labels_of(body: &SetExpr) -> Option<Labels> {
    match body {
        SetExpr::Select(select) => Some(Labels { items: select.projection.iter().map(label_of).collect() }),
        SetExpr::SetOperation { left, .. } => labels_of(left),
        SetExpr::Query(query) => labels_of(&query.body),
        SetExpr::Values(values) => Some(labels_of_values(values)),
        _ => None,
    }
}

fn labels_of_values(values: &ast::Values) -> Labels {
    let columns = values.rows.first().map_or(0, |row| row.len());
    Labels { items: (1..=columns).map(|number| Some(format!("column{number}"))).collect() }
}

/// The number of a parameter `$n`.
fn parameter_number(name: &str) -> usize {
    name.strip_prefix('$').and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Collects mentioned names and makes columns of `WRITETIME` and `TTL`.
#[derive(Default)]
struct Collector {
    mentions: Mentions,
}

impl VisitorMut for Collector {
    type Break = Error;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if let Some(column) = cell_property(expr) {
            *expr = column;
        }
        match expr {
            Expr::Identifier(name) => {
                self.mentions.names.insert(folded(name));
            }
            Expr::CompoundIdentifier(names) => self.mentions.names.extend(names.last().map(folded)),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_value(&mut self, value: &mut ast::ValueWithSpan) -> ControlFlow<Error> {
        if let Value::Placeholder(name) = &value.value {
            self.mentions.parameters = self.mentions.parameters.max(parameter_number(name));
        }
        ControlFlow::Continue(())
    }
}

/// `writetime(t.x)` as the column `t."writetime(x)"`.
fn cell_property(expr: &Expr) -> Option<Expr> {
    let Expr::Function(function) = expr else { return None };
    let [part] = function.name.0.as_slice() else { return None };
    let name = folded(part.as_ident()?);
    if name != "writetime" && name != "ttl" {
        return None;
    }
    let ast::FunctionArguments::List(list) = &function.args else { return None };
    let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument))] = list.args.as_slice() else { return None };
    let pseudo = |column: &Ident| Ident::with_quote('"', format!("{name}({})", folded(column)));
    match argument {
        Expr::Identifier(column) => Some(Expr::Identifier(pseudo(column))),
        Expr::CompoundIdentifier(names) => {
            let (column, qualifier) = names.split_last()?;
            let mut names = qualifier.to_vec();
            names.push(pseudo(column));
            Some(Expr::CompoundIdentifier(names))
        }
        _ => None,
    }
}

/// Visits every query, the outermost first.
struct Nested<'a> {
    resolve: Resolve<'a>,
    /// The names that WITH has given so far.
    with: HashSet<String>,
    /// The names of columns that a WITH around has twice.
    repeated: ambiguous::OfWith,
    mentions: &'a Mentions,
    effort: Effort,
    depth: usize,
    labels: Labels,
}

impl VisitorMut for Nested<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let top = self.depth == 0;
        self.depth += 1;
        match self.query(query, top) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        ambiguous::remove_with(query, &mut self.repeated);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        match factor {
            TableFactor::Derived { subquery, alias, .. } if !is_made(alias.as_ref()) => {
                columns_of_others_named(subquery);
                order_by::named_outside(subquery).map_or_else(ControlFlow::Break, ControlFlow::Continue)
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        ann::check_place(expr).map_or_else(ControlFlow::Break, ControlFlow::Continue)
    }
}

impl Nested<'_> {
    fn query(&mut self, query: &mut Query, top: bool) -> Result<()> {
        per_partition_limit(query, self.resolve)?;
        self.with.extend(from::names_of_with(query));
        ambiguous::add_with(query, &mut self.repeated);
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            columns_of_others_named(&mut cte.query);
            order_by::named_outside(&mut cte.query)?;
        }
        ann::order(query, &self.with, self.resolve)?;
        let mut labels = None;
        let mut outermost = true;
        let mut bodies = vec![&mut *query.body];
        while let Some(body) = bodies.pop() {
            match body {
                SetExpr::Select(select) => {
                    let found = self.select(select, top && outermost)?;
                    labels = labels.or(Some(found));
                    outermost = false;
                }
                // The leftmost SELECT names the columns, so it must come off the stack first.
                SetExpr::SetOperation { left, right, .. } => bodies.extend([&mut **right, &mut **left]),
                SetExpr::Query(query) => {
                    labels = labels.or_else(|| labels_of(&query.body));
                    order_by::named_outside(query)?;
                }
                SetExpr::Values(values) => labels = labels.or_else(|| Some(labels_of_values(values))),
                _ => {}
            }
        }
        let labels = labels.unwrap_or_default();
        order_by::hidden(query, &labels, top);
        order_by::labels(query, &labels)?;
        order_by::computed(query, &labels);
        if top && self.labels.items.is_empty() {
            self.labels = labels;
        }
        Ok(())
    }

    fn select(&self, select: &mut Select, top: bool) -> Result<Labels> {
        token::check(select, self.resolve)?;
        ambiguous::check(select, &self.repeated)?;
        stars_with_schema(select);
        self.hide_pseudo_columns(select)?;
        let stars = select.projection.iter().any(is_star);
        let mut seen: BTreeSet<String> = BTreeSet::new();
        // Of names that are given: whether with their table. `t.x` beside `x` may be the same column, or clash with it.
        let mut with_table: BTreeMap<String, bool> = BTreeMap::new();
        let mut labels = Labels::default();
        let rest = if top { String::new() } else { clauses_text(select) };
        for (index, item) in select.projection.iter_mut().enumerate() {
            let Some(label) = label_of(item) else {
                labels.items.push(None);
                continue;
            };
            let given = match item {
                SelectItem::UnnamedExpr(expr) => is_name(bare(expr)),
                _ => true,
            };
            let compound =
                matches!(item, SelectItem::UnnamedExpr(expr) if matches!(bare(expr), Expr::CompoundIdentifier(_)));
            // The planner calls a subquery as its column.
            let subquery =
                matches!(item, SelectItem::UnnamedExpr(expr) if top && matches!(bare(expr), Expr::Subquery(_)));
            let clashes = given && *with_table.entry(label.clone()).or_insert(compound) != compound;
            let repeated = !seen.insert(planned_name(item, &label, given, top));
            if repeated || clashes || subquery || (self.effort == Effort::RenameAll && (stars || (top && !given))) {
                rename(item, format!("{label}{MARK}{index}"));
            } else if !top && !given && !rest.contains(&label) {
                rename(item, label.clone());
            }
            labels.items.push(Some(label));
        }
        Ok(labels)
    }

    /// Makes `*` leave out pseudo columns.
    fn hide_pseudo_columns(&self, select: &mut Select) -> Result<()> {
        if !select.projection.iter().any(is_star) {
            return Ok(());
        }
        let factors: Vec<&TableFactor> = relations(&select.from).collect();
        let hidden: Vec<(ObjectName, Vec<String>)> =
            factors.iter().filter_map(|factor| self.hidden_of(factor)).collect();
        if hidden.iter().all(|(_, names)| names.is_empty()) {
            return Ok(());
        }
        if hidden.len() != factors.len() {
            let message =
                "* beside a pseudo column (row_key, ctid, rowid, WRITETIME, TTL) is not supported in this FROM";
            return Err(Error::not_supported(message).with_hint("Name the columns instead of *."));
        }
        let items = std::mem::take(&mut select.projection);
        select.projection = items.into_iter().flat_map(|item| without_hidden(item, &hidden)).collect();
        Ok(())
    }

    /// How a factor is referred to, and the columns of it that `*` leaves out.
    fn hidden_of(&self, factor: &TableFactor) -> Option<(ObjectName, Vec<String>)> {
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let hidden =
                    (self.resolve)(name).map(|table| KeyspanTable::new(table, self.mentions).hidden().to_vec());
                let shown = match alias {
                    Some(alias) => ObjectName::from(vec![alias.name.clone()]),
                    None => name.clone(),
                };
                Some((shown, hidden.unwrap_or_default()))
            }
            TableFactor::Derived { alias: Some(alias), .. } => {
                Some((ObjectName::from(vec![alias.name.clone()]), Vec::new()))
            }
            _ => None,
        }
    }
}

/// The name of a relation in FROM.
fn name_of(factor: &TableFactor) -> Option<String> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. }
        | TableFactor::NestedJoin { alias: Some(alias), .. } => Some(folded(&alias.name)),
        TableFactor::Table { name, .. } => parts_of(name).map(|(_, name)| name),
        _ => None,
    }
}

/// Gives the columns of a nested query that are a query's around it their names, by which the planner would not call them.
fn columns_of_others_named(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let own: Vec<String> = relations(&select.from).filter_map(name_of).collect();
    for item in &mut select.projection {
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        let Expr::CompoundIdentifier(parts) = bare(expr) else { continue };
        let [.., table, column] = parts.as_slice() else { continue };
        if !own.contains(&folded(table)) {
            let name = folded(column);
            rename(item, name);
        }
    }
}

/// Whether a relation is one whose columns have their names from outside: its query has its own.
fn is_made(alias: Option<&ast::TableAlias>) -> bool {
    alias.is_some_and(|alias| alias.name.value == QUERY)
}

/// `SELECT t.* FROM s.t` as `SELECT s.t.*`: the planner looks for a table by its whole name.
fn stars_with_schema(select: &mut Select) {
    let Select { projection, from, .. } = select;
    for item in projection {
        let SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(star), _) = item else {
            continue;
        };
        let Some((None, table)) = parts_of(star) else { continue };
        let mut meant = relations(from).filter_map(|factor| match factor {
            TableFactor::Table { name, alias: None, args: None, .. } => {
                let (schema, own) = parts_of(name)?;
                (schema.is_some() && own == table).then(|| name.clone())
            }
            _ => None,
        });
        if let (Some(name), None) = (meant.next(), meant.next()) {
            *star = name;
        }
    }
}

fn without_hidden(item: SelectItem, hidden: &[(ObjectName, Vec<String>)]) -> Vec<SelectItem> {
    let exclude = |names: &[String], mut options: ast::WildcardAdditionalOptions| {
        if !names.is_empty() && options.opt_exclude.is_none() {
            let columns = names.iter().map(|name| ObjectName::from(vec![Ident::with_quote('"', name)]));
            options.opt_exclude = Some(ast::ExcludeSelectItem::Multiple(columns.collect()));
        }
        options
    };
    let qualified = |name: &ObjectName, options| {
        SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(name.clone()), options)
    };
    match item {
        SelectItem::Wildcard(options) => {
            hidden.iter().map(|(name, names)| qualified(name, exclude(names, options.clone()))).collect()
        }
        SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
            let same = |other: &ObjectName| parts_of(other).map(|p| p.1) == parts_of(&name).map(|p| p.1);
            let names = hidden.iter().find(|(other, _)| same(other)).map_or(&[][..], |(_, names)| names);
            vec![qualified(&name, exclude(names, options))]
        }
        other => vec![other],
    }
}

fn is_star(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
}

/// An expression without parentheses around it.
pub(super) fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => bare(inner),
        other => other,
    }
}

pub(super) fn is_name(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

/// The name under which the planner will know an item: for a bare expression of the outermost query, its text.
fn planned_name(item: &SelectItem, label: &str, given: bool, top: bool) -> String {
    match item {
        SelectItem::UnnamedExpr(expr) if top && !given => format!("{MARK}{expr}"),
        SelectItem::UnnamedExpr(expr) => match bare(expr) {
            Expr::CompoundIdentifier(names) => names.iter().map(folded).collect::<Vec<_>>().join("."),
            _ => label.to_owned(),
        },
        _ => label.to_owned(),
    }
}

pub(super) fn rename(item: &mut SelectItem, name: String) {
    let alias = Ident::with_quote('"', name);
    match item {
        SelectItem::UnnamedExpr(expr) => {
            let null = Expr::Value(Value::Null.into());
            *item = SelectItem::ExprWithAlias { expr: std::mem::replace(expr, null), alias };
        }
        SelectItem::ExprWithAlias { alias: old, .. } => *old = alias,
        _ => {}
    }
}

/// The clauses in which a new name for a column could change the meaning of an old one.
fn clauses_text(select: &Select) -> String {
    let having = select.having.as_ref().map(Expr::to_string).unwrap_or_default();
    format!("{} {having}", select.group_by).to_lowercase()
}

/// `PER PARTITION LIMIT n`, which the parser leaves among the query's settings, as a QUALIFY.
fn per_partition_limit(query: &mut Query, resolve: Resolve<'_>) -> Result<()> {
    let Some(settings) = &mut query.settings else { return Ok(()) };
    let setting = settings.iter().find(|setting| setting.key.value == "per_partition_limit");
    let Some(limit) = setting.map(|setting| setting.value.clone()) else { return Ok(()) };
    settings.retain(|setting| setting.key.value != "per_partition_limit");
    let refused =
        || Error::not_supported("PER PARTITION LIMIT needs a SELECT from one table, without GROUP BY or DISTINCT");
    let order = query.order_by.clone();
    let SetExpr::Select(select) = query.body.as_mut() else { return Err(refused()) };
    let [from] = select.from.as_slice() else { return Err(refused()) };
    let TableFactor::Table { name, .. } = &from.relation else { return Err(refused()) };
    let grouped = !matches!(&select.group_by, ast::GroupByExpr::Expressions(list, _) if list.is_empty());
    if !from.joins.is_empty() || grouped || select.distinct.is_some() || select.qualify.is_some() {
        return Err(refused());
    }
    let table = resolve(name).ok_or_else(refused)?;
    select.qualify = Some(first_rows(&table, limit, reversed(&table, order.as_ref()))?);
    Ok(())
}

/// Whether ORDER BY asks for the clustering order backwards.
fn reversed(table: &TableDef, order: Option<&ast::OrderBy>) -> bool {
    let Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(orders), .. }) = order else { return false };
    orders.iter().any(|order| {
        let Expr::Identifier(name) = &order.expr else { return false };
        let descending = order.options.asc == Some(false);
        match table.column(&folded(name)).map(|column| column.role) {
            Some(ColumnRole::Clustering { descending: key }) => key != descending,
            _ => false,
        }
    })
}

/// `row_number() OVER (PARTITION BY <partition key> ORDER BY <clustering columns>) <= n`.
fn first_rows(table: &TableDef, limit: Expr, reversed: bool) -> Result<Expr> {
    let partition: Vec<String> =
        table.key().take(table.partition_len()).map(|column| quote_ident(&column.name)).collect();
    let clustering: Vec<String> = table
        .key()
        .skip(table.partition_len())
        .map(|column| {
            let descending = matches!(column.role, ColumnRole::Clustering { descending: true }) != reversed;
            format!("{} {}", quote_ident(&column.name), if descending { "DESC" } else { "ASC" })
        })
        .collect();
    let order = if clustering.is_empty() { partition.join(", ") } else { clustering.join(", ") };
    let text = format!("row_number() OVER (PARTITION BY {} ORDER BY {order})", partition.join(", "));
    let dialect = datafusion::sql::sqlparser::dialect::PostgreSqlDialect {};
    let parsed = datafusion::sql::sqlparser::parser::Parser::new(&dialect).try_with_sql(&text);
    let number = parsed.and_then(|mut parser| parser.parse_expr());
    let number = number.map_err(|error| Error::internal(format!("{text}: {error}")))?;
    Ok(Expr::BinaryOp { left: Box::new(number), op: ast::BinaryOperator::LtEq, right: Box::new(limit) })
}
