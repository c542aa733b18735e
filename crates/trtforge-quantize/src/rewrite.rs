//! Carrying out a precision plan: constants, casts, renamed tensors. Every tensor gets at most one cast per precision.

use std::collections::{BTreeMap, BTreeSet};

use trtforge_onnx::build::{attr_int, attr_tensor as tensor_attribute, node, tensor_raw};
use trtforge_onnx::{ElementType, Model, Patch, attr_i, attr_tensor, is_op};

use crate::QuantizeError;
use crate::analysis::{Analysis, Constant, Source};
use crate::canonical::ORIGINS;
use crate::half_values::{clamped_bytes, half_bytes};
use crate::mask::MASK_IN_HALF;
use crate::precision::Compute;

/// The two float types a rewritten graph has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Float {
    Half,
    Single,
}

impl Float {
    pub fn element_type(self) -> ElementType {
        match self {
            Self::Half => ElementType::F16,
            Self::Single => ElementType::F32,
        }
    }

    fn suffix(self) -> &'static str {
        match self {
            Self::Half => "half",
            Self::Single => "float",
        }
    }

    /// The float type of a node, if it computes with floats.
    pub fn of(compute: &Compute) -> Option<Self> {
        match compute {
            Compute::Other => None,
            Compute::Half => Some(Self::Half),
            Compute::Single(_) => Some(Self::Single),
        }
    }
}

/// A model on its way from FP32 to the planned precisions.
pub(crate) struct Rewriter<'a, 'm> {
    pub analysis: &'a Analysis<'m>,
    pub compute: &'a [Compute],
    pub masked: &'a BTreeSet<String>,
    pub patch: Patch,
    /// Node count with those added, since removed nodes leave gaps.
    added_until: usize,
    /// Where a tensor exists in a precision: `(tensor, precision)` to its name there.
    places: BTreeMap<(String, Float), String>,
}

impl<'a, 'm> Rewriter<'a, 'm> {
    pub fn new(
        model: &Model,
        analysis: &'a Analysis<'m>,
        compute: &'a [Compute],
        masked: &'a BTreeSet<String>,
    ) -> Self {
        let mut patch = Patch::new(model);
        patch.remove_inputs_that_are_initializers();
        let added_until = analysis.nodes().len();
        Self { analysis, compute, masked, patch, added_until, places: BTreeMap::new() }
    }

    /// Changes every float input of every node, except those listed, which the caller connects itself.
    pub fn apply(&mut self, except: &BTreeSet<(usize, usize)>) {
        self.place_outputs();
        self.place_constants(except);
        for index in 0..self.compute.len() {
            let Some(float) = Float::of(&self.compute[index]) else { continue };
            for (input, name) in self.analysis.nodes()[index].input.iter().enumerate() {
                if self.analysis.is_single(name) && !except.contains(&(index, input)) {
                    let place = self.value(name, float);
                    self.connect(index, input, &place);
                }
            }
            self.retype_attributes(index, float);
        }
    }

    /// Makes an input read another tensor, unless it does already.
    pub fn connect(&mut self, node: usize, input: usize, tensor: &str) {
        if self.analysis.nodes()[node].input[input] != tensor {
            self.patch.replace_input(node, input, tensor);
        }
    }

    /// The name under which `tensor` exists in a precision; adds the one cast that this may take.
    pub fn value(&mut self, tensor: &str, float: Float) -> String {
        let key = (tensor.to_owned(), float);
        if let Some(place) = self.places.get(&key) {
            return place.clone();
        }
        let other = match float {
            Float::Half => Float::Single,
            Float::Single => Float::Half,
        };
        let from = self.places.get(&(tensor.to_owned(), other)).cloned();
        let from = from.unwrap_or_else(|| tensor.to_owned());
        let to = self.patch.unique_name(&format!("{tensor}_{}", float.suffix()));
        self.add_cast(&from, &to, float);
        self.places.insert(key, to.clone());
        to
    }

    fn add_cast(&mut self, from: &str, to: &str, float: Float) {
        let to_type = attr_int("to", i64::from(float.element_type().to_onnx()));
        self.add_node("Cast", from, &[from], to, vec![to_type]);
    }

    /// Adds a node with a unique name made from the tensor it is about.
    pub fn add_node(
        &mut self,
        op: &str,
        about: &str,
        inputs: &[&str],
        output: &str,
        attributes: Vec<trtforge_onnx::proto::AttributeProto>,
    ) -> usize {
        let name = self.patch.unique_name(&format!("{about}_{op}"));
        let index = self.patch.add_node(node(op, &name, inputs, &[output], attributes));
        self.added_until = index + 1;
        index
    }

    /// Says in which precision each computed tensor comes out of its node, and keeps fixed names FP32.
    fn place_outputs(&mut self) {
        for index in 0..self.compute.len() {
            let Some(float) = Float::of(&self.compute[index]) else { continue };
            for (output, name) in self.analysis.nodes()[index].output.iter().enumerate() {
                if !self.analysis.is_computed(name) {
                    continue;
                }
                let mut place = name.clone();
                if float == Float::Half && self.analysis.name_is_fixed(name) {
                    place = self.patch.unique_name(&format!("{name}_half"));
                    self.patch.replace_output(index, output, &place);
                    self.add_cast(&place, name, Float::Single);
                    self.places.insert((name.clone(), Float::Single), name.clone());
                }
                self.places.insert((name.clone(), float), place);
            }
        }
        for input in self.analysis.graph.inputs() {
            if input.element_type == ElementType::F32 {
                self.places.insert((input.name.clone(), Float::Single), input.name);
            }
        }
    }

