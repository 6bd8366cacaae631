//! What a query reads, as whom, and whether that is allowed.
//!
//! The names of a query are noted while they are resolved ([`Reading`]), so that nothing that is read can be missed:
//! tables and views, those of `cells()` too, and what a view reads, which is read as the view's owner. The list stays
//! with the plan ([`Read`]) and is checked each time that the plan is used.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::TableReference;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use keyspan_model::{
    Catalog, ColumnId, Error, ErrorKind, Object, Principal, Right, RoleId, TableDef, TableId, ViewDef,
};

use crate::context::QueryContext;
use crate::family::{EXPIRES_AT, is_cells};
use crate::spans::{CTID, ROW_KEY};
use crate::table::KeyspanTable;

/// As whom something is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Whoever runs the query.
    Asker,
    /// The owner of the view whose query names it; none: a superuser.
    ViewOwner(Option<RoleId>),
}

/// A table or view that a query reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    relation: TableId,
    keyspace: String,
    reader: Reader,
    /// The columns that are read, where some columns of the table may be read apart from others; none: all of them.
    columns: Option<BTreeSet<ColumnId>>,
}

/// Notes what the names of a query stand for. Clones note into one list.
#[derive(Clone, Debug)]
pub struct Reading {
    reader: Reader,
    reads: Arc<Mutex<Vec<Read>>>,
}

impl Default for Reading {
    fn default() -> Self {
        Reading { reader: Reader::Asker, reads: Arc::default() }
    }
}

impl Reading {
    /// The same list for the query of a view.
    pub fn within(&self, view: &ViewDef, catalog: &Catalog) -> Reading {
        let owner = catalog.rights.relations.get(&view.id).copied();
        Reading { reader: Reader::ViewOwner(owner), reads: self.reads.clone() }
    }

    /// Notes a table.
    pub fn table(&self, table: &TableDef) {
        self.note(table.id, &table.keyspace);
    }

    /// Notes a view.
    pub fn view(&self, view: &ViewDef) {
        self.note(view.id, &view.keyspace);
    }

    fn note(&self, relation: TableId, keyspace: &str) {
        let read = Read { relation, keyspace: keyspace.to_owned(), reader: self.reader, columns: None };
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        if !reads.contains(&read) {
            reads.push(read);
        }
    }

    /// What was noted for this plan: of tables whose columns may be read apart from each other, with the columns. So
    /// many of the answer's first ones are not judged.
    ///
    /// # Errors
    /// Those of walking the plan.
    pub fn of_plan(&self, plan: &LogicalPlan, catalog: &Catalog, unjudged: usize) -> Result<Vec<Read>> {
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for read in reads.iter_mut().filter(|read| catalog.has_column_grants(read.relation)) {
            if let (Reader::Asker, Some(table)) = (read.reader, catalog.tables.get(&read.relation)) {
                read.columns = columns_read(plan, table, unjudged)?;
            }
        }
        Ok(reads)
    }
}

/// Fails with 42501 unless all of this may be read in this context.
///
/// # Errors
/// 42501, as PostgreSQL words it.
pub fn check(reads: &[Read], context: &QueryContext) -> keyspan_model::Result<()> {
    let (asker, catalog) = (context.info.principal, context.snapshot.catalog());
    reads.iter().try_for_each(|read| {
        let principal = match read.reader {
            Reader::Asker => asker,
            Reader::ViewOwner(owner) => owner.map_or(Principal::Owner, Principal::Role),
        };
        check_read(read, principal, catalog)?;
        // What was revoked since the snapshot was taken is revoked; what was dropped since is read on.
        let newest = context.newest.as_deref().filter(|newest| newest.kind_and_name(read.relation).is_some());
        newest.map_or(Ok(()), |newest| check_read(read, principal, newest))
    })
}

fn check_read(read: &Read, principal: Principal, catalog: &Catalog) -> keyspan_model::Result<()> {
    if !catalog.may_use(principal, &read.keyspace) {
        let message = format!("permission denied for schema {}", read.keyspace);
        return Err(Error::new(ErrorKind::Unauthorized, message));
    }
    let whole = catalog.allows(principal, &Object::Relation(read.relation), Right::Select);
    let column = |id: &ColumnId| catalog.allows(principal, &Object::Column(read.relation, *id), Right::Select);
    let allowed = match &read.columns {
        _ if whole => true,
        None => false,
        // Whoever counts rows must be allowed to read something of them.
        Some(columns) if columns.is_empty() => catalog.may_see(principal, read.relation),
        Some(columns) => columns.iter().all(column),
    };
    if allowed {
        return Ok(());
    }
    let (kind, name) = catalog.kind_and_name(read.relation).unwrap_or(("relation", ""));
    Err(Error::new(ErrorKind::Unauthorized, format!("permission denied for {kind} {name}")))
}

