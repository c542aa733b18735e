//! `trtforge build --backend tensorrt` end to end, with the test double in place of TensorRT and of the CUDA driver: every
//! way in which either can fail comes out with its exit code and leaves nothing behind. No figure here is one of a GPU.

#[path = "support/mod.rs"]
mod support;

use std::fs;

use serde_json::json;
use support::doubled::Doubled;
use support::{files, trtforge_with};

const TENSORRT: &[&str] = &["--backend", "tensorrt"];

/// Calibrates without the double: its one recording has no tensors to tap, and failures are told apart by their count.
fn tiny() -> Doubled {
    let mut doubled = Doubled::tiny();
    doubled.workspace.set("/calibrate", json!({ "device": "cpu" }));
    doubled
}

#[test]
fn plans_are_built_evaluated_and_published() {
    let doubled = tiny();
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

#[test]
fn doctor_lists_what_lies_where_and_notes_gpus_that_rtx_does_not_name() {
    let libraries = trtforge_double::libraries();
    let doctor = |capability: &str, more: &[&str]| {
        trtforge_with(&[&["doctor"], more].concat(), |run| {
            run.envs(trtforge_double::environment()).env("TRTFORGE_DOUBLE_CAPABILITY", capability)
        })
        .expect(0)
    };
    let hopper = doctor("90", &["--json"]).json();
    let rtx = |report: &serde_json::Value| {
        let backends = report["backends"].as_array().unwrap();
        backends.iter().find(|backend| backend["backend"] == "tensorrt-rtx").unwrap().clone()
    };
    let note = rtx(&hopper)["notes"][0].as_str().unwrap().to_owned();
    assert!(note.starts_with("compute capability 9.0 (TEST DOUBLE (no GPU)) is none"), "{note}");
    assert_eq!(rtx(&doctor("89", &["--json"]).json())["notes"], json!([]));
    assert_eq!(hopper["gpus"][0]["compute_capability"], "9.0");
    let driver = libraries.cuda.join("libcuda.so.1");
    assert_eq!(hopper["driver_path"].as_str(), driver.canonicalize().unwrap().to_str());
    let text = doctor("90", &[]).stdout;
    let builder = libraries.tensorrt.join("libnvinfer.so.11").display().to_string();
    for line in [
        &*format!("    at {builder} (TRTFORGE_TENSORRT_PATH)"),
        &*format!("    at {}", driver.canonicalize().unwrap().display()),
        "compute capability 9.0",
        "                has no ",
        &*format!("                note: {note}"),
    ] {
        assert!(text.contains(line), "`{line}` is not in:\n{text}");
    }
}

/// One whose builds share a timing cache.
fn cached() -> Doubled {
    let mut doubled = tiny();
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
    let doubled = tiny();
    let profile = doubled.workspace.write();
    let ran = trtforge_with(&["build", &profile, "--backend", "tensorrt"], |run| {
        run.envs(trtforge_double::environment()).env("TRTFORGE_DOUBLE_VERSION", "120000")
    });
    ran.expect(3).says(&["version 12.0.0", "11.4.0"]);
}
