//! What a person should know about the rows that calibrate: repeated, too few, cut, or also judging.

use std::collections::HashMap;

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
    let mut pairs = Pairs::default();
    for &SampledRow { row, .. } in sample {
        let before = *first.entry(key(&rows.rows[row])).or_insert(row);
        // The windows of one long row are that row, not its copies.
        if rows.owners[before] != rows.owners[row] {
            pairs.add((rows.lines[row], rows.lines[before]));
        }
    }
    (pairs.count > 0).then(|| {
        format!(
            "{} of {} calibration rows are to the model the same as an earlier one ({}): they count twice and add nothing",
            pairs.count,
            sample.len(),
            pairs.listed("")
        )
    })
}

fn judging(rows: &EncodedRows, sample: &[SampledRow], evaluation: &EncodedRows) -> Option<String> {
    let mut judges: HashMap<_, usize> = HashMap::new();
    for (row, line) in evaluation.rows.iter().zip(&evaluation.lines) {
        judges.entry(key(row)).or_insert(*line);
    }
    let mut pairs = Pairs::default();
    for &SampledRow { row, .. } in sample {
        if let Some(&judge) = judges.get(&key(&rows.rows[row])) {
            pairs.add((rows.lines[row], judge));
        }
    }
    (pairs.count > 0).then(|| {
        format!(
            "{} of {} calibration rows are evaluation rows too ({}): the accuracy of INT8 will look better than it is",
            pairs.count,
            sample.len(),
            pairs.listed(" there")
        )
    })
}

/// Rows that are alike, counted each, with lines as examples: a file in one line, or a row of several windows, has the same pair of lines
/// for many of them.
#[derive(Default)]
struct Pairs {
    count: usize,
    examples: Vec<(usize, usize)>,
}

impl Pairs {
    fn add(&mut self, lines: (usize, usize)) {
        self.count += 1;
        if self.examples.len() <= EXAMPLES && !self.examples.contains(&lines) {
            self.examples.push(lines);
        }
    }

    fn listed(&self, place: &str) -> String {
        let example =
            |(line, other): &(usize, usize)| format!("line {line} is line {other}{place}");
        let examples: Vec<String> = self.examples.iter().take(EXAMPLES).map(example).collect();
        listed(&examples, self.examples.len())
    }
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
