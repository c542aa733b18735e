//! A verdict in words.

use std::collections::BTreeMap;

use crate::drop::Drop;
use crate::entity::malformed_transitions;
use crate::gate::{GateOutcome, Tolerance};
use crate::interval::wilson_interval;
use crate::outcome::Outcome;
use crate::parts::class_name;
use crate::scored::Scored;
use crate::verdict::RuleVerdict;

/// A share as a percentage without the dust of binary fractions: 0.58 is 57.99999999999999 hundredths.
pub(crate) fn percent(share: f64) -> String {
    format!("{}%", (share * 1e8).round() / 1e6)
}

/// The whole verdict: the headline's reason, or that of the first rule that is worse than it.
pub(crate) fn overall(outcome: GateOutcome, headline: usize, rules: &[RuleVerdict]) -> String {
    let worst: Vec<&RuleVerdict> = rules.iter().filter(|rule| rule.outcome == outcome).collect();
    let finite = rules.iter().find(|rule| rule.rule == "finite_logits" && !rule.passes);
    let first = match finite {
        Some(rule) => rule,
        None if rules[headline].outcome == outcome => &rules[headline],
        None => worst.first().copied().unwrap_or(&rules[headline]),
    };
    let mut text = first.reason.clone();
    let others = worst.iter().filter(|rule| !std::ptr::eq(**rule, first)).count();
    if outcome != GateOutcome::Accepted && others > 0 && finite.is_none() {
        let names: Vec<String> = worst
            .iter()
            .filter(|rule| !std::ptr::eq(**rule, first))
            .take(3)
            .map(|rule| label(rule))
            .collect();
        let more = if others > 3 { ", …" } else { "" };
        text.push_str(&format!("; {others} more of its rules so: {}{more}", names.join(", ")));
    }
    if !std::ptr::eq(first, &raw const rules[headline]) && finite.is_none() {
        text.push_str(&format!(". Otherwise: {}", rules[headline].reason));
    }
    text
}

/// A rule's name with what it is about.
fn label(rule: &RuleVerdict) -> String {
    let metric = rule.metric.map_or_else(String::new, |metric| format!(" of {metric}"));
    match &rule.scope {
        Some(scope) => format!("{} ({scope})", rule.rule),
        None => format!("{}{metric}", rule.rule),
    }
}

/// One drop: one sentence or two, with the numbers.
pub(crate) fn of_drop(
    drop: &Drop,
    scope: Option<&str>,
    outcome: GateOutcome,
    tolerance: Tolerance,
    confidence: f64,
    rows_needed: Option<u64>,
) -> String {
    if let Some(why) = &drop.undefined {
        let place = scope.map_or_else(String::new, |scope| format!(" where {scope}"));
        return format!("{} cannot be judged{place}: {why}", drop.metric);
    }
    let limit = tolerance.limit(drop.baseline);
    let max = match tolerance {
        Tolerance::Absolute(max) => max.to_string(),
        Tolerance::Relative(share) => format!("{limit:.4} ({} of the baseline)", percent(share)),
    };
    let (count, high, sure) = (drop.count, drop.interval[1], percent(confidence));
    let change = change(drop, scope);
    match outcome {
        GateOutcome::Rejected => format!("{change}, more than the {max} allowed"),
        GateOutcome::Accepted => format!(
            "{change}; with {sure} confidence the drop is at most {high:.4}, within the {max} allowed"
        ),
        GateOutcome::Inconclusive => {
            let hope = match rows_needed {
                Some(rows) => format!("about {rows} rows that differ like these would decide"),
                None if limit == 0.0 => {
                    "with max_drop 0 only a measurably better candidate can be accepted, so more rows that differ like these would not decide".to_owned()
                }
                None => "the drop is so close to the limit that more rows that differ like these would not decide".to_owned(),
            };
            format!(
                "{change}, within the {max} allowed, but {count} rows leave up to {high:.4} possible ({sure} confidence); {hope}"
            )
        }
    }
}

