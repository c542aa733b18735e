//! The texts of evaluation rows by their line, for a page whose reader asked for them.

use std::collections::BTreeMap;

use trtforge_data::{Dataset, QuestionRows, WordRows};
use trtforge_report::RunRecord;

use crate::error::PipelineError;
use crate::profile::{Profile, RowFields, Task, TextEncoders};
use crate::rows::derived;
use crate::run_folder::RunFolder;

/// Puts the texts into the flipped rows of a record, in memory only; how many got one.
///
/// - `profile`: that of the run, by whose evaluation data it was judged.
pub fn show_texts(run: &mut RunFolder, profile: &Profile) -> Result<usize, PipelineError> {
    let (fingerprint, texts) = read(profile)?;
    let (recorded, path) = (run.record.inputs.evaluation.as_ref(), &profile.evaluation.path);
    run.check_input("evaluation data", recorded, path, &fingerprint)?;
    Ok(fill(&mut run.record, &texts))
}

fn fill(record: &mut RunRecord, texts: &BTreeMap<u64, String>) -> usize {
    let mut filled = 0;
    for row in record.precisions.values_mut().flat_map(|one| &mut one.flipped) {
        row.text = texts.get(&row.line).cloned();
        filled += usize::from(row.text.is_some());
    }
    filled
}

/// The fingerprint that a build records of these rows, and each row's text by its line.
fn read(profile: &Profile) -> Result<(String, BTreeMap<u64, String>), PipelineError> {
    let (data, path) = (&profile.evaluation, &profile.evaluation.path);
    let row = |line: usize, text: String| (line as u64, text);
    Ok(match (&profile.task, &data.fields) {
        (Task::TokenClassification { labels, .. }, RowFields::Words(fields)) => {
            let found = WordRows::load(path, fields, labels)?;
            let rows = found.rows.into_iter().map(|one| row(one.line, one.words.join(" ")));
            (found.fingerprint, rows.collect())
        }
        (Task::QuestionAnswering(rules), RowFields::Questions(fields)) => {
            let found = QuestionRows::load(path, fields, rules.no_answer)?;
            let fingerprint = derived(&found.fingerprint, &format!("stride {}", rules.stride));
            let text =
                |one: &trtforge_data::QuestionRow| format!("{} | {}", one.question, one.context);
            (fingerprint, found.rows.iter().map(|one| row(one.line, text(one))).collect())
        }
        (task, RowFields::Texts(fields)) => {
            let labels = match task {
                Task::TextClassification { labels } => Some(labels.as_slice()),
                _ => None,
            };
            let found = Dataset::load(path, fields, labels, labels.is_some())?;
            let apart = matches!(task, Task::SentenceSimilarity(TextEncoders::Bi(_)));
            let fingerprint =
                if apart { derived(&found.fingerprint, "apart") } else { found.fingerprint };
            let text = |text: String, pair: Option<String>| match pair {
                Some(pair) => format!("{text} | {pair}"),
                None => text,
            };
            let rows =
                found.rows.into_iter().map(|one| row(one.line, text(one.text, one.text_pair)));
            (fingerprint, rows.collect())
        }
        (task, _) => unreachable!("the profile reads {} with other fields", task.kind()),
    })
}
