//! Watching the tensors of a model while it runs.

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::CalibrateError;
use crate::histogram::Histogram;
use crate::method::Method;
use crate::scan::scan;
use crate::table::TensorCalibration;
use crate::threshold::{Guards, calibrate};

/// Values per task when one tensor is split over threads.
const PART: usize = 1 << 17;

/// Largest magnitude of a tensor that is only watched for overflow in FP16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// Largest finite magnitude.
    pub absmax: f32,
    /// NaN and infinite values.
    pub nonfinite: u64,
    /// All values.
    pub count: u64,
}

impl Range {
    /// Adds every value.
    pub fn observe(&mut self, values: &[f32]) {
        let part = values
            .par_chunks(PART)
            .map(|part| {
                let seen = scan(part);
                let absmax = f32::from_bits(seen.max_bits);
                Range { absmax, nonfinite: seen.nonfinite, count: part.len() as u64 }
            })
            .reduce(Range::default, Range::merged);
        self.merge(&part);
    }

    /// Adds all values of `other`.
    pub fn merge(&mut self, other: &Self) {
        *self = self.merged(*other);
    }

    fn merged(self, other: Self) -> Self {
        Self {
            absmax: self.absmax.max(other.absmax),
            nonfinite: self.nonfinite + other.nonfinite,
            count: self.count + other.count,
        }
    }
}

/// A histogram for each tensor to be quantized and a range for each tensor that is only watched.
///
/// What it holds after a set of values does not depend on their order, on how they were cut into calls, or on the
/// number of threads; see [`Histogram`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observer {
    histograms: BTreeMap<String, Histogram>,
    ranges: BTreeMap<String, Range>,
}

impl Observer {
    /// - `histograms`: tensors to be quantized.
    /// - `watched`: tensors whose largest magnitude must be known.
    pub fn new<H, W>(histograms: H, watched: W) -> Self
    where
        H: IntoIterator,
        H::Item: Into<String>,
        W: IntoIterator,
        W::Item: Into<String>,
    {
        Self {
            histograms: histograms
                .into_iter()
                .map(|name| (name.into(), Histogram::new()))
                .collect(),
            ranges: watched.into_iter().map(|name| (name.into(), Range::default())).collect(),
        }
    }

