//! What became INT8, what stayed FP16 or FP32, and why: by precision, then by layer.
//!
//! Most tensors of a layer share their reason, so tensors are listed under it: the page says each thing once, and a graph
//! with thousands of tensors stays small.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::natural::{NaturalPart, natural};
use crate::{Action, Decision, Precision, RunRecord, words};

/// Reason and action, with the tensors they hold for.
type Groups<'a> = BTreeMap<(&'a Action, &'a str), Vec<&'a Decision>>;

pub fn section(record: &RunRecord) -> Option<Markup> {
    let mut precisions: BTreeMap<Precision, Vec<&Decision>> = BTreeMap::new();
    for decision in &record.decisions {
        precisions.entry(decision.precision).or_default().push(decision);
    }
    if precisions.is_empty() {
        return None;
    }
    Some(html! {
        p.search hidden {
            label { "Find a tensor, node or reason " input type="search" autocomplete="off" spellcheck="false"; }
            " " output aria-live="polite" { }
        }
        // The lowest precision first, and open: it is the one with questions.
        @for (index, (precision, decisions)) in precisions.iter().rev().enumerate() {
            (graph(*precision, decisions, index == 0))
        }
    })
}

fn graph(precision: Precision, decisions: &[&Decision], open: bool) -> Markup {
    let mut layers: BTreeMap<(bool, Vec<NaturalPart<'_>>, &str), Groups<'_>> = BTreeMap::new();
    for decision in decisions {
        let layer = decision.layer.as_deref();
        let key = (
            layer.is_none(),
            natural(layer.unwrap_or_default()),
            layer.unwrap_or("Outside the layers"),
        );
        layers
            .entry(key)
            .or_default()
            .entry((&decision.action, &decision.reason))
            .or_default()
            .push(decision);
    }
    html! {
        details.graph open[open] {
            summary { h3 { (precision.name()) " graph" } " " span.tally { (tally(decisions.iter().copied())) } }
            @for ((_, _, layer), groups) in &layers {
                details {
                    summary { span.layer { (words::name(layer)) } " " span.tally { (tally(groups.values().flatten().copied())) } }
                    @for ((action, reason), tensors) in groups { (group(action, reason, tensors)) }
                }
            }
        }
    }
}

fn group(action: &Action, reason: &str, tensors: &[&Decision]) -> Markup {
    html! {
        div.group {
            p { (tag(action)) " " (words::shorten(&words::one_line(reason), 2_000)) }
            ul.tensors {
                @for decision in tensors {
                    li {
                        code { (words::name(&decision.tensor)) }
                        // Exporters name an output after its node; repeating that would say nothing.
                        @if let Some(node) = decision.node.as_deref().filter(|node| !decision.tensor.starts_with(node)) {
                            " at " code { (words::name(node)) }
                        }
                    }
                }
            }
        }
    }
}

/// How many tensors each action took, as `12 INT8 activation · 30 FP16`.
fn tally<'a>(decisions: impl Iterator<Item = &'a Decision>) -> Markup {
    let mut counts: BTreeMap<&Action, u64> = BTreeMap::new();
    for decision in decisions {
        *counts.entry(&decision.action).or_default() += 1;
    }
    html! { @for (index, (action, count)) in counts.iter().enumerate() {
        @if index > 0 { " " }
        span.tag.(class(action)) { b { (words::count(*count)) } " " (words::name(action.words())) }
    } }
}

fn tag(action: &Action) -> Markup {
    html! { span.tag.(class(action)) { (words::name(action.words())) } }
}

fn class(action: &Action) -> &'static str {
    match action {
        Action::Int8Activation | Action::Int8Weight => "int8",
        Action::Half => "half",
        Action::KeptFloat32 | Action::ClampedConstant => "full",
        Action::Skipped | Action::Other(_) => "other",
    }
}
