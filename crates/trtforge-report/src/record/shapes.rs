//! The shapes an engine is built for, the row lengths behind them, and the padding that remains.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::number;

/// Optimization profiles, and what chose them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Shapes {
    /// `evaluation`, `calibration` or `explicit`.
    #[serde(default)]
    pub from: Option<String>,
    /// One per optimization profile, in engine order.
    #[serde(default)]
    pub profiles: Vec<ShapeProfile>,
    /// Token counts of the rows the profiles were planned from.
    #[serde(default)]
    pub lengths: Option<LengthSummary>,
    /// Padding under each way of batching those rows.
    #[serde(default)]
    pub padding: Vec<PaddingFigure>,
}

/// One optimization profile.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShapeProfile {
    /// Range of each dynamic input.
    pub inputs: BTreeMap<String, ShapeRange>,
    /// Rows whose length falls to this profile.
    #[serde(default)]
    pub rows: Option<u64>,
    /// Share of this profile's tokens that are padding, from 0 to 1.
    #[serde(default, with = "number")]
    #[schemars(with = "Option<f64>")]
    pub padding_share: Option<f64>,
}

/// Smallest, tuned-for and largest dimensions of one input, usually `[batch, tokens]`.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct ShapeRange {
    /// Smallest dimensions accepted.
    pub min: Vec<i64>,
    /// Dimensions the engine is tuned for.
    pub opt: Vec<i64>,
    /// Largest dimensions accepted.
    pub max: Vec<i64>,
}

/// Row lengths in tokens.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LengthSummary {
    /// Rows.
    pub count: u64,
    /// Shortest.
    pub min: u64,
    /// Longest.
    pub max: u64,
    /// Mean.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub mean: f64,
    /// Half of the rows are no longer.
    pub p50: u64,
    /// 90 % of the rows are no longer.
    pub p90: u64,
    /// 95 % of the rows are no longer.
    pub p95: u64,
    /// 99 % of the rows are no longer.
    pub p99: u64,
    /// Rows cut at the profile's `max_length`.
    #[serde(default)]
    pub truncated: u64,
    /// Rows by length, shortest first; gaps are empty.
    #[serde(default)]
    pub histogram: Vec<LengthBin>,
}

/// Rows of `from..=to` tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LengthBin {
    /// Shortest length in the bin.
    pub from: u64,
    /// Longest length in the bin.
    pub to: u64,
    /// Rows.
    pub count: u64,
}

impl LengthBin {
    /// Merges the rows of each length into at most `bins` bins of equal width, the first starting at 1.
    pub fn from_counts(rows: &BTreeMap<usize, usize>, bins: usize) -> Vec<Self> {
        let longest = rows.keys().next_back().copied().unwrap_or(0);
        let width = longest.div_ceil(bins.max(1)).max(1);
        let mut merged = BTreeMap::<usize, u64>::new();
        for (&length, &count) in rows {
            *merged.entry(length.saturating_sub(1) / width).or_default() += count as u64;
        }
        let bin = |(index, count)| Self {
            from: (index * width + 1) as u64,
            to: ((index + 1) * width) as u64,
            count,
        };
        merged.into_iter().map(bin).collect()
    }
}

/// Padding under one way of batching.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PaddingFigure {
    /// The way, in words, such as `longest in batch, sorted`.
    pub mode: String,
    /// Tokens of the rows themselves.
    pub real_tokens: u64,
    /// Tokens the engine computes, padding included.
    pub padded_tokens: u64,
    /// Share of the computed tokens that are padding, from 0 to 1.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub wasted_share: f64,
}

impl PaddingFigure {
    /// Works out the wasted share; zero when nothing was computed.
    pub fn new(mode: impl Into<String>, real_tokens: u64, padded_tokens: u64) -> Self {
        let wasted = padded_tokens.saturating_sub(real_tokens) as f64;
        let wasted_share = if padded_tokens == 0 { 0.0 } else { wasted / padded_tokens as f64 };
        Self { mode: mode.into(), real_tokens, padded_tokens, wasted_share }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_fall_into_bins_of_equal_width() {
        // By hand: the longest is 10, so four bins are 3 wide: 1–3, 4–6, 7–9, 10–12; 7–9 is empty and left out.
        let rows = BTreeMap::from([(1, 5), (3, 1), (4, 2), (10, 7)]);
        let bin = |from, to, count| LengthBin { from, to, count };
        assert_eq!(LengthBin::from_counts(&rows, 4), [bin(1, 3, 6), bin(4, 6, 2), bin(10, 12, 7)]);
        assert_eq!(LengthBin::from_counts(&BTreeMap::new(), 4), []);
        assert_eq!(LengthBin::from_counts(&BTreeMap::from([(0, 1)]), 0), [bin(1, 1, 1)]);
    }

    #[test]
    fn the_wasted_share_is_of_the_computed_tokens() {
        // By hand: 30 real of 40 computed wastes 10 / 40.
        assert_eq!(PaddingFigure::new("x", 30, 40).wasted_share, 0.25);
        assert_eq!(PaddingFigure::new("x", 0, 0).wasted_share, 0.0);
    }
}
