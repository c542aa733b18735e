//! Running an engine on its GPU.
//!
//! ```text
//! DeviceExecutor::open(library, plan) ─► Engine, ports, profiles
//!    │ stage(inputs)     chooses the profile, takes a lane from the pool, writes the inputs into page-locked memory
//!    ▼
//! Staged ─ run(how) ─► RunTimes        copies and engine in one stream; allocates nothing
//!        └ outputs()  ─► values
//! ```
//!
//! A lane is one execution context with its stream and memory; it serves one caller at a time. The pool holds as many as were
//! ever in use at once, so threads run side by side and none waits for a lock while the GPU works. A lane's
//! memory grows to the largest shape it has served and is used again for every other.

mod convert;
mod executor;
mod fit;
mod staged;
mod taps;

use std::sync::{Mutex, PoisonError};

use trtforge_exec::Port;
use trtforge_onnx::{ElementType, ValueInfo};
use trtforge_tensorrt_sys::{Cuda, CudaError, Lane, LaneError, LaneTensor};

use crate::driver::{Gpu, driver_for};
use crate::error::TensorRtError;
use crate::library::Library;
use crate::profile::OptimizationProfile;
use crate::runtime::{Engine, check_plan, deserialize_with};
pub use staged::{RunHow, RunTimes, Staged};
pub use taps::tapped;

/// With CUDA graphs a lane is kept for each shape, so that its graph is; not for more shapes than this.
const LANES_WITH_GRAPHS: usize = 16;

/// Where and how an engine runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceOptions {
    /// Which GPU, counted from 0 as the driver does (`CUDA_VISIBLE_DEVICES` renumbers them).
    pub ordinal: usize,
    /// Runs through [`trtforge_exec::Executor`] launch a CUDA graph, captured at the first run of each shape; the lanes
    /// of up to 16 shapes are kept for it.
    pub cuda_graphs: bool,
}

/// An engine on its GPU, with all it needs to run.
pub struct DeviceExecutor {
    pool: Mutex<Vec<Idle>>,
    engine: Engine,
    cuda: Cuda,
    gpu: Gpu,
    options: DeviceOptions,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    /// Outputs of the engine that are none of the model: only for taps.
    hidden: Vec<Port>,
    profiles: Vec<OptimizationProfile>,
}

/// A lane that nobody uses now.
struct Idle {
    lane: Lane,
    /// What it was staged for last.
    key: Key,
}

/// Optimization profile, and the shape of every input.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    profile: usize,
    shapes: Vec<Vec<i64>>,
}

impl DeviceExecutor {
    /// Brings `plan` to life on a GPU of this machine.
    ///
    /// - `library`: of the SDK that built it; a lean or dispatch runtime will do for the plans made for them.
    pub fn open(
        library: &Library,
        plan: &[u8],
        options: &DeviceOptions,
    ) -> Result<Self, TensorRtError> {
        Self::open_tapped(library, plan, options, &[])
    }

    /// The same for a plan that gives more outputs than its model has: those named in `taps` are shown to taps only.
    pub fn open_tapped(
        library: &Library,
        plan: &[u8],
        options: &DeviceOptions,
        taps: &[String],
    ) -> Result<Self, TensorRtError> {
        check_plan(library, plan)?;
        let driver = driver_for("running an engine")?;
        let cuda = Cuda::open(&driver.driver, options.ordinal).map_err(|e| cuda_error(&e))?;
        cuda.bind().map_err(|e| cuda_error(&e))?;
        let mut engine = deserialize_with(library, plan, &driver)?;
        engine.stream_weights()?;
        let (hidden, outputs) =
            engine.outputs()?.into_iter().partition(|output| taps.contains(&output.name));
        let executor = DeviceExecutor {
            pool: Mutex::default(),
            inputs: ports(engine.inputs()?),
            outputs: ports(outputs),
            hidden: ports(hidden),
            profiles: engine.profiles()?,
            // `Cuda::open` has checked the ordinal against the same list.
            gpu: driver.gpus[options.ordinal].clone(),
            options: *options,
            engine,
            cuda,
        };
        executor.check_tensors()?;
        // What is wrong with the engine or the memory of this GPU is said here and not at the first run.
        let lane = executor.new_lane()?;
        executor.put_back(lane, Key { profile: usize::MAX, shapes: Vec::new() });
        Ok(executor)
    }

    /// The engine itself.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Where it runs.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// The shapes it takes; [`DeviceExecutor::stage`] chooses among them.
    pub fn profiles(&self) -> &[OptimizationProfile] {
        &self.profiles
    }

