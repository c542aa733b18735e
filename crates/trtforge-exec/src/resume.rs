//! Running from a tensor in the middle of a model on: what lies before it is not computed again.

use std::sync::Arc;

use rten::{NodeId, RunOptions};
use rten_tensor::prelude::*;
use trtforge_onnx::ElementType;

use crate::convert::from_library;
use crate::embedded::EmbeddedExecutor;
use crate::error::ExecError;
use crate::executor::{NamedValue, Port, Value};

/// A tensor of a model as the embedded executor holds it: to be given to a later run without a copy.
#[derive(Debug, Clone)]
pub struct HeldTensor(Arc<rten::Value>);

impl HeldTensor {
    /// A float tensor.
    pub fn from_f32(shape: &[usize], values: Vec<f32>) -> Self {
        Self(Arc::new(rten_tensor::Tensor::from_data(shape, values).into()))
    }

    /// Size of each dimension.
    pub fn shape(&self) -> Vec<usize> {
        self.0.as_view().shape().to_vec()
    }

    /// The values of a float tensor in row-major order; none of a tensor of another type.
    pub fn to_f32(&self) -> Option<Vec<f32>> {
        match &*self.0 {
            rten::Value::FloatTensor(tensor) => Some(tensor.to_vec()),
            _ => None,
        }
    }

    /// Shows the values of a float tensor in row-major order, without a copy where they lie so already.
    pub fn with_f32<T>(&self, look: impl FnOnce(&[f32]) -> T) -> Option<T> {
        match &*self.0 {
            rten::Value::FloatTensor(tensor) => Some(look(tensor.to_contiguous().data())),
            _ => None,
        }
    }

    /// The tensor as an executor returns it; integers come as 64-bit ones.
    pub fn into_value(self, name: &str) -> Result<Value, ExecError> {
        let element_type = ElementType::Other(0);
        let port = Port { name: name.to_owned(), element_type, shape: None };
        from_library(&port, Arc::unwrap_or_clone(self.0))
    }
}

impl EmbeddedExecutor {
    /// Computes `wanted` from graph inputs. Unlike outputs and taps they may be of any type.
    ///
    /// A tensor that an optimization computes inside a fused operator must be named in
    /// [`EmbeddedOptions::keep`](crate::EmbeddedOptions::keep).
    pub fn run_holding(
        &self,
        inputs: &[NamedValue],
        wanted: &[&str],
    ) -> Result<Vec<HeldTensor>, ExecError> {
        let bound = self.bind(inputs)?;
        self.compute(bound, wanted)
    }

    /// Computes `wanted` from tensors that are given, wherever in the model they are: only nodes that lie between the two
    /// run. Which tensors that takes besides the one to start from, [`crossing`](crate::crossing) tells.
    ///
    /// The kernels are those of a whole run, so that given tensors of one lead to its outputs to the bit. A tensor
    /// that is missing among those given is an error that names it or what it is computed from.
    pub fn run_from(
        &self,
        given: &[(&str, &HeldTensor)],
        wanted: &[&str],
    ) -> Result<Vec<HeldTensor>, ExecError> {
        let mut bound: Vec<(NodeId, rten::ValueOrView<'_>)> = Vec::new();
        for (name, tensor) in given {
            let id = self.any_id(name)?;
            if bound.iter().any(|(earlier, _)| *earlier == id) {
                return Err(ExecError::DuplicateInput { input: (*name).to_owned() });
            }
            bound.push((id, tensor.0.as_view().into()));
        }
        self.compute(bound, wanted)
    }

    fn compute(
        &self,
        bound: Vec<(NodeId, rten::ValueOrView<'_>)>,
        wanted: &[&str],
    ) -> Result<Vec<HeldTensor>, ExecError> {
        let ids = wanted.iter().map(|name| self.any_id(name)).collect::<Result<Vec<_>, _>>()?;
        // The library refuses to compute a tensor twice, and two names can stand for one tensor.
        let mut distinct: Vec<NodeId> = Vec::new();
        for id in &ids {
            if !distinct.contains(id) {
                distinct.push(*id);
            }
        }
        let options = RunOptions::default().with_thread_pool(self.pool.clone());
        let results = self.model.run(bound, &distinct, Some(options));
        let results = results.map_err(|error| self.run_error(&error))?;
        let results: Vec<Arc<rten::Value>> = results.into_iter().map(Arc::new).collect();
        let held = |id: &NodeId| {
            let at = distinct.iter().position(|other| other == id);
            at.map(|at| HeldTensor(Arc::clone(&results[at])))
        };
        Ok(ids.iter().filter_map(held).collect())
    }

    /// The library's node of a tensor that exists when the model runs: computed, or a graph input.
    fn any_id(&self, name: &str) -> Result<NodeId, ExecError> {
        if self.produced.contains_key(name) {
            return self.tap_id(name);
        }
        let is_value = self.others.contains(name) || self.inputs.iter().any(|p| p.name == name);
        let id = self.model.find_node(name).filter(|_| is_value);
        id.ok_or_else(|| ExecError::UnknownTap { tensor: name.to_owned() })
    }
}
