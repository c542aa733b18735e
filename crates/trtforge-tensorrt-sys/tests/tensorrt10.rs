//! The shim against headers of TensorRT 10: those of 11 with the older major version and without what early versions of
//! 10 do not have, since nobody ships headers of 10 to those who have none.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Functions that came in the course of 10, and what stands for them.
const LATER_FUNCTIONS: [&str; 13] = [
    "setMaxNbTactics",
    "getMaxNbTactics",
    "setTilingOptimizationLevel",
    "getTilingOptimizationLevel",
    "setL2LimitForTiling",
    "getL2LimitForTiling",
    "setRuntimePlatform",
    "getRuntimePlatform",
    "setBuildRoute",
    "getBuildRoute",
    "getAllBuildRoutes",
    "markWeightsRefittable",
    "buildSerializedNetworkToStream",
];
const LATER_NAMES: [&str; 3] =
    ["kREFIT_INDIVIDUAL", "kEDITABLE_TIMING_CACHE", "kRUNTIME_ACTIVATION_RESIZE_10_10"];

fn headers() -> PathBuf {
    std::env::var_os("TRTFORGE_TENSORRT_HEADERS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.trtforge/headers"),
        PathBuf::from,
    )
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn rewrite(file: &Path, change: impl FnOnce(String) -> String) {
    let before = fs::read_to_string(file).unwrap();
    let after = change(before.clone());
    assert_ne!(before, after, "{} is as it was", file.display());
    fs::write(file, after).unwrap();
}

/// What the compiler says of the shim against the headers at `sdk`; nothing where it is content.
fn compile(sdk: &Path) -> String {
    let cpp = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cpp");
    let generated = Path::new(env!("OUT_DIR")).join("cxxbridge");
    let output = Command::new("c++")
        .args(["-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"])
        // In the headers of 11 asking for strong typing is deprecated; in those of 10 it is the way.
        .arg("-Wno-deprecated-declarations")
        .args(["-DTRTFORGE_SDK=tensorrt10", "-Dnvinfer1=nvinfer1_tensorrt10"])
        .arg("-Dnvonnxparser=nvonnxparser_tensorrt10")
        .args([Path::new("-I"), &cpp.join("include"), Path::new("-I"), &generated.join("include")])
        .args([Path::new("-I"), &generated.join("crate")])
        .args([Path::new("-isystem"), sdk, Path::new("-isystem"), &headers()])
        .arg(cpp.join("src/sdk.cpp"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() || !text.is_empty());
    text
}

#[test]
fn the_shim_compiles_against_headers_of_10_early_and_late() {
    let folder = tempfile::tempdir().unwrap();
    let sdk = folder.path().join("10");
    copy(&headers().join("TRT-Enterprise-11.4"), &sdk);
    rewrite(&sdk.join("NvInferVersion.h"), |text| {
        text.replace("TRT_MAJOR_ENTERPRISE 11", "TRT_MAJOR_ENTERPRISE 10")
    });
    assert_eq!(compile(&sdk), "", "late");
    rewrite(&sdk.join("NvInfer.h"), |mut text| {
        for name in LATER_FUNCTIONS {
            text = text.replace(&format!(" {name}("), &format!(" gone_{name}("));
        }
        for name in LATER_NAMES {
            text = text.replace(name, &format!("{name}_GONE"));
        }
        text
    });
    assert_eq!(compile(&sdk), "", "early");
}
