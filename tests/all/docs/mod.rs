//! The pages for readers: their SQL runs, their links lead somewhere, their lines fit, and what is made from the program
//! is up to date.

mod links;
mod page;
mod settings;
mod sql;
mod style;
