//! What an engine says of its layers, and what that proves.
//!
//! ```text
//! Engine::inspect ─► JSON ─► EngineLayers ─┐
//!                      the ONNX graph ─────┴─► PrecisionProof: the type each product of the graph is computed in
//! ```
//!
//! Nothing is guessed: a layer's arithmetic is proven by the name of its kernel, by its weights or by the types of its
//! operands ([`Compute`]), or it is said not to be provable.

mod compute;
mod json;
mod layer;
mod number;
mod origin;
mod proof;
mod tactic;

pub use compute::{Basis, Compute};
pub use json::InspectError;
pub use layer::{Detail, EngineLayer, EngineLayers, LayerRole, LayerTensor};
pub use number::NumberType;
pub use proof::{PrecisionProof, ProductProof, Quantizers, Seen};
