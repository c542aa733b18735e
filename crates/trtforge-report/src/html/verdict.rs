//! The head of the page: what came out, in words.

use maud::{Markup, html};

use super::typeset;
use crate::{Outcome, RunOutcome, RunRecord, words};

pub fn header(record: &RunRecord) -> Markup {
    let rejected = words::judged(record).any(|(.., verdict)| verdict.outcome == Outcome::Rejected);
    let class = match record.outcome() {
        RunOutcome::Accepted => "good",
        RunOutcome::Refused if rejected => "bad",
        RunOutcome::Refused => "unsure",
        RunOutcome::NotJudged => "unjudged",
    };
    html! {
        header.verdict.(class) {
            p.eyebrow { "trtforge run " b { (words::run_name(record)) } }
            h1 { (words::headline(record)) }
            @if words::judged(record).next().is_some() {
                ul.findings {
                    @for (precision, one, verdict) in words::judged(record) {
                        li {
                            p { (badge(verdict.outcome)) " " b { (precision.name()) } ". " (typeset(&words::finding(record, one, verdict))) }
                            @if let Some(rows) = words::rows_needed_sentence(verdict) { p.reason { (rows) } }
                        }
                    }
                }
            }
            @if let Some(hurts) = words::hurts(record) { p.hurts { (typeset(&hurts)) } }
            @if let Some(note) = words::place_note(record) { p.place { (note) } }
        }
        @if !record.warnings.is_empty() {
            section.warnings aria-labelledby="warnings-title" {
                h2 id="warnings-title" { (words::counted(record.warnings.len() as u64, "warning")) }
                ul { @for warning in &record.warnings { li { (words::sentence(warning)) } } }
            }
        }
    }
}

/// The outcome as a word that also has a colour and a mark.
pub fn badge(outcome: Outcome) -> Markup {
    let (class, mark) = match outcome {
        Outcome::Accepted => ("good", "✓"),
        Outcome::Rejected => ("bad", "✗"),
        Outcome::Inconclusive => ("unsure", "?"),
    };
    html! { span.badge.(class) { span aria-hidden="true" { (mark) " " } (outcome.word()) } }
}
