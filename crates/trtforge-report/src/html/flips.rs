//! The rows whose answer changed. Their texts only where they were asked for: data may be private.

use maud::{Markup, html};

use super::typeset;
use crate::{FlippedRow, Precision, PrecisionRecord, RunRecord, words};

/// Rows of one precision that are shown unfolded.
const UNFOLDED: usize = 12;

pub fn section(record: &RunRecord) -> Option<Markup> {
    let mut found = record.precisions.iter().filter(|(_, one)| !one.flipped.is_empty()).peekable();
    found.peek()?;
    let texts =
        record.precisions.values().flat_map(|one| &one.flipped).any(|row| row.text.is_some());
    Some(html! {
        p {
            @if texts { "With their texts: this page is as private as the data." }
            @else {
                "Texts are left out, since data may be private; "
                code { "trtforge report RUN --show-text PROFILE" } " puts them in."
            }
        }
        @for (&precision, one) in found { (rows(precision, one, texts)) }
    })
}

fn rows(precision: Precision, one: &PrecisionRecord, texts: bool) -> Markup {
    let flips = one.verdict.as_ref().and_then(|verdict| verdict.flips);
    let changed = flips.map_or(0, |flips| flips.changed()).max(one.flipped.len() as u64);
    let shown = if changed > one.flipped.len() as u64 {
        format!(", of which {} are listed", words::count(one.flipped.len() as u64))
    } else {
        String::new()
    };
    html! {
        details.flips open[one.flipped.len() <= UNFOLDED] {
            summary { (precision.name()) ": " (words::counted(changed, "answer")) " changed" (shown) }
            table.stack {
                caption { "By their line in the evaluation file, those lost first" }
                thead { tr {
                    th.n scope="col" { "Line" }
                    th scope="col" { "Label" }
                    th scope="col" { "FP32" }
                    th scope="col" { (precision.name()) }
                    th scope="col" { "Change" }
                    @if texts { th scope="col" { "Text" } }
                } }
                tbody { @for row in &one.flipped { (flipped(row, precision, texts)) } }
            }
        }
    }
}

fn flipped(row: &FlippedRow, precision: Precision, texts: bool) -> Markup {
    html! { tr {
        th.n scope="row" data-label="Line" { (words::count(row.line)) }
        td data-label="Label" { (words::name(&row.label)) }
        td data-label="FP32" { (words::name(&row.baseline)) }
        td data-label=(precision.name()) { (words::name(&row.candidate)) }
        td data-label="Change" { (typeset(row.change.words())) }
        @if texts {
            td.wide.text data-label="Text" { (words::shorten(&words::one_line(row.text.as_deref().unwrap_or_default()), 600)) }
        }
    } }
}
