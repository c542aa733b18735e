//! Memory of the GPU, and memory of the host that the GPU copies from and to without a stop in between.

use std::ptr::NonNull;
use std::slice;

use cudarc::driver::{result, sys};

use super::{Cuda, CudaError};

/// Memory of the GPU.
#[derive(Debug)]
pub(crate) struct DeviceBuffer {
    address: sys::CUdeviceptr,
    bytes: usize,
    cuda: Cuda,
}

impl DeviceBuffer {
    /// At least one byte, so that an empty tensor has an address too.
    pub(crate) fn new(cuda: &Cuda, bytes: usize) -> Result<DeviceBuffer, CudaError> {
        cuda.bind()?;
        // SAFETY: a context is bound; the memory is only read after it was written, by a copy or by the engine.
        let address = unsafe { result::malloc_sync(bytes.max(1)) };
        let address = address.map_err(CudaError::allocating("cuMemAlloc", bytes))?;
        Ok(DeviceBuffer { address, bytes, cuda: cuda.clone() })
    }

    pub(crate) fn address(&self) -> sys::CUdeviceptr {
        self.address
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        // After an error that stays, nothing binds any more; what was made is let go all the same.
        let _ = self.cuda.bind();
        // SAFETY: it comes from `malloc_sync` and is freed once. `cuMemFree` waits for what still uses it. An error here
        // is that of an earlier run, which has been told.
        let _ = unsafe { result::free_sync(self.address) };
    }
}

/// Page-locked memory of the host.
#[derive(Debug)]
pub(crate) struct PinnedBuffer {
    pointer: NonNull<u8>,
    bytes: usize,
    cuda: Cuda,
}

// SAFETY: it is plain memory, which any thread may use; the borrows of its slices keep threads apart.
unsafe impl Send for PinnedBuffer {}
// SAFETY: as above.
unsafe impl Sync for PinnedBuffer {}

impl PinnedBuffer {
    /// Zeroed.
    pub(crate) fn new(cuda: &Cuda, bytes: usize) -> Result<PinnedBuffer, CudaError> {
        const CALL: &str = "cuMemHostAlloc";
        cuda.bind()?;
        // Cached, not write-combined: outputs are read from it.
        // SAFETY: a context is bound.
        let pointer = unsafe { result::malloc_host(bytes.max(1), 0) };
        let pointer = pointer.map_err(CudaError::allocating(CALL, bytes))?.cast::<u8>();
        let pointer = NonNull::new(pointer).ok_or_else(|| CudaError::Unusable {
            reason: format!("`{CALL}` of {bytes} bytes gave no memory and no error"),
        })?;
        // SAFETY: so many bytes were just allocated.
        unsafe { pointer.write_bytes(0, bytes) };
        Ok(PinnedBuffer { pointer, bytes, cuda: cuda.clone() })
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: `bytes` initialised bytes, alive as long as self. The GPU writes them only inside calls that hold `&mut` of
        // the owner and wait for it.
        unsafe { slice::from_raw_parts(self.pointer.as_ptr(), self.bytes) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut` makes it the only view.
        unsafe { slice::from_raw_parts_mut(self.pointer.as_ptr(), self.bytes) }
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        // After an error that stays, nothing binds any more; what was made is let go all the same.
        let _ = self.cuda.bind();
        // SAFETY: it comes from `malloc_host` and is freed once.
        let _ = unsafe { result::free_host(self.pointer.as_ptr().cast()) };
    }
}
