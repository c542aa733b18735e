//! Which type each product of the ONNX graph is computed in, by what the engine says of its layers.
//!
//! A product (MatMul, Gemm) belongs to the layers that have its node in their origin. Of several, those that multiply count and copies
//! do not. Where a layer holds several products, its kernel's name or its operands speak for all of them; a region that
//! TensorRT compiled as a whole speaks for none.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use trtforge_onnx::proto::NodeProto;
use trtforge_onnx::{ElementType, Graph, Model, is_op};

use crate::inspect::layer::{Detail, EngineLayer, EngineLayers, LayerRole};
use crate::inspect::number::NumberType;
use crate::inspect::origin;

/// What an engine's layers prove of the graph that it was built from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrecisionProof {
    /// How much the engine says of its layers.
    pub detail: Detail,
    /// Every product of the graph, in its order.
    pub products: Vec<ProductProof>,
    /// What became of the graph's Q and DQ nodes.
    pub quantizers: Quantizers,
    /// Layers that only change the format or type of a tensor.
    pub reformats: usize,
}

/// What is proven of one product.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProductProof {
    /// The node's name in the ONNX file.
    pub node: String,
    /// `MatMul` or `Gemm`.
    pub operator: String,
    /// The type that the graph gives its operands; INT8 where both come from INT8 through a DQ.
    #[serde(default)]
    pub graph: Option<NumberType>,
    /// The engine's layer that computes it.
    #[serde(default)]
    pub layer: Option<String>,
    /// The type it is computed in.
    pub seen: Seen,
    /// What proves that, or why nothing does.
    pub why: String,
}

/// The type a product is computed in, as far as it is proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seen {
    /// This one.
    In(NumberType),
    /// Not INT8; which other one is not proven.
    NotInt8,
    /// Nothing is proven.
    Unproven,
}

/// What became of the Q and DQ nodes of a graph.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantizers {
    /// In the graph.
    pub all: usize,
    /// Layers that consist of nothing else: work that a fused engine would not have.
    pub left: Vec<String>,
}

impl PrecisionProof {
    /// Holds an engine's layers against the graph it was built from.
    pub fn of(layers: &EngineLayers, model: &Model) -> PrecisionProof {
        let graph = model.graph();
        let named = Named::of(layers, &graph);
        let products = graph.nodes().iter().enumerate().filter(|(_, node)| is_product(node));
        PrecisionProof {
            detail: layers.detail,
            products: products.map(|(at, node)| named.product(at, node)).collect(),
            quantizers: named.quantizers(),
            reformats: layers.layers.iter().filter(|l| l.role == LayerRole::Reformat).count(),
        }
    }

    /// How many products were seen in each type, the most telling first.
    pub fn counts(&self) -> BTreeMap<Seen, usize> {
        let mut counts = BTreeMap::new();
        for product in &self.products {
            *counts.entry(product.seen).or_default() += 1;
        }
        counts
    }

    /// The summary in words: "10 of 12 matrix multiplications run in INT8, 2 in FP16".
    pub fn summary(&self) -> String {
        let all = self.products.len();
        if all == 0 {
            return "the graph has no matrix multiplication".to_owned();
        }
        let counts = self.counts();
        let int8 = counts.get(&Seen::In(NumberType::Int8)).copied().unwrap_or(0);
        let mut text = format!("{int8} of {all} matrix multiplications run in INT8");
        for (seen, count) in counts {
            text.push_str(&match seen {
                Seen::In(NumberType::Int8) => continue,
                Seen::In(number) => format!(", {count} in {number}"),
                Seen::NotInt8 => format!(", {count} in a floating type that is not provable"),
                Seen::Unproven => format!(", {count} not provable"),
            });
        }
        text
    }
}

/// A product of the graph.
fn is_product(node: &NodeProto) -> bool {
    is_op(node, "MatMul") || is_op(node, "Gemm")
}

/// The name that TensorRT's parser gives a node; one without a name gets its first output's.
fn parser_name(node: &NodeProto) -> String {
    match (node.name(), node.output.first()) {
        ("", Some(output)) => format!("node_of_{output}"),
        (name, _) => name.to_owned(),
    }
}

/// The engine's layers by the nodes of the graph that they name.
struct Named<'a> {
    layers: &'a EngineLayers,
    graph: &'a Graph<'a>,
    by_node: HashMap<String, Vec<usize>>,
    regions: Vec<(usize, usize, usize)>,
}

