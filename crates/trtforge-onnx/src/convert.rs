//! Raising the default operator set without changing what a model computes.
//!
//! What changed in which version is the table in `opset.rs`; here is how a node of the version before is written in the
//! new one.

use std::collections::{BTreeMap, BTreeSet};

use crate::attribute::{
    attr, attr_f, attr_ints, attr_s, is_default_domain, node_label, subgraphs_mut,
};
use crate::build;
use crate::element::ElementType;
use crate::error::OnnxError;
use crate::graph::Graph;
use crate::model::Model;
use crate::opset::{RULES, Rule};
use crate::patch::needed_ir_version;
use crate::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
};
use crate::walk::all_names;

/// The operator sets that can be converted from.
const FIRST: i64 = 7;
/// The newest operator set that can be converted to.
const LAST: i64 = 21;

/// Raises the default operator set of a model to `target` (at most 21), rewriting the nodes whose meaning or form changed so
/// that the model computes exactly what it did, in subgraphs and model-local functions too. A model that has `target` or
/// a newer set comes back unchanged. Names of tensors and nodes stay.
pub fn convert_opset(model: &Model, target: i64) -> Result<Model, OnnxError> {
    let from = model.opset();
    if from >= target {
        return Ok(model.clone());
    }
    if from < FIRST || target > LAST {
        let found = if from < FIRST { from } else { target };
        return Err(OnnxError::OpsetRange { found, from: FIRST, to: LAST });
    }
    let mut converter = Converter::new(model, from, target);
    let mut proto = model.proto().clone();
    if let Some(graph) = &mut proto.graph {
        converter.graph(graph)?;
    }
    converter.functions(&mut proto)?;
    raise(&mut proto.opset_import, target);
    proto.ir_version = Some(proto.ir_version().max(needed_ir_version(&proto)));
    let converted = Model::from_proto(proto)?;
    converted.check()?;
    Ok(converted)
}

fn raise(imports: &mut [OperatorSetIdProto], target: i64) {
    imports
        .iter_mut()
        .filter(|i| is_default_domain(i.domain()))
        .for_each(|i| i.version = Some(target));
}

struct Converter {
    from: i64,
    target: i64,
    names: BTreeSet<String>,
    /// Rank of each tensor, where known.
    ranks: BTreeMap<String, usize>,
    types: BTreeMap<String, ElementType>,
}

impl Converter {
    fn new(model: &Model, from: i64, target: i64) -> Self {
        let mut names = BTreeSet::new();
        all_names(model.graph_proto(), &mut names);
        let graph = Graph::new(model.graph_proto());
        let known = |name: &String| Some((name.clone(), graph.shape(name)?.len()));
        let typed = |name: &String| Some((name.clone(), graph.element_type(name)?));
        let ranks = names.iter().filter_map(known).collect();
        let types = names.iter().filter_map(typed).collect();
        Self { from, target, names, ranks, types }
    }

    fn graph(&mut self, graph: &mut GraphProto) -> Result<(), OnnxError> {
        for node in &mut graph.node {
            subgraphs_mut(node).try_for_each(|inner| self.graph(inner))?;
        }
        graph.node = self.nodes(std::mem::take(&mut graph.node), self.from)?;
        Ok(())
    }

    /// Functions state their operator set themselves; one operator set must do for the model and them.
    fn functions(&mut self, model: &mut ModelProto) -> Result<(), OnnxError> {
        for function in &mut model.functions {
            let imports = &function.opset_import;
            let Some(from) = imports
                .iter()
                .find(|i| is_default_domain(i.domain()))
                .map(OperatorSetIdProto::version)
            else {
                continue;
            };
            // Tensor names of a function are its own: nothing is known of them.
            let mut own = Self {
                from,
                target: self.target,
                ranks: BTreeMap::new(),
                types: BTreeMap::new(),
                names: BTreeSet::new(),
            };
            let body = GraphProto { node: function.node.clone(), ..GraphProto::default() };
            all_names(&body, &mut own.names);
            own.names.extend(function.input.iter().cloned());
            for node in &mut function.node {
                subgraphs_mut(node).try_for_each(|inner| own.graph(inner))?;
            }
            function.node = own.nodes(std::mem::take(&mut function.node), from)?;
            if from < self.target {
                raise(&mut function.opset_import, self.target);
            }
        }
        Ok(())
    }

    fn nodes(&mut self, nodes: Vec<NodeProto>, from: i64) -> Result<Vec<NodeProto>, OnnxError> {
        let mut nodes = nodes;
        for version in from + 1..=self.target {
            let mut converted = Vec::with_capacity(nodes.len());
            for (index, node) in nodes.into_iter().enumerate() {
                let rule = RULES.iter().find(|row| row.1 == version && row.0 == node.op_type());
                match rule.filter(|_| is_default_domain(node.domain())) {
                    None => converted.push(node),
                    Some(row) => self.apply(row.2, node, index, &mut converted)?,
                }
            }
            nodes = converted;
        }
        Ok(nodes)
    }

