//! Repairing the segments of an open store: what can be read of a damaged one becomes new segments in its place.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use keyspan_model::{ErrorKind, KeyEncoder, Result, row_key_text};

use super::EmbeddedStore;
use super::core::Core;
use super::version::RelationVersion;
use super::write::ROW_BYTES;
use crate::compact::{MergeOutput, SEGMENT_BYTES, write_batches};
use crate::files::keep_damaged;
use crate::manifest::Edit;
use crate::policy::{output_level, window_level};
use crate::segment::{LostRows, Salvage, Segment, SegmentRecord, SystemPlan, data_path, index_path, verify_segment};

/// What became of damaged segments.
#[derive(Debug, Default)]
pub struct SegmentRepairs {
    /// What was done, a sentence each.
    pub done: Vec<String>,
    /// Rows that are lost, overwritten ones and tombstones included.
    pub rows_lost: u64,
}

impl EmbeddedStore {
    /// Verifies every segment and repairs those that are damaged. Nobody else uses the store meanwhile.
    pub fn repair_segments(&self) -> Result<SegmentRepairs> {
        let mut repairs = SegmentRepairs::default();
        // So that the manifest, and not the log, names all of them.
        self.core.flush_all()?;
        let version = self.core.state.lock().version.clone();
        for relation in version.values() {
            for segment in &relation.segments {
                self.core.repair_segment(relation, segment, &mut repairs)?;
            }
        }
        drop(version);
        self.core.delete_dead()?;
        Ok(repairs)
    }
}

impl Core {
    fn repair_segment(
        &self,
        relation: &RelationVersion,
        segment: &Arc<Segment>,
        repairs: &mut SegmentRepairs,
    ) -> Result<()> {
        let (definition, record) = (&relation.definition, segment.record());
        let paths = [data_path(record.id), index_path(record.id)];
        let there: Vec<&String> =
            paths.iter().filter(|path| self.files.len(path).is_ok_and(|length| length.is_some())).collect();
        let salvage = if there.len() < paths.len() {
            Salvage::nothing(&self.files, definition, record)
        } else {
            match verify_segment(&self.files, definition, record) {
                Err(error) if error.kind == ErrorKind::Corrupted => Salvage::of(&self.files, definition, record)?,
                verified => return verified.map(drop),
            }
        };
        for path in there {
            repairs.done.push(keep_damaged(self.files.as_ref(), path)?);
        }
        let saved = self.save(relation, record, &salvage)?;
        self.replace(relation, segment, saved)?;
        self.report_salvage(relation, record, &salvage, repairs);
        Ok(())
    }

    /// Writes what can be read as new segments.
    fn save(
        &self,
        relation: &RelationVersion,
        record: &SegmentRecord,
        salvage: &Salvage,
    ) -> Result<Vec<SegmentRecord>> {
        if salvage.is_empty() {
            return Ok(Vec::new());
        }
        let definition = &relation.definition;
        let mut plan = SystemPlan::default();
        salvage.segment().observe(definition, &mut plan)?;
        let extents = [record.meta.all.clone()];
        let output = MergeOutput {
            files: &self.files,
            relation: definition,
            plan,
            level: output_level(definition, &extents, window_level(definition, &extents)),
            seq: record.meta.seq,
            segment_bytes: SEGMENT_BYTES.min((self.options.segment_rows as u64).saturating_mul(ROW_BYTES)),
            new_id: &|| self.new_segment_id(),
            pause: &|| Ok(()),
        };
        write_batches(&output, || Ok(salvage.batches(definition)))
    }

    fn replace(&self, relation: &RelationVersion, segment: &Arc<Segment>, saved: Vec<SegmentRecord>) -> Result<()> {
        let mut manifest = self.manifest.lock();
        let edit = Edit { add: saved.clone(), remove: vec![segment.id()], ..self.edit(&manifest) };
        if let Err(error) = manifest.commit(edit, true) {
            self.doubt(&manifest, &saved);
            return Err(error);
        }
        let saved = saved.into_iter().map(|record| self.segment(relation, record)).collect();
        self.publish_merge(relation.definition.id, &BTreeSet::from([segment.id()]), saved);
        self.compactions.fetch_add(1, Ordering::Relaxed);
        drop(manifest);
        self.bury([segment].into_iter());
        Ok(())
    }

    fn report_salvage(
        &self,
        relation: &RelationVersion,
        record: &SegmentRecord,
        salvage: &Salvage,
        repairs: &mut SegmentRepairs,
    ) {
        let definition = &relation.definition;
        let catalog = self.state.lock().schema.catalog.clone();
        let mut tables = catalog.all_tables();
        let table = tables.find(|table| table.relations().iter().any(|own| own.id == definition.id));
        let table = table.map_or(String::new(), |table| format!("{}.{}", table.keyspace, table.name));
        let encoder = KeyEncoder::new(&definition.key);
        let types: Vec<_> = definition.key.iter().map(|column| column.ty).collect();
        let key = |bytes: &[u8]| encoder.decode(bytes).map_or("?".to_string(), |values| row_key_text(&values, &types));
        for LostRows { rows, first, end } in &salvage.lost {
            repairs.rows_lost += rows;
            let (first, end) = (key(first), key(end));
            repairs.done.push(format!("table {table}: {rows} rows from key '{first}' to key '{end}' are lost"));
        }
        let lost: u64 = salvage.lost.iter().map(|lost| lost.rows).sum();
        let saved = record.meta.all.rows.saturating_sub(lost);
        repairs.done.push(format!("table {table}: {saved} rows of segment {} were saved", record.id));
    }
}
