//! The executor that needs nothing but a CPU.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rten::{ModelOptions, NodeId, RunOptions, ThreadPool};
use rten_tensor::prelude::*;
use trtforge_onnx::{ElementType, Model, ValueInfo};

use crate::binding;
use crate::convert::{from_library, to_library};
use crate::error::ExecError;
use crate::executor::{EvaluatedOn, Executor, NamedValue, Port, Value};
use crate::prepare::{Nodes, prepare};

/// How a model is loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EmbeddedOptions {
    /// Threads to run on; `None` is one per physical core.
    pub threads: Option<usize>,
    /// Lay weights out for the multiplication once, at loading: faster runs for as much memory again.
    pub prepack: bool,
    /// Tensors that must stay visible to taps although an optimization would compute them inside a fused operator.
    /// Each costs its fusion: keeping all 621 float tensors of a BERT-base made no measurable difference.
    pub keep: Vec<String>,
}

/// Runs an ONNX model on the CPU.
pub struct EmbeddedExecutor {
    pub(crate) model: rten::Model,
    pub(crate) inputs: Vec<Port>,
    outputs: Vec<Port>,
    /// Float tensors that nodes of the main graph produce.
    pub(crate) produced: BTreeMap<String, Produced>,
    /// Tensors of other types that they produce.
    pub(crate) others: BTreeSet<String>,
    nodes: Nodes,
    pub(crate) pool: Option<Arc<ThreadPool>>,
}

/// A tensor that some node of the original graph produces.
pub(crate) struct Produced {
    id: NodeId,
    /// Whether a node still does after optimization; found out once, since every answer plans a run.
    computed: OnceLock<bool>,
}

impl EmbeddedExecutor {
    /// Reads a model file, with its external data where it has any.
    pub fn load(path: &Path, options: EmbeddedOptions) -> Result<Self, ExecError> {
        Self::from_model(&Model::open(path)?, options)
    }

    /// Takes over a model that is already in memory; its weights are copied, so `model` may go afterwards.
    pub fn from_model(model: &Model, options: EmbeddedOptions) -> Result<Self, ExecError> {
        let EmbeddedOptions { threads, prepack, keep } = options;
        let graph = model.graph();
        let ports = |infos: Vec<ValueInfo>| -> Vec<Port> {
            let port =
                |i: ValueInfo| Port { name: i.name, element_type: i.element_type, shape: i.shape };
            infos.into_iter().map(port).collect()
        };
        if let Some(unknown) = keep.iter().find(|name| graph.producer(name).is_none()) {
            return Err(ExecError::UnknownTap { tensor: unknown.clone() });
        }
        let prepared = prepare(model, &keep);
        let mut library = ModelOptions::with_all_ops();
        library.prepack_weights(prepack);
        for (name, bytes) in prepared.weights {
            library.external_data(&name, bytes);
        }
        let loaded =
            library.load(prepared.message).map_err(|error| load_error(&error, &prepared.nodes))?;
        let float_or_unknown =
            |name: &&String| graph.element_type(name).is_none_or(ElementType::is_float);
        let computed = || {
            let nodes = graph.nodes().iter().filter(|node| node.op_type() != "Constant");
            nodes.flat_map(|node| &node.output).filter(|name| !name.is_empty())
        };
        let others = computed().filter(|name| !float_or_unknown(name)).cloned().collect();
        let produced = computed()
            .filter(float_or_unknown)
            .filter_map(|name| {
                let id = loaded.find_node(name)?;
                Some((name.clone(), Produced { id, computed: OnceLock::new() }))
            })
            .collect();
        Ok(Self {
            model: loaded,
            inputs: ports(graph.inputs()),
            outputs: ports(graph.outputs()),
            produced,
            others,
            nodes: prepared.nodes,
            pool: threads.map(|n| Arc::new(ThreadPool::with_num_threads(n.max(1)))),
        })
    }

    pub(crate) fn bind(
        &self,
        inputs: &[NamedValue],
    ) -> Result<Vec<(NodeId, rten::ValueOrView<'static>)>, ExecError> {
        let values = binding::bind(&self.inputs, inputs)?;
        let bind = |(port, value): (&Port, &Value)| {
            let value = to_library(port, value)?;
            // The library keeps the node of every declared input, used or not.
            let id = self.model.node_id(&port.name).map_err(|error| self.run_error(&error))?;
            Ok((id, value.into()))
        };
        self.inputs.iter().zip(values).map(bind).collect()
    }

