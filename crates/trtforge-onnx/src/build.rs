//! Small constructors for nodes, tensors and whole models, for rewriters and tests.

use bytes::Bytes;

use crate::element::{Dim, ElementType};
use crate::error::OnnxError;
use crate::model::Model;
use crate::opset::minimum_ir_version;
use crate::proto::attribute_proto::AttributeType;
use crate::proto::tensor_shape_proto::{Dimension, dimension};
use crate::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    TensorShapeProto, TypeProto, ValueInfoProto, type_proto,
};

/// A node of the default domain; empty input names are absent inputs, an empty `name` is none.
pub fn node(
    operator: &str,
    name: &str,
    inputs: &[&str],
    outputs: &[&str],
    attributes: Vec<AttributeProto>,
) -> NodeProto {
    let owned = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect();
    NodeProto {
        input: owned(inputs),
        output: owned(outputs),
        name: (!name.is_empty()).then(|| name.to_owned()),
        op_type: Some(operator.to_owned()),
        attribute: attributes,
        ..NodeProto::default()
    }
}

fn attribute(name: &str, kind: AttributeType) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(kind as i32),
        ..AttributeProto::default()
    }
}

/// An integer attribute.
pub fn attr_int(name: &str, value: i64) -> AttributeProto {
    AttributeProto { i: Some(value), ..attribute(name, AttributeType::Int) }
}

/// A float attribute.
pub fn attr_float(name: &str, value: f32) -> AttributeProto {
    AttributeProto { f: Some(value), ..attribute(name, AttributeType::Float) }
}

/// A list-of-integers attribute.
pub fn attr_ints(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto { ints: values.to_vec(), ..attribute(name, AttributeType::Ints) }
}

/// A string attribute.
pub fn attr_string(name: &str, value: &str) -> AttributeProto {
    AttributeProto { s: Some(value.as_bytes().to_vec()), ..attribute(name, AttributeType::String) }
}

/// A tensor attribute.
pub fn attr_tensor(name: &str, value: TensorProto) -> AttributeProto {
    AttributeProto { t: Some(value), ..attribute(name, AttributeType::Tensor) }
}

/// A graph attribute.
pub fn attr_graph(name: &str, value: GraphProto) -> AttributeProto {
    AttributeProto { g: Some(value), ..attribute(name, AttributeType::Graph) }
}

/// A tensor from raw little-endian bytes.
pub fn tensor_raw(
    name: impl Into<String>,
    element_type: ElementType,
    dims: Vec<i64>,
    bytes: impl Into<Bytes>,
) -> TensorProto {
    TensorProto {
        name: Some(name.into()),
        dims,
        data_type: Some(element_type.to_onnx()),
        raw_data: Some(bytes.into()),
        ..TensorProto::default()
    }
}

/// A float32 tensor.
pub fn tensor_f32(name: &str, dims: &[i64], values: &[f32]) -> TensorProto {
    let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    tensor_raw(name, ElementType::F32, dims.to_vec(), bytes)
}

/// An int64 tensor.
pub fn tensor_i64(name: &str, dims: &[i64], values: &[i64]) -> TensorProto {
    let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    tensor_raw(name, ElementType::I64, dims.to_vec(), bytes)
}

/// An int8 tensor.
pub fn tensor_i8(name: &str, dims: &[i64], values: &[i8]) -> TensorProto {
    let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    tensor_raw(name, ElementType::I8, dims.to_vec(), bytes)
}

/// A tensor type with fixed sizes.
pub fn tensor_type(element_type: ElementType, dims: &[i64]) -> TypeProto {
    type_of(element_type, &dims.iter().map(|&d| Dim::Fixed(d)).collect::<Vec<_>>())
}

fn type_of(element_type: ElementType, dims: &[Dim]) -> TypeProto {
    let dimension = |dim: &Dim| Dimension {
        denotation: None,
        value: match dim {
            Dim::Fixed(size) => Some(dimension::Value::DimValue(*size)),
            Dim::Named(name) => Some(dimension::Value::DimParam(name.clone())),
            Dim::Unknown => None,
        },
    };
    let shape = TensorShapeProto { dim: dims.iter().map(dimension).collect() };
    let tensor = type_proto::Tensor { elem_type: Some(element_type.to_onnx()), shape: Some(shape) };
    TypeProto { value: Some(type_proto::Value::TensorType(tensor)), denotation: None }
}

/// A graph input or output (or `value_info`).
pub fn value(name: &str, element_type: ElementType, dims: &[Dim]) -> ValueInfoProto {
    ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: Some(type_of(element_type, dims)),
        ..ValueInfoProto::default()
    }
}

/// The same with nothing said about its dimensions.
pub fn value_of_any_shape(name: &str, element_type: ElementType) -> ValueInfoProto {
    let tensor = type_proto::Tensor { elem_type: Some(element_type.to_onnx()), shape: None };
    let of_type =
        TypeProto { value: Some(type_proto::Value::TensorType(tensor)), denotation: None };
    ValueInfoProto { name: Some(name.to_owned()), r#type: Some(of_type), ..Default::default() }
}

/// A graph.
pub fn graph(
    inputs: Vec<ValueInfoProto>,
    outputs: Vec<ValueInfoProto>,
    nodes: Vec<NodeProto>,
    initializers: Vec<TensorProto>,
) -> GraphProto {
    GraphProto {
        node: nodes,
        name: Some("graph".to_owned()),
        initializer: initializers,
        input: inputs,
        output: outputs,
        ..GraphProto::default()
    }
}

/// A model of the default domain, with the lowest `ir_version` its operator set allows (4 at least, so that weights need not
/// be inputs).
pub fn model(opset: i64, graph: GraphProto) -> Result<Model, OnnxError> {
    Model::from_proto(ModelProto {
        ir_version: Some(minimum_ir_version(opset).max(4)),
        opset_import: vec![OperatorSetIdProto {
            domain: Some(String::new()),
            version: Some(opset),
        }],
        producer_name: Some("trtforge".to_owned()),
        graph: Some(graph),
        ..ModelProto::default()
    })
}
