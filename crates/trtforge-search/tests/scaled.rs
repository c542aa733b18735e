//! A graph whose scales are inputs computes what the graph with the same scales in it does, to the bit.

#[path = "../../../tests/support/tiny.rs"]
#[allow(dead_code, reason = "only the model and the number of words are used")]
mod tiny;

use std::collections::BTreeMap;

use ndarray::ArrayD;
use trtforge_evaluate::Prediction;
use trtforge_exec::{EmbeddedExecutor, EmbeddedOptions, Executor, NamedValue, Value};
use trtforge_onnx::Model;
use trtforge_quantize::{Level, Policy, Scales, quantize_with, survey};
use trtforge_search::{Baseline, Rows, ScaledGraph, SearchError};

/// Two batches of made-up token ids.
struct Ids;

impl Rows for Ids {
    type Error = SearchError;

    fn parts(&self) -> usize {
        2
    }

    fn run(
        &self,
        executor: &dyn Executor,
        part: usize,
        more: &[NamedValue],
    ) -> Result<Vec<Prediction>, SearchError> {
        let ids: Vec<i64> = (0..24).map(|i| 5 + (7 * i + 3 * part as i64) % 8).collect();
        let matrix = |values: Vec<i64>| {
            Value::I64(ArrayD::from_shape_vec(vec![4, 6], values).expect("24 values"))
        };
        let mut inputs = vec![
            ("input_ids".to_owned(), matrix(ids)),
            ("attention_mask".to_owned(), matrix(vec![1; 24])),
        ];
        inputs.extend(more.iter().cloned());
        let (_, logits) = executor.run(&inputs)?.remove(0);
        let logits: Vec<f32> =
            logits.as_f32().expect("logits are floats").iter().copied().collect();
        Ok(logits.chunks(2).map(|row| Prediction { logits: row.to_vec() }).collect())
    }
}

fn model() -> Model {
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path());
    Model::open(&folder.path().join("model.onnx")).unwrap()
}

#[test]
fn fed_scales_are_baked_scales() {
    let model = model();
    let survey = survey(&model).unwrap();
    for level in Level::ALL {
        let observed = survey.observe_at(level);
        let policy = Policy { level, ..Policy::default() };
        let bake = |scales: &BTreeMap<&str, f32>| {
            let scale = scales.iter().map(|(name, scale)| ((*name).to_owned(), *scale)).collect();
            // No range is known, so nothing is kept from FP16: only the scales differ.
            quantize_with(&model, &Scales { scale, absmax: BTreeMap::new() }, &policy).unwrap()
        };
        let scales = |step: f32| -> BTreeMap<&str, f32> {
            let grown = observed.iter().enumerate();
            grown.map(|(i, name)| (name.as_str(), step * (1.0 + 0.37 * i as f32))).collect()
        };
        let graph = ScaledGraph::load(&bake(&scales(0.01))).unwrap();
        assert_eq!(graph.tensors(), scales(1.0).into_keys().collect(), "{level}");
        let baseline = EmbeddedExecutor::from_model(&model, EmbeddedOptions::default()).unwrap();
        let baseline = Baseline::measure(&Ids, &baseline).unwrap();
        // The last ones are below what FP16 holds, where the graph keeps an FP32 scale.
        let mut shifts = vec![];
        for step in [0.01, 0.0171, 0.003, 1e-6] {
            let scales = scales(step);
            let baked = bake(&scales).model;
            let baked = EmbeddedExecutor::from_model(&baked, EmbeddedOptions::default()).unwrap();
            for part in 0..2 {
                let fed = graph.run(&Ids, &scales, part).unwrap();
                if step > 1e-5 {
                    assert_eq!(fed, Ids.run(&baked, part, &[]).unwrap(), "{level} {step}");
                }
                shifts.push(baseline.divergence(part, &fed).unwrap().mean());
            }
        }
        assert!(shifts.iter().all(|shift| shift.is_finite() && *shift > 0.0), "{shifts:?}");
        assert!(shifts[6] > shifts[0], "clipping everything moves more: {shifts:?}");
    }
}

#[test]
fn a_missing_scale_is_named() {
    let model = model();
    let scales = survey(&model).unwrap().observe;
    let scale = scales.iter().map(|name| (name.clone(), 0.01)).collect();
    let rewritten =
        quantize_with(&model, &Scales { scale, absmax: BTreeMap::new() }, &Policy::default());
    let graph = ScaledGraph::load(&rewritten.unwrap()).unwrap();
    let error = graph.run(&Ids, &BTreeMap::new(), 0).unwrap_err();
    assert!(matches!(error, SearchError::NoScale { .. }), "{error}");
}
