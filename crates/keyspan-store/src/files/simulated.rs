//! A disk for tests: it forgets what was not synced, and fails when it is told to.
//!
//! ```text
//! file     now: what the process sees     durable: what was synced     dirty: 512-byte sectors that differ
//! name     seen at once                   durable after its directory's sync
//! crash    kill: all that was written    power loss: any part of what was not synced, by sectors and by names
//! ```
//!
//! Rules: every operation that changes something has a number, counted from 1 ([`SimulatedDisk::operations`]); a
//! [`Fault`] names the one that fails. A failed sync leaves nothing dirty and nothing durable, as Linux does: who
//! syncs again is told that all is well, and loses. Everything random comes from the seed of the image.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use keyspan_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use super::{FileLock, FileReader, FileWriter, Files, corrupted, io_error, parent};
use crate::random::Random;

const SECTOR: usize = 512;

/// What happens to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It is refused, as by a broken disk.
    Io,
    /// It is refused for want of space.
    Full,
    /// A write writes half and is refused then; anything else as `Io`.
    Short,
    /// It and everything after it is refused: the process is dead, what it says is not heard.
    Stop,
}

/// Which operations fail.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Number of the first operation that fails.
    pub at: u64,
    /// How many fail from there on.
    pub count: u64,
    /// How.
    pub failure: Failure,
}

/// How much of what was not synced a crash leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// All: the process was killed.
    Kill,
    /// Nothing: power was lost before any of it reached the disk.
    Nothing,
    /// Some sectors of each file, some names of each directory.
    Some(u64),
}

/// What is told before an operation is carried out: its number and what it does.
pub type Watcher = Arc<dyn Fn(u64, &str) + Send + Sync>;

/// A disk in memory. Clones share it.
#[derive(Clone, Default)]
pub struct SimulatedDisk {
    disk: Arc<Mutex<Disk>>,
    watcher: Arc<Mutex<Option<Watcher>>>,
    /// Where sled keeps its files, which it opens itself.
    manifest_log: Option<Arc<tempfile::TempDir>>,
}

impl std::fmt::Debug for SimulatedDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SimulatedDisk")
    }
}

#[derive(Default)]
struct Disk {
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    /// Changes of names that are not durable, in their order.
    pending: Vec<NameChange>,
    files: BTreeMap<u64, File>,
    next_file: u64,
    operations: u64,
    fault: Option<Fault>,
    read_fault: Option<String>,
    capacity: Option<u64>,
    locks: BTreeSet<String>,
}

#[derive(Clone, Debug)]
enum NameChange {
    Add(String, u64),
    Remove(String),
    Rename(String, String),
}

#[derive(Clone, Default)]
struct File {
    now: Content,
    durable: Content,
    dirty: BTreeSet<usize>,
}

/// Bytes, and zeroes behind them up to the length.
#[derive(Clone, Default)]
struct Content {
    bytes: Vec<u8>,
    length: usize,
}

impl Content {
    fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[at..end].copy_from_slice(bytes);
        self.length = self.length.max(end);
    }

    fn read(&self, at: usize, length: usize) -> Vec<u8> {
        let mut out = vec![0; length];
        let have = self.bytes.len().min(at + length).saturating_sub(at);
        out[..have].copy_from_slice(&self.bytes[at.min(self.bytes.len())..][..have]);
        out
    }
}

impl File {
    /// What a power loss leaves of it.
    fn after(&self, crash: Crash, random: &mut Random) -> Content {
        let odds = match crash {
            Crash::Kill => return self.now.clone(),
            Crash::Nothing => return self.durable.clone(),
            // Whole files kept or lost are as likely as torn ones.
            Crash::Some(_) => [0, 2, 4, 6, 8][random.below(5) as usize],
        };
        let mut left = self.durable.clone();
        for sector in self.dirty.iter().filter(|_| random.below(8) < odds) {
            let start = sector * SECTOR;
            let length = SECTOR.min(self.now.length.saturating_sub(start));
            left.write(start, &self.now.read(start, length));
        }
        if random.below(2) == 0 {
            left.length = left.length.max(self.now.length);
        }
        left
    }
}

