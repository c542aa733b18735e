//! One loaded INT8 graph for any scales of its activations.
//!
//! Weights are quantized, laid out and loaded once; the scales of activations, constants in the graph an engine is built
//! from, become inputs that are fed with every run. The arithmetic is the same: the embedded executor has no fusion that
//! asks for constant scales.

use std::collections::{BTreeMap, BTreeSet};

use ndarray::arr0;
use trtforge_evaluate::Prediction;
use trtforge_exec::{EmbeddedExecutor, EmbeddedOptions, NamedValue};
use trtforge_onnx::build::value;
use trtforge_onnx::{ElementType, Model};
use trtforge_quantize::{Rewritten, ScaleSlot};

use crate::auto::Measure;
use crate::divergence::Divergence;
use crate::error::SearchError;
use crate::rows::{Baseline, Rows};

/// An INT8 graph on the embedded executor, its activation scales given with each run.
pub struct ScaledGraph {
    executor: EmbeddedExecutor,
    slots: Vec<ScaleSlot>,
}

impl ScaledGraph {
    /// Loads a quantized graph; the scales it was made with are forgotten.
    pub fn load(rewritten: &Rewritten) -> Result<Self, SearchError> {
        let slots = rewritten.scales.clone();
        let constants: BTreeSet<&str> = slots.iter().map(|slot| slot.constant.as_str()).collect();
        let mut proto = rewritten.model.proto().clone();
        let graph = proto.graph.get_or_insert_default();
        graph.initializer.retain(|tensor| !constants.contains(tensor.name()));
        graph.input.extend(constants.iter().map(|name| value(name, ElementType::F32, &[])));
        let model = Model::from_proto(proto)?;
        let executor = EmbeddedExecutor::from_model(&model, EmbeddedOptions::default())?;
        Ok(Self { executor, slots })
    }

    /// The tensors whose scales a run needs.
    pub fn tensors(&self) -> BTreeSet<&str> {
        self.slots.iter().map(|slot| slot.tensor.as_str()).collect()
    }

    /// Runs one part of the rows with these scales by tensor and compares with FP32.
    pub fn divergence<R: Rows>(
        &self,
        rows: &R,
        baseline: &Baseline,
        scales: &BTreeMap<&str, f32>,
        part: usize,
    ) -> Result<Divergence, R::Error> {
        let logits = self.run(rows, scales, part)?;
        Ok(baseline.divergence(part, &logits)?)
    }

    /// The logits of one part of the rows with these scales by tensor.
    pub fn run<R: Rows>(
        &self,
        rows: &R,
        scales: &BTreeMap<&str, f32>,
        part: usize,
    ) -> Result<Vec<Prediction>, R::Error> {
        rows.run(&self.executor, part, &self.inputs(scales)?)
    }

    fn inputs(&self, scales: &BTreeMap<&str, f32>) -> Result<Vec<NamedValue>, SearchError> {
        let input = |slot: &ScaleSlot| {
            let missing = || SearchError::NoScale { tensor: slot.tensor.clone() };
            let scale = *scales.get(slot.tensor.as_str()).ok_or_else(missing)?;
            Ok((slot.constant.clone(), arr0(slot.stored(scale)).into_dyn().into()))
        };
        self.slots.iter().map(input).collect()
    }
}

/// A graph, the rows and their FP32 logits: what a search over scales measures with.
pub struct GraphMeasure<'a, R> {
    /// The graph.
    pub graph: &'a ScaledGraph,
    /// The rows.
    pub rows: &'a R,
    /// What the FP32 model answers on them.
    pub baseline: &'a Baseline,
}

impl<R: Rows> Measure for GraphMeasure<'_, R> {
    type Error = R::Error;

    fn parts(&self) -> usize {
        self.rows.parts()
    }

    fn measure(
        &mut self,
        scales: &BTreeMap<&str, f32>,
        part: usize,
    ) -> Result<Divergence, R::Error> {
        self.graph.divergence(self.rows, self.baseline, scales, part)
    }
}
