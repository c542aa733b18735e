//! Profiles, memory, graphs, threads.

use std::time::{Duration, Instant};

use trtforge_exec::Executor;
use trtforge_tensorrt::{DeviceOptions, RunHow, TensorRtError};

use crate::support::{allocations, batch, classifier, floats, open, open_with, with_batch};

#[test]
fn the_smallest_profile_that_fits_serves_a_shape() {
    let _double = trtforge_double::exclusive();
    let executor = open(&classifier(&[[8, 32], [2, 8], [4, 16]]));
    let cases = [((1, 4), 1), ((2, 8), 1), ((2, 9), 2), ((5, 3), 0), ((8, 32), 0)];
    for ((rows, length), expected) in cases {
        let staged = executor.stage(&batch(rows, vec![7; rows * length])).unwrap();
        assert_eq!(staged.profile(), expected, "{rows} x {length}");
    }
    drop(executor);
    trtforge_double::account().assert_clean();
}

#[test]
fn a_shape_that_fits_nowhere_is_told_with_every_range() {
    let _double = trtforge_double::exclusive();
    let executor = open(&classifier(&[[8, 32], [2, 64]]));
    let error = executor.stage(&batch(3, vec![7; 3 * 40])).err().unwrap();
    let TensorRtError::NoProfileFits { given, misfits } = &error else { panic!("{error}") };
    assert_eq!(given, "`ids` [3, 40], `mask` [3, 40]");
    assert_eq!(
        *misfits,
        [
            "profile 1: dimension 2 of `ids` is 40, it takes 1 to 32 ([1, 1] to [8, 32])",
            "profile 2: dimension 1 of `ids` is 3, it takes 1 to 2 ([1, 1] to [2, 64])",
        ]
    );
    let error = executor.run(&batch(3, vec![7; 3 * 40])).unwrap_err();
    assert!(matches!(error, trtforge_exec::ExecError::NoProfile { .. }), "{error}");
}

#[test]
fn nothing_is_allocated_once_a_shape_is_staged() {
    let _double = trtforge_double::exclusive();
    let recording = with_batch(
        classifier(&[[4, 8]]),
        2,
        &[1, 2, 3, 4],
        &[1; 4],
        &[0.5, -0.5, 1.0, f32::NEG_INFINITY],
    );
    let executor = open(&recording);
    let inputs = batch(2, vec![1, 2, 3, 4]);
    let mut staged = executor.stage(&inputs).unwrap();
    for how in [true, false].map(|graph| RunHow { graph, ..RunHow::default() }) {
        staged.run(how).unwrap();
    }
    let before = allocations();
    assert_eq!(before[2], 1, "one context");
    for run in 0..100 {
        let how = RunHow { copies: run % 3 != 0, graph: run % 2 == 0, ..RunHow::default() };
        staged.run(how).unwrap();
    }
    assert_eq!(allocations(), before);
    let logits = staged.outputs().unwrap();
    assert_eq!(floats(&logits), [0.5, -0.5, 1.0, f32::NEG_INFINITY]);
    drop(staged);
    // The executor's own runs, which stage again each time, use the same memory.
    for _ in 0..10 {
        assert_eq!(executor.run(&inputs).unwrap(), logits);
    }
    assert_eq!(allocations(), before);
    drop(executor);
    trtforge_double::account().assert_clean();
}

#[test]
fn memory_grows_to_the_largest_shape_and_then_serves_all() {
    let _double = trtforge_double::exclusive();
    let mut recording = classifier(&[[4, 8]]);
    for rows in 1..=4 {
        let (ids, logits) = (vec![rows as i64; rows * 8], vec![rows as f32; rows * 2]);
        recording = with_batch(recording, rows, &ids, &vec![1; rows * 8], &logits);
    }
    let executor = open(&recording);
    let run = |rows: usize| {
        let outputs = executor.run(&batch(rows, vec![rows as i64; rows * 8])).unwrap();
        assert_eq!(outputs[0].1.shape(), [rows, 2]);
        assert_eq!(floats(&outputs), vec![rows as f32; rows * 2]);
    };
    run(2);
    let two = allocations();
    run(1);
    assert_eq!(allocations(), two, "a smaller shape needs nothing");
    run(4);
    let four = allocations();
    assert!(four[0] > two[0] && four[1] > two[1], "{two:?} {four:?}");
    for rows in [3, 1, 4, 2] {
        run(rows);
    }
    assert_eq!(allocations(), four);
}

#[test]
fn a_graph_is_captured_once_for_each_shape_and_its_staging() {
    let _double = trtforge_double::exclusive();
    let mut recording = classifier(&[[4, 8]]);
    for (rows, ids) in [(1, vec![1, 2]), (2, vec![1, 2, 3, 4])] {
        recording = with_batch(recording, rows, &ids, &vec![1; ids.len()], &vec![0.25; rows * 2]);
    }
    let options = DeviceOptions { cuda_graphs: true, ..DeviceOptions::default() };
    let executor = open_with(&recording, options).unwrap();
    for _ in 0..5 {
        executor.run(&batch(1, vec![1, 2])).unwrap();
        executor.run(&batch(2, vec![1, 2, 3, 4])).unwrap();
    }
    let account = trtforge_double::account();
    assert_eq!(account.calls["cuStreamBeginCapture"], 2);
    assert_eq!(account.calls["cuGraphLaunch"], 10);
    // Once before each capture and once in it.
    assert_eq!(account.calls["enqueueV3"], 4);
    drop(executor);
    trtforge_double::account().assert_clean();
}

