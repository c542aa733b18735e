//! How long engines take, measured so that two of them can be compared.
//!
//! What flows: subjects (an engine at one shape, ready to run any number of times) are [`measure`]d by turns into [`Samples`], of which
//! [`spread`] tells the distribution and [`paired_ratio`] how many times as fast one is as another, and how sure that is. [`launch_test`] and
//! [`copy_test`] ask single questions of the same subjects. Nothing here knows what a subject is; all time is what it says its runs took, so
//! that a test needs no clock.

mod copies;
mod launch;
mod ratio;
mod schedule;
mod statistics;

pub use copies::{CopyTest, CopyTimes, copy_test};
pub use launch::{LaunchTest, LaunchTimes, launch_test};
pub use ratio::{Ratio, paired_ratio};
pub use schedule::{Entry, Limits, Samples, measure};
pub use statistics::{Spread, median, nearest_rank, spread};

/// How a run is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct How {
    /// Launches are replayed from a CUDA graph.
    pub graph: bool,
    /// Copies go through page-locked host memory.
    pub pinned: bool,
}

impl How {
    /// Launched one by one, through page-locked memory.
    pub const PLAIN: Self = Self { graph: false, pinned: true };
    /// Replayed from a CUDA graph.
    pub const GRAPH: Self = Self { graph: true, pinned: true };
    /// Copied from and to memory that the system may move, as most services do without knowing.
    pub const PAGEABLE: Self = Self { graph: false, pinned: false };
}

/// What one run took, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Times {
    /// By the host's clock, until the outputs are on the host.
    pub total_us: f64,
    /// By the device's clock; none where it has none of its own.
    pub device: Option<DeviceTimes>,
}

/// What one run took by the clocks of a device, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DeviceTimes {
    /// By the host's clock, until the call that submits the work has returned.
    pub enqueue_us: f64,
    /// Host to device.
    pub copy_in_us: f64,
    /// Kernels, and gaps between them.
    pub compute_us: f64,
    /// Device to host.
    pub copy_out_us: f64,
}

/// An engine at one shape with its inputs in place.
pub trait Subject {
    /// Why it cannot run.
    type Error;

    /// Runs once, start to end.
    fn run(&mut self, how: How) -> Result<Times, Self::Error>;
}

#[cfg(test)]
mod fake;
