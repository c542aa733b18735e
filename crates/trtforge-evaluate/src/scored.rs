//! The scored rows of one model, in the order of the data: what every metric is computed from.

use serde::{Deserialize, Serialize};

use crate::error::EvaluateError;
use crate::metric::Metric;
use crate::number;
use crate::outcome::Outcome;

/// One entry a row, in the order of the data, whatever the task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scored {
    /// One class a row (text classification).
    Classes(Vec<Outcome>),
    /// One tag a token (token classification).
    Tags(TaggedRows),
    /// One answer a row (question answering).
    Answers(Vec<AnswerRow>),
    /// One score a pair (sentence similarity).
    Similarities(Vec<SimilarityRow>),
    /// Cosine of the row's vector to the baseline's vector of the same row (embedding); the baseline itself has 1 everywhere. NaN where a
    /// vector is not finite or has no length.
    Cosines(#[serde(with = "number::many")] Vec<f64>),
}

/// Tagged rows and what their tags are called.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaggedRows {
    /// Names of the tags by index, such as `O`, `B-PER`, `I-PER`.
    pub labels: Vec<String>,
    /// How tags become entities.
    #[serde(default)]
    pub scheme: TagScheme,
    /// One entry a row.
    pub rows: Vec<TagRow>,
}

/// One tagged row: the positions that count, which are neither padding nor special nor continued pieces of a word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagRow {
    /// The right tag of each position, an index into the labels.
    pub gold: Vec<usize>,
    /// The predicted tags, as many; `None` when a logit of the row is NaN or infinite.
    pub predicted: Option<Vec<usize>>,
}

/// How a sequence of tags is read as entities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TagScheme {
    /// Any of BIO, IOB1, IOBES and BILOU, read as `conlleval` and `seqeval`'s default mode do: a tag that cannot continue what is before
    /// it begins a new entity.
    #[default]
    Lenient,
    /// IOB2 read strictly, as `seqeval` with `mode="strict", scheme=IOB2`: only `B-` begins an entity; an `I-` without one is no entity.
    StrictIob2,
}

/// One answered question. The answer itself is not kept: it is text.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AnswerRow {
    /// 1 when the answer is exactly an accepted one after normalisation, else 0.
    pub exact: f64,
    /// Best overlap of words with an accepted answer, 0 to 1.
    pub f1: f64,
    /// Whether the question has an answer at all (SQuAD 2 has questions without).
    pub answerable: bool,
    /// A digest of the normalised answer, equal for equal answers; `None` when a logit is not finite: such a row has no answer and scores 0.
    pub answer: Option<u32>,
}

/// One pair of sentences.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SimilarityRow {
    /// What people say, on any scale.
    pub gold: f64,
    /// What the model says, on any scale; NaN or infinite when it says nothing.
    #[serde(with = "number::one")]
    pub score: f64,
}

