//! Runs of one shape.

use trtforge_exec::{NamedValue, Port, binding};
use trtforge_tensorrt_sys::{Lane, LaneError, LaneRun};

use super::{DeviceExecutor, Key, convert, fit};
use crate::error::TensorRtError;

/// How one run goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunHow {
    /// Copy the inputs to the GPU before and the outputs back after. Without, the engine reads what was copied last, or
    /// what was staged if nothing was.
    pub copies: bool,
    /// Launch the engine as a CUDA graph, captured at the first such run. Where that is not possible it runs without,
    /// and [`Staged::graph_refusal`] says why.
    pub graph: bool,
    /// Copy between page-locked memory and the GPU. Without, through memory as any allocator gives it: only to measure
    /// what page-locking is worth.
    pub pinned: bool,
}

impl Default for RunHow {
    fn default() -> Self {
        RunHow { copies: true, graph: false, pinned: true }
    }
}

/// Where the time of one run went, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RunTimes {
    /// On the host, until `enqueueV3` or the launch of the graph returned.
    pub enqueue_us: f64,
    /// Host to device, by CUDA events.
    pub copy_in_us: f64,
    /// The engine, by CUDA events.
    pub compute_us: f64,
    /// Device to host, by CUDA events.
    pub copy_out_us: f64,
    /// On the host, from before the first copy until everything is done.
    pub total_us: f64,
    /// Whether a CUDA graph was launched.
    pub graph: bool,
}

/// One shape with its inputs in place, to be run any number of times. Running allocates nothing, but for the first run with
/// a graph, the first without pinned memory, and an output that grew although the shapes of the inputs did not.
pub struct Staged<'e> {
    executor: &'e DeviceExecutor,
    /// Always there, but while it goes back to the pool.
    lane: Option<Lane>,
    key: Key,
    /// A lane that failed may be in any state and does not go back.
    failed: bool,
    copied: bool,
}

impl DeviceExecutor {
    /// Prepares runs of these inputs: chooses the optimization profile, sets the shapes, makes what memory is missing, and
    /// writes the inputs into page-locked memory, as the types that the engine declares.
    pub fn stage(&self, inputs: &[NamedValue]) -> Result<Staged<'_>, TensorRtError> {
        let values = binding::bind(&self.inputs, inputs)?;
        let dims = |shape: &[usize]| shape.iter().map(|&dim| dim as i64).collect();
        let shapes = values.iter().map(|value| dims(value.shape())).collect();
        let mut staged = self.stage_shapes(shapes)?;
        for (port, value) in self.inputs.iter().zip(values) {
            staged.write(port, |to| convert::encode(port, value, to))?;
        }
        Ok(staged)
    }

    /// The same without inputs, which are then written with [`Staged::fill`].
    ///
    /// - `shapes`: of every input, in the order of [`trtforge_exec::Executor::inputs`].
    pub fn stage_shapes(&self, shapes: Vec<Vec<i64>>) -> Result<Staged<'_>, TensorRtError> {
        let profile = fit::choose(&self.profiles, &self.inputs, &shapes)?;
        let key = Key { profile, shapes };
        let lane = self.take(&key)?;
        let mut staged =
            Staged { executor: self, lane: Some(lane), key, failed: false, copied: false };
        let shapes: Vec<Vec<i64>> = staged.key.shapes.clone();
        let shapes: Vec<&[i64]> = shapes.iter().map(Vec::as_slice).collect();
        staged.with_lane(|lane| lane.stage(profile as i32, &shapes))?;
        Ok(staged)
    }
}

impl Staged<'_> {
    /// The optimization profile that serves this shape, from 0.
    pub fn profile(&self) -> usize {
        self.key.profile
    }

    /// Why runs with a graph go without, if they do.
    pub fn graph_refusal(&self) -> Option<&str> {
        self.lane.as_ref().and_then(Lane::graph_refusal)
    }

    /// Writes an integer input straight into the memory it is copied to the GPU from: what a tokenizer gives goes nowhere else
    /// in between.
    ///
    /// - `values`: in row-major order, as many as the shape has; positions after the last are 0.
    pub fn fill(
        &mut self,
        input: &str,
        values: impl IntoIterator<Item = i64>,
    ) -> Result<(), TensorRtError> {
        let executor = self.executor;
        let known = || executor.inputs.iter().map(|port| port.name.clone()).collect();
        let port = executor.inputs.iter().find(|port| port.name == input);
        let port = port.ok_or_else(|| trtforge_exec::ExecError::UnknownInput {
            input: input.to_owned(),
            known: known(),
        })?;
        self.write(port, |to| convert::fill(port, values, to))
    }

    fn write(
        &mut self,
        port: &Port,
        write: impl FnOnce(&mut [u8]) -> Result<(), trtforge_exec::ExecError>,
    ) -> Result<(), TensorRtError> {
        let memory = self.lane.as_mut().and_then(|lane| lane.input_mut(&port.name));
        memory.map_or(Ok(()), write).map_err(TensorRtError::from)
    }

    /// Runs once and waits.
    pub fn run(&mut self, how: RunHow) -> Result<RunTimes, TensorRtError> {
        let RunHow { copies, graph, pinned } = how;
        let times = self.with_lane(|lane| lane.run(LaneRun { copies, graph, pinned }))?;
        self.copied |= copies;
        Ok(RunTimes {
            enqueue_us: times.enqueue_us,
            copy_in_us: times.copy_in_us,
            compute_us: times.compute_us,
            copy_out_us: times.copy_out_us,
            total_us: times.total_us,
            graph: times.graph,
        })
    }

    /// The outputs as the last run with copies left them, in the engine's order.
    pub fn outputs(&self) -> Result<Vec<NamedValue>, TensorRtError> {
        let value = |port: &Port| {
            let (dims, bytes) = self.output(&port.name)?;
            Ok((port.name.clone(), convert::decode(port, dims, bytes)?))
        };
        self.executor.outputs.iter().map(value).collect()
    }

    /// Shape and bytes of one output.
    pub(super) fn output(&self, name: &str) -> Result<(&[i64], &[u8]), TensorRtError> {
        let lane = self.lane.as_ref().filter(|_| self.copied);
        lane.and_then(|lane| lane.output(name)).ok_or(TensorRtError::NoOutputs)
    }

    fn with_lane<T>(
        &mut self,
        work: impl FnOnce(&mut Lane) -> Result<T, LaneError>,
    ) -> Result<T, TensorRtError> {
        let lane = self.lane.as_mut().ok_or(TensorRtError::NoOutputs)?;
        work(lane).map_err(|error| {
            self.failed = true;
            self.executor.error(error)
        })
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if let Some(lane) = self.lane.take().filter(|_| !self.failed) {
            let key =
                Key { profile: self.key.profile, shapes: std::mem::take(&mut self.key.shapes) };
            self.executor.put_back(lane, key);
        }
    }
}
