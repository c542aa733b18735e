//! Rows on which a metric has no value: what stands for it there cannot drop, so that comparing it would prove nothing.

use crate::chance;
use crate::entity::row_counts;
use crate::gate::{Gate, Rule, Scope};
use crate::metric::Metric;
use crate::scored::Scored;

/// Why no candidate can be judged by `metric` on these rows; `None` where the metric has a value.
///
/// - `baseline`: the rows as the model scored them that candidates are compared with.
pub(crate) fn undefined(metric: Metric, baseline: &Scored) -> Option<String> {
    let what = match (metric, baseline) {
        (Metric::Pearson | Metric::Spearman, Scored::Similarities(rows)) => {
            if never_varies(rows.iter().map(|row| row.gold)) {
                "every row has the same gold score"
            } else if never_varies(rows.iter().map(|row| row.score).filter(|s| s.is_finite())) {
                "the baseline gives every row the same score"
            } else {
                return None;
            }
        }
        (Metric::Mcc, Scored::Classes(rows)) => {
            if never_varies(rows.iter().map(|row| row.label)) {
                "every row has the same label"
            } else if never_varies(rows.iter().map(|row| row.class)) {
                "the baseline answers the same on every row"
            } else {
                return None;
            }
        }
        (Metric::Accuracy, Scored::Tags(tags)) => {
            if tags.rows.iter().any(|row| !row.gold.is_empty()) {
                return None;
            }
            "no row has a token that is judged"
        }
        (_, Scored::Tags(tags)) => {
            let entities = |row| row_counts(tags, row).values().any(|one| one.gold > 0);
            if tags.rows.iter().any(entities) {
                return None;
            }
            "the gold tags hold no entity"
        }
        _ => return None,
    };
    Some(format!("{what}, so `{metric}` has no value there and nothing that could drop"))
}

/// Why a gate can accept nothing on these rows, whatever the models answer; empty where it can.
///
/// - `right`: the rows with what is right as the answers of a model;
/// - `classes`: names of the classes, by index.
pub fn empty_proofs(gate: &Gate, right: &Scored, classes: &[String]) -> Vec<String> {
    let whole = |rule: &Rule| match rule {
        Rule::MaxDrop { metric, scope: Scope::Whole, .. } => undefined(*metric, right),
        _ => None,
    };
    let mut reasons: Vec<String> = gate.rules.iter().filter_map(whole).collect();
    if reasons.is_empty() && !gate.allow_chance_baseline {
        reasons.extend(chance::one_answer(right, classes));
    }
    reasons
}

/// Whether all of one or more values are the same.
fn never_varies<T: PartialEq>(mut values: impl Iterator<Item = T>) -> bool {
    let Some(first) = values.next() else { return false };
    values.all(|value| value == first)
}
