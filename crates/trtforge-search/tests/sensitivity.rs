//! Sensitivity against the slow way: quantizing one unit alone and running the whole graph.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use ndarray::{ArrayD, IxDyn};
use trtforge_evaluate::Prediction;
use trtforge_exec::{EmbeddedExecutor, EmbeddedOptions, Executor, NamedValue};
use trtforge_onnx::build::{graph, model, node, tensor_f32, value};
use trtforge_onnx::{Dim, ElementType, Model};
use trtforge_quantize::{Level, Policy, Scales, Unit, UnitKind, quantize_with, survey, units};
use trtforge_search::{SearchError, Sensitivity, UnitCost, rank};

/// Min-max scales of everything a level observes, from the given inputs.
fn scales(model: &Model, level: Level, inputs: &Inputs) -> Scales {
    let found = survey(model).unwrap();
    let taps: Vec<String> =
        found.observe_at(level).into_iter().chain(found.watch_at(level)).collect();
    let options = EmbeddedOptions { keep: taps.clone(), ..EmbeddedOptions::default() };
    let executor = EmbeddedExecutor::from_model(model, options).unwrap();
    let mut absmax: BTreeMap<String, f32> = BTreeMap::new();
    let mut look = |name: &str, values: &[f32]| {
        let largest = values.iter().fold(0.0f32, |most, x| most.max(x.abs()));
        let seen = absmax.entry(name.to_owned()).or_insert(0.0);
        *seen = seen.max(largest);
    };
    executor.run_tapped(&inputs(&executor), &taps, &mut look).unwrap();
    Scales::min_max(absmax)
}

type Inputs<'i> = dyn Fn(&dyn Executor) -> Vec<NamedValue> + 'i;

fn rows(value: &NamedValue) -> Vec<Prediction> {
    let array = value.1.as_f32().unwrap();
    let width = array.shape()[1..].iter().product();
    let values: Vec<f32> = array.iter().copied().collect();
    values.chunks(width).map(|logits| Prediction { logits: logits.to_vec() }).collect()
}

fn run(model: &Model, inputs: &Inputs) -> Vec<Prediction> {
    let executor = EmbeddedExecutor::from_model(model, EmbeddedOptions::default()).unwrap();
    rows(&executor.run(&inputs(&executor)).unwrap()[0])
}

