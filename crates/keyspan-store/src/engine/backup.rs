//! Taking a backup of an open store: its state at one moment is fixed, and written out while the store goes on.
//!
//! Rules: everything acknowledged before is in it, since the log is made durable up to there first. Manifest, log and
//! segments are taken under the manifest's lock, so that they fit together; then nothing is locked. Files stay readable
//! meanwhile: a segment's, since nobody deletes those of one that is held; the log's, since they are open.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use keyspan_model::{Error, ErrorKind, Result, SegmentId};

use super::core::{Core, closed};
use crate::backup::{BackupReport, BackupSource, BackupTarget, Contents, Listing};
use crate::files::{FileReader, Files};
use crate::format::Format;
use crate::log::needed_files;
use crate::manifest::{Edit, ManifestState};
use crate::run::SortedRun;
use crate::segment::{Segment, SegmentRecord};

/// The state of the store at one moment.
struct Moment {
    listing: Listing,
    log: Vec<Arc<dyn FileReader>>,
    /// So that their files stay.
    _segments: BTreeMap<SegmentId, Arc<Segment>>,
}

impl Core {
    /// Writes a backup; `stop` ends it, and so does closing the store.
    pub fn backup(&self, target: impl FnOnce() -> Result<Arc<dyn Files>>, stop: &AtomicBool) -> Result<BackupReport> {
        // Closing waits for this, after it has told it to end.
        let _open = self.loads.read();
        let go_on = || {
            if self.aborting.load(Ordering::Relaxed) {
                return Err(closed());
            }
            match stop.load(Ordering::Relaxed) {
                true => Err(Error::new(ErrorKind::Canceled, "canceling statement due to user request")),
                false => Ok(()),
            }
        };
        if let Some(error) = self.lane.lock().closed.clone() {
            return Err(error);
        }
        let target = BackupTarget::take(target()?, self.store)?;
        let Moment { listing, log, _segments } = self.moment()?;
        target.write(&listing, &BackupSource { files: self.files.as_ref(), log }, &go_on)
    }

    fn moment(&self) -> Result<Moment> {
        let format = Format::read(self.files.as_ref())?.ok_or_else(|| Error::internal("a store without KEYSPAN"))?;
        let last = self.state.lock().last_seq;
        self.log().wait(last)?;
        let manifest = self.manifest.lock();
        let marks = self.marks();
        let (durable, files) = self.log().durable_files();
        let files = needed_files(files, manifest.state().marks.log_start);
        let log = files.iter().map(|file| self.files.open(&file.path())).collect::<Result<_>>()?;
        let mut state = manifest.state().clone();
        let edit = state.edit;
        state.apply(Edit { marks, ..Edit::default() }, edit);
        state.marks.durable_seq = durable;
        state.dead.clear();
        let (segments, loaded) = self.segments_at(&mut state, durable);
        drop(manifest);
        let taken_at = self.options.clock.now().max(state.marks.timestamp);
        let contents = Contents { taken_at, log: files, loaded };
        Ok(Moment { listing: Listing { format, manifest: state, contents }, log, _segments: segments })
    }

    /// The segments of a manifest's state, and records of those that only the log names up to `durable`. What the
    /// manifest names of relations that are dropped is left out.
    fn segments_at(
        &self,
        state: &mut ManifestState,
        durable: u64,
    ) -> (BTreeMap<SegmentId, Arc<Segment>>, Vec<SegmentRecord>) {
        let version = self.state.lock().version.clone();
        let mut loaded = Vec::new();
        for relation in version.values() {
            let known = relation.unflushed_segments().filter(|segment| segment.meta().seq.1 <= durable);
            loaded.extend(known.map(|segment| segment.record().clone()));
        }
        let segments = version.values().flat_map(|relation| &relation.segments);
        let segments: BTreeMap<_, _> = segments.map(|segment| (segment.id(), segment.clone())).collect();
        state.segments.retain(|id, _| segments.contains_key(id));
        (segments, loaded)
    }
}
