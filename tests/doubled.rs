//! `trtforge build --backend tensorrt` end to end, with the test double in place of TensorRT and of the CUDA driver: every
//! way in which either can fail comes out with its exit code and leaves nothing behind. No figure here is one of a GPU.

#[path = "support/mod.rs"]
mod support;

use std::fs;

use serde_json::json;
use support::doubled::Doubled;
use support::{files, trtforge_with};

const TENSORRT: &[&str] = &["--backend", "tensorrt"];

#[test]
fn plans_are_built_evaluated_and_published() {
    let doubled = Doubled::tiny();
    let (ran, account) = doubled.run("build", TENSORRT, "");
    let ran = ran.expect(0);
    account.assert_clean();
    assert!(account.calls["buildSerializedNetwork"] >= 2, "{:?}", account.calls);
    let plan = fs::read(doubled.workspace.output("engines/m.int8.plan")).unwrap();
    assert!(plan.starts_with(b"ftrt"), "the double built it");
    assert!(ran.stdout.contains("accepted"), "{}", ran.stdout);
    let run = doubled.workspace.read("run.json");
    assert_eq!(run["engine"]["backend"], "TensorRT");
}

#[test]
fn doctor_names_the_double() {
    let ran = trtforge_with(&["doctor"], |run| run.envs(trtforge_double::environment())).expect(0);
    assert!(ran.stdout.contains("TEST DOUBLE (no GPU)"), "{}", ran.stdout);
}

/// One whose builds share a timing cache.
fn cached() -> Doubled {
    let mut doubled = Doubled::tiny();
    doubled.workspace.profile["engine"] = json!({ "timing_cache": "shared" });
    doubled
}

/// The call that fails, the exit code, what the message must say.
const FAILURES: &[(&str, i32, &[&str])] = &[
    ("cuInit:1", 3, &["cuInit", "100"]),
    ("cuDeviceGetCount:1", 3, &["cuDeviceGetCount"]),
    ("createInferBuilder:1", 4, &["made no builder"]),
    ("createInferBuilder/garbage:1", 4, &["made no builder"]),
    ("createNetworkV2:1", 4, &["made no network"]),
    ("createBuilderConfig:1", 4, &["made no builder configuration"]),
    ("createNvOnnxParser:1", 4, &["made no ONNX parser"]),
    ("parseFromFile:1", 2, &["cannot parse", "told to fail"]),
    ("parseFromFile/silent:1", 4, &["without saying why"]),
    ("createOptimizationProfile:1", 4, &["optimization profile"]),
    ("setDimensions:2", 4, &["shapes of input"]),
    ("addOptimizationProfile:1", 4, &["optimization profile"]),
    ("createTimingCache:1", 4, &["timing cache"]),
    ("buildSerializedNetwork:1", 4, &["told to fail"]),
    ("buildSerializedNetwork:2", 4, &["told to fail"]),
];

#[test]
fn every_failing_call_of_a_build_has_its_exit_code_and_leaves_nothing() {
    for (failing, code, says) in FAILURES {
        let doubled = cached();
        let (ran, account) = doubled.run("build", TENSORRT, failing);
        assert_eq!(ran.code, *code, "{failing}: {}", ran.stderr);
        ran.says(says);
        account.assert_clean();
        let found = files(&doubled.workspace.output(""));
        let published =
            found.iter().find(|file| file.starts_with("engines/") || file.contains(".tmp"));
        assert_eq!(published, None, "{failing}: {found:?}");
    }
}

#[test]
fn what_is_no_timing_cache_or_of_another_version_starts_an_empty_one() {
    let doubled = cached();
    doubled.run("build", TENSORRT, "").0.expect(0);
    let cache = doubled.workspace.output("timing.cache");
    let good = fs::read(&cache).unwrap();
    assert!(good.starts_with(b"double timing cache 110400/"), "{}", String::from_utf8_lossy(&good));
    let foreign = String::from_utf8(good.clone()).unwrap().replace("110400", "110300");
    let cases: [(&str, Vec<u8>); 5] = [
        ("empty", Vec::new()),
        ("garbage", b"\x00\xff garbage".to_vec()),
        ("truncated", good[..good.len() - 2].to_vec()),
        ("an image", b"\x89PNG\r\n\x1a\n".to_vec()),
        ("another version", foreign.into_bytes()),
    ];
    for (what, bytes) in cases {
        let doubled = cached();
        let cache = doubled.workspace.output("timing.cache");
        fs::create_dir_all(cache.parent().unwrap()).unwrap();
        fs::write(&cache, bytes).unwrap();
        let (ran, account) = doubled.run("build", TENSORRT, "");
        assert_eq!(ran.code, 0, "{what}: {}", ran.stderr);
        account.assert_clean();
        assert_eq!(fs::read(&cache).unwrap(), good, "{what}");
    }
}

#[test]
fn a_library_of_another_version_is_refused() {
    let doubled = Doubled::tiny();
    let profile = doubled.workspace.write();
    let ran = trtforge_with(&["build", &profile, "--backend", "tensorrt"], |run| {
        run.envs(trtforge_double::environment()).env("TRTFORGE_DOUBLE_VERSION", "120000")
    });
    ran.expect(3).says(&["version 12.0.0", "11.4.0"]);
}
