//! The answer: what each device did, and why it was idle.

use serde::Serialize;

use crate::names::Label;

/// Version of the JSON layout.
pub const SCHEMA: u32 = 1;

/// A diagnosis of one trace. Times are microseconds, exact to the nanosecond.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diagnosis {
    /// Version of this layout.
    pub schema: u32,
    /// The trace file's name.
    pub trace: String,
    /// The part of the trace that was looked at.
    pub window: Window,
    /// Whether the file ended early and the figures hold for its complete events alone.
    pub truncated: bool,
    /// Events read, of every kind.
    pub events: u64,
    /// Rank of the process in a distributed job, where the trace says.
    pub rank: Option<i64>,
    /// By device; empty when no work on a device was recorded.
    pub devices: Vec<DeviceReport>,
    /// Why the devices were idle, and what else cost time, most costly first. Their `idle_us` add up to that of the devices.
    pub causes: Vec<CauseReport>,
    /// What launching work costs the host and the device.
    pub launch: LaunchReport,
    /// Copies by direction and kind of host memory.
    pub copies: Vec<CopyReport>,
    /// Profiler steps, where there are any.
    pub steps: Option<StepsReport>,
    /// What a reader of the figures must know.
    pub notes: Vec<String>,
}

/// A stretch of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Window {
    /// Whether it is the profiler steps; else the whole trace.
    pub steps_only: bool,
    /// From the first event to the end of the last, or the same of the steps.
    pub length_us: f64,
}

/// One device. `before_us + span_us + after_us` is the window; `busy_us + idle_us` is `span_us`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceReport {
    /// Its number, as in the trace.
    pub device: Label,
    /// Its model, where the trace says.
    pub name: Option<String>,
    /// From its first work to the end of its last.
    pub span_us: f64,
    /// Length of the union of kernel, copy and memset spans.
    pub busy_us: f64,
    /// Share of the whole window in which it was busy.
    pub busy_share: f64,
    /// Length of the union of kernel spans.
    pub kernel_us: f64,
    /// Length of the union of copy spans.
    pub copy_us: f64,
    /// Length of the union of memset spans.
    pub memset_us: f64,
    /// Between its first and last work, with none running.
    pub idle_us: f64,
    /// In the window, before its first work.
    pub before_us: f64,
    /// In the window, after its last work.
    pub after_us: f64,
    /// Kernels.
    pub kernels: u64,
    /// Copies.
    pub copies: u64,
    /// `idle_us` by cause, most first.
    pub idle: Vec<IdleShare>,
    /// By stream.
    pub streams: Vec<StreamReport>,
}

/// A part of a device's idle time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct IdleShare {
    /// Why.
    pub cause: CauseKind,
    /// How long.
    pub idle_us: f64,
    /// In how many gaps.
    pub gaps: u64,
}

/// One stream of a device. Its idle time is what lies between its own first and last work; other streams may run meanwhile.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StreamReport {
    /// Its number, as in the trace.
    pub stream: Label,
    /// Kernels, copies and memsets.
    pub events: u64,
    /// Length of the union of their spans.
    pub busy_us: f64,
    /// Length of the union of kernel spans.
    pub kernel_us: f64,
    /// Length of the union of copy spans.
    pub copy_us: f64,
    /// Length of the union of memset spans.
    pub memset_us: f64,
    /// Between first and last, with none running.
    pub idle_us: f64,
    /// Gaps whose next work the host submitted only after the last had ended.
    pub host_wait_us: f64,
    /// Gaps no longer than the launch latency, work being queued.
    pub kernel_wait_us: f64,
    /// Other gaps: queued work that waited, for another stream for example.
    pub other_us: f64,
}

/// Why a device was idle, or what else cost time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    /// The host waited for the device instead of submitting ahead.
    Synchronization,
    /// Gaps no longer than the launch latency, and that much of longer ones.
    LaunchBound,
    /// The host prepared inputs: tokenizer, data loader, collation.
    HostInputPipeline,
    /// The host ran Python or the user's own regions.
    HostPython,
    /// The host dispatched operators, faster done by the device than submitted.
    HostFramework,
    /// The host asked the driver for memory.
    Allocation,
    /// Copies from or to memory that is not pinned.
    PageableCopy,
    /// Work was submitted and did not start within the launch latency.
    Queued,
    /// No host thread recorded anything: waiting for requests, or code that was not traced.
    NothingSubmitted,
    /// The trace does not say.
    Unknown,
}

/// What a fix risks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cost {
    /// The same numbers, sooner.
    FreeAndSafe,
    /// Rounding differs; predictions practically do not.
    NearLossless,
    /// Only with the accuracy gate's verdict.
    NeedsAccuracyGate,
}

/// One cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CauseReport {
    /// Which.
    pub cause: CauseKind,
    /// In words.
    pub title: String,
    /// Time lost to it, over all devices: its idle time, and for copies also the time they ran alone.
    pub lost_us: f64,
    /// Idle time of the devices that falls to it.
    pub idle_us: f64,
    /// `lost_us` as a share of the devices' spans.
    pub share: f64,
    /// Idle gaps it took part in.
    pub gaps: u64,
    /// Figures behind it, in words.
    pub evidence: Vec<String>,
    /// Host functions that held the device up, longest first.
    pub functions: Vec<FunctionReport>,
    /// What to do, cheapest first.
    pub fixes: Vec<Fix>,
    /// Class of the first fix.
    pub cost: Cost,
    /// What that would bring at most.
    pub gain: Gain,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fix {
    /// In words.
    pub what: String,
    /// What it risks.
    pub cost: Cost,
}

/// What removing a cause brings at most, everything else staying as it is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Gain {
    /// Time saved.
    pub saves_us: f64,
    /// Throughput, as a multiple of today's.
    pub times: f64,
}

/// A host function during idle time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FunctionReport {
    /// As in the trace; `call in operator` for calls of the CUDA runtime.
    pub name: String,
    /// Idle time it accounts for.
    pub idle_us: f64,
    /// In how many gaps.
    pub gaps: u64,
}

/// What launching costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LaunchReport {
    /// From the launching call to the kernel's start, on an idle device; the median.
    pub latency_us: f64,
    /// Launches it was measured on; 0 when it is assumed.
    pub measured_on: u64,
    /// Device work whose submitting call is in the trace.
    pub matched: u64,
    /// Device work whose submitting call is not.
    pub unmatched: u64,
    /// Median length of the submitting calls.
    pub call_median_us: f64,
    /// Kernels in the window.
    pub kernels: u64,
    /// Their mean length.
    pub kernel_mean_us: f64,
    /// Share of kernels shorter than that: no host can keep a device busy with these.
    pub kernels_shorter_than_call: f64,
}

/// Copies of one kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CopyReport {
    /// As in the trace, for example `Memcpy HtoD (Pageable -> Device)`.
    pub name: String,
    /// Whether host memory was not pinned.
    pub pageable: bool,
    /// How many.
    pub count: u64,
    /// What they moved.
    pub bytes: u64,
    /// Sum of their lengths.
    pub time_us: f64,
    /// Their rate in gigabytes a second.
    pub gb_per_s: f64,
}

/// Profiler steps in the window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StepsReport {
    /// How many.
    pub count: u64,
    /// Their mean length.
    pub mean_us: f64,
    /// Kernels that a step submits, on average.
    pub kernels_per_step: f64,
}
