//! The order in which things end, whatever order a user of the Rust API lets go of them in.

use std::thread;

use trtforge_exec::Executor;
use trtforge_tensorrt::{
    DeviceExecutor, DeviceOptions, Library, RunHow, Sdk, TensorRtError, deserialize,
};

use crate::support::{library, one_row, with_profiles, with_row};

fn open(library: &Library) -> DeviceExecutor {
    let recording = with_row(with_profiles(), &[1, 2, 3], [0.25, -4.0]);
    DeviceExecutor::open(library, &recording.plan(), &DeviceOptions::default()).unwrap()
}

/// Positions of the last end of each of these kinds.
fn last_ends(kinds: &[&str]) -> Vec<usize> {
    let destroyed = trtforge_double::account().destroyed;
    let last = |kind: &&str| destroyed.iter().rposition(|ended| ended == kind);
    kinds.iter().map(|kind| last(kind).unwrap_or_else(|| panic!("no {kind} ended"))).collect()
}

#[track_caller]
fn assert_order(kinds: &[&str]) {
    assert!(last_ends(kinds).is_sorted(), "{kinds:?}: {:?}", trtforge_double::account().destroyed);
    trtforge_double::account().assert_clean();
}

const INSIDE_OUT: [&str; 3] = ["IExecutionContext", "ICudaEngine", "IRuntime"];

#[test]
fn the_library_may_go_before_the_engine() {
    let _double = trtforge_double::exclusive();
    let library = library(Sdk::TensorRt);
    let engine = deserialize(&library, &with_profiles().plan()).unwrap();
    drop(library);
    engine.inspect().unwrap();
    drop(engine);
    assert_order(&["IEngineInspector", "ICudaEngine", "IRuntime"]);
}

#[test]
fn an_executor_ends_from_the_inside_out() {
    let _double = trtforge_double::exclusive();
    let library = library(Sdk::TensorRt);
    let executor = open(&library);
    drop(library);
    executor.run(&one_row(&[1, 2, 3])).unwrap();
    drop(executor);
    assert_order(&INSIDE_OUT);
    // The memory that the context knows must outlive it, and the GPU everything.
    assert_order(&["IExecutionContext", "device memory", "primary context"]);
    assert_order(&["IExecutionContext", "stream"]);
}

#[test]
fn a_staged_run_given_back_or_dropped_while_it_failed_ends_in_order() {
    let _double = trtforge_double::exclusive();
    let library = library(Sdk::TensorRt);
    for call in
        [None, Some("enqueueV3"), Some("enqueueV3/asynchronous"), Some("cuStreamSynchronize")]
    {
        trtforge_double::reset();
        let executor = open(&library);
        let mut staged = executor.stage(&one_row(&[1, 2, 3])).unwrap();
        if let Some(call) = call {
            trtforge_double::fail_at(call, 1);
        }
        let ran = staged.run(RunHow::default());
        assert_eq!(ran.is_err(), call.is_some(), "{call:?}: {ran:?}");
        drop(staged);
        drop(executor);
        assert_order(&INSIDE_OUT);
    }
}

#[test]
fn a_graph_ends_before_its_context_even_after_a_failed_launch() {
    let _double = trtforge_double::exclusive();
    let library = library(Sdk::TensorRt);
    let graph = RunHow { graph: true, ..RunHow::default() };
    for call in [None, Some("cuGraphLaunch")] {
        trtforge_double::reset();
        let executor = open(&library);
        let mut staged = executor.stage(&one_row(&[1, 2, 3])).unwrap();
        staged.run(graph).unwrap();
        if let Some(call) = call {
            trtforge_double::fail_at(call, 1);
            staged.run(graph).unwrap_err();
        }
        drop(staged);
        drop(executor);
        assert_order(&["graph executable", "ICudaEngine", "IRuntime"]);
    }
}

#[test]
fn engines_and_executors_may_end_on_another_thread() {
    let _double = trtforge_double::exclusive();
    let library = library(Sdk::TensorRt);
    let executor = open(&library);
    let engine = deserialize(&library, &with_profiles().plan()).unwrap();
    executor.run(&one_row(&[1, 2, 3])).unwrap();
    thread::spawn(move || drop((executor, engine))).join().unwrap();
    assert_order(&INSIDE_OUT);
}

#[test]
fn threads_share_an_executor_while_calls_fail() {
    let _double = trtforge_double::exclusive();
    let executor = open(&library(Sdk::TensorRt));
    // Spread over the threads' calls, whoever makes them; every failure is told to the one who called.
    for nth in [2, 7, 11, 19] {
        trtforge_double::fail_at("enqueueV3", nth);
        trtforge_double::fail_at("cuMemcpyHtoDAsync", 3 * nth);
    }
    let failed: usize = thread::scope(|scope| {
        let work = || (0..10).filter(|_| executor.run(&one_row(&[1, 2, 3])).is_err()).count();
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert_eq!(failed, 8);
    drop(executor);
    assert_order(&INSIDE_OUT);
}

#[test]
fn two_engines_end_without_each_other() {
    let _double = trtforge_double::exclusive();
    let (tensorrt, rtx) = (library(Sdk::TensorRt), library(Sdk::TensorRtRtx));
    let first = open(&tensorrt);
    let recording = with_row(with_profiles(), &[4], [1.0, 2.0]);
    let second =
        DeviceExecutor::open(&rtx, &recording.rtx_plan(), &DeviceOptions::default()).unwrap();
    drop(first);
    second.run(&one_row(&[4])).unwrap();
    drop(second);
    trtforge_double::account().assert_clean();
}

#[test]
fn after_an_error_of_the_device_everything_still_ends() {
    let _double = trtforge_double::exclusive();
    let executor = open(&library(Sdk::TensorRt));
    let mut staged = executor.stage(&one_row(&[1, 2, 3])).unwrap();
    trtforge_double::fail_at("enqueueV3/asynchronous", 1);
    let error = staged.run(RunHow::default()).unwrap_err();
    let text = format!("{error}");
    assert!(
        matches!(error, TensorRtError::CudaFailed { .. } | TensorRtError::RunFailed { .. }),
        "{text}"
    );
    assert!(text.contains("ILLEGAL_ADDRESS") || text.contains("illegal"), "{text}");
    drop(staged);
    // The device is lost: every later run says so, and none crashes.
    for _ in 0..3 {
        executor.run(&one_row(&[1, 2, 3])).unwrap_err();
    }
    drop(executor);
    trtforge_double::account().assert_clean();
}