    /// Writes `node` in its new form to the end of `out`, after the constants it needs.
    fn apply(
        &mut self,
        rule: Rule,
        mut node: NodeProto,
        index: usize,
        out: &mut Vec<NodeProto>,
    ) -> Result<(), OnnxError> {
        let n = &mut node;
        match rule {
            Rule::Refused(reason) => return Err(self.refusal(n, index, reason)),
            Rule::Renamed(operator) => n.op_type = Some(operator.to_owned()),
            Rule::AxesInput => self.move_to_input(n, "axes", 1, out),
            Rule::SplitInput => self.move_to_input(n, "split", 1, out),
            Rule::SliceInputs => {
                self.move_to_input(n, "starts", 1, out);
                self.move_to_input(n, "ends", 2, out);
                self.move_to_input(n, "axes", 3, out);
            }
            Rule::TopKInput => {
                let k = take(n, "k").and_then(|a| a.i);
                let k = k.ok_or_else(|| self.refusal(n, index, "it has no `k`"))?;
                self.add_input(n, "k", 1, build::tensor_i64("", &[1], &[k]), out);
            }
            Rule::DftAxisInput => {
                let axis = take(n, "axis").and_then(|a| a.i).unwrap_or(1);
                self.add_input(n, "axis", 2, build::tensor_i64("", &[], &[axis]), out);
            }
            Rule::ClipInputs => self.clip(n, index, out)?,
            Rule::PadInputs => self.pad(n, index, out)?,
            Rule::SplitCount => state_output_count(n),
            Rule::RoiAlignMode => state_roi_align_mode(n),
            Rule::GridSampleModes => rename_grid_sample_mode(n),
            Rule::DropoutInference => self.dropout(n, index)?,
            Rule::NoSpatial => self.drop_spatial(n, index)?,
            Rule::OneOutput => self.keep_first_output(n, index)?,
            Rule::SoftmaxAxis => {
                self.softmax(node, out);
                return Ok(());
            }
        }
        out.push(node);
        Ok(())
    }

    fn drop_spatial(&self, node: &mut NodeProto, index: usize) -> Result<(), OnnxError> {
        match take(node, "spatial").and_then(|a| a.i) {
            Some(0) => Err(self.refusal(
                node,
                index,
                "per-activation normalization (`spatial` = 0) was removed",
            )),
            _ => Ok(()),
        }
    }

    fn keep_first_output(&self, node: &mut NodeProto, index: usize) -> Result<(), OnnxError> {
        if node.output.iter().skip(1).any(|o| !o.is_empty()) {
            return Err(self.refusal(node, index, "it has training outputs, which changed"));
        }
        node.output.truncate(1);
        Ok(())
    }

    fn refusal(&self, node: &NodeProto, index: usize, reason: &str) -> OnnxError {
        OnnxError::Convert {
            node: node_label(node, index),
            operator: node.op_type().to_owned(),
            from: self.from,
            to: self.target,
            reason: reason.to_owned(),
        }
    }

    fn unique(&mut self, base: &str) -> String {
        let mut name = base.to_owned();
        let mut number = 0;
        while !self.names.insert(name.clone()) {
            number += 1;
            name = format!("{base}_{number}");
        }
        name
    }

    /// Adds a constant in front of a node and makes it input `input` of it.
    fn add_input(
        &mut self,
        node: &mut NodeProto,
        what: &str,
        input: usize,
        value: TensorProto,
        out: &mut Vec<NodeProto>,
    ) {
        let base = node.output.first().cloned().unwrap_or_default();
        let name = self.unique(&format!("{base}_{what}"));
        let node_name = self.unique(&format!("{name}_constant"));
        out.push(build::node(
            "Constant",
            &node_name,
            &[],
            &[&name],
            vec![build::attr_tensor("value", value)],
        ));
        if node.input.len() <= input {
            node.input.resize(input + 1, String::new());
        }
        node.input[input] = name;
    }

    /// Turns a list attribute into an input, if it is there.
    fn move_to_input(
        &mut self,
        node: &mut NodeProto,
        name: &str,
        input: usize,
        out: &mut Vec<NodeProto>,
    ) {
        if let Some(attribute) = take(node, name) {
            let value = build::tensor_i64("", &[attribute.ints.len() as i64], &attribute.ints);
            self.add_input(node, name, input, value, out);
        }
    }

