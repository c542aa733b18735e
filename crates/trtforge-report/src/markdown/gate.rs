//! The rules of the gate, and the parts of the rows it looked at.

use std::fmt::Write as _;

use super::{plain, row, rule as line};
use crate::{Part, RunRecord, words};

/// Parts listed; a data field may have many values.
const PARTS: usize = 60;
/// Classes of a confusion matrix that still read well.
const CLASSES: usize = 12;

pub fn sections(record: &RunRecord, text: &mut String) {
    metrics(record, text);
    rules(record, text);
    parts(record, text, "Classes", |verdict| &verdict.classes);
    parts(record, text, "Slices", |verdict| &verdict.slices);
    confusion(record, text);
    flips(record, text);
}

/// Changed answers listed; the page has more.
const FLIPS: usize = 10;

/// Rows by their line alone: a job page is no place for texts.
fn flips(record: &RunRecord, text: &mut String) {
    let mut rows = record.precisions.iter().filter(|(_, one)| !one.flipped.is_empty()).peekable();
    if rows.peek().is_none() {
        return;
    }
    let _ = writeln!(text, "\n## Answers that changed\n");
    row(text, &["precision", "line", "label", "FP32", "answer", "change"].map(str::to_owned));
    line(text, 6);
    for (precision, one) in rows {
        for found in one.flipped.iter().take(FLIPS) {
            let name = |text: &str| plain(&words::name(text));
            row(
                text,
                &[
                    precision.name().to_owned(),
                    found.line.to_string(),
                    name(&found.label),
                    name(&found.baseline),
                    name(&found.candidate),
                    found.change.words().to_owned(),
                ],
            );
        }
    }
}

/// The metrics beside the headline.
fn metrics(record: &RunRecord, text: &mut String) {
    let more = record.precisions.values().any(|one| one.metrics.len() > 1);
    if !more {
        return;
    }
    let _ = writeln!(text, "\n## Metrics\n");
    row(text, &["precision", "metric", "value", "interval"].map(str::to_owned));
    line(text, 4);
    for (precision, one) in &record.precisions {
        for found in &one.metrics {
            row(
                text,
                &[
                    precision.name().to_owned(),
                    plain(&words::name(&found.metric)),
                    words::figure(found.value),
                    words::interval(found.interval),
                ],
            );
        }
    }
}

fn rules(record: &RunRecord, text: &mut String) {
    if !words::judged(record).any(|(.., verdict)| !verdict.rules.is_empty()) {
        return;
    }
    let _ = writeln!(text, "\n## Gate\n");
    row(text, &["precision", "rule", "outcome", "why"].map(str::to_owned));
    line(text, 4);
    for (precision, _, verdict) in words::judged(record) {
        for rule in &verdict.rules {
            let tolerated = rule.passes && rule.outcome == crate::Outcome::Inconclusive;
            row(
                text,
                &[
                    precision.name().to_owned(),
                    plain(&words::name(&rule.title())),
                    format!(
                        "{}{}",
                        rule.outcome.word(),
                        if tolerated { " (tolerated)" } else { "" }
                    ),
                    plain(&words::sentence(&rule.reason)),
                ],
            );
        }
    }
}

fn parts(
    record: &RunRecord,
    text: &mut String,
    title: &str,
    of: impl Fn(&crate::Verdict) -> &Vec<Part>,
) {
    if !words::judged(record).any(|(.., verdict)| !of(verdict).is_empty()) {
        return;
    }
    let _ = writeln!(text, "\n## {title}\n");
    row(
        text,
        &["precision", "part", "measure", "rows", "baseline", "candidate", "drop"]
            .map(str::to_owned),
    );
    line(text, 7);
    for (precision, _, verdict) in words::judged(record) {
        for part in of(verdict).iter().take(PARTS) {
            row(
                text,
                &[
                    precision.name().to_owned(),
                    plain(&words::part(part)),
                    plain(&words::name(&part.measure)),
                    words::count(part.count),
                    words::figure(part.baseline),
                    words::figure(part.candidate),
                    words::figure(part.baseline - part.candidate),
                ],
            );
        }
        if of(verdict).len() > PARTS {
            let more = of(verdict).len() - PARTS;
            let _ = writeln!(text, "\n{more} more are in the HTML report.");
        }
    }
}

fn confusion(record: &RunRecord, text: &mut String) {
    for (precision, one) in &record.precisions {
        let Some(found) = one.confusion.as_ref().filter(|found| found.classes.len() <= CLASSES)
        else {
            continue;
        };
        let _ = writeln!(text, "\n## Confusion of {}\n", precision.name());
        let names: Vec<String> =
            found.classes.iter().map(|name| plain(&words::name(name))).collect();
        let head = ["label \\\\ answer".to_owned()].into_iter().chain(names.iter().cloned());
        row(text, &head.collect::<Vec<_>>());
        line(text, names.len() + 1);
        for (name, counts) in names.iter().zip(&found.counts) {
            let cells = counts.iter().map(|count| words::count(*count));
            row(text, &[name.clone()].into_iter().chain(cells).collect::<Vec<_>>());
        }
    }
}
