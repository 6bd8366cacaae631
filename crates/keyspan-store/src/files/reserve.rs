//! The reserve: a file of zeroes that is deleted when the disk is full, so that the log and the manifest have space
//! until some is freed.

use keyspan_model::{ErrorKind, Result};

use super::Files;

/// Name of the file.
const RESERVE_FILE: &str = "RESERVE";
/// Bytes of it.
const RESERVE_BYTES: u64 = 8 << 20;

/// Makes the reserve, if space is limited and the reserve is not there whole.
pub fn reserve(files: &dyn Files) -> Result<()> {
    if files.free_space()?.is_none() || missing_reserve(files) == 0 {
        return Ok(());
    }
    files.remove(RESERVE_FILE)?;
    let made = files.create(RESERVE_FILE).and_then(|mut file| file.preallocate(RESERVE_BYTES));
    if made.is_err() {
        files.remove(RESERVE_FILE)?;
    }
    made
}

/// Bytes that the reserve lacks.
pub fn missing_reserve(files: &dyn Files) -> u64 {
    RESERVE_BYTES.saturating_sub(files.len(RESERVE_FILE).ok().flatten().unwrap_or(0))
}

/// Runs an operation that needs space; on a full disk deletes the reserve and runs it again. Only for operations that
/// may be repeated: never for a sync.
pub fn with_reserve<T>(files: &dyn Files, mut work: impl FnMut() -> Result<T>) -> Result<T> {
    match work() {
        Err(error) if error.kind == ErrorKind::DiskFull && files.len(RESERVE_FILE)?.is_some() => {
            tracing::warn!(%error, "the disk is full: the reserve is given up");
            files.remove(RESERVE_FILE)?;
            work()
        }
        done => done,
    }
}
