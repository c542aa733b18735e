//! What INT8 costs unit by unit, how much of the arithmetic it is, and the path of a search for the most that passes.

use maud::{Markup, html};

use super::draw::{bar, units as chart};
use super::verdict::badge;
use super::{absent, typeset};
use crate::{Arithmetic, Fallback, FallbackStep, Precision, RunRecord, Sensitivity, words};

/// Units listed at first; the others are folded away.
const SHOWN: usize = 12;

pub fn section(record: &RunRecord) -> Option<Markup> {
    let arithmetic = record.precisions.get(&Precision::Int8).and_then(|one| one.arithmetic);
    if arithmetic.is_none() && record.sensitivity.is_none() && record.fallback.is_none() {
        return None;
    }
    Some(html! {
        @if let Some(arithmetic) = &arithmetic { p.arithmetic { (typeset(&words::arithmetic(arithmetic))) } }
        @if let Some(fallback) = &record.fallback { (path(fallback, &words::metric(record))) }
        @if let Some(sensitivity) = &record.sensitivity { (units(sensitivity, returned(record))) }
    })
}

/// Nodes that the search gave back.
fn returned(record: &RunRecord) -> &[String] {
    let chosen = |search: &Fallback| search.chosen.map(|index| index as usize);
    record
        .fallback
        .as_ref()
        .and_then(|search| search.steps.get(chosen(search)?))
        .map_or(&[], |step| &step.returned)
}

fn path(fallback: &Fallback, metric: &str) -> Markup {
    html! {
        table.stack {
            caption { (typeset(&words::fallback(fallback))) }
            thead { tr {
                th.n scope="col" { "Returned" }
                th scope="col" { "Stays INT8" }
                th scope="col" aria-hidden="true" { }
                th.n scope="col" { "Logit shift" }
                th.n scope="col" { (metric) }
                th.n scope="col" { "Drop" }
                th scope="col" { "Verdict" }
            } }
            tbody { @for (index, step) in fallback.steps.iter().enumerate() {
                (step_row(step, fallback.chosen == Some(index as u64), metric))
            } }
        }
        p.legend { (words::sentence(&fallback.ended)) }
        @if let Some(chosen) = fallback.chosen.and_then(|index| fallback.steps.get(index as usize)) {
            p.returned { "Returned to FP16:" @for node in &chosen.returned { " " code { (words::name(node)) } } }
        }
    }
}

fn step_row(step: &FallbackStep, chosen: bool, metric: &str) -> Markup {
    html! { tr {
        th.n scope="row" data-label="Returned" {
            (words::count(step.returned.len() as u64))
            @if chosen { br; small { "chosen" } }
        }
        td.n data-label="Stays INT8" { (share(&step.arithmetic)) }
        td.drawn { (bar(step.arithmetic.share, "share")) }
        td.n data-label="Logit shift" { @match step.shift { Some(shift) => { (typeset(&words::figure(shift))) } None => { (absent()) } } }
        @match &step.look {
            Some(look) => {
                td.n data-label=(words::capital(metric)) { (typeset(&words::figure(look.value))) }
                td.n data-label="Drop" { (typeset(&words::figure(look.drop))) br; small { (typeset(&words::interval(look.interval))) } }
                td data-label="Verdict" { (badge(look.outcome)) }
            }
            None => {
                td.n data-label=(words::capital(metric)) { (absent()) }
                td.n data-label="Drop" { (absent()) }
                td data-label="Verdict" { small { "not looked at" } }
            }
        }
    } }
}

fn share(arithmetic: &Arithmetic) -> Markup {
    html! { (typeset(&words::share(arithmetic.share))) }
}

fn units(sensitivity: &Sensitivity, returned: &[String]) -> Markup {
    let most = sensitivity.units.iter().map(|unit| unit.shift).fold(0.0, f64::max);
    let (first, rest) = sensitivity.units.split_at(SHOWN.min(sensitivity.units.len()));
    let caption = format!(
        "What quantizing each part alone costs, on {} held aside; {} of them did not calibrate",
        words::counted(sensitivity.rows, "row"),
        words::count(sensitivity.fresh_rows)
    );
    html! {
        figure {
            figcaption { "Mean logit shift when one part alone is INT8, from the first layer to the last" }
            (chart(&sensitivity.units, returned))
            @if !returned.is_empty() { p.legend { span.entry { span.key.collate { } " given back to FP16" } } }
        }
        (unit_table(&caption, first, most))
        @if !rest.is_empty() {
            details.more {
                summary { "The other " (words::count(rest.len() as u64)) }
                (unit_table("Those that cost least", rest, most))
            }
        }
    }
}

fn unit_table(caption: &str, units: &[crate::UnitCost], most: f64) -> Markup {
    html! { table.stack {
        caption { (caption) }
        thead { tr {
            th scope="col" { "Node" }
            th.n scope="col" { "Logit shift" }
            th scope="col" aria-hidden="true" { }
            th.n scope="col" { "SNR, dB" }
            th.n scope="col" { "Clipped" }
            th.n scope="col" { "Answers flipped" }
            th.n scope="col" { "Arithmetic" }
        } }
        tbody { @for unit in units { tr {
            th scope="row" {
                code { (words::name(&unit.node)) } br;
                small { (words::name(&words::place_of(unit))) }
            }
            td.n data-label="Logit shift" { (typeset(&words::figure(unit.shift))) br; small { (typeset(&words::share(unit.relative_shift))) " of the logits" } }
            td.drawn { (bar(if most > 0.0 { unit.shift / most } else { 0.0 }, "cost")) }
            td.n data-label="SNR, dB" { @match unit.snr_db { Some(snr) => { (typeset(&format!("{snr:.1}"))) } None => { (absent()) } } }
            td.n data-label="Clipped" { (typeset(&words::share(unit.clipped))) }
            td.n data-label="Answers flipped" {
                (words::count(unit.flips))
                @if unit.not_finite > 0 { br; small.bad { (words::counted(unit.not_finite, "row")) " not finite" } }
            }
            td.n data-label="Arithmetic" { (typeset(&words::share(unit.share))) }
        } } }
    } }
}
