//! Each call told to fail, once: a named error, a kind, nothing leaked, and work afterwards.

use miette::Diagnostic;
use trtforge_exec::{ExecError, Executor};
use trtforge_tensorrt::{DeviceOptions, ErrorKind, RunHow, TensorRtError};

use crate::support::{batch, classifier, floats, open, open_with, with_batch};

fn recording() -> trtforge_double::Recording {
    with_batch(classifier(&[[4, 8]]), 1, &[1, 2], &[1, 1], &[2.0, 3.0])
}

#[test]
fn every_call_of_opening_that_fails_is_an_error_and_leaves_nothing() {
    let _double = trtforge_double::exclusive();
    let cases = [
        ("cuInit", ErrorKind::Missing, "cuInit"),
        ("cuDeviceGetCount", ErrorKind::Missing, "cuDeviceGetCount"),
        ("cuDevicePrimaryCtxRetain", ErrorKind::Failed, "cuDevicePrimaryCtxRetain"),
        ("createInferRuntime", ErrorKind::Failed, "made no runtime"),
        ("createInferRuntime/garbage", ErrorKind::Failed, "made no runtime"),
        ("deserializeCudaEngine", ErrorKind::BadInput, "told to fail"),
        ("deserializeCudaEngine/version", ErrorKind::BadInput, "version"),
        ("createExecutionContext", ErrorKind::Failed, "createExecutionContext"),
        ("cuStreamCreate", ErrorKind::Failed, "cuStreamCreate"),
        ("cuEventCreate", ErrorKind::Failed, "cuEventCreate"),
    ];
    for (call, kind, expected) in cases {
        trtforge_double::reset();
        trtforge_double::fail_at(call, 1);
        let error = open_with(&recording(), DeviceOptions::default()).err().unwrap();
        assert_eq!(error.kind(), kind, "{call}: {error}");
        assert!(error.to_string().contains(expected), "{call}: {error}");
        assert!(error.help().is_some(), "{call} has no help");
        trtforge_double::account().assert_clean();
    }
    trtforge_double::reset();
    let options = DeviceOptions { ordinal: 7, ..DeviceOptions::default() };
    let error = open_with(&recording(), options).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Missing);
    assert!(error.to_string().contains("there is no GPU 7: the driver sees 1"), "{error}");
}

#[test]
fn every_call_of_staging_and_running_that_fails_is_an_error_and_the_next_run_works() {
    let _double = trtforge_double::exclusive();
    let calls = [
        ("setOptimizationProfileAsync", "optimization profile 0"),
        ("setInputShape", "setInputShape"),
        ("inferShapes", "inferShapes"),
        ("setTensorAddress", "setTensorAddress"),
        ("cuMemAlloc", "cuMemAlloc"),
        ("cuMemHostAlloc", "cuMemHostAlloc"),
        ("cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync"),
        ("cuMemcpyDtoHAsync", "cuMemcpyDtoHAsync"),
        ("cuEventRecord", "cuEventRecord"),
        ("cuEventElapsedTime", "cuEventElapsedTime"),
        ("enqueueV3", "enqueueV3"),
    ];
    for (call, expected) in calls {
        trtforge_double::reset();
        let executor = open(&recording());
        trtforge_double::fail_at(call, 1);
        let inputs = batch(1, vec![1, 2]);
        let error = executor.run(&inputs).unwrap_err();
        let ExecError::Device { message, help } = &error else { panic!("{call}: {error:?}") };
        assert!(message.contains(expected), "{call}: {message}");
        assert!(!help.is_empty(), "{call}");
        assert_eq!(trtforge_double::account().calls[call], 1, "{call} was not used");
        assert_eq!(floats(&executor.run(&inputs).unwrap()), [2.0, 3.0], "after {call}");
        drop(executor);
        trtforge_double::account().assert_clean();
    }
}

#[test]
fn memory_that_runs_out_says_how_much_and_what_to_do() {
    let _double = trtforge_double::exclusive();
    let executor = open(&recording());
    trtforge_double::fail_at("cuMemAlloc", 2);
    let error = executor.stage(&batch(1, vec![1, 2])).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Failed);
    // The second is the mask: two int32.
    assert!(
        error.to_string().contains("`cuMemAlloc` of 8 bytes failed: CUDA_ERROR_OUT_OF_MEMORY"),
        "{error}"
    );
    assert!(error.help().unwrap().to_string().contains("evaluate.batch_size"));
}

#[test]
fn an_error_on_the_device_is_told_with_what_the_library_recorded() {
    let _double = trtforge_double::exclusive();
    let executor = open(&recording());
    // Nothing was recorded for these ids: the double's kernel fails, and says so to the error recorder.
    let error = executor.stage(&batch(1, vec![9, 9])).unwrap().run(RunHow::default()).unwrap_err();
    let TensorRtError::RunFailed { call, reason, log, .. } = &error else { panic!("{error}") };
    assert_eq!(*call, "enqueueV3");
    assert!(reason.contains("no recording of these inputs"), "{reason}");
    assert!(log.iter().any(|line| line.message.contains("no recording")), "{log:?}");
}
