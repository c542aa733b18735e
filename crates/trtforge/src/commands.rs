//! The subcommands: read what was asked, run the stage, print the result.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;
use trtforge_calibrate::CalibrationTable;
use trtforge_evaluate::EvaluatedOn;
use trtforge_exec::{EmbeddedExecutor, EmbeddedOptions};
use trtforge_onnx::Model;
use trtforge_report::{RunOutcome, RunRecord, TerminalStyle, render_terminal};

use crate::cli::{
    BuildArgs, CalibrateArgs, CheckArgs, Command, DoctorArgs, EvaluateArgs, InspectArgs, Observe,
    ProfileArgs, QuantizeArgs, ReportArgs, ShapesArgs,
};
use crate::error::{PipelineError, REFUSED};
use crate::inputs::ModelInputs;
use crate::profile::Profile;
use crate::progress::Progress;
use crate::stages::{calibrate, evaluate, judge, rewrite, shapes};
use crate::store::{StoreError, write_atomic};
use crate::{doctor, pipeline, record};

/// Runs one subcommand; the exit code of a command that did its work.
pub fn run(command: Command) -> Result<u8, PipelineError> {
    match command {
        Command::Build(args) => build(&args),
        Command::Check(args) => check(&args),
        Command::Calibrate(args) => calibrate(&args),
        Command::Quantize(args) => quantize(&args),
        Command::Shapes(args) => plan_shapes(&args),
        Command::Evaluate(args) => evaluate(&args),
        Command::Inspect(args) => inspect(&args),
        Command::Report(args) => report(&args),
        Command::Doctor(args) => doctor(&args),
    }
}

/// Prints a result: JSON, or lines of text.
fn print(json: bool, value: &serde_json::Value, text: &str) {
    let mut out = std::io::stdout().lock();
    // A closed pipe (`| head`) is the reader's choice, not a failure.
    let _ = if json { writeln!(out, "{value:#}") } else { write!(out, "{text}") };
}

fn read_profile(args: &ProfileArgs, more: &[String]) -> Result<Profile, PipelineError> {
    let assignments: Vec<String> = args.assignments.iter().chain(more).cloned().collect();
    Ok(Profile::read(&args.profile, &assignments)?)
}

fn build(args: &BuildArgs) -> Result<u8, PipelineError> {
    let backend = args.backend.map(|backend| format!("engine.backend={}", backend.name()));
    let mut profile = read_profile(&args.profile, backend.as_slice())?;
    if let Some(output) = &args.output {
        profile.output.clone_from(output);
    }
    let progress = Progress::new(args.profile.quiet);
    let record = pipeline::build(&profile, args.stop_after, progress)?;
    if args.profile.json {
        print(true, &serde_json::from_str(&record.to_json()).unwrap_or_default(), "");
    } else if !args.profile.quiet {
        print(false, &json!(null), &summary(&record, &profile.output));
    }
    Ok(if record.outcome() == RunOutcome::Refused { REFUSED } else { 0 })
}

fn summary(record: &RunRecord, output: &Path) -> String {
    let color = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let style = TerminalStyle { color, ..TerminalStyle::default() };
    let mut text = render_terminal(record, &style);
    text.push_str(&format!("\nFiles are in {}\n", output.display()));
    text
}

fn check(args: &CheckArgs) -> Result<u8, PipelineError> {
    let extension = args.path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    if extension == "onnx" {
        let model = Model::open(&args.path)?;
        model.check()?;
        trtforge_quantize::survey(&model)?;
        print(args.json, &json!({ "valid": true }), "the model is valid\n");
        return Ok(0);
    }
    let profile = Profile::read(&args.path, &args.assignments)?;
    let inputs = ModelInputs::open(&profile)?;
    inputs.executor(&profile, &[])?;
    let calibration = inputs.calibration_rows(&profile.calibration)?;
    let evaluation = inputs.evaluation_rows(&profile.evaluation, &profile.labels)?;
    let warnings: Vec<&String> =
        inputs.warnings.iter().chain(&calibration.notes).chain(&evaluation.notes).collect();
    let value = json!({
        "valid": true,
        "calibration_rows": calibration.rows.len(),
        "evaluation_rows": evaluation.rows.len(),
        "weighted_matmuls": inputs.survey.gemms.len(),
        "warnings": warnings,
    });
    let mut text = format!(
        "the profile is valid: {} calibration rows, {} evaluation rows, {} weighted matrix multiplications\n",
        calibration.rows.len(),
        evaluation.rows.len(),
        inputs.survey.gemms.len()
    );
    for warning in warnings {
        text.push_str(&format!("note: {warning}\n"));
    }
    print(args.json, &value, &text);
    Ok(0)
}

