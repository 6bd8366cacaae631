//! What names mean, as far as DataFusion does not find it out: JOIN USING and NATURAL JOIN as JOIN … ON, each use of a
//! merged column as what stands for it; a table's whole row as one value.
//!
//! ```text
//! a JOIN b USING (id)          a JOIN b ON a.id = b.id        id ─▶ a.id
//! a LEFT JOIN b USING (id)     a LEFT JOIN b ON …             id ─▶ a.id
//! a RIGHT JOIN b USING (id)    a RIGHT JOIN b ON …            id ─▶ b.id
//! a FULL JOIN b USING (id)     a FULL JOIN b ON …             id ─▶ coalesce(a.id, b.id)
//! SELECT *                     SELECT a.id, a.x, b.y          merged columns first, as Postgres has them
//! to_jsonb(a), count(a.*)      to_jsonb(whole_row('id', a.id, 'x', a.x))
//! ```
//!
//! DataFusion has no merged columns: it takes the left side's, does not find them in subqueries, and so binds their
//! names to the enclosing query. Here names are resolved as far as that needs: which columns each table, subquery and
//! WITH has, and which FROM a bare name belongs to. What comes out has joins with ON only.
//!
//! - `scope`: the columns of FROM, and what joins make of them.
//! - `resolver`: the walk through a query.
//!
//! The rule kept: where the columns of something are not known (a function in FROM whose alias does not name them), a
//! query whose meaning depends on them is refused.

mod resolver;
mod scope;

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, JoinConstraint, JoinOperator, ObjectName, Query, Select,
    TableFactor, Visit, Visitor,
};
use keyspan_model::{ColumnType, Result};

use crate::syntax::{folded, parts_of};

/// A column's name and its type, as far as that is known without planning.
pub type Named = (String, Option<ColumnType>);

/// The shown columns of a table, a view, or a function that reads a table, by its name and its arguments in FROM; none of
/// another function. Its errors say that there is no such table.
pub type Columns<'a> = &'a dyn Fn(&ObjectName, Option<&[FunctionArg]>) -> Result<Option<Vec<Named>>>;

/// Changes a query so that no join merges columns.
///
/// # Errors
/// 42702 and 42703 for names in USING that fit several columns or none, and for uses of a merged column beside another
/// of its name; 0A000 where columns are not known.
pub fn resolve(query: &mut Query, columns: Columns<'_>) -> Result<()> {
    let mut tables = Tables::default();
    let _ = query.visit(&mut tables);
    if query.visit(&mut Search { tables: tables.names }).is_continue() {
        return Ok(());
    }
    resolver::Resolver::new(columns).query(query).map(drop)
}

/// Stops at a join that merges columns, and at a name that may be a table's whole row.
struct Search {
    /// Tables of the query, by their names in FROM.
    tables: HashSet<String>,
}

impl Visitor for Search {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let row = match expr {
            Expr::Identifier(name) => self.tables.contains(&folded(name)),
            Expr::QualifiedWildcard(..) => true,
            Expr::Function(function) => match &function.args {
                FunctionArguments::List(list) => list
                    .args
                    .iter()
                    .any(|arg| matches!(arg, FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(_)))),
                _ => false,
            },
            _ => false,
        };
        if row { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let merges = select.from.iter().flat_map(|from| &from.joins).any(|join| merges(&join.join_operator));
        if merges { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::NestedJoin { table_with_joins, .. }
                if table_with_joins.joins.iter().any(|join| merges(&join.join_operator)) =>
            {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Collects the names that tables have in FROM.
#[derive(Default)]
struct Tables {
    names: HashSet<String>,
}

impl Visitor for Tables {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let name = match factor {
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. }
            | TableFactor::NestedJoin { alias: Some(alias), .. } => Some(folded(&alias.name)),
            TableFactor::Table { name, args: None, .. } => parts_of(name).map(|(_, name)| name),
            _ => None,
        };
        self.names.extend(name);
        ControlFlow::Continue(())
    }
}

fn merges(operator: &JoinOperator) -> bool {
    use JoinOperator as J;
    let constraint = match operator {
        J::Join(c) | J::Inner(c) | J::Left(c) | J::LeftOuter(c) | J::Right(c) | J::RightOuter(c) | J::FullOuter(c) => c,
        _ => return false,
    };
    matches!(constraint, JoinConstraint::Using(_) | JoinConstraint::Natural)
}
