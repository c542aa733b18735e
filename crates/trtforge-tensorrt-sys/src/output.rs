//! Memory of an output whose size is known only once it ran.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cuda::{Cuda, CudaError, DeviceBuffer};

/// Grows as TensorRT asks, never shrinks, and hears the shape; clones share it.
#[derive(Debug, Clone)]
pub struct OutputMemory {
    cuda: Cuda,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) buffer: Option<DeviceBuffer>,
    /// Of the last run.
    pub(crate) dims: Vec<i64>,
    /// Why the last request was not met.
    pub(crate) failure: Option<CudaError>,
}

impl OutputMemory {
    pub(crate) fn new(cuda: &Cuda) -> OutputMemory {
        OutputMemory { cuda: cuda.clone(), state: Arc::default() }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called by TensorRT while it puts a run into its stream; 0 means there is no such memory.
    ///
    /// No run is under way then but the one that asks, so what is replaced is in nobody's use.
    pub(crate) fn reserve(&self, bytes: u64, alignment: u64) -> usize {
        let mut state = self.state();
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if let Some(buffer) = state.buffer.as_ref().filter(|buffer| buffer.bytes() >= bytes) {
            return buffer.address() as usize;
        }
        match DeviceBuffer::new(&self.cuda, bytes) {
            // The driver aligns to 256 bytes and TensorRT asks for no more.
            Ok(buffer) if buffer.address().is_multiple_of(alignment.max(1)) => {
                let address = buffer.address() as usize;
                state.buffer = Some(buffer);
                address
            }
            Ok(_) => {
                let reason = format!("no memory aligned to {alignment} bytes");
                state.failure = Some(CudaError::Unusable { reason });
                0
            }
            Err(error) => {
                state.failure = Some(error);
                0
            }
        }
    }

    pub(crate) fn shaped(&self, dims: &[i64]) {
        let mut state = self.state();
        state.dims.clear();
        state.dims.extend_from_slice(dims);
    }
}
