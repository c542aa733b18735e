//! From the outputs of a model to scored rows, task by task.

use serde_json::{Value, json};
use trtforge_evaluate::{
    AnswerRow, Outcome, Prediction, Scored, SimilarityRow, TagRow, TaggedRows, outcomes,
    score_answer,
};

use crate::answers::answer;
use crate::error::PipelineError;
use crate::profile::{AnswerRules, Task, TextEncoders};
use crate::rows::{EvaluationRows, Gold, Question};

/// Scores the predictions of one model.
///
/// - `predictions`: of every row, in order;
/// - `baseline`: the FP32 model's, which an embedding is compared with.
pub fn score(
    rows: &EvaluationRows,
    predictions: &[Prediction],
    baseline: &[Prediction],
) -> Result<Scored, PipelineError> {
    Ok(match (&rows.task, &rows.gold) {
        (Task::TokenClassification { labels, scheme }, Gold::Tags(gold)) => {
            let row = |(gold, prediction): (&Vec<(usize, usize)>, &Prediction)| TagRow {
                gold: gold.iter().map(|&(_, tag)| tag).collect(),
                predicted: tags(gold, prediction, labels.len()),
            };
            let rows = gold.iter().zip(predictions).map(row).collect();
            Scored::Tags(TaggedRows { labels: labels.clone(), scheme: *scheme, rows })
        }
        (Task::QuestionAnswering(rules), Gold::Answers(gold)) => {
            let rows = gold.iter().zip(predictions);
            Scored::Answers(rows.map(|(gold, found)| answered(gold, found, rules)).collect())
        }
        (Task::SentenceSimilarity(encoders), Gold::Scores(gold)) => {
            let rows = gold.iter().zip(predictions);
            let row = |(&gold, found): (&f64, &Prediction)| SimilarityRow {
                gold,
                score: similarity(*encoders, found),
            };
            Scored::Similarities(rows.map(row).collect())
        }
        (Task::TextClassification { .. }, Gold::Classes(gold)) => {
            Scored::Classes(outcomes(gold, predictions)?)
        }
        _ => {
            let rows = baseline.iter().zip(predictions);
            Scored::Cosines(rows.map(|(a, b)| cosine(&a.logits, &b.logits)).collect())
        }
    })
}

/// The rows as a model scores them that is always right; `None` where nothing is right by itself.
pub fn right(rows: &EvaluationRows) -> Option<Scored> {
    Some(match (&rows.task, &rows.gold) {
        (Task::TokenClassification { labels, scheme }, Gold::Tags(gold)) => {
            let tags = |words: &Vec<(usize, usize)>| -> Vec<usize> {
                words.iter().map(|&(_, tag)| tag).collect()
            };
            let row = |words| TagRow { gold: tags(words), predicted: Some(tags(words)) };
            let rows = gold.iter().map(row).collect();
            Scored::Tags(TaggedRows { labels: labels.clone(), scheme: *scheme, rows })
        }
        (_, Gold::Answers(gold)) => {
            let answer = |question: &Question| {
                let first = question.answers.first().map_or("", String::as_str);
                score_answer(first, &question.answers)
            };
            Scored::Answers(gold.iter().map(answer).collect())
        }
        (_, Gold::Scores(gold)) => {
            let row = |&gold: &f64| SimilarityRow { gold, score: gold };
            Scored::Similarities(gold.iter().map(row).collect())
        }
        (_, Gold::Classes(gold)) => {
            let row = |&label: &usize| Outcome { label, class: Some(label) };
            Scored::Classes(gold.iter().map(row).collect())
        }
        _ => return None,
    })
}

