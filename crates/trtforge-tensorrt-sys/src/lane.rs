//! One lane of execution: a context of an engine with the stream, the memory and the marks it runs with.
//!
//! All that is asynchronous begins and ends inside one call here, so that no memory is ever in use by the GPU between
//! two calls: that is what makes this interface safe.

use std::time::Instant;

use cxx::{Exception, UniquePtr};
use thiserror::Error;

use crate::bridge::{Engine, RawContext, RecordedError};
use crate::cuda::{Cuda, CudaError, DeviceBuffer, Event, Graph, Stream};
use crate::output::OutputMemory;
use crate::slot::Slot;

/// Why a lane cannot be made, staged or run.
#[derive(Debug, Error)]
pub enum LaneError {
    /// The CUDA driver refused.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// TensorRT refused.
    #[error("`{call}` failed{}", what.as_ref().map(|what| format!(": {what}")).unwrap_or_default())]
    Library {
        /// Name of TensorRT's function.
        call: &'static str,
        /// What the shim says, where it says more than that the call failed.
        what: Option<String>,
        /// What TensorRT gave to its error recorder meanwhile.
        recorded: Vec<RecordedError>,
    },
    /// Inputs still lack a shape.
    #[error("no shape was given for: {}", inputs.join(", "))]
    Unready {
        /// Their names.
        inputs: Vec<String>,
    },
    /// A shape whose size in bytes does not fit.
    #[error("`{tensor}` of shape {shape:?} is larger than this machine's memory can be")]
    TooLarge {
        /// Name of the tensor.
        tensor: String,
        /// The shape.
        shape: Vec<i64>,
    },
}

/// One input or output of an engine, as a lane needs to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneTensor {
    /// Name in the engine.
    pub name: String,
    /// Bytes of one element.
    pub element_bytes: usize,
    /// Whether it goes in.
    pub is_input: bool,
}

/// How one run goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneRun {
    /// Copy the inputs to the GPU before and the outputs back after; without, the inputs are those copied last.
    pub copies: bool,
    /// Launch the run as a CUDA graph, captured at the first such run of a shape.
    pub graph: bool,
    /// Copy between page-locked memory and the GPU; without, through memory as `malloc` gives it.
    pub pinned: bool,
}

/// Where the time of one run went, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LaneTimes {
    /// On the host, until the run was handed to the GPU.
    pub enqueue_us: f64,
    /// On the GPU: host to device.
    pub copy_in_us: f64,
    /// On the GPU: the engine.
    pub compute_us: f64,
    /// On the GPU: device to host.
    pub copy_out_us: f64,
    /// On the host, from before the first copy until the last is done.
    pub total_us: f64,
    /// Whether a graph was launched.
    pub graph: bool,
}

/// A context with everything it needs to run.
///
/// The fields are dropped from the first to the last: the context before the memory it was given.
pub struct Lane {
    context: UniquePtr<RawContext>,
    graph: Option<Graph>,
    /// Why this shape has no graph although one was asked for.
    graph_refusal: Option<String>,
    slots: Vec<Slot>,
    scratch: Option<DeviceBuffer>,
    marks: [Event; 4],
    stream: Stream,
    profile: Option<i32>,
    staged: bool,
    /// Whether the GPU has the inputs of this staging.
    uploaded: bool,
    cuda: Cuda,
}

impl Lane {
    /// A lane of `engine`, whose tensors are `tensors`.
    pub fn new(engine: &Engine, cuda: &Cuda, tensors: Vec<LaneTensor>) -> Result<Lane, LaneError> {
        const CALL: &str = "createExecutionContext";
        cuda.bind()?;
        let recorded = || engine.take_engine_errors().unwrap_or_default();
        let context = engine.make_context().map_err(|e| thrown(CALL, &e, recorded()))?;
        if context.is_null() {
            return Err(LaneError::Library { call: CALL, what: None, recorded: recorded() });
        }
        let slot = |tensor| Slot {
            tensor,
            dims: Vec::new(),
            bytes: 0,
            device: None,
            host: None,
            pageable: Vec::new(),
            unknown: None,
        };
        let mark = || Event::new(cuda);
        Ok(Lane {
            context,
            graph: None,
            graph_refusal: None,
            slots: tensors.into_iter().map(slot).collect(),
            scratch: None,
            marks: [mark()?, mark()?, mark()?, mark()?],
            stream: Stream::new(cuda)?,
            profile: None,
            staged: false,
            uploaded: false,
            cuda: cuda.clone(),
        })
    }

