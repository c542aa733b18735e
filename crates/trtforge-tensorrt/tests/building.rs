//! Real plans, built by TensorRT-RTX without a GPU.

mod common;

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{batches, build_plan, case, go_on, matmul, model_of, rtx, unchecked};
use trtforge_onnx::{ElementType, Model, SaveOptions, build};
use trtforge_tensorrt::{
    BuildOptions, BuildShare, ErrorKind, OptimizationProfile, ProfileError, Progress, Sdk,
    Severity, Size, TensorRtError,
};

#[test]
fn a_plan_is_built_saved_and_the_same_bytes_again() {
    let folder = tempfile::tempdir().unwrap();
    let onnx = folder.path().join("tiny.onnx");
    matmul().save(&onnx).unwrap();
    let plan = build_plan(&onnx, &[batches(1, 4, 8)]).unwrap();
    assert_eq!(plan.sdk, Sdk::TensorRtRtx);
    assert_eq!(plan.version.to_string(), "1.7.1");
    assert_eq!(&plan.bytes()[1..4], b"trt");
    assert_eq!(plan.inputs[0].name, "x");
    assert_eq!(plan.inputs[0].element_type, ElementType::F32);
    assert_eq!(plan.outputs[0].name, "y");
    assert!(plan.layers >= 1, "{}", plan.layers);
    let saved = folder.path().join("tiny.plan");
    plan.save(&saved).unwrap();
    assert!(std::fs::read(&saved).unwrap() == plan.bytes());
    let again = build_plan(&onnx, &[batches(1, 4, 8)]).unwrap();
    assert!(again.bytes() == plan.bytes(), "another plan from the same model");
    let other = build_plan(&onnx, &[batches(1, 4, 16)]).unwrap();
    assert!(other.bytes() != plan.bytes(), "the profile is not in the plan");
}

#[test]
fn the_log_is_kept_without_folders() {
    let folder = tempfile::tempdir().unwrap();
    let onnx = folder.path().join("tiny.onnx");
    matmul().save(&onnx).unwrap();
    let plan = build_plan(&onnx, &[batches(1, 4, 8)]).unwrap();
    let lines: Vec<String> = plan.log.iter().map(ToString::to_string).collect();
    let text = lines.join("\n");
    assert!(text.contains("info: Input filename:   tiny.onnx"), "{text}");
    assert!(!text.contains(&*folder.path().to_string_lossy()), "{text}");
    let quiet = BuildOptions { keep_log: Severity::Error, ..BuildOptions::default() };
    let plan =
        trtforge_tensorrt::build(&rtx(), &onnx, &[batches(1, 4, 8)], &quiet, &go_on).unwrap();
    assert!(plan.log.iter().all(|line| line.severity <= Severity::Error), "{:?}", plan.log);
}

#[test]
fn external_data_is_read_from_beside_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("inside.onnx");
    let outside = folder.path().join("outside.onnx");
    let nodes = vec![
        build::node("MatMul", "first", &["x", "large"], &["wide"], vec![]),
        build::node("MatMul", "second", &["wide", "narrowing"], &["y"], vec![]),
    ];
    let weights = |dims: &[i64], name| {
        let count = dims.iter().product::<i64>() as usize;
        build::tensor_f32(name, dims, &vec![0.25; count])
    };
    let model = model_of(nodes, vec![weights(&[8, 64], "large"), weights(&[64, 4], "narrowing")]);
    model.save(&inside).unwrap();
    model.save_with(&outside, &SaveOptions { external_above: 0 }).unwrap();
    assert!(folder.path().join("outside.onnx.data").is_file());
    let plans = [&inside, &outside].map(|path| build_plan(path, &[batches(1, 4, 8)]).unwrap());
    assert!(plans[0].bytes() == plans[1].bytes());
    std::fs::remove_file(folder.path().join("outside.onnx.data")).unwrap();
    let error = build_plan(&outside, &[batches(1, 4, 8)]).unwrap_err();
    assert!(error.to_string().contains("outside.onnx.data"), "{error}");
    assert_eq!(error.kind(), ErrorKind::BadInput);
}

