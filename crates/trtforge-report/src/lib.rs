//! The run record (`run.json`), and the pages and texts made from it.
//!
//! [`RunRecord`] is what one run of `trtforge build` leaves behind: what went in, what each precision became, how it
//! was judged and why. Everything a person or a pipeline reads is a pure function of it, so the same record always gives
//! the same bytes: [`render_html`], [`render_markdown`], [`render_terminal`] and [`render_junit`].

mod benchmark;
mod compare;
mod diagnosis;
mod html;
mod junit;
mod markdown;
mod record;
mod terminal;
mod words;

pub use benchmark::render_benchmark;
pub use compare::{
    AccuracyChange, Basis, CompareError, Comparison, Side, Standing, common_metric, other_place,
    pairs,
};
pub use html::render_html;
pub use junit::render_junit;
pub use markdown::render_markdown;
pub use record::{
    Action, Arithmetic, Benchmark, BenchmarkDevice, BenchmarkResult, BenchmarkSettings,
    BenchmarkShape, CalibrationSummary, CanonicalForm, Change, Confusion, Decision, DeviceState,
    EngineLibrary, EngineLog, EngineProof, Evaluation, Fallback, FallbackLook, FallbackStep,
    FlippedRow, Flips, GraphRewrite, HistogramSketch, InputFile, Inputs, LayerRow, LeftUnit,
    LengthBin, LengthSummary, LogitShift, Machine, McNemar, MethodChange, NearMiss, Outcome,
    PaddingFigure, Part, Place, Precision, PrecisionRecord, ProvenProduct, RecordError, Rule,
    RunOutcome, RunRecord, SCHEMA, Search, Sensitivity, ShapeProfile, ShapeRange, Shapes, Speedup,
    Spread, Stage, StageOutcome, TensorCalibration, Tool, Tried, UnitCost, Verdict, relative_name,
    run_schema,
};
pub use terminal::{TerminalStyle, render_terminal};
