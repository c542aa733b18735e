//! `trtforge calibrate`.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{not_an_input, print_for, read_profile, warn, writable};
use crate::cli::{CalibrateArgs, Observe};
use crate::error::PipelineError;
use crate::inputs::ModelInputs;
use crate::progress::Progress;
use crate::stages::calibrate;

/// Writes a calibration table.
pub fn calibrate(args: &CalibrateArgs) -> Result<(), PipelineError> {
    let profile = read_profile(&args.profile, &[])?;
    if args.observe == Observe::All {
        // The output is tried before the long work.
        not_an_input(&args.profile, &profile, &args.output)?;
        writable(&args.output)?;
    }
    let start = Instant::now();
    let inputs = ModelInputs::open(&profile)?;
    warn(&args.profile, &inputs.warnings);
    let rows = inputs.calibration_rows(&profile.calibration)?;
    warn(&args.profile, &rows.notes);
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
    Ok(print_for(&args.profile, &value, &text)?)
}

/// Peak resident memory of this process, where the system tells.
fn peak_rss_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024.0)
}
