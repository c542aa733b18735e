//! `trtforge quantize`.

use std::path::PathBuf;
use std::time::Instant;

use serde_json::json;

use super::{not_an_input, print_for, read_profile, warn};
use crate::cli::QuantizeArgs;
use crate::error::PipelineError;
use crate::inputs::ModelInputs;
use crate::record;
use crate::stages::{recorded, rewrite};
use crate::store::StoreError;

/// Writes the FP16 and INT8 graphs of a calibration table.
pub fn quantize(args: &QuantizeArgs) -> Result<(), PipelineError> {
    let profile = read_profile(&args.profile, &[])?;
    let inputs = ModelInputs::open(&profile)?;
    let table = recorded::open(&args.table, &inputs)?;
    warn(&args.profile, &inputs.warnings);
    warn(&args.profile, &recorded::overruled(&profile, &inputs, &table, None));
    let name = record::run_name(&profile.output);
    let mut value = serde_json::Map::new();
    let mut text = String::new();
    for &precision in &profile.precisions {
        let start = Instant::now();
        let rewritten = rewrite::rewrite(&inputs, &table, &profile, precision)?;
        let rewrite_ms = start.elapsed().as_secs_f64() * 1e3;
        let path: PathBuf = args.output.join(format!("{name}.{}.onnx", precision.name()));
        not_an_input(&args.profile, &profile, &path)?;
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
    Ok(print_for(&args.profile, &serde_json::Value::Object(value), &text)?)
}
