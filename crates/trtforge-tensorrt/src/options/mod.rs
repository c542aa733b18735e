//! What a build may be told, and which SDK takes which option.

mod cache;
mod refusal;
mod word;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

pub use cache::{Pin, TimingCache};
pub use refusal::Refusal;
pub(crate) use word::SizeSetting;
pub use word::{
    ComputeCapability, Flag, HardwareCompatibility, Number, PreviewFeature, ProfilingVerbosity,
    Refit, RuntimePlatform, Size, TacticSource, Tiling,
};

use crate::driver::driver_for;
use crate::error::TensorRtError;
use crate::log::Severity;
use crate::sdk::Sdk;
use crate::timing;

/// How to build a plan. What is not set is left to the library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildOptions {
    /// What is on or off.
    pub flags: BTreeMap<Flag, bool>,
    /// Whole numbers.
    pub numbers: BTreeMap<Number, u32>,
    /// Numbers of bytes.
    pub sizes: BTreeMap<Size, u64>,
    /// How much the plan says of its layers; everything, so that its precision can be proven.
    pub profiling_verbosity: ProfilingVerbosity,
    /// On which other GPUs the plan runs.
    pub hardware_compatible: Option<HardwareCompatibility>,
    /// The compute capabilities that the plan is made for; the library's own choice when empty.
    pub compute_capabilities: BTreeSet<ComputeCapability>,
    /// Which weights can be replaced later.
    pub refit: Option<Refit>,
    /// Of [`Refit::Individual`]: the initializers, by name.
    pub refit_weights: Vec<String>,
    /// How hard tiling is tried.
    pub tiling_optimization_level: Option<Tiling>,
    /// Where tactics may come from; an empty set turns all off.
    pub tactic_sources: Option<BTreeSet<TacticSource>>,
    /// What the plan runs on.
    pub runtime_platform: Option<RuntimePlatform>,
    /// What is turned on beside the usual.
    pub preview_features: BTreeSet<PreviewFeature>,
    /// Options of the library's compiler, in its own words.
    pub build_route: Option<String>,
    /// Libraries of plugins.
    pub plugins: Vec<PathBuf>,
    /// Where tactic timings are kept.
    pub timing_cache: Option<TimingCache>,
    /// The least severe log lines to keep.
    pub keep_log: Severity,
}

impl Default for BuildOptions {
    fn default() -> BuildOptions {
        BuildOptions {
            flags: BTreeMap::new(),
            numbers: BTreeMap::new(),
            sizes: BTreeMap::new(),
            profiling_verbosity: ProfilingVerbosity::Detailed,
            hardware_compatible: None,
            compute_capabilities: BTreeSet::new(),
            refit: None,
            refit_weights: Vec::new(),
            tiling_optimization_level: None,
            tactic_sources: None,
            runtime_platform: None,
            preview_features: BTreeSet::new(),
            build_route: None,
            plugins: Vec::new(),
            timing_cache: None,
            keep_log: Severity::Info,
        }
    }
}

/// One option, by its name in a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is a field of `BuildOptions`, documented there")]
pub enum BuildOption {
    Flag(Flag),
    Number(Number),
    Size(Size),
    ProfilingVerbosity,
    HardwareCompatible,
    ComputeCapabilities,
    Refit,
    RefitWeights,
    TilingOptimizationLevel,
    TacticSources,
    RuntimePlatform,
    PreviewFeatures,
    BuildRoute,
    Plugins,
    TimingCache,
}

impl BuildOption {
    /// Every option there is.
    pub fn all() -> Vec<BuildOption> {
        let flags = Flag::NAMES.iter().map(|(_, flag)| BuildOption::Flag(*flag));
        let numbers = Number::NAMES.iter().map(|(_, number)| BuildOption::Number(*number));
        let sizes = Size::NAMES.iter().map(|(_, size)| BuildOption::Size(*size));
        let others = [
            BuildOption::ProfilingVerbosity,
            BuildOption::HardwareCompatible,
            BuildOption::ComputeCapabilities,
            BuildOption::Refit,
            BuildOption::RefitWeights,
            BuildOption::TilingOptimizationLevel,
            BuildOption::TacticSources,
            BuildOption::RuntimePlatform,
            BuildOption::PreviewFeatures,
            BuildOption::BuildRoute,
            BuildOption::Plugins,
            BuildOption::TimingCache,
        ];
        flags.chain(numbers).chain(sizes).chain(others).collect()
    }

