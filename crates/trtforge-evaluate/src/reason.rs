//! A verdict in words.

use std::collections::BTreeMap;

use crate::gate::{GateOutcome, Verdict};
use crate::interval::wilson_interval;
use crate::outcome::Outcome;

/// Why the verdict is what it is: one sentence or two, with the numbers.
pub(crate) fn of(verdict: &Verdict) -> String {
    let (count, max) = (verdict.count, verdict.max_drop);
    // Rounded, since 0.58 is 57.99999999999999 hundredths.
    let percent = (verdict.confidence * 1e8).round() / 1e6;
    let change = change(verdict);
    if verdict.not_finite != [0, 0] {
        return not_finite(verdict);
    }
    let high = verdict.interval[1];
    match verdict.outcome {
        GateOutcome::Rejected => format!("{change}, more than the {max} allowed"),
        GateOutcome::Accepted => {
            format!(
                "{change}; with {percent}% confidence the drop is at most {high:.4}, within the {max} allowed"
            )
        }
        GateOutcome::Inconclusive => {
            let hope = match verdict.rows_needed {
                Some(rows) => format!("about {rows} rows that differ like these would decide"),
                None if max == 0.0 => {
                    "with max_drop 0 only a measurably better candidate can be accepted, so more rows that differ like these would not decide".to_owned()
                }
                None => "the drop is so close to the limit that more rows that differ like these would not decide".to_owned(),
            };
            format!(
                "{change}, within the {max} allowed, but {count} rows leave up to {high:.4} possible ({percent}% confidence); {hope}"
            )
        }
    }
}

fn change(verdict: &Verdict) -> String {
    let Verdict { metric, baseline, candidate, drop, count, paired, .. } = verdict;
    let (lost, won) = (paired.baseline_only, paired.candidate_only);
    if lost == 0 && won == 0 {
        return format!(
            "{metric} stays at {baseline:.4} ({count} rows, none right in only one of the two)"
        );
    }
    let direction = match drop {
        drop if *drop > 0.0 => format!("drops by {drop:.4}"),
        drop if *drop < 0.0 => format!("rises by {:.4}", -drop),
        _ => "does not change".to_owned(),
    };
    format!(
        "{metric} {direction} from {baseline:.4} to {candidate:.4} ({lost} rows lost, {won} won, of {count})"
    )
}

fn not_finite(verdict: &Verdict) -> String {
    let [baseline, candidate] = verdict.not_finite;
    let count = verdict.count;
    match (baseline, candidate) {
        (0, _) => format!(
            "{candidate} of {count} rows give NaN or infinite logits; such a model is never accepted"
        ),
        (_, 0) => format!(
            "the baseline gives NaN or infinite logits on {baseline} of {count} rows, so there is nothing to compare with"
        ),
        _ => format!(
            "{candidate} of {count} rows give NaN or infinite logits, and {baseline} already do in the baseline"
        ),
    }
}

/// What makes a comparison weaker than its numbers look.
pub(crate) fn notes(baseline: &[Outcome], candidate: &[Outcome]) -> Vec<String> {
    let labels = tally(baseline.iter().map(|outcome| outcome.label));
    let mut notes = Vec::new();
    if let (1, Some(label)) = (labels.len(), labels.keys().next()) {
        notes.push(format!(
            "every row has the label {label}: accuracy cannot show a model that always answers it"
        ));
    }
    for (name, rows) in [("baseline", baseline), ("candidate", candidate)] {
        let classes = tally(rows.iter().filter_map(|outcome| outcome.class));
        if let (1, Some(class), true) = (classes.len(), classes.keys().next(), labels.len() > 1) {
            notes.push(format!("the {name} answers class {class} on every row"));
        }
    }
    let commonest = labels.values().copied().max().unwrap_or(0);
    let right = baseline.iter().filter(|outcome| outcome.is_right()).count();
    let [low, _] = wilson_interval(right, baseline.len(), 0.95);
    let chance = commonest as f64 / baseline.len() as f64;
    if labels.len() > 1 && low <= chance {
        let accuracy = right as f64 / baseline.len() as f64;
        notes.push(format!(
            "the baseline's accuracy {accuracy:.4} is not measurably above the {chance:.4} of always answering the commonest label: are labels in the order of the logits?"
        ));
    }
    notes
}

fn tally(classes: impl Iterator<Item = usize>) -> BTreeMap<usize, usize> {
    let mut counts = BTreeMap::new();
    for class in classes {
        *counts.entry(class).or_insert(0) += 1;
    }
    counts
}