    /// Every tensor must be one whose elements we can write or read, in host terms.
    fn check_tensors(&self) -> Result<(), TensorRtError> {
        let refuse = |tensor: &str, reason: String| {
            Err(TensorRtError::UnsupportedTensor {
                sdk: self.engine.sdk(),
                tensor: tensor.to_owned(),
                reason,
            })
        };
        for port in self.all_ports() {
            if convert::bytes_of(port.element_type).is_none() {
                return refuse(&port.name, format!("its type is {:?}", port.element_type));
            }
        }
        match self.engine.shape_tensors()?.first() {
            Some(name) => refuse(name, "its values steer shapes".to_owned()),
            None => Ok(()),
        }
    }

    fn all_ports(&self) -> impl Iterator<Item = &Port> {
        self.inputs.iter().chain(&self.outputs).chain(&self.hidden)
    }

    /// A lane for these shapes: one that was staged for them if there is one, else any, else a new one.
    fn take(&self, key: &Key) -> Result<Lane, TensorRtError> {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = pool.iter().position(|idle| idle.key == *key) {
            return Ok(pool.swap_remove(index).lane);
        }
        let keep_graphs = self.options.cuda_graphs && pool.len() < LANES_WITH_GRAPHS;
        let unused = |idle: &Idle| idle.key.shapes.is_empty();
        // The one idle for longest lies in front, since what comes back is put at the end.
        let free = if keep_graphs {
            pool.iter().position(unused)
        } else {
            (!pool.is_empty()).then_some(0)
        };
        if let Some(index) = free {
            return Ok(pool.remove(index).lane);
        }
        drop(pool);
        self.new_lane()
    }

    fn put_back(&self, lane: Lane, key: Key) {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner).push(Idle { lane, key });
    }

    fn new_lane(&self) -> Result<Lane, TensorRtError> {
        let outputs = self.outputs.iter().chain(&self.hidden);
        let tensor = |port: &Port, is_input| LaneTensor {
            name: port.name.clone(),
            element_bytes: convert::bytes_of(port.element_type).unwrap_or(0),
            is_input,
        };
        let tensors = self.inputs.iter().map(|port| tensor(port, true));
        let tensors = tensors.chain(outputs.map(|port| tensor(port, false))).collect();
        let lane = Lane::new(self.engine.raw(), &self.cuda, tensors);
        lane.map_err(|error| self.error(error))
    }

    fn error(&self, error: LaneError) -> TensorRtError {
        let (call, what, recorded) = match error {
            LaneError::Cuda(error) => return cuda_error(&error),
            LaneError::Library { call, what, recorded } => (call, what, recorded),
            other @ LaneError::Unready { .. } => ("inferShapes", Some(other.to_string()), vec![]),
            other @ LaneError::TooLarge { .. } => {
                ("setInputShape", Some(other.to_string()), vec![])
            }
        };
        let recorded = recorded.into_iter().map(|error| error.description.trim().to_owned()).next();
        let said: Vec<String> = recorded.into_iter().chain(what).collect();
        let reason = if said.is_empty() { "it gave no reason".to_owned() } else { said.join("; ") };
        TensorRtError::RunFailed {
            sdk: self.engine.sdk(),
            call,
            help: advice(&reason),
            reason,
            log: self.engine.log(),
        }
    }
}

impl Drop for DeviceExecutor {
    fn drop(&mut self) {
        // TensorRT frees its memory on the GPU of the thread.
        let _ = self.cuda.bind();
    }
}

fn ports(infos: Vec<ValueInfo>) -> Vec<Port> {
    let port = |info: ValueInfo| Port {
        name: info.name,
        element_type: info.element_type,
        shape: info.shape,
    };
    infos.into_iter().map(port).collect()
}

/// Whether a tensor of this type comes back as FP32.
fn is_float(element_type: ElementType) -> bool {
    matches!(element_type, ElementType::F32 | ElementType::F16 | ElementType::Bf16)
}

fn cuda_error(error: &CudaError) -> TensorRtError {
    let reason = error.to_string();
    match error {
        CudaError::Unusable { .. } | CudaError::NoSuchGpu { .. } => {
            TensorRtError::NoDriver { task: "running an engine", reason }
        }
        CudaError::Call { .. } | CudaError::Allocation { .. } => {
            let help = if error.is_out_of_memory() {
                MEMORY_ADVICE
            } else {
                "the GPU may have failed an earlier call: run again; `nvidia-smi` and the kernel's log (`dmesg`, Xid) say whether it is healthy"
            };
            TensorRtError::CudaFailed { reason, help }
        }
    }
}

const MEMORY_ADVICE: &str = "free memory of the GPU (`nvidia-smi` lists who holds it), lower `evaluate.batch_size`, or build for smaller shapes";

/// What helps against a failed call, by what the library says.
fn advice(reason: &str) -> &'static str {
    let reason = reason.to_lowercase();
    if ["out of memory", "outofmemory", "out_of_memory", "bad_alloc"]
        .iter()
        .any(|w| reason.contains(w))
    {
        MEMORY_ADVICE
    } else {
        "build the plan again on this machine; if it fails again, the log and the plan's manifest are what its maker needs"
    }
}
