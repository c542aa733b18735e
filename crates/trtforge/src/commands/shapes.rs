//! `trtforge shapes`.

use serde_json::json;

use super::{print_for, read_profile};
use crate::checked::Checked;
use crate::cli::ShapesArgs;
use crate::error::PipelineError;

/// Prints the optimization profiles that a build would use.
pub fn plan_shapes(args: &ShapesArgs) -> Result<(), PipelineError> {
    let profile = read_profile(&args.profile, &[])?;
    let Checked { shapes: planned, warnings, .. } = Checked::open(&profile)?;
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
    let value = json!({ "from": planned.from, "profiles": profiles, "padding": padding, "warnings": warnings });
    let mut text =
        String::from("min [batch, length]   opt                  max                  rows\n");
    for s in &planned.profiles {
        let cell = |pair: [usize; 2]| format!("[{}, {}]", pair[0], pair[1]);
        text.push_str(&format!(
            "{:<21} {:<20} {:<20} {}\n",
            cell(s.min),
            cell(s.opt),
            cell(s.max),
            s.rows
        ));
    }
    for (mode, real, computed) in &planned.padding {
        let waste =
            if *computed == 0 { 0.0 } else { 100.0 * (computed - real) as f64 / *computed as f64 };
        text.push_str(&format!("{waste:5.1} % of the tokens are padding when {mode}\n"));
    }
    for warning in &warnings {
        text.push_str(&format!("warning: {warning}\n"));
    }
    Ok(print_for(&args.profile, &value, &text)?)
}
