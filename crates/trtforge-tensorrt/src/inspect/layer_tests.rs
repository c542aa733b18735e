use serde_json::json;

use super::*;
use crate::inspect::compute::Basis;

/// A tensor as TensorRT 10 writes it.
fn tensor(name: &str, format: &str, dims: &[i64]) -> Value {
    json!({ "Name": name, "Location": "Device", "Dimensions": dims, "Format/Datatype": format })
}

/// An INT8 product as TensorRT 10 writes it.
pub(crate) fn int8_product(node: &str) -> Value {
    json!({
        "Name": format!("{node}_myl0_4"),
        "LayerType": "fusion",
        "Inputs": [
            tensor("act", "Int8", &[-1, -1, 64]),
            tensor("w", "Int8", &[64, 64]),
            tensor("scale", "Float", &[64]),
            tensor("bias", "Half", &[64]),
        ],
        "Outputs": [tensor("out", "Half", &[-1, -1, 64])],
        "TacticName": "sm80_xmma_gemm_i8f32_i8i32_f32_tn_n_tilesize64x64x64_stage4_warpsize2x2x1_tensor16x8x32_by_fusion_tactic",
        "StreamId": 0,
        "Metadata": format!("[ONNX Layer: {node}]\u{1f}[ONNX Layer: {node}_bias]"),
    })
}

fn one(layer: &Value) -> EngineLayer {
    let text = json!({ "Layers": [layer], "Bindings": ["x"] }).to_string();
    EngineLayers::from_json(&text).unwrap().layers.remove(0)
}

#[test]
fn a_layer_of_tensorrt_10_is_read() {
    let layer = one(&int8_product("/q/MatMul"));
    assert_eq!(layer.role, LayerRole::Product);
    assert_eq!(layer.origin, ["/q/MatMul", "/q/MatMul_bias"]);
    assert_eq!(layer.inputs[0].number, Some(NumberType::Int8));
    assert_eq!(layer.inputs[0].dims, [-1, -1, 64]);
    assert_eq!(layer.outputs[0].number, Some(NumberType::Fp16));
    assert_eq!(layer.compute.number, Some(NumberType::Int8));
    assert_eq!(layer.compute.basis, Basis::Tactic);
}

#[test]
fn a_layer_of_tensorrt_8_is_read() {
    let layer = one(&json!({
        "Name": "Reformatting CopyNode for Input Tensor 0 to conv1",
        "LayerType": "Reformat",
        "Inputs": [{ "Name": "x", "Dimensions": [1, 3, 8, 8], "Format/Datatype": "Row major linear FP32" }],
        "Outputs": [{ "Name": "y", "Dimensions": [1, 3, 8, 8],
                      "Format/Datatype": "Thirty-two wide channel vectorized row major Int8 format" }],
        "ParameterType": "Reformat", "Origin": "REFORMAT", "TacticValue": "0x00000000000003e8",
    }));
    assert_eq!(layer.role, LayerRole::Reformat);
    assert_eq!(layer.inputs[0].number, Some(NumberType::Fp32));
    assert_eq!(layer.outputs[0].number, Some(NumberType::Int8));
    assert_eq!(layer.compute.number, None);
}

#[test]
fn a_layer_of_tensorrt_11_has_type_and_format_apart() {
    let tensor = |kind: &str| json!({ "Name": "x", "DataType": kind, "Format": "Row major linear format (kLINEAR)", "Dimensions": [-1, 64] });
    let layer = one(&json!({
        "Name": "m", "LayerType": "gemm", "Metadata": "[ONNX Layer: m]",
        "Inputs": [tensor("Half"), tensor("Half")], "Outputs": [tensor("Half")],
    }));
    assert_eq!(layer.inputs[1].number, Some(NumberType::Fp16));
    assert_eq!(layer.compute.number, Some(NumberType::Fp16));
    assert_eq!(layer.compute.basis, Basis::Operands);
}

