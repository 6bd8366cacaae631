//! Windows by name: `OVER w`, `OVER (w ROWS 1 PRECEDING)`, `WINDOW w2 AS (w ORDER BY x)`.
//!
//! DataFusion forgets what a named window has where something is added to it, and knows none in ORDER BY. So every name is
//! replaced by what it stands for, as PostgreSQL does: the partition and the order are the named window's, the frame is not.

use std::collections::BTreeMap;

use crate::syntax::folded;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, NamedWindowDefinition, NamedWindowExpr, Select, WindowSpec, WindowType,
};
use keyspan_model::{Error, ErrorKind, Result};

/// The named windows of the queries around an expression, while a tree is walked.
#[derive(Default)]
pub struct WindowNames {
    scopes: Vec<BTreeMap<String, WindowSpec>>,
}

impl WindowNames {
    /// A query begins.
    pub fn enter(&mut self) {
        self.scopes.push(BTreeMap::new());
    }

    /// The query ends; its ORDER BY knows the windows of its SELECT.
    pub fn leave(&mut self) {
        self.scopes.pop();
    }

    /// Takes the windows out of a SELECT.
    ///
    /// # Errors
    /// 42P20 for a name that is given twice, and as [`WindowNames::resolve`].
    pub fn define(&mut self, select: &mut Select) -> Result<()> {
        let mut windows = BTreeMap::new();
        for NamedWindowDefinition(name, window) in std::mem::take(&mut select.named_window) {
            let spec = match window {
                NamedWindowExpr::NamedWindow(other) => find(&windows, &other)?.clone(),
                NamedWindowExpr::WindowSpec(spec) => whole(&windows, spec)?,
            };
            if windows.insert(folded(&name), spec).is_some() {
                let message = format!("window \"{}\" is already defined", folded(&name));
                return Err(Error::new(ErrorKind::Windowing, message));
            }
        }
        if let Some(scope) = self.scopes.last_mut() {
            *scope = windows;
        }
        Ok(())
    }

    /// Puts the window in the place of its name.
    ///
    /// # Errors
    /// 42704 for a name that no window has; 42P20 for what cannot be added to a named window.
    pub fn resolve(&self, expr: &mut Expr) -> Result<()> {
        let Expr::Function(function) = expr else { return Ok(()) };
        let none = BTreeMap::new();
        let windows = self.scopes.last().unwrap_or(&none);
        let spec = match function.over.take() {
            Some(WindowType::NamedWindow(name)) => find(windows, &name)?.clone(),
            Some(WindowType::WindowSpec(spec)) => whole(windows, spec)?,
            None => return Ok(()),
        };
        function.over = Some(WindowType::WindowSpec(spec));
        Ok(())
    }
}

fn find<'a>(windows: &'a BTreeMap<String, WindowSpec>, name: &Ident) -> Result<&'a WindowSpec> {
    windows
        .get(&folded(name))
        .ok_or_else(|| Error::new(ErrorKind::UndefinedObject, format!("window \"{}\" does not exist", folded(name))))
}

/// A window with what it takes from the one that it names.
fn whole(windows: &BTreeMap<String, WindowSpec>, mut spec: WindowSpec) -> Result<WindowSpec> {
    let Some(name) = spec.window_name.take() else { return Ok(spec) };
    let named = find(windows, &name)?;
    let refused = |what: &str| {
        let message = format!("cannot {what} of window \"{}\"", folded(&name));
        Err(Error::new(ErrorKind::Windowing, message))
    };
    if !spec.partition_by.is_empty() {
        return refused("override PARTITION BY clause");
    }
    if !spec.order_by.is_empty() && !named.order_by.is_empty() {
        return refused("override ORDER BY clause");
    }
    if named.window_frame.is_some() {
        let message = format!("cannot copy window \"{}\" because it has a frame clause", folded(&name));
        return Err(Error::new(ErrorKind::Windowing, message).with_hint("Omit the parentheses in this OVER clause."));
    }
    spec.partition_by = named.partition_by.clone();
    if spec.order_by.is_empty() {
        spec.order_by = named.order_by.clone();
    }
    Ok(spec)
}
