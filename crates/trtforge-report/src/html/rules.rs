//! What the gate looked at: its rules, further metrics, classes, slices and the confusion of classes.

use maud::{Markup, html};

use super::typeset;
use super::verdict::badge;
use crate::{Confusion, Outcome, Part, Precision, RunRecord, Verdict, words};

/// Classes of a confusion matrix that a page can show.
const CLASSES: usize = 30;

pub fn section(record: &RunRecord) -> Option<Markup> {
    let ruled = words::judged(record).any(|(.., verdict)| !verdict.rules.is_empty());
    let measured = record.precisions.values().any(|one| one.metrics.len() > 1);
    (ruled || measured).then(|| {
        html! {
            @if ruled { (rules(record)) }
            @if measured { (metrics(record)) }
            @for (title, of) in PARTS { (parts(record, title, of)) }
            @for (&precision, one) in &record.precisions {
                @if let Some(found) = &one.confusion { (confusion(precision, found)) }
            }
        }
    })
}

type Of = fn(&Verdict) -> &Vec<Part>;

const PARTS: [(&str, Of); 2] = [
    ("Each class by itself, on the same rows", |verdict| &verdict.classes),
    ("Each slice of the data by itself, on the same rows", |verdict| &verdict.slices),
];

fn rules(record: &RunRecord) -> Markup {
    html! {
        table.stack {
            caption { "Every rule of the gate; a verdict is the worst of its rules" }
            thead { tr {
                th scope="col" { "Precision" }
                th scope="col" { "Rule" }
                th scope="col" { "Outcome" }
                th scope="col" { "Why" }
            } }
            tbody {
                @for (precision, _, verdict) in words::judged(record) {
                    @for rule in &verdict.rules { tr {
                        th scope="row" { (precision.name()) }
                        td data-label="Rule" { (words::name(&rule.title())) }
                        td data-label="Outcome" {
                            (badge(rule.outcome))
                            @if rule.passes && rule.outcome == Outcome::Inconclusive { br; small { "tolerated" } }
                        }
                        td data-label="Why" { (typeset(&words::sentence(&rule.reason))) }
                    } }
                    @if let Some(test) = verdict.mcnemar { tr {
                        th scope="row" { (precision.name()) }
                        td data-label="Rule" { "McNemar’s exact test" }
                        td data-label="Outcome" { small { "for information" } }
                        td data-label="Why" {
                            "So uneven a split of the rows that only one model gets right has probability "
                            (words::figure(test.p_two_sided)) " if neither is better; so many rows lost, "
                            (words::figure(test.p_worse)) "."
                        }
                    } }
                }
            }
        }
    }
}

fn metrics(record: &RunRecord) -> Markup {
    html! {
        table.stack {
            caption { "Every metric of these rows" }
            thead { tr {
                th scope="col" { "Precision" }
                th scope="col" { "Metric" }
                th.n scope="col" { "Value" }
                th scope="col" { "Interval" }
            } }
            tbody { @for (precision, one) in &record.precisions { @for found in &one.metrics { tr {
                th scope="row" { (precision.name()) }
                td data-label="Metric" { (words::name(&found.metric)) }
                td.n.lead data-label="Value" { (typeset(&words::figure(found.value))) }
                td data-label="Interval" { (typeset(&words::interval(found.interval))) " " small { (words::confidence(found.confidence)) } }
            } } } }
        }
    }
}

fn parts(record: &RunRecord, title: &str, of: Of) -> Markup {
    if !words::judged(record).any(|(.., verdict)| !of(verdict).is_empty()) {
        return html! {};
    }
    html! {
        table.stack {
            caption { (title) }
            thead { tr {
                th scope="col" { "Precision" }
                th scope="col" { "Part" }
                th scope="col" { "Measure" }
                th.n scope="col" { "Rows" }
                th.n scope="col" { "Baseline" }
                th.n scope="col" { "Candidate" }
                th.n scope="col" { "Drop" }
            } }
            tbody { @for (precision, _, verdict) in words::judged(record) { @for part in of(verdict) { tr {
                th scope="row" { (precision.name()) }
                td data-label="Part" { (words::part(part)) }
                td data-label="Measure" { (words::name(&part.measure)) }
                td.n data-label="Rows" { (words::count(part.count)) }
                td.n data-label="Baseline" { (typeset(&words::figure(part.baseline))) }
                td.n data-label="Candidate" { (typeset(&words::figure(part.candidate))) }
                td.n.lead data-label="Drop" { (typeset(&words::figure(part.baseline - part.candidate))) }
            } } } }
        }
    }
}

fn confusion(precision: Precision, found: &Confusion) -> Markup {
    if found.classes.len() > CLASSES {
        return html! {};
    }
    html! {
        table.stack {
            caption { "Confusion of " (precision.name()) ": rows by label (down) and answer (across)" }
            thead { tr {
                th scope="col" { "Label" }
                @for name in &found.classes { th.n scope="col" { (words::name(name)) } }
            } }
            tbody { @for (label, (name, counts)) in found.classes.iter().zip(&found.counts).enumerate() { tr {
                th scope="row" { (words::name(name)) }
                @for (answer, (count, to)) in counts.iter().zip(&found.classes).enumerate() {
                    td.n.lead[label == answer] data-label=(words::name(to)) { (words::count(*count)) }
                }
            } } }
        }
    }
}
