//! What is particular to the embedded executor: what it refuses, and which tensors it can show.

use ndarray::{ArrayD, IxDyn};
use trtforge_exec::{EmbeddedExecutor, EmbeddedOptions, ExecError, Executor, NamedValue};
use trtforge_onnx::build::{
    attr_float, attr_int, graph, model, node, tensor_f32, tensor_raw, value,
};
use trtforge_onnx::proto::{NodeProto, TensorProto};
use trtforge_onnx::{Dim, ElementType, Model};

/// `x` float `[n, 2]` through the given nodes to `y`.
fn small(opset: i64, nodes: Vec<NodeProto>, weights: Vec<TensorProto>) -> Model {
    let port = |name: &str| value(name, ElementType::F32, &[Dim::Named("n".into()), Dim::Fixed(2)]);
    model(opset, graph(vec![port("x")], vec![port("y")], nodes, weights)).unwrap()
}

fn load(model: &Model) -> Result<EmbeddedExecutor, ExecError> {
    EmbeddedExecutor::from_model(model, EmbeddedOptions::default())
}

fn load_keeping(model: &Model, keep: &[&str]) -> EmbeddedExecutor {
    let keep = keep.iter().map(ToString::to_string).collect();
    EmbeddedExecutor::from_model(model, EmbeddedOptions { keep, ..Default::default() }).unwrap()
}

fn x(values: &[f32]) -> [NamedValue; 1] {
    let array = ArrayD::from_shape_vec(IxDyn(&[values.len() / 2, 2]), values.to_vec()).unwrap();
    [("x".to_owned(), array.into())]
}

fn y(executor: &dyn Executor, values: &[f32]) -> Vec<f32> {
    let outputs = executor.run(&x(values)).unwrap();
    outputs[0].1.as_f32().unwrap().iter().copied().collect()
}

/// MatMul and Add, which are fused into one operator.
fn linear() -> Model {
    small(
        13,
        vec![
            node("MatMul", "", &["x", "w"], &["product"], vec![]),
            node("Add", "", &["product", "b"], &["y"], vec![]),
        ],
        vec![tensor_f32("w", &[2, 2], &[1.0, 0.0, 0.0, 1.0]), tensor_f32("b", &[2], &[1.0, 2.0])],
    )
}

#[test]
fn a_tensor_inside_a_fusion_is_refused_unless_kept() {
    let executor = load(&linear()).unwrap();
    assert!(!executor.can_tap("product") && executor.can_tap("y"));
    let error =
        executor.run_tapped(&x(&[1.0, 1.0]), &["product".to_owned()], &mut |_, _| {}).unwrap_err();
    assert!(matches!(error, ExecError::FusedTap { ref tensor } if tensor == "product"), "{error}");

    let executor = load_keeping(&linear(), &["product"]);
    assert!(executor.can_tap("product") && executor.can_tap("y"));
    assert_eq!(executor.outputs().len(), 1);
    let mut seen = Vec::new();
    let outputs = executor
        .run_tapped(&x(&[3.0, 4.0]), &["product".to_owned()], &mut |_, values| {
            seen.extend_from_slice(values);
        })
        .unwrap();
    assert_eq!(seen, [3.0, 4.0]);
    assert_eq!(outputs.len(), 1);
    assert_eq!(y(&executor, &[3.0, 4.0]), [4.0, 6.0]);
}

#[test]
fn unknown_tensors_cannot_be_kept() {
    for name in ["nothing", "x", "w"] {
        let options = EmbeddedOptions { keep: vec![name.to_owned()], ..Default::default() };
        let error = EmbeddedExecutor::from_model(&linear(), options).err().unwrap();
        assert!(matches!(error, ExecError::UnknownTap { ref tensor } if tensor == name), "{error}");
    }
}

#[test]
fn an_unknown_operator_is_named_with_its_node() {
    for (name, label) in [("", "Mystery(y)"), ("layer/mystery", "layer/mystery")] {
        let model = small(13, vec![node("Mystery", name, &["x"], &["y"], vec![])], vec![]);
        let error = load(&model).err().unwrap();
        let ExecError::Unsupported { node, operator, detail } = &error else { panic!("{error}") };
        assert_eq!((node.as_str(), operator.as_str()), (label, "Mystery"));
        assert!(detail.contains("not supported"), "{detail}");
    }
}

#[test]
fn an_unknown_attribute_is_named_with_its_node() {
    let relu = node("Relu", "act", &["x"], &["y"], vec![attr_float("slope", 0.1)]);
    let error = load(&small(13, vec![relu], vec![])).err().unwrap();
    assert!(matches!(error, ExecError::Unsupported { ref node, .. } if node == "act"), "{error}");
    assert!(error.to_string().contains("slope"), "{error}");
}

