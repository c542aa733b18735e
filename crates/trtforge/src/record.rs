//! From the values of a run to its record: every number is put there by the stage that made it.

mod auto;
mod flips;
pub mod proof;
mod verdict;

use std::fs;
use std::path::Path;

use trtforge_quantize::Action;
use trtforge_report::{
    self as report, CalibrationSummary, EngineLibrary, EngineLog, HistogramSketch, InputFile,
    LengthBin, LengthSummary, Machine, PaddingFigure, PrecisionRecord, RunRecord, ShapeRange,
    Stage, StageOutcome, Tool,
};
use trtforge_tensorrt::{Choice, OptimizationProfile, Severity};

use crate::checked::Checked;
use crate::cli::StageName;
use crate::pipeline::Calibrated;
use crate::profile::{Precision, Profile};
use crate::stages::engine::Engine;
use crate::stages::rewrite::Graph;
use crate::stages::shapes::PlannedShapes;
use crate::store::{Store, StoreError, write_atomic};

pub use flips::flipped;
pub use verdict::{evaluation, evaluations, of_verdict, outcome, verdict};

/// Bins of a histogram as drawn in the report.
const SKETCH_BINS: usize = 64;
/// Lines of the library's log that the record itself holds.
const NOTABLE_LINES: usize = 20;

