//! Plans checked against the double's library and GPU, and what its inspector's words prove.

use serde_json::json;
use trtforge_tensorrt::{
    Detail, EngineLayers, ErrorKind, NumberType, PlanError, PlanFile, Sdk, deserialize, driver,
};

use crate::support::{library, with_profiles};

#[test]
fn an_engine_is_asked_for_its_layers() {
    let _double = trtforge_double::exclusive();
    let mut recording = with_profiles();
    let tensor =
        |kind: &str| json!({ "Name": "t", "Dimensions": [-1, 64], "Format/Datatype": kind });
    recording.layers = vec![
        json!({ "Name": "q_myl0_1", "LayerType": "gemm", "StreamId": 0,
                "Inputs": [tensor("Int8"), tensor("Int8"), tensor("Half")], "Outputs": [tensor("Half")],
                "TacticName": "sm80_xmma_gemm_i8f32_i8i32_f32_tn_n_tilesize64x64x64",
                "Metadata": "[ONNX Layer: q]\u{1f}[ONNX Layer: q_bias]" }),
        json!("only a name"),
    ];
    for (sdk, plan) in [(Sdk::TensorRt, recording.plan()), (Sdk::TensorRtRtx, recording.rtx_plan())]
    {
        let engine = deserialize(&library(sdk), &plan).unwrap();
        let layers = EngineLayers::from_json(&engine.inspect().unwrap()).unwrap();
        assert_eq!((layers.detail, layers.layers.len()), (Detail::Full, 2), "{sdk}");
        assert_eq!(layers.layers[0].compute.number, Some(NumberType::Int8));
        assert_eq!(layers.layers[0].origin, ["q", "q_bias"]);
        assert_eq!(layers.layers[1].compute.number, None);
    }
    trtforge_double::account().assert_clean();
}

#[test]
fn a_plan_on_disk_is_held_against_library_and_gpu() {
    let _double = trtforge_double::exclusive();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.plan");
    let bytes = with_profiles().plan();
    std::fs::write(&path, &bytes).unwrap();
    let hash = |bytes: &[u8]| blake3::hash(bytes).to_hex().to_string();
    let manifest = |capability: &str, version: &str| {
        let manifest = json!({
            "schema": 2, "tool": "trtforge", "precision": "int8",
            "plan": { "name": "engines/m.plan", "bytes": bytes.len(), "blake3": hash(&bytes) },
            "onnx": { "name": "onnx/m.onnx", "blake3": hash(b"x") },
            "sdk": "TensorRT", "sdk_version": version, "profiles": [],
            "runs_on": { "rule": "exactly", "compute_capability": capability },
        });
        std::fs::write(folder.path().join("m.plan.json"), manifest.to_string()).unwrap();
        PlanFile::open(&path).unwrap()
    };
    let gpus = driver().unwrap().gpus;
    let (tensorrt, rtx) = (library(Sdk::TensorRt), library(Sdk::TensorRtRtx));
    let fits = manifest("9.0", "11.4.0");
    assert!(fits.check(&tensorrt, gpus.first()).unwrap().is_empty());
    assert!(deserialize(&tensorrt, fits.bytes()).is_ok());
    let refused = [
        fits.check(&rtx, gpus.first()).unwrap_err(),
        manifest("8.9", "11.4.0").check(&tensorrt, gpus.first()).unwrap_err(),
        manifest("9.0", "11.3.0").check(&tensorrt, gpus.first()).unwrap_err(),
    ];
    assert!(matches!(refused[0], PlanError::OtherSdk { .. }), "{}", refused[0]);
    assert!(matches!(refused[1], PlanError::OtherGpu { .. }), "{}", refused[1]);
    assert!(refused[1].to_string().contains("TEST DOUBLE (no GPU)"), "{}", refused[1]);
    assert!(matches!(refused[2], PlanError::OtherVersion { .. }), "{}", refused[2]);
    assert!(refused.iter().all(|error| error.kind() == ErrorKind::Missing));
}