    /// Prepares runs of one shape: all that is allocated for them is allocated here, and only where it grew.
    ///
    /// - `shapes`: of every input, in the order of the tensors.
    ///
    /// A staging that failed leaves the lane without one.
    pub fn stage(&mut self, profile: i32, shapes: &[&[i64]]) -> Result<(), LaneError> {
        self.uploaded = false;
        if self.staged && self.profile == Some(profile) && self.has(shapes) {
            return Ok(());
        }
        self.cuda.bind()?;
        self.staged = false;
        self.graph = None;
        self.graph_refusal = None;
        self.select(profile)?;
        self.stage_inputs(shapes)?;
        let unready = self.context.pin_mut().unready();
        let inputs = self.told("inferShapes", unready)?;
        if !inputs.is_empty() {
            return Err(LaneError::Unready { inputs });
        }
        self.stage_outputs()?;
        self.stage_scratch()?;
        self.staged = true;
        Ok(())
    }

    fn has(&self, shapes: &[&[i64]]) -> bool {
        self.inputs().map(|slot| slot.dims.as_slice()).eq(shapes.iter().copied())
    }

    fn inputs(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| slot.tensor.is_input)
    }

    fn select(&mut self, profile: i32) -> Result<(), LaneError> {
        if self.profile != Some(profile) {
            self.profile = None;
            let set = self.context.pin_mut().set_profile(profile, self.stream.address());
            self.told("setOptimizationProfileAsync", set)?;
            self.stream.synchronize()?;
            self.profile = Some(profile);
        }
        Ok(())
    }

    fn stage_inputs(&mut self, shapes: &[&[i64]]) -> Result<(), LaneError> {
        let mut shapes = shapes.iter();
        for index in 0..self.slots.len() {
            if !self.slots[index].tensor.is_input {
                continue;
            }
            let dims = shapes.next().copied().unwrap_or_default();
            let slot = &mut self.slots[index];
            let set = self.context.pin_mut().set_input_shape(&slot.tensor.name, dims);
            self.told("setInputShape", set)?;
            self.slots[index].shape(dims)?;
            self.place(index)?;
        }
        Ok(())
    }

    fn stage_outputs(&mut self) -> Result<(), LaneError> {
        for index in 0..self.slots.len() {
            if self.slots[index].tensor.is_input {
                continue;
            }
            let dims = self.context.shape(&self.slots[index].tensor.name);
            let dims = self.told("getTensorShape", dims)?;
            if dims.iter().all(|&dim| dim >= 0) {
                self.slots[index].shape(&dims)?;
                self.place(index)?;
            } else if self.slots[index].unknown.is_none() {
                let memory = OutputMemory::new(&self.cuda);
                let name = &self.slots[index].tensor.name;
                let set = self.context.pin_mut().set_output_memory(name, Box::new(memory.clone()));
                self.told("setOutputAllocator", set)?;
                self.slots[index].unknown = Some(memory);
            }
        }
        Ok(())
    }

    /// Gives one tensor its memory, on both sides.
    fn place(&mut self, index: usize) -> Result<(), LaneError> {
        let slot = &mut self.slots[index];
        if let Some(device) = &slot.device
            && device.bytes() >= slot.bytes
        {
            return slot.grow_host(&self.cuda);
        }
        // The new one first: the context must not be left with an address that is gone.
        let device = DeviceBuffer::new(&self.cuda, slot.bytes)?;
        let address = device.address() as usize;
        // SAFETY: the memory is as large as the shape needs, and the slot keeps it until another takes its place here or
        // the context, which is dropped first, is gone.
        let set = unsafe { self.context.pin_mut().set_address(&slot.tensor.name, address) };
        if set.is_ok() {
            slot.device = Some(device);
        }
        self.told("setTensorAddress", set)?;
        self.slots[index].grow_host(&self.cuda)
    }

    fn stage_scratch(&mut self) -> Result<(), LaneError> {
        let bytes = self.context.pin_mut().memory_bytes();
        let bytes = self.told("updateDeviceMemorySizeForShapes", bytes)?;
        let held = self.scratch.as_ref().map_or(0, DeviceBuffer::bytes);
        if self.scratch.is_none() || held < bytes {
            let scratch = DeviceBuffer::new(&self.cuda, bytes)?;
            let address = scratch.address() as usize;
            // SAFETY: it is as large as the context wants, and is kept until another takes its place here or the context,
            // which is dropped first, is gone.
            let set = unsafe { self.context.pin_mut().set_memory(address, bytes) };
            self.told("setDeviceMemoryV2", set)?;
            self.scratch = Some(scratch);
        }
        Ok(())
    }

    /// The page-locked memory of an input, to be written: as many bytes as its staged shape has.
    pub fn input_mut(&mut self, name: &str) -> Option<&mut [u8]> {
        self.uploaded = false;
        let slot = self.slots.iter_mut().find(|s| s.tensor.is_input && s.tensor.name == name)?;
        let bytes = slot.bytes;
        slot.host.as_mut().map(|host| &mut host.as_mut_slice()[..bytes])
    }

    /// Shape and bytes of an output, as the last run with copies left them.
    pub fn output(&self, name: &str) -> Option<(&[i64], &[u8])> {
        let slot = self.slots.iter().find(|s| !s.tensor.is_input && s.tensor.name == name)?;
        let host = slot.host.as_ref()?;
        Some((&slot.dims, &host.as_slice()[..slot.bytes]))
    }

    /// The optimization profile of the staging.
    pub fn profile(&self) -> Option<i32> {
        self.profile
    }

    /// Why runs of this shape that ask for a graph go without, if they do.
    pub fn graph_refusal(&self) -> Option<&str> {
        self.graph_refusal.as_deref()
    }

    /// Runs what is staged and waits for it.
    pub fn run(&mut self, how: LaneRun) -> Result<LaneTimes, LaneError> {
        if !self.staged {
            return Err(CudaError::Unusable { reason: "nothing is staged".to_owned() }.into());
        }
        self.cuda.bind()?;
        if how.copies && !how.pinned {
            self.slots.iter_mut().for_each(Slot::prepare_pageable);
        }
        if !how.copies && !self.uploaded {
            self.copy_inputs(true)?;
        }
        let graph = how.graph && self.captured()?;
        let times = self.timed(how, graph);
        // Whatever went wrong, nothing may be under way when this returns.
        let waited = self.stream.synchronize();
        let mut times = times
            .and_then(|times| Ok(waited.map(|()| times)?))
            .map_err(|error| self.told_by_both(error))?;
        let [start, copied, computed, end] = &self.marks;
        times.copy_in_us = start.microseconds_to(copied)?;
        times.compute_us = copied.microseconds_to(computed)?;
        times.copy_out_us = computed.microseconds_to(end)?;
        if how.copies && !how.pinned {
            self.slots.iter_mut().for_each(Slot::take_pageable);
        }
        Ok(times)
    }

    /// The run itself; the caller waits once more, for the ways out in between.
    fn timed(&mut self, how: LaneRun, graph: bool) -> Result<LaneTimes, LaneError> {
        let start = Instant::now();
        self.marks[0].record(&self.stream)?;
        if how.copies {
            self.put_inputs(how.pinned)?;
        }
        self.marks[1].record(&self.stream)?;
        let enqueue = Instant::now();
        match &self.graph {
            Some(captured) if graph => self.stream.launch(captured)?,
            _ => self.enqueue()?,
        }
        let enqueue_us = microseconds(enqueue);
        self.marks[2].record(&self.stream)?;
        if how.copies {
            self.put_outputs(how.pinned)?;
        }
        self.marks[3].record(&self.stream)?;
        self.stream.synchronize()?;
        if how.copies {
            self.uploaded = true;
        }
        Ok(LaneTimes { enqueue_us, total_us: microseconds(start), graph, ..LaneTimes::default() })
    }

    /// Copies the inputs to the GPU, and waits.
    fn copy_inputs(&mut self, pinned: bool) -> Result<(), LaneError> {
        let put = self.put_inputs(pinned);
        self.stream.synchronize()?;
        put?;
        self.uploaded = true;
        Ok(())
    }

    /// Puts the copies of the inputs into the stream; `run` and `copy_inputs` wait for them.
    fn put_inputs(&self, pinned: bool) -> Result<(), CudaError> {
        for slot in self.inputs() {
            let (Some(device), Some(host)) = (&slot.device, &slot.host) else { continue };
            let from = if pinned { host.as_slice() } else { slot.pageable.as_slice() };
            // SAFETY: all callers wait for the stream before they give up their borrow of self.
            unsafe { self.stream.copy_in(device, &from[..slot.bytes])? };
        }
        Ok(())
    }

    /// Puts the copies of the outputs into the stream. Where only the run tells the shape, waits for it first.
    fn put_outputs(&mut self, pinned: bool) -> Result<(), LaneError> {
        if self.slots.iter().any(|slot| slot.unknown.is_some()) {
            self.stream.synchronize()?;
        }
        for slot in self.slots.iter_mut().filter(|slot| !slot.tensor.is_input) {
            let learned = slot.unknown.as_ref().map(|memory| memory.state().dims.clone());
            if let Some(dims) = learned {
                slot.shape(&dims)?;
                slot.grow_host(&self.cuda)?;
                if !pinned {
                    slot.prepare_pageable();
                }
            }
            let bytes = slot.bytes;
            let Some(host) = &mut slot.host else { continue };
            let to = if pinned { host.as_mut_slice() } else { slot.pageable.as_mut_slice() };
            let state = slot.unknown.as_ref().map(OutputMemory::state);
            let own = state.as_ref().and_then(|state| state.buffer.as_ref());
            let Some(device) = own.or(slot.device.as_ref()) else { continue };
            // SAFETY: the caller waits for the stream before it gives up its borrow of self; the memory of unknown shapes is
            // only replaced by the next run.
            unsafe { self.stream.copy_out(&mut to[..bytes], device)? };
        }
        Ok(())
    }

    /// Hands one run to the stream.
    fn enqueue(&mut self) -> Result<(), LaneError> {
        // SAFETY: the stream lives, and staging has set every address.
        if unsafe { self.context.pin_mut().enqueue(self.stream.address()) } {
            return Ok(());
        }
        let refused = self.slots.iter().filter_map(|slot| slot.unknown.as_ref());
        for memory in refused {
            if let Some(failure) = memory.state().failure.take() {
                return Err(failure.into());
            }
        }
        let recorded = self.context.pin_mut().take_context_errors().unwrap_or_default();
        Err(LaneError::Library { call: "enqueueV3", what: None, recorded })
    }

    /// Whether there is a graph of this staging; captures one at the first call.
    fn captured(&mut self) -> Result<bool, LaneError> {
        if self.graph.is_some() {
            return Ok(true);
        }
        if self.graph_refusal.is_some() {
            return Ok(false);
        }
        // TensorRT prepares at the first run of a shape, which must not happen inside the capture. A run that fails fails
        // without a graph too.
        if !self.uploaded {
            self.copy_inputs(true)?;
        }
        let run = self.enqueue();
        self.stream.synchronize()?;
        run?;
        let (stream, context) = (&self.stream, &mut self.context);
        let captured = stream.capture(|| {
            // SAFETY: as in `enqueue`; the graph is dropped before any of the addresses changes.
            if unsafe { context.pin_mut().enqueue(stream.address()) } {
                return Ok(());
            }
            let recorded = context.pin_mut().take_context_errors().unwrap_or_default();
            Err(LaneError::Library { call: "enqueueV3", what: None, recorded })
        });
        match captured {
            Ok(graph) => self.graph = Some(graph),
            Err(LaneError::Library { recorded, .. }) if !recorded.is_empty() => {
                self.graph_refusal = Some(recorded[0].description.clone());
            }
            Err(error) => self.graph_refusal = Some(error.to_string()),
        }
        Ok(self.graph.is_some())
    }

    /// What fails on the GPU is heard of from the driver; TensorRT may have said more.
    fn told_by_both(&mut self, error: LaneError) -> LaneError {
        let recorded = self.context.pin_mut().take_context_errors().unwrap_or_default();
        if recorded.is_empty() || !matches!(error, LaneError::Cuda(_)) {
            return error;
        }
        LaneError::Library { call: "enqueueV3", what: Some(error.to_string()), recorded }
    }

    fn told<T>(
        &mut self,
        call: &'static str,
        result: Result<T, Exception>,
    ) -> Result<T, LaneError> {
        result.map_err(|exception| {
            let recorded = self.context.pin_mut().take_context_errors().unwrap_or_default();
            thrown(call, &exception, recorded)
        })
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        // What is left after a failure must not be in use when its memory goes; an error was told when it happened.
        let _ = self.cuda.bind();
        let _ = self.stream.synchronize();
    }
}

fn thrown(call: &'static str, exception: &Exception, recorded: Vec<RecordedError>) -> LaneError {
    LaneError::Library { call, what: Some(exception.what().to_owned()), recorded }
}

fn microseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}
