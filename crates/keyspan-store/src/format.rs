//! The file `KEYSPAN`: which format a data directory has. Read before anything else in it is touched.
//!
//! ```text
//! offset size
//!  0      8   "KEYSPAN\0"
//!  8      4   format version
//! 12     16   store id: random, given once
//! 28      8   required feature bits: one that is unknown is a refusal
//! 36      8   compatible feature bits: unknown ones are kept and ignored
//! 44      4   crc32c of bytes 0 to 43
//! ```
//!
//! All numbers in the store's own files are little endian. A newer version, a required feature that this program does
//! not know, and whatever else a newer program wrote are refused by name, never guessed at.

use keyspan_model::{Error, ErrorKind, Result};
use serde::Deserialize;
use uuid::Uuid;

use crate::files::{Files, corrupted};

/// Name of the file.
pub const FORMAT_FILE: &str = "KEYSPAN";
/// The format this program writes.
pub const FORMAT_VERSION: u32 = 1;
/// Required features this program knows: none yet.
const KNOWN_FEATURES: u64 = 0;
const MAGIC: &[u8; 8] = b"KEYSPAN\0";
/// Bytes of the file.
pub const FORMAT_BYTES: usize = 48;

/// The contents of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// The format's version.
    pub version: u32,
    /// The store's own id.
    pub store: Uuid,
    /// Features that a reader must know.
    pub required: u64,
    /// Features that a reader may ignore.
    pub compatible: u64,
}

impl Format {
    /// Reads the file, if there is one, and refuses what this program cannot read.
    pub fn read(files: &dyn Files) -> Result<Option<Format>> {
        if files.len(FORMAT_FILE)?.is_none() {
            return Ok(None);
        }
        let format = Format::decode(&files.read(FORMAT_FILE)?);
        format.map(Some).map_err(|error| named(&files.display(FORMAT_FILE), error))
    }

    /// Refuses what this program cannot read.
    fn check(&self) -> Result<()> {
        let features = self.required & !KNOWN_FEATURES;
        let what = if self.version != FORMAT_VERSION {
            format!("it has format {}, and this program reads format {FORMAT_VERSION}", self.version)
        } else if features != 0 {
            format!("it needs feature {}, which this program does not know", features.trailing_zeros())
        } else {
            return Ok(());
        };
        Err(unknown(what))
    }

    /// What the file of a new store says.
    pub fn new() -> Format {
        Format { version: FORMAT_VERSION, store: Uuid::new_v4(), required: 0, compatible: 0 }
    }

    /// Writes the file, durably. There must be none.
    pub fn put(&self, files: &dyn Files) -> Result<()> {
        if !files.put_if_absent(FORMAT_FILE, &self.encode())? {
            return Err(Error::new(ErrorKind::ObjectInUse, "another process makes this data directory at this moment"));
        }
        Ok(())
    }

    /// The file's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FORMAT_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&self.version.to_le_bytes());
        bytes.extend_from_slice(self.store.as_bytes());
        bytes.extend_from_slice(&self.required.to_le_bytes());
        bytes.extend_from_slice(&self.compatible.to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    /// Reads the file's bytes, and refuses what this program cannot read; who knows the file adds its name ([`named`]).
    pub fn decode(bytes: &[u8]) -> Result<Format> {
        if bytes.len() < FORMAT_BYTES || &bytes[..8] != MAGIC {
            return Err(bad("it does not begin as a Keyspan data directory does"));
        }
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        if crc32c::crc32c(&bytes[..44]) != u32_at(44) {
            return Err(bad("its checksum is wrong"));
        }
        let store = Uuid::from_slice(&bytes[12..28]).expect("sixteen bytes");
        let format = Format { version: u32_at(8), store, required: u64_at(28), compatible: u64_at(36) };
        format.check().map(|()| format)
    }
}

/// The error of bytes that are not what they should be; who knows the file adds its name ([`named`]).
pub fn bad(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Corrupted, what)
}

/// The error of bytes that only a newer program can have written, since a checksum covers them; as [`bad`].
pub fn unknown(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::FormatVersion, what)
}

/// The error of data that is whole but unknown to this program: a newer one wrote it. `name` is the file.
pub fn newer(name: &str, what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::FormatVersion, format!("\"{name}\" is of a newer program: {what}"))
        .with_hint("Open it with a newer keyspan.")
}

/// Adds the file's name to an error of the bytes in it.
pub fn named(name: &str, error: Error) -> Error {
    match error.kind {
        ErrorKind::Corrupted => corrupted(name, error.message),
        ErrorKind::FormatVersion => newer(name, error.message),
        _ => error,
    }
}

/// Reads JSON whose bytes a checksum has covered. Fields and words that this program does not know are a newer one's:
/// ignoring them would lose them with the next change. Who knows the file adds its name ([`named`]).
pub fn read_json<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => unknown(error.to_string()),
        _ => bad(error.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::MemoryFiles;

    #[test]
    fn a_format_is_read_back_and_a_newer_one_is_refused_by_name() {
        let files = MemoryFiles::new();
        assert_eq!(Format::read(&files).expect("reads"), None);
        let format = Format::new();
        format.put(&files).expect("writes");
        assert_eq!(Format::read(&files).expect("reads"), Some(format));

        for newer in [Format { version: 2, ..format }, Format { required: 1 << 5, ..format }] {
            let files = MemoryFiles::new();
            files.put_if_absent(FORMAT_FILE, &newer.encode()).expect("writes");
            let error = Format::read(&files).expect_err("newer");
            assert_eq!(error.kind, ErrorKind::FormatVersion);
            assert!(error.message.contains("format 2") || error.message.contains("feature 5"), "{error}");
        }
        files.damage(FORMAT_FILE, |bytes| bytes[20] ^= 1).expect("is there");
        assert_eq!(Format::read(&files).expect_err("damaged").kind, ErrorKind::Corrupted);
    }
}
