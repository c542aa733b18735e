//! `method: auto` and `smooth: auto`: a part of the calibration rows is kept aside, and what moves their logits least is chosen.
//!
//! The rows kept aside enter no histogram; evaluation rows are never looked at. What it costs, with 512 rows of which 64
//! are kept aside, in rows run beside the calibration itself:
//!
//! - a method: 6 × 64 rows for the model, and at most [`Effort`] passes more over the 64 for single tensors.
//! - a strength: 7 × (64 observed + 64 kept aside for each of one or two methods), and the channels once.

use std::collections::BTreeMap;
use std::time::Instant;

use trtforge_calibrate::{
    CalibrationTable, Chosen, Guards, Method, MethodChange, Observer, SearchRecord,
    TensorCalibration, TriedMethod, TriedStrength,
};
use trtforge_evaluate::Prediction;
use trtforge_exec::{Executor, NamedValue};
use trtforge_onnx::Model;
use trtforge_quantize::{Scales, quantize_with, smooth};
use trtforge_search::{
    Baseline, Candidates, Divergence, Effort, Found, GraphMeasure, METHODS, Rows, ScaledGraph,
    choose,
};

use crate::error::PipelineError;
use crate::inputs::{EncodedRows, ModelInputs};
use crate::interrupt;
use crate::profile::{Precision, Profile, Smooth};
use crate::progress::Progress;
use crate::stages::calibrate::{
    Calibration, Observed, Settings, measure_channels, observe_with, recipe,
};
use crate::stages::passes::{PassTimings, Passes};
use crate::stages::rewrite::policy;
use crate::stages::runner::Runner;
use crate::stages::sampling::{CalibrationBatch, SampledRow, count, lines, plan, sampled};

/// Fewest rows of a sample that a part is kept aside of.
const LEAST_ROWS: usize = 32;
/// Most rows kept aside.
const MOST_HELD_OUT: usize = 64;
/// Most rows that a strength is observed on.
const MOST_OBSERVED: usize = 64;
/// Batches that the rows kept aside run in: enough to give up early what does badly.
const PARTS: usize = 8;
/// Strengths of smoothing that are tried. Of equally good ones the first is taken.
const STRENGTHS: [f64; 7] = [0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95];
/// Methods that strengths are compared with when the method is open too; the others follow with the strength chosen.
const METHODS_OF_STRENGTHS: [Method; 2] = [Method::Entropy, Method::Mse];
/// What is used where nothing can be tried.
const FALLBACK: Method = Method::Entropy;

/// Whether a profile leaves something to be found by trial.
pub fn is_asked(profile: &Profile) -> bool {
    profile.precisions.contains(&Precision::Int8)
        && (profile.calibrate.method == Method::Auto || profile.quantize.smooth == Smooth::Auto)
}

/// Why a profile's `auto` cannot try anything on so many rows, and what is done then.
pub fn too_few(profile: &Profile, rows: usize) -> Option<String> {
    let sampled = rows.min(profile.calibration.samples);
    (is_asked(profile) && profile.calibrate.table.is_none() && sampled < LEAST_ROWS).then(|| {
        format!(
            "`auto` keeps rows aside to compare on and needs {LEAST_ROWS} calibration rows; with {sampled} it stands for method {} and smooth {}",
            fixed_method(profile),
            fixed_strength(profile)
        )
    })
}

/// The method of a profile, or the one used where nothing can be tried.
pub fn fixed_method(profile: &Profile) -> Method {
    match profile.calibrate.method {
        Method::Auto => FALLBACK,
        method => method,
    }
}

/// The strength of a profile, or the one used where nothing can be tried.
pub fn fixed_strength(profile: &Profile) -> f64 {
    match profile.quantize.smooth {
        // Smoothing serves INT8 alone.
        Smooth::Strength(strength) if profile.precisions.contains(&Precision::Int8) => strength,
        _ => 0.0,
    }
}

/// Whether a profile's model may be smoothed before it is calibrated.
pub fn may_smooth(profile: &Profile) -> bool {
    let open = is_asked(profile) && profile.quantize.smooth == Smooth::Auto;
    open || fixed_strength(profile) > 0.0
}

/// What speaks for the strength of a table, to follow a decision's reason; none where the profile gave it.
pub fn strength_reason(table: &CalibrationTable) -> Option<String> {
    let search = table.search.as_ref()?;
    let shift = |strength: f64| {
        let tried = search.strengths.iter().filter(|tried| tried.strength == strength);
        tried.filter_map(|tried| tried.shift).min_by(f64::total_cmp)
    };
    let strength = table.options.smooth;
    let (now, off) = (shift(strength)?, shift(0.0)?);
    Some(format!(
        "; strength {strength} was chosen of {}, since it moves the logits of {} rows by {now:.4} and none by {off:.4}",
        STRENGTHS.len(),
        search.held_out.len()
    ))
}

