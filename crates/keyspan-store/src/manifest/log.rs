//! The manifest log: manifest edits in sled, in the directory `edits`. The one module that touches sled.
//!
//! What sled 0.34 does not guarantee is done here: its `flush` is no fsync on Linux, so its file is synced by us; a
//! `snap.*.generating` left by a kill makes it refuse to open, so it is deleted first; large values leak files, so
//! items are cut in chunks; and it has no checksums to trust, so every value carries its own.
//!
//! ```text
//! key   = item key, chunk number (u16, big endian)
//! value = version (1) crc32c of the key and all that follows (u32) edit (u64) chunks of the item (u16) piece
//! key   = "total"
//! value = version (1) crc32c as above (u32) edit (u64) 0 (u16) values (u64) all their crcs combined by xor (u32)
//! ```
//!
//! The total is part of every edit, so that pages which sled drops in silence on damaged bytes are noticed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use keyspan_model::{Error, ErrorKind, Result};

use super::state::Item;
use crate::files::{FileWriter, Files, corrupted, io_error};
use crate::format::bad;
use crate::log::ByteReader;

/// All items, and the number of the edit that made them so.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Items {
    /// Number of the last edit; 0: none yet.
    pub edit: u64,
    /// In the order of their keys.
    pub items: Vec<Item>,
}

const DIRECTORY: &str = "edits";
/// Where a damaged manifest log is moved, so that it can be examined.
const DAMAGED: &str = "edits.damaged";
/// How often opening is tried while sled's lock is held. We hold the directory's own lock, so whoever has sled's is a
/// log of this process that was closed a moment ago and whose threads have not ended yet.
const LOCK_TRIES: usize = 1000;
const LOCK_PAUSE: Duration = Duration::from_millis(5);
/// Key of the total; no item's key looks like it.
const TOTAL: &[u8] = b"total";
const VERSION: u8 = 1;
const HEADER: usize = 15;
/// Longest piece of an item in one value, so that a value stays under 4 KB.
const PIECE: usize = 4000;

/// Manifest edits on a local disk.
pub struct ManifestLog {
    db: sled::Db,
    /// sled's own file, opened once more to sync it.
    file: Box<dyn FileWriter>,
    /// The directory as errors name it.
    name: String,
    /// In how many chunks each item is.
    chunks: BTreeMap<Vec<u8>, u16>,
    /// The total under [`TOTAL`].
    total: Total,
}

impl std::fmt::Debug for ManifestLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ManifestLog").field("name", &self.name).finish()
    }
}

/// The log unless it cannot be used, what the manifest holds, and why the log was rebuilt if it was.
pub type Opened = (Option<ManifestLog>, Items, Option<String>);

impl ManifestLog {
    /// Opens the log under `root`, the local directory of `files`. A damaged one is rebuilt from the checkpoint, one
    /// that is behind it (after a crash between the two) is caught up. Where the disk is full the manifest goes on with
    /// checkpoints alone.
    pub fn open(files: Arc<dyn Files>, root: &Path, checkpoint: Option<Items>) -> Result<Opened> {
        match (ManifestLog::open_existing(&files, root), checkpoint) {
            (Ok((log, items)), None) => Ok((Some(log), items, None)),
            (Ok((mut log, items)), Some(checkpoint)) => {
                if items.edit >= checkpoint.edit {
                    return Ok((Some(log), items, None));
                }
                tracing::info!(log = items.edit, checkpoint = checkpoint.edit, "the manifest log is behind");
                let caught_up = log.catch_up(&items, &checkpoint);
                Ok((usable(caught_up.map(|()| log)), checkpoint, None))
            }
            (Err(error), Some(checkpoint)) if error.kind == ErrorKind::Corrupted => {
                tracing::warn!(%error, edit = checkpoint.edit, "the manifest log is rebuilt from a checkpoint");
                let log = ManifestLog::rebuild(&files, root, &checkpoint);
                Ok((usable(log), checkpoint, Some(error.message)))
            }
            (Err(error), Some(checkpoint)) if error.kind == ErrorKind::DiskFull => {
                Ok((usable(Err(error)), checkpoint, None))
            }
            (Err(error), _) => Err(error),
        }
    }

