//! Files in memory: for stores that need not outlive the process, and for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use keyspan_model::{Error, ErrorKind, Result};
use parking_lot::{Mutex, RwLock};

use super::{FileLock, FileReader, FileWriter, Files, corrupted, io_error};

type Content = Arc<RwLock<Vec<u8>>>;

/// Files in memory. Clones share them, so that a store can be opened again on what an earlier one wrote.
#[derive(Clone, Debug, Default)]
pub struct MemoryFiles {
    files: Arc<Mutex<BTreeMap<String, Content>>>,
    locks: Arc<Mutex<BTreeSet<String>>>,
}

impl MemoryFiles {
    /// An empty directory.
    pub fn new() -> MemoryFiles {
        MemoryFiles::default()
    }

    /// Another directory with a copy of what is in this one now, and no locks: the disk as a crash would leave it.
    pub fn fork(&self) -> MemoryFiles {
        let files = self.files.lock();
        let copied = files.iter().map(|(name, content)| (name.clone(), Arc::new(RwLock::new(content.read().clone()))));
        MemoryFiles { files: Arc::new(Mutex::new(copied.collect())), locks: Arc::default() }
    }

    /// Changes the bytes of a file in place: damage, for tests.
    pub fn damage(&self, path: &str, change: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        change(&mut self.content("change", path)?.write());
        Ok(())
    }

    fn content(&self, what: &str, path: &str) -> Result<Content> {
        self.files
            .lock()
            .get(path)
            .cloned()
            .ok_or_else(|| io_error(what, &self.display(path), &io::Error::from(io::ErrorKind::NotFound)))
    }
}

impl Files for MemoryFiles {
    fn create(&self, path: &str) -> Result<Box<dyn FileWriter>> {
        let content = Content::default();
        let mut files = self.files.lock();
        if files.contains_key(path) {
            return Err(io_error("create", &self.display(path), &io::Error::from(io::ErrorKind::AlreadyExists)));
        }
        files.insert(path.to_string(), content.clone());
        Ok(Box::new(MemoryWriter { content, position: 0 }))
    }

    fn open(&self, path: &str) -> Result<Arc<dyn FileReader>> {
        let content = self.content("open", path)?;
        let length = content.read().len() as u64;
        Ok(Arc::new(MemoryReader { content, length, name: self.display(path) }))
    }

    fn adopt(&self, path: &str) -> Result<Box<dyn FileWriter>> {
        let content = self.content("open", path)?;
        let position = content.read().len();
        Ok(Box::new(MemoryWriter { content, position }))
    }

    fn link(&self, from: &str, to: &str) -> Result<bool> {
        let content = self.content("link", from)?;
        let mut files = self.files.lock();
        let absent = !files.contains_key(to);
        if absent {
            files.insert(to.to_string(), content);
        }
        Ok(absent)
    }

    fn put_if_absent(&self, path: &str, bytes: &[u8]) -> Result<bool> {
        let mut files = self.files.lock();
        let absent = !files.contains_key(path);
        if absent {
            files.insert(path.to_string(), Arc::new(RwLock::new(bytes.to_vec())));
        }
        Ok(absent)
    }

    fn create_dir(&self, _path: &str) -> Result<()> {
        Ok(())
    }

    fn sync_dir(&self, _path: &str) -> Result<()> {
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let content = self.content("rename", from)?;
        let mut files = self.files.lock();
        files.remove(from);
        files.insert(to.to_string(), content);
        Ok(())
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.files.lock().remove(path);
        Ok(())
    }

    fn remove_dir(&self, path: &str) -> Result<()> {
        let prefix = format!("{path}/");
        self.files.lock().retain(|name, _| !name.starts_with(&prefix));
        Ok(())
    }

    fn list(&self, path: &str) -> Result<Vec<String>> {
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        let files = self.files.lock();
        let inside = files.keys().filter_map(|name| name.strip_prefix(&prefix));
        let names: BTreeSet<&str> = inside.map(|rest| rest.split('/').next().unwrap_or(rest)).collect();
        Ok(names.into_iter().map(str::to_string).collect())
    }

    fn len(&self, path: &str) -> Result<Option<u64>> {
        Ok(self.files.lock().get(path).map(|content| content.read().len() as u64))
    }

    fn lock(&self, path: &str) -> Result<Box<dyn FileLock>> {
        if !self.locks.lock().insert(path.to_string()) {
            return Err(Error::new(ErrorKind::ObjectInUse, "this in-memory store is open already"));
        }
        Ok(Box::new(MemoryLock { locks: self.locks.clone(), path: path.to_string() }))
    }

    fn free_space(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    fn local_root(&self) -> Option<&Path> {
        None
    }
}

#[derive(Debug)]
struct MemoryLock {
    locks: Arc<Mutex<BTreeSet<String>>>,
    path: String,
}

impl FileLock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.locks.lock().remove(&self.path);
    }
}

struct MemoryWriter {
    content: Content,
    position: usize,
}

impl Write for MemoryWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut content = self.content.write();
        let overwritten = bytes.len().min(content.len() - self.position);
        let position = self.position;
        content[position..position + overwritten].copy_from_slice(&bytes[..overwritten]);
        content.extend_from_slice(&bytes[overwritten..]);
        self.position += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl FileWriter for MemoryWriter {
    fn sync_data(&mut self) -> Result<()> {
        Ok(())
    }

    fn preallocate(&mut self, _length: u64) -> Result<()> {
        // Space that is reserved and not written would cost real memory here; readers take the end of a file as zeroes.
        Ok(())
    }
}

#[derive(Debug)]
struct MemoryReader {
    content: Content,
    length: u64,
    name: String,
}

impl FileReader for MemoryReader {
    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        let content = self.content.read();
        let range = usize::try_from(offset).ok().and_then(|start| content.get(start..start.checked_add(length)?));
        let bytes = range.ok_or_else(|| corrupted(&self.name, "it ends too early"))?;
        Ok(Bytes::copy_from_slice(bytes))
    }
}
