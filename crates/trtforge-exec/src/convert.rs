//! Between our values and those of the CPU library, which holds integers and truth values as 32-bit integers and all
//! floats as FP32.

use ndarray::{ArrayD, IxDyn};
use rten_tensor::prelude::*;
use rten_tensor::{Scalar, Tensor};
use trtforge_onnx::{Dim, ElementType};

use crate::error::ExecError;
use crate::executor::{Port, Value};

/// Checks an input against what the model declares and converts it.
pub(crate) fn to_library(port: &Port, value: &Value) -> Result<rten::Value, ExecError> {
    check_shape(port, value.shape())?;
    let wrong_type = || ExecError::WrongType {
        input: port.name.clone(),
        declared: port.element_type,
        given: value.element_type(),
    };
    match port.element_type {
        ElementType::F32 | ElementType::F16 | ElementType::Bf16 | ElementType::F64 => {
            Ok(tensor(value.as_f32().ok_or_else(wrong_type)?, |x| x).into())
        }
        ElementType::I64 | ElementType::I32 | ElementType::Bool => {
            let held =
                if port.element_type == ElementType::Bool { 0..=1 } else { i32::MIN..=i32::MAX };
            let narrow = |x| i32::try_from(x).ok().filter(|x| held.contains(x));
            Ok(integers(port, value, narrow).ok_or_else(wrong_type)??.into())
        }
        ElementType::U8 => {
            Ok(integers(port, value, |x| u8::try_from(x).ok()).ok_or_else(wrong_type)??.into())
        }
        ElementType::I8 => {
            Ok(integers(port, value, |x| i8::try_from(x).ok()).ok_or_else(wrong_type)??.into())
        }
        _ => Err(wrong_type()),
    }
}

fn check_shape(port: &Port, given: &[usize]) -> Result<(), ExecError> {
    let Some(declared) = &port.shape else { return Ok(()) };
    let fits = |(dim, &size): (&Dim, &usize)| match dim {
        Dim::Fixed(fixed) => usize::try_from(*fixed).is_ok_and(|fixed| fixed == size),
        Dim::Named(_) | Dim::Unknown => true,
    };
    if declared.len() == given.len() && declared.iter().zip(given).all(fits) {
        return Ok(());
    }
    let names: Vec<String> = declared.iter().map(ToString::to_string).collect();
    Err(ExecError::ShapeMismatch {
        input: port.name.clone(),
        given: given.to_vec(),
        declared: names.join(", "),
    })
}

/// Integers of any width as the wanted one; `None` for floats.
fn integers<T: Scalar>(
    port: &Port,
    value: &Value,
    narrow: impl Fn(i64) -> Option<T>,
) -> Option<Result<Tensor<T>, ExecError>> {
    let convert = |x: i64| {
        narrow(x).ok_or_else(|| ExecError::OutOfRange {
            input: port.name.clone(),
            value: x,
            declared: port.element_type,
        })
    };
    match value {
        Value::F32(_) => None,
        Value::I64(array) => Some(all(array, convert)),
        Value::I32(array) => Some(all(array, |x| convert(i64::from(x)))),
        Value::U8(array) => Some(all(array, |x| convert(i64::from(x)))),
        Value::I8(array) => Some(all(array, |x| convert(i64::from(x)))),
        Value::Bool(array) => Some(all(array, |x| convert(i64::from(x)))),
    }
}

fn all<A: Copy, T: Scalar>(
    array: &ArrayD<A>,
    convert: impl Fn(A) -> Result<T, ExecError>,
) -> Result<Tensor<T>, ExecError> {
    let data: Vec<T> = array.iter().map(|&x| convert(x)).collect::<Result<_, _>>()?;
    Ok(Tensor::from_data(array.shape(), data))
}

fn tensor<A: Copy, T: Scalar>(array: &ArrayD<A>, convert: impl Fn(A) -> T) -> Tensor<T> {
    Tensor::from_data(array.shape(), array.iter().map(|&x| convert(x)).collect::<Vec<T>>())
}

/// Converts an output to what the model declares.
pub(crate) fn from_library(port: &Port, value: rten::Value) -> Result<Value, ExecError> {
    match (value, port.element_type) {
        (rten::Value::FloatTensor(t), _) => Ok(Value::F32(array(t, |x| x))),
        (rten::Value::Int32Tensor(t), ElementType::I32) => Ok(Value::I32(array(t, |x| x))),
        (rten::Value::Int32Tensor(t), ElementType::Bool) => Ok(Value::Bool(array(t, |x| x != 0))),
        (rten::Value::Int32Tensor(t), _) => Ok(Value::I64(array(t, i64::from))),
        (rten::Value::UInt8Tensor(t), _) => Ok(Value::U8(array(t, |x| x))),
        (rten::Value::Int8Tensor(t), _) => Ok(Value::I8(array(t, |x| x))),
        _ => Err(ExecError::OutputType { output: port.name.clone() }),
    }
}

fn array<T: Copy, A>(tensor: Tensor<T>, convert: impl Fn(T) -> A) -> ArrayD<A> {
    let shape = IxDyn(tensor.shape());
    let data = tensor.into_data().into_iter().map(convert).collect();
    ArrayD::from_shape_vec(shape, data).expect("a tensor has as many elements as its shape says")
}
