//! The files that an import reads: named, found by a pattern, or standard input; compressed or not.
//!
//! The rule: whether a file is compressed is told by its first bytes, not by its name. Standard input, and what else is no
//! file on a disk, is read once, and only what a look at its beginning has read is kept.

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
    /// Standard input, a pipe, or a device.
    Stream(PathBuf, Arc<Mutex<Stream>>),
    /// What was one, in a file.
    Spooled(PathBuf, Arc<tempfile::NamedTempFile>),
}

/// What can be read once.
#[derive(Default)]
struct Stream {
    /// Standard input, if there is none.
    source: Option<File>,
    /// What has been read of it to look at.
    head: Vec<u8>,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("head", &self.head.len()).finish_non_exhaustive()
    }
}

impl Input {
    /// The files that arguments name: paths, patterns with `*`, `?` and `[…]`, and `-`. `done` counts what is read.
    pub fn find(arguments: &[PathBuf], done: &Arc<AtomicU64>) -> Result<Vec<Input>> {
        let mut inputs = Vec::new();
        for argument in arguments {
            let place = |place| Input { place, done: Arc::clone(done) };
            if argument.as_os_str() == "-" {
                inputs.push(place(Place::Stream(argument.clone(), Arc::default())));
                continue;
            }
            if std::fs::metadata(argument).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
                let opened = File::open(argument).map_err(|error| Failure::from(error).context(argument.display()))?;
                let stream = Stream { source: Some(opened), head: Vec::new() };
                inputs.push(place(Place::Stream(argument.clone(), Arc::new(Mutex::new(stream)))));
                continue;
            }
            let text = argument.to_string_lossy();
            if argument.exists() || !text.contains(['*', '?', '[']) {
                inputs.push(place(Place::File(argument.clone())));
                continue;
            }
            // As a shell reads it.
            let options = glob::MatchOptions { require_literal_leading_dot: true, ..glob::MatchOptions::new() };
            let found =
                glob::glob_with(&text, options).map_err(|error| Failure::new(format!("{text}: {}", error.msg)))?;
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
            Place::Stream(path, _) | Place::Spooled(path, _) if path.as_os_str() == "-" => "standard input".to_string(),
            Place::File(path) | Place::Stream(path, _) | Place::Spooled(path, _) => path.display().to_string(),
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
            Place::File(path) | Place::Stream(path, _) | Place::Spooled(path, _) => path,
        }
    }

    /// Its bytes, as they are stored; 0 if nobody knows.
    pub fn size(&self) -> Result<u64> {
        match &self.place {
            Place::File(path) => Ok(std::fs::metadata(path)?.len()),
            Place::Stream(..) => Ok(0),
            Place::Spooled(_, file) => Ok(file.as_file().metadata()?.len()),
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
            Place::Spooled(_, file) => Box::new(file.reopen()?),
            Place::Stream(_, stream) => Box::new(Replay { stream: Arc::clone(stream), at: 0, keeps: looks }),
        };
        // Only reading for the last time is progress.
        let counted = Counted { raw, done: if looks { Arc::default() } else { Arc::clone(&self.done) } };
        let mut reader = BufReader::with_capacity(1 << 18, counted);
        let first = reader.fill_buf()?;
        if first.starts_with(GZIP) {
            return text(BufReader::with_capacity(1 << 18, flate2::bufread::MultiGzDecoder::new(reader)));
        }
        if first.starts_with(ZSTD) {
            return text(BufReader::with_capacity(1 << 18, zstd::stream::read::Decoder::with_buffer(reader)?));
        }
        text(reader)
    }

    /// The file itself, for formats that are read from their end.
    pub fn file(&self) -> Result<File> {
        let mut file = match &self.place {
            Place::File(path) => File::open(path)?,
            Place::Spooled(_, file) => file.reopen()?,
            Place::Stream(..) => return Err(Failure::new(format!("{} was not kept", self.name()))),
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

    /// Writes what can be read once to a file, for formats that are read more than once.
    pub fn spool(&mut self) -> Result<()> {
        let Place::Stream(path, stream) = &self.place else { return Ok(()) };
        let mut file = tempfile::NamedTempFile::new()?;
        io::copy(&mut Replay { stream: Arc::clone(stream), at: 0, keeps: false }, file.as_file_mut())?;
        self.place = Place::Spooled(path.clone(), Arc::new(file));
        Ok(())
    }
}

/// A text without what other programs write in front to say that it is UTF-8.
fn text(mut reader: impl BufRead + Send + 'static) -> Result<Box<dyn BufRead + Send>> {
    if reader.fill_buf()?.starts_with("\u{feff}".as_bytes()) {
        reader.consume('\u{feff}'.len_utf8());
    }
    Ok(Box::new(reader))
}

/// A stream from its beginning: first what was kept of it, then the rest.
struct Replay {
    stream: Arc<Mutex<Stream>>,
    at: usize,
    keeps: bool,
}

impl Read for Replay {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = stream.head.get(self.at..).unwrap_or_default();
        if !kept.is_empty() {
            let count = kept.len().min(buffer.len());
            buffer[..count].copy_from_slice(&kept[..count]);
            self.at += count;
            return Ok(count);
        }
        let count = match &mut stream.source {
            Some(file) => file.read(buffer)?,
            None => io::stdin().read(buffer)?,
        };
        if self.keeps {
            stream.head.extend_from_slice(&buffer[..count]);
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
