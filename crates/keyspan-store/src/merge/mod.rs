//! Bringing versions together: the rules that say which version of a cell wins, and the merge of sorted runs.

pub mod rules;
