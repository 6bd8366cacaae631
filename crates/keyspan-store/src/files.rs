//! Files: the trait through which the store does everything to a disk.
//!
//! Rule: nothing else in this crate opens, writes, syncs, renames or removes a file, so that a test can put a failing
//! or forgetful disk underneath. sled, behind `manifest`, opens and writes its own files; they are made durable here
//! ([`Files::adopt`]). The shape is an object store's: whole files written once, read by ranges, listed, deleted, and
//! put only if absent; a later object store plugs in here.
//!
//! Paths are relative to the store's directory, with `/` between their parts.

mod damaged;
mod local;
mod memory;
mod reserve;
#[cfg(test)]
pub mod simulated;
mod waiting;

use std::fmt::Debug;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use keyspan_model::{Error, ErrorKind, Result};

pub use damaged::{DAMAGED, keep_damaged};
pub use local::LocalFiles;
pub use memory::MemoryFiles;
pub use reserve::{missing_reserve, reserve, with_reserve};
pub use waiting::wait_on_this_thread;
pub(crate) use waiting::{answered, in_memory, is_refused, may_wait, on_disk};

/// What a file's name ends in while it is written aside; one that a crash left is removed at open.
pub const ASIDE: &str = ".tmp";

/// A directory of files.
pub trait Files: Debug + Send + Sync + 'static {
    /// A new empty file to write to; one of this name must not exist.
    fn create(&self, path: &str) -> Result<Box<dyn FileWriter>>;

    /// A file to read from. It stays readable after it was removed.
    fn open(&self, path: &str) -> Result<Arc<dyn FileReader>>;

    /// A file that something else writes (sled), opened only to make its bytes durable.
    fn adopt(&self, path: &str) -> Result<Box<dyn FileWriter>>;

    /// Gives a file a second name unless that is taken. Returns whether it was given. Durable after
    /// [`Files::sync_dir`].
    fn link(&self, from: &str, to: &str) -> Result<bool>;

    /// Gives a file of another directory a name in this one as well, where both are on one local disk. Returns whether
    /// it has it; if not, only a copy will do. Durable after [`Files::sync_dir`].
    fn link_from(&self, _other: &dyn Files, _from: &str, _to: &str) -> bool {
        false
    }

    /// Writes a whole file, durably, unless one of this name exists. Returns whether it was written.
    ///
    /// Written aside and linked, so that the name never stands for half a file. After an error the file is there whole
    /// or not at all; which of the two is not known.
    fn put_if_absent(&self, path: &str, bytes: &[u8]) -> Result<bool> {
        if self.len(path)?.is_some() {
            return Ok(false);
        }
        let aside = format!("{path}{ASIDE}");
        self.remove(&aside)?;
        let written = self.create(&aside).and_then(|mut file| {
            file.write_all(bytes).map_err(|error| io_error("write", &self.display(path), &error))?;
            file.sync_data()
        });
        let linked = written.and_then(|()| self.link(&aside, path));
        if let Err(error) = self.remove(&aside) {
            tracing::debug!(%error, "a file written aside is left; opening the store removes it");
        }
        if linked? {
            self.sync_dir(parent(path))?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Makes a directory and those above it, durably. No error if it exists.
    fn create_dir(&self, path: &str) -> Result<()>;

    /// Makes created, renamed and removed names in a directory durable.
    fn sync_dir(&self, path: &str) -> Result<()>;

    /// Gives a file another name; one of that name is replaced. Durable after [`Files::sync_dir`].
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Removes a file. No error if there is none.
    fn remove(&self, path: &str) -> Result<()>;

    /// Removes a directory with all that is in it. No error if there is none.
    fn remove_dir(&self, path: &str) -> Result<()>;

    /// The names in a directory, sorted; empty if there is no such directory.
    fn list(&self, path: &str) -> Result<Vec<String>>;

    /// The length of a file in bytes, or `None` if there is no such file.
    fn len(&self, path: &str) -> Result<Option<u64>>;

    /// Takes the file's lock for this process; 55006 if another holds it. Freed when the answer is dropped.
    fn lock(&self, path: &str) -> Result<Box<dyn FileLock>>;

    /// Free bytes for new files, where there is a limit.
    fn free_space(&self) -> Result<Option<u64>>;

    /// The directory on the local disk, if it is one.
    fn local_root(&self) -> Option<&Path>;

    /// A whole file.
    fn read(&self, path: &str) -> Result<Bytes> {
        let reader = self.open(path)?;
        let length = usize::try_from(reader.len()).map_err(|_| Error::internal(format!("{path} is too long")))?;
        reader.read_at(0, length)
    }

    /// The path as errors name it: absolute where there is a local directory.
    fn display(&self, path: &str) -> String {
        match self.local_root() {
            Some(root) => joined(root, path).display().to_string(),
            None => format!("memory:{path}"),
        }
    }
}

/// A file being written, front to back.
pub trait FileWriter: Write + Send {
    /// Makes what was written durable: the bytes, and as much metadata as reading them back needs.
    fn sync_data(&mut self) -> Result<()>;

    /// Reserves disk space, so that writing up to `length` bytes fails early or not at all. The file then reads as
    /// zeroes up to there.
    fn preallocate(&mut self, length: u64) -> Result<()>;
}

/// A file being read.
pub trait FileReader: Debug + Send + Sync {
    /// Length in bytes when it was opened.
    fn len(&self) -> u64;

    /// Whether it has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Exactly these bytes; an error if the file ends before.
    fn read_at(&self, offset: u64, length: usize) -> Result<Bytes>;
}

/// Holds a lock until it is dropped.
pub trait FileLock: Debug + Send + Sync {}

/// The error of a refused operation on a file: what was tried, the file, and why.
pub fn io_error(what: &str, path: &str, error: &io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::DiskFull,
        _ => ErrorKind::Io,
    };
    Error::new(kind, format!("could not {what} file \"{path}\": {error}"))
}

/// The error of damage on disk.
pub fn corrupted(path: &str, what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Corrupted, format!("file \"{path}\" is damaged: {what}")).with_hint(
        "Restore a backup, or run keyspan check --repair: it saves what is not damaged and says what is lost.",
    )
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn joined(root: &Path, path: &str) -> PathBuf {
    if path.is_empty() { root.to_path_buf() } else { root.join(path) }
}
