//! The ledger: manifest edits in sled, in the directory `edits`. The one module that touches sled.
//!
//! What sled 0.34 does not promise is done here: its `flush` is no fsync on Linux, so its file is synced by us; a
//! `snap.*.generating` left by a kill makes it refuse to open, so it is deleted first; large values leak files, so items
//! are cut in chunks; and it has no checksums to trust, so every value carries its own.
//!
//! ```text
//! key   = item key, chunk number (u16, big endian)
//! value = version (1) crc32c of the key and all that follows (u32) edit (u64) chunks of the item (u16) piece
//! ```

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use keyspan_model::{Error, ErrorKind, Result};

use super::state::Item;
use crate::files::{corrupted, io_error};
use crate::log::Reader;

/// All items, and the number of the edit that made them so.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Items {
    /// Number of the last edit; 0: none yet.
    pub edit: u64,
    /// In the order of their keys.
    pub items: Vec<Item>,
}

const DIRECTORY: &str = "edits";
const VERSION: u8 = 1;
const HEADER: usize = 15;
/// Longest piece of an item in one value, so that a value stays under 4 KB.
const PIECE: usize = 4000;

/// Manifest edits on a local disk.
#[derive(Debug)]
pub struct Ledger {
    db: sled::Db,
    /// sled's own file, opened once more to sync it.
    file: File,
    path: PathBuf,
    /// In how many chunks each item is.
    chunks: BTreeMap<Vec<u8>, u16>,
}

impl Ledger {
    /// Opens the ledger under `root`. If it is damaged, or behind the checkpoint, it is made anew from that.
    /// Also says why, then.
    pub fn open(root: &Path, checkpoint: Option<Items>) -> Result<(Ledger, Items, Option<String>)> {
        let path = root.join(DIRECTORY);
        let found = Ledger::open_existing(&path);
        match (found, checkpoint) {
            (Ok((ledger, items)), None) => Ok((ledger, items, None)),
            (Ok((ledger, items)), Some(checkpoint)) if items.edit >= checkpoint.edit => Ok((ledger, items, None)),
            (Err(error), _) if error.kind != ErrorKind::Corrupted => Err(error),
            (Err(error), None) => Err(error),
            (found, Some(checkpoint)) => {
                let why = found
                    .map_or_else(|error| error.to_string(), |(_, items)| format!("it ends at edit {}", items.edit));
                tracing::warn!(
                    why,
                    edit = checkpoint.edit,
                    "the manifest's ledger is made anew from the newest checkpoint"
                );
                let ledger = Ledger::rebuild(&path, &checkpoint)?;
                Ok((ledger, checkpoint, Some(why)))
            }
        }
    }

    fn open_existing(path: &Path) -> Result<(Ledger, Items)> {
        remove_leftovers(path)?;
        let fail = |error: sled::Error| failure(path, &error);
        let db = sled::Config::new().path(path).cache_capacity(4 << 20).flush_every_ms(None).open().map_err(fail)?;
        db.flush().map_err(fail)?;
        let file_path = path.join("db");
        let file =
            File::open(&file_path).map_err(|error| io_error("open", &file_path.display().to_string(), &error))?;
        let mut ledger = Ledger { db, file, path: path.to_path_buf(), chunks: BTreeMap::new() };
        ledger.sync()?;
        for directory in [Some(path), path.parent()].into_iter().flatten() {
            let synced = File::open(directory).and_then(|directory| directory.sync_all());
            synced.map_err(|error| io_error("sync directory", &directory.display().to_string(), &error))?;
        }
        let items = ledger.load()?;
        Ok((ledger, items))
    }

    fn rebuild(path: &Path, checkpoint: &Items) -> Result<Ledger> {
        let aside = path.with_extension("damaged");
        let moved = fs::remove_dir_all(&aside)
            .or_else(absent_is_fine)
            .and_then(|()| fs::rename(path, &aside).or_else(absent_is_fine));
        moved.map_err(|error| io_error("rename", &path.display().to_string(), &error))?;
        let (mut ledger, _) = Ledger::open_existing(path)?;
        ledger.commit(checkpoint.edit, &checkpoint.items, &[])?;
        Ok(ledger)
    }

    /// Makes an edit durable: all of it or nothing.
    pub fn commit(&mut self, edit: u64, puts: &[Item], removes: &[Vec<u8>]) -> Result<()> {
        let mut batch = sled::Batch::default();
        let mut chunks = Vec::new();
        for (key, value) in puts {
            let count = value.len().div_ceil(PIECE).max(1) as u16;
            for chunk in 0..count {
                let start = usize::from(chunk) * PIECE;
                let piece = &value[start..value.len().min(start + PIECE)];
                let key = chunk_key(key, chunk);
                batch.insert(key.as_slice(), encode(&key, edit, count, piece));
            }
            for chunk in count..self.chunks.get(key).copied().unwrap_or(0) {
                batch.remove(chunk_key(key, chunk));
            }
            chunks.push((key.clone(), count));
        }
        for key in removes {
            for chunk in 0..self.chunks.get(key).copied().unwrap_or(0) {
                batch.remove(chunk_key(key, chunk));
            }
        }
        self.db.apply_batch(batch).map_err(|error| failure(&self.path, &error))?;
        self.db.flush().map_err(|error| failure(&self.path, &error))?;
        self.sync()?;
        for key in removes {
            self.chunks.remove(key);
        }
        self.chunks.extend(chunks);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        let name = self.path.join("db");
        self.file.sync_data().map_err(|error| io_error("sync", &name.display().to_string(), &error))
    }

    fn load(&mut self) -> Result<Items> {
        let damaged = |what: String| corrupted(&self.path.display().to_string(), what);
        let mut items: Vec<Item> = Vec::new();
        let (mut edit, mut open) = (0, None);
        for entry in self.db.iter() {
            let (key, value) = entry.map_err(|error| failure(&self.path, &error))?;
            let piece = decode(&key, &value).map_err(|error| damaged(error.message))?;
            edit = edit.max(piece.edit);
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
        Ok(Items { edit, items })
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
    let bad = |what: &str| Error::new(ErrorKind::Corrupted, what);
    let mut reader = Reader::new(value);
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

/// Deletes what a kill in the middle of sled's own snapshot leaves, and what would keep it from opening.
fn remove_leftovers(path: &Path) -> Result<()> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io_error("list directory", &path.display().to_string(), &error)),
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("snap.") && name.ends_with(".generating") {
            fs::remove_file(entry.path()).map_err(|error| io_error("remove", &name, &error))?;
        }
    }
    Ok(())
}

fn absent_is_fine(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

fn failure(path: &Path, error: &sled::Error) -> Error {
    let name = path.display().to_string();
    match error {
        sled::Error::Io(error) if error.kind() == std::io::ErrorKind::StorageFull => io_error("write", &name, error),
        sled::Error::Io(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            io_error("open", &name, error)
        }
        error => corrupted(&name, error),
    }
}