    pub(crate) fn tap_id(&self, name: &str) -> Result<NodeId, ExecError> {
        let produced = self
            .produced
            .get(name)
            .ok_or_else(|| ExecError::UnknownTap { tensor: name.to_owned() })?;
        if self.is_computed(produced) {
            Ok(produced.id)
        } else {
            Err(ExecError::FusedTap { tensor: name.to_owned() })
        }
    }

    /// Whether a node that survived optimization produces this tensor.
    ///
    /// The library has no question for it, but planning a run without inputs answers: a tensor with a producer lacks a
    /// graph input in the end, which the error names, and one without lacks itself.
    fn is_computed(&self, produced: &Produced) -> bool {
        *produced.computed.get_or_init(|| match self.model.run(Vec::new(), &[produced.id], None) {
            Ok(_) => true,
            Err(error) => {
                let error = error.to_string();
                self.inputs.iter().any(|port| error.contains(&format!("\"{}\"", port.name)))
            }
        })
    }

    pub(crate) fn run_error(&self, error: &rten::RunError) -> ExecError {
        let given = error.node_path().into_iter().flatten().next_back();
        let (node, operator) = given.and_then(|given| self.nodes.find(given)).unwrap_or(("?", "?"));
        let detail =
            given.map_or_else(|| error.to_string(), |given| error.to_string().replace(given, node));
        ExecError::Operator { node: node.to_owned(), operator: operator.to_owned(), detail }
    }
}

fn load_error(error: &rten::LoadError, nodes: &Nodes) -> ExecError {
    match error.node().and_then(|given| nodes.find(given)) {
        Some((node, operator)) => {
            let text = error.to_string();
            let detail = text.split_once("\": ").map_or(text.as_str(), |(_, detail)| detail);
            ExecError::Unsupported {
                node: node.to_owned(),
                operator: operator.to_owned(),
                detail: detail.to_owned(),
            }
        }
        None => ExecError::Load { detail: error.to_string() },
    }
}

impl Executor for EmbeddedExecutor {
    fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    fn evaluated_on(&self) -> EvaluatedOn {
        EvaluatedOn::Reference
    }

    fn run_tapped(
        &self,
        inputs: &[NamedValue],
        taps: &[String],
        visit: &mut dyn FnMut(&str, &[f32]),
    ) -> Result<Vec<NamedValue>, ExecError> {
        let bound = self.bind(inputs)?;
        // The outputs that `keep` added come after the model's own.
        let output_ids = &self.model.output_ids()[..self.outputs.len()];
        let tap_ids = taps.iter().map(|tap| self.tap_id(tap)).collect::<Result<Vec<_>, _>>()?;
        // The library refuses to compute a tensor twice, and two names can stand for one tensor.
        let mut wanted: Vec<NodeId> = Vec::new();
        for id in tap_ids.iter().chain(output_ids) {
            if !wanted.contains(id) {
                wanted.push(*id);
            }
        }
        let run_options = RunOptions::default().with_thread_pool(self.pool.clone());
        let results = self
            .model
            .run(bound, &wanted, Some(run_options))
            .map_err(|error| self.run_error(&error))?;
        let mut results: BTreeMap<NodeId, rten::Value> = wanted.into_iter().zip(results).collect();
        for (index, (tap, id)) in taps.iter().zip(&tap_ids).enumerate() {
            match results.get(id) {
                Some(rten::Value::FloatTensor(tensor)) => visit(tap, tensor.to_contiguous().data()),
                _ => return Err(ExecError::NotFloat { tensor: tap.clone() }),
            }
            if !output_ids.contains(id) && !tap_ids[index + 1..].contains(id) {
                results.remove(id);
            }
        }
        let output = |(port, id): (&Port, &NodeId)| {
            let missing = || ExecError::OutputType { output: port.name.clone() };
            let value = results.get(id).cloned().ok_or_else(missing)?;
            Ok((port.name.clone(), from_library(port, value)?))
        };
        self.outputs.iter().zip(output_ids).map(output).collect()
    }

    fn can_tap(&self, name: &str) -> bool {
        self.produced.get(name).is_some_and(|produced| self.is_computed(produced))
    }
}
