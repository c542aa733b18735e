//! What can be chosen for each tensor: the threshold of every method, from one histogram.

use std::collections::BTreeMap;

use trtforge_calibrate::{
    CalibrateError, Guards, Method, Observer, TensorCalibration, noise_to_signal,
};

/// Methods that `auto` chooses from; of equally good ones the first is taken.
pub const METHODS: [Method; 6] = [
    Method::Entropy,
    Method::Mse,
    Method::Percentile(99.99),
    Method::Percentile(99.999),
    Method::Percentile(99.9),
    Method::MinMax,
];

/// The thresholds of several methods for each tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidates {
    methods: Vec<Method>,
    tensors: BTreeMap<String, Vec<Candidate>>,
}

/// One method's threshold of one tensor.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Candidate {
    pub calibration: TensorCalibration,
    /// Squared error of quantizing the histogram's values, as a share of their squares.
    pub noise: f64,
}

impl Candidates {
    /// The thresholds of `methods` for every tensor of an observer.
    ///
    /// # Panics
    ///
    /// For an empty list of methods.
    pub fn of(
        observer: &Observer,
        methods: &[Method],
        guards: &Guards,
    ) -> Result<Self, CalibrateError> {
        assert!(!methods.is_empty(), "there is nothing to choose from");
        let mut tensors: BTreeMap<String, Vec<Candidate>> = BTreeMap::new();
        for &method in methods {
            for (tensor, calibration) in observer.calibrate(method, guards)? {
                let histogram = observer.histogram(&tensor);
                let noise = histogram.map_or(0.0, |h| noise_to_signal(h, calibration.threshold));
                tensors.entry(tensor).or_default().push(Candidate { calibration, noise });
            }
        }
        Ok(Self { methods: methods.to_vec(), tensors })
    }

    /// The methods, in the order of preference.
    pub fn methods(&self) -> &[Method] {
        &self.methods
    }

    /// Tensors with their candidates, one per method.
    pub(crate) fn tensors(&self) -> &BTreeMap<String, Vec<Candidate>> {
        &self.tensors
    }

    /// One method for all.
    pub(crate) fn uniform(&self, method: usize) -> Choice<'_> {
        Choice {
            candidates: self,
            chosen: self.tensors.keys().map(|name| (name.as_str(), method)).collect(),
        }
    }

    /// The table entries of one method.
    pub fn table(&self, method: Method) -> Option<BTreeMap<String, TensorCalibration>> {
        let position = self.methods.iter().position(|known| *known == method)?;
        Some(self.uniform(position).table())
    }
}

/// One candidate for each tensor.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Choice<'c> {
    candidates: &'c Candidates,
    chosen: BTreeMap<&'c str, usize>,
}

impl<'c> Choice<'c> {
    pub fn of(&self, tensor: &str) -> usize {
        self.chosen[tensor]
    }

    /// The same with another method for some tensors.
    pub fn with(&self, tensors: &[&'c str], method: usize) -> Self {
        let mut changed = self.clone();
        changed.chosen.extend(tensors.iter().map(|&tensor| (tensor, method)));
        changed
    }

    pub fn scales(&self) -> BTreeMap<&'c str, f32> {
        self.each().map(|(name, candidate)| (name, candidate.calibration.scale)).collect()
    }

    pub fn table(&self) -> BTreeMap<String, TensorCalibration> {
        self.each()
            .map(|(name, candidate)| (name.to_owned(), candidate.calibration.clone()))
            .collect()
    }

    fn each(&self) -> impl Iterator<Item = (&'c str, &'c Candidate)> {
        let candidates = self.candidates;
        self.chosen.iter().map(|(name, method)| (*name, &candidates.tensors[*name][*method]))
    }
}