/// Calibrates with whatever is left open found by trial; `None` where there is nothing to try, or too few rows.
pub fn calibrate(
    inputs: &ModelInputs,
    profile: &Profile,
    rows: &EncodedRows,
    progress: Progress,
) -> Result<Option<Calibration>, PipelineError> {
    let sample = sampled(rows, profile);
    let Some((held_out, observed)) = split(&sample).filter(|_| is_asked(profile)) else {
        return Ok(None);
    };
    let held_rows = HeldOut::new(inputs, rows, &held_out);
    let baseline = {
        let executor = inputs.executor(profile, &[])?;
        Baseline::measure(&held_rows, &executor)?
    };
    let runner = Runner::choose(profile)?;
    let passes = Passes { inputs, rows, runner: &runner, progress };
    let mut search = Search {
        passes: &passes,
        profile,
        observed: &observed,
        held_out: &held_rows,
        baseline: &baseline,
        record: SearchRecord { held_out: lines(rows, &held_out), ..SearchRecord::default() },
        timings: PassTimings::default(),
    };
    let batches = plan(rows, profile, &observed);
    let channels = search.channels(&batches)?;
    let strength = match profile.quantize.smooth {
        Smooth::Auto => search.strength(&channels)?,
        Smooth::Strength(_) => fixed_strength(profile),
    };
    let channels = if strength > 0.0 { channels } else { BTreeMap::new() };
    let seen = observe_with(&passes, profile, strength, &batches, channels)?;
    search.timings.add(seen.passes);
    let start = Instant::now();
    let tensors = search.thresholds(&seen, strength)?;
    let threshold = start.elapsed();
    let Observed { observer, channels, .. } = seen;
    let settings = Settings { method: profile.calibrate.method, strength };
    let mut table = recipe(inputs, profile, rows, &sample, settings).ran_on(runner.words()).table(
        tensors,
        observer.absmax(),
        channels,
    );
    let rows = count(&batches);
    let Search { record, timings, .. } = search;
    table.search = Some(record);
    Ok(Some(Calibration { table, observer, passes: timings, threshold, rows }))
}

/// Rows kept aside, and the others; `None` when there are too few.
///
/// The rows kept aside lie evenly in the sample, and never where rows are watched (every eighth, from the first).
fn split(sample: &[SampledRow]) -> Option<(Vec<SampledRow>, Vec<SampledRow>)> {
    if sample.len() < LEAST_ROWS {
        return None;
    }
    let aside: Box<dyn Fn(usize) -> bool> = if sample.len() < 2 * LEAST_ROWS {
        Box::new(|position| position % 2 == 1)
    } else {
        let one_in = sample.len().div_ceil(MOST_HELD_OUT).max(4).next_multiple_of(4);
        Box::new(move |position| position % one_in == 2)
    };
    Some(sample.iter().copied().partition(|row| aside(row.position)))
}

/// The rows kept aside, in batches that depend on nothing but the rows.
struct HeldOut<'a> {
    inputs: &'a ModelInputs,
    rows: &'a EncodedRows,
    parts: Vec<Vec<usize>>,
}

impl<'a> HeldOut<'a> {
    /// Rows of like length run together. Each third of the parts spans all lengths, since a search judges on the last.
    fn new(inputs: &'a ModelInputs, rows: &'a EncodedRows, held_out: &[SampledRow]) -> Self {
        let mut order: Vec<usize> = held_out.iter().map(|held| held.row).collect();
        order.sort_by_key(|&row| rows.rows[row].ids.len());
        let cut: Vec<&[usize]> = order.chunks(order.len().div_ceil(PARTS).max(1)).collect();
        let spread = (0..3).flat_map(|first| cut.iter().skip(first).step_by(3));
        Self { inputs, rows, parts: spread.map(|part| part.to_vec()).collect() }
    }
}

impl Rows for HeldOut<'_> {
    type Error = PipelineError;

    fn parts(&self) -> usize {
        self.parts.len()
    }

    fn run(
        &self,
        executor: &dyn Executor,
        part: usize,
        more: &[NamedValue],
    ) -> Result<Vec<Prediction>, PipelineError> {
        interrupt::check("the comparison of thresholds")?;
        let wiring = &self.inputs.wiring;
        let encoded: Vec<_> = self.parts[part].iter().map(|&row| &self.rows.rows[row]).collect();
        let longest = encoded.iter().map(|row| row.ids.len()).max().unwrap_or(0);
        let mut bound = wiring.bind(&encoded, longest);
        bound.extend(more.iter().cloned());
        let logits = wiring.readout.read(&executor.run(&bound)?, &encoded, longest)?;
        Ok(logits.into_iter().map(|logits| Prediction { logits }).collect())
    }
}

struct Search<'a> {
    passes: &'a Passes<'a>,
    profile: &'a Profile,
    /// The sampled rows that are not kept aside.
    observed: &'a [SampledRow],
    held_out: &'a HeldOut<'a>,
    baseline: &'a Baseline,
    record: SearchRecord,
    timings: PassTimings,
}