    /// Stores each constant in the precisions its readers need; one that only FP16 nodes read keeps its name.
    fn place_constants(&mut self, except: &BTreeSet<(usize, usize)>) {
        let analysis = self.analysis;
        for (name, constant) in &analysis.constants {
            let uses = analysis.graph.consumers(name);
            let mut wanted: BTreeSet<Float> = uses
                .iter()
                .filter(|u| !except.contains(&(u.node, u.input)))
                .filter_map(|u| Float::of(&self.compute[u.node]))
                .collect();
            if analysis.name_is_fixed(name) {
                wanted.insert(Float::Single);
            }
            if wanted.contains(&Float::Single) && self.is_clamped(name, constant) {
                self.store_clamped(name, constant);
            }
            if wanted.contains(&Float::Single) {
                self.places.insert(((*name).to_owned(), Float::Single), (*name).to_owned());
            }
            if wanted.contains(&Float::Half) {
                let place = self.store_half(name, constant, wanted.contains(&Float::Single));
                self.places.insert(((*name).to_owned(), Float::Half), place);
            }
        }
    }

    /// Whether the constant is a mask sentinel that FP16 sums could turn into an infinity.
    pub fn is_clamped(&self, name: &str, constant: &Constant) -> bool {
        let stats = constant.stats;
        self.masked.contains(name) && (stats.absmax > MASK_IN_HALF || stats.infinite > 0)
    }

    fn store_half(&mut self, name: &str, constant: &Constant, keep: bool) -> String {
        let limit = if self.is_clamped(name, constant) { MASK_IN_HALF } else { f32::INFINITY };
        let bytes = half_bytes(&constant.bytes, limit);
        let dims = constant.dims.clone();
        if keep {
            let place = self.patch.unique_name(&format!("{name}_half"));
            self.patch.add_initializer(&place, ElementType::F16, dims, bytes);
            return place;
        }
        self.store(name, constant.source, ElementType::F16, dims, bytes);
        name.to_owned()
    }

    /// A sentinel stays clamped in FP32 too: what reads it may be cast to FP16 later on.
    fn store_clamped(&mut self, name: &str, constant: &Constant) {
        let bytes = clamped_bytes(&constant.bytes, MASK_IN_HALF);
        self.store(name, constant.source, ElementType::F32, constant.dims.clone(), bytes);
    }

    fn store(
        &mut self,
        name: &str,
        source: Source,
        element_type: ElementType,
        dims: Vec<i64>,
        bytes: bytes::Bytes,
    ) {
        match source {
            Source::Initializer => self.patch.set_initializer(name, element_type, dims, bytes),
            Source::Node(index) => {
                self.patch.remove_attr(index, "value_float");
                self.patch.remove_attr(index, "value_floats");
                let tensor = tensor_raw("", element_type, dims, bytes);
                self.patch.set_attr(index, tensor_attribute("value", tensor));
            }
        }
    }

    /// Types that attributes state: what a `Cast` makes, what a `ConstantOfShape` fills with.
    fn retype_attributes(&mut self, index: usize, float: Float) {
        let proto = &self.analysis.nodes()[index];
        let single = i64::from(ElementType::F32.to_onnx());
        if is_op(proto, "Cast") && attr_i(proto, "to") == Some(single) && float == Float::Half {
            self.patch.set_attr(index, attr_int("to", i64::from(ElementType::F16.to_onnx())));
        }
        if is_op(proto, "ConstantOfShape") {
            let fill = attr_tensor(proto, "value").map_or(Some(0.0), |tensor| {
                let values = tensor.to_f32().ok()?;
                values.first().copied()
            });
            let Some(fill) = fill else { return };
            let masked = proto.output.iter().any(|o| self.masked.contains(o));
            let limit = if masked { MASK_IN_HALF } else { f32::INFINITY };
            let bytes = match float {
                Float::Half => half_bytes(&fill.to_le_bytes(), limit),
                Float::Single => clamped_bytes(&fill.to_le_bytes(), limit),
            };
            let tensor = tensor_raw("", float.element_type(), vec![1], bytes);
            self.patch.set_attr(index, tensor_attribute("value", tensor));
        }
    }

    /// Drops nodes of the original graph whose outputs nothing reads any more, and then unused weights.
    pub fn finish(mut self) -> Result<Model, QuantizeError> {
        self.remove_unread_constants();
        self.patch.remove_unused_initializers();
        self.patch.remove_metadata(ORIGINS);
        Ok(self.patch.finish()?)
    }

    /// `Constant`, `Transpose` and `Identity` nodes that led to weights which are INT8 now.
    fn remove_unread_constants(&mut self) {
        let mut reads: BTreeMap<String, usize> = BTreeMap::new();
        for node in (0..self.added_until).filter_map(|index| self.patch.node(index)) {
            for input in &node.input {
                *reads.entry(input.clone()).or_default() += 1;
            }
        }
        for index in (0..self.analysis.nodes().len()).rev() {
            let proto = &self.analysis.nodes()[index];
            let candidate = ["Constant", "Transpose", "Identity"].iter().any(|op| is_op(proto, op));
            let read =
                |o: &String| reads.get(o).is_some_and(|&n| n > 0) || self.analysis.name_is_fixed(o);
            let was_read =
                proto.output.iter().any(|o| !self.analysis.graph.consumers(o).is_empty());
            if candidate && was_read && !proto.output.iter().any(read) {
                for input in &proto.input {
                    reads.entry(input.clone()).and_modify(|n| *n -= 1);
                }
                self.patch.remove_node(index);
            }
        }
    }
}
