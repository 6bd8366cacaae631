//! Checkpoints: the whole manifest in one file that is written once, numbered by its edit, never overwritten.
//!
//! ```text
//! manifest/<edit, 20 digits>
//!  0   8  "KSCHECKP"
//!  8   4  version, 1
//! 12  16  store id
//! 28   8  edit
//! 36   8  number of items
//! 44      items: key length(u32) key, value length(u32) value
//! end     crc32c of everything before (u32)
//! ```

use keyspan_model::{Error, ErrorKind, Result};
use uuid::Uuid;

use super::CHECKPOINT_DIRECTORY;
use super::log::Items;
use crate::files::{Files, corrupted};
use crate::format::{bad, named, unknown};
use crate::log::ByteReader;

const MAGIC: &[u8; 8] = b"KSCHECKP";
const VERSION: u32 = 1;

/// Edit numbers and paths of the checkpoints, oldest first.
pub fn checkpoints(files: &dyn Files) -> Result<Vec<(u64, String)>> {
    let names = files.list(CHECKPOINT_DIRECTORY)?;
    let numbered = names.iter().filter_map(|name| {
        let number = (name.len() == 20).then(|| name.parse().ok()).flatten()?;
        Some((number, format!("{CHECKPOINT_DIRECTORY}/{name}")))
    });
    Ok(numbered.collect())
}

/// What was found among the checkpoints.
#[derive(Debug, Default)]
pub struct Newest {
    /// Those of the newest one that is whole.
    pub items: Option<Items>,
    /// Its number; 0: there is none.
    pub whole: u64,
    /// The greatest number that any checkpoint has, whole or not.
    pub number: u64,
    /// Number of the newest one that is damaged, and what is wrong.
    pub damaged: Option<(u64, Error)>,
}

/// The newest checkpoint that is whole, and the newest that is not.
pub fn newest(files: &dyn Files, store: Uuid) -> Result<Newest> {
    let mut newest = Newest::default();
    for (number, path) in checkpoints(files)?.into_iter().rev() {
        newest.number = newest.number.max(number);
        match read(files, store, &path) {
            Ok(items) => {
                (newest.items, newest.whole) = (Some(items), number);
                break;
            }
            Err(error) if error.kind == ErrorKind::Corrupted => {
                tracing::warn!(%error, "a checkpoint is damaged");
                newest.damaged.get_or_insert((number, error));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(newest)
}

/// Reads a checkpoint and checks all of it.
pub fn read(files: &dyn Files, store: Uuid, path: &str) -> Result<Items> {
    let bytes = files.read(path)?;
    let items = decode(&bytes, store).map_err(|error| named(&files.display(path), error))?;
    if !path.ends_with(&format!("{:020}", items.edit)) {
        return Err(corrupted(&files.display(path), format!("it is the checkpoint of edit {}", items.edit)));
    }
    Ok(items)
}

/// The store that a checkpoint belongs to, if it is whole.
pub fn store_of(files: &dyn Files, path: &str) -> Option<Uuid> {
    let bytes = files.read(path).ok()?;
    let store = Uuid::from_slice(bytes.get(12..28)?).ok()?;
    decode(&bytes, store).is_ok().then_some(store)
}

/// Writes a checkpoint and reads it back.
pub fn write(files: &dyn Files, store: Uuid, items: &Items) -> Result<()> {
    let path = format!("{CHECKPOINT_DIRECTORY}/{:020}", items.edit);
    if !files.put_if_absent(&path, &encode(store, items))? {
        let message = format!("checkpoint \"{}\" exists: another process writes to this store", files.display(&path));
        return Err(Error::new(ErrorKind::ObjectInUse, message));
    }
    let back = read(files, store, &path)?;
    if back != *items {
        return Err(corrupted(&files.display(&path), "what was written is not what is read"));
    }
    Ok(())
}

/// The bytes of a checkpoint.
pub fn encode(store: Uuid, items: &Items) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(store.as_bytes());
    out.extend_from_slice(&items.edit.to_le_bytes());
    out.extend_from_slice(&(items.items.len() as u64).to_le_bytes());
    for (key, value) in &items.items {
        for bytes in [key, value] {
            out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            out.extend_from_slice(bytes);
        }
    }
    out.extend_from_slice(&crc32c::crc32c(&out).to_le_bytes());
    out
}

/// Reads the bytes of a checkpoint and checks all of them.
pub fn decode(bytes: &[u8], store: Uuid) -> Result<Items> {
    let (body, crc) = bytes.split_at_checked(bytes.len().saturating_sub(4)).ok_or_else(|| bad("it is empty"))?;
    if ByteReader::new(crc).u32()? != crc32c::crc32c(body) {
        return Err(bad("its checksum is wrong"));
    }
    let mut reader = ByteReader::new(body);
    if reader.take(8)? != MAGIC {
        return Err(bad("it does not begin as a checkpoint does"));
    }
    let version = reader.u32()?;
    if version != VERSION {
        return Err(unknown(format!("it has version {version}, and this program reads {VERSION}")));
    }
    if reader.take(16)? != store.as_bytes() {
        return Err(bad("it belongs to another store"));
    }
    let edit = reader.u64()?;
    let count = reader.u64()?;
    let mut items = Vec::new();
    for _ in 0..count {
        let mut part = || {
            let length = reader.u32()? as usize;
            Ok::<_, Error>(reader.take(length)?.to_vec())
        };
        items.push((part()?, part()?));
    }
    Ok(Items { edit, items })
}
