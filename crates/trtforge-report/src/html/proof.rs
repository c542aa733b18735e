//! What the engine itself says of the precision it runs in, product by product and layer by layer.

use maud::{Markup, html};

use super::{absent, typeset};
use crate::{EngineProof, LayerRow, Precision, PrecisionRecord, ProvenProduct, RunRecord, words};

/// Layers that are shown unfolded.
const UNFOLDED: usize = 12;

pub fn section(record: &RunRecord) -> Option<Markup> {
    let proofs: Vec<(Precision, &PrecisionRecord, &EngineProof)> = record
        .precisions
        .iter()
        .filter_map(|(&precision, one)| Some((precision, one, one.proof.as_ref()?)))
        .collect();
    if proofs.is_empty() {
        return None;
    }
    let rows = proofs.iter().any(|(.., proof)| !proof.layers.is_empty());
    Some(html! {
        @if rows {
            p.search hidden {
                label { "Find a layer, node or kernel " input type="search" autocomplete="off" spellcheck="false"; }
                " " output aria-live="polite" { }
            }
        }
        @for (precision, one, proof) in &proofs { (engine(*precision, one, proof)) }
    })
}

fn engine(precision: Precision, one: &PrecisionRecord, proof: &EngineProof) -> Markup {
    html! {
        h3 { (precision.name()) " engine" }
        p { (typeset(&words::sentence(&proof.summary))) }
        @if let (Some(share), Some(unproven)) = (proof.int8_share, proof.unproven_share) {
            p {
                "By multiply-accumulates, " b { (typeset(&words::share(share))) } " is proven to run in INT8"
                @if unproven > 0.0 { ", and of " (typeset(&words::share(unproven))) " nothing is proven" }
                "."
                @if let Some(arithmetic) = one.arithmetic {
                    " In the graph it was built from, " (typeset(&words::share(arithmetic.share))) " is INT8."
                }
            }
        }
        @if proof.missing.is_none() {
            p.legend {
                (words::counted(proof.layers.len() as u64, "layer")) ", "
                (words::counted(proof.reformats, "reformat")) "; "
                @if proof.quantizers > 0 {
                    "of " (words::counted(proof.quantizers, "Q and DQ node")) " of the graph, "
                    (words::counted(proof.quantizers_left.len() as u64, "layer")) " is left that does nothing else."
                } @else { "the graph has no Q or DQ nodes." }
            }
        }
        @if !proof.products.is_empty() { (products(&proof.products)) }
        @if !proof.layers.is_empty() { (layers(&proof.layers)) }
    }
}

fn products(products: &[ProvenProduct]) -> Markup {
    html! {
        details.group open[products.len() <= UNFOLDED] {
            summary { "Matrix multiplications" }
            table.stack {
                caption { "Each matrix multiplication of the ONNX file, and the type the engine computes it in" }
                thead { tr {
                    th scope="col" { "Node" }
                    th scope="col" { "Graph" }
                    th scope="col" { "Engine" }
                    th scope="col" { "Because" }
                } }
                tbody { @for product in products { tr.found {
                    th scope="row" data-label="Node" { code { (words::name(&product.node)) } }
                    td data-label="Graph" { @match &product.graph { Some(graph) => { (words::name(graph)) } None => { (absent()) } } }
                    td data-label="Engine" { (tag(&product.engine)) }
                    td.wide data-label="Because" {
                        (words::shorten(&words::one_line(&product.why), 300))
                        @if let Some(layer) = &product.layer { " (" code { (words::name(layer)) } ")" }
                    }
                } } }
            }
        }
    }
}

fn layers(layers: &[LayerRow]) -> Markup {
    html! {
        details.group open[layers.len() <= UNFOLDED] {
            summary { "Layers" }
            table.stack {
                caption { "Each layer of the engine, in the order in which they run" }
                thead { tr {
                    th scope="col" { "Layer" }
                    th scope="col" { "Kind" }
                    th scope="col" { "Reads" }
                    th scope="col" { "Computes" }
                    th scope="col" { "Writes" }
                    th scope="col" { "Origin and kernel" }
                } }
                tbody { @for layer in layers { tr.found {
                    th scope="row" data-label="Layer" { code { (words::name(&layer.name)) } }
                    td data-label="Kind" { (words::name(&layer.kind)) }
                    td data-label="Reads" { (list(&layer.reads)) }
                    td data-label="Computes" { @match &layer.computes { Some(number) => { (tag(number)) } None => { (absent()) } } }
                    td data-label="Writes" { (list(&layer.writes)) }
                    td.wide data-label="Origin and kernel" {
                        @for node in &layer.origin { code { (words::name(node)) } " " }
                        @if let Some(tactic) = &layer.tactic { br; small { code { (words::name(tactic)) } } }
                    }
                } } }
            }
        }
    }
}

fn list(numbers: &[String]) -> Markup {
    if numbers.is_empty() {
        return absent();
    }
    html! { (words::name(&numbers.join(", "))) }
}

fn tag(number: &str) -> Markup {
    let class = match number {
        "INT8" => "int8",
        "FP16" | "BF16" => "half",
        "FP32" | "TF32" => "full",
        _ => "other",
    };
    html! { span.tag.(class) { (words::name(number)) } }
}
