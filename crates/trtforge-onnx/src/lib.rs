//! Reading, checking, rewriting and writing ONNX models with memory-mapped weights.
//!
//! ```text
//! Model::open ─► Model ─► graph()  ─► Graph, Tensor       what is there
//!                  │  └─► check()                         is it valid
//!                  ├────► Patch::new … finish() ─► Model  change it (the only way)
//!                  ├────► convert_opset ─► Model          same meaning, newer operator set
//!                  └────► save()                          one file, or with `.onnx.data` beside it
//! ```
//!
//! Weights are never copied on open: `raw_data` is a slice of the mapped file, and external data is mapped the same way
//! and then looks like any other tensor. A model file must not be changed in place while a [`Model`] of it is alive.

mod attribute;
pub mod build;
mod check;
mod convert;
mod element;
mod error;
mod external;
mod graph;
mod infer;
mod mapping;
mod model;
mod opset;
mod patch;
pub mod proto;
mod shape;
mod sniff;
mod sort;
mod tensor;
mod types;
mod walk;
mod write;

pub use attribute::{
    attr, attr_f, attr_floats, attr_i, attr_ints, attr_s, attr_tensor, is_op, node_label, subgraphs,
};
pub use convert::convert_opset;
pub use element::{Dim, ElementType, ValueInfo};
pub use error::OnnxError;
pub use graph::{Graph, Use};
pub use model::Model;
pub use opset::minimum_ir_version;
pub use patch::Patch;
pub use tensor::Tensor;
pub use write::{SaveOptions, Written};