impl Disk {
    fn used(&self) -> u64 {
        let live: BTreeSet<u64> = self.names.values().copied().collect();
        live.iter().map(|id| self.files[id].now.length as u64).sum()
    }

    fn room_for(&self, more: usize) -> io::Result<()> {
        match self.capacity {
            Some(capacity) if self.used() + more as u64 > capacity => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }

    fn names_after(&self, crash: Crash, random: &mut Random) -> BTreeMap<String, u64> {
        let mut names = self.durable_names.clone();
        match crash {
            Crash::Kill => return self.names.clone(),
            Crash::Nothing => return names,
            Crash::Some(_) => {}
        }
        // A journal keeps a beginning of the changes; other file systems keep any of them.
        let in_order = random.below(2) == 0;
        let kept = random.below(self.pending.len() as u64 + 1) as usize;
        for (at, change) in self.pending.iter().enumerate() {
            if if in_order { at < kept } else { random.below(2) == 0 } {
                apply(&mut names, change);
            }
        }
        names
    }
}

fn apply(names: &mut BTreeMap<String, u64>, change: &NameChange) {
    match change {
        NameChange::Add(name, file) => {
            names.insert(name.clone(), *file);
        }
        NameChange::Remove(name) => {
            names.remove(name);
        }
        NameChange::Rename(from, to) => {
            if let Some(file) = names.remove(from) {
                names.insert(to.clone(), file);
            }
        }
    }
}

fn is_in(change: &NameChange, directory: &str) -> bool {
    match change {
        NameChange::Add(name, _) | NameChange::Remove(name) | NameChange::Rename(_, name) => parent(name) == directory,
    }
}

impl SimulatedDisk {
    /// An empty disk. There is no place for sled on it: every edit of the manifest is a checkpoint.
    pub fn new() -> SimulatedDisk {
        SimulatedDisk::default()
    }

    /// An empty disk with a real directory for sled.
    pub fn with_manifest_log() -> SimulatedDisk {
        let directory = tempfile::tempdir().expect("a directory");
        SimulatedDisk { manifest_log: Some(Arc::new(directory)), ..SimulatedDisk::default() }
    }

    /// Changing operations so far.
    pub fn operations(&self) -> u64 {
        self.disk.lock().operations
    }

    /// Makes operations fail.
    pub fn fail(&self, fault: Fault) {
        self.disk.lock().fault = Some(fault);
    }

    /// All is well again.
    pub fn heal(&self) {
        let mut disk = self.disk.lock();
        (disk.fault, disk.read_fault) = (None, None);
    }

    /// Makes reads of files whose path begins so fail.
    pub fn fail_reads(&self, prefix: &str) {
        self.disk.lock().read_fault = Some(prefix.to_string());
    }

    /// Limits the bytes of all files together.
    pub fn limit(&self, capacity: Option<u64>) {
        self.disk.lock().capacity = capacity;
    }

    /// Bytes of all files together.
    pub fn used(&self) -> u64 {
        self.disk.lock().used()
    }

    /// Is told of every operation before it is carried out.
    pub fn watch(&self, watcher: Option<Watcher>) {
        *self.watcher.lock() = watcher;
    }

    /// Paths of all files.
    pub fn paths(&self) -> Vec<String> {
        self.disk.lock().names.keys().cloned().collect()
    }

    /// Changes the bytes of a file in place, durably: damage.
    pub fn damage(&self, path: &str, change: impl FnOnce(&mut Vec<u8>)) {
        if let Some(real) = self.real(path) {
            let mut bytes = std::fs::read(&real).expect("is there");
            change(&mut bytes);
            return std::fs::write(&real, bytes).expect("writes");
        }
        let mut disk = self.disk.lock();
        let file = disk.names[path];
        let file = disk.files.get_mut(&file).expect("a name has a file");
        let length = file.now.length;
        file.now.bytes.resize(length, 0);
        change(&mut file.now.bytes);
        file.now.length = file.now.bytes.len();
        (file.durable, file.dirty) = (file.now.clone(), BTreeSet::new());
    }

