//! What a loop took, stage by stage.

use std::fmt;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::EventTimes;

/// What is done with rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Texts become token ids.
    Tokenize,
    /// Rows become padded tensors.
    Collate,
    /// The device's call.
    Device,
    /// Outputs become answers.
    PostProcess,
}

impl Stage {
    /// Every stage, in order.
    pub const ALL: [Self; 4] = [Self::Tokenize, Self::Collate, Self::Device, Self::PostProcess];

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tokenize => "tokenization",
            Self::Collate => "collation",
            Self::Device => "device",
            Self::PostProcess => "post-processing",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A stage of some rows on one thread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StageSpan {
    /// 0 is the calling thread, which runs the device; workers follow.
    pub lane: usize,
    /// What was done.
    pub stage: Stage,
    /// Microseconds since the loop began.
    pub start_us: f64,
    /// Microseconds since the loop began.
    pub end_us: f64,
}

/// Summed over all rows and threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// Tokenization.
    pub tokenize: Duration,
    /// Collation.
    pub collate: Duration,
    /// Calls of the device.
    pub device: Duration,
    /// Post-processing.
    pub post_process: Duration,
}

impl StageTimes {
    /// What the host did.
    pub fn host(&self) -> Duration {
        self.tokenize + self.collate + self.post_process
    }

    fn of(&mut self, stage: Stage) -> &mut Duration {
        match stage {
            Stage::Tokenize => &mut self.tokenize,
            Stage::Collate => &mut self.collate,
            Stage::Device => &mut self.device,
            Stage::PostProcess => &mut self.post_process,
        }
    }
}

/// A batch as it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BatchShape {
    /// Rows.
    pub rows: usize,
    /// Tokens that each was padded to.
    pub length: usize,
    /// Tokens of the rows themselves.
    pub real_tokens: usize,
}

/// What a loop took.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// From the first row to the last answer.
    pub wall: Duration,
    /// Sums.
    pub stages: StageTimes,
    /// Sums by the device's own clock, where it has one.
    pub events: Option<EventTimes>,
    /// Batches in the order in which they ran.
    pub batches: Vec<BatchShape>,
    /// Tokens of each row, when recorded.
    pub lengths: Vec<usize>,
    /// From the start of a row's piece of tokenization to its answer, by row, when recorded.
    pub latencies: Vec<Duration>,
    /// Every span by start, when recorded.
    pub spans: Vec<StageSpan>,
}

impl Measured {
    /// Time the device worked: by its own clock, else its calls.
    pub fn device_time(&self) -> Duration {
        self.events.map_or(self.stages.device, |events| events.total())
    }

    /// Share of the time in which the device worked.
    pub fn utilization(&self) -> f64 {
        let wall = self.wall.as_secs_f64();
        if wall > 0.0 { (self.device_time().as_secs_f64() / wall).min(1.0) } else { 0.0 }
    }

    /// Rows a second.
    pub fn rows_per_s(&self) -> f64 {
        let rows: usize = self.batches.iter().map(|batch| batch.rows).sum();
        let wall = self.wall.as_secs_f64();
        if wall > 0.0 { rows as f64 / wall } else { 0.0 }
    }

    /// The latency that `percent` of the rows do not exceed (nearest rank), in milliseconds; 0 when none was recorded.
    pub fn latency_ms(&self, percent: usize) -> f64 {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted.get(rank - 1).map_or(0.0, |latency| latency.as_secs_f64() * 1e3)
    }
}

/// Answers in the order of the rows, and what they took.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished<A> {
    /// One a row.
    pub answers: Vec<A>,
    /// The loop.
    pub measured: Measured,
}

/// The times of one thread.
#[derive(Debug)]
pub(super) struct Log {
    epoch: Instant,
    lane: usize,
    record: bool,
    pub stages: StageTimes,
    pub spans: Vec<StageSpan>,
}

impl Log {
    pub fn new(epoch: Instant, lane: usize, record: bool) -> Self {
        Self { epoch, lane, record, stages: StageTimes::default(), spans: Vec::new() }
    }

    /// Notes a stage that began at `start` and ends now.
    pub fn note(&mut self, stage: Stage, start: Instant) {
        let end = Instant::now();
        *self.stages.of(stage) += end - start;
        if self.record {
            let us = |at: Instant| (at - self.epoch).as_secs_f64() * 1e6;
            let (start_us, end_us) = (us(start), us(end));
            self.spans.push(StageSpan { lane: self.lane, stage, start_us, end_us });
        }
    }

    /// Adds this thread's times to those of the loop.
    pub fn merge_into(self, measured: &mut Measured) {
        for stage in Stage::ALL {
            let mut mine = self.stages;
            *measured.stages.of(stage) += *mine.of(stage);
        }
        measured.spans.extend(self.spans);
    }
}
