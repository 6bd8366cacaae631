//! The Postgres wire server of Keyspan: any Postgres client talks to a [`Server`] over TCP.
//!
//! - [`server`]: listening, accepting, counting connections, cancel requests and shutdown.
//! - `startup`: from the first byte of a connection to its first ReadyForQuery; every error there is fatal.
//! - `connection`: the loop that reads a request and answers it; `simple`, `extended` and `copy` are its three parts.
//! - `portal`: prepared statements and portals of the extended protocol.
//! - `frame` and `request`: bytes from the socket, checked, as messages; no bytes can panic or reserve memory unread.
//! - `output` and `rows`: messages and rows to the socket, flushed by bytes, so that memory stays bounded.
//! - `types`: values in Postgres' text and binary formats.
//!
//! Messages are `pgwire`'s. Its server loop is not used: `wire_tests/defects.rs` has a test for each defect that was
//! measured in it.

pub mod access;
mod authentication;
mod connection;
mod control;
mod copy;
mod encoding;
mod engine;
mod extended;
mod failure;
mod frame;
mod output;
mod portal;
mod request;
mod rows;
#[cfg(test)]
mod scripted;
pub mod server;
mod simple;
mod startup;
pub mod tls;
mod traffic;
mod transport;
mod types;
#[cfg(test)]
mod wire_tests;

pub use access::{Access, AccessRules};
pub use server::{RunningServer, Server, ServerOptions, ServerWatch};
pub use tls::Tls;
pub use traffic::ConnectionMetrics;
