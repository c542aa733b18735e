//! The whole chain of one profile. [`build`] shows the order on one screen; everything else is bookkeeping around it.

mod benchmark;
mod evaluate;
mod explain;
mod fall_back;

pub use benchmark::{candidate, note};

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use trtforge_calibrate::{CalibrationTable, Observer};
use trtforge_evaluate::{EvaluatedOn, Prediction, Scored};
use trtforge_report::{RunRecord, StageOutcome};
use trtforge_tensorrt::Choice;

use crate::backend;
use crate::checked::{Checked, check_output, examine};
use crate::cli::StageName;
use crate::error::PipelineError;
use crate::interrupt;
use crate::profile::{Precision, Profile};
use crate::progress::Progress;
use crate::record;
use crate::stages::engine::Engine;
use crate::stages::judge::{Court, Judged};
use crate::stages::predictions::PredictionsFile;
use crate::stages::proof::{self, Int8Found};
use crate::stages::rewrite::Graph;
use crate::stages::{calibrate, engine, judge, publish, rewrite};
use crate::store::{Store, write_atomic};

/// Runs a profile up to the end or to `stop_after`, and leaves its record in the output folder.
pub fn build(
    profile: &Profile,
    stop_after: Option<StageName>,
    progress: Progress,
) -> Result<RunRecord, PipelineError> {
    let mut run = Run::start(profile, stop_after, progress)?;
    let inputs = run.stage(StageName::Check, Run::check)?;
    let Some(inputs) = inputs else { return run.finish() };
    run.stage(StageName::Shapes, |run| run.plan_shapes(&inputs))?;
    run.stage(StageName::Calibrate, |run| run.calibrate(&inputs))?;
    run.stage(StageName::Quantize, |run| run.rewrite(&inputs))?;
    run.stage(StageName::Build, |run| run.build_engines(&inputs))?;
    run.stage(StageName::Evaluate, |run| run.evaluate(&inputs))?;
    if run.may_benchmark() {
        run.stage(StageName::Benchmark, |run| run.benchmark(&inputs))?;
    }
    let judged = run.stage(StageName::Judge, |run| run.judge(&inputs))?;
    if run.may_fall_back() {
        run.stage(StageName::Fallback, |run| run.fall_back(&inputs))?;
    }
    if judged.is_some() && stop_after.is_none() {
        run.publish_engines(&inputs)?;
    }
    run.finish()
}

/// What a calibration left, for the record.
pub struct Calibrated {
    /// The table.
    pub table: CalibrationTable,
    /// The histograms; none when the table was cached or given.
    pub observer: Option<Observer>,
}

/// A run as far as it has come.
pub struct Run<'p> {
    /// What was asked.
    pub profile: &'p Profile,
    /// Where artifacts are.
    pub store: Store,
    /// Stem of published names.
    pub name: String,
    /// Who builds engines.
    pub backend: Choice,
    /// The table.
    pub calibrated: Option<Calibrated>,
    /// Rewritten graphs, FP16 first.
    pub graphs: Vec<Graph>,
    /// Engines, FP16 first.
    pub engines: Vec<Engine>,
    /// Logits by graph; FP32 under `None`.
    pub predictions: BTreeMap<Option<Precision>, Vec<Prediction>>,
    /// What ran them.
    pub evaluated_on: BTreeMap<Option<Precision>, EvaluatedOn>,
    /// The same, scored against what is right.
    pub scored: BTreeMap<Option<Precision>, Scored>,
    /// What candidates are judged by, from the check on.
    pub court: Option<Court<'p>>,
    /// Verdicts.
    pub judged: BTreeMap<Precision, Judged>,
    /// The record being written.
    pub record: RunRecord,
    stop_after: Option<StageName>,
    stopped: bool,
    progress: Progress,
    cached: bool,
    used: Vec<PathBuf>,
}

impl<'p> Run<'p> {
    fn start(
        profile: &'p Profile,
        stop_after: Option<StageName>,
        progress: Progress,
    ) -> Result<Self, PipelineError> {
        // What is missing is said before any work is done or any folder made.
        let needs_engine = stop_after.is_none_or(|stage| stage >= StageName::Build);
        let backend = backend::choose(&profile.engine, needs_engine)?;
        let name = record::run_name(&profile.output);
        check_output(profile)?;
        let store = Store::open(&profile.output)?;
        Ok(Run {
            record: record::start(&name, profile, &backend),
            profile,
            store,
            name,
            backend,
            calibrated: None,
            graphs: Vec::new(),
            engines: Vec::new(),
            predictions: BTreeMap::new(),
            evaluated_on: BTreeMap::new(),
            scored: BTreeMap::new(),
            court: None,
            judged: BTreeMap::new(),
            stop_after,
            stopped: false,
            progress,
            cached: false,
            used: Vec::new(),
        })
    }

