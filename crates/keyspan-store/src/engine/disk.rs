//! Free space: below a mark writes are refused; below a quarter of it deletions too, and no segment grows, so that the
//! log has room for what is under way. Operations that free space at once go on, with the reserve if need be
//! ([`crate::files::with_reserve`]).

use std::sync::atomic::Ordering;

use keyspan_model::{Error, ErrorKind, Result};

use super::core::Core;
use crate::files::{missing_reserve, reserve};

/// This part of the mark is left for the log.
const LAST: u64 = 4;

impl Core {
    /// Measures the free space, and refuses or accepts writes accordingly.
    pub fn look_at_disk(&self) {
        let mark = self.options.free_space_mark;
        let (low, out) = match self.files.free_space() {
            // A reserve that was given up is made again before anything else gets space.
            Ok(Some(free)) => (free < mark.saturating_add(missing_reserve(self.files.as_ref())), free < mark / LAST),
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

    /// Fails with 53100 while the disk had less free space than the mark when it was looked at.
    pub fn check_disk(&self) -> Result<()> {
        match self.disk_low.load(Ordering::Relaxed) {
            true => Err(almost_full("writes")),
            false => Ok(()),
        }
    }

    /// Fails with 53100 while a segment would take what is left for the log.
    pub fn check_room_for_segments(&self) -> Result<()> {
        match self.files.free_space() {
            Ok(Some(free)) if free < self.options.free_space_mark / LAST => Err(almost_full("segments")),
            _ => Ok(()),
        }
    }
}

fn almost_full(what: &str) -> Error {
    Error::new(ErrorKind::DiskFull, format!("no space left for {what}: the disk is almost full"))
        .with_hint("Free space on the disk, or DELETE, DROP or TRUNCATE: that and reading still work.")
}
