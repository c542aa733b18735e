//! What a loop asks of a device, and how long a device takes on its own.

use std::time::{Duration, Instant};

use trtforge_exec::{ExecError, Executor, NamedValue};

/// Runs batches one after another.
///
/// A GPU's implementation says by events what copies and kernels took; any [`Executor`] is a device by [`HostClock`].
pub trait Device: Sync {
    /// Computes all outputs of a batch; returns once they are in host memory.
    fn run(&self, inputs: &[NamedValue]) -> Result<DeviceRun, ExecError>;
}

/// What came of one batch.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceRun {
    /// As [`Executor::run`] gives them.
    pub outputs: Vec<NamedValue>,
    /// What the device's own clock says; none where only the call can be timed.
    pub events: Option<EventTimes>,
}

/// Times of one batch, or their sums, by events on the device. What is left of the call was spent on launching and waiting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventTimes {
    /// Host to device.
    pub copy_in: Duration,
    /// Kernels.
    pub compute: Duration,
    /// Device to host.
    pub copy_out: Duration,
}

impl EventTimes {
    /// All three.
    pub fn total(&self) -> Duration {
        self.copy_in + self.compute + self.copy_out
    }
}

impl std::ops::AddAssign for EventTimes {
    fn add_assign(&mut self, other: Self) {
        self.copy_in += other.copy_in;
        self.compute += other.compute;
        self.copy_out += other.copy_out;
    }
}

/// An executor whose calls alone can be timed.
#[derive(Clone, Copy)]
pub struct HostClock<'e>(pub &'e dyn Executor);

impl Device for HostClock<'_> {
    fn run(&self, inputs: &[NamedValue]) -> Result<DeviceRun, ExecError> {
        Ok(DeviceRun { outputs: self.0.run(inputs)?, events: None })
    }
}

/// Runs one batch over and over, without any host work in between: the fastest this device can go.
///
/// - returns: the time of each call, after one that is not counted. At least `least` calls, and more until `time` has passed.
pub fn device_only(
    device: &dyn Device,
    inputs: &[NamedValue],
    least: usize,
    time: Duration,
) -> Result<Vec<Duration>, ExecError> {
    // The first call loads code and fills caches.
    device.run(inputs)?;
    let (begin, mut calls) = (Instant::now(), Vec::new());
    while calls.len() < least.max(1) || begin.elapsed() < time {
        let start = Instant::now();
        device.run(inputs)?;
        calls.push(start.elapsed());
    }
    Ok(calls)
}