    /// Runs one stage unless the run has stopped, and notes its time and whether it came from the store.
    fn stage<T>(
        &mut self,
        name: StageName,
        work: impl FnOnce(&mut Self) -> Result<T, PipelineError>,
    ) -> Result<Option<T>, PipelineError> {
        if self.stopped {
            record::stage(&mut self.record, name, StageOutcome::Skipped, 0);
            return Ok(None);
        }
        interrupt::check("the run")?;
        let start = Instant::now();
        self.cached = false;
        let value = work(self)?;
        let outcome = if self.cached { StageOutcome::Cached } else { StageOutcome::Ran };
        let ms = start.elapsed().as_millis() as u64;
        record::stage(&mut self.record, name, outcome, ms);
        self.progress.say(&format!(
            "{:<10} {} ({:.1} s)",
            name.name(),
            outcome.word(),
            ms as f64 / 1e3
        ));
        if self.stop_after == Some(name) {
            self.stopped = true;
            self.record.stopped_after = Some(name.name().to_owned());
        }
        Ok(Some(value))
    }

    fn check(&mut self) -> Result<Checked, PipelineError> {
        let (checked, court) = examine(self.profile)?;
        self.court = Some(court);
        record::inputs(&mut self.record, self.profile, &checked);
        Ok(checked)
    }

    /// The shapes are planned with the check, which needs them; here they enter the record.
    #[expect(clippy::unnecessary_wraps, reason = "a stage like the others")]
    fn plan_shapes(&mut self, inputs: &Checked) -> Result<(), PipelineError> {
        record::shapes(&mut self.record, &inputs.shapes, &inputs.profiles);
        Ok(())
    }

    fn calibrate(&mut self, inputs: &Checked) -> Result<(), PipelineError> {
        let calibrated = match &inputs.table {
            Some(table) => Calibrated { table: table.clone(), observer: None },
            None => self.calibrate_now(inputs)?,
        };
        record::calibration(&mut self.record, &calibrated);
        self.calibrated = Some(calibrated);
        Ok(())
    }

    fn calibrate_now(&mut self, inputs: &Checked) -> Result<Calibrated, PipelineError> {
        let (profile, rows) = (self.profile, &inputs.calibration);
        let fingerprint = calibrate::key(&inputs.model, profile, rows)?;
        let mut kept = None;
        let artifact = self.store.obtain(&fingerprint, "json", |path| {
            let made =
                calibrate::calibrate(&inputs.model, profile, &inputs.calibration, self.progress)?;
            kept = Some(made.observer);
            made.table.save(path).map_err(PipelineError::from)
        })?;
        self.cached = artifact.cached;
        self.used.push(artifact.path.clone());
        Ok(Calibrated { table: CalibrationTable::load(&artifact.path)?, observer: kept })
    }

    fn table(&self) -> &CalibrationTable {
        &self
            .calibrated
            .as_ref()
            .expect("calibration precedes every stage that asks for the table")
            .table
    }

    fn rewrite(&mut self, inputs: &Checked) -> Result<(), PipelineError> {
        let mut cached = true;
        for &precision in &self.profile.precisions {
            let graph =
                rewrite::graph(&self.store, &inputs.model, self.table(), self.profile, precision)?;
            let onnx = publish::onnx_name(&self.name, precision);
            record::graph(&mut self.record, &graph, onnx, self.profile.max_length);
            cached &= graph.onnx.cached;
            self.used.push(graph.onnx.path.clone());
            self.used.push(graph.account_path.clone());
            self.graphs.push(graph);
        }
        self.cached = cached;
        Ok(())
    }

    fn build_engines(&mut self, inputs: &Checked) -> Result<(), PipelineError> {
        if matches!(self.backend, Choice::None) {
            self.progress.say("build      no engines: backend is none");
            return Ok(());
        }
        let mut cached = true;
        for graph in self.graphs.clone() {
            cached &= self.build_engine(inputs, &graph)?;
        }
        self.cached = cached;
        Ok(())
    }

