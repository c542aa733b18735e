//! One constant tensor: shape, type, and its data as bytes or numbers.

use std::borrow::Cow;

use half::{bf16, f16};

use crate::element::ElementType;
use crate::error::OnnxError;
use crate::proto::{NodeProto, TensorProto};

/// A view of a constant tensor of a model; nothing is copied until a conversion asks for it.
#[derive(Clone, Debug)]
pub struct Tensor<'m> {
    /// The tensor's name; of a `Constant` node's value, the name of the node's output.
    pub name: &'m str,
    /// Sizes, outermost first; `[]` is a scalar.
    pub dims: Vec<i64>,
    /// The type of one element.
    pub element_type: ElementType,
    data: Data<'m>,
}

/// Where the data is: `Constant` nodes may also hold plain lists.
#[derive(Clone, Copy, Debug)]
enum Data<'m> {
    Message(&'m TensorProto),
    Floats(&'m [f32]),
    Ints(&'m [i64]),
}

impl<'m> Tensor<'m> {
    /// A view of a tensor message.
    pub fn from_proto(proto: &'m TensorProto) -> Self {
        Self {
            name: proto.name(),
            dims: proto.dims.clone(),
            element_type: ElementType::from_onnx(proto.data_type()),
            data: Data::Message(proto),
        }
    }

    /// The value of a `Constant` node, in whichever attribute it is; `None` for strings and sparse tensors.
    pub(crate) fn of_constant(node: &'m NodeProto) -> Option<Self> {
        let name = node.output.first()?.as_str();
        let list =
            |dims: Vec<i64>, element_type, data| Some(Self { name, dims, element_type, data });
        node.attribute.iter().find_map(|a| match a.name() {
            "value" => Some(Self::from_proto(a.t.as_ref()?).named(name)),
            "value_float" => list(vec![], ElementType::F32, Data::Floats(a.f.as_slice())),
            "value_int" => list(vec![], ElementType::I64, Data::Ints(a.i.as_slice())),
            "value_floats" => {
                list(vec![a.floats.len() as i64], ElementType::F32, Data::Floats(&a.floats))
            }
            "value_ints" => list(vec![a.ints.len() as i64], ElementType::I64, Data::Ints(&a.ints)),
            _ => None,
        })
    }

    pub(crate) fn named(self, name: &'m str) -> Self {
        Self { name, ..self }
    }

    /// The message itself; `None` for a `Constant` node that holds a plain number or list.
    pub fn proto(&self) -> Option<&'m TensorProto> {
        match self.data {
            Data::Message(proto) => Some(proto),
            Data::Floats(_) | Data::Ints(_) => None,
        }
    }

    /// The values, where they lie as `f32` already.
    fn floats(&self) -> Option<&'m [f32]> {
        match self.data {
            Data::Message(p) if p.raw_data.is_none() && self.element_type == ElementType::F32 => {
                Some(&p.float_data)
            }
            Data::Floats(values) => Some(values),
            _ => None,
        }
    }

    /// The values, where they lie as `i64` already.
    fn ints(&self) -> Option<&'m [i64]> {
        match self.data {
            Data::Message(p) if p.raw_data.is_none() && self.element_type == ElementType::I64 => {
                Some(&p.int64_data)
            }
            Data::Ints(values) => Some(values),
            _ => None,
        }
    }

    /// Number of elements by the shape; `usize::MAX` when the shape is absurd (negative or past 64 bits).
    pub fn len(&self) -> usize {
        element_count(&self.dims).and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX)
    }

    /// Whether the shape has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The data, raw little-endian as ONNX's `raw_data` has it, whichever field holds it. Strings have none.
    pub fn bytes(&self) -> Cow<'m, [u8]> {
        let p = match self.data {
            Data::Floats(values) => {
                return Cow::Owned(values.iter().flat_map(|x| x.to_le_bytes()).collect());
            }
            Data::Ints(values) => {
                return Cow::Owned(values.iter().flat_map(|x| x.to_le_bytes()).collect());
            }
            Data::Message(proto) => proto,
        };
        if let Some(raw) = &p.raw_data {
            return Cow::Borrowed(raw);
        }
        if !p.float_data.is_empty() {
            return Cow::Owned(p.float_data.iter().flat_map(|x| x.to_le_bytes()).collect());
        }
        if !p.int64_data.is_empty() {
            return Cow::Owned(p.int64_data.iter().flat_map(|x| x.to_le_bytes()).collect());
        }
        if !p.double_data.is_empty() {
            return Cow::Owned(p.double_data.iter().flat_map(|x| x.to_le_bytes()).collect());
        }
        let width = (self.element_type.bits().unwrap_or(32) as usize).div_ceil(8);
        if !p.uint64_data.is_empty() {
            return Cow::Owned(low_bytes(p.uint64_data.iter().map(|x| x.to_le_bytes()), width));
        }
        Cow::Owned(low_bytes(p.int32_data.iter().map(|x| x.to_le_bytes()), width))
    }

    /// The data, checked to be exactly as long as shape and type say.
    pub(crate) fn checked_bytes(&self) -> Result<Cow<'m, [u8]>, OnnxError> {
        let bytes = self.bytes();
        let expected = element_count(&self.dims).and_then(|n| self.element_type.byte_len(n));
        if expected == Some(bytes.len() as u64) {
            Ok(bytes)
        } else {
            Err(self.size_error(bytes.len() as u64))
        }
    }

    /// The values as `f32`, from float32, float16, bfloat16 or (rounded) float64.
    pub fn to_f32(&self) -> Result<Cow<'m, [f32]>, OnnxError> {
        let bytes = self.checked_bytes()?;
        if let Some(values) = self.floats() {
            return Ok(Cow::Borrowed(values));
        }
        let halves = || bytes.as_chunks::<2>().0.iter();
        Ok(Cow::Owned(match self.element_type {
            ElementType::F32 => numbers(&bytes, f32::from_le_bytes),
            ElementType::F16 => halves().map(|&b| f16::from_le_bytes(b).to_f32()).collect(),
            ElementType::Bf16 => halves().map(|&b| bf16::from_le_bytes(b).to_f32()).collect(),
            ElementType::F64 => numbers(&bytes, |b| f64::from_le_bytes(b) as f32),
            _ => return Err(self.type_error("a floating-point tensor")),
        }))
    }

    /// The values as `i64`, from any integer type or bool.
    pub fn to_i64(&self) -> Result<Cow<'m, [i64]>, OnnxError> {
        let bytes = self.checked_bytes()?;
        if let Some(values) = self.ints() {
            return Ok(Cow::Borrowed(values));
        }
        Ok(Cow::Owned(match self.element_type {
            ElementType::I64 => numbers(&bytes, i64::from_le_bytes),
            ElementType::I32 => numbers(&bytes, |b| i64::from(i32::from_le_bytes(b))),
            ElementType::I16 => numbers(&bytes, |b| i64::from(i16::from_le_bytes(b))),
            ElementType::I8 => numbers(&bytes, |b| i64::from(i8::from_le_bytes(b))),
            ElementType::U32 => numbers(&bytes, |b| i64::from(u32::from_le_bytes(b))),
            ElementType::U16 => numbers(&bytes, |b| i64::from(u16::from_le_bytes(b))),
            ElementType::U8 | ElementType::Bool => bytes.iter().map(|&b| i64::from(b)).collect(),
            _ => return Err(self.type_error("an integer tensor")),
        }))
    }

    /// Checks that the data is as long as shape and type say, without converting large data.
    pub(crate) fn check(&self) -> Result<(), OnnxError> {
        let Some(elements) = element_count(&self.dims) else { return Err(self.size_error(0)) };
        let Data::Message(p) = self.data else { return Ok(()) };
        if self.element_type == ElementType::String {
            let found = p.string_data.len() as u64;
            return if found == elements { Ok(()) } else { Err(self.size_error(found)) };
        }
        let (Some(bits), Some(expected)) =
            (self.element_type.bits(), self.element_type.byte_len(elements))
        else {
            return Err(self.type_error("a tensor of a known type"));
        };
        let found = match &p.raw_data {
            Some(raw) => raw.len() as u64,
            None => typed_len(p, bits),
        };
        if found == expected { Ok(()) } else { Err(self.size_error(found)) }
    }

    fn size_error(&self, found: u64) -> OnnxError {
        let expected = element_count(&self.dims).and_then(|n| self.element_type.byte_len(n));
        OnnxError::TensorSize {
            tensor: self.name.to_owned(),
            element_type: self.element_type.to_string(),
            dims: self.dims.clone(),
            found,
            expected: expected.map_or_else(|| "a sensible number".to_owned(), |n| n.to_string()),
        }
    }

    fn type_error(&self, expected: &'static str) -> OnnxError {
        let found = self.element_type.to_string();
        OnnxError::TensorType { tensor: self.name.to_owned(), found, expected }
    }
}

/// Bytes of data in the typed fields.
fn typed_len(p: &TensorProto, bits: u64) -> u64 {
    let wide = p.float_data.len() * 4 + (p.int64_data.len() + p.double_data.len()) * 8;
    let width = bits.div_ceil(8);
    wide as u64 + (p.int32_data.len() + p.uint64_data.len()) as u64 * width
}

/// Elements of a shape; `None` when a size is negative or the product does not fit.
pub(crate) fn element_count(dims: &[i64]) -> Option<u64> {
    dims.iter().try_fold(1_u64, |n, &dim| n.checked_mul(u64::try_from(dim).ok()?))
}

/// The `width` low bytes of each number (ONNX stores narrow types in `int32_data` and `uint64_data`).
fn low_bytes<const N: usize>(numbers: impl Iterator<Item = [u8; N]>, width: usize) -> Vec<u8> {
    let width = width.min(N);
    numbers.flat_map(|b| b.into_iter().take(width)).collect()
}

fn numbers<const N: usize, T>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|&chunk| read(chunk)).collect()
}