    /// Another disk, as a crash at this moment would leave this one.
    pub fn after(&self, crash: Crash) -> SimulatedDisk {
        let disk = self.disk.lock();
        let mut random = Random::new(if let Crash::Some(seed) = crash { seed } else { 0 });
        let names = disk.names_after(crash, &mut random);
        let mut left = Disk { capacity: disk.capacity, next_file: disk.next_file, ..Disk::default() };
        for id in names.values() {
            let content = disk.files[id].after(crash, &mut random);
            let file = File { now: content.clone(), durable: content, dirty: BTreeSet::new() };
            left.files.entry(*id).or_insert(file);
        }
        (left.durable_names, left.names) = (names.clone(), names);
        let manifest_log =
            self.manifest_log.as_ref().map(|own| Arc::new(manifest_log_after(own.path(), &disk, crash, &mut random)));
        SimulatedDisk { disk: Arc::new(Mutex::new(left)), watcher: Arc::default(), manifest_log }
    }

    /// Where a file of sled's really is.
    fn real(&self, path: &str) -> Option<PathBuf> {
        let inside = path == "edits" || path.starts_with("edits/") || path.starts_with("edits.damaged");
        self.manifest_log.as_ref().filter(|_| inside).map(|root| root.path().join(path))
    }

    /// Counts an operation, and refuses it if it is to fail.
    fn operation(&self, what: &str, path: &str) -> io::Result<()> {
        let number = {
            let mut disk = self.disk.lock();
            disk.operations += 1;
            disk.operations
        };
        let watcher = self.watcher.lock().clone();
        if let Some(watcher) = watcher {
            watcher(number, &format!("{what} {path}"));
        }
        let fault = self.disk.lock().fault;
        match fault.filter(|fault| number >= fault.at && number - fault.at < fault.count) {
            None => Ok(()),
            Some(Fault { failure: Failure::Full, .. }) => Err(io::ErrorKind::StorageFull.into()),
            Some(Fault { failure: Failure::Short, .. }) => Err(io::ErrorKind::WriteZero.into()),
            Some(_) => Err(io::Error::other("a fault of the simulated disk")),
        }
    }

    fn done(&self, what: &str, path: &str) -> Result<()> {
        self.operation(what, path).map_err(|error| io_error(what, path, &error))
    }

    fn file(&self, what: &str, path: &str) -> Result<u64> {
        let disk = self.disk.lock();
        disk.names.get(path).copied().ok_or_else(|| io_error(what, path, &io::ErrorKind::NotFound.into()))
    }
}

/// sled's directory as a crash would leave it: its one growing file by sectors, the others as they are.
fn manifest_log_after(root: &Path, disk: &Disk, crash: Crash, random: &mut Random) -> tempfile::TempDir {
    let left = tempfile::tempdir().expect("a directory");
    let from = root.join("edits");
    let Some(synced) = disk.names.get("edits/db").map(|id| &disk.files[id]) else { return left };
    std::fs::create_dir(left.path().join("edits")).expect("makes");
    for entry in std::fs::read_dir(from).expect("lists").flatten() {
        let target = left.path().join("edits").join(entry.file_name());
        if entry.file_name() != "db" {
            if entry.path().is_file() {
                std::fs::copy(entry.path(), target).expect("copies");
            }
            continue;
        }
        let bytes = std::fs::read(entry.path()).expect("reads");
        let now = Content { length: bytes.len(), bytes };
        let differs =
            |sector: &usize| now.read(sector * SECTOR, SECTOR) != synced.durable.read(sector * SECTOR, SECTOR);
        let dirty = (0..now.length.div_ceil(SECTOR)).filter(differs).collect();
        let file = File { now, durable: synced.durable.clone(), dirty };
        let after = file.after(crash, random);
        std::fs::write(target, after.read(0, after.length)).expect("writes");
    }
    left
}

impl Files for SimulatedDisk {
    fn create(&self, path: &str) -> Result<Box<dyn FileWriter>> {
        self.done("create", path)?;
        let mut disk = self.disk.lock();
        if disk.names.contains_key(path) {
            return Err(io_error("create", path, &io::ErrorKind::AlreadyExists.into()));
        }
        disk.next_file += 1;
        let id = disk.next_file;
        disk.files.insert(id, File::default());
        disk.names.insert(path.to_string(), id);
        disk.pending.push(NameChange::Add(path.to_string(), id));
        Ok(Box::new(Writer { disk: self.clone(), id, path: path.to_string(), position: 0 }))
    }

