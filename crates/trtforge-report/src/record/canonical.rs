//! The canonical form of the model, which every graph of the run was made from.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was done to the graph before anything else.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CanonicalForm {
    /// Nodes of the model as it was given.
    pub nodes_before: u64,
    /// Nodes of its canonical form.
    pub nodes_after: u64,
    /// Operator set of the model as it was given.
    pub opset_before: i64,
    /// Operator set of its canonical form.
    pub opset_after: i64,
    /// How many rewrites there were of each kind.
    #[serde(default)]
    pub counts: BTreeMap<String, u64>,
    /// Every rewrite.
    #[serde(default)]
    pub rewrites: Vec<GraphRewrite>,
    /// What looks like a pattern of the canonical form and was left.
    #[serde(default)]
    pub near_misses: Vec<NearMiss>,
}

/// One change of the graph.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GraphRewrite {
    /// Such as `gelu_fused`.
    pub kind: String,
    /// The nodes it was done to.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// The tensor that carries the result; empty where there is none.
    #[serde(default)]
    pub tensor: String,
    /// Why that is the same thing.
    pub reason: String,
}

/// Nodes that were left, and what is in the way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NearMiss {
    /// The nodes.
    pub nodes: Vec<String>,
    /// In words.
    pub reason: String,
}

impl CanonicalForm {
    /// One line, such as `257 nodes became 135 (operator set 13 became 20): 74 constants stored, 2 GELU fused`.
    pub fn summary(&self) -> String {
        let mut text = format!("{} nodes became {}", self.nodes_before, self.nodes_after);
        if self.opset_before != self.opset_after {
            text.push_str(&format!(
                " (operator set {} became {})",
                self.opset_before, self.opset_after
            ));
        }
        let kinds: Vec<String> = self
            .counts
            .iter()
            .filter(|(kind, _)| kind.as_str() != "opset_raised")
            .map(|(kind, count)| format!("{count} {}", words(kind, *count)))
            .collect();
        if !kinds.is_empty() {
            text.push_str(&format!(": {}", kinds.join(", ")));
        }
        text
    }
}

fn words(kind: &str, count: u64) -> String {
    let plural = if count == 1 { "" } else { "s" };
    match kind {
        "constant_folded" => format!("constant{plural} folded"),
        "constant_stored" => format!("constant{plural} stored"),
        "pass_through_removed" => format!("pass-through node{plural} removed"),
        "dead_removed" => format!("dead node{plural} or weight{plural} dropped"),
        "layer_normalization_fused" => format!("layer normalization{plural} fused"),
        "gelu_fused" => format!("GELU{plural} fused"),
        other => other.replace('_', " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_says_what_changed() {
        let counts =
            [("gelu_fused", 1), ("constant_stored", 74), ("opset_raised", 1), ("new_kind", 2)];
        let form = CanonicalForm {
            nodes_before: 257,
            nodes_after: 135,
            opset_before: 13,
            opset_after: 20,
            counts: counts.into_iter().map(|(kind, n)| (kind.to_owned(), n)).collect(),
            ..CanonicalForm::default()
        };
        assert_eq!(
            form.summary(),
            "257 nodes became 135 (operator set 13 became 20): 74 constants stored, 1 GELU fused, 2 new kind"
        );
        let same = CanonicalForm { nodes_before: 3, nodes_after: 3, ..CanonicalForm::default() };
        assert_eq!(same.summary(), "3 nodes became 3");
    }
}