fn calibrate(args: &CalibrateArgs) -> Result<u8, PipelineError> {
    let profile = read_profile(&args.profile, &[])?;
    if args.observe == Observe::All {
        // The output is tried before the long work.
        writable(&args.output)?;
    }
    let start = Instant::now();
    let inputs = ModelInputs::open(&profile)?;
    let rows = inputs.calibration_rows(&profile.calibration)?;
    let progress = Progress::new(args.profile.quiet);
    let (passes, threshold, sampled, tensors) = match args.observe {
        Observe::None => {
            let (passes, sampled) = calibrate::plain_passes(&inputs, &profile, &rows, progress)?;
            (passes, Duration::ZERO, sampled, 0)
        }
        Observe::All => {
            let made = calibrate::calibrate(&inputs, &profile, &rows, progress)?;
            made.table.save(&args.output)?;
            (made.passes, made.threshold, made.rows, made.table.tensors.len())
        }
    };
    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    let value = json!({
        "rows": sampled,
        "tensors": tensors,
        "forward_ms": ms(passes.forward),
        "observe_ms": ms(passes.observe),
        "threshold_ms": ms(threshold),
        "total_ms": ms(start.elapsed()),
        "peak_rss_mib": peak_rss_mib(),
    });
    let text = format!(
        "{tensors} tensors calibrated on {sampled} rows in {:.1} s: {}\n",
        start.elapsed().as_secs_f64(),
        args.output.display()
    );
    print(args.profile.json, &value, &text);
    Ok(0)
}

/// Proves that a file can be made where `path` says.
fn writable(path: &Path) -> Result<(), StoreError> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(StoreError::io("create", folder))?;
    tempfile::tempfile_in(folder).map(drop).map_err(StoreError::io("write in", folder))
}

/// Peak resident memory of this process, where the system tells.
fn peak_rss_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024.0)
}

fn quantize(args: &QuantizeArgs) -> Result<u8, PipelineError> {
    let profile = read_profile(&args.profile, &[])?;
    let table = CalibrationTable::load(&args.table)?;
    let inputs = ModelInputs::open(&profile)?;
    table.check_model(&inputs.fingerprint)?;
    let name = record::run_name(&profile.output);
    let mut value = serde_json::Map::new();
    let mut text = String::new();
    for &precision in &profile.precisions {
        let start = Instant::now();
        let rewritten = rewrite::rewrite(&inputs, &table, &profile, precision)?;
        let rewrite_ms = start.elapsed().as_secs_f64() * 1e3;
        let path: PathBuf = args.output.join(format!("{name}.{}.onnx", precision.name()));
        std::fs::create_dir_all(&args.output).map_err(StoreError::io("create", &args.output))?;
        rewritten.model.save(&path)?;
        let total_ms = start.elapsed().as_secs_f64() * 1e3;
        let entry = json!({
            "onnx": path.display().to_string(),
            "rewrite_ms": rewrite_ms,
            "total_ms": total_ms,
            "decisions": rewritten.decisions,
            "warnings": rewritten.warnings,
        });
        value.insert(precision.name().to_owned(), entry);
        text.push_str(&format!("{} ({:.2} s)\n", path.display(), total_ms / 1e3));
    }
    print(args.profile.json, &serde_json::Value::Object(value), &text);
    Ok(0)
}

fn plan_shapes(args: &ShapesArgs) -> Result<u8, PipelineError> {
    let profile = read_profile(&args.profile, &[])?;
    let inputs = ModelInputs::open(&profile)?;
    let calibration = inputs.calibration_rows(&profile.calibration)?;
    let evaluation = inputs.evaluation_rows(&profile.evaluation, &profile.labels)?;
    let planned = shapes::plan(&profile, &inputs.survey, &calibration, &evaluation);
    let profiles: Vec<_> = planned
        .profiles
        .iter()
        .map(|s| json!({ "min": s.min, "opt": s.opt, "max": s.max, "rows": s.rows, "padding_share": s.padding_share }))
        .collect();
    let padding: Vec<_> = planned
        .padding
        .iter()
        .map(|(mode, real, computed)| json!({ "mode": mode, "real_tokens": real, "padded_tokens": computed }))
        .collect();
    let value = json!({ "from": planned.from, "profiles": profiles, "padding": padding, "warnings": planned.warnings });
    let mut text = String::from("min [batch, length]   opt                  max                  rows\n");
    for s in &planned.profiles {
        let cell = |pair: [usize; 2]| format!("[{}, {}]", pair[0], pair[1]);
        text.push_str(&format!("{:<21} {:<20} {:<20} {}\n", cell(s.min), cell(s.opt), cell(s.max), s.rows));
    }
    for (mode, real, computed) in &planned.padding {
        let waste = if *computed == 0 { 0.0 } else { 100.0 * (computed - real) as f64 / *computed as f64 };
        text.push_str(&format!("{waste:5.1} % of the tokens are padding when {mode}\n"));
    }
    for warning in &planned.warnings {
        text.push_str(&format!("warning: {warning}\n"));
    }
    print(args.profile.json, &value, &text);
    Ok(0)
}

