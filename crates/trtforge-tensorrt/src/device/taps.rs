//! Tensors inside a model, made visible: an engine shows nothing but its outputs.

use trtforge_exec::ExecError;
use trtforge_onnx::build::value_of_any_shape;
use trtforge_onnx::{ElementType, Model, Patch};

use crate::error::TensorRtError;

/// The model with these tensors as further outputs, for [`super::DeviceExecutor::open_tapped`].
///
/// - `taps`: float tensors that nodes of the main graph compute. What an engine would fuse around them it then does not.
pub fn tapped(model: &Model, taps: &[String]) -> Result<Model, TensorRtError> {
    let graph = model.graph();
    let mut patch = Patch::new(model);
    for tap in taps {
        if graph.producer(tap).is_none() {
            return Err(ExecError::UnknownTap { tensor: tap.clone() }.into());
        }
        let element_type = graph.element_type(tap).unwrap_or(ElementType::F32);
        if !element_type.is_float() {
            return Err(ExecError::NotFloat { tensor: tap.clone() }.into());
        }
        patch.add_output(value_of_any_shape(tap, element_type));
    }
    Ok(patch.finish()?)
}
