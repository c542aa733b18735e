//! What became INT8, what stayed FP16 or FP32, and why: by precision, then by layer.
//!
//! Most tensors of a layer share their reason, so tensors are listed under it: the page says each thing once, and a graph
//! with thousands of tensors stays small.

use std::collections::BTreeMap;

use maud::{Markup, html};

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
        // The lowest precision first: it is the one with questions.
        @for (precision, decisions) in precisions.iter().rev() { (graph(*precision, decisions)) }
    })
}

fn graph(precision: Precision, decisions: &[&Decision]) -> Markup {
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
        h3 { (precision.name()) " graph" }
        p.tally { (tally(decisions.iter().copied())) }
        @for ((_, _, layer), groups) in &layers {
            details {
                summary { span.layer { (words::name(layer)) } " " span.tally { (tally(groups.values().flatten().copied())) } }
                @for ((action, reason), tensors) in groups { (group(action, reason, tensors)) }
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

/// A piece of a name: digits compare as numbers, so that `layer.10` follows `layer.9`.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NaturalPart<'a> {
    /// Leading zeros dropped; a longer number is a larger one.
    Digits(usize, &'a str),
    Text(&'a str),
}

fn natural(name: &str) -> Vec<NaturalPart<'_>> {
    let mut parts = Vec::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let digits = first.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != digits).unwrap_or(rest.len());
        let (part, tail) = rest.split_at(end);
        let significant = part.trim_start_matches('0');
        parts.push(if digits {
            NaturalPart::Digits(significant.len(), significant)
        } else {
            NaturalPart::Text(part)
        });
        rest = tail;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_sort_as_a_person_counts() {
        let mut layers =
            vec!["layer.10", "layer.9", "layer.0", "decoder", "layer.99999999999999999999", ""];
        layers.sort_by_key(|layer| natural(layer));
        assert_eq!(
            layers,
            ["", "decoder", "layer.0", "layer.9", "layer.10", "layer.99999999999999999999"]
        );
    }
}
