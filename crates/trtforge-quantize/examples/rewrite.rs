//! Rewrites a model to FP16 and INT8 and prints every decision.
//!
//! ```text
//! rewrite MODEL --survey                            what to observe and watch, as JSON
//! rewrite MODEL CALIBRATION.json OUT_DIR            with a calibration table
//! rewrite MODEL --minmax ABSMAX.json OUT_DIR        with min-max scales of {tensor: largest magnitude}
//! ```
//!
//! `--level LEVEL` may follow (`gemm` otherwise), and `--skip PATTERN` any number of times.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use miette::{IntoDiagnostic, Result, bail};
use trtforge_calibrate::CalibrationTable;
use trtforge_onnx::Model;
use trtforge_quantize::{HalfOptions, Policy, Rewritten, Scales, quantize_with, survey, to_half};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (given, policy) = split(&arguments)?;
    match given[..] {
        [model, "--survey"] => print_survey(Path::new(model)),
        [model, "--minmax", absmax, out] => {
            let text = std::fs::read_to_string(absmax).into_diagnostic()?;
            let absmax: BTreeMap<String, f32> = serde_json::from_str(&text).into_diagnostic()?;
            rewrite(Path::new(model), &Scales::min_max(absmax), &policy, Path::new(out))
        }
        [model, table, out] => {
            let table = CalibrationTable::load(Path::new(table))?;
            rewrite(Path::new(model), &Scales::from(&table), &policy, Path::new(out))
        }
        _ => bail!(
            "usage: rewrite MODEL (--survey | TABLE OUT_DIR | --minmax ABSMAX OUT_DIR) [--level LEVEL] [--skip PATTERN]…"
        ),
    }
}

fn split(arguments: &[String]) -> Result<(Vec<&str>, Policy)> {
    let (mut given, mut policy) = (vec![], Policy::default());
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(argument) = rest.next() {
        match argument {
            "--skip" => policy.skip.extend(rest.next().map(Into::into)),
            "--level" => policy.level = rest.next().unwrap_or_default().parse()?,
            _ => given.push(argument),
        }
    }
    Ok((given, policy))
}

fn print_survey(model: &Path) -> Result<()> {
    let survey = survey(&Model::open(model)?)?;
    println!("{}", serde_json::to_string_pretty(&survey).into_diagnostic()?);
    Ok(())
}

fn rewrite(path: &Path, scales: &Scales, policy: &Policy, out: &Path) -> Result<()> {
    std::fs::create_dir_all(out).into_diagnostic()?;
    let model = Model::open(path)?;
    let half = timed("to_half", || to_half(&model, &scales.absmax, &HalfOptions::default()))?;
    write(&half, "fp16", out)?;
    let int8 = timed("quantize", || quantize_with(&model, scales, policy))?;
    write(&int8, "int8", out)
}

fn timed<T, E>(what: &str, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let start = Instant::now();
    let result = work();
    eprintln!("{what}: {} ms", start.elapsed().as_millis());
    result
}

fn write(rewritten: &Rewritten, precision: &str, out: &Path) -> Result<()> {
    rewritten.model.save(&out.join(format!("{precision}.onnx")))?;
    let decisions = serde_json::to_vec_pretty(&rewritten.decisions).into_diagnostic()?;
    std::fs::write(out.join(format!("{precision}.decisions.json")), decisions).into_diagnostic()?;
    for warning in &rewritten.warnings {
        eprintln!("{precision}: {warning}");
    }
    Ok(())
}
