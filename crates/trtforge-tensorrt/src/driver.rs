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

/// The driver's own version, such as `580.65.06`; none where the kernel does not say.
pub fn driver_version() -> Option<String> {
    version_in(&std::fs::read_to_string("/proc/driver/nvidia/version").ok()?)
}

/// `NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 07:22:21 UTC 2025`
fn version_in(text: &str) -> Option<String> {
    let version = |word: &&str| {
        word.contains('.') && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    };
    text.lines().next()?.split_whitespace().find(version).map(str::to_owned)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_number_in_the_first_line() {
        let cases = [
            (
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build",
                Some("580.65.06"),
            ),
            (
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104  Wed\nGCC version: 12.2.0",
                Some("535.104"),
            ),
            ("NVRM version: none\nGCC version: 12.2.0", None),
            ("", None),
        ];
        for (text, version) in cases {
            assert_eq!(version_in(text).as_deref(), version, "{text}");
        }
    }
}
