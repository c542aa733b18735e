//! The CUDA driver and its GPUs.

use serde::{Deserialize, Serialize};
use trtforge_tensorrt_sys::Driver;

use crate::error::TensorRtError;

/// One GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// As the driver names it.
    pub name: String,
    /// For example `9.0`.
    pub compute_capability: String,
    /// Total memory.
    pub memory_bytes: u64,
}

/// A CUDA driver that has initialised and sees at least one GPU.
#[derive(Debug)]
pub struct DriverInfo {
    /// The newest CUDA version it serves, for example `13.0`.
    pub cuda_version: String,
    /// At least one.
    pub gpus: Vec<Gpu>,
    /// The proof that a runtime may be made.
    pub(crate) driver: Driver,
}

/// The driver of this machine; an error where there is none, or no GPU.
pub fn driver() -> Result<DriverInfo, TensorRtError> {
    driver_for("running an engine")
}

/// The same, with what it is needed for.
pub(crate) fn driver_for(task: &'static str) -> Result<DriverInfo, TensorRtError> {
    let driver = Driver::open()
        .map_err(|error| TensorRtError::NoDriver { task, reason: error.to_string() })?;
    let dotted = |(major, minor): (u32, u32)| format!("{major}.{minor}");
    let gpu = |device: &trtforge_tensorrt_sys::Device| Gpu {
        name: device.name.clone(),
        compute_capability: dotted(device.compute_capability),
        memory_bytes: device.memory_bytes,
    };
    Ok(DriverInfo {
        cuda_version: dotted(driver.cuda_version()),
        gpus: driver.devices().iter().map(gpu).collect(),
        driver,
    })
}
