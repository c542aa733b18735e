//! `diagnosis` of the record, as far as it is shown; the record keeps the rest.

use serde::Deserialize;

use crate::{RunRecord, words};

/// The parts of `diagnosis` that are shown; the record keeps the rest.
#[derive(Debug, Deserialize)]
pub struct Diagnosis {
    pub device: Device,
    pub traffic: Traffic,
    pub model: Model,
    pub ladder: Vec<Rung>,
    pub causes: Vec<Cause>,
    pub timelines: Timelines,
    #[serde(default)]
    pub experiment: Option<Experiment>,
    #[serde(default)]
    pub not_measured: Vec<NotMeasured>,
    #[serde(default)]
    pub notes: Vec<String>,
}

/// One batch over and over on the device alone, against the whole loop.
#[derive(Debug, Deserialize)]
pub struct Experiment {
    pub device_only_ms: f64,
    pub end_to_end_ms: f64,
    pub host_share: f64,
}

#[derive(Debug, Deserialize)]
pub struct NotMeasured {
    pub what: String,
    pub reason: String,
}

#[derive(Debug, Deserialize)]
pub struct Device {
    pub name: String,
    pub evaluated_on: String,
}

#[derive(Debug, Deserialize)]
pub struct Traffic {
    pub rows: u64,
    pub batch_rows: u64,
    pub max_length: u64,
}

#[derive(Debug, Deserialize)]
pub struct Model {
    pub blocking_predicted: f64,
    pub blocking_measured: f64,
    pub workers_used: u64,
    pub overlapped_predicted: f64,
    pub overlapped_measured: f64,
}

#[derive(Debug, Deserialize)]
pub struct Rung {
    pub name: String,
    pub measured: Option<Figures>,
    pub not_run: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct Figures {
    pub rows_per_s: f64,
    pub latency_p50_ms: f64,
    pub latency_p95_ms: f64,
    pub utilization: f64,
    pub padding_share: f64,
    pub gain: f64,
}

#[derive(Debug, Deserialize)]
pub struct Cause {
    pub title: String,
    pub share: f64,
    pub evidence: Vec<String>,
    pub fixes: Vec<Fix>,
    pub gain: Gain,
}

#[derive(Debug, Deserialize)]
pub struct Fix {
    pub what: String,
    pub cost: String,
}

#[derive(Debug, Deserialize)]
pub struct Gain {
    pub times: f64,
}

#[derive(Debug, Deserialize)]
pub struct Timelines {
    pub length_us: f64,
    pub blocking: Vec<Span>,
    pub overlapped: Vec<Span>,
}

/// One piece of work of one thread.
#[derive(Debug, Clone, Deserialize)]
pub struct Span {
    /// The thread; 0 drives the device.
    pub lane: usize,
    pub stage: String,
    /// From the start of the drawing, in microseconds.
    pub start_us: f64,
    /// The same.
    pub end_us: f64,
}

impl Diagnosis {
    /// None for a run without a diagnosis, or with one of a layout that this version does not know.
    pub fn of(record: &RunRecord) -> Option<Self> {
        Self::deserialize(record.diagnosis.as_ref()?).ok()
    }

    /// The device alone against the whole loop, in a sentence.
    pub fn experiment_words(&self) -> Option<String> {
        let found = self.experiment.as_ref()?;
        Some(format!(
            "A batch takes the device alone {:.1} ms and the whole loop {:.1} ms: {} of the time is the host's.",
            found.device_only_ms,
            found.end_to_end_ms,
            words::share(found.host_share)
        ))
    }
}
