use serde_json::{Value, json};
use trtforge_onnx::{Dim, build};

use super::*;
use crate::inspect::layer::tests::int8_product;

/// `x ─Q─DQ─┐
///    w ─DQ─┴ q (MatMul) ─ relu ─ p (MatMul, FP32 weight) ─ y`; the second MatMul has no name.
fn model() -> Model {
    let dq = |name: &str, from: &str, to: &str| {
        build::node("DequantizeLinear", name, &[from, "scale"], &[to], vec![])
    };
    let nodes = vec![
        build::node("QuantizeLinear", "x_q", &["x", "scale", "zero"], &["xq"], vec![]),
        dq("x_dq", "xq", "xd"),
        dq("w_dq", "w8", "wd"),
        build::node("MatMul", "q", &["xd", "wd"], &["m"], vec![]),
        build::node("Relu", "relu", &["m"], &["r"], vec![]),
        build::node("MatMul", "", &["r", "w"], &["y"], vec![]),
    ];
    let batch = || Dim::Named("batch".to_owned());
    let x = build::value("x", ElementType::F32, &[batch(), Dim::Fixed(2)]);
    let y = build::value("y", ElementType::F32, &[batch(), Dim::Fixed(2)]);
    let initializers = vec![
        build::tensor_f32("scale", &[], &[0.1]),
        build::tensor_raw("zero", ElementType::I8, vec![], vec![0]),
        build::tensor_raw("w8", ElementType::I8, vec![2, 2], vec![1, 2, 3, 4]),
        build::tensor_f32("w", &[2, 2], &[1.0; 4]),
    ];
    build::model(13, build::graph(vec![x], vec![y], nodes, initializers)).unwrap()
}

fn proof(layers: &[Value]) -> PrecisionProof {
    let text = json!({ "Layers": layers }).to_string();
    PrecisionProof::of(&EngineLayers::from_json(&text).unwrap(), &model())
}

fn layer(name: &str, kind: &str, metadata: &str, format: &str) -> Value {
    let tensor = json!({ "Name": "t", "Dimensions": [-1, 2], "Format/Datatype": format });
    json!({
        "Name": name, "LayerType": kind, "Metadata": metadata,
        "Inputs": [tensor, tensor], "Outputs": [tensor],
    })
}

#[test]
fn each_product_is_found_in_its_layer() {
    let proof = proof(&[
        // A copy that names the product too, before it.
        layer("__myl_Move_myl0_1", "kgen", "[ONNX Layer: q]", "Int8"),
        int8_product("q"),
        layer("second", "gemm", "[ONNX Layer: relu]\u{1f}[ONNX Layer: node_of_y]", "Float"),
    ]);
    assert_eq!(proof.summary(), "1 of 2 matrix multiplications run in INT8, 1 in FP32");
    let [first, second] = &proof.products[..] else { panic!("{proof:?}") };
    assert_eq!((first.graph, first.seen), (Some(NumberType::Int8), Seen::In(NumberType::Int8)));
    assert_eq!(first.layer.as_deref(), Some("q_myl0_4"));
    assert!(first.why.contains("sm80_xmma_gemm_i8f32_i8i32_f32"), "{}", first.why);
    assert_eq!((second.node.as_str(), second.graph), ("node_of_y", Some(NumberType::Fp32)));
    assert_eq!(second.seen, Seen::In(NumberType::Fp32));
}

#[test]
fn an_engine_that_is_int8_in_name_only_is_seen_through() {
    let proof = proof(&[
        layer("x_q_myl0_0", "kgen", "[ONNX Layer: x_q]\u{1f}[ONNX Layer: x_dq]", "Float"),
        layer("w_dq_myl0_1", "kgen", "[ONNX Layer: w_dq]", "Int8"),
        layer("q_myl0_2", "gemm", "[ONNX Layer: q]", "Half"),
        layer("rest", "gemm", "[ONNX Layer: relu]\u{1f}[ONNX Layer: node_of_y]", "Half"),
        layer("Reformatting CopyNode for Output Tensor 0 to rest", "Reformat", "", "Half"),
    ]);
    assert_eq!(proof.summary(), "0 of 2 matrix multiplications run in INT8, 2 in FP16");
    assert_eq!(proof.products[0].graph, Some(NumberType::Int8));
    assert_eq!(proof.quantizers.all, 3);
    assert_eq!(proof.quantizers.left, ["x_q_myl0_0", "w_dq_myl0_1"]);
    assert_eq!(proof.reformats, 1);
}

#[test]
fn fused_regions_and_silent_engines_prove_nothing() {
    let region = layer("{ForeignNode[x_q...node_of_y]}", "Myelin", "", "Float");
    let proof_of_region = proof(&[region]);
    for product in &proof_of_region.products {
        assert_eq!(product.seen, Seen::Unproven);
        assert!(product.why.starts_with("inside a fused region"), "{}", product.why);
        assert_eq!(product.layer.as_deref(), Some("{ForeignNode[x_q...node_of_y]}"));
    }
    assert_eq!(
        proof_of_region.summary(),
        "0 of 2 matrix multiplications run in INT8, 2 not provable"
    );
    let names = proof(&[json!("q"), json!("node_of_y_myl0_3")]);
    assert_eq!(names.products[1].layer.as_deref(), Some("node_of_y_myl0_3"));
    assert!(names.products[0].why.contains("only the layer's name"), "{}", names.products[0].why);
    let nothing = proof(&[]);
    assert!(nothing.products[0].why.contains("says nothing"), "{}", nothing.products[0].why);
    let strangers = proof(&[layer("other", "gemm", "[ONNX Layer: elsewhere]", "Half")]);
    assert!(strangers.products[0].why.contains("no layer of the engine names it"));
}
