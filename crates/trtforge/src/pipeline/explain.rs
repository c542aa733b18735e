//! Why INT8 was rejected, where no search for a way back has found out.

use trtforge_evaluate::GateOutcome;

use super::Run;
use crate::checked::Checked;
use crate::profile::{FallbackSection, Precision};
use crate::stages::fallback::Setting;

/// Rows that say which parts hurt: few, since a part that ruins INT8 shows on any.
const ROWS: usize = 16;

impl Run<'_> {
    /// Measures what each part alone costs, so that the report names those that hurt. A verdict stands without it.
    pub(super) fn explain(&mut self, inputs: &Checked) {
        let rejected = |judged: &crate::stages::judge::Judged| {
            judged.verdict.outcome == GateOutcome::Rejected && !judged.accepted
        };
        let searched = self.profile.gate.fallback.is_some() && !self.profile.gate.require_device;
        if searched || !self.judged.get(&Precision::Int8).is_some_and(rejected) {
            return;
        }
        let table = self.table().clone();
        let section = FallbackSection { rows: ROWS, ..FallbackSection::default() };
        let (profile, store, progress) = (self.profile, &self.store, self.progress);
        let setting = Setting { inputs, profile, section, table: &table, store, progress };
        let mut used = Vec::new();
        match setting.costs(&mut used) {
            Ok(found) => self.record.sensitivity = Some(found),
            Err(error) => self
                .record
                .warnings
                .push(format!("what INT8 costs part by part could not be measured: {error}")),
        }
        self.used.extend(used);
    }
}