/// The columns of a table that a plan, not yet optimized, names; none if all of them may be asked for.
fn columns_read(plan: &LogicalPlan, table: &TableDef, unjudged: usize) -> Result<Option<BTreeSet<ColumnId>>> {
    let mut names = BTreeSet::new();
    let mut qualifiers = Vec::new();
    if !collect_qualifiers(plan, table, true, &mut qualifiers)? {
        return Ok(None);
    }
    match plan {
        LogicalPlan::Projection(answer) if unjudged > 0 => {
            let is_judged = |(place, expr): &(usize, &Expr)| *place >= unjudged || !matches!(expr, Expr::Column(_));
            let mut judged = answer.expr.iter().enumerate().filter(is_judged);
            judged.try_for_each(|(_, expr)| names_of(expr, &qualifiers, &mut names))?;
            collect_names(&answer.input, &qualifiers, &mut names)?;
        }
        _ => collect_names(plan, &qualifiers, &mut names)?,
    }
    let by_name = |name: &str| {
        let family = || table.family(name).map(|family| family.value.id);
        table.column(name).map(|column| column.id).or_else(family)
    };
    let ids = names.iter().filter_map(|(qualified, name)| match by_name(name) {
        Some(id) => Some(Some(id)),
        // A pseudo column may show any; other names without a qualifier are of what was computed.
        None => (*qualified || is_pseudo(name) || is_cells(table) && name == EXPIRES_AT).then_some(None),
    });
    Ok(ids.collect())
}

fn is_pseudo(name: &str) -> bool {
    matches!(name, ROW_KEY | CTID) || name.starts_with("writetime(") || name.starts_with("ttl(")
}

/// Collects under which names the table is read. False where its rows reach `plan`'s output as they are (`whole`).
fn collect_qualifiers(
    plan: &LogicalPlan,
    table: &TableDef,
    whole: bool,
    qualifiers: &mut Vec<TableReference>,
) -> Result<bool> {
    let mut narrowed = true;
    if let LogicalPlan::TableScan(scan) = plan
        && is_scan_of(plan, table)
    {
        qualifiers.push(scan.table_name.clone());
        return Ok(!whole);
    }
    if let LogicalPlan::SubqueryAlias(alias) = plan
        && gives_columns_of(&alias.input, table)
    {
        qualifiers.push(alias.alias.clone());
    }
    let whole = whole && !matches!(plan, LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_));
    for input in plan.inputs() {
        narrowed &= collect_qualifiers(input, table, whole, qualifiers)?;
    }
    plan.apply_expressions(|expr| {
        expr.apply(|expr| {
            if let Some(subquery) = subquery_of(expr) {
                narrowed &= collect_qualifiers(subquery, table, true, qualifiers)?;
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(narrowed)
}

/// Whether columns of the table are columns of the plan as they are, such as those of a join in parentheses.
fn gives_columns_of(plan: &LogicalPlan, table: &TableDef) -> bool {
    match plan {
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) => false,
        _ => is_scan_of(plan, table) || plan.inputs().into_iter().any(|input| gives_columns_of(input, table)),
    }
}

fn is_scan_of(plan: &LogicalPlan, table: &TableDef) -> bool {
    let LogicalPlan::TableScan(scan) = plan else { return false };
    let provider = source_as_provider(&scan.source).ok();
    let own = provider.as_ref().and_then(|provider| provider.downcast_ref::<KeyspanTable>());
    own.is_some_and(|own| own.definition().id == table.id)
}

fn subquery_of(expr: &Expr) -> Option<&LogicalPlan> {
    match expr {
        Expr::ScalarSubquery(subquery) => Some(&subquery.subquery),
        Expr::InSubquery(subquery) => Some(&subquery.subquery.subquery),
        Expr::Exists(exists) => Some(&exists.subquery.subquery),
        Expr::SetComparison(comparison) => Some(&comparison.subquery.subquery),
        _ => None,
    }
}

/// Collects the names of columns with one of these qualifiers, or with none, and whether they have one.
fn collect_names(
    plan: &LogicalPlan,
    qualifiers: &[TableReference],
    names: &mut BTreeSet<(bool, String)>,
) -> Result<()> {
    plan.apply_with_subqueries(|plan| {
        plan.apply_expressions(|expr| {
            own_names(expr, qualifiers, names)?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(())
}

/// As [`collect_names`], of an expression and its subqueries.
fn names_of(expr: &Expr, qualifiers: &[TableReference], names: &mut BTreeSet<(bool, String)>) -> Result<()> {
    own_names(expr, qualifiers, names)?;
    expr.apply(|part| {
        subquery_of(part).map_or(Ok(()), |subquery| collect_names(subquery, qualifiers, names))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// As [`collect_names`], of an expression without its subqueries.
fn own_names(expr: &Expr, qualifiers: &[TableReference], names: &mut BTreeSet<(bool, String)>) -> Result<()> {
    expr.apply(|part| {
        if let Expr::Column(column) | Expr::OuterReferenceColumn(_, column) = part
            && column.relation.as_ref().is_none_or(|relation| qualifiers.contains(relation))
        {
            names.insert((column.relation.is_some(), column.name.clone()));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}