    /// A scalar of the type of a node's first input; the type is float32 where nothing says otherwise.
    fn float_like(
        &self,
        node: &NodeProto,
        index: usize,
        value: f32,
    ) -> Result<TensorProto, OnnxError> {
        let input = node.input.first().and_then(|name| self.types.get(name));
        let bytes = match input.unwrap_or(&ElementType::F32) {
            ElementType::F32 => value.to_le_bytes().to_vec(),
            ElementType::F16 => half::f16::from_f32(value).to_le_bytes().to_vec(),
            ElementType::F64 => f64::from(value).to_le_bytes().to_vec(),
            _ => {
                return Err(self.refusal(
                    node,
                    index,
                    "its input is no float16, float32 or float64",
                ));
            }
        };
        Ok(build::tensor_raw("", *input.unwrap_or(&ElementType::F32), vec![], bytes))
    }

    fn clip(
        &mut self,
        node: &mut NodeProto,
        index: usize,
        out: &mut Vec<NodeProto>,
    ) -> Result<(), OnnxError> {
        for (input, name) in [(1, "min"), (2, "max")] {
            if let Some(value) = attr_f(node, name) {
                let bound = self.float_like(node, index, value)?;
                take(node, name);
                self.add_input(node, name, input, bound, out);
            }
        }
        Ok(())
    }

    fn pad(
        &mut self,
        node: &mut NodeProto,
        index: usize,
        out: &mut Vec<NodeProto>,
    ) -> Result<(), OnnxError> {
        if attr_ints(node, "pads").is_none() {
            return Err(self.refusal(node, index, "it has no `pads`"));
        }
        self.move_to_input(node, "pads", 1, out);
        if let Some(value) = attr_f(node, "value") {
            let fill = self.float_like(node, index, value)?;
            take(node, "value");
            self.add_input(node, "value", 2, fill, out);
        }
        Ok(())
    }

    /// In inference, which these models are for, the ratio has no effect.
    fn dropout(&mut self, node: &mut NodeProto, index: usize) -> Result<(), OnnxError> {
        if node.output.get(1).is_some_and(|mask| !mask.is_empty()) {
            return Err(self.refusal(
                node,
                index,
                "its mask, which it gives out, got another meaning",
            ));
        }
        take(node, "ratio");
        Ok(())
    }

    /// Before 13, the axes from `axis` (default 1) on were one; since then, `axis` (default −1) is one axis. Same thing when
    /// it is the last; else the tensor is flattened around the operator.
    fn softmax(&mut self, mut node: NodeProto, out: &mut Vec<NodeProto>) {
        let axis = take(&mut node, "axis").and_then(|a| a.i).unwrap_or(1);
        let rank = node.input.first().and_then(|name| self.ranks.get(name)).copied();
        let last = axis == -1 || rank.is_some_and(|rank| axis + 1 == rank as i64);
        node.attribute.push(build::attr_int("axis", -1));
        if last {
            return out.push(node);
        }
        let (input, output) = (
            node.input.first().cloned().unwrap_or_default(),
            node.output.first().cloned().unwrap_or_default(),
        );
        let name = |converter: &mut Self, what: &str| converter.unique(&format!("{output}_{what}"));
        let (shape, flat, result) =
            (name(self, "shape"), name(self, "flat"), name(self, "flat_result"));
        let (shape_node, flat_node, back_node) =
            (name(self, "Shape"), name(self, "Flatten"), name(self, "Reshape"));
        out.push(build::node("Shape", &shape_node, &[&input], &[&shape], vec![]));
        out.push(build::node(
            "Flatten",
            &flat_node,
            &[&input],
            &[&flat],
            vec![build::attr_int("axis", axis)],
        ));
        node.input = vec![flat];
        node.output = vec![result.clone()];
        out.push(node);
        out.push(build::node("Reshape", &back_node, &[&result, &shape], &[&output], vec![]));
    }
}

/// Takes an attribute out of a node.
fn take(node: &mut NodeProto, name: &str) -> Option<AttributeProto> {
    let at = node.attribute.iter().position(|a| a.name() == name)?;
    Some(node.attribute.remove(at))
}

fn state_output_count(split: &mut NodeProto) {
    if split.input.get(1).is_none_or(String::is_empty) {
        split.attribute.push(build::attr_int("num_outputs", split.output.len() as i64));
    }
}

fn state_roi_align_mode(node: &mut NodeProto) {
    const MODE: &str = "coordinate_transformation_mode";
    if attr(node, MODE).is_none() {
        node.attribute.push(build::attr_string(MODE, "output_half_pixel"));
    }
}

fn rename_grid_sample_mode(node: &mut NodeProto) {
    let new = match attr_s(node, "mode") {
        Some("bilinear") => "linear",
        Some("bicubic") => "cubic",
        _ => return,
    };
    take(node, "mode");
    node.attribute.push(build::attr_string("mode", new));
}