    /// As it is called in a profile, under `engine`.
    pub const fn name(self) -> &'static str {
        match self {
            BuildOption::Flag(flag) => flag.name(),
            BuildOption::Number(number) => number.name(),
            BuildOption::Size(size) => size.name(),
            BuildOption::ProfilingVerbosity => "profiling_verbosity",
            BuildOption::HardwareCompatible => "hardware_compatible",
            BuildOption::ComputeCapabilities => "compute_capabilities",
            BuildOption::Refit => "refit",
            BuildOption::RefitWeights => "refit_weights",
            BuildOption::TilingOptimizationLevel => "tiling_optimization_level",
            BuildOption::TacticSources => "tactic_sources",
            BuildOption::RuntimePlatform => "runtime_platform",
            BuildOption::PreviewFeatures => "preview_features",
            BuildOption::BuildRoute => "build_route",
            BuildOption::Plugins => "plugins",
            BuildOption::TimingCache => "timing_cache",
        }
    }
}

impl BuildOptions {
    /// Whether a flag is on; one that is not set is not.
    pub fn has(&self, flag: Flag) -> bool {
        self.flags.get(&flag) == Some(&true)
    }

    /// A number that is set.
    pub fn number(&self, number: Number) -> Option<u32> {
        self.numbers.get(&number).copied()
    }

    /// The same with a flag set.
    #[must_use]
    pub fn with_flag(mut self, flag: Flag, on: bool) -> BuildOptions {
        self.flags.insert(flag, on);
        self
    }

    /// The same with a number set.
    #[must_use]
    pub fn with_number(mut self, number: Number, value: u32) -> BuildOptions {
        self.numbers.insert(number, value);
        self
    }

    /// The same with a number of bytes set.
    #[must_use]
    pub fn with_size(mut self, size: Size, bytes: u64) -> BuildOptions {
        self.sizes.insert(size, bytes);
        self
    }