fn evaluate(args: &EvaluateArgs) -> Result<u8, PipelineError> {
    let profile = read_profile(&args.profile, &[])?;
    if let Some(path) = &args.predictions {
        writable(path)?;
    }
    let inputs = ModelInputs::open(&profile)?;
    let rows = inputs.evaluation_rows(&profile.evaluation, &profile.labels)?;
    let onnx = args.onnx.as_ref().unwrap_or(&profile.model.onnx);
    let executor = EmbeddedExecutor::load(onnx, EmbeddedOptions::default())?;
    let progress = Progress::new(args.profile.quiet);
    let (wiring, section) = (&inputs.wiring, profile.evaluate);
    let predictions =
        evaluate::predict(&executor, wiring, &rows, section, profile.max_length, "model", progress)?;
    let labels: Vec<usize> = rows.labels.iter().map(|label| label.unwrap_or_default()).collect();
    let (_, evaluation) = judge::score(&labels, &predictions, &profile.gate, EvaluatedOn::Reference)?;
    if let Some(path) = &args.predictions {
        let lines = rows.lines.iter().zip(&predictions).map(|(line, prediction)| {
            let logits: Vec<String> = prediction.logits.iter().map(ToString::to_string).collect();
            let class = prediction.class();
            format!("{}\n", json!({ "line": line, "class": class, "logits": logits }))
        });
        write_atomic(path, lines.collect::<String>().as_bytes())?;
    }
    let text = format!(
        "accuracy {:.4} [{:.4}, {:.4}] on {} rows ({} not finite), on the reference executor\n",
        evaluation.value, evaluation.interval[0], evaluation.interval[1], evaluation.count, evaluation.not_finite
    );
    print(args.profile.json, &json!(evaluation), &text);
    Ok(0)
}

fn inspect(args: &InspectArgs) -> Result<u8, PipelineError> {
    let model = Model::open(&args.path)?;
    model.check()?;
    let graph = model.graph();
    let mut operators = std::collections::BTreeMap::<&str, usize>::new();
    for node in graph.nodes() {
        *operators.entry(node.op_type()).or_default() += 1;
    }
    let describe = |value: &trtforge_onnx::ValueInfo| {
        json!({ "name": value.name, "type": format!("{:?}", value.element_type), "shape": format!("{:?}", value.shape) })
    };
    let (inputs, outputs) = (graph.inputs(), graph.outputs());
    let weights: usize = graph.initializers().map(|tensor| tensor.len()).sum();
    let value = json!({
        "opset": model.opset(),
        "ir_version": model.proto().ir_version,
        "fingerprint": model.fingerprint().to_hex().to_string(),
        "inputs": inputs.iter().map(describe).collect::<Vec<_>>(),
        "outputs": outputs.iter().map(describe).collect::<Vec<_>>(),
        "nodes": graph.nodes().len(),
        "parameters": weights,
        "operators": operators,
    });
    let mut text = format!("opset {}, {} nodes, {weights} parameters\n", model.opset(), graph.nodes().len());
    for (what, values) in [("input", &inputs), ("output", &outputs)] {
        for info in values {
            text.push_str(&format!("{what:<7} {} {:?} {:?}\n", info.name, info.element_type, info.shape));
        }
    }
    for (operator, count) in &operators {
        text.push_str(&format!("{count:>6} {operator}\n"));
    }
    print(args.json, &value, &text);
    Ok(0)
}

fn report(args: &ReportArgs) -> Result<u8, PipelineError> {
    let path = args.run.join("run.json");
    let text = std::fs::read_to_string(&path).map_err(StoreError::io("read", &path))?;
    let run = RunRecord::from_json(&text)?;
    record::write(&run, &args.run)?;
    print(false, &json!(null), &summary(&run, &args.run));
    Ok(0)
}

fn doctor(args: &DoctorArgs) -> Result<u8, PipelineError> {
    let found = trtforge_tensorrt::probe(None);
    print(args.json, &json!(found), &doctor::text(&found));
    Ok(0)
}
