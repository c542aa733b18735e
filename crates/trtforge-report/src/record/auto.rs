//! What `auto` compared before it chose thresholds or a strength of smoothing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::number;

/// Variants of the INT8 model, compared by how far they move the logits of calibration rows kept aside.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Search {
    /// Rows kept aside.
    pub rows: u64,
    /// Their lines in the calibration file, as ranges.
    #[serde(default)]
    pub lines: String,
    /// Strengths of smoothing, then methods, in the order they were tried.
    #[serde(default)]
    pub tried: Vec<Tried>,
    /// Tensors that got another method than the rest.
    #[serde(default)]
    pub changes: Vec<MethodChange>,
    /// Mean logit shift of the final choice, on the rows kept aside.
    #[serde(with = "number", default)]
    #[schemars(with = "Option<f64>")]
    pub shift: Option<f64>,
    /// Rows run through INT8 graphs, each variant counted.
    #[serde(default)]
    pub rows_run: u64,
    /// What a person should know about the choice.
    #[serde(default)]
    pub note: Option<String>,
}

/// One variant.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tried {
    /// Strength of smoothing, where strengths were compared.
    #[serde(with = "number", default)]
    #[schemars(with = "Option<f64>")]
    pub smooth: Option<f64>,
    /// Threshold method of all tensors.
    pub method: String,
    /// Mean |logit − FP32 logit|; none where logits were not finite.
    #[serde(with = "number", default)]
    #[schemars(with = "Option<f64>")]
    pub shift: Option<f64>,
    /// Whether it was chosen.
    #[serde(default)]
    pub chosen: bool,
}

/// Tensors that got another method.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MethodChange {
    /// The tensors.
    pub tensors: Vec<String>,
    /// Method of the rest.
    pub from: String,
    /// Method of these.
    pub to: String,
    /// Mean logit shift before.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub before: f64,
    /// And after.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub after: f64,
}

impl Search {
    /// The title of a table of what was tried.
    pub fn title(&self) -> String {
        format!(
            "Mean logit shift against FP32 on {} calibration rows kept aside",
            crate::words::count(self.rows)
        )
    }
}

impl Tried {
    /// The variant in words.
    pub fn words(&self) -> String {
        let method = crate::words::name(&self.method);
        self.smooth
            .map_or_else(|| method.clone(), |strength| format!("smooth {strength}, {method}"))
    }

    /// Its shift, or that there is none.
    pub fn shift_words(&self) -> String {
        self.shift.map_or_else(|| "not finite".to_owned(), |shift| format!("{shift:.4}"))
    }
}
