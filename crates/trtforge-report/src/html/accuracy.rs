//! Accuracy with its interval, and the paired comparison the gate decided on.

use maud::{Markup, html};

use super::draw::{Mark, Scale, strip};
use super::verdict::badge;
use super::{absent, typeset};
use crate::{Evaluation, Precision, PrecisionRecord, RunRecord, Verdict, words};

pub fn section(record: &RunRecord) -> Option<Markup> {
    words::evaluated(record).next()?;
    Some(html! {
        (values(record))
        @if words::judged(record).next().is_some() { (gate(record)) }
    })
}

fn values(record: &RunRecord) -> Markup {
    let metric = words::metric(record);
    let baseline = record
        .precisions
        .get(&Precision::Fp32)
        .and_then(|one| one.evaluation.as_ref())
        .map(|found| found.value);
    let allowed = words::judged(record).map(|(_, _, verdict)| verdict.max_drop).next();
    let limit = baseline.zip(allowed).map(|(value, drop)| value - drop);
    let ends = words::evaluated(record)
        .flat_map(|(_, found)| [found.interval[0], found.interval[1], found.value]);
    let scale = Scale::around(ends.chain(limit));
    html! {
        table.stack {
            caption { "The " (metric) " of each precision, with its confidence interval" }
            thead { tr {
                th scope="col" { "Precision" }
                th.n scope="col" { (metric) }
                th scope="col" { "Interval" }
                th scope="col" aria-hidden="true" { }
                th.n scope="col" { "Rows" }
                th.n scope="col" { "Logit shift" }
                th scope="col" { "Evaluated on" }
            } }
            tbody { @for (&precision, one) in &record.precisions {
                @if let Some(found) = &one.evaluation { (value_row(precision, one, found, scale, baseline, limit)) }
            } }
        }
        p.legend {
            @if let Some(scale) = scale { "The strips run from " (typeset(&words::figure(scale.low))) " to " (typeset(&words::figure(scale.high))) "." }
            @if baseline.is_some() { " " span.entry { span.key.baseline { } " FP32" } }
            @if limit.is_some() { " " span.entry { span.key.limit { } " lowest value allowed" } }
        }
    }
}

fn value_row(
    precision: Precision,
    one: &PrecisionRecord,
    found: &Evaluation,
    scale: Option<Scale>,
    baseline: Option<f64>,
    limit: Option<f64>,
) -> Markup {
    let marks = [baseline.map(Mark::Baseline), limit.map(Mark::Limit)];
    let kind = if precision == Precision::Fp32 { "neutral" } else { "accent" };
    html! { tr {
        th scope="row" { (precision.name()) }
        td.n.lead data-label=(words::capital(&words::shorten(&words::one_line(&found.metric), 40))) { (typeset(&words::figure(found.value))) }
        td data-label="Interval" { (typeset(&words::interval(found.interval))) " " small { (words::confidence(found.confidence)) } }
        td.drawn { @if let Some(scale) = scale { (strip(scale, found.value, found.interval, &marks, kind)) } }
        td.n data-label="Rows" {
            (words::count(found.count))
            @if found.not_finite > 0 { br; small.bad { (words::counted(found.not_finite, "row")) " not finite" } }
        }
        td.n data-label="Logit shift" {
            @match one.logit_shift {
                Some(shift) => { (words::figure(shift.mean)) br; small { "at most " (words::figure(shift.max)) } }
                None => { (absent()) }
            }
        }
        td data-label="Evaluated on" { (words::place(found.evaluated_on)) }
    } }
}

fn gate(record: &RunRecord) -> Markup {
    let ends = words::judged(record).flat_map(|(_, _, verdict)| {
        [verdict.interval[0], verdict.interval[1], verdict.drop, verdict.max_drop]
    });
    let scale = Scale::around(ends.chain([0.0]));
    html! {
        table.stack {
            caption { "The drop against FP32, on the same rows; positive is worse" }
            thead { tr {
                th scope="col" { "Precision" }
                th.n scope="col" { "Drop" }
                th scope="col" { "Interval" }
                th scope="col" aria-hidden="true" { }
                th.n scope="col" { "Allowed" }
                th.n scope="col" { "Answers flipped" }
                th scope="col" { "Verdict" }
            } }
            tbody { @for (precision, _, verdict) in words::judged(record) { (gate_row(precision, verdict, scale)) } }
        }
        p.legend {
            @if let Some(scale) = scale { "The strips run from " (typeset(&words::figure(scale.low))) " to " (typeset(&words::figure(scale.high))) "." }
            " " span.entry { span.key.baseline { } " no drop" } " " span.entry { span.key.limit { } " largest drop allowed" }
        }
    }
}

fn gate_row(precision: Precision, verdict: &Verdict, scale: Option<Scale>) -> Markup {
    let marks = [Some(Mark::Baseline(0.0)), Some(Mark::Limit(verdict.max_drop))];
    let kind = match verdict.outcome {
        crate::Outcome::Accepted => "good",
        crate::Outcome::Rejected => "bad",
        crate::Outcome::Inconclusive => "unsure",
    };
    html! { tr {
        th scope="row" { (precision.name()) }
        td.n.lead data-label="Drop" { (typeset(&words::figure(verdict.drop))) }
        td data-label="Interval" { (typeset(&words::interval(verdict.interval))) br; small { (words::confidence(verdict.confidence)) " each end" } }
        td.drawn { @if let Some(scale) = scale { (strip(scale, verdict.drop, verdict.interval, &marks, kind)) } }
        td.n data-label="Allowed" { (typeset(&words::figure(verdict.max_drop))) }
        td.n data-label="Answers flipped" {
            @match verdict.flips {
                Some(flips) => { (words::count(flips.changed())) br; small { (words::count(flips.to_wrong)) " to wrong, " (words::count(flips.to_right)) " to right" } }
                None => { (absent()) }
            }
        }
        td data-label="Verdict" { (badge(verdict.outcome)) }
    } }
}
