//! Rewriting a graph to FP16 and to INT8 Q/DQ, with a reason for every tensor.
//!
//! ```text
//! survey ─► Survey (what to observe, what to watch) ─► calibration ─► Scales
//!                                                                       │
//! Model ─► Analysis ─► Compute of each node (`precision`) ─► Rewriter ──┴─► Rewritten { model, decisions, warnings }
//! ```
//!
//! [`to_half`] and [`quantize`] share the precision plan: a node computes in FP16 unless one of a few rules, each with its
//! reason, keeps it FP32. Quantization adds Q/DQ pairs where [`Policy`] says. Nothing is found by name alone: masks and
//! normalizations are recognised by what flows, so every exporter's style gives the same result.

mod account;
mod analysis;
mod attention;
mod bounds;
mod canonical;
mod decision;
mod error;
mod existing;
mod gemm;
mod half_values;
mod layer;
mod mask;
mod norm;
mod operators;
mod pairs;
mod pattern;
mod policy;
mod precision;
mod qdq;
mod quantize;
mod residual;
mod rewrite;
mod site;
mod smooth;
mod survey;
mod to_half;
mod unit;
mod weight;

pub use canonical::{
    CANONICAL_VERSION, Canonical, CanonicalOptions, NearMiss, Rewrite, RewriteKind, canonicalize,
};
pub use decision::{Action, Decision, Rewritten, ScaleSlot};
pub use error::QuantizeError;
pub use gemm::WeightedGemm;
pub use half_values::HALF_MAX;
pub use mask::MASK_IN_HALF;
pub use pattern::Pattern;
pub use policy::{Level, Policy, UnknownLevel};
pub use quantize::{quantize, quantize_with};
pub use site::SOFTMAX_SCALE;
pub use smooth::{SmoothTarget, Smoothed, smooth, smoothable};
pub use survey::{Scales, Survey, survey};
pub use to_half::{HalfOptions, to_half};
pub use unit::{Arithmetic, Macs, Unit, UnitKind, UnitRead, units};