/// Every exporter style, with the three profiles that people use.
#[test]
fn base_models_build_with_three_profiles() {
    let Some(folder) = case("BASE") else { return };
    let mut built = 0;
    for file in folder.read_dir().unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "onnx") {
            continue;
        }
        let inputs = Model::open(&path).unwrap().graph().inputs();
        let profile = |max_batch, length| {
            OptimizationProfile::uniform(&inputs, [1, 8], [2, length], [max_batch, length])
        };
        let profiles = [profile(8, 16), profile(8, 32), profile(4, 64)];
        let plan =
            build_plan(&path, &profiles).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_eq!(plan.inputs.len(), inputs.len(), "{}", path.display());
        let (size, parse, build) = (plan.bytes().len(), plan.parse_ms, plan.build_ms);
        eprintln!("{}: {size} bytes, parse {parse:.0} ms, build {build:.0} ms", path.display());
        built += 1;
    }
    assert_eq!(built, 11);
}

#[test]
fn shapes_are_refused_before_the_build() {
    let folder = tempfile::tempdir().unwrap();
    let onnx = folder.path().join("tiny.onnx");
    matmul().save(&onnx).unwrap();
    let error = build_plan(&onnx, &[]).unwrap_err();
    assert!(matches!(error, TensorRtError::Profile(ProfileError::None { .. })), "{error}");
    let error = build_plan(&onnx, &[batches(4, 2, 8)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "profile 1: input `x`, min, dimension 0: 4 is above opt, which is 2"
    );
    assert_eq!(error.kind(), ErrorKind::BadInput);
}

#[test]
fn files_that_are_no_models_are_bad_input() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let whole = unchecked(matmul().proto().clone(), |_| {});
    let cases = [
        write("empty.onnx", b""),
        write("text.onnx", b"this is not a model"),
        write("cut.onnx", &whole[..whole.len() / 2]),
        folder.path().join("missing.onnx"),
        folder.path().to_owned(),
    ];
    for path in cases {
        let error = build_plan(&path, &[batches(1, 4, 8)]).unwrap_err();
        assert!(matches!(error, TensorRtError::Model(_)), "{error}");
        assert_eq!(error.kind(), ErrorKind::BadInput, "{error}");
    }
}

#[test]
fn parser_errors_name_the_node_and_say_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let save = |name: &str, bytes: Vec<u8>| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let unknown = unchecked(matmul().proto().clone(), |model| {
        let node = &mut model.graph.as_mut().unwrap().node[0];
        node.op_type = Some("Frobnicate".to_owned());
        node.name = None;
    });
    let bias = model_of(
        vec![
            build::node(
                "DequantizeLinear",
                "bias_dq",
                &["bias", "scale"],
                &["b"],
                vec![build::attr_int("axis", 0)],
            ),
            build::node("MatMul", "product", &["x", "w"], &["xw"], vec![]),
            build::node("Add", "sum", &["xw", "b"], &["y"], vec![]),
        ],
        vec![
            build::tensor_raw("bias", ElementType::I32, vec![4], vec![0; 16]),
            build::tensor_f32("scale", &[4], &[0.1; 4]),
        ],
    );
    let bias = unchecked(bias.proto().clone(), |_| {});
    let cases = [
        (save("op.onnx", unknown), "node `Frobnicate(y)` (Frobnicate)", "no such operator"),
        (
            save("bias.onnx", bias),
            "node `bias_dq` (DequantizeLinear)",
            "biases must not be quantized",
        ),
    ];
    for (path, place, help) in cases {
        let error = build_plan(&path, &[batches(1, 4, 8)]).unwrap_err();
        let TensorRtError::ParseFailed { faults, log, model, .. } = &error else {
            panic!("{error}")
        };
        assert!(error.to_string().contains(place), "{error}");
        assert!(faults[0].help.contains(help), "{:?}", faults[0]);
        assert!(log.iter().any(|line| line.severity == Severity::Error), "{log:?}");
        assert!(!error.to_string().contains("cudaError"), "{error}");
        assert!(path.ends_with(model));
    }
}

