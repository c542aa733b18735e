//! Whether the baseline knows anything: a model at chance has nothing to lose, and would pass every gate.

mod tasks;

use crate::bootstrap;
use crate::error::EvaluateError;
use crate::gate::{Gate, GateOutcome};
use crate::judge::{Evidence, plain};
use crate::metric::Metric;
use crate::outcome::Outcome;
use crate::parts::class_name;
use crate::scored::Scored;
use crate::statistic::{ClassCells, Part, Statistic};
use crate::verdict::RuleVerdict;

/// Matthews correlation that counts as knowing next to nothing.
const NEXT_TO_NOTHING: f64 = 0.1;
/// Two-sided; a baseline is not refused on a mere suspicion.
const CONFIDENCE: f64 = 0.95;
/// Enough to tell a model that knows something from one that does not.
const DRAWS: usize = 400;

/// The rule's name.
const NAME: &str = "baseline_above_chance";

pub(crate) use tasks::one_answer;

/// The rule that holds for every gate.
///
/// Where one answer is right on every row, it is inconclusive: such rows test nothing. Of embeddings, whose baseline is the measure itself,
/// it only says when there is nothing to measure by.
pub(crate) fn rule(
    gate: &Gate,
    baseline: &Scored,
    evidence: &Evidence<'_>,
) -> Result<Option<RuleVerdict>, EvaluateError> {
    let (names, allowed) = (evidence.classes, gate.allow_chance_baseline);
    let metric = gate.headline().unwrap_or(baseline.metrics()[0]);
    if let Some(reason) = one_answer(baseline, names) {
        let mut verdict = plain(NAME, allowed, baseline.len(), reason);
        if !allowed {
            verdict.outcome = GateOutcome::Inconclusive;
        }
        return Ok(Some(verdict));
    }
    match baseline {
        Scored::Classes(rows) => Ok(Some(classes(rows, names, allowed))),
        Scored::Tags(rows) => Ok(Some(tasks::tags(rows, allowed))),
        Scored::Answers(rows) => Ok(Some(tasks::answers(rows, allowed))),
        Scored::Similarities(_) => tasks::similarities(baseline, metric, allowed),
        Scored::Cosines(rows) => Ok((evidence.same_vectors && rows.len() > 1).then(|| {
            let reason = "the baseline gives every row the same vector, so there is nothing that a candidate could lose";
            plain(NAME, allowed, rows.len(), reason.to_owned())
        })),
    }
}

/// Classes, measured by the Matthews correlation, since accuracy is above chance only by what the classes' shares leave: rejected when its
/// whole interval is below [`NEXT_TO_NOTHING`], or where the answer never varies; an interval that merely reaches down to 0 is a note.
fn classes(rows: &[Outcome], names: &[String], allowed: bool) -> RuleVerdict {
    let cells = ClassCells::new(Metric::Mcc, Part::Whole, rows, rows);
    let mcc = cells.observed()[0];
    let [low, high] = bootstrap::value_interval(&cells, CONFIDENCE, DRAWS);
    let knows = high >= NEXT_TO_NOTHING && !always_the_same(rows);
    let reason = if knows {
        let measurably = if low > 0.0 { "measurably" } else { "not measurably" };
        format!(
            "the baseline's answers are {measurably} better than chance (mcc {mcc:.4}, {low:.4} to {high:.4})"
        )
    } else {
        at_chance(rows, names, mcc, high)
    };
    let mut verdict = plain(NAME, knows || allowed, rows.len(), reason);
    verdict.metric = Some(Metric::Mcc);
    verdict.value = Some(mcc);
    verdict.limit = Some(NEXT_TO_NOTHING);
    verdict.interval = Some([low, high]);
    verdict
}

/// Whether one class is all that is ever answered, on enough rows of other classes that this is no accident of a small set.
fn always_the_same(rows: &[Outcome]) -> bool {
    let first = rows.first().and_then(|row| row.class);
    let others = rows.iter().filter(|row| Some(row.label) != first).count();
    first.is_some() && rows.iter().all(|row| row.class == first) && others >= tasks::ENOUGH
}

fn at_chance(rows: &[Outcome], names: &[String], mcc: f64, high: f64) -> String {
    let count = rows.len() as f64;
    let right = rows.iter().filter(|row| row.is_right()).count() as f64 / count;
    let (commonest, share) = commonest(rows);
    let always = class_name(names, commonest);
    let numbers = format!(
        "accuracy {right:.4} on {} rows, {:.4} for always answering `{always}`; mcc {mcc:.4}",
        rows.len(),
        share
    );
    let swapped = other_order(rows).map_or_else(String::new, |(order, accuracy)| {
        let order: Vec<String> = order.iter().map(|&class| class_name(names, class)).collect();
        format!(
            ": read in the order [{}] the same logits have accuracy {accuracy:.4}; is `task.labels` in the order of the logits?",
            order.join(", ")
        )
    });
    if high < 0.0 {
        return format!(
            "the baseline answers worse than chance ({numbers}){}",
            if swapped.is_empty() { ": are labels in the order of the logits?" } else { &swapped }
        );
    }
    format!(
        "the baseline answers no better than always saying `{always}` ({numbers}){swapped}; there is nothing that a candidate could lose"
    )
}

fn commonest(rows: &[Outcome]) -> (usize, f64) {
    let classes = rows.iter().map(|row| row.label).max().unwrap_or(0) + 1;
    let mut counts = vec![0_usize; classes];
    for row in rows {
        counts[row.label] += 1;
    }
    let most =
        (0..classes).fold(0, |best, one| if counts[one] > counts[best] { one } else { best });
    (most, counts[most] as f64 / rows.len() as f64)
}

/// Another order of labels under which the same answers are mostly right: for each class, in the order of the logits, the label that its
/// answers most often belong to. Only where that is an order, and explains at least half more than what the present one does.
pub(crate) fn other_order(rows: &[Outcome]) -> Option<(Vec<usize>, f64)> {
    let named = |row: &Outcome| [Some(row.label), row.class].into_iter().flatten().max();
    let classes = rows.iter().filter_map(named).max()? + 1;
    let mut counts = vec![vec![0_usize; classes]; classes];
    for row in rows {
        counts[row.class?][row.label] += 1;
    }
    let best = |labels: &Vec<usize>| {
        (0..classes).fold(0, |best, one| if labels[one] > labels[best] { one } else { best })
    };
    let order: Vec<usize> = counts.iter().map(best).collect();
    let mut sorted = order.clone();
    sorted.sort_unstable();
    sorted.dedup();
    let right: usize = order.iter().enumerate().map(|(class, &label)| counts[class][label]).sum();
    let now: usize = (0..classes).map(|class| counts[class][class]).sum();
    let convincing = sorted.len() == classes && 2 * right > rows.len() && 2 * right >= 3 * now;
    convincing.then(|| (order, right as f64 / rows.len() as f64))
}
