//! Running models and looking at rewritten graphs, for both test files.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod patterns;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ndarray::{ArrayD, IxDyn};
use trtforge_exec::{EmbeddedExecutor, EmbeddedOptions, Executor, NamedValue, Value};
use trtforge_onnx::proto::NodeProto;
use trtforge_onnx::{ElementType, Model, Tensor, attr_i};
use trtforge_quantize::{
    Canonical, CanonicalOptions, HalfOptions, Level, Policy, Rewritten, Scales, canonicalize,
    quantize_with, survey, to_half,
};

/// The folder of the shared cases, where the checkout has it.
pub fn cases() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases");
    if !folder.is_dir() {
        eprintln!("skipped: no shared cases beside the repository");
        return None;
    }
    Some(folder)
}

/// All models of a case, by file name.
pub fn models(case: &Path) -> Vec<(String, Model)> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(case).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "onnx"));
    files.sort();
    assert!(!files.is_empty(), "{}", case.display());
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    files.iter().map(|path| (name(path), Model::open(path).unwrap())).collect()
}

/// Token ids by input name, and the FP32 logits expected for them.
pub struct Feed {
    rows: BTreeMap<String, Vec<Vec<i64>>>,
    pub logits: Vec<Vec<f32>>,
}

impl Feed {
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let mut all: BTreeMap<String, serde_json::Value> = serde_json::from_str(&text).unwrap();
        let logits = serde_json::from_value(all.remove("logits").unwrap()).unwrap();
        let rows = all.into_iter().filter_map(|(name, value)| {
            Some((name, serde_json::from_value::<Vec<Vec<i64>>>(value).ok()?))
        });
        Self { rows: rows.collect(), logits }
    }

    /// Rows of one length without padding, of ids that look random and are the same everywhere; no logits.
    pub fn of_any_ids(rows: usize, length: usize, vocabulary: u32) -> Self {
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            i64::from((state >> 8) % vocabulary)
        };
        let ids = (0..rows).map(|_| (0..length).map(|_| next()).collect()).collect();
        let all = |value: i64| vec![vec![value; length]; rows];
        let named = [
            ("input_ids".to_owned(), ids),
            ("attention_mask".to_owned(), all(1)),
            ("token_type_ids".to_owned(), all(0)),
        ];
        Self { rows: named.into(), logits: vec![vec![]; rows] }
    }

    fn named(
        &self,
        executor: &dyn Executor,
        cut: impl Fn(&[Vec<i64>]) -> Vec<Vec<i64>>,
    ) -> Vec<NamedValue> {
        let value = |name: &str| {
            let rows = cut(&self.rows[name]);
            let shape = IxDyn(&[rows.len(), rows[0].len()]);
            Value::from(ArrayD::from_shape_vec(shape, rows.concat()).unwrap())
        };
        executor.inputs().iter().map(|port| (port.name.clone(), value(&port.name))).collect()
    }

    /// All rows, padded as they are.
    pub fn inputs(&self, executor: &dyn Executor) -> Vec<NamedValue> {
        self.named(executor, <[Vec<i64>]>::to_vec)
    }

    /// One row without its padding.
    fn row(&self, executor: &dyn Executor, row: usize) -> Vec<NamedValue> {
        let length: i64 = self.rows["attention_mask"][row].iter().sum();
        self.named(executor, |rows| vec![rows[row][..length as usize].to_vec()])
    }
}

pub fn executor(model: &Model, keep: Vec<String>) -> EmbeddedExecutor {
    let options = EmbeddedOptions { threads: Some(1), keep, ..EmbeddedOptions::default() };
    EmbeddedExecutor::from_model(model, options).unwrap()
}

/// Largest magnitudes of everything the survey asks for, on the feed's rows without padding.
pub fn magnitudes(model: &Model, feeds: &[&Feed]) -> BTreeMap<String, f32> {
    magnitudes_at(model, Level::Gemm, feeds)
}

/// The same for a higher level.
pub fn magnitudes_at(model: &Model, level: Level, feeds: &[&Feed]) -> BTreeMap<String, f32> {
    let survey = survey(model).unwrap();
    let taps: Vec<String> =
        survey.observe_at(level).into_iter().chain(survey.watch_at(level)).collect();
    let executor = executor(model, taps.clone());
    let mut absmax = BTreeMap::new();
    for feed in feeds {
        for row in 0..feed.logits.len() {
            let inputs = feed.row(&executor, row);
            let mut visit = |name: &str, values: &[f32]| {
                let largest = values.iter().fold(0.0f32, |max, v| max.max(v.abs()));
                let seen = absmax.entry(name.to_owned()).or_insert(0.0f32);
                *seen = seen.max(largest);
            };
            executor.run_tapped(&inputs, &taps, &mut visit).unwrap();
        }
    }
    absmax
}

