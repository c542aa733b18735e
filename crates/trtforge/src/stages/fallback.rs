//! `fallback`: from an INT8 graph that the gate refused to the most INT8 that it accepts.
//!
//! Units are ranked by what quantizing each alone costs, candidates return the worst of them to FP16, and the gate looks
//! at few of them in an order that is fixed on rows that judge nothing; see [`trtforge_search::ladder`] for why
//! that order keeps the gate's confidence. Every step is an artifact: an interrupted search resumes where it was.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use trtforge_calibrate::CalibrationTable;
use trtforge_evaluate::{Evaluation, Prediction, Scored, logit_shift};
use trtforge_exec::{EmbeddedExecutor, EmbeddedOptions};
use trtforge_onnx::Model;
use trtforge_quantize::{Arithmetic, Smoothed, Unit, UnitKind};
use trtforge_report as report;
use trtforge_search::{Ended, ladder, look_confidence, walk, worth_a_look};

use crate::checked::Checked;
use crate::error::PipelineError;
use crate::profile::{FallbackSection, GateSection, Precision, Profile};
use crate::progress::Progress;
use crate::record;
use crate::stages::judge::Judged;
use crate::stages::rewrite::{self, Graph};
use crate::stages::sensitivity::{self, HeldAside, Measured};
use crate::store::{Fingerprint, Store, StoreError, to_json, write_atomic};

/// What a search works with.
pub struct Setting<'a> {
    /// Model and rows.
    pub inputs: &'a Checked,
    /// The whole profile.
    pub profile: &'a Profile,
    /// Its `gate.fallback`.
    pub section: FallbackSection,
    /// The scales.
    pub table: &'a CalibrationTable,
    /// Where steps are kept.
    pub store: &'a Store,
    /// Shown while searching.
    pub progress: Progress,
}

/// A candidate that the gate let through.
pub struct Chosen {
    /// Its graph.
    pub graph: Graph,
    /// Its verdict.
    pub look: Look,
}

/// What the gate found out about one graph.
pub struct Look {
    /// Its logits on the evaluation rows.
    pub predictions: Vec<Prediction>,
    /// The same, scored against what is right.
    pub scored: Scored,
    /// Every metric, the headline first.
    pub evaluations: Vec<Evaluation>,
    /// The verdict.
    pub judged: Judged,
}

/// What a search found.
pub struct Search {
    /// The path, for the record.
    pub path: report::Fallback,
    /// The ranking behind it; none when there was no time for it.
    pub sensitivity: Option<report::Sensitivity>,
    /// The candidate with the most INT8 that passed.
    pub chosen: Option<Chosen>,
    /// Artifacts to keep.
    pub used: Vec<PathBuf>,
}

/// The confidence of one look: where a search may follow, INT8 as a whole and the search share what the gate may err.
///
/// - `searched`: whether a search chose this INT8 already, which the section of another profile cannot undo.
pub fn confidence_of_look(gate: &GateSection, precision: &str, searched: bool) -> f64 {
    if (searched || gate.fallback.is_some()) && precision == Precision::Int8.name() {
        look_confidence(gate.confidence)
    } else {
        gate.confidence
    }
}

/// Searches. `whole` is the look at INT8 as a whole, which was refused; `look` takes one at another graph.
pub fn search(
    setting: &Setting<'_>,
    whole: &Look,
    look: &mut dyn FnMut(&Graph) -> Result<Look, PipelineError>,
) -> Result<Search, PipelineError> {
    let clock = Clock { start: Instant::now(), setting };
    let rows = &setting.inputs.calibration;
    let held = sensitivity::held_aside(rows, setting.profile, setting.section.rows);
    let mut search = Search {
        path: report::Fallback {
            rows: held.rows.len() as u64,
            confidence: look_confidence(setting.profile.gate.confidence),
            ..report::Fallback::default()
        },
        sensitivity: None,
        chosen: None,
        used: Vec::new(),
    };
    if clock.is_over() {
        search.path.ended = clock.words("the first candidate");
        return Ok(search);
    }
    let measured = setting.measure(&held, &mut search.used)?;
    let length = setting.profile.max_length;
    search.sensitivity = Some(sensitivity::summary(&measured, &held, length));
    let candidates = setting.candidates(&measured, &held, &clock, &mut search.used)?;
    search.path.steps = setting.steps(whole, &measured, &candidates);
    search.path.ended = look_in_order(setting, &candidates, &clock, look, &mut search)?;
    Ok(search)
}

