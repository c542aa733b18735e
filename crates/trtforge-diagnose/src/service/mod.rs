//! A service measured from its profile: the device alone against the whole loop, and the same requests with one thing changed at a time.
//!
//! What flows: host work and a device become [`measure`]d [`ServiceDiagnosis`], which [`render_service`] shows to people. Nothing here knows
//! what kind of device it is; what was not measured is absent and named, never guessed.

mod causes;
mod gpu;
mod measure;
mod text;

use serde::Serialize;

use crate::diagnosis::{Cost, Fix};
use crate::overlap::StageSpan;
use crate::utilization::PaddingWaste;

pub use gpu::{GpuFigures, activity};
pub use measure::{Difference, Measurement, NextRung, Setting, measure};
pub use text::render_service;

/// Version of the JSON layout.
pub const SCHEMA: u32 = 1;

/// Where the time of a service goes. Milliseconds by wall clock unless said otherwise.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServiceDiagnosis {
    /// Version of this layout.
    pub schema: u32,
    /// `profile`; a trace's diagnosis has its file's name under `trace` instead.
    pub source: String,
    /// What was measured, in a word.
    pub name: String,
    /// What ran the batches.
    pub device: DeviceNote,
    /// The requests.
    pub traffic: Traffic,
    /// The device alone against the whole loop.
    pub experiment: Experiment,
    /// What the model of utilization says, beside what was measured.
    pub model: Model,
    /// Padding of the loop as it is.
    pub padding: Padding,
    /// What one row costs the device in batches of different sizes.
    pub batches: Vec<BatchCost>,
    /// The same requests with one thing more at each rung.
    pub ladder: Vec<Rung>,
    /// What only a GPU can tell; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuFigures>,
    /// What costs time, most first.
    pub causes: Vec<ServiceCause>,
    /// The first moments of the loops on the first two rungs.
    pub timelines: Timelines,
    /// What this machine could not measure, and why.
    pub not_measured: Vec<NotMeasured>,
    /// What a reader of the figures must know.
    pub notes: Vec<String>,
}

/// What ran the batches.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceNote {
    /// In words, for example `embedded CPU executor`.
    pub name: String,
    /// `reference` or `device`.
    pub evaluated_on: String,
    /// Whether the device has a clock of its own; else its calls are timed.
    pub own_clock: bool,
}

/// The requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Traffic {
    /// Rows.
    pub rows: usize,
    /// Rows of a batch of the loop as it is.
    pub batch_rows: usize,
    /// Tokens that it pads to.
    pub max_length: usize,
    /// Mean tokens of a row.
    pub mean_tokens: f64,
    /// Tokens of the longest row.
    pub longest_tokens: usize,
}

/// One cached batch over and over, against the whole loop on all rows. Times are of one batch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Experiment {
    /// Calls of the device-only loop.
    pub device_only_calls: usize,
    /// Median of these.
    pub device_only_ms: f64,
    /// Rows a second of that loop.
    pub device_only_rows_per_s: f64,
    /// Batches of the whole loop.
    pub batches: usize,
    /// Wall time of a batch in the whole loop.
    pub end_to_end_ms: f64,
    /// Rows a second of the whole loop.
    pub rows_per_s: f64,
    /// What the host adds: the difference of the two.
    pub host_ms: f64,
    /// `host_ms` as a share of `end_to_end_ms`.
    pub host_share: f64,
    /// Where the wall time of a batch goes.
    pub split: HostSplit,
}

/// The wall time of a batch, in milliseconds; absent where nothing can tell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HostSplit {
    /// Texts to token ids.
    pub tokenize_ms: f64,
    /// Rows to padded tensors.
    pub collate_ms: f64,
    /// Host to device, by the device's clock.
    pub copy_in_ms: Option<f64>,
    /// Kernels by the device's clock, else the device's call.
    pub device_ms: f64,
    /// Device to host, by the device's clock.
    pub copy_out_ms: Option<f64>,
    /// What the device's call took beyond the three: launching, and waiting for the device.
    pub waiting_ms: Option<f64>,
    /// Outputs to answers.
    pub post_process_ms: f64,
    /// The rest of the loop.
    pub other_ms: f64,
}

