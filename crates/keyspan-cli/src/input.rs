//! The files that an import reads: named, found by a pattern, or standard input; compressed or not.
//!
//! The rule: whether a file is compressed is told by its first bytes, not by its name. Standard input is read once, and
//! only what a look at its beginning has read is kept.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::failure::{Failure, Result};

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// One of the files.
#[derive(Clone, Debug)]
pub struct Input {
    place: Place,
    done: Arc<AtomicU64>,
}

#[derive(Clone, Debug)]
enum Place {
    File(PathBuf),
    /// With what has been read of it to look at.
    Standard(Arc<Mutex<Vec<u8>>>),
    /// Standard input, in a file.
    Spooled(Arc<tempfile::NamedTempFile>),
}

impl Input {
    /// The files that arguments name: paths, patterns with `*`, `?` and `[…]`, and `-`. `done` counts what is read.
    pub fn find(arguments: &[PathBuf], done: &Arc<AtomicU64>) -> Result<Vec<Input>> {
        let mut inputs = Vec::new();
        for argument in arguments {
            let place = |place| Input { place, done: Arc::clone(done) };
            if argument.as_os_str() == "-" {
                inputs.push(place(Place::Standard(Arc::default())));
                continue;
            }
            let text = argument.to_string_lossy();
            if argument.exists() || !text.contains(['*', '?', '[']) {
                inputs.push(place(Place::File(argument.clone())));
                continue;
            }
            let found = glob::glob(&text).map_err(|error| Failure::new(format!("{text}: {}", error.msg)))?;
            let before = inputs.len();
            for path in found {
                inputs.push(place(Place::File(path.map_err(|error| Failure::from(std::io::Error::from(error)))?)));
            }
            if inputs.len() == before {
                return Err(Failure::new(format!("no file is found by {text}")));
            }
        }
        Ok(inputs)
    }

    /// What errors call it.
    pub fn name(&self) -> String {
        match &self.place {
            Place::File(path) => path.display().to_string(),
            _ => "standard input".to_string(),
        }
    }

    /// Fails for a file that cannot be read.
    pub fn check(&self) -> Result<()> {
        match &self.place {
            Place::File(path) => File::open(path).map(drop).map_err(|error| Failure::from(error).context(self.name())),
            _ => Ok(()),
        }
    }

    /// Its name, if it tells a format.
    pub fn path(&self) -> &Path {
        match &self.place {
            Place::File(path) => path,
            _ => Path::new("-"),
        }
    }

    /// Its bytes, as they are stored; 0 if nobody knows.
    pub fn size(&self) -> Result<u64> {
        match &self.place {
            Place::File(path) => Ok(std::fs::metadata(path)?.len()),
            Place::Standard(_) => Ok(0),
            Place::Spooled(file) => Ok(file.as_file().metadata()?.len()),
        }
    }

    /// Its bytes, decompressed, to look at: they can be read again.
    pub fn look(&self) -> Result<Box<dyn BufRead + Send>> {
        self.opened(true)
    }

    /// Its bytes, decompressed, for the last time.
    pub fn open(&self) -> Result<Box<dyn BufRead + Send>> {
        self.opened(false)
    }

    fn opened(&self, looks: bool) -> Result<Box<dyn BufRead + Send>> {
        let raw: Box<dyn Read + Send> = match &self.place {
            Place::File(path) => Box::new(File::open(path)?),
            Place::Spooled(file) => Box::new(file.reopen()?),
            Place::Standard(head) => Box::new(Replay { head: Arc::clone(head), at: 0, keeps: looks }),
        };
        // Only reading for the last time is progress.
        let counted = Counted { raw, done: if looks { Arc::default() } else { Arc::clone(&self.done) } };
        let mut reader = BufReader::with_capacity(1 << 18, counted);
        let first = reader.fill_buf()?;
        if first.starts_with(GZIP) {
            return Ok(Box::new(BufReader::with_capacity(1 << 18, flate2::bufread::MultiGzDecoder::new(reader))));
        }
        if first.starts_with(ZSTD) {
            return Ok(Box::new(BufReader::with_capacity(1 << 18, zstd::stream::read::Decoder::with_buffer(reader)?)));
        }
        Ok(Box::new(reader))
    }

    /// The file itself, for formats that are read from their end.
    pub fn file(&self) -> Result<File> {
        let mut file = match &self.place {
            Place::File(path) => File::open(path)?,
            Place::Spooled(file) => file.reopen()?,
            Place::Standard(_) => return Err(Failure::new("standard input was not kept")),
        };
        let mut first = [0; 4];
        let read = file.read(&mut first)?;
        if first[..read].starts_with(GZIP) || first[..read].starts_with(ZSTD) {
            let failure =
                Failure::new(format!("{} is compressed as a whole, which its format does not know", self.name()));
            return Err(failure.with_hint("Decompress it first."));
        }
        io::Seek::rewind(&mut file)?;
        Ok(file)
    }

    /// Writes standard input to a file, for formats that are read more than once.
    pub fn spool(&mut self) -> Result<()> {
        let Place::Standard(head) = &self.place else { return Ok(()) };
        let mut file = tempfile::NamedTempFile::new()?;
        io::copy(&mut Replay { head: Arc::clone(head), at: 0, keeps: false }, file.as_file_mut())?;
        self.place = Place::Spooled(Arc::new(file));
        Ok(())
    }
}

/// Standard input from its beginning: first what was kept of it, then the rest.
struct Replay {
    head: Arc<Mutex<Vec<u8>>>,
    at: usize,
    keeps: bool,
}

impl Read for Replay {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = head.get(self.at..).unwrap_or_default();
        if !kept.is_empty() {
            let count = kept.len().min(buffer.len());
            buffer[..count].copy_from_slice(&kept[..count]);
            self.at += count;
            return Ok(count);
        }
        let count = io::stdin().read(buffer)?;
        if self.keeps {
            head.extend_from_slice(&buffer[..count]);
            self.at += count;
        }
        Ok(count)
    }
}

/// Counts the bytes that are read.
struct Counted {
    raw: Box<dyn Read + Send>,
    done: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.raw.read(buffer)?;
        self.done.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn compressed_files_are_known_by_their_bytes() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).expect("written");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(b"a,b\n").expect("written");
        write("a.csv.gz", &gzip.finish().expect("gzip"));
        write("b.csv.zst", &zstd::encode_all(b"a,b\n".as_slice(), 1).expect("zstd"));
        write("c.csv", b"a,b\n");
        let inputs = Input::find(&[folder.path().join("*.csv*")], &Arc::default()).expect("files");
        assert_eq!(inputs.len(), 3);
        for input in inputs {
            let mut text = String::new();
            input.open().expect("opens").read_to_string(&mut text).expect("reads");
            assert_eq!(text, "a,b\n", "{}", input.name());
        }
        assert!(Input::find(&[folder.path().join("*.none")], &Arc::default()).is_err());
    }
}