/// Looks at the candidates in their order until one is refused, and says why it ended.
fn look_in_order(
    setting: &Setting<'_>,
    candidates: &[Candidate],
    clock: &Clock<'_>,
    look: &mut dyn FnMut(&Graph) -> Result<Look, PipelineError>,
    search: &mut Search,
) -> Result<String, PipelineError> {
    let shifts: Vec<f64> = candidates.iter().map(|candidate| candidate.shift).collect();
    let order = worth_a_look(&shifts, setting.section.max_steps);
    let (chosen, ended) = walk(&order, |position| {
        if clock.is_over() {
            return Ok(None);
        }
        let candidate = &candidates[position];
        let graph = setting.graph(candidate)?;
        let found = look(&graph)?;
        let passed = found.judged.accepted;
        // The first step is INT8 as a whole.
        search.path.steps[position + 1].look = Some(look_record(&found));
        let (count, reason) = (candidate.returned.len(), &found.judged.verdict.reason);
        setting.progress.say(&format!("fallback   {count} returned to FP16: {reason}"));
        if passed {
            search.chosen = Some(Chosen { graph, look: found });
        }
        Ok::<_, PipelineError>(Some(passed))
    })?;
    search.path.chosen = chosen.map(|position| position as u64 + 1);
    Ok(match ended {
        _ if candidates.is_empty() => "there are no parts to return one by one".to_owned(),
        Ended::TimeOver(place) => clock.words(&format!("look {} of {}", place + 1, order.len())),
        Ended::Refused => {
            "a refusal ends the sequence: what has more INT8 is not looked at any more".to_owned()
        }
        Ended::Exhausted => "every candidate worth a look was looked at".to_owned(),
    })
}

/// A part of the units in FP16.
struct Candidate {
    /// Their ids.
    returned: BTreeSet<String>,
    /// The worst first.
    nodes: Vec<String>,
    /// How far its logits lie from FP32's on the rows held aside.
    shift: f64,
}

