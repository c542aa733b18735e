//! Between our values and those of the CPU library, which holds integers and truth values as 32-bit integers and all
//! floats as FP32.

use ndarray::{ArrayD, IxDyn};
use rten_tensor::prelude::*;
use rten_tensor::{Scalar, Tensor};
use trtforge_onnx::ElementType;

use crate::binding::{integers, wrong_type};
use crate::error::ExecError;
use crate::executor::{Port, Value};

/// Converts an input, whose shape has been checked, to what the model declares.
pub(crate) fn to_library(port: &Port, value: &Value) -> Result<rten::Value, ExecError> {
    let wrong_type = || wrong_type(port, value);
    match port.element_type {
        ElementType::F32 | ElementType::F16 | ElementType::Bf16 | ElementType::F64 => {
            Ok(tensor(value.as_f32().ok_or_else(wrong_type)?, |x| x).into())
        }
        ElementType::I64 | ElementType::I32 | ElementType::Bool => {
            let held =
                if port.element_type == ElementType::Bool { 0..=1 } else { i32::MIN..=i32::MAX };
            let narrow = |x| i32::try_from(x).ok().filter(|x| held.contains(x));
            Ok(whole(port, value, narrow)?.into())
        }
        ElementType::U8 => Ok(whole(port, value, |x| u8::try_from(x).ok())?.into()),
        ElementType::I8 => Ok(whole(port, value, |x| i8::try_from(x).ok())?.into()),
        _ => Err(wrong_type()),
    }
}

fn whole<T: Scalar>(
    port: &Port,
    value: &Value,
    narrow: impl Fn(i64) -> Option<T>,
) -> Result<Tensor<T>, ExecError> {
    let mut data = Vec::with_capacity(value.shape().iter().product());
    integers(port, value, narrow, |x| data.push(x))?;
    Ok(Tensor::from_data(value.shape(), data))
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