#[test]
fn what_proves_a_type_and_what_does_not() {
    type Inputs<'a> = &'a [(&'a str, &'a [i64])];
    type Case<'a> = (&'a str, &'a str, Inputs<'a>, Option<NumberType>, bool, &'a str);
    let act: &[i64] = &[-1, -1, 64];
    let weight: &[i64] = &[64, 64];
    let heads: &[i64] = &[-1, 12, -1, 64];
    let cases: [Case<'_>; 12] = [
        (
            "gemm",
            "",
            &[("Int8", act), ("Int8", weight)],
            Some(NumberType::Int8),
            false,
            "all 2 matrices",
        ),
        (
            "gemm",
            "",
            &[("Half", act), ("Half", weight)],
            Some(NumberType::Fp16),
            true,
            "all 2 matrices",
        ),
        // A bias is no operand, a residual could be one.
        (
            "gemm",
            "",
            &[("Int8", act), ("Int8", weight), ("Float", &[64])],
            Some(NumberType::Int8),
            false,
            "all 2",
        ),
        ("gemm", "", &[("Int8", act), ("Int8", weight), ("Half", act)], None, false, "weight-only"),
        // Weight-only: the products run in FP16.
        ("gemm", "", &[("Half", act), ("Int8", weight)], None, false, "weight-only"),
        ("gemm", "", &[("Int8", act)], None, false, "other operand"),
        ("gemm", "", &[("Half", act), ("Float", weight)], None, true, "no INT8"),
        ("gemm", "", &[("N/A due to dynamic shapes", act)], None, false, "dynamic shapes"),
        ("gemm", "", &[("Int64", act)], None, false, "no operand"),
        (
            "kgen",
            "_gemm_mha_v2_0x12",
            &[("Int8", heads), ("Int8", heads)],
            None,
            false,
            "other operand",
        ),
        (
            "kgen",
            "_gemm_mha_v2_0x12",
            &[("Int8", heads), ("Int8", heads), ("Int8", heads)],
            Some(NumberType::Int8),
            false,
            "all 3",
        ),
        ("Myelin", "", &[("Half", act), ("Half", weight)], None, false, "compiled as a whole"),
    ];
    for (kind, tactic, inputs, number, not_int8, words) in cases {
        let inputs: Vec<Value> =
            inputs.iter().map(|(format, dims)| tensor("t", format, dims)).collect();
        let layer = one(&json!({
            "Name": "n", "LayerType": kind, "TacticName": tactic, "Inputs": inputs, "Outputs": [],
        }));
        let compute = &layer.compute;
        assert_eq!((compute.number, compute.not_int8), (number, not_int8), "{layer:?}");
        assert!(compute.why.contains(words), "{}", compute.why);
    }
}

#[test]
fn weights_of_a_floating_type_prove_it_and_int8_weights_do_not() {
    let with = |weights: &str| {
        one(&json!({
            "Name": "conv", "LayerType": "CaskConvolution",
            "Inputs": [tensor("x", "N/A due to dynamic shapes", &[-1, 8])], "Outputs": [],
            "ParameterType": "Convolution", "Weights": { "Type": weights, "Count": 64 },
        }))
        .compute
    };
    assert_eq!((with("Half").number, with("Half").basis), (Some(NumberType::Fp16), Basis::Weights));
    assert_eq!(with("Int8").number, None);
    let strong = one(&json!({
        "Name": "conv", "LayerType": "CaskConvolution", "Weights": { "Type": "Int8", "Count": 64 },
        "Inputs": [tensor("x", "Int8", &[-1, 8])], "Outputs": [],
    }));
    assert_eq!(strong.compute.number, Some(NumberType::Int8));
}

#[test]
fn names_alone_and_nothing_at_all_are_told_apart() {
    let names = EngineLayers::from_json(r#"{"Layers": ["/q/MatMul", "b"]}"#).unwrap();
    assert_eq!(names.detail, Detail::Names);
    assert_eq!(names.layers[0].name, "/q/MatMul");
    assert_eq!(names.layers[0].compute.number, None);
    let nothing = EngineLayers::from_json(r#"{"Layers": []}"#).unwrap();
    assert_eq!(nothing.detail, Detail::Nothing);
}

#[test]
fn fields_of_unexpected_kinds_are_passed_over() {
    let layer = one(&json!({
        "Name": 7, "LayerType": "gemm", "Inputs": "x", "Outputs": [3, { "Dimensions": ["a", 2] }],
        "Metadata": null, "Weights": [1], "TacticName": { "a": 1 },
    }));
    assert_eq!((layer.name.as_str(), layer.inputs.len()), ("", 0));
    assert_eq!(layer.outputs, [LayerTensor { name: String::new(), number: None, dims: vec![2] }]);
    assert_eq!(layer.compute.number, None);
}
