//! Builds one plan and prints what it took, as one line of JSON: our side of `scripts/bench --shim`.
//!
//! `build_plan SDK-FOLDER MODEL.onnx PLAN SHAPES...`, each SHAPES a profile `[{"input":[[min],[opt],[max]]}]` as JSON.

use std::fs::File;
use std::io::BufWriter;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use trtforge_tensorrt::{BuildOptions, Library, OptimizationProfile, Sdk, build_to};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [library, onnx, plan, shapes @ ..] = arguments.as_slice() else {
        eprintln!("usage: build_plan SDK-FOLDER MODEL.onnx PLAN SHAPES...");
        return ExitCode::from(2);
    };
    match run(Path::new(library), Path::new(onnx), Path::new(plan), shapes) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(
    library: &Path,
    onnx: &Path,
    plan: &Path,
    shapes: &[String],
) -> Result<String, Box<dyn std::error::Error>> {
    let profiles: Vec<OptimizationProfile> =
        shapes.iter().map(|text| serde_json::from_str(text)).collect::<Result<_, _>>()?;
    let library = Library::locate(Sdk::TensorRtRtx, Some(library))?;
    let mut out = BufWriter::new(File::create(plan)?);
    let start = Instant::now();
    let go_on = |_: trtforge_tensorrt::Progress<'_>| ControlFlow::Continue(());
    let built = build_to(&library, onnx, &profiles, &BuildOptions::default(), &go_on, &mut out)?;
    let total_ms = start.elapsed().as_secs_f64() * 1e3;
    let (parse, build, size) = (built.parse_ms, built.build_ms, built.size);
    let peak = peak_kib()?;
    Ok(format!(
        r#"{{"parse_ms":{parse:.1},"build_ms":{build:.1},"total_ms":{total_ms:.1},"bytes":{size},"peak_kib":{peak}}}"#
    ))
}

/// The most memory this process has had resident, in KiB.
fn peak_kib() -> Result<u64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    Ok(line.and_then(|line| line.split_whitespace().next()).ok_or("no VmHWM")?.parse()?)
}