fn change(drop: &Drop, scope: Option<&str>) -> String {
    let Drop { metric, baseline, candidate, count, paired, .. } = drop;
    let what = match scope {
        Some(scope) if scope.starts_with("class ") => format!("f1 of {scope}"),
        Some(scope) => format!("{metric} where {scope}"),
        None => metric.to_string(),
    };
    let rows = match paired {
        Some(paired) if paired.baseline_only == 0 && paired.candidate_only == 0 => {
            return format!(
                "{what} stays at {baseline:.4} ({count} rows, none right in only one of the two)"
            );
        }
        Some(paired) => {
            let (lost, won) = (paired.baseline_only, paired.candidate_only);
            format!("{lost} rows lost, {won} won, of {count}")
        }
        None => format!("{count} rows"),
    };
    let direction = match drop.drop() {
        drop if drop > 0.0 => format!("drops by {drop:.4}"),
        drop if drop < 0.0 => format!("rises by {:.4}", -drop),
        _ if paired.is_none() => return format!("{what} stays at {baseline:.4} ({rows})"),
        _ => "does not change".to_owned(),
    };
    format!("{what} {direction} from {baseline:.4} to {candidate:.4} ({rows})")
}

/// Rows without a finite prediction: baseline, candidate.
pub(crate) fn finite(not_finite: [usize; 2], count: usize) -> String {
    match not_finite {
        [0, 0] => "every logit is finite".to_owned(),
        [0, candidate] => format!(
            "{candidate} of {count} rows give NaN or infinite logits; such a model is never accepted"
        ),
        [baseline, 0] => format!(
            "the baseline gives NaN or infinite logits on {baseline} of {count} rows, so there is nothing to compare with"
        ),
        [baseline, candidate] => format!(
            "{candidate} of {count} rows give NaN or infinite logits, and {baseline} already do in the baseline"
        ),
    }
}

/// What makes a comparison weaker than its numbers look.
pub(crate) fn notes(baseline: &Scored, candidate: &Scored, names: &[String]) -> Vec<String> {
    match (baseline, candidate) {
        (Scored::Classes(before), Scored::Classes(after)) => class_notes(before, after, names),
        (Scored::Tags(before), Scored::Tags(after)) => {
            let mut notes = Vec::new();
            if before
                .rows
                .iter()
                .all(|row| crate::entity::row_counts(before, row).values().all(|one| one.gold == 0))
            {
                notes.push(
                    "the gold tags hold no entity: F1 is 0 whatever a model answers".to_owned(),
                );
            }
            let [was, is] = [before, after].map(malformed_transitions);
            if was + is > 0 {
                notes.push(format!(
                    "tags that cannot follow the one before them: {was} in the baseline, {is} in the candidate; they are read leniently unless the scheme is strict"
                ));
            }
            notes
        }
        (Scored::Similarities(before), Scored::Similarities(after)) => {
            let constant = |values: Vec<f64>| values.windows(2).all(|two| two[0] == two[1]);
            let mut notes = Vec::new();
            if constant(before.iter().map(|row| row.gold).collect()) {
                notes.push(
                    "every row has the same gold score: there is no correlation to measure"
                        .to_owned(),
                );
            }
            for (name, rows) in [("baseline", before), ("candidate", after)] {
                if constant(rows.iter().map(|row| row.score).collect()) {
                    notes.push(format!(
                        "the {name} gives every row the same score, which has no correlation: it counts as 0"
                    ));
                }
            }
            notes
        }
        _ => Vec::new(),
    }
}

fn class_notes(baseline: &[Outcome], candidate: &[Outcome], names: &[String]) -> Vec<String> {
    let labels = tally(baseline.iter().map(|outcome| outcome.label));
    let mut notes = Vec::new();
    if let (1, Some(&label)) = (labels.len(), labels.keys().next()) {
        notes.push(format!(
            "every row has the label {}: accuracy cannot show a model that always answers it",
            class_name(names, label)
        ));
    }
    for (name, rows) in [("baseline", baseline), ("candidate", candidate)] {
        let classes = tally(rows.iter().filter_map(|outcome| outcome.class));
        if let (1, Some(&class), true) = (classes.len(), classes.keys().next(), labels.len() > 1) {
            let class = class_name(names, class);
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