#[test]
fn a_failed_build_says_why_and_keeps_the_log() {
    let Some(folder) = case("BASE") else { return };
    let onnx = folder.join("ts_opset17.onnx");
    let inputs = Model::open(&onnx).unwrap().graph().inputs();
    let profile = OptimizationProfile::uniform(&inputs, [1, 8], [2, 16], [4, 32]);
    let options = BuildOptions::default().with_size(Size::Workspace, 1024);
    let error = trtforge_tensorrt::build(&rtx(), &onnx, &[profile], &options, &go_on).unwrap_err();
    let TensorRtError::BuildFailed { reason, help, log, .. } = &error else { panic!("{error}") };
    assert!(reason.contains("workspace"), "{reason}");
    assert!(help.contains("engine.workspace"), "{help}");
    assert!(log.iter().any(|line| line.severity == Severity::Error));
    assert_eq!(error.kind(), ErrorKind::Failed);
}

#[test]
fn progress_is_told_phase_by_phase() {
    let folder = tempfile::tempdir().unwrap();
    let onnx = folder.path().join("tiny.onnx");
    matmul().save(&onnx).unwrap();
    let open = Mutex::new(Vec::<String>::new());
    let steps = AtomicUsize::new(0);
    let share = Mutex::new((BuildShare::default(), 0.0));
    let listen = |progress: Progress<'_>| {
        let (share, last) = &mut *share.lock().unwrap();
        let now = share.update(&progress);
        assert!(now >= *last, "from {last} back to {now}");
        *last = now;
        let mut open = open.lock().unwrap();
        match progress {
            Progress::Started { phase, parent, .. } => {
                assert!(parent.is_none_or(|parent| open.iter().any(|name| name == parent)));
                open.push(phase.to_owned());
            }
            Progress::Step { phase, .. } => {
                assert!(open.iter().any(|name| name == phase), "{phase} is not running");
                steps.fetch_add(1, Ordering::Relaxed);
            }
            Progress::Finished { phase } => open.retain(|name| name != phase),
        }
        ControlFlow::Continue(())
    };
    let options = BuildOptions::default();
    trtforge_tensorrt::build(&rtx(), &onnx, &[batches(1, 4, 8)], &options, &listen).unwrap();
    assert!(steps.into_inner() > 3);
    assert!(open.into_inner().unwrap().is_empty(), "phases that never ended");
    // The library may end a phase before its last step.
    assert!(share.into_inner().unwrap().1 > 0.5);
}

#[test]
fn a_build_can_be_cancelled_at_any_step() {
    let folder = tempfile::tempdir().unwrap();
    let onnx = folder.path().join("tiny.onnx");
    matmul().save(&onnx).unwrap();
    for last in [0, 1, 3] {
        let events = AtomicUsize::new(0);
        let stop = |_: Progress<'_>| {
            if events.fetch_add(1, Ordering::Relaxed) < last {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        let options = BuildOptions::default();
        let error = trtforge_tensorrt::build(&rtx(), &onnx, &[batches(1, 4, 8)], &options, &stop);
        let error = error.unwrap_err();
        assert!(matches!(error, TensorRtError::Cancelled { .. }), "{last}: {error}");
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        assert_eq!(events.into_inner(), last + 1, "the callback was called after it said stop");
    }
    // The library still works afterwards.
    assert!(build_plan(&onnx, &[batches(1, 4, 8)]).is_ok());
}

#[test]
#[should_panic(expected = "from the callback")]
fn a_panic_in_the_callback_comes_out_of_the_build() {
    let folder = tempfile::tempdir().unwrap();
    let onnx = folder.path().join("tiny.onnx");
    matmul().save(&onnx).unwrap();
    let listen = |_: Progress<'_>| -> ControlFlow<()> { panic!("from the callback") };
    let options = BuildOptions::default();
    let _ = trtforge_tensorrt::build(&rtx(), &onnx, &[batches(1, 4, 8)], &options, &listen);
}