/// The largest difference from the recorded logits; infinite when an output is not finite.
pub fn difference(model: &Model, feed: &Feed) -> f32 {
    logits(model, feed)
        .iter()
        .zip(feed.logits.concat())
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, worst)
}

pub fn logits(model: &Model, feed: &Feed) -> Vec<f32> {
    let executor = executor(model, vec![]);
    let outputs = executor.run(&feed.inputs(&executor)).unwrap();
    outputs[0].1.as_f32().unwrap().iter().copied().collect()
}

/// NaN counts as infinitely far.
pub fn worst(a: f32, b: f32) -> f32 {
    if b.is_nan() { f32::INFINITY } else { a.max(b) }
}

pub fn half(model: &Model, absmax: &BTreeMap<String, f32>) -> Rewritten {
    to_half(model, absmax, &HalfOptions::default()).unwrap()
}

pub fn int8(model: &Model, absmax: &BTreeMap<String, f32>) -> Rewritten {
    quantize_with(model, &Scales::min_max(absmax.clone()), &Policy::default()).unwrap()
}

pub fn int8_at(model: &Model, level: Level, absmax: &BTreeMap<String, f32>) -> Rewritten {
    let policy = Policy { level, ..Policy::default() };
    quantize_with(model, &Scales::min_max(absmax.clone()), &policy).unwrap()
}

pub fn producer<'m>(model: &'m Model, tensor: &str) -> Option<&'m NodeProto> {
    model.graph_proto().node.iter().find(|node| node.output.iter().any(|o| o == tensor))
}

pub fn initializer<'m>(model: &'m Model, name: &str) -> Option<Tensor<'m>> {
    model.graph().initializer(name)
}

pub fn count(model: &Model, op: &str) -> usize {
    model.graph_proto().node.iter().filter(|node| node.op_type() == op).count()
}

/// A DequantizeLinear of an INT8 initializer.
pub struct DequantizedWeight {
    pub dims: Vec<i64>,
    pub axis: i64,
    pub scales: Vec<f32>,
    pub scale_type: ElementType,
    pub values: Vec<i8>,
}

/// The weight operand of a node, if it is INT8.
pub fn dequantized_weight(model: &Model, node: &NodeProto) -> Option<DequantizedWeight> {
    let dequantize = producer(model, node.input.get(1)?)?;
    if dequantize.op_type() != "DequantizeLinear" {
        return None;
    }
    let weight = initializer(model, &dequantize.input[0])?;
    assert_eq!(weight.element_type, ElementType::I8);
    let scale = initializer(model, &dequantize.input[1]).unwrap();
    let zero = initializer(model, &dequantize.input[2]).unwrap();
    assert_eq!(zero.element_type, ElementType::I8);
    assert!(zero.to_i64().unwrap().iter().all(|&z| z == 0));
    Some(DequantizedWeight {
        dims: weight.dims.clone(),
        axis: attr_i(dequantize, "axis").unwrap(),
        scales: scale.to_f32().unwrap().into_owned(),
        scale_type: scale.element_type,
        values: weight.bytes().iter().map(|b| b.cast_signed()).collect(),
    })
}

/// MatMul and Gemm nodes with both operands quantized.
pub fn quantized_products(model: &Model) -> Vec<&NodeProto> {
    let products = model.graph_proto().node.iter();
    let products = products.filter(|node| matches!(node.op_type(), "MatMul" | "Gemm"));
    products
        .filter(|node| {
            let through_reshape = |name: &str| {
                let mut node = producer(model, name)?;
                while node.op_type() == "Reshape" {
                    node = producer(model, &node.input[0])?;
                }
                (node.op_type() == "DequantizeLinear").then_some(())
            };
            dequantized_weight(model, node).is_some() && through_reshape(&node.input[0]).is_some()
        })
        .collect()
}