    fn open_existing(files: &Arc<dyn Files>, root: &Path) -> Result<(ManifestLog, Items)> {
        remove_leftovers(files.as_ref())?;
        let name = files.display(DIRECTORY);
        // Made here, so that it has the rights of what is ours.
        files.create_dir(DIRECTORY)?;
        let config = sled::Config::new().path(root.join(DIRECTORY)).cache_capacity(4 << 20).flush_every_ms(None);
        let mut opened = open_sled(&name, &config);
        for _ in 0..LOCK_TRIES {
            if !opened.as_ref().is_err_and(|error| error.kind == ErrorKind::ObjectInUse) {
                break;
            }
            std::thread::sleep(LOCK_PAUSE);
            opened = open_sled(&name, &config);
        }
        let db = opened?;
        let file = files.adopt(&format!("{DIRECTORY}/db"))?;
        let mut log = ManifestLog { db, file, name, chunks: BTreeMap::new(), total: Total::default() };
        log.file.sync_data()?;
        files.sync_dir(DIRECTORY)?;
        files.sync_dir("")?;
        let items = log.load()?;
        Ok((log, items))
    }

    fn rebuild(files: &Arc<dyn Files>, root: &Path, checkpoint: &Items) -> Result<ManifestLog> {
        files.remove_dir(DAMAGED)?;
        if !files.list(DIRECTORY)?.is_empty() {
            files.rename(DIRECTORY, DAMAGED)?;
        }
        let (mut log, _) = ManifestLog::open_existing(files, root)?;
        log.commit(checkpoint.edit, &checkpoint.items, &[])?;
        Ok(log)
    }

    /// Brings the log to the state of a newer checkpoint.
    fn catch_up(&mut self, items: &Items, checkpoint: &Items) -> Result<()> {
        let kept: BTreeSet<&Vec<u8>> = checkpoint.items.iter().map(|item| &item.0).collect();
        let gone: Vec<Vec<u8>> =
            items.items.iter().map(|item| &item.0).filter(|key| !kept.contains(key)).cloned().collect();
        self.commit(checkpoint.edit, &checkpoint.items, &gone)
    }

    /// Makes an edit durable: all of it or nothing.
    pub fn commit(&mut self, edit: u64, puts: &[Item], removes: &[Vec<u8>]) -> Result<()> {
        let mut batch = sled::Batch::default();
        let mut total = self.total;
        let mut chunks = Vec::new();
        for (key, value) in puts {
            let count = value.len().div_ceil(PIECE).max(1) as u16;
            self.remove_chunks(key, &mut batch, &mut total)?;
            for chunk in 0..count {
                let start = usize::from(chunk) * PIECE;
                let piece = &value[start..value.len().min(start + PIECE)];
                let key = chunk_key(key, chunk);
                let value = encode(&key, edit, count, piece);
                total.add(&value);
                batch.insert(key.as_slice(), value);
            }
            chunks.push((key.clone(), count));
        }
        for key in removes {
            self.remove_chunks(key, &mut batch, &mut total)?;
        }
        batch.insert(TOTAL, encode(TOTAL, edit, 0, &total.encode()));
        guarded(&self.name, || {
            self.db.apply_batch(batch)?;
            self.db.flush()
        })?;
        self.file.sync_data()?;
        for key in removes {
            self.chunks.remove(key);
        }
        self.chunks.extend(chunks);
        self.total = total;
        Ok(())
    }

    /// Removes an item's chunks from sled and from the total.
    fn remove_chunks(&self, key: &[u8], batch: &mut sled::Batch, total: &mut Total) -> Result<()> {
        for chunk in 0..self.chunks.get(key).copied().unwrap_or(0) {
            let key = chunk_key(key, chunk);
            if let Some(value) = guarded(&self.name, || self.db.get(&key))? {
                total.remove(&value);
            }
            batch.remove(key);
        }
        Ok(())
    }