fn class(prediction: &Prediction) -> usize {
    let logits = &prediction.logits;
    (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap()
}

/// Measures everything that the policy makes INT8, against the model with nothing in INT8.
fn measure(
    base: &Model,
    int8: &Model,
    units: &[Unit],
    output: &str,
    inputs: &Inputs,
) -> Vec<UnitCost> {
    let mut sensitivity = Sensitivity::new(base, int8, units, &[output]).unwrap();
    let executor = EmbeddedExecutor::from_model(base, EmbeddedOptions::default()).unwrap();
    let read = |values: Vec<NamedValue>| Ok::<_, SearchError>(rows(&values[0]));
    let changed = |before: &Prediction, after: &Prediction| class(before) != class(after);
    sensitivity.measure(&inputs(&executor), &read, &changed).unwrap();
    sensitivity.finish()
}

/// Every unit's figures equal those of the whole graph with that unit alone in INT8.
fn equals_the_slow_way(model: &Model, level: Level, inputs: &Inputs) -> Vec<UnitCost> {
    let scales = scales(model, level, inputs);
    let policy = Policy { level, ..Policy::default() };
    let all = units(model, &scales, &policy).unwrap();
    let ids: BTreeSet<String> = all.iter().map(|unit| unit.id.clone()).collect();
    let with = |returned: BTreeSet<String>| {
        let policy = Policy { returned, ..policy.clone() };
        quantize_with(model, &scales, &policy).unwrap().model
    };
    // FP16 weights on both sides, so that INT8 is the only difference.
    let (base, int8) = (with(ids.clone()), with(BTreeSet::new()));
    let output = model.graph().outputs()[0].name.clone();
    let costs = measure(&base, &int8, &all, &output, inputs);
    let before = run(&base, inputs);
    for cost in costs.iter().filter(|cost| cost.unit.kind != UnitKind::ResidualAdd) {
        let mut others = ids.clone();
        others.remove(&cost.unit.id);
        let after = run(&with(others), inputs);
        let pairs = || before.iter().zip(&after);
        let differences: Vec<f64> = pairs()
            .flat_map(|(b, a)| b.logits.iter().zip(&a.logits))
            .map(|(b, a)| f64::from((a - b).abs()))
            .collect();
        let mean = differences.iter().sum::<f64>() / differences.len() as f64;
        let most = differences.iter().copied().fold(0.0, f64::max);
        let node = &cost.unit.node;
        assert!((cost.shift - mean).abs() <= 1e-6, "{node}: {} and {mean}", cost.shift);
        assert!((cost.max_shift - most).abs() <= 1e-6, "{node}: {} and {most}", cost.max_shift);
        assert_eq!(cost.flips, pairs().filter(|(b, a)| class(b) != class(a)).count(), "{node}");
        assert!(cost.snr_db.is_some_and(|snr| snr > 0.0), "{node}: {:?}", cost.snr_db);
        // Min-max scales clip nothing.
        assert_eq!(cost.clipped, 0.0, "{node}");
    }
    costs
}

const WIDTH: usize = 32;

/// `y = relu(relu(−x · a) · b) · c`, all numbers in FP16; `outlier` makes one column of `a` that much larger and the rows of
/// `b` that read it that much smaller.
fn chain(outlier: f32) -> Model {
    let port = |name: &str, width| {
        value(name, ElementType::F32, &[Dim::Named("n".into()), Dim::Fixed(width)])
    };
    let number = |index: usize| ((index * 37 + index / 7) % 64) as f32 / 64.0 - 0.5;
    let matrix = |name: &str, columns: usize, shift: usize, at: &dyn Fn(usize, usize) -> f32| {
        let values: Vec<f32> = (0..WIDTH * columns)
            .map(|i| number(i + shift) * at(i / columns, i % columns))
            .collect();
        tensor_f32(name, &[WIDTH as i64, columns as i64], &values)
    };
    let weights = vec![
        matrix("a", WIDTH, 0, &|_, column| if column == 3 { outlier } else { 1.0 }),
        matrix("b", WIDTH, 5, &|row, _| if row == 3 { 1.0 / outlier } else { 1.0 }),
        matrix("c", 3, 11, &|_, _| 1.0),
    ];
    let nodes = vec![
        node("Neg", "", &["x"], &["n"], vec![]),
        node("MatMul", "first", &["n", "a"], &["xa"], vec![]),
        node("Relu", "", &["xa"], &["r"], vec![]),
        node("MatMul", "second", &["r", "b"], &["rb"], vec![]),
        node("Relu", "", &["rb"], &["s"], vec![]),
        node("MatMul", "third", &["s", "c"], &["y"], vec![]),
    ];
    model(17, graph(vec![port("x", WIDTH as i64)], vec![port("y", 3)], nodes, weights)).unwrap()
}

fn x(_: &dyn Executor) -> Vec<NamedValue> {
    let values: Vec<f32> = (0..9 * WIDTH).map(|i| ((i * 29) % 101) as f32 / 50.0 - 1.0).collect();
    vec![("x".into(), ArrayD::from_shape_vec(IxDyn(&[9, WIDTH]), values).unwrap().into())]
}

#[test]
fn a_chain_of_products_equals_the_slow_way() {
    let costs = equals_the_slow_way(&chain(1.0), Level::Gemm, &x);
    let nodes: Vec<&str> = costs.iter().map(|cost| cost.unit.node.as_str()).collect();
    assert_eq!(nodes, ["first", "second", "third"]);
    assert!(costs.iter().all(|cost| cost.shift > 0.0 && cost.rows == 9));
}

#[test]
fn the_unit_that_reads_an_outlier_channel_comes_first() {
    let mut costs = equals_the_slow_way(&chain(256.0), Level::Gemm, &x);
    rank(&mut costs);
    assert_eq!(costs[0].unit.node, "second");
    assert!(costs[0].shift > 10.0 * costs[1].shift, "{} {}", costs[0].shift, costs[1].shift);
    assert!(costs[0].snr_db < costs[1].snr_db);
}

#[test]
fn batches_add_up() {
    let model = chain(4.0);
    let scales = scales(&model, Level::Gemm, &x);
    let policy = Policy::default();
    let all = units(&model, &scales, &policy).unwrap();
    let int8 = quantize_with(&model, &scales, &policy).unwrap().model;
    let mut sensitivity = Sensitivity::new(&model, &int8, &all, &["y"]).unwrap();
    let read = |values: Vec<NamedValue>| Ok::<_, SearchError>(rows(&values[0]));
    let executor = EmbeddedExecutor::from_model(&model, EmbeddedOptions::default()).unwrap();
    let whole = x(&executor)[0].1.as_f32().unwrap().clone();
    for (from, to) in [(0, 4), (4, 9)] {
        let part = whole.slice_axis(ndarray::Axis(0), (from..to).into()).to_owned();
        sensitivity.measure(&[("x".into(), part.into())], &read, &|_, _| false).unwrap();
    }
    let parts = sensitivity.finish();
    let at_once = measure(&model, &int8, &all, "y", &x);
    for (part, whole) in parts.iter().zip(&at_once) {
        assert!((part.shift - whole.shift).abs() <= 1e-9 && part.rows == whole.rows);
        assert!((part.snr_db.unwrap() - whole.snr_db.unwrap()).abs() <= 1e-6);
    }
}

fn cases() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases");
    if !folder.is_dir() {
        eprintln!("skipped: no shared cases beside the repository");
        return None;
    }
    Some(folder)
}

