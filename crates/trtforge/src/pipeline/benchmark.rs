//! The engines' speed, as a stage of a run.

use std::fs;
use std::path::Path;

use trtforge_report::{Benchmark, BenchmarkDevice, Precision as Recorded};
use trtforge_tensorrt::{Choice, DeviceExecutor, DeviceOptions, DriverInfo, Library};

use super::Run;
use crate::checked::Checked;
use crate::commands::data_name;
use crate::error::PipelineError;
use crate::profile::Precision;
use crate::stages::benchmark::{Asked, Candidate, Model, benchmark, evidence, usual_shapes};
use crate::stages::device;
use crate::stages::fallback::confidence_of_look;
use crate::store::{Fingerprint, StoreError, read_json, to_json, write_atomic};

impl Run<'_> {
    /// Whether there are engines, a GPU to time them on, and time to do so.
    pub(super) fn may_benchmark(&self) -> bool {
        let device = matches!(&self.backend, Choice::Sdk { driver: Some(_), .. });
        device && !self.engines.is_empty() && !self.profile.benchmark.duration.is_zero()
    }

    /// Times the engines, or takes what was measured of the same ones before. One that does not load or run here is said; the gate then
    /// misses what it asks for.
    pub(super) fn benchmark(&mut self, inputs: &Checked) -> Result<(), PipelineError> {
        self.record.benchmark = match self.timed(inputs) {
            Ok(found) => found,
            Err(PipelineError::TensorRt(error)) if !self.profile.gate.require_device => {
                let warning = format!("the engines were not timed: {error}");
                self.progress.say(&warning);
                self.record.warnings.push(warning);
                None
            }
            Err(error) => return Err(error),
        };
        let speedup = evidence(self.record.benchmark.as_ref(), Recorded::Int8);
        if let Some(court) = &mut self.court {
            court.speedup = speedup;
        }
        Ok(())
    }

    fn timed(&mut self, inputs: &Checked) -> Result<Option<Benchmark>, PipelineError> {
        let Choice::Sdk { library, driver: Some(driver), .. } = &self.backend else {
            return Ok(None);
        };
        let mut fingerprint = Fingerprint::of("benchmark")
            .with("device", device::words(driver))
            .with("library", format!("{:?} {}", library.sdk(), library.version()))
            .with("section", format!("{:?}", self.profile.benchmark))
            .with("shapes", format!("{:?}", inputs.shapes.profiles))
            .with("confidence", format!("{}", self.confidence()))
            .with("tokenizer", inputs.model.encoder.fingerprint())
            .with("data", &inputs.evaluation.runs.fingerprint);
        for engine in &self.engines {
            fingerprint = fingerprint.with("plan", engine.plan.hash());
        }
        let artifact = self.store.obtain(&fingerprint, "json", |path| {
            let found = self.time(inputs, library, driver)?;
            write_atomic(path, to_json(&found).as_bytes()).map_err(PipelineError::from)
        })?;
        self.cached = artifact.cached;
        self.used.push(artifact.path.clone());
        Ok(read_json(&artifact.path))
    }

    /// Of the bounds of a speed-up: what INT8 is judged at.
    fn confidence(&self) -> f64 {
        confidence_of_look(&self.profile.gate, Precision::Int8.name(), false)
    }

    fn time(
        &self,
        inputs: &Checked,
        library: &Library,
        driver: &DriverInfo,
    ) -> Result<Benchmark, PipelineError> {
        let profile = self.profile;
        let mut candidates = Vec::new();
        for engine in &self.engines {
            let precision = match engine.precision {
                Precision::Fp16 => Recorded::Fp16,
                Precision::Int8 => Recorded::Int8,
            };
            candidates.push(candidate(library, precision, &engine.plan.path)?);
        }
        let section = &profile.benchmark;
        let given = (!section.shapes.is_empty()).then(|| section.shapes.clone());
        let asked = Asked {
            shapes: given.unwrap_or_else(|| usual_shapes(&inputs.shapes.profiles)),
            limits: section.limits(),
            cuda_graph: section.cuda_graph,
            confidence: self.confidence(),
            rows: &inputs.evaluation.runs.rows,
            rows_from: data_name(profile),
            wiring: &inputs.model.wiring,
            device: note(library, driver),
            progress: self.progress,
        };
        benchmark(&candidates, &asked)
    }
}

/// A plan brought to life, to be timed.
pub fn candidate(
    library: &Library,
    precision: Recorded,
    path: &Path,
) -> Result<Candidate, PipelineError> {
    let plan = fs::read(path).map_err(StoreError::io("read", path))?;
    let engine = DeviceExecutor::open(library, &plan, &DeviceOptions::default())?;
    let artifact = blake3::hash(&plan).to_hex().to_string();
    Ok(Candidate { precision, artifact, model: Model::Engine(Box::new(engine)) })
}

/// What is known of the device before its management library is asked.
pub fn note(library: &Library, driver: &DriverInfo) -> BenchmarkDevice {
    let gpu = driver.gpus.first();
    BenchmarkDevice {
        name: gpu.map_or_else(String::new, |gpu| gpu.name.clone()),
        compute_capability: gpu.map(|gpu| gpu.compute_capability.clone()),
        driver: None,
        cuda: Some(driver.cuda_version.clone()),
        library: Some(format!("{} {}", library.sdk(), library.version())),
    }
}
