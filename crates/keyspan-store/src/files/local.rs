//! Files of a local directory.
//!
//! Directories and files that are made are the owner's alone, as PostgreSQL's are: they hold all rows, and what passwords are
//! verified with.
//!
//! Rule: what [`Files`] calls durable has gone through fdatasync (bytes) and an fsync of the directory (names).

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use keyspan_model::{Error, ErrorKind, Result};

use super::{FileLock, FileReader, FileWriter, Files, io_error, joined, parent, waiting};

/// Rights of what is made.
const OWN_FILE: u32 = 0o600;
const OWN_DIR: u32 = 0o700;

/// Files of a local directory.
#[derive(Debug)]
pub struct LocalFiles {
    root: PathBuf,
}

impl LocalFiles {
    /// The files under `root`, which is made, durably, if it does not exist.
    pub fn new(root: impl Into<PathBuf>) -> Result<LocalFiles> {
        let root = root.into();
        make_durably(&root).map_err(|error| io_error("make directory", &root.display().to_string(), &error))?;
        Ok(LocalFiles { root })
    }

    fn at(&self, path: &str) -> PathBuf {
        joined(&self.root, path)
    }

    fn fail(&self, what: &str, path: &str, error: &io::Error) -> Error {
        io_error(what, &self.display(path), error)
    }
}

impl Files for LocalFiles {
    fn create(&self, path: &str) -> Result<Box<dyn FileWriter>> {
        let file = OpenOptions::new().write(true).create_new(true).mode(OWN_FILE).open(self.at(path));
        let file = file.map_err(|error| self.fail("create", path, &error))?;
        Ok(Box::new(LocalWriter { file, name: self.display(path) }))
    }

    fn open(&self, path: &str) -> Result<Arc<dyn FileReader>> {
        waiting::ask(path)?;
        let file = File::open(self.at(path)).map_err(|error| self.fail("open", path, &error))?;
        let length = file.metadata().map_err(|error| self.fail("open", path, &error))?.len();
        Ok(Arc::new(LocalReader { file, length, name: self.display(path) }))
    }

    fn adopt(&self, path: &str) -> Result<Box<dyn FileWriter>> {
        let file = File::open(self.at(path)).map_err(|error| self.fail("open", path, &error))?;
        Ok(Box::new(LocalWriter { file, name: self.display(path) }))
    }

    fn link(&self, from: &str, to: &str) -> Result<bool> {
        match fs::hard_link(self.at(from), self.at(to)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(self.fail("write", to, &error)),
        }
    }

    fn link_from(&self, other: &dyn Files, from: &str, to: &str) -> bool {
        other.local_root().is_some_and(|root| fs::hard_link(joined(root, from), self.at(to)).is_ok())
    }