#[test]
fn a_capture_that_fails_is_told_and_the_run_goes_on_without() {
    let _double = trtforge_double::exclusive();
    let recording = with_batch(classifier(&[[4, 8]]), 1, &[1, 2], &[1, 1], &[2.0, 3.0]);
    let cases = [
        ("cuStreamBeginCapture", 1, "cuStreamBeginCapture"),
        ("cuStreamEndCapture", 1, "cuStreamEndCapture"),
        ("cuGraphInstantiate", 1, "cuGraphInstantiate"),
        ("cuGraphUpload", 1, "cuGraphUpload"),
        // The first is the run before the capture.
        ("enqueueV3", 2, "told to fail"),
    ];
    for (call, nth, expected) in cases {
        trtforge_double::reset();
        let executor = open(&recording);
        let mut staged = executor.stage(&batch(1, vec![1, 2])).unwrap();
        trtforge_double::fail_at(call, nth);
        let how = RunHow { graph: true, ..RunHow::default() };
        let times = staged.run(how).unwrap();
        assert!(!times.graph, "{call}");
        let reason = staged.graph_refusal().unwrap_or_default();
        assert!(reason.contains(expected), "{call}: {reason}");
        assert_eq!(floats(&staged.outputs().unwrap()), [2.0, 3.0]);
        // It is not tried again for this staging.
        let captures = || trtforge_double::account().calls["cuStreamBeginCapture"];
        let before = captures();
        staged.run(how).unwrap();
        assert_eq!(captures(), before);
        drop(staged);
        drop(executor);
        trtforge_double::account().assert_clean();
    }
}

#[test]
fn copies_engine_and_the_way_through_pageable_memory_are_timed_apart() {
    let _double = trtforge_double::exclusive();
    let mut recording = with_batch(classifier(&[[4, 8]]), 1, &[1, 2], &[1, 1], &[2.0, 3.0]);
    recording.compute_us = Some(750.0);
    let executor = open(&recording);
    let mut staged = executor.stage(&batch(1, vec![1, 2])).unwrap();
    assert!(matches!(staged.outputs(), Err(TensorRtError::NoOutputs)), "nothing ran yet");
    let bare = staged.run(RunHow { copies: false, ..RunHow::default() }).unwrap();
    assert!(matches!(staged.outputs(), Err(TensorRtError::NoOutputs)), "nothing was copied yet");
    // The double's clock is its own: 750 µs for each run, whatever the machine.
    assert!((bare.compute_us - 750.0).abs() < 1.0, "{bare:?}");
    assert!(bare.copy_in_us.abs() < 1e-3 && bare.copy_out_us.abs() < 1e-3, "{bare:?}");
    let pinned = staged.run(RunHow::default()).unwrap();
    let pageable = staged.run(RunHow { pinned: false, ..RunHow::default() }).unwrap();
    assert!(pinned.copy_in_us > 0.0 && pinned.copy_out_us > 0.0, "{pinned:?}");
    assert!(pageable.copy_in_us > pinned.copy_in_us, "{pinned:?} {pageable:?}");
    assert!(pinned.total_us >= pinned.enqueue_us, "{pinned:?}");
    assert_eq!(floats(&staged.outputs().unwrap()), [2.0, 3.0]);
}

#[test]
fn threads_run_side_by_side_and_lanes_are_used_again() {
    let _double = trtforge_double::exclusive();
    let mut recording = classifier(&[[4, 8]]);
    for id in 0..4 {
        recording = with_batch(recording, 1, &[id, id], &[1, 1], &[id as f32, -1.0]);
    }
    let executor = open(&recording);
    std::thread::scope(|scope| {
        for id in 0..4 {
            let executor = &executor;
            scope.spawn(move || {
                let until = Instant::now() + Duration::from_millis(100);
                while Instant::now() < until {
                    let outputs = executor.run(&batch(1, vec![id, id])).unwrap();
                    assert_eq!(floats(&outputs), [id as f32, -1.0]);
                }
            });
        }
    });
    assert!(allocations()[2] <= 4, "a lane for each thread at most");
    // Two at once in one thread, too.
    let mut one = executor.stage(&batch(1, vec![1, 1])).unwrap();
    let mut two = executor.stage(&batch(1, vec![2, 2])).unwrap();
    one.run(RunHow::default()).unwrap();
    two.run(RunHow::default()).unwrap();
    assert_eq!(floats(&one.outputs().unwrap())[0], 1.0);
    assert_eq!(floats(&two.outputs().unwrap())[0], 2.0);
    drop((one, two));
    drop(executor);
    trtforge_double::account().assert_clean();
}

#[test]
fn a_tokenizer_writes_straight_into_pinned_memory() {
    let _double = trtforge_double::exclusive();
    let recording =
        with_batch(classifier(&[[4, 8]]), 1, &[101, 7, 102, 0], &[1, 1, 1, 0], &[4.0, 5.0]);
    let executor = open(&recording);
    let mut staged = executor.stage_shapes(vec![vec![1, 4], vec![1, 4]]).unwrap();
    // What was written before is gone: positions that are not given are 0.
    staged.fill("ids", [9; 4]).unwrap();
    staged.fill("ids", [101, 7, 102]).unwrap();
    staged.fill("mask", [1; 3]).unwrap();
    staged.run(RunHow::default()).unwrap();
    assert_eq!(floats(&staged.outputs().unwrap()), [4.0, 5.0]);
    let error = staged.fill("mask", [1 << 40]).unwrap_err();
    assert_eq!(error.to_string(), "input `mask` holds 1099511627776, which does not fit I32");
    let error = staged.fill("no such", [1]).unwrap_err();
    assert_eq!(error.to_string(), "the model has no input `no such`");
}
