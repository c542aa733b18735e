//! The one way to change a graph: collect changes, then finish into a new, sorted, checked model.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::attribute::{is_default_domain, subgraphs};
use crate::build;
use crate::element::{ElementType, tensor_type};
use crate::error::OnnxError;
use crate::infer::infer_types;
use crate::model::Model;
use crate::opset::minimum_ir_version;
use crate::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto,
    TensorAnnotation, TensorProto, ValueInfoProto,
};
use crate::sort::topological_order;
use crate::walk::{all_names, captured_names, defined_names, rename_captured};

/// Changes to a model. Nodes keep the index they have in the original graph; added ones follow. A wrong index or name is
/// kept until [`Patch::finish`], which reports the first.
#[derive(Debug)]
pub struct Patch {
    model: ModelProto,
    nodes: Vec<Option<NodeProto>>,
    touched: BTreeSet<usize>,
    touched_tensors: BTreeSet<String>,
    names: BTreeSet<String>,
    drop_unused: bool,
    fault: Option<String>,
}

impl Patch {
    /// Starts with an unchanged copy of the graph; weights are shared, not copied.
    pub fn new(model: &Model) -> Self {
        let mut names = BTreeSet::new();
        all_names(model.graph_proto(), &mut names);
        let mut proto = model.proto().clone();
        let nodes = proto.graph.as_mut().map(|g| std::mem::take(&mut g.node)).unwrap_or_default();
        Self {
            model: proto,
            nodes: nodes.into_iter().map(Some).collect(),
            touched: BTreeSet::new(),
            touched_tensors: BTreeSet::new(),
            names,
            drop_unused: false,
            fault: None,
        }
    }

    fn graph(&mut self) -> &mut GraphProto {
        self.model.graph.get_or_insert_default()
    }

    fn fail(&mut self, reason: String) {
        self.fault.get_or_insert(reason);
    }

    fn touch(&mut self, node: usize, what: &str) -> Option<&mut NodeProto> {
        if !matches!(self.nodes.get(node), Some(Some(_))) {
            self.fail(format!("{what}: there is no node {node}, or it was removed"));
            return None;
        }
        self.touched.insert(node);
        self.nodes[node].as_mut()
    }

    /// A name that no tensor and no node has, in any subgraph either: `base`, or `base_1`, `base_2` … The name is taken.
    pub fn unique_name(&mut self, base: &str) -> String {
        let numbered = std::iter::once(base.to_owned()).chain((1..).map(|n| format!("{base}_{n}")));
        let mut free = numbered.filter(|name| !name.is_empty() && !self.names.contains(name));
        let name = free.next().unwrap_or_default();
        self.names.insert(name.clone());
        name
    }

    /// A node as it is now; `None` when it was removed.
    pub fn node(&self, node: usize) -> Option<&NodeProto> {
        self.nodes.get(node)?.as_ref()
    }

    /// Adds a node anywhere (finishing sorts) and gives its index.
    pub fn add_node(&mut self, node: NodeProto) -> usize {
        self.names.extend(node.output.iter().cloned());
        self.names.insert(node.name().to_owned());
        self.touched.insert(self.nodes.len());
        self.nodes.push(Some(node));
        self.nodes.len() - 1
    }

    /// Removes a node. Its outputs must be unused in the end, or have another producer.
    pub fn remove_node(&mut self, node: usize) {
        if self.touch(node, "remove_node").is_some() {
            let removed = self.nodes[node].take();
            self.touched_tensors.extend(removed.into_iter().flat_map(|n| n.output));
        }
    }

    /// Adds a weight; `bytes` are raw little-endian.
    pub fn add_initializer(
        &mut self,
        name: impl Into<String>,
        element_type: ElementType,
        dims: Vec<i64>,
        bytes: impl Into<Bytes>,
    ) {
        let tensor = build::tensor_raw(name, element_type, dims, bytes);
        self.names.insert(tensor.name().to_owned());
        self.touched_tensors.insert(tensor.name().to_owned());
        self.graph().initializer.push(tensor);
    }

    /// Replaces the content of a weight in its place; the type of a graph input of the same name follows.
    pub fn set_initializer(
        &mut self,
        name: &str,
        element_type: ElementType,
        dims: Vec<i64>,
        bytes: impl Into<Bytes>,
    ) {
        let declared = build::tensor_type(element_type, &dims);
        let new = build::tensor_raw(name, element_type, dims, bytes);
        self.touched_tensors.insert(name.to_owned());
        let graph = self.graph();
        for input in graph.input.iter_mut().filter(|i| i.name() == name) {
            input.r#type = Some(declared.clone());
        }
        match graph.initializer.iter_mut().find(|t| t.name() == name) {
            Some(tensor) => {
                let old = std::mem::replace(tensor, new);
                tensor.doc_string = old.doc_string;
                tensor.metadata_props = old.metadata_props;
            }
            None => self.fail(format!("set_initializer: there is no initializer `{name}`")),
        }
    }

