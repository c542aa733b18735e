//! The thresholds calibration chose, over the distribution they cut.

use maud::{Markup, html};

use super::absent;
use super::draw::histogram;
use super::natural::natural;
use crate::{CalibrationSummary, RunRecord, Search, TensorCalibration, words};

/// Tensors shown unfolded; more would hide what follows.
const SHOWN: usize = 48;

pub fn section(record: &RunRecord) -> Option<Markup> {
    let found = record.calibration.as_ref()?;
    Some(html! {
        p { (introduction(found)) }
        @if let Some(search) = &found.search { (tried(search)) }
        @if !found.tensors.is_empty() {
            details open[found.tensors.len() <= SHOWN] {
                summary { "Thresholds by tensor" }
                (table(found))
            }
        }
    })
}

/// What `auto` compared.
fn tried(search: &Search) -> Markup {
    html! {
        table.stack {
            caption { (search.title()) }
            thead { tr { th scope="col" { "Variant" } th.n scope="col" { "Mean logit shift" } } }
            tbody { @for tried in &search.tried { tr {
                th scope="row" { (tried.words()) @if tried.chosen { " " small { "chosen" } } }
                td.n data-label="Mean logit shift" { (tried.shift_words()) }
            } } }
        }
        @for change in &search.changes {
            p { small {
                (words::name(&change.to)) " instead of " (words::name(&change.from)) " for "
                code { (words::name(&change.tensors.join(", "))) }
                ": " (format!("{:.4}", change.before)) " became " (format!("{:.4}", change.after))
            } }
        }
        @if let Some(note) = &search.note { p { small.unsure { (words::name(note)) } } }
    }
}

fn table(found: &CalibrationSummary) -> Markup {
    let drawn = found.tensors.values().any(|tensor| tensor.histogram.is_some());
    let mut tensors: Vec<_> = found.tensors.iter().collect();
    tensors.sort_by_cached_key(|(name, _)| natural(name));
    html! {
        table.stack.calibration {
            caption { "Largest magnitude seen, and the threshold beyond which INT8 saturates, in model units" }
            thead { tr {
                th scope="col" { "Tensor" }
                @if drawn { th scope="col" { "Magnitudes, log count" } }
                th.n scope="col" { "Threshold" }
                th.n scope="col" { "Largest" }
                th.n scope="col" { "Kept" }
                th.n scope="col" { "Scale" }
                th.n scope="col" { "Values" }
            } }
            tbody { @for (name, tensor) in tensors { (row(name, tensor, &found.method, drawn)) } }
        }
        @if drawn { p.legend { span.entry { span.key.limit { } " threshold; what lies to its right saturates" } } }
    }
}

fn introduction(found: &CalibrationSummary) -> Markup {
    html! {
        "Method " b { (words::name(&found.method)) } " over " (words::counted(found.rows, "row"))
        @if let Some(strategy) = &found.strategy { ", sampled " (words::name(strategy)) }
        @if let Some(seed) = found.seed { " with seed " (seed) }
        ", padding left out. " (words::counted(found.tensors.len() as u64, "tensor")) " observed."
    }
}

fn row(name: &str, tensor: &TensorCalibration, usual: &str, drawn: bool) -> Markup {
    let kept = f64::from(tensor.threshold / tensor.absmax);
    html! { tr {
        th scope="row" {
            code { (words::name(name)) }
            @if tensor.method != usual { " " small { (words::name(&tensor.method)) } }
            @if let Some(guard) = &tensor.guard { small.unsure.guard { (words::name(guard)) } }
        }
        @if drawn { td.drawn { @if let Some(sketch) = &tensor.histogram { (histogram(sketch, tensor.threshold)) } } }
        td.n data-label="Threshold" { (words::magnitude(tensor.threshold)) }
        td.n data-label="Largest" { (words::magnitude(tensor.absmax)) }
        td.n data-label="Kept" { @if kept.is_finite() { (words::share(kept)) } @else { (absent()) } }
        td.n data-label="Scale" { (words::magnitude(tensor.scale)) }
        td.n data-label="Values" { (words::count(tensor.values)) }
    } }
}
