//! A stream of work for the GPU, marks in it, and work recorded to be repeated.

use cudarc::driver::result::stream::StreamKind;
use cudarc::driver::{result, sys};

use super::{Cuda, CudaError, DeviceBuffer};

/// A queue of work; what is put in runs in order.
#[derive(Debug)]
pub(crate) struct Stream {
    raw: sys::CUstream,
    cuda: Cuda,
}

// SAFETY: a stream may be used from any thread; the owner is used by one at a time.
unsafe impl Send for Stream {}

impl Stream {
    pub(crate) fn new(cuda: &Cuda) -> Result<Stream, CudaError> {
        cuda.bind()?;
        // Waits for nothing that others put into the default stream.
        let raw = result::stream::create(StreamKind::NonBlocking);
        let raw = raw.map_err(CudaError::of("cuStreamCreate"))?;
        Ok(Stream { raw, cuda: cuda.clone() })
    }

    /// As TensorRT takes it.
    pub(crate) fn address(&self) -> usize {
        self.raw as usize
    }

    /// Waits until all that was put in is done.
    pub(crate) fn synchronize(&self) -> Result<(), CudaError> {
        // SAFETY: the stream lives.
        unsafe { result::stream::synchronize(self.raw) }
            .map_err(CudaError::of("cuStreamSynchronize"))
    }

    /// Puts a copy to the GPU in.
    ///
    /// # Safety
    ///
    /// `from` must stay alive and unchanged, and `to` alive, until the stream was waited for.
    pub(crate) unsafe fn copy_in(&self, to: &DeviceBuffer, from: &[u8]) -> Result<(), CudaError> {
        assert!(from.len() <= to.bytes(), "buffers are grown before they are filled");
        if from.is_empty() {
            return Ok(());
        }
        // SAFETY: the sizes fit; the rest is the caller's word.
        unsafe { result::memcpy_htod_async(to.address(), from, self.raw) }
            .map_err(CudaError::of("cuMemcpyHtoDAsync"))
    }

    /// Puts a copy from the GPU in.
    ///
    /// # Safety
    ///
    /// `to` must stay alive and unread, and `from` alive, until the stream was waited for.
    pub(crate) unsafe fn copy_out(
        &self,
        to: &mut [u8],
        from: &DeviceBuffer,
    ) -> Result<(), CudaError> {
        assert!(to.len() <= from.bytes(), "buffers are grown before they are filled");
        if to.is_empty() {
            return Ok(());
        }
        // SAFETY: the sizes fit; the rest is the caller's word.
        unsafe { result::memcpy_dtoh_async(to, from.address(), self.raw) }
            .map_err(CudaError::of("cuMemcpyDtoHAsync"))
    }

    /// Records what `work` puts into the stream instead of running it.
    ///
    /// - returns: the graph, ready to launch, or what `work` said.
    pub(crate) fn capture<E: From<CudaError>>(
        &self,
        work: impl FnOnce() -> Result<(), E>,
    ) -> Result<Graph, E> {
        // Only this thread's calls end the capture: other threads may allocate meanwhile.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream lives.
        unsafe { result::stream::begin_capture(self.raw, mode) }
            .map_err(CudaError::of("cuStreamBeginCapture"))?;
        let worked = work();
        // Even after a failure, or the stream stays in capture.
        // SAFETY: as above.
        let graph = unsafe { result::stream::end_capture(self.raw) };
        let graph = graph.map_err(CudaError::of("cuStreamEndCapture")).and_then(|graph| {
            let nothing = CudaError::Unusable { reason: "the capture gave no graph".to_owned() };
            if graph.is_null() { Err(nothing) } else { Ok(Recorded(graph)) }
        });
        worked?;
        let graph = Graph::new(graph?)?;
        // SAFETY: graph and stream live.
        unsafe { result::graph::upload(graph.raw, self.raw) }
            .map_err(CudaError::of("cuGraphUpload"))?;
        self.synchronize()?;
        Ok(graph)
    }

    /// Puts a captured graph in.
    pub(crate) fn launch(&self, graph: &Graph) -> Result<(), CudaError> {
        // SAFETY: both live; the owner keeps alive what the graph's work touches.
        unsafe { result::graph::launch(graph.raw, self.raw) }
            .map_err(CudaError::of("cuGraphLaunch"))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // After an error that stays, nothing binds any more; what was made is let go all the same.
        let _ = self.cuda.bind();
        // SAFETY: it comes from `create` and is destroyed once.
        let _ = unsafe { result::stream::destroy(self.raw) };
    }
}

/// A graph as it was recorded.
#[derive(Debug)]
struct Recorded(sys::CUgraph);

impl Drop for Recorded {
    fn drop(&mut self) {
        // SAFETY: it comes from `end_capture` and is destroyed once, by the thread that captured it or owns it.
        let _ = unsafe { result::graph::destroy(self.0) };
    }
}

/// Work that was recorded once and runs with one call.
#[derive(Debug)]
pub(crate) struct Graph {
    raw: sys::CUgraphExec,
    // The instance refers to it.
    _recorded: Recorded,
}

// SAFETY: graphs may be used from any thread, one at a time, which the owner sees to.
unsafe impl Send for Graph {}

impl Graph {
    fn new(recorded: Recorded) -> Result<Graph, CudaError> {
        // SAFETY: the graph lives.
        let raw =
            unsafe { result::graph::instantiate(recorded.0, sys::CUgraphInstantiate_flags(0)) };
        let raw = raw.map_err(CudaError::of("cuGraphInstantiate"))?;
        Ok(Graph { raw, _recorded: recorded })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: it comes from `instantiate` and is destroyed once.
        let _ = unsafe { result::graph::exec_destroy(self.raw) };
    }
}

/// A mark in a stream, with the time at which it was passed.
#[derive(Debug)]
pub(crate) struct Event {
    raw: sys::CUevent,
    cuda: Cuda,
}

// SAFETY: events may be used from any thread; the owner is used by one at a time.
unsafe impl Send for Event {}

impl Event {
    pub(crate) fn new(cuda: &Cuda) -> Result<Event, CudaError> {
        cuda.bind()?;
        let raw = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let raw = raw.map_err(CudaError::of("cuEventCreate"))?;
        Ok(Event { raw, cuda: cuda.clone() })
    }

    /// Puts the mark into the stream.
    pub(crate) fn record(&self, stream: &Stream) -> Result<(), CudaError> {
        // SAFETY: both live.
        unsafe { result::event::record(self.raw, stream.raw) }
            .map_err(CudaError::of("cuEventRecord"))
    }

    /// Microseconds from this mark to a later one; both were passed.
    pub(crate) fn microseconds_to(&self, later: &Event) -> Result<f64, CudaError> {
        // SAFETY: both live and were recorded in one stream.
        let ms = unsafe { result::event::elapsed(self.raw, later.raw) };
        ms.map(|ms| f64::from(ms) * 1e3).map_err(CudaError::of("cuEventElapsedTime"))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // After an error that stays, nothing binds any more; what was made is let go all the same.
        let _ = self.cuda.bind();
        // SAFETY: it comes from `create` and is destroyed once.
        let _ = unsafe { result::event::destroy(self.raw) };
    }
}
