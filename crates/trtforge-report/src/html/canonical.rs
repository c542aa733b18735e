//! What was done to the graph before anything else: counts by kind, near misses with their reasons.

use std::collections::BTreeMap;

use maud::{Markup, html};

use crate::{RunRecord, words};

/// Nodes of a near miss that are named; the record has all.
const NAMED: usize = 3;

pub fn section(record: &RunRecord) -> Option<Markup> {
    let form = record.canonical.as_ref()?;
    let mut reasons: BTreeMap<&str, Vec<&[String]>> = BTreeMap::new();
    for miss in &form.near_misses {
        reasons.entry(&miss.reason).or_default().push(&miss.nodes);
    }
    Some(html! {
        p { (form.summary()) ". All graphs of this run are made from this form; the FP32 accuracy is that of the model as it was given." }
        @if !reasons.is_empty() {
            p { "Left as it is, though it looks like a layer normalization, a GELU or a constant:" }
            ul {
                @for (reason, places) in &reasons {
                    li {
                        (words::shorten(&words::one_line(reason), 2_000))
                        " (" (words::count(places.len() as u64)) "×, at "
                        @for (index, node) in places[0].iter().take(NAMED).enumerate() {
                            @if index > 0 { ", " }
                            code { (words::name(node)) }
                        }
                        @if places[0].len() > NAMED { " …" }
                        ")"
                    }
                }
            }
        }
    })
}