    /// Removes a weight, from the graph inputs too when it is listed there.
    pub fn remove_initializer(&mut self, name: &str) {
        let graph = self.graph();
        let before = graph.initializer.len();
        graph.initializer.retain(|t| t.name() != name);
        graph.input.retain(|i| i.name() != name);
        if graph.initializer.len() == before {
            self.fail(format!("remove_initializer: there is no initializer `{name}`"));
        }
        self.touched_tensors.insert(name.to_owned());
    }

    /// Makes input `input` of a node read `new`; past the last input, the ones between stay absent.
    pub fn replace_input(&mut self, node: usize, input: usize, new: &str) {
        if let Some(node) = self.touch(node, "replace_input") {
            if node.input.len() <= input {
                node.input.resize(input + 1, String::new());
            }
            new.clone_into(&mut node.input[input]);
        }
    }

    /// Makes output `output` of a node be called `new`. Readers of the old name are not changed.
    pub fn replace_output(&mut self, node: usize, output: usize, new: &str) {
        self.names.insert(new.to_owned());
        let Some(changed) = self.touch(node, "replace_output") else { return };
        let Some(name) = changed.output.get_mut(output) else {
            return self.fail(format!("replace_output: node {node} has no output {output}"));
        };
        let old = std::mem::replace(name, new.to_owned());
        self.touched_tensors.insert(old);
    }

    /// Makes every reader of `old`, in subgraphs too, read `new`. Graph outputs keep their names: one called `old` still is
    /// `old`.
    pub fn replace_uses(&mut self, old: &str, new: &str) {
        for index in 0..self.nodes.len() {
            let Some(node) = &mut self.nodes[index] else { continue };
            for input in node.input.iter_mut().filter(|input| *input == old) {
                new.clone_into(input);
                self.touched.insert(index);
            }
            self.replace_captured(index, old, new);
        }
    }

    /// Makes the subgraphs of a node read the outer tensor `new` where they read the outer tensor `old`.
    pub fn replace_captured(&mut self, node: usize, old: &str, new: &str) {
        let reads = self
            .node(node)
            .is_some_and(|n| subgraphs(n).next().is_some() && captured_names(n).contains(old));
        if reads && let Some(node) = self.touch(node, "replace_captured") {
            rename_captured(node, &BTreeMap::from([(old.to_owned(), new.to_owned())]));
        }
    }

    /// Sets an attribute, replacing one of the same name.
    pub fn set_attr(&mut self, node: usize, attribute: AttributeProto) {
        if let Some(node) = self.touch(node, "set_attr") {
            match node.attribute.iter_mut().find(|a| a.name() == attribute.name()) {
                Some(old) => *old = attribute,
                None => node.attribute.push(attribute),
            }
        }
    }

    /// Removes an attribute, if it is there.
    pub fn remove_attr(&mut self, node: usize, name: &str) {
        if let Some(node) = self.touch(node, "remove_attr") {
            node.attribute.retain(|a| a.name() != name);
        }
    }

    /// States another version of the default operator set, without converting nodes: see
    /// [`convert_opset`](crate::convert_opset()) for that.
    pub fn set_opset(&mut self, version: i64) {
        self.set_opset_of("", version);
    }

    /// States the version of an operator domain, adding it when it is new.
    pub fn set_opset_of(&mut self, domain: &str, version: i64) {
        let same = |d: &str| d == domain || (is_default_domain(d) && is_default_domain(domain));
        match self.model.opset_import.iter_mut().find(|i| same(i.domain())) {
            Some(import) => import.version = Some(version),
            None => self.model.opset_import.push(OperatorSetIdProto {
                domain: Some(domain.to_owned()),
                version: Some(version),
            }),
        }
    }

    /// Sets an entry of the model's metadata.
    pub fn set_metadata(&mut self, key: &str, value: &str) {
        let entries = &mut self.model.metadata_props;
        match entries.iter_mut().find(|e| e.key() == key) {
            Some(entry) => entry.value = Some(value.to_owned()),
            None => entries.push(StringStringEntryProto {
                key: Some(key.to_owned()),
                value: Some(value.to_owned()),
            }),
        }
    }

    /// Removes an entry of the model's metadata, if it is there.
    pub fn remove_metadata(&mut self, key: &str) {
        self.model.metadata_props.retain(|entry| entry.key() != key);
    }

    /// Takes weights out of the graph inputs, where old exporters list them; nobody feeds weights, and as inputs they are not
    /// constant for the engine builder.
    pub fn remove_inputs_that_are_initializers(&mut self) {
        let graph = self.graph();
        let weights: BTreeSet<&str> = graph.initializer.iter().map(TensorProto::name).collect();
        graph.input.retain(|input| !weights.contains(input.name()));
    }

