//! The way back from a refused INT8 graph, as a stage of a run.

use trtforge_evaluate::{EvaluatedOn, RuleVerdict};

use super::Run;
use super::evaluate::Answered;
use crate::checked::Checked;
use crate::error::PipelineError;
use crate::profile::{GateSection, Precision};
use crate::record;
use crate::score;
use crate::stages::fallback::{self, Chosen, Look, Setting};
use crate::stages::judge::Court;
use crate::stages::rewrite::Graph;
use crate::stages::{judge, publish};

/// The rule that only an engine can answer.
const SHARE: &str = "require_int8_share";
const SPEEDUP: &str = "min_speedup";

impl Run<'_> {
    /// Whether the profile asks for a search and INT8 was refused.
    pub(super) fn may_fall_back(&self) -> bool {
        // Returning nodes to FP16 makes no engine more INT8, nor faster.
        let refuses =
            |rule: &RuleVerdict| !rule.passes && rule.rule != SHARE && rule.rule != SPEEDUP;
        let refused = self
            .judged
            .get(&Precision::Int8)
            .is_some_and(|judged| judged.verdict.rules.iter().any(refuses));
        self.profile.gate.fallback.is_some() && refused
    }

    /// Searches for the most INT8 that passes, and puts it in the place of INT8 as a whole.
    pub(super) fn fall_back(&mut self, inputs: &Checked) -> Result<(), PipelineError> {
        let Some(section) = self.profile.gate.fallback else { return Ok(()) };
        let on_device = self.evaluated_on.get(&Some(Precision::Int8)) == Some(&EvaluatedOn::Device);
        if self.profile.gate.require_device && !on_device {
            self.record.warnings.push(
                "`gate.on_reject: fallback` did nothing: `gate.require_device` is set, and no engine ran".to_owned(),
            );
            return Ok(());
        }
        let timed = self.court.as_ref().is_some_and(|court| court.speedup.is_some());
        if self.profile.gate.min_speedup.is_some() && !timed {
            self.record.warnings.push(
                "`gate.on_reject: fallback` did nothing: `gate.min_speedup` is set, and no device measured it".to_owned(),
            );
            return Ok(());
        }
        let table = self.table().clone();
        let whole = self.graphs.iter().position(|graph| graph.precision == Precision::Int8);
        let Some(whole) = whole else { return Ok(()) };
        let (profile, progress) = (self.profile, self.progress);
        let mut used = Vec::new();
        let found = {
            let this = &*self;
            let refused = this.look(inputs, &this.graphs[whole], &mut used)?;
            let setting =
                Setting { inputs, profile, section, table: &table, store: &this.store, progress };
            let mut look = |graph: &Graph| this.look(inputs, graph, &mut used);
            fallback::search(&setting, &refused, &mut look)?
        };
        self.used.extend(used);
        self.used.extend(found.used);
        self.record.sensitivity = found.sensitivity;
        self.record.fallback = Some(found.path);
        if let Some(chosen) = found.chosen {
            self.graphs.remove(whole);
            self.take(inputs, chosen)?;
        }
        Ok(())
    }

    /// Evaluates and judges one graph on the reference executor, whatever ran the engines: a search over engines would build one for
    /// each look. What was evaluated before comes from the store.
    fn look(
        &self,
        inputs: &Checked,
        graph: &Graph,
        used: &mut Vec<std::path::PathBuf>,
    ) -> Result<Look, PipelineError> {
        let (path, hash) = (&graph.onnx.path, graph.onnx.hash());
        let Answered { predictions, artifact, .. } =
            self.predict(inputs, path, hash, "a candidate")?;
        used.push(artifact.path);
        let baseline = &self.predictions[&None];
        let scored = score::score(&inputs.evaluation, &predictions, baseline)?;
        let evaluations = judge::score(&scored, &self.profile.gate, EvaluatedOn::Reference)?;
        let court = self.court.as_ref().expect("the check precedes every judgement");
        let section =
            GateSection { require_device: false, min_speedup: None, ..self.profile.gate.clone() };
        // No engine of it was built yet: how much of that is INT8, and how fast it is, is asked once it is chosen.
        let court = court.on(EvaluatedOn::Reference);
        let court = Court { section: &section, without_engine: true, ..court };
        let baseline = (&self.scored[&None], self.predictions[&None].as_slice());
        let judged = court.judge(graph.precision.name(), baseline, (&scored, &predictions))?;
        Ok(Look { predictions, scored, evaluations, judged })
    }

    /// Makes a candidate the INT8 graph of this run, with its engine, which has the last word where it runs.
    fn take(&mut self, inputs: &Checked, chosen: Chosen) -> Result<(), PipelineError> {
        let Chosen { graph, look } = chosen;
        let precision = graph.precision;
        record::forget(&mut self.record, precision);
        let onnx = publish::onnx_name(&self.name, precision);
        record::graph(&mut self.record, &graph, onnx, self.profile.max_length);
        let (key, labels) = (Some(precision), self.profile.task.labels());
        record::evaluations(&mut self.record, key, &look.evaluations, &look.scored, labels);
        let (lines, both) = (&inputs.evaluation.lines, (&self.scored[&None], &look.scored));
        record::flipped(&mut self.record, precision, lines, both, labels);
        self.used.extend([graph.onnx.path.clone(), graph.account_path.clone()]);
        self.engines.retain(|engine| engine.precision != precision);
        self.build_engine(inputs, &graph)?;
        self.graphs.push(graph);
        self.scored.insert(key, look.scored);
        self.predictions.insert(key, look.predictions);
        self.evaluated_on.insert(key, EvaluatedOn::Reference);
        self.time_again(inputs)?;
        if let Some(answered) = self.predict_on_device(inputs, precision)? {
            return self.judge_engine(inputs, precision, answered);
        }
        if self.profile.gate.require_int8_share.is_some() || self.profile.gate.min_speedup.is_some()
        {
            return self.judge_one(precision);
        }
        let baseline = self.court.as_ref().and_then(Court::baseline_name);
        record::verdict(&mut self.record, precision, &look.judged, baseline);
        self.judged.insert(precision, look.judged);
        Ok(())
    }

    /// Times the engine that was chosen, which is another than the one that was timed.
    fn time_again(&mut self, inputs: &Checked) -> Result<(), PipelineError> {
        if let Some(court) = &mut self.court {
            court.speedup = None;
        }
        self.record.benchmark = None;
        let cached = self.cached;
        if self.may_benchmark() {
            self.benchmark(inputs)?;
        }
        // Whether the search was cached is not for its benchmark to say.
        self.cached = cached;
        Ok(())
    }
}