#[test]
fn a_failing_operator_is_named_with_its_node() {
    let gather = small(
        13,
        vec![
            node("Cast", "", &["x"], &["ids"], vec![attr_int("to", 7)]),
            node("Gather", "embed", &["table", "ids"], &["y"], vec![]),
        ],
        vec![tensor_f32("table", &[3], &[1.0, 2.0, 3.0])],
    );
    let executor = load(&gather).unwrap();
    assert_eq!(y(&executor, &[0.0, 2.0]), [1.0, 3.0]);
    let error = executor.run(&x(&[0.0, 3.0])).unwrap_err();
    let ExecError::Operator { node, operator, .. } = &error else { panic!("{error}") };
    assert_eq!((node.as_str(), operator.as_str()), ("embed", "Gather"));
    assert!(!error.to_string().contains("node#"), "{error}");
}

#[test]
fn element_types_the_library_lacks_are_refused_by_name() {
    let weight = tensor_raw("w", ElementType::Bf16, vec![2, 2], vec![0; 8]);
    let model = small(13, vec![node("MatMul", "", &["x", "w"], &["y"], vec![])], vec![weight]);
    let error = load(&model).err().unwrap();
    assert!(error.to_string().contains("`w`") || error.to_string().contains("\"w\""), "{error}");
}

#[test]
fn fp16_casts_and_weights_are_computed_in_fp32() {
    // 2049 is no FP16 number and would become 2048; 1e-8 would become 0.
    let half_one = 0x3c00_u16.to_le_bytes();
    let model = small(
        13,
        vec![
            node("Cast", "", &["x"], &["half"], vec![attr_int("to", 10)]),
            node("Mul", "", &["half", "one"], &["scaled"], vec![]),
            node("Cast", "", &["scaled"], &["y"], vec![attr_int("to", 1)]),
        ],
        vec![tensor_raw("one", ElementType::F16, vec![1], half_one.to_vec())],
    );
    assert_eq!(y(&load(&model).unwrap(), &[2049.0, 1e-8]), [2049.0, 1e-8]);
}

#[test]
fn quantization_with_an_fp16_scale_works() {
    let half = 0x3800_u16.to_le_bytes();
    let model = small(
        19,
        vec![
            node("Cast", "", &["x"], &["half"], vec![attr_int("to", 10)]),
            node("QuantizeLinear", "", &["half", "scale", "zero"], &["q"], vec![]),
            node("DequantizeLinear", "", &["q", "scale", "zero"], &["dq"], vec![]),
            node("Cast", "", &["dq"], &["y"], vec![attr_int("to", 1)]),
        ],
        vec![
            tensor_raw("scale", ElementType::F16, vec![], half.to_vec()),
            tensor_raw("zero", ElementType::I8, vec![], vec![0]),
        ],
    );
    assert_eq!(y(&load(&model).unwrap(), &[0.8, -100.0]), [1.0, -64.0]);
}

#[test]
fn nan_passes_through_the_operators_of_an_encoder() {
    let operators: [(&str, i64, Vec<&str>, Vec<_>); 8] = [
        ("Softmax", 13, vec!["x"], vec![attr_int("axis", -1)]),
        ("Erf", 13, vec!["x"], vec![]),
        ("Tanh", 13, vec!["x"], vec![]),
        ("Sigmoid", 13, vec!["x"], vec![]),
        ("Exp", 13, vec!["x"], vec![]),
        ("Gelu", 20, vec!["x"], vec![]),
        ("LayerNormalization", 17, vec!["x", "w2"], vec![]),
        ("MatMul", 13, vec!["x", "w"], vec![]),
    ];
    for (operator, opset, inputs, attributes) in operators {
        let weights =
            [tensor_f32("w", &[2, 2], &[1.0, 0.5, 0.25, 1.0]), tensor_f32("w2", &[2], &[1.0, 1.0])];
        let used = weights.into_iter().filter(|w| inputs.contains(&w.name())).collect();
        let model = small(opset, vec![node(operator, "", &inputs, &["y"], attributes)], used);
        let found = y(&load(&model).unwrap(), &[f32::NAN, 1.0, 2.0, 3.0]);
        assert!(found[0].is_nan(), "{operator}: {found:?}");
        assert!(found[2].is_finite() && found[3].is_finite(), "{operator}: {found:?}");
    }
}

/// If this changes, the note at the head of the crate must too.
#[test]
fn nan_becomes_level_zero_in_quantization() {
    let model = small(
        13,
        vec![
            node("QuantizeLinear", "", &["x", "scale", "zero"], &["q"], vec![]),
            node("DequantizeLinear", "", &["q", "scale", "zero"], &["y"], vec![]),
        ],
        vec![
            tensor_f32("scale", &[], &[0.5]),
            tensor_raw("zero", ElementType::I8, vec![], vec![0]),
        ],
    );
    assert_eq!(y(&load(&model).unwrap(), &[f32::NAN, f32::INFINITY]), [0.0, 63.5]);
}

#[test]
fn a_missing_file_is_an_error() {
    let path = std::path::Path::new("no/such/model.onnx");
    let error = EmbeddedExecutor::load(path, EmbeddedOptions::default()).err().unwrap();
    assert!(matches!(error, ExecError::Model(_)), "{error}");
    assert!(error.to_string().contains("model.onnx"), "{error}");
}