/// What holds for everything this crate writes.
pub fn check_written(before: &Model, after: &Rewritten, what: &str) {
    let (old, new) = (before.graph(), after.model.graph());
    after.model.check().unwrap();
    assert_eq!(old.inputs(), new.inputs(), "{what}: inputs");
    assert_eq!(old.outputs(), new.outputs(), "{what}: outputs");
    let nodes = new.nodes();
    let names: Vec<&str> =
        nodes.iter().map(trtforge_onnx::proto::NodeProto::name).filter(|n| !n.is_empty()).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{what}: node names");
    let listed =
        after.model.graph_proto().input.iter().map(trtforge_onnx::proto::ValueInfoProto::name);
    assert!(
        listed.clone().all(|name| new.initializer(name).is_none()),
        "{what}: weights as inputs"
    );
    for (index, node) in nodes.iter().enumerate() {
        check_types(&after.model, node, what);
        if node.op_type() == "Cast" {
            let back = producer(&after.model, &node.input[0]);
            let ours = back.filter(|b| b.op_type() == "Cast" && b.name().ends_with("_Cast"));
            assert!(ours.is_none(), "{what}: cast after cast at node {index}");
        }
    }
    for decision in &after.decisions {
        assert!(!decision.reason.is_empty() && !decision.tensor.is_empty(), "{what}: {decision:?}");
    }
}

/// Operators that demand equal float types get them.
fn check_types(model: &Model, node: &NodeProto, what: &str) {
    const ANY: [&str; 7] =
        ["Cast", "Shape", "If", "QuantizeLinear", "DequantizeLinear", "Constant", "Size"];
    if ANY.contains(&node.op_type()) {
        return;
    }
    let graph = model.graph();
    let names = node.input.iter().chain(&node.output).filter(|n| !n.is_empty());
    let floats: BTreeSet<ElementType> =
        names.filter_map(|n| graph.element_type(n)).filter(|t| t.is_float()).collect();
    assert!(floats.len() <= 1, "{what}: {} {:?} mixes {floats:?}", node.op_type(), node.output);
}

/// Values between `-range` and `range` that look random and are the same everywhere.
pub fn spread(count: usize, range: f32) -> Vec<f32> {
    let mut state = 7_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((state >> 8) as f32 / (1 << 23) as f32 - 1.0) * range
    };
    (0..count).map(|_| next()).collect()
}

/// The canonical form.
pub fn canonical_of(model: &Model) -> Canonical {
    canonicalize(model, &CanonicalOptions::default()).unwrap()
}

/// The canonical form, proven to be one: valid, of equal outputs on any rows, the same names and types outside, and its
/// own canonical form. The model's inputs are FP32, `[batch, 16]`.
pub fn canonical(model: &Model, label: &str) -> Canonical {
    let canonical = canonical_of(model);
    canonical.model.check().unwrap();
    same_interface(model, &canonical.model, label);
    let rows = spread(5 * 16, 3.0);
    let (before, after) = (outputs_of(model, &rows), outputs_of(&canonical.model, &rows));
    for ((name, before), (_, after)) in before.iter().zip(&after) {
        for (a, b) in before.iter().zip(after) {
            assert!(
                (a - b).abs() <= 1e-5 || (a.is_nan() && b.is_nan()),
                "{label}: {name}: {a} is {b}"
            );
        }
    }
    let again = canonicalize(&canonical.model, &CanonicalOptions::default()).unwrap();
    assert_eq!(again.rewrites, [], "{label}");
    assert_eq!(again.model.fingerprint(), canonical.model.fingerprint(), "{label}");
    let same = canonicalize(model, &CanonicalOptions::default()).unwrap();
    assert_eq!(same.model.fingerprint(), canonical.model.fingerprint(), "{label}: deterministic");
    canonical
}

/// The same of a model in which no pattern may be found.
pub fn unchanged(model: &Model, label: &str) -> Canonical {
    let canonical = canonical(model, label);
    assert_eq!(count(&canonical.model, "LayerNormalization"), 0, "{label}");
    assert_eq!(count(&canonical.model, "Gelu"), 0, "{label}");
    assert_eq!(canonical.model.opset(), model.opset(), "{label}");
    canonical
}

/// Inputs and outputs keep names, types and shapes.
pub fn same_interface(before: &Model, after: &Model, label: &str) {
    assert_eq!(before.graph().inputs(), after.graph().inputs(), "{label}");
    assert_eq!(before.graph().outputs(), after.graph().outputs(), "{label}");
}

/// All outputs for rows of 16 values.
pub fn outputs_of(model: &Model, rows: &[f32]) -> Vec<(String, Vec<f32>)> {
    let executor = executor(model, vec![]);
    let inputs: Vec<NamedValue> = executor
        .inputs()
        .iter()
        .map(|port| {
            let array = ArrayD::from_shape_vec(IxDyn(&[rows.len() / 16, 16]), rows.to_vec());
            (port.name.clone(), Value::from(array.unwrap()))
        })
        .collect();
    let outputs = executor.run(&inputs).unwrap();
    let floats = |value: &Value| value.as_f32().map(|array| array.iter().copied().collect());
    outputs.iter().map(|(name, value)| (name.clone(), floats(value).unwrap_or_default())).collect()
}
