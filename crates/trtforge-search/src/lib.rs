//! Searches over INT8 variants of a model by how far the logits move.
//!
//! Every search here asks one question of many graphs that differ in little: run on the same few rows, how far do the
//! logits lie from those of the FP32 model? No labels are needed for it, and no row that judges a model is ever looked at.
//! Searches take rows as tensors and give back a choice with the figures it rests on; files, profiles and progress
//! are their caller's.

mod auto;
mod candidates;
mod cost;
mod divergence;
mod error;
mod ladder;
mod rows;
mod scaled;
mod sensitivity;

pub use auto::{Change, Effort, Found, Measure, Tried, choose};
pub use candidates::{Candidates, METHODS};
pub use cost::{UnitCost, rank};
pub use divergence::{Divergence, Gain};
pub use error::SearchError;
pub use ladder::{Ended, ladder, look_confidence, walk, worth_a_look};
pub use rows::{Baseline, Rows};
pub use scaled::{GraphMeasure, ScaledGraph};
pub use sensitivity::Sensitivity;