    fn load(&mut self) -> Result<Items> {
        let damaged = |what: String| corrupted(&self.name, what);
        let entries = guarded(&self.name, || self.db.iter().collect::<sled::Result<Vec<_>>>())?;
        let mut items: Vec<Item> = Vec::new();
        let (mut edit, mut open) = (0, None);
        let (mut total, mut wanted) = (Total::default(), Total::default());
        for (key, value) in entries {
            let piece = decode(&key, &value).map_err(|error| damaged(error.message))?;
            edit = edit.max(piece.edit);
            if key.as_ref() == TOTAL {
                wanted = Total::decode(piece.bytes)?;
                continue;
            }
            total.add(&value);
            let (item, chunk) = split_key(&key).ok_or_else(|| damaged("it has a key without a chunk number".into()))?;
            let expected = (item.to_vec(), chunk, piece.edit, piece.chunks);
            match open.take() {
                None if chunk == 0 => items.push((item.to_vec(), piece.bytes.to_vec())),
                Some(wanted) if wanted == expected => {
                    items.last_mut().expect("an item is open").1.extend_from_slice(piece.bytes);
                }
                _ => return Err(damaged("pieces of an item do not fit together".into())),
            }
            if chunk + 1 < piece.chunks {
                open = Some((item.to_vec(), chunk + 1, piece.edit, piece.chunks));
            } else {
                self.chunks.insert(item.to_vec(), piece.chunks);
            }
        }
        if open.is_some() {
            return Err(damaged("the last piece of an item is missing".into()));
        }
        if total != wanted {
            return Err(damaged("some of its items are missing".into()));
        }
        self.total = total;
        Ok(Items { edit, items })
    }
}

/// How many values there are, and their checksums combined.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Total {
    values: u64,
    crcs: u32,
}

impl Total {
    fn add(&mut self, value: &[u8]) {
        self.values = self.values.wrapping_add(1);
        self.crcs ^= crc32c::crc32c(value);
    }

    fn remove(&mut self, value: &[u8]) {
        self.values = self.values.wrapping_sub(1);
        self.crcs ^= crc32c::crc32c(value);
    }

    fn encode(self) -> Vec<u8> {
        [&self.values.to_le_bytes()[..], &self.crcs.to_le_bytes()].concat()
    }

    fn decode(bytes: &[u8]) -> Result<Total> {
        let mut reader = ByteReader::new(bytes);
        Ok(Total { values: reader.u64()?, crcs: reader.u32()? })
    }
}

struct Piece<'a> {
    edit: u64,
    chunks: u16,
    bytes: &'a [u8],
}

fn chunk_key(key: &[u8], chunk: u16) -> Vec<u8> {
    [key, &chunk.to_be_bytes()].concat()
}

fn split_key(key: &[u8]) -> Option<(&[u8], u16)> {
    let (item, chunk) = key.split_at_checked(key.len().checked_sub(2)?)?;
    Some((item, u16::from_be_bytes([chunk[0], chunk[1]])))
}

fn encode(key: &[u8], edit: u64, chunks: u16, piece: &[u8]) -> Vec<u8> {
    let mut out = vec![VERSION, 0, 0, 0, 0];
    out.extend_from_slice(&edit.to_le_bytes());
    out.extend_from_slice(&chunks.to_le_bytes());
    out.extend_from_slice(piece);
    let crc = crc32c::crc32c_append(crc32c::crc32c(key), &out[5..]);
    out[1..5].copy_from_slice(&crc.to_le_bytes());
    out
}

fn decode<'a>(key: &[u8], value: &'a [u8]) -> Result<Piece<'a>> {
    let mut reader = ByteReader::new(value);
    if reader.u8()? != VERSION {
        return Err(bad("a value has an unknown version"));
    }
    let crc = reader.u32()?;
    if crc != crc32c::crc32c_append(crc32c::crc32c(key), &value[5..]) {
        return Err(bad("the checksum of a value is wrong"));
    }
    let edit = reader.u64()?;
    let chunks = u16::from_le_bytes(reader.array()?);
    Ok(Piece { edit, chunks, bytes: &value[HEADER..] })
}

