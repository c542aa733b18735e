//! Element types, dimensions, and the declared type of a tensor.

use std::fmt;

use crate::proto::tensor_shape_proto::dimension::Value as DimValue;
use crate::proto::{TensorShapeProto, TypeProto, ValueInfoProto, type_proto};

/// The element type of a tensor; [`ElementType::Other`] keeps the number of one this crate has no name for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each name is the type and its width in bits")]
pub enum ElementType {
    F32,
    F16,
    Bf16,
    F64,
    I64,
    I32,
    I16,
    I8,
    U64,
    U32,
    U16,
    U8,
    Bool,
    String,
    F8E4M3Fn,
    F8E5M2,
    U4,
    I4,
    Other(i32),
}

/// ONNX's number (`TensorProto.DataType`), our name, the name people know, and the width in bits (0: no fixed width).
const KNOWN: [(i32, ElementType, &str, u64); 18] = [
    (1, ElementType::F32, "float32", 32),
    (2, ElementType::U8, "uint8", 8),
    (3, ElementType::I8, "int8", 8),
    (4, ElementType::U16, "uint16", 16),
    (5, ElementType::I16, "int16", 16),
    (6, ElementType::I32, "int32", 32),
    (7, ElementType::I64, "int64", 64),
    (8, ElementType::String, "string", 0),
    (9, ElementType::Bool, "bool", 8),
    (10, ElementType::F16, "float16", 16),
    (11, ElementType::F64, "float64", 64),
    (12, ElementType::U32, "uint32", 32),
    (13, ElementType::U64, "uint64", 64),
    (16, ElementType::Bf16, "bfloat16", 16),
    (17, ElementType::F8E4M3Fn, "float8e4m3fn", 8),
    (19, ElementType::F8E5M2, "float8e5m2", 8),
    (21, ElementType::U4, "uint4", 4),
    (22, ElementType::I4, "int4", 4),
];

impl ElementType {
    /// From ONNX's `TensorProto.DataType`.
    pub fn from_onnx(number: i32) -> Self {
        KNOWN.iter().find(|row| row.0 == number).map_or(Self::Other(number), |row| row.1)
    }

    /// ONNX's `TensorProto.DataType`.
    pub fn to_onnx(self) -> i32 {
        match self {
            Self::Other(number) => number,
            _ => KNOWN.iter().find(|row| row.1 == self).map_or(0, |row| row.0),
        }
    }

    /// Bits of one element; `None` for strings and unknown types.
    pub fn bits(self) -> Option<u64> {
        match self {
            Self::Other(14) => Some(64),          // complex64
            Self::Other(15) => Some(128),         // complex128
            Self::Other(18 | 20 | 24) => Some(8), // the other float8 kinds
            Self::Other(23) => Some(4),           // float4e2m1
            Self::Other(25 | 26) => Some(2),      // uint2, int2
            _ => KNOWN.iter().find(|row| row.1 == self).map(|row| row.3).filter(|&bits| bits > 0),
        }
    }

    /// Whether this is a floating-point type that activations and weights are computed in (16 bits or more).
    pub fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F16 | Self::Bf16 | Self::F64)
    }

    /// Bytes that `elements` elements take; `None` when unknown or past `u64`.
    pub(crate) fn byte_len(self, elements: u64) -> Option<u64> {
        Some(self.bits()?.checked_mul(elements)?.div_ceil(8))
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match KNOWN.iter().find(|row| row.1 == *self) {
            Some(row) => f.write_str(row.2),
            None => write!(f, "type {}", self.to_onnx()),
        }
    }
}

/// One dimension of a declared shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    /// A known size.
    Fixed(i64),
    /// A symbolic size, such as `batch`.
    Named(String),
    /// No statement (also a negative size, which some exporters write for "any").
    Unknown,
}

impl Dim {
    /// The size, when fixed.
    pub fn fixed(&self) -> Option<i64> {
        match self {
            Self::Fixed(size) => Some(*size),
            _ => None,
        }
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(size) => write!(f, "{size}"),
            Self::Named(name) => f.write_str(name),
            Self::Unknown => f.write_str("?"),
        }
    }
}

/// A graph input or output as declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueInfo {
    /// The tensor's name.
    pub name: String,
    /// Its element type; `Other(0)` when the model states none or it is not a tensor.
    pub element_type: ElementType,
    /// Its shape; `None` when the model does not even state the rank.
    pub shape: Option<Vec<Dim>>,
}

impl ValueInfo {
    pub(crate) fn from_proto(info: &ValueInfoProto) -> Self {
        let tensor = tensor_type(info.r#type.as_ref());
        Self {
            name: info.name().to_owned(),
            element_type: ElementType::from_onnx(tensor.map_or(0, type_proto::Tensor::elem_type)),
            shape: tensor.and_then(|t| t.shape.as_ref()).map(dims_of),
        }
    }
}

/// The tensor part of a declared type, if it is a tensor.
pub(crate) fn tensor_type(declared: Option<&TypeProto>) -> Option<&type_proto::Tensor> {
    match declared?.value.as_ref()? {
        type_proto::Value::TensorType(tensor) => Some(tensor),
        _ => None,
    }
}

pub(crate) fn dims_of(shape: &TensorShapeProto) -> Vec<Dim> {
    let dim = |d: &crate::proto::tensor_shape_proto::Dimension| match &d.value {
        Some(DimValue::DimValue(size)) if *size >= 0 => Dim::Fixed(*size),
        Some(DimValue::DimParam(name)) if !name.is_empty() => Dim::Named(name.clone()),
        _ => Dim::Unknown,
    };
    shape.dim.iter().map(dim).collect()
}