#[test]
fn every_exporter_s_style_equals_the_slow_way_at_every_level() {
    let Some(cases) = cases() else { return };
    let feed: BTreeMap<String, serde_json::Value> =
        serde_json::from_str(&fs::read_to_string(cases.join("BASE/feed.json")).unwrap()).unwrap();
    let ids: Vec<Vec<i64>> = serde_json::from_value(feed["input_ids"].clone()).unwrap();
    let inputs = |executor: &dyn Executor| -> Vec<NamedValue> {
        let bind = |name: &str| -> Vec<Vec<i64>> {
            let key = match name.trim_end_matches(":0") {
                "segment_ids" => "token_type_ids",
                "input_mask" => "attention_mask",
                "ids" => "input_ids",
                other => other,
            };
            match feed.get(key) {
                Some(rows) => serde_json::from_value(rows.clone()).unwrap(),
                None => ids.iter().map(|row| (0..row.len() as i64).collect()).collect(),
            }
        };
        let array = |rows: Vec<Vec<i64>>| {
            ArrayD::from_shape_vec(IxDyn(&[rows.len(), rows[0].len()]), rows.concat()).unwrap()
        };
        executor.inputs().iter().map(|p| (p.name.clone(), array(bind(&p.name)).into())).collect()
    };
    let mut models: Vec<PathBuf> =
        fs::read_dir(cases.join("BASE")).unwrap().map(|entry| entry.unwrap().path()).collect();
    models.retain(|path| path.extension().is_some_and(|e| e == "onnx"));
    models.sort();
    assert!(!models.is_empty());
    for path in models {
        let model = Model::open(&path).unwrap();
        for level in Level::ALL {
            let costs = equals_the_slow_way(&model, level, &inputs);
            let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
            for cost in &costs {
                *kinds.entry(cost.unit.kind.to_string()).or_default() += 1;
            }
            eprintln!("{} {level}: {kinds:?}", path.file_name().unwrap().display());
            let layers = kinds["intermediate"];
            for kind in ["query", "key", "value", "attention-output", "output"] {
                assert_eq!(kinds.get(kind), Some(&layers), "{}: {kinds:?}", path.display());
            }
        }
    }
}
