//! Free space: a mark below which writes are refused, and a quarter of it below which deletions are refused too, and no
//! segment grows: what was acknowledged before must still come into the log. What frees space at once goes on, on the reserve if
//! need be ([`crate::files::with_reserve`]).

use std::sync::atomic::Ordering;

use keyspan_model::{Error, ErrorKind, Result};

use super::core::{Core, closed};
use crate::files::{missing_reserve, reserve};

impl Core {
    /// Asked while segments are written: fails when the store is closed in haste, and when the disk is almost out of space.
    pub fn may_go_on_writing(&self) -> Result<()> {
        if self.aborting.load(Ordering::Relaxed) {
            return Err(closed());
        }
        match self.files.free_space() {
            Ok(Some(free)) if free < self.options.free_space_mark / 4 => {
                Err(Error::new(ErrorKind::DiskFull, "no space left for a segment: the disk is almost full"))
            }
            _ => Ok(()),
        }
    }

    /// Looks at the free space, and refuses or takes writes accordingly.
    pub fn look_at_disk(&self) {
        let mark = self.options.free_space_mark;
        let (low, out) = match self.files.free_space() {
            // A reserve that was given up is made again before anything else gets space.
            Ok(Some(free)) => (free < mark.saturating_add(missing_reserve(self.files.as_ref())), free < mark / 4),
            Ok(None) | Err(_) => (false, false),
        };
        self.disk_out.store(out, Ordering::Relaxed);
        if low != self.disk_low.swap(low, Ordering::Relaxed) {
            tracing::warn!(low, "free space of the disk has passed the mark");
            self.room.notify_waiters();
        }
        if !low && let Err(error) = reserve(self.files.as_ref()) {
            tracing::warn!(%error, "the reserve for a full disk could not be made");
        }
    }
}
