//! Backups: a directory that holds all of a database at one moment. [`mod@crate::restore`] makes a database of it again.
//!
//! ```text
//! BACKUP            the listing: what belongs to the backup           listing.rs
//! BACKUP.LOCK       held while a backup is written; says whose directory it is
//! seg/  log/        copies of the store's files                       target.rs writes them
//! ```
//!
//! Rules: a file that the listing does not name does not belong to the backup. The listing is replaced by a rename when
//! all that it names is durable, and only then are files of the one before removed: so a backup that is cut short
//! leaves the one before, or none. A backup is no data directory, since it has no file `KEYSPAN`: opening it would make
//! two stores of one id.

mod listing;
mod target;

pub use listing::{Contents, Listing, is_backup};
pub use target::{BackupReport, BackupSource, BackupTarget, no_backup};

use keyspan_model::Result;

use crate::files::{ASIDE, FileReader, Files, io_error};

/// Bytes copied at once.
const PIECE: u64 = 1 << 20;

/// Called between pieces of work: an error ends the work.
pub type GoOn<'a> = &'a dyn Fn() -> Result<()>;

/// Writes a new file, durably: `head`, and then what the other file holds behind as many bytes, up to `length`.
pub fn copy(
    from: &dyn FileReader,
    head: &[u8],
    length: u64,
    to: &dyn Files,
    path: &str,
    go_on: GoOn<'_>,
) -> Result<()> {
    to.remove(path)?;
    let mut file = to.create(path)?;
    let refused = |error| io_error("write", &to.display(path), &error);
    file.write_all(head).map_err(refused)?;
    let mut at = head.len() as u64;
    while at < length {
        go_on()?;
        let piece = PIECE.min(length - at);
        file.write_all(&from.read_at(at, piece as usize)?).map_err(refused)?;
        at += piece;
    }
    file.sync_data()
}

/// As [`copy`], of a file that takes the place of another: so that it is never there half.
fn replace(from: &dyn FileReader, length: u64, to: &dyn Files, path: &str, go_on: GoOn<'_>) -> Result<()> {
    let aside = format!("{path}{ASIDE}");
    copy(from, &[], length, to, &aside, go_on)?;
    to.rename(&aside, path)
}