impl Setting<'_> {
    fn key(&self, stage: &'static str, held: &HeldAside) -> Fingerprint {
        let (model, profile) = (&self.inputs.model, self.profile);
        Fingerprint::of(stage)
            .with("model", &model.fingerprint)
            .with("tokenizer", model.encoder.fingerprint())
            .with("table", self.table.to_json())
            .with("quantize", format!("{:?}", profile.quantize))
            .with("data", &self.inputs.calibration.fingerprint)
            .with("rows", format!("{:?}", held.rows))
            .with("output", format!("{:?}", model.wiring.readout))
            .with("max_length", profile.max_length.to_string())
    }

    /// What each unit alone costs on the rows held aside, for the record.
    pub fn costs(&self, used: &mut Vec<PathBuf>) -> Result<report::Sensitivity, PipelineError> {
        let rows = &self.inputs.calibration;
        let held = sensitivity::held_aside(rows, self.profile, self.section.rows);
        let measured = self.measure(&held, used)?;
        Ok(sensitivity::summary(&measured, &held, self.profile.max_length))
    }

    fn measure(
        &self,
        held: &HeldAside,
        used: &mut Vec<PathBuf>,
    ) -> Result<Measured, PipelineError> {
        let artifact = self.store.obtain(&self.key("sensitivity", held), "json", |path| {
            let (inputs, rows) = (&self.inputs.model, &self.inputs.calibration);
            let measured =
                sensitivity::measure(inputs, self.profile, self.table, rows, held, self.progress)?;
            write_atomic(path, to_json(&measured).as_bytes()).map_err(PipelineError::from)
        })?;
        used.push(artifact.path.clone());
        let read = fs::read(&artifact.path).map_err(StoreError::io("read", &artifact.path))?;
        let unreadable = |error: serde_json::Error| {
            StoreError::io("read", &artifact.path)(std::io::Error::other(error))
        };
        Ok(serde_json::from_slice(&read).map_err(unreadable)?)
    }

    /// All candidates with their shifts, the one with the least INT8 first.
    fn candidates(
        &self,
        measured: &Measured,
        held: &HeldAside,
        clock: &Clock<'_>,
        used: &mut Vec<PathBuf>,
    ) -> Result<Vec<Candidate>, PipelineError> {
        let smoothed = rewrite::smoothed(&self.inputs.model, self.table, self.profile)?;
        let baseline = self.answers(&smoothed.model, held)?;
        let mut candidates = Vec::new();
        for count in ladder(measured.costs.len()) {
            let worst = &measured.costs[..count];
            let returned: BTreeSet<String> =
                worst.iter().map(|cost| cost.unit.id.clone()).collect();
            // Without weights in INT8 there is nothing that the candidate would be for.
            if !keeps_weights(&measured.units, &returned) || clock.is_over() {
                continue;
            }
            let nodes = worst.iter().map(|cost| cost.unit.node.clone()).collect();
            let shift = self.shift(&smoothed, &returned, &baseline, held, used)?;
            candidates.push(Candidate { returned, nodes, shift });
        }
        Ok(candidates)
    }

    fn answers(&self, model: &Model, held: &HeldAside) -> Result<Vec<Prediction>, PipelineError> {
        let executor = EmbeddedExecutor::from_model(model, EmbeddedOptions::default())?;
        sensitivity::answers(&self.inputs.model, &executor, &self.inputs.calibration, held)
    }

    /// The mean logit shift of one candidate on the rows held aside.
    fn shift(
        &self,
        smoothed: &Smoothed,
        returned: &BTreeSet<String>,
        baseline: &[Prediction],
        held: &HeldAside,
        used: &mut Vec<PathBuf>,
    ) -> Result<f64, PipelineError> {
        let key = self.key("shift", held).with("returned", format!("{returned:?}"));
        let artifact = self.store.obtain(&key, "f64", |path| {
            let int8 = rewrite::quantized(smoothed, self.table, self.profile, returned)?.model;
            let shift = logit_shift(baseline, &self.answers(&int8, held)?)?;
            // Rows that are no numbers any more are the worst there is.
            let mean = if shift.not_finite > 0 { f64::MAX } else { shift.mean_abs };
            write_atomic(path, &mean.to_le_bytes()).map_err(PipelineError::from)
        })?;
        used.push(artifact.path.clone());
        let bytes = fs::read(&artifact.path).map_err(StoreError::io("read", &artifact.path))?;
        Ok(bytes.try_into().map_or(f64::MAX, f64::from_le_bytes))
    }

    fn graph(&self, candidate: &Candidate) -> Result<Graph, PipelineError> {
        let model = &self.inputs.model;
        let returned = &candidate.returned;
        let precision = Precision::Int8;
        rewrite::graph_without(self.store, model, self.table, self.profile, precision, returned)
    }

    fn steps(
        &self,
        whole: &Look,
        measured: &Measured,
        candidates: &[Candidate],
    ) -> Vec<report::FallbackStep> {
        let length = self.profile.max_length;
        let arithmetic = |returned: &BTreeSet<String>| {
            let mut units = measured.units.clone();
            for unit in units.iter_mut().filter(|unit| returned.contains(&unit.id)) {
                unit.left.get_or_insert_default();
            }
            record::arithmetic(&Arithmetic::of(&units), length)
        };
        let first = report::FallbackStep {
            returned: Vec::new(),
            arithmetic: arithmetic(&BTreeSet::new()),
            shift: None,
            look: Some(look_record(whole)),
        };
        let step = |candidate: &Candidate| report::FallbackStep {
            returned: candidate.nodes.clone(),
            arithmetic: arithmetic(&candidate.returned),
            shift: Some(candidate.shift),
            look: None,
        };
        std::iter::once(first).chain(candidates.iter().map(step)).collect()
    }
}

fn keeps_weights(units: &[Unit], returned: &BTreeSet<String>) -> bool {
    let sites = [UnitKind::Attention, UnitKind::ResidualAdd];
    let mut products = units.iter().filter(|unit| !sites.contains(&unit.kind));
    products.any(|unit| unit.left.is_none() && !returned.contains(&unit.id))
}

fn look_record(look: &Look) -> report::FallbackLook {
    let verdict = &look.judged.verdict;
    report::FallbackLook {
        value: look.evaluations.first().map_or(f64::NAN, |headline| headline.value),
        drop: verdict.drop,
        interval: verdict.interval,
        outcome: record::outcome(verdict.outcome),
        passed: look.judged.accepted,
    }
}

/// The time a search may take.
struct Clock<'a> {
    start: Instant,
    setting: &'a Setting<'a>,
}

impl Clock<'_> {
    fn is_over(&self) -> bool {
        self.start.elapsed() >= self.setting.section.time_limit
    }

    fn words(&self, before: &str) -> String {
        let limit = self.setting.section.time_limit.as_secs_f64();
        format!(
            "the time limit of {limit} s was over before {before}; the next run goes on from here"
        )
    }
}
