//! One tensor of a lane, and its memory on both sides.

use crate::cuda::{Cuda, DeviceBuffer, PinnedBuffer};
use crate::lane::{LaneError, LaneTensor};
use crate::output::OutputMemory;

/// One tensor and its memory.
pub(crate) struct Slot {
    pub(crate) tensor: LaneTensor,
    /// Of this staging, or of the last run where only a run tells.
    pub(crate) dims: Vec<i64>,
    pub(crate) bytes: usize,
    pub(crate) device: Option<DeviceBuffer>,
    pub(crate) host: Option<PinnedBuffer>,
    /// For runs without pinned memory; made by the first of them.
    pub(crate) pageable: Vec<u8>,
    /// Where TensorRT takes the memory of an output whose shape only a run tells.
    pub(crate) unknown: Option<OutputMemory>,
}

impl Slot {
    pub(crate) fn shape(&mut self, dims: &[i64]) -> Result<(), LaneError> {
        let size = |dim: i64| usize::try_from(dim).ok();
        let bytes = dims
            .iter()
            .try_fold(self.tensor.element_bytes, |product, &dim| product.checked_mul(size(dim)?))
            .filter(|&bytes| isize::try_from(bytes).is_ok());
        self.bytes = bytes.ok_or_else(|| LaneError::TooLarge {
            tensor: self.tensor.name.clone(),
            shape: dims.to_vec(),
        })?;
        self.dims.clear();
        self.dims.extend_from_slice(dims);
        Ok(())
    }

    pub(crate) fn grow_host(&mut self, cuda: &Cuda) -> Result<(), LaneError> {
        if self.host.as_ref().is_none_or(|host| host.as_slice().len() < self.bytes) {
            self.host = Some(PinnedBuffer::new(cuda, self.bytes)?);
        }
        Ok(())
    }

    pub(crate) fn prepare_pageable(&mut self) {
        if self.pageable.len() < self.bytes {
            self.pageable.resize(self.bytes, 0);
        }
        if let Some(host) = self.host.as_ref().filter(|_| self.tensor.is_input) {
            self.pageable[..self.bytes].copy_from_slice(&host.as_slice()[..self.bytes]);
        }
    }

    pub(crate) fn take_pageable(&mut self) {
        if let Some(host) = self.host.as_mut().filter(|_| !self.tensor.is_input) {
            host.as_mut_slice()[..self.bytes].copy_from_slice(&self.pageable[..self.bytes]);
        }
    }
}
