//! The file `BACKUP`: what belongs to a backup.
//!
//! ```text
//!  0   8  "KSBACKUP"
//!  8   4  version, 1
//! 12  48  the store's file KEYSPAN                               format.rs
//! 60   4  length of the contents
//! 64      contents, JSON: when it was taken, files of the log and how much of each, segments that only the log names
//!         a checkpoint: the manifest as it was, with all of its marks raised      manifest/checkpoint.rs
//! end  4  crc32c of everything before
//! ```

use keyspan_model::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::files::{ASIDE, Files, io_error};
use crate::format::{FORMAT_BYTES, Format, bad, named, read_json, unknown};
use crate::log::{ByteReader, LogFile};
use crate::manifest::{Items, ManifestState, decode_checkpoint, encode_checkpoint};
use crate::segment::SegmentRecord;

/// Name of the file.
pub const LISTING_FILE: &str = "BACKUP";
const MAGIC: &[u8; 8] = b"KSBACKUP";
const VERSION: u32 = 1;

/// Whether a directory holds a backup that was finished.
pub fn is_backup(files: &dyn Files) -> bool {
    files.len(LISTING_FILE).is_ok_and(|length| length.is_some())
}

/// What belongs to a backup.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing {
    /// What the store's file KEYSPAN says.
    pub format: Format,
    /// The manifest. Its `durable_seq` is the last batch of the backup.
    pub manifest: ManifestState,
    /// What the manifest does not know.
    pub contents: Contents,
}

/// What a backup has besides the manifest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contents {
    /// When it was taken, in microseconds. No batch in it is younger.
    pub taken_at: i64,
    /// The log's files, oldest first, and how much of each belongs to the backup.
    pub log: Vec<LogFile>,
    /// Segments that so far only the log names, their place given.
    pub loaded: Vec<SegmentRecord>,
}

impl Listing {
    /// Every segment whose files belong to the backup.
    pub fn segments(&self) -> impl Iterator<Item = &SegmentRecord> {
        self.manifest.segments.values().chain(&self.contents.loaded)
    }

    /// Reads the listing of a directory, if there is one.
    ///
    /// Errors: `Corrupted` if it is damaged, XX002 for a newer format.
    pub fn read(files: &dyn Files) -> Result<Option<Listing>> {
        if files.len(LISTING_FILE)?.is_none() {
            return Ok(None);
        }
        let name = files.display(LISTING_FILE);
        let listing = decode(&files.read(LISTING_FILE)?);
        listing.map(Some).map_err(|error| named(&name, error))
    }

    /// Makes this the listing of a directory, durably; the one before is there until then. All that it names must be
    /// durable.
    pub fn put(&self, files: &dyn Files) -> Result<()> {
        let bytes = self.encode()?;
        let aside = format!("{LISTING_FILE}{ASIDE}");
        files.remove(&aside)?;
        let mut file = files.create(&aside)?;
        file.write_all(&bytes).map_err(|error| io_error("write", &files.display(&aside), &error))?;
        file.sync_data()?;
        files.rename(&aside, LISTING_FILE)?;
        files.sync_dir("")
    }

    fn encode(&self) -> Result<Vec<u8>> {
        let contents = serde_json::to_vec(&self.contents)
            .map_err(|error| Error::internal(format!("a backup's listing cannot be written: {error}")))?;
        let items = Items { edit: self.manifest.edit, items: self.manifest.items()? };
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.format.encode());
        out.extend_from_slice(&(contents.len() as u32).to_le_bytes());
        out.extend_from_slice(&contents);
        out.extend_from_slice(&encode_checkpoint(self.format.store, &items));
        out.extend_from_slice(&crc32c::crc32c(&out).to_le_bytes());
        Ok(out)
    }
}

fn decode(bytes: &[u8]) -> Result<Listing> {
    let (body, crc) = bytes.split_at_checked(bytes.len().saturating_sub(4)).ok_or_else(|| bad("it is empty"))?;
    if ByteReader::new(crc).u32()? != crc32c::crc32c(body) {
        return Err(bad("its checksum is wrong"));
    }
    let mut reader = ByteReader::new(body);
    if reader.take(8)? != MAGIC {
        return Err(bad("it does not begin as the listing of a backup does"));
    }
    let version = reader.u32()?;
    if version != VERSION {
        let what = format!("it has version {version}, and this program reads {VERSION}");
        return Err(unknown(what));
    }
    let format = Format::decode(reader.take(FORMAT_BYTES)?)?;
    let length = reader.u32()? as usize;
    let contents = read_json(reader.take(length)?)?;
    let checkpoint = &body[8 + 4 + FORMAT_BYTES + 4 + length..];
    let manifest = ManifestState::from_items(&decode_checkpoint(checkpoint, format.store)?)?;
    Ok(Listing { format, manifest, contents })
}
