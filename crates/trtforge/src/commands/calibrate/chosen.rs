//! What `auto` chose, for whoever ran `trtforge calibrate`.

use serde_json::{Value, json};
use trtforge_calibrate::CalibrationTable;

/// As JSON and as a line of text; none where the profile left nothing open, or too few rows could be compared on.
pub fn chosen(table: &CalibrationTable) -> Option<(Value, String)> {
    let search = table.search.as_ref()?;
    let chosen = search.chosen.as_ref()?;
    let shift = |shift: Option<f64>| shift.map_or("not finite".to_owned(), |s| format!("{s:.4}"));
    let mut value = json!({ "rows": search.held_out.len(), "shift": search.shift });
    let mut parts = Vec::new();
    if !search.methods.is_empty() {
        let tried = search.methods.iter().find(|tried| tried.method == chosen.method);
        let found = tried.and_then(|tried| tried.shift);
        let changed: usize = search.changes.iter().map(|change| change.tensors.len()).sum();
        value["method"] = json!(chosen.method);
        value["method_shift"] = json!(found);
        value["changed_tensors"] = json!(changed);
        let others =
            if changed == 0 { String::new() } else { format!(", another for {changed} tensors") };
        let (method, count) = (chosen.method, search.methods.len());
        parts.push(format!("method {method} (shift {}, of {count}{others})", shift(found)));
    }
    if !search.strengths.is_empty() {
        // Each strength was tried with several methods; the best of them speaks for it.
        let least = |strength: f64| {
            let of = search.strengths.iter().filter(|tried| tried.strength == strength);
            of.filter_map(|tried| tried.shift).min_by(f64::total_cmp)
        };
        let (found, off) = (least(chosen.smooth), least(0.0));
        value["smooth"] = json!(chosen.smooth);
        value["smooth_shift"] = json!(found);
        value["unsmoothed_shift"] = json!(off);
        let off = if chosen.smooth > 0.0 { format!(", off {}", shift(off)) } else { String::new() };
        parts.push(format!("smooth {} (shift {}{off})", chosen.smooth, shift(found)));
    }
    let text = format!(
        "auto chose {} on {} rows kept aside; the table moves their logits by {}\n",
        parts.join(" and "),
        search.held_out.len(),
        shift(search.shift)
    );
    Some((value, text))
}
