//! Rows of a data file as requests of a service: tokenized one by one, when their turn comes.

use trtforge_data::{
    Dataset, Encoded, Fields, QuestionFields, QuestionRows, TextEncoder, WordFields, WordRows,
};

use crate::error::PipelineError;
use crate::profile::{EvaluationData, RowFields, Task, TextEncoders};
use crate::rows::unfit;

/// What one run of the model is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// A text or two, together.
    Text(String, Option<String>),
    /// Words.
    Words(Vec<String>),
    /// One window of a context. A service tokenizes a context once for all its windows, so a long one is measured as more host work than it is.
    Window {
        /// The question.
        question: String,
        /// The context, whole.
        context: String,
        /// Tokens that windows share.
        stride: usize,
        /// Which window.
        index: usize,
    },
}

impl Request {
    /// The first requests of a data file, at most `most`; what is right is not asked for.
    pub fn of_file(
        task: &Task,
        data: &EvaluationData,
        encoder: &TextEncoder,
        most: usize,
    ) -> Result<Vec<Self>, PipelineError> {
        let mut requests = match (task, &data.fields) {
            (Task::TokenClassification { labels, .. }, RowFields::Words(fields)) => {
                let fields = WordFields { tags: None, ..fields.clone() };
                let rows = WordRows::load(&data.path, &fields, labels)?.rows;
                rows.into_iter().map(|row| Self::Words(row.words)).collect()
            }
            (Task::QuestionAnswering(rules), RowFields::Questions(fields)) => {
                let fields = QuestionFields { answers: None, ..fields.clone() };
                let rows = QuestionRows::load(&data.path, &fields, true)?.rows;
                let mut requests = Vec::new();
                for row in rows.into_iter().take(most) {
                    let texts = [(row.question.as_str(), row.context.as_str())];
                    let windows = encoder.encode_windows(&texts, rules.stride)?;
                    let windows = windows.map_err(|u| {
                        unfit(&data.path, row.line, &u, encoder.max_length(), rules.stride)
                    })?;
                    let count = windows[0].len();
                    requests.extend((0..count).map(|index| Self::Window {
                        question: row.question.clone(),
                        context: row.context.clone(),
                        stride: rules.stride,
                        index,
                    }));
                }
                requests
            }
            (_, RowFields::Texts(fields)) => {
                let fields = Fields { label: None, score: None, ..fields.clone() };
                let rows = Dataset::load(&data.path, &fields, None, false)?.rows;
                let apart = matches!(task, Task::SentenceSimilarity(TextEncoders::Bi(_)));
                let mut requests = Vec::new();
                for row in rows.into_iter().take(most) {
                    let (alone, other) =
                        if apart { (row.text_pair, None) } else { (None, row.text_pair) };
                    requests.push(Self::Text(row.text, other));
                    requests.extend(alone.map(|text| Self::Text(text, None)));
                }
                requests
            }
            (task, _) => unreachable!("the profile reads {} with other fields", task.kind()),
        };
        requests.truncate(most);
        Ok(requests)
    }

    /// The tokens.
    pub fn encode(&self, encoder: &TextEncoder) -> Result<Encoded, PipelineError> {
        Ok(match self {
            Self::Text(text, pair) => encoder.encode(text, pair.as_deref())?,
            Self::Words(words) => encoder.encode_words(&[words])?.remove(0).encoded,
            Self::Window { question, context, stride, index } => {
                let windows = encoder.encode_windows(&[(question, context)], *stride)?;
                let mut windows = windows.expect("it was cut into windows before");
                windows.swap_remove(0).swap_remove(*index).encoded
            }
        })
    }
}
