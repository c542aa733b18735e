//! One GPU: its context, memory, streams, events and graphs, over `cudarc`.
//!
//! `cudarc` looks its functions up when they are first called, and panics where the library or one of them is missing.
//! [`Cuda::open`] therefore proves beforehand that the library is there, that it is the one that [`Driver`] has
//! initialised (a build machine's stub `libcuda.so` is another), and that it has every function used here.

mod memory;
mod queue;

use std::sync::{Arc, OnceLock};

use cudarc::driver::result::DriverError as Refusal;
use cudarc::driver::{CudaContext, sys};
use thiserror::Error;

use crate::driver::Driver;

pub(crate) use memory::{DeviceBuffer, PinnedBuffer};
pub(crate) use queue::{Event, Graph, Stream};

/// Every function of the CUDA driver that is called through `cudarc`, by the name in its library.
pub const CUDA_FUNCTIONS: [&str; 27] = [
    "cuInit",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuStreamCreate",
    "cuStreamSynchronize",
    "cuStreamDestroy_v2",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventElapsedTime_v2",
    "cuEventDestroy_v2",
    "cuGraphInstantiateWithFlags",
    "cuGraphUpload",
    "cuGraphLaunch",
    "cuGraphExecDestroy",
    "cuGraphDestroy",
];

/// What the CUDA driver refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CudaError {
    /// The driver that `cudarc` found cannot be used.
    #[error("{reason}")]
    Unusable {
        /// Why.
        reason: String,
    },
    /// There are not so many GPUs.
    #[error("there is no GPU {ordinal}: the driver sees {count}")]
    NoSuchGpu {
        /// The one asked for, from 0.
        ordinal: usize,
        /// How many there are.
        count: usize,
    },
    /// A function failed.
    #[error("`{function}` failed: {name} ({code})")]
    Call {
        /// Name of the function.
        function: &'static str,
        /// `CUresult`.
        code: u32,
        /// Name of the code, for example `CUDA_ERROR_OUT_OF_MEMORY`.
        name: String,
    },
    /// Memory ran out.
    #[error("`{function}` of {bytes} bytes failed: {name} ({code})")]
    Allocation {
        /// Name of the function.
        function: &'static str,
        /// How much was wanted.
        bytes: usize,
        /// `CUresult`.
        code: u32,
        /// Name of the code.
        name: String,
    },
}

impl CudaError {
    fn of(function: &'static str) -> impl Fn(Refusal) -> CudaError {
        move |refusal| CudaError::Call {
            function,
            code: refusal.0 as u32,
            name: format!("{:?}", refusal.0),
        }
    }

    fn allocating(function: &'static str, bytes: usize) -> impl Fn(Refusal) -> CudaError {
        move |refusal| CudaError::Allocation {
            function,
            bytes,
            code: refusal.0 as u32,
            name: format!("{:?}", refusal.0),
        }
    }

    /// Whether memory of the GPU or of the host ran out.
    pub fn is_out_of_memory(&self) -> bool {
        const OUT_OF_MEMORY: u32 = sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY as u32;
        matches!(
            self,
            CudaError::Call { code: OUT_OF_MEMORY, .. }
                | CudaError::Allocation { code: OUT_OF_MEMORY, .. }
        )
    }
}

/// One GPU, ready for work: its primary context, which TensorRT uses too. Clones share it.
#[derive(Debug, Clone)]
pub struct Cuda {
    context: Arc<CudaContext>,
}

impl Cuda {
    /// Takes GPU `ordinal`, counted from 0, of a driver that has initialised.
    pub fn open(driver: &Driver, ordinal: usize) -> Result<Cuda, CudaError> {
        let count = driver.devices().len();
        if ordinal >= count {
            return Err(CudaError::NoSuchGpu { ordinal, count });
        }
        prove(driver)?;
        let context =
            CudaContext::new(ordinal).map_err(CudaError::of("cuDevicePrimaryCtxRetain"))?;
        Ok(Cuda { context })
    }

    /// Makes this GPU the one of the calling thread; TensorRT works on that one.
    pub fn bind(&self) -> Result<(), CudaError> {
        self.context.bind_to_thread().map_err(CudaError::of("cuCtxSetCurrent"))
    }
}

/// Proves that no call through `cudarc` can panic.
fn prove(driver: &Driver) -> Result<(), CudaError> {
    static PROVED: OnceLock<Result<(), String>> = OnceLock::new();
    let proved = PROVED.get_or_init(|| prove_functions(driver.init_address()));
    proved.clone().map_err(|reason| CudaError::Unusable { reason })
}

fn prove_functions(init: usize) -> Result<(), String> {
    // SAFETY: this opens the CUDA driver, which the user installed to be run and which has run already.
    if !unsafe { sys::is_culib_present() } {
        return Err("the CUDA driver was there and now is not".to_owned());
    }
    // SAFETY: as above; it panics only where no library is found, which the line before rules out.
    let library = unsafe { sys::culib() };
    let address = |name: &str| {
        // SAFETY: only the address is taken.
        let found = unsafe { library.get::<*const ()>(name.as_bytes()) };
        found.map_or(0, |symbol| *symbol as usize)
    };
    if let Some(missing) = CUDA_FUNCTIONS.iter().find(|name| address(name) == 0) {
        return Err(format!("the CUDA driver has no `{missing}`: it is older than CUDA 12.8"));
    }
    if address("cuInit") != init {
        return Err(
            "a `libcuda.so` that is not the driver comes first in LD_LIBRARY_PATH (a stub for building?): take its folder out"
                .to_owned(),
        );
    }
    Ok(())
}
