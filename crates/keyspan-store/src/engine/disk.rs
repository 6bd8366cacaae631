//! Free space: a mark below which writes are refused, and a reserve that lets a store on a full disk open and free.

use std::sync::atomic::Ordering;

use keyspan_model::Result;

use super::core::Core;
use crate::files::Files;

/// The reserve: a file of nothing that is given up when the disk is full.
const RESERVE_FILE: &str = "RESERVE";
const RESERVE_BYTES: u64 = 8 << 20;

impl Core {
    /// Looks at the free space, and refuses or takes writes accordingly.
    pub fn look_at_disk(&self) {
        let low = match self.files.free_space() {
            Ok(Some(free)) => free < self.options.free_space_mark,
            Ok(None) | Err(_) => false,
        };
        if low != self.disk_low.swap(low, Ordering::Relaxed) {
            tracing::warn!(low, "free space of the disk has passed the mark");
            self.room.notify_waiters();
            let changed = if low { release(self.files.as_ref()) } else { reserve(self.files.as_ref()) };
            if let Err(error) = changed {
                tracing::warn!(%error, "the reserve could not be changed");
            }
        }
    }
}

/// Gives the reserve up, so that the manifest and the log can still be written.
pub fn release(files: &dyn Files) -> Result<()> {
    files.remove(RESERVE_FILE)
}

/// Makes the reserve, if there is a disk and the reserve is not there.
pub fn reserve(files: &dyn Files) -> Result<()> {
    if files.local_root().is_none() || files.len(RESERVE_FILE)?.is_some() {
        return Ok(());
    }
    files.create(RESERVE_FILE)?.preallocate(RESERVE_BYTES)
}
