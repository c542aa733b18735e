//! `sensitivity`: what each INT8 unit alone costs, on calibration rows that are held aside.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use trtforge_calibrate::CalibrationTable;
use trtforge_data::{Encoded, equal_length_batches, sample};
use trtforge_evaluate::Prediction;
use trtforge_exec::NamedValue;
use trtforge_quantize::Unit;
use trtforge_report as report;
use trtforge_search::{Sensitivity, UnitCost, rank};

use crate::error::PipelineError;
use crate::inputs::{EncodedRows, ModelInputs};
use crate::interrupt;
use crate::profile::Profile;
use crate::progress::Progress;
use crate::stages::rewrite::{quantized, smoothed, units_of};
use crate::stages::sampling::sampled;

/// Tokens of one pass at most: every tensor that a unit reads or makes is held until the units are measured.
const TOKENS_PER_PASS: usize = 256;
/// Rows of one pass at most.
const ROWS_PER_PASS: usize = 8;

/// Rows that neither judge nor, where the file has enough, calibrate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldAside {
    /// Rows of the calibration file, in its order.
    pub rows: Vec<usize>,
    /// Of those, the ones that did not calibrate.
    pub fresh: usize,
}

/// Chooses `count` rows of the calibration file: those that calibration left over, then of those it used.
///
/// Both are drawn as the profile draws calibration rows, so that the choice is the same every time.
pub fn held_aside(rows: &EncodedRows, profile: &Profile, count: usize) -> HeldAside {
    let data = &profile.calibration;
    let used: BTreeSet<usize> = sampled(rows, profile).iter().map(|sampled| sampled.row).collect();
    let draw = |from: Vec<usize>, count: usize| -> Vec<usize> {
        let lengths: Vec<usize> = from.iter().map(|&row| rows.rows[row].ids.len()).collect();
        let chosen = sample(&lengths, count.min(from.len()), data.seed, data.strategy);
        chosen.into_iter().map(|index| from[index]).collect()
    };
    let left = (0..rows.rows.len()).filter(|row| !used.contains(row)).collect();
    let mut chosen = draw(left, count);
    let fresh = chosen.len();
    chosen.extend(draw(used.into_iter().collect(), count - fresh));
    chosen.sort_unstable();
    HeldAside { rows: chosen, fresh }
}

/// Batches of rows of equal length, without padding.
fn batches(rows: &EncodedRows, held: &HeldAside) -> Vec<Vec<usize>> {
    let lengths: Vec<usize> = held.rows.iter().map(|&row| rows.rows[row].ids.len()).collect();
    let cut = equal_length_batches(&lengths, TOKENS_PER_PASS, ROWS_PER_PASS);
    cut.into_iter().map(|batch| batch.into_iter().map(|index| held.rows[index]).collect()).collect()
}

/// The rows of a batch as they run. Products of a single row take another path in the executor, with other rounding:
/// a lone row runs twice and counts once.
fn runs<'r>(rows: &'r EncodedRows, batch: &[usize]) -> Vec<&'r Encoded> {
    let mut encoded: Vec<_> = batch.iter().map(|&row| &rows.rows[row]).collect();
    if let [only] = encoded[..] {
        encoded.push(only);
    }
    encoded
}

fn read(
    inputs: &ModelInputs,
    outputs: &[NamedValue],
    runs: &[&Encoded],
    wanted: usize,
) -> Result<Vec<Prediction>, PipelineError> {
    // Batches of equal length have no padding.
    let length = runs.first().map_or(0, |run| run.ids.len());
    let logits = inputs.wiring.readout.read(outputs, runs, length)?.into_iter().take(wanted);
    Ok(logits.map(|logits| Prediction { logits }).collect())
}

/// What a sensitivity analysis found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measured {
    /// The units that the profile makes INT8, the worst first.
    pub costs: Vec<UnitCost>,
    /// All units, in graph order.
    pub units: Vec<Unit>,
}

/// Measures every unit that the profile makes INT8.
pub fn measure(
    inputs: &ModelInputs,
    profile: &Profile,
    table: &CalibrationTable,
    rows: &EncodedRows,
    held: &HeldAside,
    progress: Progress,
) -> Result<Measured, PipelineError> {
    let none = BTreeSet::new();
    let smoothed = smoothed(inputs, table, profile)?;
    let units = units_of(&smoothed.model, table, profile, &none)?;
    let int8 = quantized(&smoothed, table, profile, &none)?.model;
    let readout = &inputs.wiring.readout;
    let mut sensitivity = Sensitivity::new(&smoothed.model, &int8, &units, &readout.outputs())?;
    // Their mapped pages would count beside the executors' copies while the rows run.
    drop((smoothed, int8));
    let stage = progress.stage("Measuring sensitivity", held.rows.len() as u64, "rows");
    let changed = |before: &Prediction, after: &Prediction| readout.changed(before, after);
    for batch in batches(rows, held) {
        interrupt::check("the measurement of sensitivity")?;
        let runs = runs(rows, &batch);
        let bound = inputs.wiring.bind(&runs, 0);
        let answers = |values: Vec<NamedValue>| read(inputs, &values, &runs, batch.len());
        sensitivity.measure(&bound, &answers, &changed)?;
        stage.advance(batch.len() as u64);
    }
    let mut costs = sensitivity.finish();
    rank(&mut costs);
    Ok(Measured { costs, units })
}

/// Runs a model on the rows held aside, in the order of the file.
pub fn answers(
    inputs: &ModelInputs,
    executor: &dyn trtforge_exec::Executor,
    rows: &EncodedRows,
    held: &HeldAside,
) -> Result<Vec<Prediction>, PipelineError> {
    let mut answers = vec![Prediction { logits: Vec::new() }; held.rows.len()];
    for batch in batches(rows, held) {
        interrupt::check("the comparison of candidates")?;
        let runs = runs(rows, &batch);
        let outputs = executor.run(&inputs.wiring.bind(&runs, 0))?;
        let found = read(inputs, &outputs, &runs, batch.len())?;
        for (row, answer) in batch.iter().zip(found) {
            // The rows held aside are in the order of the file.
            if let Ok(at) = held.rows.binary_search(row) {
                answers[at] = answer;
            }
        }
    }
    Ok(answers)
}

/// The figures as the record and `--json` have them.
pub fn summary(measured: &Measured, held: &HeldAside, length: usize) -> report::Sensitivity {
    let all: u64 = measured.units.iter().map(|unit| unit.macs.at(length)).sum();
    let cost = |cost: &UnitCost| report::UnitCost {
        node: cost.unit.node.clone(),
        kind: cost.unit.kind.to_string(),
        encoder_layer: cost.unit.encoder_layer.map(|layer| layer as u64),
        layer: cost.unit.layer.clone(),
        shift: cost.shift,
        relative_shift: cost.relative_shift,
        max_shift: cost.max_shift,
        snr_db: cost.snr_db,
        clipped: cost.clipped,
        flips: cost.flips as u64,
        not_finite: cost.not_finite as u64,
        reads: cost.unit.reads.iter().map(|read| read.tensor.clone()).collect(),
        share: if all == 0 { 0.0 } else { cost.unit.macs.at(length) as f64 / all as f64 },
    };
    let left = measured.units.iter().filter_map(|unit| {
        let reason = unit.left.clone()?;
        Some(report::LeftUnit { node: unit.node.clone(), kind: unit.kind.to_string(), reason })
    });
    report::Sensitivity {
        rows: held.rows.len() as u64,
        fresh_rows: held.fresh as u64,
        units: measured.costs.iter().map(cost).collect(),
        left: left.collect(),
    }
}
