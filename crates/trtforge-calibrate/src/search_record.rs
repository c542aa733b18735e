//! How `auto` came to its choice: part of the table, so that a reader need not believe it.

use serde::{Deserialize, Serialize};

use crate::method::Method;
use crate::row_set::RowSet;

/// What a search compared, on which rows, and what came out. A shift is the mean |logit − FP32 logit| of a row, over rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchRecord {
    /// Lines of the rows kept aside: they are in no histogram, and all shifts are measured on them.
    pub held_out: RowSet,
    /// Smoothing strengths tried; none where the profile gives one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strengths: Vec<TriedStrength>,
    /// Methods tried for the whole model; none where the profile gives one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<TriedMethod>,
    /// Tensors that got another method than the best for the whole model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<MethodChange>,
    /// What was taken of them; tables of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<Chosen>,
    /// Of the final choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shift: Option<f64>,
    /// Rows run through INT8 graphs, each variant counted.
    pub rows_run: u64,
    /// What a person should know about the choice, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The settings that a search ended with.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chosen {
    /// Method for the whole model, before changes.
    pub method: Method,
    /// Strength of smoothing.
    pub smooth: f64,
}

/// A method for every tensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TriedMethod {
    /// The method.
    pub method: Method,
    /// How far it moved the logits; infinite shifts are none.
    pub shift: Option<f64>,
}

/// A strength of smoothing, with a method for every tensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TriedStrength {
    /// 0 (off) to 1.
    pub strength: f64,
    /// The method.
    pub method: Method,
    /// How far both moved the logits; infinite shifts are none.
    pub shift: Option<f64>,
}

/// Tensors that got another method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MethodChange {
    /// One tensor, or all that differ in numbers alone.
    pub tensors: Vec<String>,
    /// Before.
    pub from: Method,
    /// Now.
    pub to: Method,
    /// Shift before, on the rows that were searched on.
    pub before: f64,
    /// Shift now.
    pub after: f64,
}