    fn open(&self, path: &str) -> Result<Arc<dyn FileReader>> {
        let id = self.file("open", path)?;
        let length = self.disk.lock().files[&id].now.length as u64;
        Ok(Arc::new(Reader { disk: self.clone(), id, length, path: path.to_string() }))
    }

    fn adopt(&self, path: &str) -> Result<Box<dyn FileWriter>> {
        let mut disk = self.disk.lock();
        let id = match disk.names.get(path) {
            Some(id) => *id,
            None => {
                disk.next_file += 1;
                let id = disk.next_file;
                disk.files.insert(id, File::default());
                disk.names.insert(path.to_string(), id);
                disk.durable_names.insert(path.to_string(), id);
                id
            }
        };
        Ok(Box::new(Writer { disk: self.clone(), id, path: path.to_string(), position: 0 }))
    }

    fn link(&self, from: &str, to: &str) -> Result<bool> {
        self.done("link", to)?;
        let id = self.file("link", from)?;
        let mut disk = self.disk.lock();
        if disk.names.contains_key(to) {
            return Ok(false);
        }
        disk.names.insert(to.to_string(), id);
        disk.pending.push(NameChange::Add(to.to_string(), id));
        Ok(true)
    }

    fn create_dir(&self, path: &str) -> Result<()> {
        self.done("make directory", path)
    }

    fn sync_dir(&self, path: &str) -> Result<()> {
        self.done("sync directory", path)?;
        let mut disk = self.disk.lock();
        let (synced, kept) = std::mem::take(&mut disk.pending).into_iter().partition(|change| is_in(change, path));
        disk.pending = kept;
        let synced: Vec<NameChange> = synced;
        synced.iter().for_each(|change| apply(&mut disk.durable_names, change));
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.done("rename", from)?;
        if let (Some(real), Some(target)) = (self.real(from), self.real(to)) {
            self.disk.lock().names.retain(|name, _| !name.starts_with(&format!("{from}/")));
            return std::fs::rename(real, target).map_err(|error| io_error("rename", from, &error));
        }
        self.file("rename", from)?;
        let mut disk = self.disk.lock();
        let change = NameChange::Rename(from.to_string(), to.to_string());
        apply(&mut disk.names, &change);
        disk.pending.push(change);
        Ok(())
    }

    fn remove(&self, path: &str) -> Result<()> {
        if let Some(real) = self.real(path) {
            self.done("remove", path)?;
            return std::fs::remove_file(real).map_err(|error| io_error("remove", path, &error));
        }
        if self.file("remove", path).is_err() {
            return Ok(());
        }
        self.done("remove", path)?;
        let mut disk = self.disk.lock();
        disk.names.remove(path);
        disk.pending.push(NameChange::Remove(path.to_string()));
        Ok(())
    }

    fn remove_dir(&self, path: &str) -> Result<()> {
        let Some(real) = self.real(path) else { return Ok(()) };
        let _ = std::fs::remove_dir_all(real);
        Ok(())
    }

    fn list(&self, path: &str) -> Result<Vec<String>> {
        if let Some(real) = self.real(path) {
            let entries = std::fs::read_dir(real).into_iter().flatten().flatten();
            return Ok(entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect());
        }
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        let disk = self.disk.lock();
        let inside = disk.names.keys().filter_map(|name| name.strip_prefix(&prefix));
        let names: BTreeSet<&str> = inside.map(|rest| rest.split('/').next().unwrap_or(rest)).collect();
        Ok(names.into_iter().map(str::to_string).collect())
    }

    fn len(&self, path: &str) -> Result<Option<u64>> {
        let disk = self.disk.lock();
        Ok(disk.names.get(path).map(|id| disk.files[id].now.length as u64))
    }

    fn lock(&self, path: &str) -> Result<Box<dyn FileLock>> {
        if !self.disk.lock().locks.insert(path.to_string()) {
            return Err(Error::new(ErrorKind::ObjectInUse, "this simulated disk is in use"));
        }
        Ok(Box::new(Lock { disk: self.clone(), path: path.to_string() }))
    }

