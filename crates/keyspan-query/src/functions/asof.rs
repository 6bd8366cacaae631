//! The mark of an ASOF join's condition ([`crate::asof`]).

use keyspan_model::{ColumnType, Error};

use super::overload::{Code, Overload, Parameter};

/// Stands around the condition of such a join.
pub const MARK: &str = "asof_match";

/// The mark, which never runs.
pub fn functions() -> Vec<Overload> {
    let never: Code = |_, _| Err(Error::internal("an ASOF join was not planned"));
    vec![Overload::new(MARK, &[Parameter::Is(ColumnType::Boolean)], ColumnType::Boolean, never).volatile()]
}