impl Scored {
    /// Rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Classes(rows) => rows.len(),
            Self::Tags(tags) => tags.rows.len(),
            Self::Answers(rows) => rows.len(),
            Self::Similarities(rows) => rows.len(),
            Self::Cosines(rows) => rows.len(),
        }
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the rows are, in a word for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Classes(_) => "classes",
            Self::Tags(_) => "tags",
            Self::Answers(_) => "answers",
            Self::Similarities(_) => "similarities",
            Self::Cosines(_) => "embeddings",
        }
    }

    /// The metrics that these rows have, the usual one first.
    pub fn metrics(&self) -> &'static [Metric] {
        match self {
            Self::Classes(_) => &[Metric::Accuracy, Metric::MacroF1, Metric::MicroF1, Metric::Mcc],
            Self::Tags(_) => {
                &[Metric::EntityF1, Metric::MacroF1, Metric::MicroF1, Metric::Accuracy]
            }
            Self::Answers(_) => &[Metric::ExactMatch, Metric::AnswerF1],
            Self::Similarities(_) => &[Metric::Spearman, Metric::Pearson],
            Self::Cosines(_) => &[Metric::Cosine],
        }
    }

    /// Whether the model gave a finite answer, row by row.
    pub fn finite(&self) -> Vec<bool> {
        match self {
            Self::Classes(rows) => rows.iter().map(|row| row.class.is_some()).collect(),
            Self::Tags(tags) => tags.rows.iter().map(|row| row.predicted.is_some()).collect(),
            Self::Answers(rows) => rows.iter().map(|row| row.answer.is_some()).collect(),
            Self::Similarities(rows) => rows.iter().map(|row| row.score.is_finite()).collect(),
            Self::Cosines(rows) => rows.iter().map(|cosine| cosine.is_finite()).collect(),
        }
    }

    /// Rows without a finite answer.
    pub fn not_finite(&self) -> usize {
        self.finite().iter().filter(|finite| !**finite).count()
    }

    /// Which rows are right as a whole: the class, every tag, the exact answer. `None` where a row is a number.
    pub fn right_rows(&self) -> Option<Vec<bool>> {
        match self {
            Self::Classes(rows) => Some(rows.iter().map(|row| row.is_right()).collect()),
            Self::Tags(tags) => {
                let right = |row: &TagRow| row.predicted.as_ref() == Some(&row.gold);
                Some(tags.rows.iter().map(right).collect())
            }
            Self::Answers(rows) => Some(rows.iter().map(|row| row.exact > 0.5).collect()),
            Self::Similarities(_) | Self::Cosines(_) => None,
        }
    }

    /// Which rows have another answer in `other`.
    pub(crate) fn changed_rows(&self, other: &Self) -> Option<Vec<bool>> {
        fn changed<T>(before: &[T], after: &[T], same: impl Fn(&T, &T) -> bool) -> Vec<bool> {
            before.iter().zip(after).map(|(before, after)| !same(before, after)).collect()
        }
        match (self, other) {
            (Self::Classes(a), Self::Classes(b)) => Some(changed(a, b, |a, b| a.class == b.class)),
            (Self::Tags(a), Self::Tags(b)) => {
                Some(changed(&a.rows, &b.rows, |a, b| a.predicted == b.predicted))
            }
            (Self::Answers(a), Self::Answers(b)) => {
                Some(changed(a, b, |a, b| a.answer == b.answer))
            }
            _ => None,
        }
    }

    /// Only the rows of which `keep` says true.
    #[must_use]
    pub fn filtered(&self, keep: &[bool]) -> Self {
        fn kept<T: Clone>(rows: &[T], keep: &[bool]) -> Vec<T> {
            rows.iter().zip(keep).filter(|(_, keep)| **keep).map(|(row, _)| row.clone()).collect()
        }
        match self {
            Self::Classes(rows) => Self::Classes(kept(rows, keep)),
            Self::Tags(tags) => {
                let rows = kept(&tags.rows, keep);
                Self::Tags(TaggedRows { labels: tags.labels.clone(), scheme: tags.scheme, rows })
            }
            Self::Answers(rows) => Self::Answers(kept(rows, keep)),
            Self::Similarities(rows) => Self::Similarities(kept(rows, keep)),
            Self::Cosines(rows) => Self::Cosines(kept(rows, keep)),
        }
    }

    /// Proves that both models were scored on the same rows against the same gold.
    pub fn same_rows(&self, candidate: &Self) -> Result<(), EvaluateError> {
        let other = |row, baseline: String, candidate: String| {
            Err(EvaluateError::OtherRows { row, baseline, candidate })
        };
        if self.kind() != candidate.kind() {
            let (baseline, candidate) = (self.kind(), candidate.kind());
            return Err(EvaluateError::OtherKind { baseline, candidate });
        }
        if self.len() != candidate.len() {
            let (left, right) = (self.len(), candidate.len());
            let (left_what, right_what) = ("the baseline", "the candidate");
            return Err(EvaluateError::RowCount { left_what, left, right_what, right });
        }
        if self.is_empty() {
            return Err(EvaluateError::NoRows);
        }
        for row in 0..self.len() {
            let (before, after) = (self.gold(row), candidate.gold(row));
            if before != after {
                return other(row, before, after);
            }
        }
        Ok(())
    }

    /// What is right for a row, as far as it is kept.
    fn gold(&self, row: usize) -> String {
        match self {
            Self::Classes(rows) => rows[row].label.to_string(),
            Self::Tags(tags) => {
                let name = |&tag: &usize| tags.labels.get(tag).map_or("?", String::as_str);
                tags.rows[row].gold.iter().map(name).collect::<Vec<_>>().join(" ")
            }
            Self::Answers(rows) => {
                (if rows[row].answerable { "an answer" } else { "no answer" }).to_owned()
            }
            Self::Similarities(rows) => rows[row].gold.to_string(),
            Self::Cosines(_) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_survive_json_with_their_nan() {
        let pair = |score| SimilarityRow { gold: 2.5, score };
        let all = [
            Scored::Classes(vec![
                Outcome { label: 1, class: None },
                Outcome { label: 0, class: Some(2) },
            ]),
            Scored::Tags(TaggedRows {
                labels: vec!["O".into(), "B-X".into()],
                scheme: TagScheme::StrictIob2,
                rows: vec![TagRow { gold: vec![0, 1], predicted: Some(vec![1, 0]) }],
            }),
            Scored::Answers(vec![AnswerRow {
                exact: 1.0,
                f1: 1.0,
                answerable: true,
                answer: Some(7),
            }]),
            Scored::Similarities(vec![pair(0.25), pair(-1.0)]),
            Scored::Cosines(vec![1.0, 0.5]),
        ];
        for scored in all {
            let json = serde_json::to_string(&scored).unwrap();
            assert_eq!(serde_json::from_str::<Scored>(&json).unwrap(), scored, "{json}");
        }
        let lost = Scored::Cosines(vec![f64::NAN, f64::INFINITY, 1.0]);
        let json = serde_json::to_string(&lost).unwrap();
        let back: Scored = serde_json::from_str(&json).unwrap();
        assert_eq!((back.not_finite(), back.len()), (2, 3), "{json}");
    }

    #[test]
    fn other_rows_are_named() {
        let rows = |labels: &[usize]| {
            let outcome = |&label: &usize| Outcome { label, class: Some(label) };
            Scored::Classes(labels.iter().map(outcome).collect())
        };
        assert_eq!(rows(&[0, 1]).same_rows(&rows(&[0, 1])), Ok(()));
        assert_eq!(rows(&[]).same_rows(&rows(&[])), Err(EvaluateError::NoRows));
        let error = rows(&[0, 1]).same_rows(&rows(&[0, 2])).unwrap_err().to_string();
        assert!(error.starts_with("row 1 "), "{error}");
        assert!(matches!(
            rows(&[0]).same_rows(&Scored::Cosines(vec![1.0])),
            Err(EvaluateError::OtherKind { baseline: "classes", candidate: "embeddings" })
        ));
    }

    #[test]
    fn rows_are_kept_by_mask() {
        let cosines = Scored::Cosines(vec![0.1, 0.2, 0.3]);
        assert_eq!(cosines.filtered(&[true, false, true]), Scored::Cosines(vec![0.1, 0.3]));
    }
}