    fn free_space(&self) -> Result<Option<u64>> {
        let disk = self.disk.lock();
        Ok(disk.capacity.map(|capacity| capacity.saturating_sub(disk.used())))
    }

    fn local_root(&self) -> Option<&Path> {
        self.manifest_log.as_ref().map(|root| root.path())
    }

    fn display(&self, path: &str) -> String {
        path.to_string()
    }
}

#[derive(Debug)]
struct Lock {
    disk: SimulatedDisk,
    path: String,
}

impl FileLock for Lock {}

impl Drop for Lock {
    fn drop(&mut self) {
        self.disk.disk.lock().locks.remove(&self.path);
    }
}

struct Writer {
    disk: SimulatedDisk,
    id: u64,
    path: String,
    position: usize,
}

impl Writer {
    fn put(&mut self, bytes: &[u8]) {
        let mut disk = self.disk.disk.lock();
        let file = disk.files.get_mut(&self.id).expect("an open file is there");
        file.now.write(self.position, bytes);
        let end = self.position + bytes.len();
        file.dirty.extend(self.position / SECTOR..end.div_ceil(SECTOR));
        drop(disk);
        self.position = end;
    }

    fn refused(&self, what: &str, error: &io::Error) -> Error {
        io_error(what, &self.path, error)
    }

    fn lost(&self) {
        let mut disk = self.disk.disk.lock();
        disk.files.get_mut(&self.id).expect("an open file is there").dirty.clear();
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.disk.operation("write", &self.path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WriteZero => {
                self.put(&bytes[..bytes.len() / 2]);
                return Err(io::Error::other("a write was cut short"));
            }
            Err(error) => return Err(error),
        }
        let more = {
            let disk = self.disk.disk.lock();
            let more = (self.position + bytes.len()).saturating_sub(disk.files[&self.id].now.length);
            disk.room_for(more).map(|()| bytes.len())
        };
        self.put(&bytes[..more?]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl FileWriter for Writer {
    fn sync_data(&mut self) -> Result<()> {
        if let Err(error) = self.disk.operation("sync", &self.path) {
            self.lost();
            return Err(self.refused("sync", &error));
        }
        let real = self.disk.real(&self.path).map(|real| std::fs::read(real).expect("reads"));
        let mut disk = self.disk.disk.lock();
        let file = disk.files.get_mut(&self.id).expect("an open file is there");
        if let Some(bytes) = real {
            file.durable = Content { length: bytes.len(), bytes };
            return Ok(());
        }
        for sector in std::mem::take(&mut file.dirty) {
            let start = sector * SECTOR;
            let length = SECTOR.min(file.now.length.saturating_sub(start));
            let bytes = file.now.read(start, length);
            file.durable.write(start, &bytes);
        }
        file.durable.length = file.now.length;
        Ok(())
    }

    fn preallocate(&mut self, length: u64) -> Result<()> {
        let length = length as usize;
        self.disk.operation("reserve", &self.path).map_err(|error| self.refused("reserve space for", &error))?;
        let mut disk = self.disk.disk.lock();
        let more = length.saturating_sub(disk.files[&self.id].now.length);
        disk.room_for(more).map_err(|error| self.refused("reserve space for", &error))?;
        let file = disk.files.get_mut(&self.id).expect("an open file is there");
        file.now.length = file.now.length.max(length);
        Ok(())
    }
}

#[derive(Debug)]
struct Reader {
    disk: SimulatedDisk,
    id: u64,
    length: u64,
    path: String,
}

impl FileReader for Reader {
    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        let disk = self.disk.disk.lock();
        if disk.read_fault.as_ref().is_some_and(|prefix| self.path.starts_with(prefix)) {
            return Err(io_error("read", &self.path, &io::Error::other("a fault of the simulated disk")));
        }
        if offset.checked_add(length as u64).is_none_or(|end| end > self.length) {
            return Err(corrupted(&self.path, "it ends too early"));
        }
        Ok(disk.files[&self.id].now.read(offset as usize, length).into())
    }
}
