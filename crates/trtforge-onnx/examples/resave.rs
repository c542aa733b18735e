//! Opens a model and writes it again, converted and split as asked; prints what it took. For checks against other tools.
//!
//! `resave IN.onnx OUT.onnx [--opset N] [--external-above BYTES] [--plain-inputs]`

use std::path::PathBuf;
use std::time::Instant;

use trtforge_onnx::{Model, OnnxError, Patch, SaveOptions, convert_opset};

fn main() -> miette::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |flag: &str| {
        let at = arguments.iter().position(|a| a == flag)?;
        arguments.get(at + 1)?.parse::<i64>().ok()
    };
    let [input, output, ..] = arguments.as_slice() else {
        eprintln!(
            "usage: resave IN.onnx OUT.onnx [--opset N] [--external-above BYTES] [--plain-inputs]"
        );
        return Ok(());
    };
    let mut model = timed("open", || Model::open(&PathBuf::from(input)))?;
    let fingerprint = timed("fingerprint", || Ok(model.fingerprint()))?;
    println!("{fingerprint}");
    if arguments.iter().any(|a| a == "--plain-inputs") {
        let mut patch = Patch::new(&model);
        patch.remove_inputs_that_are_initializers();
        model = patch.finish()?;
    }
    if let Some(opset) = value("--opset") {
        model = timed("convert", || convert_opset(&model, opset))?;
    }
    let limit =
        value("--external-above").map_or(SaveOptions::default().external_above, |n| n as u64);
    let options = SaveOptions { external_above: limit };
    let written = timed("save", || model.save_with(&PathBuf::from(output), &options))?;
    println!("{} bytes, data {:?}", written.bytes, written.data.map(|d| d.1));
    println!("peak memory: {}", peak_memory());
    Ok(())
}

fn timed<T>(what: &str, run: impl FnOnce() -> Result<T, OnnxError>) -> Result<T, OnnxError> {
    let start = Instant::now();
    let result = run()?;
    println!("{what}: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    Ok(result)
}

/// Resident memory with and without mapped files, as Linux states it.
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let fields = status.lines().filter(|l| l.starts_with("VmHWM") || l.starts_with("RssAnon"));
    fields.collect::<Vec<_>>().join(", ").replace('\t', " ")
}
