//! Running a model: the [`Executor`] trait and the embedded CPU executor.
//!
//! [`EmbeddedExecutor`] reads ONNX and runs it on the CPU with the `rten` library. FP16 tensors are computed in FP32 there,
//! and the arithmetic of QuantizeLinear and DequantizeLinear is the one of the graph. What it returns is therefore a
//! reference for an engine, not a measurement of it: see [`EvaluatedOn`].

pub mod conformance;
mod convert;
mod embedded;
mod error;
mod executor;
mod prepare;

pub use embedded::{EmbeddedExecutor, EmbeddedOptions};
pub use error::ExecError;
pub use executor::{EvaluatedOn, Executor, NamedValue, Port, Value};
