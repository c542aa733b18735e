//! What `auto` compared, as the record states it.

use trtforge_calibrate::{MethodChange, SearchRecord, TableOptions};
use trtforge_report as report;

/// What `auto` compared.
pub fn search(found: &SearchRecord, options: &TableOptions) -> report::Search {
    // The best method of the chosen strength, and the best method of all.
    let least =
        |shifts: &mut dyn Iterator<Item = Option<f64>>| shifts.flatten().min_by(f64::total_cmp);
    let at_strength = least(
        &mut found.strengths.iter().filter(|t| t.strength == options.smooth).map(|t| t.shift),
    );
    let strengths = found.strengths.iter().map(|tried| report::Tried {
        smooth: Some(tried.strength),
        method: tried.method.to_string(),
        shift: tried.shift,
        chosen: tried.strength == options.smooth && tried.shift == at_strength,
    });
    let best = least(&mut found.methods.iter().map(|tried| tried.shift));
    let winner = found.methods.iter().position(|tried| tried.shift == best);
    let methods = found.methods.iter().enumerate().map(|(position, tried)| report::Tried {
        smooth: None,
        method: tried.method.to_string(),
        shift: tried.shift,
        chosen: Some(position) == winner,
    });
    let change = |change: &MethodChange| report::MethodChange {
        tensors: change.tensors.clone(),
        from: change.from.to_string(),
        to: change.to.to_string(),
        before: change.before,
        after: change.after,
    };
    report::Search {
        rows: found.held_out.len(),
        lines: found.held_out.to_string(),
        tried: strengths.chain(methods).collect(),
        changes: found.changes.iter().map(change).collect(),
        shift: found.shift,
        rows_run: found.rows_run,
        note: found.note.clone(),
    }
}
