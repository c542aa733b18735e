//! The form in which a model is handed to the CPU library.
//!
//! - Weights go over as buffers of their own, each copied once from the mapped file, and not as part of the message,
//!   where they would be copied twice more.
//! - Nodes get unique names by number, so that an error can be traced to its node even when the model names none.
//! - Tensors that must survive optimization become outputs: the library promises to keep those.

use prost::Message;
use trtforge_onnx::Model;
use trtforge_onnx::proto::{
    GraphProto, ModelProto, NodeProto, StringStringEntryProto, TensorProto, ValueInfoProto,
};

/// Tensors smaller than this stay in the message.
const LEAST_BYTES_APART: usize = 1024;
/// ONNX's `TensorProto.DataLocation.EXTERNAL`.
const EXTERNAL: i32 = 1;

/// A model ready to be loaded.
pub(crate) struct Prepared {
    /// The message, without large weights.
    pub message: Vec<u8>,
    /// File name and content of each large weight.
    pub weights: Vec<(String, Vec<u8>)>,
    /// What the nodes are really called.
    pub nodes: Nodes,
}

/// Names and operators of all nodes, subgraphs included, by the number they were given.
#[derive(Default)]
pub(crate) struct Nodes(Vec<(String, String)>);

impl Nodes {
    /// Label and operator of a node, from the name it was given here.
    pub fn find(&self, given: &str) -> Option<(&str, &str)> {
        let number: usize = given.strip_prefix("node#")?.parse().ok()?;
        self.0.get(number).map(|(label, operator)| (label.as_str(), operator.as_str()))
    }

    fn rename(&mut self, node: &mut NodeProto) {
        let number = self.0.len();
        let operator = node.op_type().to_owned();
        let label = match (node.name(), node.output.first()) {
            ("", Some(output)) => format!("{operator}({output})"),
            ("", None) => operator.clone(),
            (name, _) => name.to_owned(),
        };
        self.0.push((label, operator));
        node.name = Some(format!("node#{number}"));
        for attribute in &mut node.attribute {
            for graph in attribute.g.iter_mut().chain(&mut attribute.graphs) {
                graph.node.iter_mut().for_each(|node| self.rename(node));
            }
        }
    }
}

/// - `keep`: tensors that must not be optimized away; each must be the output of a node of the main graph.
pub(crate) fn prepare(model: &Model, keep: &[String]) -> Prepared {
    let mut proto: ModelProto = model.proto().clone();
    proto.ir_version.get_or_insert(8);
    let mut nodes = Nodes::default();
    let mut weights = Vec::new();
    if let Some(graph) = proto.graph.as_mut() {
        graph.node.iter_mut().for_each(|node| nodes.rename(node));
        for tensor in large_tensors(graph) {
            set_apart(tensor, &mut weights);
        }
        keep_as_outputs(graph, keep);
    }
    Prepared { message: proto.encode_to_vec(), weights, nodes }
}

/// Initializers and constants of the main graph.
fn large_tensors(graph: &mut GraphProto) -> impl Iterator<Item = &mut TensorProto> {
    let constants = graph.node.iter_mut().filter(|node| node.op_type() == "Constant");
    let values = constants.flat_map(|node| node.attribute.iter_mut().filter_map(|a| a.t.as_mut()));
    graph.initializer.iter_mut().chain(values)
}

fn set_apart(tensor: &mut TensorProto, weights: &mut Vec<(String, Vec<u8>)>) {
    let Some(bytes) = tensor.raw_data.take_if(|bytes| bytes.len() >= LEAST_BYTES_APART) else {
        return;
    };
    // The library accepts data files by their ending only.
    let name = format!("{}.data", weights.len());
    let entry = |key: &str, value: String| StringStringEntryProto {
        key: Some(key.to_owned()),
        value: Some(value),
    };
    tensor.external_data = vec![
        entry("location", name.clone()),
        entry("offset", "0".to_owned()),
        entry("length", bytes.len().to_string()),
    ];
    tensor.data_location = Some(EXTERNAL);
    weights.push((name, bytes.to_vec()));
}

fn keep_as_outputs(graph: &mut GraphProto, keep: &[String]) {
    for name in keep {
        if graph.output.iter().all(|output| output.name() != name) {
            graph.output.push(ValueInfoProto { name: Some(name.clone()), ..Default::default() });
        }
    }
}