/// The published stem: the name of the output folder, in characters that are safe in any file name.
pub fn run_name(output: &Path) -> String {
    let absolute = std::path::absolute(output).unwrap_or_else(|_| output.to_owned());
    let stem =
        absolute.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let safe: String = stem
        .chars()
        .map(|c| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' })
        .collect();
    if safe.is_empty() { "model".into() } else { safe }
}

/// An empty record of a run that begins now.
pub fn start(name: &str, profile: &Profile, backend: &Choice) -> RunRecord {
    let tool = Tool { name: "trtforge".into(), version: env!("CARGO_PKG_VERSION").into() };
    let driver = match backend {
        Choice::Sdk { driver, .. } => driver.as_ref(),
        Choice::None => None,
    };
    let machine = Machine {
        os: std::env::consts::OS.into(),
        arch: std::env::consts::ARCH.into(),
        cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        gpu: driver.map(|driver| driver.gpus[0].name.clone()),
        driver: driver.map(|driver| format!("CUDA {}", driver.cuda_version)),
    };
    let mut record = RunRecord::new(name, tool, machine);
    record.profile = profile.as_written.clone();
    record.engine = Some(match backend {
        Choice::Sdk { library, .. } => EngineLibrary {
            backend: library.sdk().to_string(),
            version: Some(library.version().to_string()),
        },
        Choice::None => EngineLibrary { backend: "none".into(), version: None },
    });
    record
}

/// Notes one stage.
pub fn stage(record: &mut RunRecord, name: StageName, outcome: StageOutcome, ms: u64) {
    record.stages.push(Stage { name: name.name().into(), outcome, ms });
}

/// Notes what went in.
pub fn inputs(record: &mut RunRecord, profile: &Profile, checked: &Checked) {
    let size = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
    let file =
        |path: &Path, fingerprint: &str| InputFile::new(path, fingerprint).with_bytes(size(path));
    let (model, calibration) = (&checked.model, &checked.calibration);
    record.inputs.model = Some(file(&profile.model.onnx, &model.fingerprint));
    entry(record, None).onnx_bytes = Some(size(&profile.model.onnx));
    record.inputs.tokenizer = Some(file(&profile.model.tokenizer, model.encoder.fingerprint()));
    let rows = |file: InputFile, count: usize| file.with_rows(count as u64);
    record.inputs.calibration = Some(rows(
        file(&profile.calibration.path, &calibration.fingerprint),
        calibration.rows.len(),
    ));
    let evaluation = &checked.evaluation;
    record.inputs.evaluation =
        Some(rows(file(&profile.evaluation.path, &evaluation.runs.fingerprint), evaluation.len()));
    record.canonical.clone_from(&model.canonical);
    record.warnings.extend(checked.warnings.iter().cloned());
}

/// Notes the shapes.
pub fn shapes(record: &mut RunRecord, planned: &PlannedShapes, profiles: &[OptimizationProfile]) {
    let range = |range: &trtforge_tensorrt::ShapeRange| ShapeRange {
        min: range.min.clone(),
        opt: range.opt.clone(),
        max: range.max.clone(),
    };
    let profiles =
        planned.profiles.iter().zip(profiles).map(|(shape, profile)| report::ShapeProfile {
            inputs: profile.inputs.iter().map(|(name, r)| (name.clone(), range(r))).collect(),
            rows: Some(shape.rows as u64),
            padding_share: Some(shape.padding_share),
        });
    let stats = &planned.lengths;
    let bin = |(&length, &count): (&usize, &usize)| LengthBin {
        from: length as u64,
        to: length as u64,
        count: count as u64,
    };
    record.shapes = Some(report::Shapes {
        from: Some(planned.from.into()),
        profiles: profiles.collect(),
        lengths: Some(LengthSummary {
            count: stats.count as u64,
            min: stats.min as u64,
            max: stats.max as u64,
            mean: stats.mean,
            p50: stats.p50 as u64,
            p90: stats.p90 as u64,
            p95: stats.p95 as u64,
            p99: stats.p99 as u64,
            truncated: planned.truncated as u64,
            histogram: stats.histogram.iter().map(bin).collect(),
        }),
        padding: planned
            .padding
            .iter()
            .map(|(mode, real, computed)| PaddingFigure::new(mode.clone(), *real, *computed))
            .collect(),
    });
}

/// Notes the calibration.
pub fn calibration(record: &mut RunRecord, calibrated: &Calibrated) {
    let table = &calibrated.table;
    let tensors = table.tensors.iter().map(|(name, tensor)| {
        let histogram = calibrated.observer.as_ref().and_then(|observer| observer.histogram(name));
        let sketch = histogram.and_then(|histogram| {
            let width = histogram.bin_width()?;
            Some(HistogramSketch::from_fine(width, histogram.bins(), SKETCH_BINS))
        });
        let summary = report::TensorCalibration {
            absmax: tensor.absmax,
            threshold: tensor.threshold,
            scale: tensor.scale,
            method: tensor.method.to_string(),
            values: tensor.values,
            guard: tensor.guard.clone(),
            histogram: sketch,
        };
        (name.clone(), summary)
    });
    record.calibration = Some(CalibrationSummary {
        method: table.options.method.to_string(),
        rows: table.options.samples as u64,
        seed: Some(table.options.seed),
        strategy: Some(table.options.strategy.clone()),
        lines: table.lines.as_ref().map(ToString::to_string),
        device: table.device.clone(),
        search: table.search.as_ref().map(|found| auto::search(found, &table.options)),
        tensors: tensors.collect(),
    });
}

fn of(precision: Precision) -> report::Precision {
    match precision {
        Precision::Fp16 => report::Precision::Fp16,
        Precision::Int8 => report::Precision::Int8,
    }
}

fn entry(record: &mut RunRecord, precision: Option<Precision>) -> &mut PrecisionRecord {
    record.precisions.entry(precision.map_or(report::Precision::Fp32, of)).or_default()
}

/// Notes one graph and its decisions.
pub fn graph(record: &mut RunRecord, graph: &Graph, published: String, length: usize) {
    let precision = of(graph.precision);
    let slot = entry(record, Some(graph.precision));
    slot.onnx = Some(published);
    slot.onnx_bytes = Some(graph.onnx.bytes());
    slot.arithmetic = graph.account.arithmetic.map(|counted| arithmetic(&counted, length));
    record.decisions.extend(graph.account.decisions.iter().map(|decision| report::Decision {
        precision,
        tensor: decision.tensor.clone(),
        node: decision.node.clone(),
        layer: decision.layer.clone(),
        action: action(&decision.action),
        reason: decision.reason.clone(),
    }));
    let name = precision.name();
    record
        .warnings
        .extend(graph.account.warnings.iter().map(|warning| format!("{name}: {warning}")));
}

/// Takes out what a graph of this precision put in, before another takes its place.
pub fn forget(record: &mut RunRecord, precision: Precision) {
    let precision = of(precision);
    record.decisions.retain(|decision| decision.precision != precision);
    let prefix = format!("{}: ", precision.name());
    record.warnings.retain(|warning| !warning.starts_with(&prefix));
}

/// Arithmetic of one row of `length` tokens.
pub fn arithmetic(counted: &trtforge_quantize::Arithmetic, length: usize) -> report::Arithmetic {
    report::Arithmetic {
        int8_macs: counted.int8.at(length),
        all_macs: counted.all.at(length),
        share: counted.share(length),
        length: length as u64,
    }
}

fn action(action: &Action) -> report::Action {
    match action {
        Action::Int8Activation { .. } => report::Action::Int8Activation,
        Action::Int8Weight { .. } => report::Action::Int8Weight,
        Action::Half => report::Action::Half,
        Action::KeptFloat32 => report::Action::KeptFloat32,
        Action::ClampedConstant { .. } => report::Action::ClampedConstant,
        Action::Skipped => report::Action::Skipped,
        Action::Smoothed { .. } => report::Action::Other("smoothed".into()),
    }
}

/// Notes one engine.
pub fn engine(record: &mut RunRecord, engine: &Engine) {
    let log = &engine.account.log;
    let notable = |severity: Severity| {
        matches!(severity, Severity::Error | Severity::Warning | Severity::InternalError)
    };
    let notable: Vec<String> = log
        .iter()
        .filter(|line| notable(line.severity))
        .take(NOTABLE_LINES)
        .map(|line| line.message.clone())
        .collect();
    let slot = entry(record, Some(engine.precision));
    slot.plan_bytes = Some(engine.plan.bytes());
    slot.build_ms = Some(engine.account.build_ms);
    slot.engine_log = Some(EngineLog {
        file: None,
        lines: log.len() as u64,
        warnings: engine.account.count(Severity::Warning),
        errors: engine.account.count(Severity::Error)
            + engine.account.count(Severity::InternalError),
        notable,
    });
}

/// Notes where the answers of one model are.
pub fn predictions(record: &mut RunRecord, precision: Option<Precision>, file: String) {
    entry(record, precision).predictions = Some(file);
}

/// Notes where one engine went.
pub fn published(record: &mut RunRecord, precision: Precision, plan: &str, accepted: bool) {
    let slot = entry(record, Some(precision));
    slot.plan = Some(plan.to_owned());
    slot.published = accepted;
}

/// Writes everything the library said, one file per engine.
pub fn write_logs(
    record: &mut RunRecord,
    store: &Store,
    engines: &[Engine],
) -> Result<(), StoreError> {
    for engine in engines {
        let name = format!("logs/{}.build.log", engine.precision.name());
        let lines = engine
            .account
            .log
            .iter()
            .map(|line| format!("{:?}: {}\n", line.severity, line.message));
        write_atomic(&store.output().join(&name), lines.collect::<String>().as_bytes())?;
        if let Some(log) = &mut entry(record, Some(engine.precision)).engine_log {
            log.file = Some(name);
        }
    }
    Ok(())
}

/// Writes `run.json`, `report.md`, `report.html` and `junit.xml` into `folder`.
pub fn write(record: &RunRecord, folder: &Path) -> Result<(), StoreError> {
    write_atomic(&folder.join("run.json"), record.to_json().as_bytes())?;
    write_atomic(&folder.join("report.md"), report::render_markdown(record).as_bytes())?;
    write_atomic(&folder.join("report.html"), report::render_html(record).as_bytes())?;
    write_atomic(&folder.join("junit.xml"), report::render_junit(record).as_bytes())
}