/// The log, or none if it cannot be used: checkpoints alone are enough.
fn usable(log: Result<ManifestLog>) -> Option<ManifestLog> {
    log.map_err(|error| tracing::warn!(%error, "the manifest goes on without its log")).ok()
}

/// Deletes what a kill in the middle of sled's own snapshot leaves, and what would keep it from opening.
pub fn remove_leftovers(files: &dyn Files) -> Result<()> {
    for name in files.list(DIRECTORY)? {
        if name.starts_with("snap.") && name.ends_with(".generating") {
            files.remove(&format!("{DIRECTORY}/{name}"))?;
        }
    }
    Ok(())
}

fn open_sled(name: &str, config: &sled::Config) -> Result<sled::Db> {
    guarded(name, || {
        let db = config.open()?;
        db.flush()?;
        Ok(db)
    })
}

/// Calls sled. On damaged bytes it may panic: that is damage too.
fn guarded<T>(name: &str, call: impl FnOnce() -> sled::Result<T>) -> Result<T> {
    match std::panic::catch_unwind(AssertUnwindSafe(call)) {
        Ok(done) => done.map_err(|error| failure(name, &error)),
        Err(_) => Err(corrupted(name, "its contents do not fit together")),
    }
}

/// IO errors that do not mean that the file is damaged.
const NOT_DAMAGE: [io::ErrorKind; 3] =
    [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::PermissionDenied];

fn failure(name: &str, error: &sled::Error) -> Error {
    match error {
        // sled reports this only in its message.
        sled::Error::Io(error) if error.to_string().contains("could not acquire lock") => {
            Error::new(ErrorKind::ObjectInUse, format!("\"{name}\" is in use: {error}"))
        }
        sled::Error::Io(error) if NOT_DAMAGE.contains(&error.kind()) => io_error("use", name, error),
        error => corrupted(name, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::LocalFiles;

    #[test]
    fn items_of_several_pieces_are_read_back_and_shorter_ones_leave_no_piece_behind() {
        let dir = tempfile::tempdir().expect("a directory");
        let files: Arc<dyn Files> = Arc::new(LocalFiles::new(dir.path()).expect("opens"));
        let lengths =
            [[3 * PIECE + 5, PIECE, 0, 2 * PIECE], [PIECE + 1, PIECE - 1, 2 * PIECE, 1], [1, 2 * PIECE, PIECE, 0]];
        for (edit, lengths) in (1u64..).zip(lengths) {
            let (mut log, _) = ManifestLog::open_existing(&files, dir.path()).expect("opens");
            let value = |item: usize, length: usize| (0..length).map(|at| (at / 7 + item) as u8).collect::<Vec<u8>>();
            let puts: Vec<Item> =
                lengths.iter().enumerate().map(|(item, length)| (vec![item as u8], value(item, *length))).collect();
            log.commit(edit, &puts, &[]).expect("commits");
            drop(log);
            let (_, items) = ManifestLog::open_existing(&files, dir.path()).expect("opens");
            assert_eq!((items.edit, items.items), (edit, puts));
        }
    }

    #[test]
    fn what_sled_reports_is_in_use_full_refused_or_damaged() {
        let of = |error: io::Error| failure("edits", &sled::Error::Io(error)).kind;
        let held = io::Error::other("could not acquire lock on \"edits/db\": Os { code: 11 }");
        assert_eq!(of(held), ErrorKind::ObjectInUse);
        assert_eq!(of(io::ErrorKind::StorageFull.into()), ErrorKind::DiskFull);
        assert_eq!(of(io::ErrorKind::QuotaExceeded.into()), ErrorKind::DiskFull);
        assert_eq!(of(io::ErrorKind::PermissionDenied.into()), ErrorKind::Io);
        assert_eq!(of(io::ErrorKind::UnexpectedEof.into()), ErrorKind::Corrupted);
        assert_eq!(failure("edits", &sled::Error::Corruption { at: None, bt: () }).kind, ErrorKind::Corrupted);
    }
}
