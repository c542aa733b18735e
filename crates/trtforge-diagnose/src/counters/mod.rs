//! What a GPU's management library (NVML) says of it: clocks, heat, throttling, and how busy its parts were.
//!
//! The library is found at run time; without it there is an error that says so, and nothing else changes.

mod activity;
mod nvml;

use std::ffi::OsStr;

use serde::Serialize;
use thiserror::Error;

pub use activity::{Activity, Source};
pub use nvml::Counters;

/// The library of the driver, as every driver package installs it.
pub const LIBRARY: &str = "libnvidia-ml.so.1";

/// Why there are no counters.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CountersError {
    /// The library does not open, or does not start.
    #[error("the GPU's management library `{library}` cannot be used: {reason}")]
    Library {
        /// File name or path.
        library: String,
        /// What it said.
        reason: String,
    },
    /// The GPU that engines run on is not among those it knows.
    #[error("the GPU's management library knows no `{name}`; it knows {known:?}")]
    NoSuchGpu {
        /// As CUDA names it.
        name: String,
        /// As the library names those it has.
        known: Vec<String>,
    },
}

/// Which GPU, in the terms of CUDA.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// As its driver names it.
    pub name: &'a str,
    /// CUDA's number of it.
    pub ordinal: usize,
    /// `CUDA_VISIBLE_DEVICES`, which renumbers GPUs for CUDA but not for the management library.
    pub visible: Option<&'a str>,
}

impl Wanted<'_> {
    /// What the number means to the management library.
    fn handle(&self) -> Handle<'_> {
        let entry = self.visible.and_then(|list| list.split(',').nth(self.ordinal));
        match entry.map(str::trim) {
            Some(entry) if entry.starts_with("GPU-") || entry.starts_with("MIG-") => {
                Handle::Uuid(entry)
            }
            Some(entry) => entry.parse().map_or(Handle::Index(self.ordinal), Handle::Index),
            None => Handle::Index(self.ordinal),
        }
    }
}

/// A GPU in the terms of the management library.
#[derive(Debug, PartialEq, Eq)]
enum Handle<'a> {
    Index(usize),
    Uuid(&'a str),
}

/// Clocks and heat at one moment. None where the chip or the driver does not tell.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ClockState {
    /// Clock of the multiprocessors.
    pub sm_clock_mhz: Option<u32>,
    /// Clock of the memory.
    pub memory_clock_mhz: Option<u32>,
    /// The highest clock the multiprocessors may have.
    pub max_sm_clock_mhz: Option<u32>,
    /// Of the chip.
    pub temperature_c: Option<u32>,
    /// Power drawn.
    pub power_w: Option<f64>,
    /// Why clocks are held down, in words; empty when they are not.
    pub throttle_reasons: Vec<String>,
    /// Processes that use the device beside this one.
    pub other_processes: Option<u32>,
}

impl ClockState {
    /// Opens the usual library and looks.
    pub fn now(wanted: &Wanted<'_>) -> Result<Self, CountersError> {
        Ok(Counters::open(OsStr::new(LIBRARY), wanted)?.state())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visible_devices_renumber() {
        let of =
            |visible, ordinal| format!("{:?}", Wanted { name: "x", ordinal, visible }.handle());
        let cases = [
            (None, 1, "Index(1)"),
            (Some("3,2"), 1, "Index(2)"),
            (Some(" 5 "), 0, "Index(5)"),
            (Some("0, GPU-ab12"), 1, "Uuid(\"GPU-ab12\")"),
            (Some("3"), 1, "Index(1)"),
            (Some("no-number"), 0, "Index(0)"),
        ];
        for (visible, ordinal, expected) in cases {
            assert_eq!(of(visible, ordinal), expected, "{visible:?} {ordinal}");
        }
    }

    #[test]
    fn a_library_that_is_not_there_is_named() {
        let wanted = Wanted { name: "x", ordinal: 0, visible: None };
        let error = Counters::open(OsStr::new("libno-such-nvml.so.1"), &wanted).err().unwrap();
        assert!(error.to_string().contains("`libno-such-nvml.so.1` cannot be used"), "{error}");
    }
}