    /// Builds the engine of one graph, where there is a library for it; whether it was there already.
    fn build_engine(&mut self, inputs: &Checked, graph: &Graph) -> Result<bool, PipelineError> {
        let Choice::Sdk { library, driver, .. } = &self.backend else { return Ok(true) };
        let section = &self.profile.engine;
        let profiles = &inputs.profiles;
        let built = engine::engine(&self.store, library, graph, profiles, section, self.progress)?;
        record::engine(&mut self.record, &built);
        let cached = built.plan.cached;
        self.used.extend([built.plan.path.clone(), built.log_path.clone()]);
        let (length, both) = (self.profile.max_length, (&built, graph));
        let (proof, said) = proof::prove(&self.store, library, driver.as_ref(), both, length)?;
        self.used.extend(said.map(|said| said.path));
        if let Some(court) = self.court.as_mut().filter(|_| graph.precision == Precision::Int8) {
            court.int8 = Int8Found::of(&proof);
        }
        record::proof::proof(&mut self.record, graph.precision, proof);
        self.engines.push(built);
        Ok(cached)
    }

    fn judge(&mut self, inputs: &Checked) -> Result<(), PipelineError> {
        let precisions: Vec<Precision> = self.graphs.iter().map(|graph| graph.precision).collect();
        precisions.into_iter().try_for_each(|precision| self.judge_one(precision))?;
        self.explain(inputs);
        Ok(())
    }

    /// Writes what every model answered, for `trtforge gate` and for later runs to compare with.
    fn write_predictions(&mut self) -> Result<(), PipelineError> {
        let Some(court) = self.court.as_ref().filter(|_| !self.scored.is_empty()) else {
            return Ok(());
        };
        let output = self.store.output();
        court.rows.save(output)?;
        for (precision, scored) in &self.scored {
            let shift =
                precision.and_then(|precision| self.judged.get(&precision)).map(|one| one.shift);
            let place = self.evaluated_on[precision];
            let new = PredictionsFile::new(&court.rows, scored.clone(), shift, place);
            let same_vectors = judge::same_vectors(&self.predictions[precision]);
            let file = PredictionsFile { same_vectors, ..new };
            let name = file.save(output, precision.map_or("fp32", Precision::name))?;
            record::predictions(&mut self.record, *precision, name);
        }
        Ok(())
    }

    /// Puts every engine where its verdict says.
    fn publish_engines(&mut self, inputs: &Checked) -> Result<(), PipelineError> {
        for (precision, plan) in self.place_engines(inputs)? {
            let accepted = self.judged.get(&precision).is_some_and(|judged| judged.accepted);
            record::published(&mut self.record, precision, &plan, accepted);
        }
        self.store.prune(&self.used)?;
        Ok(())
    }

    fn place_engines(&self, inputs: &Checked) -> Result<Vec<(Precision, String)>, PipelineError> {
        let Choice::Sdk { library, driver, .. } = &self.backend else { return Ok(Vec::new()) };
        let table = self.table().to_json();
        let context = publish::Context {
            store: &self.store,
            name: &self.name,
            table: &table,
            library,
            profiles: &inputs.profiles,
            engine: &self.profile.engine,
            driver: driver.as_ref(),
            evaluated_on: EvaluatedOn::Reference,
        };
        let mut placed = Vec::new();
        for engine in &self.engines {
            let precision = engine.precision;
            let graph = self.graphs.iter().find(|graph| graph.precision == precision);
            let (Some(graph), Some(judged)) = (graph, self.judged.get(&precision)) else {
                continue;
            };
            let evaluated_on = self.evaluated_on[&Some(precision)];
            let context = publish::Context { evaluated_on, ..context };
            placed.push((precision, publish::engine(&context, graph, engine, judged)?));
        }
        Ok(placed)
    }

    /// Writes what the engines were made from, `run.json` and the reports, and takes away what no longer belongs to them.
    ///
    /// Nothing of this is touched before all stages are through: a run that fails or is killed leaves the folder as it
    /// was, and the next one resumes from the store.
    fn finish(mut self) -> Result<RunRecord, PipelineError> {
        if let Some(calibrated) = &self.calibrated {
            let target = self.store.output().join("calibration.json");
            write_atomic(&target, &calibrated.table.to_json())?;
        }
        for graph in &self.graphs {
            publish::graph(&self.store, &self.name, graph)?;
        }
        self.write_predictions()?;
        record::write_logs(&mut self.record, &self.store, &self.engines)?;
        publish::retire(&self.store, &self.record)?;
        record::write(&self.record, self.store.output())?;
        Ok(self.record)
    }
}