    fn create_dir(&self, path: &str) -> Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(OWN_DIR)
            .create(self.at(path))
            .map_err(|error| self.fail("make directory", path, &error))?;
        self.sync_dir(parent(path))
    }

    fn sync_dir(&self, path: &str) -> Result<()> {
        File::open(self.at(path))
            .and_then(|dir| dir.sync_all())
            .map_err(|error| self.fail("sync directory", path, &error))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        fs::rename(self.at(from), self.at(to)).map_err(|error| self.fail("rename", from, &error))
    }

    fn remove(&self, path: &str) -> Result<()> {
        match fs::remove_file(self.at(path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.fail("remove", path, &error)),
            _ => Ok(()),
        }
    }

    fn remove_dir(&self, path: &str) -> Result<()> {
        match fs::remove_dir_all(self.at(path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.fail("remove", path, &error)),
            _ => Ok(()),
        }
    }

    fn list(&self, path: &str) -> Result<Vec<String>> {
        let entries = match fs::read_dir(self.at(path)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.fail("list directory", path, &error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| self.fail("list directory", path, &error))?;
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    fn len(&self, path: &str) -> Result<Option<u64>> {
        match fs::metadata(self.at(path)) {
            Ok(metadata) => Ok(Some(metadata.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.fail("look at", path, &error)),
        }
    }

    fn lock(&self, path: &str) -> Result<Box<dyn FileLock>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(OWN_FILE);
        let mut file = options.open(self.at(path)).map_err(|error| self.fail("open", path, &error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let known = file.read_to_string(&mut holder).is_ok() && !holder.trim().is_empty();
                let by = if known { format!("process {}", holder.trim()) } else { "another process".to_string() };
                let message = format!("data directory \"{}\" is in use by {by}", self.root.display());
                return Err(Error::new(ErrorKind::ObjectInUse, message)
                    .with_hint("Only one process opens a data directory: stop the other one, or connect to it."));
            }
            Err(TryLockError::Error(error)) => return Err(self.fail("lock", path, &error)),
        }
        let noted = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
        noted.map_err(|error| self.fail("write", path, &error))?;
        Ok(Box::new(LocalLock { _file: file }))
    }

    fn free_space(&self) -> Result<Option<u64>> {
        let space = fs2::statvfs(&self.root).map_err(|error| self.fail("look at", "", &error))?;
        Ok(known_space(space.total_space(), space.available_space()))
    }

    fn local_root(&self) -> Option<&Path> {
        Some(&self.root)
    }
}

/// Free bytes as a file system tells them. One that says that it has no blocks at all, as some FUSE file systems do,
/// tells no size: it is not a full disk.
fn known_space(total: u64, available: u64) -> Option<u64> {
    (total > 0).then_some(available)
}

/// Makes a directory and those above it; each name is durable when its own directory was synced.
fn make_durably(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let above = path.parent().map(|above| if above.as_os_str().is_empty() { Path::new(".") } else { above });
    let Some(above) = above else { return fs::create_dir_all(path) };
    make_durably(above)?;
    match DirBuilder::new().mode(OWN_DIR).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    File::open(above)?.sync_all()
}

/// The operating system frees the lock with the descriptor, also when the process is killed.
#[derive(Debug)]
struct LocalLock {
    _file: File,
}

impl FileLock for LocalLock {}

struct LocalWriter {
    file: File,
    name: String,
}

impl Write for LocalWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl FileWriter for LocalWriter {
    fn sync_data(&mut self) -> Result<()> {
        self.file.sync_data().map_err(|error| io_error("sync", &self.name, &error))
    }

    fn preallocate(&mut self, length: u64) -> Result<()> {
        fs2::FileExt::allocate(&self.file, length).map_err(|error| io_error("reserve space for", &self.name, &error))
    }
}

#[derive(Debug)]
struct LocalReader {
    file: File,
    length: u64,
    name: String,
}

impl FileReader for LocalReader {
    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        let end = offset.checked_add(length as u64);
        if end.is_none_or(|end| end > self.length) {
            return Err(super::corrupted(
                &self.name,
                format!("it ends before byte {}", offset.saturating_add(length as u64)),
            ));
        }
        waiting::ask(&self.name)?;
        let mut buffer = vec![0; length];
        self.file.read_exact_at(&mut buffer, offset).map_err(|error| io_error("read", &self.name, &error))?;
        Ok(buffer.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_the_owners_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().expect("a directory");
        let files = LocalFiles::new(dir.path().join("data")).expect("made");
        files.create_dir("within/it").expect("made");
        files.create("within/it/file").expect("made");
        let _held = files.lock("LOCK").expect("free");
        for (path, rights) in
            [("", 0o700), ("within", 0o700), ("within/it", 0o700), ("within/it/file", 0o600), ("LOCK", 0o600)]
        {
            let mode = fs::metadata(files.at(path)).expect("it is there").permissions().mode();
            assert_eq!(mode & 0o777, rights, "{path}");
        }
    }

    #[test]
    fn only_one_holds_the_lock() {
        let dir = tempfile::tempdir().expect("a directory");
        let files = LocalFiles::new(dir.path()).expect("opens");
        let held = files.lock("LOCK").expect("free");
        let error = files.lock("LOCK").expect_err("held");
        assert_eq!(error.kind, ErrorKind::ObjectInUse);
        assert!(error.message.contains(&std::process::id().to_string()), "{error}");
        drop(held);
        files.lock("LOCK").expect("free again");
    }

    #[test]
    fn a_file_is_put_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let files = LocalFiles::new(dir.path()).expect("opens");
        assert!(files.put_if_absent("one", b"first").expect("writes"));
        assert!(!files.put_if_absent("one", b"second").expect("looks"));
        assert_eq!(files.read("one").expect("reads").as_ref(), b"first");
        assert_eq!(files.list("").expect("lists"), ["one"]);
        assert_eq!(files.open("one").expect("opens").read_at(3, 9).expect_err("too far").kind, ErrorKind::Corrupted);
    }

    #[test]
    fn a_file_system_without_a_size_is_not_a_full_disk() {
        assert_eq!(known_space(0, 0), None);
        assert_eq!(known_space(1 << 30, 0), Some(0), "full");
        assert_eq!(known_space(1 << 30, 4096), Some(4096));
    }

    /// The file system of processes has no blocks.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_the_system_says_of_a_file_system_without_a_size_is_no_limit() {
        let files = LocalFiles::new("/proc").expect("it is there");
        assert_eq!(files.free_space().expect("looks"), None);
    }
}