    /// Makes a tensor that a node computes an output of the graph, after those it has. Does nothing to one that is an output already.
    pub fn add_output(&mut self, output: ValueInfoProto) {
        let outputs = &mut self.graph().output;
        if outputs.iter().all(|known| known.name() != output.name()) {
            outputs.push(output);
        }
    }

    /// Also drops initializers that nothing reads any more when finishing.
    pub fn remove_unused_initializers(&mut self) {
        self.drop_unused = true;
    }

    /// The changed model: nodes sorted (those already in order stay where they are), stale type statements dropped,
    /// `ir_version` raised where the content needs it, checked.
    pub fn finish(mut self) -> Result<Model, OnnxError> {
        if let Some(reason) = self.fault {
            return Err(OnnxError::Patch { reason });
        }
        let changed = self.changed_outputs();
        let nodes: Vec<NodeProto> = std::mem::take(&mut self.nodes).into_iter().flatten().collect();
        let mut slots: Vec<Option<NodeProto>> = Vec::new();
        let order = topological_order(&nodes)?;
        slots.extend(nodes.into_iter().map(Some));
        self.graph().node = order.into_iter().filter_map(|index| slots[index].take()).collect();
        if self.drop_unused {
            drop_unused_initializers(self.graph());
        }
        drop_stale_types(self.graph(), &changed);
        let needed = needed_ir_version(&self.model);
        if self.model.ir_version() < needed {
            self.model.ir_version = Some(needed);
        }
        let model = Model::from_proto(self.model)?;
        model.check()?;
        Ok(model)
    }

    /// Tensors that a change was made to directly.
    fn changed_outputs(&self) -> BTreeSet<String> {
        let nodes = self.touched.iter().filter_map(|&index| self.nodes[index].as_ref());
        nodes
            .flat_map(|n| n.output.iter().cloned())
            .chain(self.touched_tensors.iter().cloned())
            .collect()
    }
}

fn drop_unused_initializers(graph: &mut GraphProto) {
    let outputs = graph.output.iter().map(ValueInfoProto::name);
    let inputs = graph.node.iter().flat_map(|n| &n.input).map(String::as_str);
    let captured = graph.node.iter().flat_map(captured_names);
    let used: BTreeSet<String> = outputs.chain(inputs).chain(captured).map(str::to_owned).collect();
    let unused: BTreeSet<String> = graph
        .initializer
        .iter()
        .map(|t| t.name().to_owned())
        .filter(|name| !used.contains(name))
        .collect();
    graph.initializer.retain(|t| !unused.contains(t.name()));
    graph.input.retain(|input| !unused.contains(input.name()));
}

/// Drops statements about tensors that are gone, were changed, or have another type than stated.
fn drop_stale_types(graph: &mut GraphProto, changed: &BTreeSet<String>) {
    let stated = std::mem::take(&mut graph.value_info);
    let types = infer_types(graph);
    let defined = defined_names(graph);
    let valid = |info: &ValueInfoProto| {
        let declared =
            tensor_type(info.r#type.as_ref()).map(|t| ElementType::from_onnx(t.elem_type()));
        let agrees = match (types.get(info.name()), declared) {
            (Some(inferred), Some(declared)) => *inferred == declared,
            _ => true,
        };
        agrees && defined.contains(info.name()) && !changed.contains(info.name())
    };
    let kept = stated.into_iter().filter(valid).collect();
    let annotated = |a: &TensorAnnotation| defined.contains(a.tensor_name());
    let annotations =
        graph.quantization_annotation.iter().filter(|a| annotated(a)).cloned().collect();
    graph.quantization_annotation = annotations;
    graph.value_info = kept;
}

/// The lowest `ir_version` that allows what the model holds.
pub(crate) fn needed_ir_version(model: &ModelProto) -> i64 {
    let opset = model
        .opset_import
        .iter()
        .find(|i| is_default_domain(i.domain()))
        .map_or(0, OperatorSetIdProto::version);
    let Some(graph) = &model.graph else { return 0 };
    let inputs: BTreeSet<&str> = graph.input.iter().map(ValueInfoProto::name).collect();
    // Up to version 3, every initializer had to be an input.
    let free_weights = graph.initializer.iter().any(|t| !inputs.contains(t.name()));
    let narrow = |t: &TensorProto| match ElementType::from_onnx(t.data_type()) {
        ElementType::U4 | ElementType::I4 => 10,
        ElementType::F8E4M3Fn | ElementType::F8E5M2 => 9,
        ElementType::Bf16 => 4,
        _ => 0,
    };
    let types = graph.initializer.iter().map(narrow).max().unwrap_or(0);
    minimum_ir_version(opset).max(types).max(if free_weights { 4 } else { 0 })
}
