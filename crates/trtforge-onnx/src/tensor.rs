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
        let Some(bits) = self.element_type.bits() else {
            return Err(self.type_error("a tensor of a known type"));
        };
        let found = match &p.raw_data {
            Some(raw) => raw.len() as u64,
            None => typed_len(p, bits),
        };
        let fits = self.element_type.byte_len(elements) == Some(found);
        if fits { Ok(()) } else { Err(self.size_error(found)) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build;

    fn typed(
        element_type: ElementType,
        dims: &[i64],
        fill: impl Fn(&mut TensorProto),
    ) -> TensorProto {
        let mut proto = build::tensor_raw("t", element_type, dims.to_vec(), vec![]);
        proto.raw_data = None;
        fill(&mut proto);
        proto
    }

    #[test]
    fn typed_fields_and_raw_data_read_alike() {
        use ElementType::{Bf16, Bool, F16, F32, F64, I8, I64, U4, U32};
        let table = [
            (typed(F32, &[1], |t| t.float_data = vec![1.5]), vec![0, 0, 0xc0, 0x3f]),
            // float16 1.5 is 0x3e00, bfloat16 1.5 is 0x3fc0; both are kept in the low half of an int32.
            (typed(F16, &[1], |t| t.int32_data = vec![0x3e00]), vec![0x00, 0x3e]),
            (typed(Bf16, &[1], |t| t.int32_data = vec![0x3fc0]), vec![0xc0, 0x3f]),
            (typed(I8, &[2], |t| t.int32_data = vec![-1, 2]), vec![0xff, 2]),
            (typed(Bool, &[2], |t| t.int32_data = vec![1, 0]), vec![1, 0]),
            (typed(U4, &[3], |t| t.int32_data = vec![0x21, 0x3]), vec![0x21, 0x3]),
            (
                typed(I64, &[1], |t| t.int64_data = vec![-2]),
                vec![0xfe, 255, 255, 255, 255, 255, 255, 255],
            ),
            (typed(U32, &[1], |t| t.uint64_data = vec![7]), vec![7, 0, 0, 0]),
            (typed(F64, &[1], |t| t.double_data = vec![1.5]), vec![0, 0, 0, 0, 0, 0, 0xf8, 0x3f]),
            (typed(F32, &[0], |_| ()), vec![]),
        ];
        for (proto, expected) in &table {
            let tensor = Tensor::from_proto(proto);
            tensor.check().unwrap();
            assert_eq!(*tensor.bytes(), **expected, "{}", tensor.element_type);
            let raw =
                build::tensor_raw("t", tensor.element_type, tensor.dims.clone(), expected.clone());
            Tensor::from_proto(&raw).check().unwrap();
        }
        for (proto, _) in &table[..3] {
            assert_eq!(*Tensor::from_proto(proto).to_f32().unwrap(), [1.5]);
        }
        assert_eq!(*Tensor::from_proto(&table[8].0).to_f32().unwrap(), [1.5]);
        assert_eq!(*Tensor::from_proto(&table[3].0).to_i64().unwrap(), [-1, 2]);
        assert_eq!(*Tensor::from_proto(&table[7].0).to_i64().unwrap(), [7]);
    }

    #[test]
    fn numbers_of_the_wrong_kind_are_refused() {
        let floats = build::tensor_f32("f", &[1], &[1.0]);
        let error = Tensor::from_proto(&floats).to_i64().unwrap_err().to_string();
        assert_eq!(error, "tensor `f` is float32, expected an integer tensor");
        let ints = build::tensor_i64("i", &[1], &[1]);
        let error = Tensor::from_proto(&ints).to_f32().unwrap_err().to_string();
        assert_eq!(error, "tensor `i` is int64, expected a floating-point tensor");
    }

    #[test]
    fn constants_come_in_all_forms() {
        let of = |attribute| {
            let node = build::node("Constant", "", &[], &["c"], vec![attribute]);
            let tensor = Tensor::of_constant(&node).unwrap();
            tensor.check().unwrap();
            (tensor.name.to_owned(), tensor.dims.clone(), tensor.bytes().into_owned())
        };
        let name = || "c".to_owned();
        let le = |x: f32| x.to_le_bytes().to_vec();
        assert_eq!(of(build::attr_float("value_float", 2.0)), (name(), vec![], le(2.0)));
        assert_eq!(
            of(build::attr_int("value_int", 3)),
            (name(), vec![], 3_i64.to_le_bytes().to_vec())
        );
        assert_eq!(of(build::attr_ints("value_ints", &[])), (name(), vec![0], vec![]));
        let value = build::tensor_f32("ignored", &[1], &[2.0]);
        assert_eq!(of(build::attr_tensor("value", value)), (name(), vec![1], le(2.0)));
    }
}