/// What a model says of one row, for a file of predictions.
pub fn told(rows: &EvaluationRows, row: usize, prediction: &Prediction) -> Value {
    match (&rows.task, &rows.gold) {
        (Task::TokenClassification { labels, .. }, Gold::Tags(gold)) => {
            let name = |tag: usize| labels.get(tag).map(String::as_str);
            let tags = tags(&gold[row], prediction, labels.len());
            json!({ "tags": tags.map(|tags| tags.into_iter().map(name).collect::<Vec<_>>()) })
        }
        (Task::QuestionAnswering(rules), Gold::Answers(gold)) => {
            json!({ "answer": answer(&gold[row], &prediction.logits, rules) })
        }
        (Task::SentenceSimilarity(encoders), _) => {
            json!({ "score": similarity(*encoders, prediction) })
        }
        (Task::TextClassification { .. }, _) => json!({ "class": prediction.class() }),
        _ => json!({}),
    }
}

/// The largest logit's tag at every judged position.
fn tags(gold: &[(usize, usize)], prediction: &Prediction, labels: usize) -> Option<Vec<usize>> {
    if prediction.logits.iter().any(|logit| !logit.is_finite()) {
        return None;
    }
    let tag = |&(position, _): &(usize, usize)| {
        let logits = prediction.logits.get(position * labels..(position + 1) * labels)?;
        Prediction { logits: logits.to_vec() }.class()
    };
    gold.iter().map(tag).collect()
}

fn answered(question: &Question, prediction: &Prediction, rules: &AnswerRules) -> AnswerRow {
    match answer(question, &prediction.logits, rules) {
        Some(answer) => score_answer(answer, &question.answers),
        None => AnswerRow::not_finite(!question.answers.is_empty()),
    }
}

fn similarity(encoders: TextEncoders, prediction: &Prediction) -> f64 {
    match encoders {
        TextEncoders::Cross => prediction.logits.first().map_or(f64::NAN, |&logit| logit.into()),
        TextEncoders::Bi(_) => {
            let (first, second) = prediction.logits.split_at(prediction.logits.len() / 2);
            cosine(first, second)
        }
    }
}

/// Cosine of two vectors; NaN where one has no length or is not finite.
fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
    };
    let lengths = dot(a, a).sqrt() * dot(b, b).sqrt();
    if lengths > 0.0 && lengths.is_finite() && a.len() == b.len() {
        // Rounding may push the cosine of a vector with itself beyond 1.
        (dot(a, b) / lengths).clamp(-1.0, 1.0)
    } else {
        f64::NAN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cosines_by_hand() {
        assert_eq!(cosine(&[3.0, 4.0], &[3.0, 4.0]), 1.0);
        assert_eq!(cosine(&[3.0, 4.0], &[-3.0, -4.0]), -1.0);
        // (1·1 + 2·0) / (√5 · 1).
        assert!((cosine(&[1.0, 2.0], &[1.0, 0.0]) - 1.0 / 5f64.sqrt()).abs() < 1e-15);
        assert!(cosine(&[0.0, 0.0], &[1.0, 0.0]).is_nan());
        assert!(cosine(&[f32::NAN, 0.0], &[1.0, 0.0]).is_nan());
        assert!(cosine(&[f32::INFINITY, 0.0], &[1.0, 0.0]).is_nan());
        let two = Prediction { logits: vec![3.0, 4.0, 3.0, 4.0] };
        let vectors =
            crate::profile::Vectors { pooling: crate::profile::Pooling::None, normalize: false };
        assert_eq!(similarity(TextEncoders::Bi(vectors), &two), 1.0);
        assert_eq!(similarity(TextEncoders::Cross, &two), 3.0);
    }

    #[test]
    fn tags_are_read_at_the_first_token_of_each_word() {
        // Three tokens of two labels; words stand at 0 and 2.
        let prediction = Prediction { logits: vec![0.0, 1.0, 9.0, 0.0, 2.0, 2.0] };
        assert_eq!(tags(&[(0, 1), (2, 1)], &prediction, 2), Some(vec![1, 0]));
        assert_eq!(tags(&[], &prediction, 2), Some(vec![]));
        let broken = Prediction { logits: vec![0.0, 1.0, f32::NAN, 0.0, 2.0, 2.0] };
        assert_eq!(tags(&[(0, 1)], &broken, 2), None, "any of the row's logits");
    }
}