impl Search<'_> {
    fn channels(
        &mut self,
        batches: &[CalibrationBatch],
    ) -> Result<BTreeMap<String, Vec<f32>>, PipelineError> {
        if !may_smooth(self.profile) {
            return Ok(BTreeMap::new());
        }
        let ranges = measure_channels(self.passes, self.profile, batches, &mut self.timings)?;
        Ok(ranges.absmax())
    }

    /// The strength that moves the logits least; 0 unless another does so by more than chance.
    fn strength(&mut self, channels: &BTreeMap<String, Vec<f32>>) -> Result<f64, PipelineError> {
        let methods: Vec<Method> = match self.profile.calibrate.method {
            Method::Auto => METHODS_OF_STRENGTHS.to_vec(),
            method => vec![method],
        };
        let one_in = self.observed.len().div_ceil(MOST_OBSERVED).max(1);
        let some: Vec<SampledRow> = self.observed.iter().copied().step_by(one_in).collect();
        let batches = plan(self.passes.rows, self.profile, &some);
        let mut off: Option<Divergence> = None;
        let mut best: Option<(f64, Divergence)> = None;
        for strength in STRENGTHS {
            let seen =
                observe_with(self.passes, self.profile, strength, &batches, channels.clone())?;
            self.timings.add(seen.passes);
            let found = self.compare(&seen, strength, &methods, Effort { most_passes: 0 })?;
            for tried in &found.tried {
                let (method, shift) = (tried.method, finite(tried.divergence.mean()));
                self.record.strengths.push(TriedStrength { strength, method, shift });
            }
            if best.as_ref().is_none_or(|(_, least)| found.divergence.mean() < least.mean()) {
                best = Some((strength, found.divergence.clone()));
            }
            off.get_or_insert(found.divergence);
        }
        let (Some(off), Some((strength, least))) = (off, best) else { return Ok(0.0) };
        let gain = off.gain(&least);
        Ok(if gain.mean > gain.noise { strength } else { 0.0 })
    }

    /// The table entries with the full histograms.
    fn thresholds(
        &mut self,
        seen: &Observed,
        strength: f64,
    ) -> Result<BTreeMap<String, TensorCalibration>, PipelineError> {
        let methods = match self.profile.calibrate.method {
            Method::Auto => METHODS.to_vec(),
            method => vec![method],
        };
        let found = self.compare(seen, strength, &methods, Effort::default())?;
        self.record.shift = finite(found.divergence.mean());
        self.record.chosen = Some(Chosen { method: found.winner, smooth: strength });
        if self.profile.calibrate.method == Method::Auto {
            let tried = |tried: &trtforge_search::Tried| TriedMethod {
                method: tried.method,
                shift: finite(tried.divergence.mean()),
            };
            self.record.methods = found.tried.iter().map(tried).collect();
            self.record.changes = found.changes.into_iter().map(change).collect();
            self.record.note = found.dropped;
        }
        Ok(found.tensors)
    }

    fn compare(
        &mut self,
        seen: &Observed,
        strength: f64,
        methods: &[Method],
        effort: Effort,
    ) -> Result<Found, PipelineError> {
        let model = self.model(seen, strength)?;
        let candidates = Candidates::of(&seen.observer, methods, &Guards::default())?;
        let graph = self.load(&model, &candidates, &seen.observer)?;
        // Its mapped pages would count beside the executor's copy while the rows run.
        drop(model);
        let mut measure =
            GraphMeasure { graph: &graph, rows: self.held_out, baseline: self.baseline };
        let found = choose(&candidates, &mut measure, effort)?;
        self.record.rows_run += found.rows_run as u64;
        Ok(found)
    }

    /// The FP32 model that the histograms are of.
    fn model(&self, seen: &Observed, strength: f64) -> Result<Model, PipelineError> {
        let model = self.passes.inputs.reopen()?;
        let smoothed = smooth(&model, &seen.channels, strength, &policy(self.profile))?;
        Ok(smoothed.model)
    }

    fn load(
        &self,
        model: &Model,
        candidates: &Candidates,
        observer: &Observer,
    ) -> Result<ScaledGraph, PipelineError> {
        let tensors = candidates.table(candidates.methods()[0]).unwrap_or_default();
        let scale = tensors.into_iter().map(|(name, tensor)| (name, tensor.scale)).collect();
        let scales = Scales { scale, absmax: observer.absmax() };
        Ok(ScaledGraph::load(&quantize_with(model, &scales, &policy(self.profile))?)?)
    }
}

fn change(change: trtforge_search::Change) -> MethodChange {
    let trtforge_search::Change { tensors, from, to, before, after } = change;
    MethodChange { tensors, from, to, before, after }
}

/// JSON has no infinity.
fn finite(shift: f64) -> Option<f64> {
    Some(shift).filter(|shift| shift.is_finite())
}
