//! The server over raw frames: the nine measured defects of the stock loop, the two protocols, fuzzed bytes,
//! strangers.

mod client;
mod defects;
mod driver;
mod fuzz;
mod protocol;
mod security;
