//! What an engine said of its layers, in the record.

use trtforge_evaluate::Int8Share;
use trtforge_report::{EngineProof, LayerRow, ProvenProduct, RunRecord};
use trtforge_tensorrt::{EngineLayer, EngineLayers, LayerTensor, PrecisionProof, Seen};

use super::entry;
use crate::profile::Precision;

/// Notes what one engine proves.
pub fn proof(record: &mut RunRecord, precision: Precision, proof: EngineProof) {
    entry(record, Some(precision)).proof = Some(proof);
}

/// What an engine proves, as its record says it.
pub fn of(proof: &PrecisionProof, layers: &EngineLayers, share: Option<Int8Share>) -> EngineProof {
    let product = |product: &trtforge_tensorrt::ProductProof| ProvenProduct {
        node: product.node.clone(),
        graph: product.graph.map(|number| number.to_string()),
        engine: words(product.seen),
        layer: product.layer.clone(),
        why: product.why.clone(),
    };
    let counts = proof.counts().into_iter().map(|(seen, count)| (words(seen), count as u64));
    EngineProof {
        summary: proof.summary(),
        missing: None,
        products_by_type: counts.collect(),
        int8_share: share.map(|share| share.proven),
        unproven_share: share.map(|share| share.unproven),
        products: proof.products.iter().map(product).collect(),
        quantizers: proof.quantizers.all as u64,
        quantizers_left: proof.quantizers.left.clone(),
        reformats: proof.reformats as u64,
        layers: layers.layers.iter().map(row).collect(),
    }
}

/// The type a product is computed in, as far as it is proven.
fn words(seen: Seen) -> String {
    match seen {
        Seen::In(number) => number.to_string(),
        Seen::NotInt8 => "not INT8".to_owned(),
        Seen::Unproven => "not provable".to_owned(),
    }
}

fn row(layer: &EngineLayer) -> LayerRow {
    LayerRow {
        name: layer.name.clone(),
        kind: layer.kind.clone(),
        origin: layer.origin.clone(),
        reads: types(&layer.inputs),
        writes: types(&layer.outputs),
        computes: layer.compute.number.map(|number| number.to_string()),
        tactic: layer.tactic.clone(),
        why: layer.compute.why.clone(),
    }
}

/// Each type once, in the order in which they come.
fn types(tensors: &[LayerTensor]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for tensor in tensors {
        let number = tensor.number.map_or("?", trtforge_tensorrt::NumberType::name);
        if !found.iter().any(|known| known == number) {
            found.push(number.to_owned());
        }
    }
    found
}
