//! What a build may be told, and which SDK takes which option.

use std::path::PathBuf;

use crate::error::TensorRtError;
use crate::log::Severity;
use crate::sdk::Sdk;

/// The highest optimization level of either SDK.
const HIGHEST_LEVEL: u8 = 5;

/// How to build a plan. What is not set is left to the library.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own, by its name in a profile"
)]
pub struct BuildOptions {
    /// 0 (fast to build) to 5 (fast to run).
    pub optimization_level: Option<u8>,
    /// The plan also runs on later versions, through the lean runtime.
    pub version_compatible: bool,
    /// The plan also runs on other GPUs from Ampere on.
    pub hardware_compatible: bool,
    /// A file of tactic timings, read if it fits and written back when the build is done.
    pub timing_cache: Option<PathBuf>,
    /// Fail rather than time a tactic that the cache lacks.
    pub error_on_timing_cache_miss: bool,
    /// Device memory that layers may use as scratch space.
    pub workspace_bytes: Option<u64>,
    /// Threads the builder may use.
    pub max_threads: Option<u32>,
    /// Keep layer names and precisions in the plan, so that they can be inspected.
    pub detailed_layers: bool,
    /// The least severe log lines to keep.
    pub keep_log: Severity,
}

impl Default for BuildOptions {
    fn default() -> BuildOptions {
        BuildOptions {
            optimization_level: None,
            version_compatible: false,
            hardware_compatible: false,
            timing_cache: None,
            error_on_timing_cache_miss: false,
            workspace_bytes: None,
            max_threads: None,
            detailed_layers: false,
            keep_log: Severity::Info,
        }
    }
}

/// An option that not every SDK has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildOption {
    /// [`BuildOptions::version_compatible`].
    VersionCompatible,
    /// [`BuildOptions::hardware_compatible`].
    HardwareCompatible,
    /// [`BuildOptions::timing_cache`].
    TimingCache,
    /// [`BuildOptions::error_on_timing_cache_miss`].
    ErrorOnTimingCacheMiss,
}

/// An option that an SDK does not have, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// Which option.
    pub option: BuildOption,
    /// Why.
    pub reason: &'static str,
}

impl BuildOption {
    /// As it is called in a profile, under `engine`.
    pub fn name(self) -> &'static str {
        match self {
            BuildOption::VersionCompatible => "version_compatible",
            BuildOption::HardwareCompatible => "hardware_compatible",
            BuildOption::TimingCache => "timing_cache",
            BuildOption::ErrorOnTimingCacheMiss => "error_on_timing_cache_miss",
        }
    }

    /// Why `sdk` does not have it; nothing where it does.
    pub fn refused_by(self, sdk: Sdk) -> Option<Refusal> {
        let reason = match (sdk, self) {
            (Sdk::TensorRt, _) => return None,
            (Sdk::TensorRtRtx, BuildOption::VersionCompatible) => {
                "it would need a lean runtime, which that SDK does not ship"
            }
            (Sdk::TensorRtRtx, BuildOption::HardwareCompatible) => {
                "its plans run on every GPU from Ampere on as they are"
            }
            (Sdk::TensorRtRtx, BuildOption::TimingCache) => {
                "it times nothing while building; plans are specialised where they run"
            }
            (Sdk::TensorRtRtx, BuildOption::ErrorOnTimingCacheMiss) => "it has no timing cache",
        };
        Some(Refusal { option: self, reason })
    }
}

impl BuildOptions {
    /// The options asked for that `sdk` does not have.
    pub fn refused_by(&self, sdk: Sdk) -> Vec<Refusal> {
        let asked = [
            (self.version_compatible, BuildOption::VersionCompatible),
            (self.hardware_compatible, BuildOption::HardwareCompatible),
            (self.timing_cache.is_some(), BuildOption::TimingCache),
            (self.error_on_timing_cache_miss, BuildOption::ErrorOnTimingCacheMiss),
        ];
        asked.into_iter().filter(|(on, _)| *on).filter_map(|(_, o)| o.refused_by(sdk)).collect()
    }

    /// Whether `sdk` can apply every option as given. Nothing is ever ignored.
    pub fn check(&self, sdk: Sdk) -> Result<(), TensorRtError> {
        if let Some(&refusal) = self.refused_by(sdk).first() {
            return Err(TensorRtError::OptionRefused { sdk, refusal });
        }
        let bad = |option, value: String, expected| {
            Err(TensorRtError::OptionValue { option, value, expected })
        };
        if let Some(level) = self.optimization_level.filter(|&level| level > HIGHEST_LEVEL) {
            return bad("optimization_level", level.to_string(), "levels go from 0 to 5");
        }
        if self.workspace_bytes == Some(0) {
            return bad("workspace", "0".to_owned(), "layers need some scratch memory");
        }
        match self.max_threads {
            Some(threads) if threads == 0 || i32::try_from(threads).is_err() => {
                return bad("max_threads", threads.to_string(), "it takes at least one thread");
            }
            _ => {}
        }
        if self.error_on_timing_cache_miss && self.timing_cache.is_none() {
            let expected = "it needs `engine.timing_cache`";
            return bad("error_on_timing_cache_miss", "true".to_owned(), expected);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rtx_refuses_by_name_what_tensorrt_takes() {
        let default = BuildOptions::default;
        let cases = [
            ("version_compatible", BuildOptions { version_compatible: true, ..default() }),
            ("hardware_compatible", BuildOptions { hardware_compatible: true, ..default() }),
            ("timing_cache", BuildOptions { timing_cache: Some("t.cache".into()), ..default() }),
        ];
        for (name, options) in cases {
            let error = options.check(Sdk::TensorRtRtx).unwrap_err().to_string();
            assert!(error.contains(&format!("TensorRT-RTX has no `{name}`")), "{error}");
            assert!(options.check(Sdk::TensorRt).is_ok(), "{name}");
        }
    }

    #[test]
    fn values_out_of_range_are_named() {
        let default = BuildOptions::default;
        let cases = [
            (
                BuildOptions { optimization_level: Some(6), ..default() },
                "`engine.optimization_level` cannot be 6",
            ),
            (
                BuildOptions { workspace_bytes: Some(0), ..default() },
                "`engine.workspace` cannot be 0",
            ),
            (
                BuildOptions { max_threads: Some(0), ..default() },
                "`engine.max_threads` cannot be 0",
            ),
            (BuildOptions { max_threads: Some(u32::MAX), ..default() }, "cannot be 4294967295"),
            (
                BuildOptions { error_on_timing_cache_miss: true, ..default() },
                "needs `engine.timing_cache`",
            ),
        ];
        for (options, expected) in cases {
            let error = options.check(Sdk::TensorRt).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(
            BuildOptions { optimization_level: Some(5), ..default() }
                .check(Sdk::TensorRtRtx)
                .is_ok()
        );
    }
}
