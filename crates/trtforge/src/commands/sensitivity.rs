//! `trtforge sensitivity`.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::json;
use trtforge_calibrate::CalibrationTable;
use trtforge_quantize::Arithmetic;
use trtforge_report::{Sensitivity, UnitCost};

use super::{print_for, read_profile, warn};
use crate::cli::SensitivityArgs;
use crate::error::PipelineError;
use crate::inputs::{EncodedRows, ModelInputs};
use crate::profile::Profile;
use crate::progress::Progress;
use crate::record;
use crate::stages::calibrate;
use crate::stages::sensitivity::{self, HeldAside};
use crate::store::Store;

/// Prints what each INT8 unit alone costs, the worst first.
pub fn sensitivity(args: &SensitivityArgs) -> Result<(), PipelineError> {
    let profile = read_profile(&args.profile, &[])?;
    let inputs = ModelInputs::open(&profile)?;
    warn(&args.profile, &inputs.warnings);
    let rows = inputs.calibration_rows(&profile.calibration)?;
    warn(&args.profile, &rows.notes);
    let progress = Progress::new(args.profile.quiet);
    let (table, origin) = table(&profile, &inputs, &rows, progress)?;
    let held = sensitivity::held_aside(&rows, &profile, args.rows as usize);
    let start = Instant::now();
    let measured = sensitivity::measure(&inputs, &profile, &table, &rows, &held, progress)?;
    let measure_ms = start.elapsed().as_secs_f64() * 1e3;
    let plain_ms = plain_passes(&inputs, &profile, &rows, &held)?;
    let length = profile.max_length;
    let mut found = sensitivity::summary(&measured, &held, length);
    let arithmetic = record::arithmetic(&Arithmetic::of(&measured.units), length);
    let text = text(&found, &table, origin, &held, &arithmetic, args.top, [measure_ms, plain_ms]);
    let (kinds, layers) = (sums(&found.units, kind_of), sums(&found.units, layer_of));
    found.units.truncate(if args.top == 0 { usize::MAX } else { args.top });
    let value = json!({
        "schema": 1,
        "table": { "from": origin, "method": table.options.method.to_string() },
        "rows": found.rows,
        "fresh_rows": found.fresh_rows,
        "arithmetic": arithmetic,
        "units": found.units,
        "left": found.left,
        "kinds": kinds,
        "layers": layers,
        "measure_ms": measure_ms,
        "plain_ms": plain_ms,
    });
    Ok(print_for(&args.profile, &value, &text)?)
}

/// The table that the profile names, else the one that a build left in the output folder, else one made now.
fn table(
    profile: &Profile,
    inputs: &ModelInputs,
    rows: &EncodedRows,
    progress: Progress,
) -> Result<(CalibrationTable, &'static str), PipelineError> {
    if let Some(path) = &profile.calibrate.table {
        let table = CalibrationTable::load(path)?;
        table.check_model(&inputs.fingerprint)?;
        return Ok((table, "profile"));
    }
    if profile.output.join("artifacts").is_dir() {
        let store = Store::open(&profile.output)?;
        if let Some(found) = store.find(&calibrate::key(inputs, profile, rows)?) {
            return Ok((CalibrationTable::load(&found.path)?, "store"));
        }
    }
    Ok((calibrate::calibrate(inputs, profile, rows, progress)?.table, "calibrated"))
}

/// Milliseconds of plain forward passes over the same rows: what the measurement is to be compared with.
fn plain_passes(
    inputs: &ModelInputs,
    profile: &Profile,
    rows: &EncodedRows,
    held: &HeldAside,
) -> Result<f64, PipelineError> {
    let executor = inputs.executor(profile, &[])?;
    let start = Instant::now();
    sensitivity::answers(inputs, &executor, rows, held)?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

fn kind_of(unit: &UnitCost) -> String {
    unit.kind.clone()
}

fn layer_of(unit: &UnitCost) -> String {
    unit.encoder_layer.map_or_else(|| "outside".to_owned(), |layer| layer.to_string())
}

/// Mean shifts added up by kind or layer, with the worst unit's first.
fn sums(units: &[UnitCost], key: fn(&UnitCost) -> String) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    for unit in units {
        *sums.entry(key(unit)).or_default() += unit.shift;
    }
    sums
}

/// Widest line of the output, names of nodes excepted.
const WIDTH: usize = 80;

