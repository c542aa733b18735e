//! Shapes the engines accept, the lengths they were planned from, and the padding that remains.

use maud::{Markup, html};

use super::draw::{Bucket, lengths};
use super::{absent, typeset};
use crate::{LengthSummary, PaddingFigure, RunRecord, ShapeProfile, Shapes, words};

pub fn section(record: &RunRecord) -> Option<Markup> {
    let shapes = record.shapes.as_ref()?;
    Some(html! {
        @if let Some(found) = &shapes.lengths { (length_chart(found, shapes)) }
        @if !shapes.profiles.is_empty() { (profiles(shapes)) }
        @if !shapes.padding.is_empty() { (padding(&shapes.padding)) }
    })
}

fn length_chart(found: &LengthSummary, shapes: &Shapes) -> Markup {
    let buckets = buckets(shapes);
    html! {
        figure {
            figcaption {
                "Tokens in a row, over " (words::counted(found.count, "row"))
                ": half have at most " b { (found.p50) } ", 90 % at most " (found.p90) ", 99 % at most " (found.p99)
                ", the longest " (found.max) "; mean " (format!("{:.1}", found.mean)) "."
                @if found.truncated > 0 { " " (words::counted(found.truncated, "row")) " cut at the maximum length." }
            }
            @if !found.histogram.is_empty() {
                (lengths(&found.histogram, &buckets))
                @if !buckets.is_empty() { p.legend { span.entry { span.key.limit { } " a shape profile ends" } "The numbers are the profiles of the table." } }
            }
        }
    }
}

/// The profiles by the longest row each takes; none where they are not in that order, since their numbers would be wrong.
fn buckets(shapes: &Shapes) -> Vec<Bucket> {
    let end = |profile: &ShapeProfile| {
        let ends = profile.inputs.values().filter_map(|range| range.max.get(1));
        ends.max().and_then(|&tokens| u64::try_from(tokens).ok())
    };
    let found: Vec<Bucket> = shapes
        .profiles
        .iter()
        .filter_map(|one| Some(Bucket { end: end(one)?, padding: one.padding_share }))
        .collect();
    if found.is_sorted_by(|a, b| a.end < b.end) { found } else { Vec::new() }
}

fn profiles(shapes: &Shapes) -> Markup {
    html! {
        table.stack {
            caption {
                "Optimization profiles"
                @if let Some(from) = &shapes.from { ", from " (words::name(from)) }
                "; batch × tokens"
            }
            thead { tr {
                th scope="col" { "Profile" }
                th scope="col" { "Inputs" }
                th.n scope="col" { "Smallest" }
                th.n scope="col" { "Tuned for" }
                th.n scope="col" { "Largest" }
                th.n scope="col" { "Rows" }
                th.n scope="col" { "Padding" }
            } }
            tbody { @for (index, profile) in shapes.profiles.iter().enumerate() {
                @for (range, inputs) in alike(&profile.inputs) { tr {
                    th scope="row" data-label="Profile" { (index + 1) }
                    td.wide data-label="Inputs" { @for (at, input) in inputs.iter().enumerate() { @if at > 0 { ", " } code { (words::name(input)) } } }
                    td.n data-label="Smallest" { (words::dims(&range.min)) }
                    td.n data-label="Tuned for" { (words::dims(&range.opt)) }
                    td.n data-label="Largest" { (words::dims(&range.max)) }
                    td.n data-label="Rows" { @match profile.rows { Some(rows) => { (words::count(rows)) } None => { (absent()) } } }
                    td.n data-label="Padding" { @match profile.padding_share { Some(share) => { (words::share(share)) } None => { (absent()) } } }
                } }
            } }
        }
    }
}

/// Inputs that share their range, under it: a BERT's three inputs are one line.
fn alike(
    inputs: &std::collections::BTreeMap<String, crate::ShapeRange>,
) -> std::collections::BTreeMap<&crate::ShapeRange, Vec<&str>> {
    let mut groups = std::collections::BTreeMap::<_, Vec<&str>>::new();
    for (input, range) in inputs {
        groups.entry(range).or_default().push(input);
    }
    groups
}

fn padding(figures: &[PaddingFigure]) -> Markup {
    html! {
        table.stack {
            caption { "Padding under each way of batching the same rows" }
            thead { tr {
                th scope="col" { "Batches" }
                th.n scope="col" { "Real tokens" }
                th.n scope="col" { "Computed tokens" }
                th scope="col" { "Wasted on padding" }
            } }
            tbody { @for figure in figures { tr {
                th scope="row" { (words::name(&figure.mode)) }
                td.n data-label="Real tokens" { (words::count(figure.real_tokens)) }
                td.n data-label="Computed tokens" { (words::count(figure.padded_tokens)) }
                td data-label="Wasted" {
                    @let percent = (figure.wasted_share * 100.0).clamp(0.0, 100.0);
                    span.bar.waste aria-hidden="true" { @if percent.is_finite() { span style=(format!("width:{percent:.1}%")) { } } }
                    (typeset(&words::share(figure.wasted_share)))
                }
            } } }
        }
    }
}