/// Predicted and measured share of time in which the device works.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Model {
    /// Host time of a batch.
    pub host_ms: f64,
    /// Device time of a batch.
    pub device_ms: f64,
    /// `T_device / (T_host + T_device)`.
    pub blocking_predicted: f64,
    /// In the blocking loop.
    pub blocking_measured: f64,
    /// Workers that hide the host; none when no number does.
    pub workers_to_hide: Option<usize>,
    /// Workers of the overlapped loop.
    pub workers_used: usize,
    /// `min(1, T_device / max(T_device, T_host / N))` for these.
    pub overlapped_predicted: f64,
    /// In the overlapped loop.
    pub overlapped_measured: f64,
    /// Predicted by workers, from none to one more than help.
    pub by_workers: Vec<f64>,
}

/// Padding of the loop as it is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Padding {
    /// Tokens that each row is padded to.
    pub padded_to: usize,
    /// Wasted shares.
    pub waste: PaddingWaste,
    /// Shares that remain with dynamic padding and length buckets.
    pub remaining: PaddingWaste,
}

/// Device time of one row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BatchCost {
    /// Rows of the batch.
    pub batch_rows: usize,
    /// Calls that were timed.
    pub calls: usize,
    /// Median device time of a batch over its rows.
    pub row_ms: f64,
}

/// One way to serve the requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rung {
    /// What is new.
    pub name: String,
    /// What it risks.
    pub cost: Cost,
    /// Figures; none when it was not run.
    pub measured: Option<RungFigures>,
    /// Why it was not run.
    pub not_run: Option<String>,
}

/// Figures of a rung.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RungFigures {
    /// Rows a second.
    pub rows_per_s: f64,
    /// Half of the rows are answered within this, from the start of their batch's tokenization.
    pub latency_p50_ms: f64,
    /// 95 % of them.
    pub latency_p95_ms: f64,
    /// Share of time in which the device works.
    pub utilization: f64,
    /// Share of tokens that are padding.
    pub padding_share: f64,
    /// Throughput over that of the rung before; 1 for the first.
    pub gain: f64,
    /// Throughput over that of the first rung.
    pub gain_in_all: f64,
    /// Largest difference of an answer from the first rung's, in the caller's unit.
    pub largest_difference: f64,
}

/// Why a service is slower than it could be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceCauseKind {
    /// The device waits while texts are tokenized.
    SlowTokenizer,
    /// The device waits while tensors are made.
    Collation,
    /// The device waits while answers are made.
    PostProcessing,
    /// Copies stand between batches.
    BlockingCopies,
    /// The call lasts longer than the device works: launches, or a wait for it.
    Synchronization,
    /// Kernels so small that launching them takes longer.
    LaunchBound,
    /// Work on padding.
    Padding,
    /// Batches too small for the device.
    SmallBatches,
}

/// One cause, with the fields that a trace's causes have.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServiceCause {
    /// Which.
    pub cause: ServiceCauseKind,
    /// In words.
    pub title: String,
    /// Wall time of the blocking loop that it accounts for.
    pub lost_ms: f64,
    /// The same as a share of that time. Causes within the device's time overlap, so that shares may add up to more than 1.
    pub share: f64,
    /// Figures behind it, in words.
    pub evidence: Vec<String>,
    /// What to do, cheapest first.
    pub fixes: Vec<Fix>,
    /// Class of the first fix.
    pub cost: Cost,
    /// What that would bring at most, everything else as it is.
    pub gain: ServiceGain,
}

/// What removing a cause brings at most.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ServiceGain {
    /// Time saved on these requests.
    pub saves_ms: f64,
    /// Throughput, as a multiple of today's.
    pub times: f64,
}

/// The same stretch of time of two loops.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Timelines {
    /// How long.
    pub length_us: f64,
    /// One thread does all.
    pub blocking: Vec<StageSpan>,
    /// Lane 0 drives the device, workers follow.
    pub overlapped: Vec<StageSpan>,
}

/// Something that only another machine can tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotMeasured {
    /// What.
    pub what: String,
    /// Why not.
    pub reason: String,
}
