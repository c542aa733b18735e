//! Plans brought to life by the double.

use trtforge_exec::Executor;
use trtforge_tensorrt::{
    DeviceExecutor, DeviceOptions, ErrorKind, PlanError, Sdk, TensorRtError, deserialize, driver,
};

use crate::support::{floats, library, rows, with_profiles, with_row};

#[test]
fn the_driver_says_that_it_is_a_double() {
    let _double = trtforge_double::exclusive();
    let driver = driver().unwrap();
    assert_eq!(driver.cuda_version, "13.0");
    assert_eq!(driver.gpus[0].name, "TEST DOUBLE (no GPU)");
    assert_eq!(driver.gpus[0].compute_capability, "9.0");
}

#[test]
fn an_engine_has_the_tensors_profiles_and_layers_of_its_plan() {
    let _double = trtforge_double::exclusive();
    let recording = with_profiles();
    for (sdk, plan) in [(Sdk::TensorRt, recording.plan()), (Sdk::TensorRtRtx, recording.rtx_plan())]
    {
        let engine = deserialize(&library(sdk), &plan).unwrap();
        let names = |infos: Vec<trtforge_onnx::ValueInfo>| -> Vec<String> {
            infos.into_iter().map(|info| info.name).collect()
        };
        assert_eq!(names(engine.inputs().unwrap()), ["ids", "mask"]);
        assert_eq!(names(engine.outputs().unwrap()), ["logits"]);
        let profiles = engine.profiles().unwrap();
        assert_eq!(profiles.len(), 2);
        assert_eq!(profiles[1].inputs["ids"].max, [2, 32]);
        let layers: serde_json::Value = serde_json::from_str(&engine.inspect().unwrap()).unwrap();
        assert_eq!(layers["Layers"], serde_json::json!(["first", "second"]));
        drop(engine);
        trtforge_double::account().assert_clean();
    }
}

#[test]
fn every_way_to_refuse_a_plan_is_an_error_and_leaves_nothing() {
    let double = trtforge_double::exclusive();
    let library = library(Sdk::TensorRt);
    let plan = with_profiles().plan();
    let refused = |plan: &[u8]| deserialize(&library, plan).err().unwrap();
    let cases = [
        ("another version", with_profiles().plan_of_version(110_300), "version tag"),
        ("cut off", plan[..plan.len() / 2].to_vec(), "no JSON"),
        ("magic alone", b"ftrt".to_vec(), "no JSON"),
    ];
    for (what, plan, expected) in cases {
        let error = refused(&plan);
        assert!(matches!(error, TensorRtError::PlanRefused { .. }), "{what}: {error}");
        assert!(error.to_string().contains(expected), "{what}: {error}");
        assert_eq!(error.kind(), ErrorKind::BadInput, "{what}");
        trtforge_double::account().assert_clean();
    }
    // Another SDK's plan never reaches the library.
    let error = refused(&with_profiles().rtx_plan());
    assert!(matches!(error, TensorRtError::Plan(PlanError::OtherSdk { .. })), "{error}");
    assert_eq!(error.kind(), ErrorKind::Missing);
    let injected = [
        ("createInferRuntime", ErrorKind::Failed, "made no runtime"),
        ("createInferRuntime/garbage", ErrorKind::Failed, "made no runtime"),
        ("deserializeCudaEngine", ErrorKind::BadInput, "told to fail"),
        ("deserializeCudaEngine/version", ErrorKind::BadInput, "another version"),
        ("cuInit", ErrorKind::Missing, "cuInit"),
        ("cuDeviceGetCount", ErrorKind::Missing, "cuDeviceGetCount"),
        ("cuDeviceGetName", ErrorKind::Missing, "cuDeviceGetName"),
    ];
    for (call, kind, expected) in injected {
        trtforge_double::reset();
        trtforge_double::fail_at(call, 1);
        let error = refused(&plan);
        assert_eq!(error.kind(), kind, "{call}: {error}");
        assert!(error.to_string().contains(expected), "{call}: {error}");
        trtforge_double::account().assert_clean();
    }
    drop(double);
}

#[test]
fn rows_are_played_back_in_any_batch() {
    let _double = trtforge_double::exclusive();
    let recorded: [(&[i64], [f32; 2]); 3] =
        [(&[1, 2, 3], [0.5, -0.5]), (&[4], [2.0, 3.0]), (&[9, 8, 7, 6, 5], [-1.0, 1.0])];
    let recording =
        recorded.iter().fold(with_profiles(), |made, (ids, logits)| with_row(made, ids, *logits));
    let executor =
        DeviceExecutor::open(&library(Sdk::TensorRt), &recording.plan(), &DeviceOptions::default())
            .unwrap();
    for order in [&[0][..], &[2, 1], &[1, 0, 2], &[0, 0, 1, 1]] {
        let ids: Vec<&[i64]> = order.iter().map(|&row| recorded[row].0).collect();
        let expected: Vec<f32> = order.iter().flat_map(|&row| recorded[row].1).collect();
        assert_eq!(floats(&executor.run(&rows(&ids)).unwrap()), expected, "{order:?}");
    }
    drop(executor);
    trtforge_double::account().assert_clean();
}
