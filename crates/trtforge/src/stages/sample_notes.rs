//! What a person should know about the rows that calibrate: repeated, too few, cut, or also judging.

use std::collections::{BTreeSet, HashMap};

use trtforge_data::Encoded;

use crate::inputs::EncodedRows;
use crate::profile::Profile;
use crate::stages::sampling::{SampledRow, sampled};

/// Below this many rows another sample gives clearly other thresholds. Measured on the demo, `entropy`, five seeds: the
/// median tensor's threshold varies by 12.7 % with 8 rows, 6.2 % with 16, 5.0 % with 32, 4.2 % with 64 and 4.6 % with 256.
const FEWEST_ROWS: usize = 32;
/// Lines named as examples.
const EXAMPLES: usize = 3;

/// Warnings about the sample.
///
/// Rows are compared as the model sees them: by their tokens, after lower-casing and cutting.
///
/// - `evaluation`: the rows that judge, where they are at hand.
pub fn notes(
    profile: &Profile,
    rows: &EncodedRows,
    evaluation: Option<&EncodedRows>,
) -> Vec<String> {
    let sample = sampled(rows, profile);
    let mut notes = Vec::new();
    notes.extend(repeated(rows, &sample));
    notes.extend(evaluation.and_then(|evaluation| judging(rows, &sample, evaluation)));
    notes.extend(too_few(&sample));
    notes.extend(cut(profile, rows, &sample));
    notes
}

fn key(row: &Encoded) -> (&[u32], &[u32]) {
    (&row.ids, &row.type_ids)
}

fn repeated(rows: &EncodedRows, sample: &[SampledRow]) -> Option<String> {
    let mut first: HashMap<_, usize> = HashMap::new();
    let mut pairs = Vec::new();
    for sampled in sample {
        let line = rows.lines[sampled.row];
        let before = *first.entry(key(&rows.rows[sampled.row])).or_insert(line);
        // The windows of one long row are that row, not its copies.
        if before != line {
            pairs.push((before, line));
        }
    }
    let examples: Vec<String> = pairs
        .iter()
        .take(EXAMPLES)
        .map(|(before, line)| format!("line {line} is line {before}"))
        .collect();
    (!pairs.is_empty()).then(|| {
        format!(
            "{} of {} calibration rows are to the model the same as an earlier one ({}): they count twice and add nothing",
            pairs.len(),
            sample.len(),
            listed(&examples, pairs.len())
        )
    })
}

fn judging(rows: &EncodedRows, sample: &[SampledRow], evaluation: &EncodedRows) -> Option<String> {
    let mut judges: HashMap<_, usize> = HashMap::new();
    for (row, line) in evaluation.rows.iter().zip(&evaluation.lines) {
        judges.entry(key(row)).or_insert(*line);
    }
    let mut seen = BTreeSet::new();
    let mut examples = Vec::new();
    for sampled in sample {
        let line = rows.lines[sampled.row];
        if let Some(judge) = judges.get(&key(&rows.rows[sampled.row]))
            && seen.insert(line)
            && examples.len() < EXAMPLES
        {
            examples.push(format!("line {line} is line {judge} there"));
        }
    }
    (!seen.is_empty()).then(|| {
        format!(
            "{} of {} calibration rows are evaluation rows too ({}): the accuracy of INT8 will look better than it is",
            seen.len(),
            sample.len(),
            listed(&examples, seen.len())
        )
    })
}

fn too_few(sample: &[SampledRow]) -> Option<String> {
    (sample.len() < FEWEST_ROWS).then(|| {
        format!(
            "only {} rows calibrate: with fewer than {FEWEST_ROWS} the thresholds depend on which rows happen to be chosen; give more rows, or look at how another `data.calibration.seed` moves them",
            sample.len()
        )
    })
}

fn cut(profile: &Profile, rows: &EncodedRows, sample: &[SampledRow]) -> Option<String> {
    let lines: Vec<String> = sample
        .iter()
        .filter(|sampled| rows.rows[sampled.row].truncated)
        .map(|sampled| rows.lines[sampled.row].to_string())
        .collect();
    let examples: Vec<String> =
        lines.iter().take(EXAMPLES).map(|line| format!("line {line}")).collect();
    (!lines.is_empty()).then(|| {
        format!(
            "{} of {} calibration rows were cut to `max_length` {} ({}): the model calibrates on their beginnings alone",
            lines.len(),
            sample.len(),
            profile.max_length,
            listed(&examples, lines.len())
        )
    })
}

fn listed(examples: &[String], all: usize) -> String {
    let more = if all > examples.len() { ", …" } else { "" };
    format!("{}{more}", examples.join(", "))
}
