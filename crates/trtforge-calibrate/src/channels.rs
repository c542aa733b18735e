//! The largest magnitude of every channel of a tensor, which tells SmoothQuant which channels stand out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::CalibrateError;
use crate::observer::same_names;

/// Bits of a float without its sign; ordered like the magnitudes they stand for.
const MAGNITUDE: u32 = 0x7fff_ffff;

/// Largest magnitudes along the last axis of named tensors.
///
/// Made of maxima alone, so what it holds after a set of values does not depend on their order, on how they were cut
/// into calls, or on which shard saw which.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChannelRanges {
    /// Empty until the tensor's first values arrive.
    tensors: BTreeMap<String, Vec<f32>>,
}

impl ChannelRanges {
    /// Watches the tensors of these names.
    pub fn new<N>(names: N) -> Self
    where
        N: IntoIterator,
        N::Item: Into<String>,
    {
        Self { tensors: names.into_iter().map(|name| (name.into(), vec![])).collect() }
    }

    /// Adds values of one tensor; names nobody asked for are ignored.
    ///
    /// - `values`: row-major, the last axis (or what readers reshape to it) of length `channels`.
    ///
    /// NaN and infinity are an error that names tensor and channel, and leave no trace in the ranges.
    pub fn observe(
        &mut self,
        tensor: &str,
        values: &[f32],
        channels: usize,
    ) -> Result<(), CalibrateError> {
        let Some(largest) = self.tensors.get_mut(tensor) else { return Ok(()) };
        let known = if largest.is_empty() { channels } else { largest.len() };
        if channels == 0 || known != channels || !values.len().is_multiple_of(channels) {
            let (tensor, values) = (tensor.to_owned(), values.len());
            return Err(CalibrateError::Channels { tensor, values, channels, known });
        }
        let seen = maxima(values, channels);
        if let Some(channel) = seen.iter().position(|max| !max.is_finite()) {
            return Err(CalibrateError::ChannelNotFinite { tensor: tensor.to_owned(), channel });
        }
        merge_maxima(largest, &seen);
        Ok(())
    }

    /// Adds everything that `other` saw. Both must watch the same tensors.
    pub fn merge(&mut self, other: &Self) -> Result<(), CalibrateError> {
        same_names(&self.tensors, &other.tensors)?;
        for ((tensor, mine), theirs) in self.tensors.iter().zip(other.tensors.values()) {
            if !mine.is_empty() && !theirs.is_empty() && mine.len() != theirs.len() {
                let (channels, known) = (theirs.len(), mine.len());
                let (tensor, values) = (tensor.clone(), channels);
                return Err(CalibrateError::Channels { tensor, values, channels, known });
            }
        }
        for (mine, theirs) in self.tensors.values_mut().zip(other.tensors.values()) {
            merge_maxima(mine, theirs);
        }
        Ok(())
    }

    /// The largest magnitude of each channel, by tensor; a tensor that no value was seen of has none.
    pub fn absmax(&self) -> BTreeMap<String, Vec<f32>> {
        let seen = self.tensors.iter().filter(|(_, largest)| !largest.is_empty());
        seen.map(|(name, largest)| (name.clone(), largest.clone())).collect()
    }
}

fn merge_maxima(mine: &mut Vec<f32>, theirs: &[f32]) {
    if mine.is_empty() {
        *mine = theirs.to_vec();
    }
    for (max, value) in mine.iter_mut().zip(theirs) {
        *max = max.max(*value);
    }
}

/// Magnitudes compare as integers, which compiles to vector code and lets NaN and infinity win over every number.
fn maxima(values: &[f32], channels: usize) -> Vec<f32> {
    let mut bits = vec![0_i32; channels];
    for row in values.chunks_exact(channels) {
        for (max, value) in bits.iter_mut().zip(row) {
            *max = (*max).max((value.to_bits() & MAGNITUDE).cast_signed());
        }
    }
    bits.into_iter().map(|max| f32::from_bits(max.cast_unsigned())).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[f32], channels: usize) -> ChannelRanges {
        let mut ranges = ChannelRanges::new(["x"]);
        ranges.observe("x", values, channels).unwrap();
        ranges
    }

    #[test]
    fn each_channel_has_its_own_largest_magnitude() {
        let mut ranges = of(&[1.0, -5.0, 0.0, -2.0, 4.0, -0.0], 3);
        assert_eq!(ranges.absmax()["x"], [2.0, 5.0, 0.0]);
        ranges.observe("x", &[0.5, -6.0, 0.25], 3).unwrap();
        ranges.observe("other", &[9.0; 4], 2).unwrap();
        assert_eq!(ranges.absmax(), BTreeMap::from([("x".into(), vec![2.0, 6.0, 0.25])]));
    }

    #[test]
    fn a_tensor_without_values_has_no_channels() {
        assert_eq!(ChannelRanges::new(["x"]).absmax(), BTreeMap::new());
        assert_eq!(of(&[], 2).absmax()["x"], [0.0, 0.0]);
    }

    #[test]
    fn what_is_not_finite_is_an_error_and_leaves_no_trace() {
        for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut ranges = of(&[1.0, 2.0], 2);
            let error = ranges.observe("x", &[3.0, 1.0, 4.0, bad, 5.0, 6.0], 2).unwrap_err();
            let expected = CalibrateError::ChannelNotFinite { tensor: "x".into(), channel: 1 };
            assert_eq!(error, expected, "{bad}");
            assert_eq!(ranges, of(&[1.0, 2.0], 2));
        }
    }

    #[test]
    fn channels_that_do_not_fit_are_an_error() {
        for (values, channels) in [(4, 3), (6, 3), (4, 0), (3, 2)] {
            let error = of(&[1.0, 2.0], 2).observe("x", &vec![0.0; values], channels).unwrap_err();
            let expected =
                CalibrateError::Channels { tensor: "x".into(), values, channels, known: 2 };
            assert_eq!(error, expected);
        }
        let error = of(&[1.0, 2.0], 2).merge(&of(&[1.0], 1)).unwrap_err();
        assert!(matches!(error, CalibrateError::Channels { known: 2, channels: 1, .. }));
        let error = of(&[1.0], 1).merge(&ChannelRanges::new(["y"])).unwrap_err();
        assert!(matches!(error, CalibrateError::ShardsDiffer { .. }), "{error}");
    }

    #[test]
    fn the_file_form_is_a_map() {
        let text = serde_json::to_string(&of(&[1.0, -0.1], 2)).unwrap();
        assert_eq!(text, r#"{"x":[1.0,0.1]}"#);
        assert_eq!(serde_json::from_str::<ChannelRanges>(&text).unwrap(), of(&[1.0, 0.1], 2));
    }

    proptest! {
        #[test]
        fn shards_in_any_order_give_the_same_bits(
            rows in prop::collection::vec(prop::array::uniform5(-1e30f32..1e30), 1..40),
            cut in 0usize..40,
            turn in 0usize..40,
        ) {
            let whole = of(&rows.concat(), 5);
            let mut turned = rows.clone();
            turned.rotate_left(turn % rows.len());
            let (left, right) = turned.split_at(cut.min(rows.len()));
            let (left, right) = (of(&left.concat(), 5), of(&right.concat(), 5));
            for (mut one, other) in [(left.clone(), &right), (right.clone(), &left)] {
                one.merge(other).unwrap();
                prop_assert_eq!(&one, &whole);
            }
        }
    }
}
