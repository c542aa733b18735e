//! The one suite for every executor, on engines: the embedded executor's answers are recorded, the double plays them back.

use trtforge_double::{Recorder, Recording};
use trtforge_exec::conformance::{Check, checks};
use trtforge_exec::{EmbeddedExecutor, EmbeddedOptions};
use trtforge_tensorrt::{DeviceExecutor, DeviceOptions, Sdk};

use crate::support::library;

/// Runs a check on the embedded executor, and keeps all it answers.
fn recorded(check: &Check) -> Recording {
    let keep = check.keep.iter().map(ToString::to_string).collect();
    let options = EmbeddedOptions { keep, ..EmbeddedOptions::default() };
    let embedded = EmbeddedExecutor::from_model(&check.model().unwrap(), options).unwrap();
    // `hidden` and `scaled`, the only tensors that checks keep, are `[batch, 2, 2]`.
    let taps: Vec<(&str, &[&str])> =
        check.keep.iter().map(|name| (*name, &["batch", "2", "2"][..])).collect();
    let recorder = Recorder::new(embedded, &taps);
    check.run(&recorder).unwrap();
    let recording = recorder.into_recording();
    // Up to 16 of every dimension that is not fixed.
    let shapes: Vec<(String, Vec<i64>, Vec<i64>)> = recording
        .inputs
        .iter()
        .map(|input| {
            let of =
                |size: i64| input.dims.iter().map(move |&dim| if dim < 0 { size } else { dim });
            (input.name.clone(), of(1).collect(), of(16).collect())
        })
        .collect();
    let ranges: Vec<(&str, [&[i64]; 3])> =
        shapes.iter().map(|(name, min, max)| (name.as_str(), [&min[..], max, max])).collect();
    recording.with_profile(&ranges)
}

#[test]
fn engines_pass_the_suite_of_every_executor() {
    let _double = trtforge_double::exclusive();
    for check in checks() {
        let recording = recorded(&check);
        let taps: Vec<String> = check.keep.iter().map(ToString::to_string).collect();
        for (sdk, plan) in
            [(Sdk::TensorRt, recording.plan()), (Sdk::TensorRtRtx, recording.rtx_plan())]
        {
            for cuda_graphs in [false, true] {
                let options = DeviceOptions { cuda_graphs, ..DeviceOptions::default() };
                let executor =
                    DeviceExecutor::open_tapped(&library(sdk), &plan, &options, &taps).unwrap();
                check
                    .run(&executor)
                    .unwrap_or_else(|found| panic!("{sdk}, graphs: {cuda_graphs}: {found}"));
                drop(executor);
                trtforge_double::account().assert_clean();
            }
        }
    }
}