impl<'a> Named<'a> {
    fn of(layers: &'a EngineLayers, graph: &'a Graph<'a>) -> Named<'a> {
        let place: HashMap<String, usize> =
            graph.nodes().iter().enumerate().map(|(at, node)| (parser_name(node), at)).collect();
        let mut by_node: HashMap<String, Vec<usize>> = HashMap::new();
        let mut regions = Vec::new();
        for (index, layer) in layers.layers.iter().enumerate() {
            if let Some((first, last)) = origin::region(&layer.name)
                && let (Some(&first), Some(&last)) = (place.get(first), place.get(last))
            {
                regions.push((first.min(last), first.max(last), index));
            }
            for name in nodes_of(layer) {
                if place.contains_key(name) {
                    by_node.entry(name.to_owned()).or_default().push(index);
                }
            }
        }
        Named { layers, graph, by_node, regions }
    }

    fn product(&self, at: usize, node: &NodeProto) -> ProductProof {
        let name = parser_name(node);
        let mut proof = ProductProof {
            operator: node.op_type().to_owned(),
            graph: operand_of_graph(self.graph, node),
            layer: None,
            seen: Seen::Unproven,
            why: self.nothing_named().to_owned(),
            node: name,
        };
        let Some(layer) = self.layer_of(at, &proof.node) else { return proof };
        let compute = &layer.compute;
        proof.layer = Some(layer.name.clone());
        proof.seen = match compute.number {
            Some(number) => Seen::In(number),
            None if compute.not_int8 => Seen::NotInt8,
            None => Seen::Unproven,
        };
        proof.why = match layer.role {
            LayerRole::Region if proof.seen == Seen::Unproven => {
                "inside a fused region; its precision is not provable from the plan".to_owned()
            }
            _ => compute.why.clone(),
        };
        proof
    }

    fn nothing_named(&self) -> &'static str {
        match self.layers.detail {
            Detail::Nothing => "the engine says nothing of its layers",
            _ => "no layer of the engine names it",
        }
    }

    /// The layer that computes a product: one with it in its origin that multiplies, else one that may.
    fn layer_of(&self, at: usize, name: &str) -> Option<&EngineLayer> {
        let naming = self.by_node.get(name).map(Vec::as_slice).unwrap_or_default();
        let layer = |index: &usize| &self.layers.layers[*index];
        let rank = |layer: &EngineLayer| match layer.role {
            LayerRole::Product | LayerRole::Attention => 0,
            LayerRole::Region => 1,
            LayerRole::Generated => 2,
            _ => 3,
        };
        let may =
            |layer: &&EngineLayer| layer.may_multiply() || self.layers.detail == Detail::Names;
        let found = naming.iter().map(layer).filter(may).min_by_key(|layer| rank(layer));
        found.or_else(|| {
            let within = |(first, last, _): &&(usize, usize, usize)| (*first..=*last).contains(&at);
            self.regions.iter().find(within).map(|(.., index)| layer(index))
        })
    }

    fn quantizers(&self) -> Quantizers {
        let operators: HashMap<String, &str> =
            self.graph.nodes().iter().map(|node| (parser_name(node), node.op_type())).collect();
        let is_quantizer = |name: &str| {
            matches!(operators.get(name), Some(&("QuantizeLinear" | "DequantizeLinear")))
        };
        let alone = |layer: &&EngineLayer| {
            let nodes: Vec<&str> =
                nodes_of(layer).into_iter().filter(|name| operators.contains_key(*name)).collect();
            !nodes.is_empty() && nodes.into_iter().all(is_quantizer)
        };
        Quantizers {
            all: operators.keys().filter(|name| is_quantizer(name)).count(),
            left: self
                .layers
                .layers
                .iter()
                .filter(|layer| layer.role != LayerRole::Reformat)
                .filter(alone)
                .map(|layer| layer.name.clone())
                .collect(),
        }
    }
}

/// The nodes a layer names: in its metadata, or without one in its name.
fn nodes_of(layer: &EngineLayer) -> Vec<&str> {
    if layer.origin.is_empty() && layer.role != LayerRole::Reformat {
        let mut names = origin::of_name(&layer.name);
        names.push(&layer.name);
        return names;
    }
    layer.origin.iter().map(String::as_str).collect()
}

/// The type that the graph gives the operands of a product.
fn operand_of_graph(graph: &Graph<'_>, node: &NodeProto) -> Option<NumberType> {
    let one = |tensor: &String| -> Option<NumberType> {
        let quantized = graph.producer(tensor).map(|at| &graph.nodes()[at]);
        let source = match quantized {
            Some(dq) if is_op(dq, "DequantizeLinear") => dq.input.first()?,
            _ => tensor,
        };
        number(graph.element_type(source)?)
    };
    let (first, second) = (one(node.input.first()?)?, one(node.input.get(1)?)?);
    match (first, second) {
        (first, second) if first == second => Some(first),
        // One operand in INT8 is a weight-only product: it is computed in the other's type.
        (NumberType::Int8, float) | (float, NumberType::Int8) => Some(float),
        _ => None,
    }
}

fn number(element: ElementType) -> Option<NumberType> {
    match element {
        ElementType::F32 => Some(NumberType::Fp32),
        ElementType::F16 => Some(NumberType::Fp16),
        ElementType::Bf16 => Some(NumberType::Bf16),
        ElementType::I8 => Some(NumberType::Int8),
        ElementType::F8E4M3Fn | ElementType::F8E5M2 => Some(NumberType::Fp8),
        ElementType::I4 => Some(NumberType::Int4),
        _ => None,
    }
}

#[cfg(test)]
#[path = "proof_tests.rs"]
mod tests;