fn text(
    found: &Sensitivity,
    table: &CalibrationTable,
    origin: &str,
    held: &HeldAside,
    arithmetic: &trtforge_report::Arithmetic,
    top: usize,
    [measure_ms, plain_ms]: [f64; 2],
) -> String {
    let from = match origin {
        "profile" => "the table that the profile names",
        "store" => "the table of the last build",
        _ => "a table calibrated now",
    };
    let mut text = format!(
        "{} INT8 units, each quantized alone, on {} rows; {} of them did not calibrate\n",
        found.units.len(),
        held.rows.len(),
        held.fresh
    );
    text += &format!(
        "Scales: {} (method {})\nINT8 takes {:.1} % of the arithmetic of a row of {} tokens\n",
        from,
        table.options.method,
        100.0 * arithmetic.share,
        arithmetic.length
    );
    text += &format!(
        "{:.1} s, {:.1} times plain forward passes of the same rows\n\n",
        measure_ms / 1e3,
        measure_ms / plain_ms.max(1e-9)
    );
    text += "   #    shift shift % SNR dB clipped %   flips MACs % layer  unit\n";
    let shown = if top == 0 { found.units.len() } else { top };
    for (index, unit) in found.units.iter().take(shown).enumerate() {
        text += &row(index + 1, unit, held.rows.len());
    }
    let more = found.units.len().saturating_sub(shown);
    if more > 0 {
        text += &format!("   … and {more} more (--top 0 shows all)\n");
    }
    text += &sums_text("\nSum of the shifts by kind: ", &sums(&found.units, kind_of));
    text += &sums_text("Sum of the shifts by layer: ", &sums(&found.units, layer_of));
    let left = found.left.iter().filter(|unit| unit.kind != "attention").count();
    if left > 0 {
        text += &format!("{left} products with weights are not INT8; --json says why\n");
    }
    text
}

fn row(rank: usize, unit: &UnitCost, rows: usize) -> String {
    let snr = unit.snr_db.map_or_else(|| "–".to_owned(), |snr| format!("{snr:.1}"));
    let flips = format!("{}/{rows}", unit.flips);
    let layer = unit.encoder_layer.map_or_else(|| "–".to_owned(), |layer| layer.to_string());
    let mut row = format!(
        "{rank:>4} {:>8} {:>7.2} {snr:>6} {:>9.3} {flips:>7} {:>6.1} {layer:>5}  {}\n",
        figure(unit.shift),
        100.0 * unit.relative_shift,
        100.0 * unit.clipped,
        100.0 * unit.share,
        unit.kind,
    );
    if unit.not_finite > 0 {
        row += &format!("     {} rows are NaN or infinite\n", unit.not_finite);
    }
    row + &format!("     {}\n", unit.node)
}

/// Four digits that matter.
fn figure(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-3 { format!("{value:.2e}") } else { format!("{value:.4}") }
}

/// Sums, the largest first, in lines of at most [`WIDTH`].
fn sums_text(head: &str, sums: &BTreeMap<String, f64>) -> String {
    let mut sorted: Vec<(&String, &f64)> = sums.iter().collect();
    sorted.sort_by(|a, b| b.1.total_cmp(a.1));
    let mut lines = vec![head.trim_end().to_owned()];
    for (index, (name, sum)) in sorted.iter().enumerate() {
        let comma = if index + 1 < sorted.len() { "," } else { "" };
        let item = format!(" {name} {}{comma}", figure(**sum));
        let last = lines.len() - 1;
        if lines[last].chars().count() + item.chars().count() > WIDTH {
            lines.push(format!("   {item}"));
        } else {
            lines[last] += &item;
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_sorted_and_fit_the_terminal() {
        let sums: BTreeMap<String, f64> =
            (0..24).map(|layer| (layer.to_string(), f64::from(layer) / 7.0)).collect();
        let text = sums_text("\nSum of the shifts by layer: ", &sums);
        assert!(text.starts_with("\nSum of the shifts by layer: 23 3.2857, 22 "), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.ends_with("0 0.0000\n"), "{text}");
    }

    #[test]
    fn a_row_fits_the_terminal() {
        let unit = UnitCost {
            node: "n".into(),
            kind: "query-key-value".into(),
            encoder_layer: Some(11),
            shift: 1.25e-4,
            flips: 12,
            snr_db: Some(103.25),
            ..UnitCost::default()
        };
        let row = row(100, &unit, 9999);
        assert!(row.lines().next().unwrap().chars().count() <= WIDTH, "{row}");
        assert!(row.contains("1.25e-4") && row.contains("103.2"), "{row}");
    }
}
