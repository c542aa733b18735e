//! Running a model: the [`Executor`] trait and the embedded CPU executor.
//!
//! [`EmbeddedExecutor`] reads ONNX and runs it on the CPU with the `rten` library. FP16 tensors are computed in FP32 there,
//! and the arithmetic of QuantizeLinear and DequantizeLinear is the one of the graph. What it returns is therefore a
//! reference for an engine, not a measurement of it: see [`EvaluatedOn`].
//!
//! NaN passes through every operator except QuantizeLinear, which makes it level 0 there: whether a model is finite is told by
//! its FP32 graph, not by its INT8 one.

pub mod binding;
pub mod conformance;
mod convert;
mod cut;
mod embedded;
mod error;
mod executor;
mod prepare;
mod resume;

pub use cut::crossing;
pub use embedded::{EmbeddedExecutor, EmbeddedOptions};
pub use error::ExecError;
pub use executor::{EvaluatedOn, Executor, NamedValue, Port, Value};
pub use resume::HeldTensor;
