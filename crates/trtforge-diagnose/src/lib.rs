//! Why a GPU is idle, from the trace of a running service or by measuring one.
//!
//! What flows from a trace: a file becomes a [`Trace`] (read as a stream; only what is needed of each event is kept), a trace a [`Diagnosis`]: per
//! device and stream what it did, its idle time split by cause, and the causes ranked by the time they cost.
//!
//! Without a trace, [`overlap`] runs host work ahead of a device, [`service`] measures that against the blocking loop and says what costs
//! time, and the model of utilization says what to expect.
//!
//! [`benchmark`] measures engines against one another by turns, and [`counters`] asks a GPU's management library how busy and how hot it is.
//!
//! All times of traces are integer nanoseconds inside, so that unions of spans are exact and do not depend on the order of events.

mod analyze;
mod attribute;
pub mod benchmark;
mod causes;
pub mod counters;
mod database;
mod device;
mod diagnosis;
mod error;
mod event;
mod host;
mod json_stream;
mod launches;
mod names;
mod nsight;
pub mod overlap;
mod read;
pub mod service;
mod source;
mod spans;
mod text;
mod trace;
mod utilization;

pub use analyze::{DiagnoseOptions, diagnose};
pub use diagnosis::{
    CauseKind, CauseReport, CopyReport, Cost, DeviceReport, Diagnosis, Fix, FunctionReport, Gain,
    LaunchReport, StepsReport, StreamReport, Window,
};
pub use error::DiagnoseError;
pub use names::Label;
pub use read::{ReadOptions, read_trace, read_trace_from};
pub use spans::union_length;
pub use text::render_text;
pub use trace::Trace;
pub use utilization::{
    PaddingWaste, blocking_utilization, hiding_workers, overlapped_utilization, padding_waste,
};
