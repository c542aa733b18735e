//! The same question for rows that have no classes, and for rows on which one answer is always right.

use super::{CONFIDENCE, DRAWS, NEXT_TO_NOTHING};
use crate::bootstrap;
use crate::empty::undefined;
use crate::entity::row_counts;
use crate::error::EvaluateError;
use crate::judge::plain;
use crate::metric::Metric;
use crate::parts::class_name;
use crate::scored::{AnswerRow, Scored, TaggedRows};
use crate::statistic::{Part, statistic};
use crate::verdict::RuleVerdict;

/// A model that finds even a seventh of the answers finds none of 20 with a probability below 0.05.
pub(super) const ENOUGH: usize = 20;

/// Why these rows show nothing of what a model knows: always giving one and the same answer is right on all of them.
pub(crate) fn one_answer(rows: &Scored, names: &[String]) -> Option<String> {
    let always = match rows {
        Scored::Classes(rows) => {
            let first = rows.first()?.label;
            if rows.iter().any(|row| row.label != first) {
                return None;
            }
            let name = class_name(names, first);
            format!("every row has the label `{name}`: always answering it")
        }
        Scored::Tags(tags) => {
            if tags.rows.is_empty() || entities(tags).0 > 0 {
                return None;
            }
            "the gold tags hold no entity: tagging nothing".to_owned()
        }
        Scored::Answers(rows) => {
            if rows.iter().all(|row| !row.answerable) {
                "no question has an answer: never giving one".to_owned()
            } else if same_answer(rows) && rows.iter().all(|row| row.exact > 0.5) {
                "every question has the same answer: always giving it".to_owned()
            } else {
                return None;
            }
        }
        Scored::Similarities(_) | Scored::Cosines(_) => return None,
    };
    Some(format!("{always} is right everywhere, so nothing shows what a candidate could lose"))
}

/// Tags: a baseline that finds no entity has none to lose.
pub(super) fn tags(tags: &TaggedRows, allowed: bool) -> RuleVerdict {
    let (gold, right) = entities(tags);
    let reason = if right > 0 {
        format!("the baseline finds {right} of {gold} entities")
    } else {
        format!(
            "the baseline finds none of the {gold} entities, so there is nothing that a candidate could lose: are `task.labels` in the order of the logits?"
        )
    };
    plain(super::NAME, right > 0 || allowed, tags.rows.len(), reason)
}

/// Answers: a baseline that finds none, or always gives the same, has nothing to lose.
pub(super) fn answers(rows: &[AnswerRow], allowed: bool) -> RuleVerdict {
    let (with, without): (Vec<&AnswerRow>, Vec<&AnswerRow>) =
        rows.iter().partition(|row| row.answerable);
    let found = with.iter().filter(|row| row.f1 > 0.0).count();
    let worth = found > 0 || (without.iter().any(|row| row.f1 > 0.0) && with.len() < ENOUGH);
    let wrong = rows.iter().filter(|row| row.exact <= 0.5).count();
    let always = same_answer(rows) && wrong >= ENOUGH;
    let count = with.len();
    let reason = if !worth {
        format!(
            "the baseline finds no part of the answer to any of the {count} questions that have one, so there is nothing that a candidate could lose"
        )
    } else if always {
        format!(
            "the baseline gives the same answer to all {} questions, so there is nothing that a candidate could lose",
            rows.len()
        )
    } else {
        format!("the baseline finds the answer or a part of it to {found} of {count} questions")
    };
    plain(super::NAME, (worth && !always) || allowed, rows.len(), reason)
}

/// Similarities: rejected when the whole interval of the correlation is below [`NEXT_TO_NOTHING`]. Silent where there is no correlation to
/// measure, which the rules about its drop say themselves.
pub(super) fn similarities(
    baseline: &Scored,
    metric: Metric,
    allowed: bool,
) -> Result<Option<RuleVerdict>, EvaluateError> {
    if undefined(metric, baseline).is_some() {
        return Ok(None);
    }
    let statistic = statistic(metric, Part::Whole, baseline, baseline)?;
    let value = statistic.observed()[0];
    let [low, high] = bootstrap::value_interval(&*statistic, CONFIDENCE, DRAWS);
    let knows = high >= NEXT_TO_NOTHING;
    let numbers = format!("{metric} {value:.4}, {low:.4} to {high:.4}");
    let reason = if knows {
        let measurably = if low > 0.0 { "measurably" } else { "not measurably" };
        format!("the baseline's scores are {measurably} better than chance ({numbers})")
    } else if high < 0.0 {
        format!(
            "the baseline's scores run against the gold scores ({numbers}): does a larger gold score mean more alike?"
        )
    } else {
        format!(
            "the baseline's scores have next to nothing to do with the gold scores ({numbers}), so there is nothing that a candidate could lose"
        )
    };
    let mut verdict = plain(super::NAME, knows || allowed, baseline.len(), reason);
    verdict.metric = Some(metric);
    verdict.value = Some(value);
    verdict.limit = Some(NEXT_TO_NOTHING);
    verdict.interval = Some([low, high]);
    Ok(Some(verdict))
}

/// Entities in the gold tags, and those that the model finds.
fn entities(tags: &TaggedRows) -> (u64, u64) {
    let counts = tags.rows.iter().flat_map(|row| row_counts(tags, row).into_values());
    counts.fold((0, 0), |(gold, right), one| {
        (gold + u64::from(one.gold), right + u64::from(one.right))
    })
}

fn same_answer(rows: &[AnswerRow]) -> bool {
    let first = rows.first().and_then(|row| row.answer);
    first.is_some() && rows.iter().all(|row| row.answer == first)
}
