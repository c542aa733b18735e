//! Checks every executor makes before it runs: the given tensors against the declared inputs.

use trtforge_onnx::Dim;

use crate::error::ExecError;
use crate::executor::{NamedValue, Port, Value};

/// Puts what was given into the order of the declared inputs: each once, none missing, none unknown, all of fitting shape.
pub fn bind<'v>(ports: &[Port], inputs: &'v [NamedValue]) -> Result<Vec<&'v Value>, ExecError> {
    let names = || ports.iter().map(|port| port.name.clone()).collect();
    for (index, (name, _)) in inputs.iter().enumerate() {
        if ports.iter().all(|port| port.name != *name) {
            return Err(ExecError::UnknownInput { input: name.clone(), known: names() });
        }
        if inputs[..index].iter().any(|(earlier, _)| earlier == name) {
            return Err(ExecError::DuplicateInput { input: name.clone() });
        }
    }
    let value = |port: &Port| {
        let given = inputs.iter().find(|(name, _)| *name == port.name);
        let (_, value) = given
            .ok_or_else(|| ExecError::MissingInput { input: port.name.clone(), wanted: names() })?;
        check_shape(port, value.shape())?;
        Ok(value)
    };
    ports.iter().map(value).collect()
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

/// Gives `put` every element of an integer input, of any width, as the declared type.
///
/// - `narrow`: the element as that type, where it fits.
pub fn integers<T>(
    port: &Port,
    value: &Value,
    narrow: impl Fn(i64) -> Option<T>,
    mut put: impl FnMut(T),
) -> Result<(), ExecError> {
    let mut take = |x: i64| {
        put(narrow(x).ok_or_else(|| ExecError::OutOfRange {
            input: port.name.clone(),
            value: x,
            declared: port.element_type,
        })?);
        Ok(())
    };
    match value {
        Value::F32(_) => Err(wrong_type(port, value)),
        Value::I64(array) => array.iter().try_for_each(|&x| take(x)),
        Value::I32(array) => array.iter().try_for_each(|&x| take(i64::from(x))),
        Value::U8(array) => array.iter().try_for_each(|&x| take(i64::from(x))),
        Value::I8(array) => array.iter().try_for_each(|&x| take(i64::from(x))),
        Value::Bool(array) => array.iter().try_for_each(|&x| take(i64::from(x))),
    }
}

/// That an input cannot become the declared type.
pub fn wrong_type(port: &Port, value: &Value) -> ExecError {
    ExecError::WrongType {
        input: port.name.clone(),
        declared: port.element_type,
        given: value.element_type(),
    }
}