    /// Every tensor that is observed, in name order and once.
    pub fn tensors(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.histograms.keys().chain(self.ranges.keys()).cloned().collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Adds values of one tensor, on all threads of the current rayon pool. Names nobody asked for are ignored.
    pub fn observe(&mut self, tensor: &str, values: &[f32]) {
        let range = self.ranges.get_mut(tensor);
        let Some(histogram) = self.histograms.get_mut(tensor) else {
            if let Some(range) = range {
                range.observe(values);
            }
            return;
        };
        if let Some(range) = range {
            range.observe(values);
        }
        if values.len() <= PART {
            histogram.observe(values);
        } else {
            histogram.merge(&observe_in_parts(values));
        }
    }

    /// Adds everything that `other` saw. Both must observe the same tensors.
    pub fn merge(&mut self, other: &Self) -> Result<(), CalibrateError> {
        same_names(&self.histograms, &other.histograms)?;
        same_names(&self.ranges, &other.ranges)?;
        for (mine, theirs) in self.histograms.values_mut().zip(other.histograms.values()) {
            mine.merge(theirs);
        }
        for (mine, theirs) in self.ranges.values_mut().zip(other.ranges.values()) {
            mine.merge(theirs);
        }
        Ok(())
    }

    /// The histogram of one tensor.
    pub fn histogram(&self, tensor: &str) -> Option<&Histogram> {
        self.histograms.get(tensor)
    }

    /// All histograms, by tensor.
    pub fn histograms(&self) -> &BTreeMap<String, Histogram> {
        &self.histograms
    }

    /// All ranges, by watched tensor.
    pub fn ranges(&self) -> &BTreeMap<String, Range> {
        &self.ranges
    }

    /// A threshold for every histogram, computed in parallel; the first tensor by name that has none is the error.
    pub fn calibrate(
        &self,
        method: Method,
        guards: &Guards,
    ) -> Result<BTreeMap<String, TensorCalibration>, CalibrateError> {
        let results: Vec<_> = self
            .histograms
            .par_iter()
            .map(|(tensor, histogram)| {
                calibrate(tensor, histogram, method, guards).map(|c| (tensor.clone(), c))
            })
            .collect();
        results.into_iter().collect()
    }

    /// The largest magnitude of every watched tensor and of every tensor with a histogram.
    pub fn absmax(&self) -> BTreeMap<String, f32> {
        let ranges = self.ranges.iter().map(|(name, range)| (name.clone(), range.absmax));
        let histograms = self.histograms.iter().map(|(name, h)| (name.clone(), h.absmax()));
        histograms.chain(ranges).collect()
    }
}

/// One histogram of a slice, made by as many threads as there are.
fn observe_in_parts(values: &[f32]) -> Histogram {
    let observe = |mut histogram: Histogram, part: &[f32]| {
        histogram.observe(part);
        histogram
    };
    values.par_chunks(PART).fold(Histogram::new, observe).reduce(Histogram::new, |mut a, b| {
        a.merge(&b);
        a
    })
}

pub(crate) fn same_names<T>(
    mine: &BTreeMap<String, T>,
    theirs: &BTreeMap<String, T>,
) -> Result<(), CalibrateError> {
    let only_in = |a: &BTreeMap<String, T>, b: &BTreeMap<String, T>| {
        a.keys().find(|name| !b.contains_key(*name)).cloned()
    };
    match only_in(mine, theirs).or_else(|| only_in(theirs, mine)) {
        Some(tensor) => Err(CalibrateError::ShardsDiffer { tensor }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_nobody_asked_for_are_ignored() {
        let mut observer = Observer::new(["a"], ["b"]);
        observer.observe("c", &[1.0]);
        assert_eq!(observer, Observer::new(["a"], ["b"]));
        assert_eq!(observer.tensors(), ["a", "b"]);
    }

    #[test]
    fn a_tensor_can_have_histogram_and_range() {
        let mut observer = Observer::new(["x"], ["x", "y"]);
        observer.observe("x", &[1.0, -2.0, f32::NAN]);
        observer.observe("y", &[70000.0]);
        assert_eq!(observer.ranges()["x"], Range { absmax: 2.0, nonfinite: 1, count: 3 });
        assert_eq!(observer.absmax(), BTreeMap::from([("x".into(), 2.0), ("y".into(), 70000.0)]));
        assert_eq!(observer.tensors(), ["x", "y"]);
    }

    #[test]
    fn any_thread_count_gives_the_same_histogram() {
        let values: Vec<f32> = (0..500_000_u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) as f32 / 1e9).powi(3) - 20.0)
            .collect();
        let mut alone = Histogram::new();
        alone.observe(&values);
        for threads in [1, 2, 3, 7] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut observer = Observer::new(["x"], ["r"]);
            pool.install(|| {
                observer.observe("x", &values);
                observer.observe("r", &values);
            });
            assert_eq!(observer.histograms()["x"], alone, "{threads} threads");
            assert_eq!(observer.ranges()["r"].absmax, alone.absmax());
        }
    }

    #[test]
    fn shards_of_different_tensors_do_not_merge() {
        let mut one = Observer::new(["a", "b"], ["w"]);
        let error = one.merge(&Observer::new(["a"], ["w"])).unwrap_err();
        assert_eq!(error, CalibrateError::ShardsDiffer { tensor: "b".into() });
        let error = one.merge(&Observer::new(["a", "b"], ["v", "w"])).unwrap_err();
        assert_eq!(error, CalibrateError::ShardsDiffer { tensor: "v".into() });
    }

    #[test]
    fn the_first_bad_tensor_by_name_is_the_error() {
        let mut observer = Observer::new(["c", "b", "a"], [""; 0]);
        for (tensor, value) in [("c", f32::NAN), ("b", f32::INFINITY), ("a", 1.0)] {
            observer.observe(tensor, &[value, 1.0]);
        }
        let error = observer.calibrate(Method::MinMax, &Guards::default()).unwrap_err();
        assert!(
            matches!(error, CalibrateError::Tensor { ref tensor, .. } if tensor == "b"),
            "{error}"
        );
        assert_eq!(
            error.to_string(),
            "tensor `b` cannot be calibrated: 1 of 2 values are NaN or infinite"
        );
    }
}
