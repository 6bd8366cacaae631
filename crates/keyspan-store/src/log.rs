//! The commit log: every batch is in it, on disk, before it is acknowledged.
//!
//! Files `log/<first seq>.log`, each a header and then frames ([`frame`]); a **record** is one batch or one change of
//! the catalog, in one frame or in parts with a commit frame after them. Records stand in the order of their sequence
//! numbers, without gaps. One committer thread ([`committer`]) writes them in groups: whatever waits goes out in one
//! write and one fdatasync, then all of it is answered. [`replay`] reads them back; [`codec`] is what a record says.
//!
//! Rules: a failed write or sync poisons the log until the store is opened again, since it is unknown then what the
//! disk holds (a sync is never retried). Every frame says up to which record the log was synced when it was written: so
//! a damaged frame that had been synced can be told from the torn tail of a crash, whose records were never
//! acknowledged.

mod array_codec;
mod codec;
mod committer;
mod frame;
mod replay;
mod salvage;
#[cfg(test)]
mod tests;
mod wire;

pub use codec::{LoggedMutation, Record, decode_body, encode_body};
pub use committer::{Commit, CommitLog, LogOptions};
pub use frame::file_header;
pub use replay::{LogFile, Replay, log_files, needed_files};
pub use salvage::{frames_bytes, salvaged};
pub use wire::ByteReader;
