//! Between values of the host and the bytes an engine reads and writes, little-endian as every CUDA host is.

use half::{bf16, f16};
use ndarray::{ArrayD, IxDyn};
use trtforge_exec::binding::{integers, wrong_type};
use trtforge_exec::{ExecError, Port, Value};
use trtforge_onnx::ElementType;

/// Bytes of one element; none for types that no [`Value`] holds.
pub(super) fn bytes_of(element_type: ElementType) -> Option<usize> {
    match element_type {
        ElementType::I64 => Some(8),
        ElementType::F32 | ElementType::I32 => Some(4),
        ElementType::F16 | ElementType::Bf16 => Some(2),
        ElementType::U8 | ElementType::I8 | ElementType::Bool => Some(1),
        _ => None,
    }
}

/// Writes a value as the elements that the engine declares, straight into `to`.
pub(super) fn encode(port: &Port, value: &Value, to: &mut [u8]) -> Result<(), ExecError> {
    match port.element_type {
        ElementType::F32 => floats(port, value, to, f32::to_le_bytes),
        ElementType::F16 => floats(port, value, to, |x| f16::from_f32(x).to_le_bytes()),
        ElementType::Bf16 => floats(port, value, to, |x| bf16::from_f32(x).to_le_bytes()),
        ElementType::I64 => whole(port, value, to, |x| Some(x.to_le_bytes())),
        ElementType::I32 => whole(port, value, to, |x| i32::try_from(x).ok().map(i32::to_le_bytes)),
        ElementType::U8 => whole(port, value, to, |x| u8::try_from(x).ok().map(u8::to_le_bytes)),
        ElementType::I8 => whole(port, value, to, |x| i8::try_from(x).ok().map(i8::to_le_bytes)),
        ElementType::Bool => whole(port, value, to, |x| matches!(x, 0 | 1).then_some([x as u8])),
        _ => Err(wrong_type(port, value)),
    }
}

fn floats<const N: usize>(
    port: &Port,
    value: &Value,
    to: &mut [u8],
    bytes: impl Fn(f32) -> [u8; N],
) -> Result<(), ExecError> {
    let array = value.as_f32().ok_or_else(|| wrong_type(port, value))?;
    for (to, &x) in to.as_chunks_mut::<N>().0.iter_mut().zip(array) {
        *to = bytes(x);
    }
    Ok(())
}

fn whole<const N: usize>(
    port: &Port,
    value: &Value,
    to: &mut [u8],
    bytes: impl Fn(i64) -> Option<[u8; N]>,
) -> Result<(), ExecError> {
    let mut to = to.as_chunks_mut::<N>().0.iter_mut();
    integers(port, value, bytes, |element| {
        if let Some(to) = to.next() {
            *to = element;
        }
    })
}

/// Reads an output. Floats of any width come as FP32; NaN stays NaN.
pub(super) fn decode(port: &Port, dims: &[i64], bytes: &[u8]) -> Result<Value, ExecError> {
    Ok(match port.element_type {
        ElementType::F32 | ElementType::F16 | ElementType::Bf16 => {
            let mut floats = Vec::new();
            widen(port.element_type, bytes, &mut floats);
            array(port, dims, floats)?.into()
        }
        ElementType::I64 => array(port, dims, read(bytes, i64::from_le_bytes))?.into(),
        ElementType::I32 => array(port, dims, read(bytes, i32::from_le_bytes))?.into(),
        ElementType::U8 => array(port, dims, bytes.to_vec())?.into(),
        ElementType::I8 => array(port, dims, read(bytes, i8::from_le_bytes))?.into(),
        ElementType::Bool => array(port, dims, read(bytes, |[x]: [u8; 1]| x != 0))?.into(),
        _ => return Err(ExecError::OutputType { output: port.name.clone() }),
    })
}

/// Reads floats of any width into `floats`, whose memory is used again.
pub(super) fn widen(element_type: ElementType, bytes: &[u8], floats: &mut Vec<f32>) {
    floats.clear();
    match element_type {
        ElementType::F16 => {
            floats.extend(bytes.as_chunks().0.iter().map(|&x| f16::from_le_bytes(x).to_f32()));
        }
        ElementType::Bf16 => {
            floats.extend(bytes.as_chunks().0.iter().map(|&x| bf16::from_le_bytes(x).to_f32()));
        }
        _ => floats.extend(bytes.as_chunks().0.iter().map(|&x| f32::from_le_bytes(x))),
    }
}

fn read<const N: usize, T>(bytes: &[u8], value: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|&x| value(x)).collect()
}

fn array<T>(port: &Port, dims: &[i64], elements: Vec<T>) -> Result<ArrayD<T>, ExecError> {
    let shape: Vec<usize> = dims.iter().map(|&dim| usize::try_from(dim).unwrap_or(0)).collect();
    ArrayD::from_shape_vec(IxDyn(&shape), elements)
        .map_err(|_| ExecError::OutputType { output: port.name.clone() })
}

/// Writes integers as the elements that the engine declares; what they leave is zeroed.
pub(super) fn fill(
    port: &Port,
    values: impl IntoIterator<Item = i64>,
    to: &mut [u8],
) -> Result<(), ExecError> {
    to.fill(0);
    let out_of_range = |value| ExecError::OutOfRange {
        input: port.name.clone(),
        value,
        declared: port.element_type,
    };
    let bytes = bytes_of(port.element_type).unwrap_or(1);
    for (to, value) in to.chunks_exact_mut(bytes).zip(values) {
        let fits = match port.element_type {
            ElementType::I64 => true,
            ElementType::I32 => i32::try_from(value).is_ok(),
            ElementType::U8 => u8::try_from(value).is_ok(),
            ElementType::I8 => i8::try_from(value).is_ok(),
            ElementType::Bool => matches!(value, 0 | 1),
            _ => false,
        };
        if !fits {
            return Err(out_of_range(value));
        }
        // Two's complement: the low bytes are the narrower number.
        to.copy_from_slice(&value.to_le_bytes()[..bytes]);
    }
    Ok(())
}
