//! Every option on the real library: applied and read back, or refused by name.

mod common;

use common::{batches, go_on, matmul, rtx};
use trtforge_tensorrt::{
    BuildOption, BuildOptions, ComputeCapability, ErrorKind, Flag, HardwareCompatibility, Number,
    PreviewFeature, ProfilingVerbosity, Refit, RuntimePlatform, Sdk, Size, TacticSource,
    TensorRtError, Tiling, TimingCache,
};

/// Every value of `option` that a test can give.
fn settings(option: BuildOption) -> Vec<BuildOptions> {
    fn each<T: Copy>(names: &[(&str, T)], make: impl Fn(T) -> BuildOptions) -> Vec<BuildOptions> {
        names.iter().map(|(_, value)| make(*value)).collect()
    }
    let new = BuildOptions::default;
    match option {
        BuildOption::Flag(flag) => vec![new().with_flag(flag, true), new().with_flag(flag, false)],
        BuildOption::Number(number) => {
            let (least, most) = number.range().into_inner();
            vec![new().with_number(number, least.max(1)), new().with_number(number, most.min(8))]
        }
        BuildOption::Size(size) => {
            let tiling = size == Size::L2LimitForTiling;
            let tiling_optimization_level = tiling.then_some(Tiling::Fast);
            vec![BuildOptions { tiling_optimization_level, ..new().with_size(size, 32 << 20) }]
        }
        BuildOption::ProfilingVerbosity => each(ProfilingVerbosity::NAMES, |word| BuildOptions {
            profiling_verbosity: word,
            ..new()
        }),
        BuildOption::HardwareCompatible => each(HardwareCompatibility::NAMES, |word| {
            BuildOptions { hardware_compatible: Some(word), ..new() }
        }),
        BuildOption::ComputeCapabilities => each(ComputeCapability::NAMES, |word| BuildOptions {
            compute_capabilities: [word].into(),
            ..new()
        }),
        BuildOption::Refit => {
            each(&Refit::NAMES[..2], |word| BuildOptions { refit: Some(word), ..new() })
        }
        BuildOption::RefitWeights => vec![BuildOptions {
            refit: Some(Refit::Individual),
            refit_weights: vec!["w".to_owned()],
            ..new()
        }],
        BuildOption::TilingOptimizationLevel => each(Tiling::NAMES, |word| BuildOptions {
            tiling_optimization_level: Some(word),
            ..new()
        }),
        BuildOption::TacticSources => each(TacticSource::NAMES, |word| BuildOptions {
            tactic_sources: Some([word].into()),
            ..new()
        }),
        BuildOption::RuntimePlatform => each(RuntimePlatform::NAMES, |word| BuildOptions {
            runtime_platform: Some(word),
            ..new()
        }),
        BuildOption::PreviewFeatures => each(PreviewFeature::NAMES, |word| BuildOptions {
            preview_features: [word].into(),
            ..new()
        }),
        BuildOption::BuildRoute => {
            vec![BuildOptions { build_route: Some("-x=on".to_owned()), ..new() }]
        }
        BuildOption::Plugins => {
            vec![BuildOptions { plugins: vec!["no-such-plugin.so".into()], ..new() }]
        }
        BuildOption::TimingCache => {
            let cache = TimingCache { path: "t.cache".into(), pin: None, replace: false };
            vec![BuildOptions { timing_cache: Some(cache), ..new() }]
        }
    }
}

/// Turing has no FP32 matrix multiplication in this SDK, which is what the model here is.
fn is_turing(options: &BuildOptions) -> bool {
    options.compute_capabilities.contains(&ComputeCapability::Sm75)
}

#[test]
fn every_option_is_taken_by_the_real_library_or_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let onnx = folder.path().join("tiny.onnx");
    matmul().save(&onnx).unwrap();
    let library = rtx();
    let (mut taken, mut refused, mut gpu) = (0, 0, 0);
    for option in BuildOption::all() {
        for options in settings(option) {
            let built =
                trtforge_tensorrt::build(&library, &onnx, &[batches(1, 4, 8)], &options, &go_on);
            match (built, option.refused_by(Sdk::TensorRtRtx)) {
                (Ok(plan), None) => {
                    assert!(plan.size > 0);
                    taken += 1;
                }
                (Ok(_), Some(refusal)) => {
                    panic!("{option:?} is refused ({}) and taken", refusal.reason)
                }
                (Err(TensorRtError::OptionRefused { refusal, .. }), Some(expected)) => {
                    assert_eq!(refusal, expected);
                    refused += 1;
                }
                (Err(error @ TensorRtError::NoDriver { .. }), None) => {
                    assert_eq!(error.kind(), ErrorKind::Missing);
                    gpu += 1;
                }
                (Err(error), None) if is_turing(&options) => {
                    assert!(error.to_string().contains("SM75"), "{error}");
                }
                (Err(error), None) if option == BuildOption::Plugins => {
                    assert!(error.to_string().contains("`no-such-plugin.so`"), "{error}");
                }
                (Err(error), _) => panic!("{option:?}: {error}"),
            }
        }
    }
    assert!(taken > 30 && refused > 10, "{taken} taken, {refused} refused, {gpu} need a GPU");
}

#[test]
fn a_file_that_is_no_plugin_library_is_refused_before_the_model_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let onnx = folder.path().join("tiny.onnx");
    matmul().save(&onnx).unwrap();
    let plugin = folder.path().join("plugin.so");
    std::fs::write(&plugin, "no library").unwrap();
    let options = BuildOptions { plugins: vec![plugin], ..BuildOptions::default() };
    let error = trtforge_tensorrt::build(&rtx(), &onnx, &[batches(1, 4, 8)], &options, &go_on);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("plugin library"), "{error}");
}

#[test]
fn a_plugin_library_is_opened_and_asked_for_its_plugins() {
    let folder = tempfile::tempdir().unwrap();
    let onnx = folder.path().join("tiny.onnx");
    matmul().save(&onnx).unwrap();
    let plugin = folder.path().join("libplugin.so");
    // What the registry looks for, with an empty list: that far the library came.
    common::compile_library(
        &plugin,
        "void setLoggerFinder(void *f) {}\nvoid *getCreators(int *n) { *n = 0; return 0; }\n\
         void *getPluginCreators(int *n) { *n = 0; return 0; }",
    );
    let options = BuildOptions { plugins: vec![plugin], ..BuildOptions::default() };
    let built = trtforge_tensorrt::build(&rtx(), &onnx, &[batches(1, 4, 8)], &options, &go_on);
    let error = built.unwrap_err().to_string();
    assert!(error.contains("plugin library") && error.contains("No creator returned"), "{error}");
}

#[test]
fn weights_that_are_not_there_and_routes_are_named() {
    assert!(BuildOption::Flag(Flag::StripPlan).refused_by(Sdk::TensorRtRtx).is_none());
    let options = BuildOptions::default().with_flag(Flag::StripPlan, true);
    // Where there is a GPU the library decides.
    if trtforge_tensorrt::driver().is_err() {
        let error = options.check_here(Sdk::TensorRtRtx).unwrap_err();
        assert!(
            error.to_string().starts_with("`engine.strip_plan` with TensorRT-RTX needs a GPU"),
            "{error}"
        );
    }
    assert!(options.with_number(Number::MaxThreads, 2).check(Sdk::TensorRt).is_ok());
}
