//! `trtforge gate`: a finished run judged again under other rules, from what it left in its folder.

use std::path::Path;

use serde_json::json;
use trtforge_report::{Precision, PrecisionRecord, RunOutcome, RunRecord, render_junit};

use super::{build, ci, print};
use crate::checked::EMPTY_PROOF;
use crate::cli::GateArgs;
use crate::error::{PipelineError, REFUSED};
use crate::profile::GateSection;
use crate::record;
use crate::run_folder::RunFolder;
use crate::stages::benchmark::evidence;
use crate::stages::fallback::confidence_of_look;
use crate::stages::judge::{self, Court};
use crate::stages::predictions::{PredictionsError, PredictionsFile, Recorded, RowsFile, name};
use crate::stages::proof::Int8Found;
use crate::store::{refuse_overwriting, write_atomic};

/// Judges again; 1 when the gate refuses. Nothing in the run folder changes.
pub fn gate(args: &GateArgs) -> Result<u8, PipelineError> {
    let folder = RunFolder::open(&args.run)?;
    if let Some(junit) = &args.junit {
        refuse_overwriting(std::iter::once(folder.record_file().as_path()), junit)?;
        super::writable(junit)?;
    }
    let RunFolder { path: folder, record: mut run } = folder;
    let section = GateSection::reread(&run.profile, args.profile.as_deref(), &args.assignments)?;
    judge_again(&mut run, &folder, &section)?;
    if let Some(junit) = &args.junit {
        write_atomic(junit, render_junit(&run).as_bytes())?;
    }
    ci::announce(&run);
    if args.json {
        print(true, &result(&run), "")?;
    } else {
        print(false, &json!(null), &build::verdicts(&run))?;
    }
    Ok(if run.outcome() == RunOutcome::Accepted { 0 } else { REFUSED })
}

/// Puts new verdicts in the place of the old ones.
fn judge_again(
    run: &mut RunRecord,
    folder: &Path,
    section: &GateSection,
) -> Result<(), PipelineError> {
    let rows = RowsFile::load(folder)?;
    let baseline = load(folder, "fp32", &rows)?;
    judge::check(section, &baseline.scored)?;
    let recorded = section.baseline.as_ref().map(Recorded::open).transpose()?;
    let searched = run.fallback.as_ref().is_some_and(|search| search.chosen.is_some());
    let evaluated_on = baseline.evaluated_on;
    let same_vectors = baseline.same_vectors;
    let int8 = run.precisions.get(&Precision::Int8).and_then(|one| one.proof.as_ref());
    let int8 = int8.map(Int8Found::of).unwrap_or_default();
    let speedup = evidence(run.benchmark.as_ref(), Precision::Int8);
    let court = Court {
        section,
        rows,
        recorded,
        evaluated_on,
        searched,
        same_vectors,
        int8,
        without_engine: false,
        speedup,
    };
    let keys = judged(run, folder)?;
    let fp32 = run.precisions.entry(Precision::Fp32).or_default();
    measure(fp32, &baseline, section)?;
    // Warnings of the old verdicts go with them; those about the inputs stay.
    let old = ["FP16: ", "INT8: ", EMPTY_PROOF];
    run.warnings.retain(|warning| !old.iter().any(|prefix| warning.starts_with(prefix)));
    retell(run, section, searched);
    for key in keys {
        let candidate = load(folder, key, &court.rows)?;
        let court = Court { evaluated_on: candidate.evaluated_on, ..court.clone() };
        let shift = candidate.shift;
        let verdict = court.verdict(key, &baseline.scored, &candidate.scored, shift)?;
        let slot = run.precisions.iter_mut().find(|(precision, _)| precision.key() == key);
        if let Some((precision, slot)) = slot {
            let notes = verdict.notes.iter().map(|note| format!("{}: {note}", precision.name()));
            run.warnings.extend(notes);
            measure(slot, &candidate, section)?;
            slot.verdict = Some(trtforge_report::Verdict {
                baseline: court.baseline_name(),
                ..record::of_verdict(&verdict)
            });
        }
    }
    Ok(())
}

/// The precisions that have a verdict.
fn judged(run: &RunRecord, folder: &Path) -> Result<Vec<&'static str>, PredictionsError> {
    let keys: Vec<&str> = run
        .precisions
        .iter()
        .filter(|(_, one)| one.verdict.is_some())
        .map(|(precision, _)| precision.key())
        .collect();
    if keys.is_empty() {
        let (run, file) = (folder.display().to_string(), name("int8"));
        return Err(PredictionsError::Missing { run, file });
    }
    Ok(keys)
}

/// What a search leaves to say when its choice is judged again.
fn retell(run: &mut RunRecord, section: &GateSection, searched: bool) {
    if let Some(search) = &mut run.fallback {
        search.judged_again = true;
    }
    if searched {
        let percent = |share: f64| format!("{} %", (share * 1e6).round() / 1e4);
        let confidence = percent(confidence_of_look(section, Precision::Int8.key(), true));
        let asked = percent(section.confidence);
        let line = format!(
            "the build's search (`gate.on_reject: fallback`) chose this INT8 after other looks at these rows, so it is judged at {confidence} confidence for the {asked} of the gate, whatever the rules given now"
        );
        run.warnings.insert(0, line);
    }
}

/// Puts the metrics that the rules ask for in the place of the old ones.
fn measure(
    slot: &mut PrecisionRecord,
    found: &PredictionsFile,
    section: &GateSection,
) -> Result<(), PipelineError> {
    let metrics = judge::score(&found.scored, section, found.evaluated_on)?;
    slot.metrics = metrics.iter().map(record::evaluation).collect();
    slot.evaluation = slot.metrics.first().cloned();
    Ok(())
}

fn load(folder: &Path, key: &str, rows: &RowsFile) -> Result<PredictionsFile, PipelineError> {
    let found = PredictionsFile::load(folder, key)?;
    if found.data != rows.data || found.scored.len() != rows.rows {
        let reason = "it is about other rows than `predictions/rows.json`".to_owned();
        return Err(PredictionsError::Malformed { file: name(key), reason }.into());
    }
    Ok(found)
}

fn result(run: &RunRecord) -> serde_json::Value {
    let verdicts: serde_json::Map<String, serde_json::Value> = run
        .precisions
        .iter()
        .filter_map(|(precision, one)| {
            Some((precision.key().to_owned(), json!(one.verdict.as_ref()?)))
        })
        .collect();
    json!({
        "run": run.name,
        "accepted": run.outcome() == RunOutcome::Accepted,
        "verdicts": verdicts,
        "warnings": run.warnings,
    })
}