    /// What is set and its value in words, by the names of a profile: for manifests, and to refuse by name.
    ///
    /// A timing cache and plugins are named without their folders.
    pub fn stated(&self) -> BTreeMap<BuildOption, String> {
        fn list(names: impl Iterator<Item = impl Into<String>>) -> String {
            names.map(Into::into).collect::<Vec<String>>().join(", ")
        }
        let file =
            |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut stated = BTreeMap::from([(
            BuildOption::ProfilingVerbosity,
            self.profiling_verbosity.name().to_owned(),
        )]);
        let mut word = |option, value: Option<&'static str>| {
            stated.extend(value.map(|value| (option, value.to_owned())));
        };
        word(
            BuildOption::HardwareCompatible,
            self.hardware_compatible.map(HardwareCompatibility::name),
        );
        word(BuildOption::Refit, self.refit.map(Refit::name));
        word(
            BuildOption::TilingOptimizationLevel,
            self.tiling_optimization_level.map(Tiling::name),
        );
        word(BuildOption::RuntimePlatform, self.runtime_platform.map(RuntimePlatform::name));
        stated
            .extend(self.flags.iter().map(|(flag, on)| (BuildOption::Flag(*flag), on.to_string())));
        stated.extend(
            self.numbers.iter().map(|(n, value)| (BuildOption::Number(*n), value.to_string())),
        );
        stated.extend(
            self.sizes.iter().map(|(size, bytes)| (BuildOption::Size(*size), bytes.to_string())),
        );
        let mut many = |option, text: String| {
            if !text.is_empty() {
                stated.insert(option, text);
            }
        };
        many(
            BuildOption::ComputeCapabilities,
            list(self.compute_capabilities.iter().map(|c| c.name())),
        );
        many(BuildOption::RefitWeights, list(self.refit_weights.iter().cloned()));
        many(BuildOption::PreviewFeatures, list(self.preview_features.iter().map(|f| f.name())));
        many(BuildOption::BuildRoute, self.build_route.clone().unwrap_or_default());
        many(BuildOption::Plugins, list(self.plugins.iter().map(file)));
        if let Some(sources) = &self.tactic_sources {
            stated.insert(BuildOption::TacticSources, list(sources.iter().map(|s| s.name())));
        }
        if let Some(cache) = &self.timing_cache {
            let pin = cache.pin.map_or_else(String::new, |pin| format!(" {pin}"));
            stated.insert(BuildOption::TimingCache, format!("{}{pin}", file(&cache.path)));
        }
        stated
    }

    /// Whether `sdk` can apply every option as given. Nothing is ever ignored.
    pub fn check(&self, sdk: Sdk) -> Result<(), TensorRtError> {
        if let Some(&refusal) = self.refused_by(sdk).first() {
            return Err(TensorRtError::OptionRefused { sdk, refusal });
        }
        self.check_values()
    }

    /// The same, and whether this machine has what the options need: a GPU, plugin libraries, a pinned cache.
    pub fn check_here(&self, sdk: Sdk) -> Result<(), TensorRtError> {
        self.check(sdk)?;
        if let Some(plugin) = self.plugins.iter().find(|plugin| !plugin.is_file()) {
            return Err(TensorRtError::OptionValue {
                option: BuildOption::Plugins.name(),
                value: format!("`{}`", plugin.display()),
                expected: "there is no such file",
            });
        }
        if let Some(cache) = self.timing_cache.as_ref().filter(|cache| cache.pin.is_some()) {
            timing::read(cache)?;
        }
        match self.needs_gpu(sdk) {
            Some(task) => driver_for(task).map(drop),
            None => Ok(()),
        }
    }

    /// Values that no SDK takes, and options that say nothing without another.
    pub fn check_values(&self) -> Result<(), TensorRtError> {
        let bad = |option: BuildOption, value: String, expected| {
            Err(TensorRtError::OptionValue { option: option.name(), value, expected })
        };
        for (&number, value) in &self.numbers {
            if !number.range().contains(value) {
                let expected = match number {
                    Number::OptimizationLevel => "levels go from 0 to 5",
                    Number::MaxThreads => "it takes at least one thread, and at most 4096",
                    _ => "it is out of range",
                };
                return bad(BuildOption::Number(number), value.to_string(), expected);
            }
        }
        for (&size, &bytes) in &self.sizes {
            let expected = match size {
                _ if bytes == 0 => "it takes some memory",
                Size::TacticSharedMemory if bytes >= 1 << 30 => "it must be below 1 GiB",
                Size::L2LimitForTiling if i64::try_from(bytes).is_err() => "no cache is that large",
                _ => continue,
            };
            return bad(BuildOption::Size(size), bytes.to_string(), expected);
        }
        match self.lonely() {
            Some((option, value, expected)) => bad(option, value, expected),
            None => Ok(()),
        }
    }

    /// Options that say nothing, or contradict, as the others are.
    fn lonely(&self) -> Option<(BuildOption, String, &'static str)> {
        let on = |flag| self.has(flag).then(|| (BuildOption::Flag(flag), "true".to_owned()));
        let without = |given: Option<(BuildOption, String)>, missing: bool, expected| {
            given.filter(|_| missing).map(|(option, value)| (option, value, expected))
        };
        let individual = self.refit == Some(Refit::Individual);
        let refit = self.refit.map(|refit| (BuildOption::Refit, refit.name().to_owned()));
        let weights = !self.refit_weights.is_empty();
        let names = weights.then(|| (BuildOption::RefitWeights, self.refit_weights.join(", ")));
        let l2 = self.sizes.get(&Size::L2LimitForTiling);
        let l2 = l2.map(|bytes| (BuildOption::Size(Size::L2LimitForTiling), bytes.to_string()));
        let untiled = matches!(self.tiling_optimization_level, None | Some(Tiling::None));
        let cache = self.timing_cache.is_none();
        let current = self.compute_capabilities.contains(&ComputeCapability::Current)
            && self.compute_capabilities.len() > 1;
        without(on(Flag::ErrorOnTimingCacheMiss), cache, "it needs `engine.timing_cache`")
            .or_else(|| {
                without(on(Flag::EditableTimingCache), cache, "it needs `engine.timing_cache`")
            })
            .or_else(|| {
                without(on(Flag::DisableTimingCache), !cache, "`engine.timing_cache` is set")
            })
            .or_else(|| {
                let alone = !self.has(Flag::VersionCompatible);
                without(
                    on(Flag::ExcludeLeanRuntime),
                    alone,
                    "it needs `engine.version_compatible: true`",
                )
            })
            .or_else(|| without(l2, untiled, "it needs `engine.tiling_optimization_level`"))
            .or_else(|| without(names, !individual, "it needs `engine.refit: individual`"))
            .or_else(|| without(refit, individual && !weights, "it needs `engine.refit_weights`"))
            .or_else(|| {
                current.then(|| {
                    let all = self.compute_capabilities.iter().map(|c| c.name());
                    let all = all.collect::<Vec<_>>().join(", ");
                    (BuildOption::ComputeCapabilities, all, "`current` stands alone")
                })
            })
    }
}

#[cfg(test)]
mod tests;
