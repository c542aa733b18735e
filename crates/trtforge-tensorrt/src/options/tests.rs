use super::*;

/// Options that set `option` and what it needs beside it, and nothing else.
pub(crate) fn setting(option: BuildOption) -> BuildOptions {
    let mut options = BuildOptions::default();
    let cache = || TimingCache { path: "t.cache".into(), pin: None, replace: false };
    match option {
        BuildOption::Flag(flag) => {
            options.flags.insert(flag, true);
            match flag {
                Flag::ExcludeLeanRuntime => {
                    options = options.with_flag(Flag::VersionCompatible, true);
                }
                Flag::ErrorOnTimingCacheMiss | Flag::EditableTimingCache => {
                    options.timing_cache = Some(cache());
                }
                _ => {}
            }
        }
        BuildOption::Number(number) => options = options.with_number(number, *number.range().end()),
        BuildOption::Size(size) => {
            options.sizes.insert(size, 1 << 20);
            if size == Size::L2LimitForTiling {
                options.tiling_optimization_level = Some(Tiling::Fast);
            }
        }
        BuildOption::ProfilingVerbosity => options.profiling_verbosity = ProfilingVerbosity::None,
        BuildOption::HardwareCompatible => {
            options.hardware_compatible = Some(HardwareCompatibility::AmperePlus);
        }
        BuildOption::ComputeCapabilities => {
            options.compute_capabilities = [ComputeCapability::Sm89].into();
        }
        BuildOption::Refit => options.refit = Some(Refit::Any),
        BuildOption::RefitWeights => {
            options.refit = Some(Refit::Individual);
            options.refit_weights = vec!["w".to_owned()];
        }
        BuildOption::TilingOptimizationLevel => {
            options.tiling_optimization_level = Some(Tiling::Full);
        }
        BuildOption::TacticSources => options.tactic_sources = Some(BTreeSet::new()),
        BuildOption::RuntimePlatform => {
            options.runtime_platform = Some(RuntimePlatform::SameAsBuild);
        }
        BuildOption::PreviewFeatures => {
            options.preview_features = [PreviewFeature::AliasedPluginIo].into();
        }
        BuildOption::BuildRoute => options.build_route = Some("-x=on".to_owned()),
        BuildOption::Plugins => options.plugins = vec!["p.so".into()],
        BuildOption::TimingCache => options.timing_cache = Some(cache()),
    }
    options
}

#[test]
fn every_option_is_stated_and_taken_or_refused_by_name() {
    let mut refused = 0;
    for option in BuildOption::all() {
        let options = setting(option);
        assert!(options.stated().contains_key(&option), "{option:?} is set and not stated");
        for sdk in Sdk::ALL {
            let Some(refusal) = option.refused_by(sdk) else { continue };
            refused += 1;
            let error = options.check(sdk).unwrap_err();
            let TensorRtError::OptionRefused { refusal: found, .. } = &error else {
                panic!("{error}")
            };
            // What it needs beside it may be refused as well, and comes first.
            if found.option == option {
                let expected = format!("{sdk} has no `{}`: {}", option.name(), refusal.reason);
                assert_eq!(error.to_string(), expected);
            }
            assert!(options.refused_by(sdk).contains(&refusal));
        }
        let everywhere = Sdk::ALL.iter().all(|sdk| option.refused_by(*sdk).is_some());
        assert!(!everywhere, "{} is of no use", option.name());
    }
    assert!(refused > 5);
}

#[test]
fn names_are_unique_and_defaults_are_taken_everywhere() {
    let names: BTreeSet<&str> = BuildOption::all().iter().map(|option| option.name()).collect();
    assert_eq!(names.len(), BuildOption::all().len());
    for sdk in Sdk::ALL {
        BuildOptions::default().check(sdk).unwrap();
    }
}

/// Each builder flag and memory pool of the headers is an option here, or stands in the list of those that are none.
#[test]
fn a_new_flag_of_the_headers_is_not_forgotten() {
    use trtforge_tensorrt_sys::constants::{rtx, tensorrt11};
    let none = [
        // For devices that are not built for here.
        "GPU_FALLBACK",
        "SAFETY_SCOPE",
        "DLA_MANAGED_SRAM",
        "DLA_LOCAL_DRAM",
        "DLA_GLOBAL_DRAM",
        // `refit` is one key for the three.
        "REFIT",
        "REFIT_IDENTICAL",
        "REFIT_INDIVIDUAL",
    ];
    let known: BTreeSet<&str> = BuildOption::all().iter().map(|option| option.name()).collect();
    for source in [rtx::SOURCE, tensorrt11::SOURCE] {
        let mut found = 0;
        for module in ["nvinfer1_BuilderFlag", "nvinfer1_MemoryPoolType"] {
            let start =
                source.find(&format!("pub mod {module} {{")).expect("bindgen makes modules");
            let body = &source[start..][..source[start..].find("\n}").unwrap()];
            for line in body.lines().filter_map(|line| line.trim().strip_prefix("pub const k")) {
                let name = line.split(':').next().unwrap();
                let listed = none.contains(&name) || known.contains(&*name.to_lowercase());
                assert!(listed, "{module}::k{name} is no option and not excused");
                found += 1;
            }
        }
        assert!(found > 20, "{found}");
    }
}

#[test]
fn values_out_of_range_and_options_without_their_like_are_named() {
    let new = BuildOptions::default;
    let cases = [
        (
            new().with_number(Number::OptimizationLevel, 6),
            "`engine.optimization_level` cannot be 6",
        ),
        (new().with_number(Number::MaxThreads, 0), "`engine.max_threads` cannot be 0"),
        (new().with_number(Number::MaxThreads, u32::MAX), "cannot be 4294967295"),
        (new().with_size(Size::Workspace, 0), "`engine.workspace` cannot be 0"),
        (new().with_size(Size::TacticSharedMemory, 1 << 30), "below 1 GiB"),
        (
            new().with_size(Size::L2LimitForTiling, 1 << 20),
            "needs `engine.tiling_optimization_level`",
        ),
        (new().with_flag(Flag::ErrorOnTimingCacheMiss, true), "needs `engine.timing_cache`"),
        (new().with_flag(Flag::EditableTimingCache, true), "needs `engine.timing_cache`"),
        (new().with_flag(Flag::ExcludeLeanRuntime, true), "needs `engine.version_compatible"),
        (BuildOptions { refit: Some(Refit::Individual), ..new() }, "needs `engine.refit_weights`"),
        (
            BuildOptions { refit_weights: vec!["w".to_owned()], ..new() },
            "needs `engine.refit: individual`",
        ),
        (
            BuildOptions {
                timing_cache: setting(BuildOption::TimingCache).timing_cache,
                ..new().with_flag(Flag::DisableTimingCache, true)
            },
            "`engine.timing_cache` is set",
        ),
    ];
    for (options, expected) in cases {
        let error = options.check(Sdk::TensorRt).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let both = [ComputeCapability::Current, ComputeCapability::Sm80];
    let options = BuildOptions { compute_capabilities: both.into(), ..new() };
    let error = options.check(Sdk::TensorRtRtx).unwrap_err().to_string();
    assert!(error.contains("cannot be current, 8.0: `current` stands alone"), "{error}");
}
