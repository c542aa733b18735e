//! Options on their way to the library: each is set and read back by the shim.

use std::os::unix::ffi::OsStrExt;

use trtforge_tensorrt_sys as sys;

use crate::error::TensorRtError;
use crate::options::{
    BuildOption, BuildOptions, Flag, HardwareCompatibility, Refit, RuntimePlatform, SizeSetting,
    Tiling,
};
use crate::session::Session;

impl Session {
    /// What has to be there before the model is parsed: plugins are what some of its nodes are.
    pub(crate) fn load_plugins(&mut self, options: &BuildOptions) -> Result<(), TensorRtError> {
        if options.plugins.is_empty() {
            return Ok(());
        }
        let mut paths = Vec::new();
        for plugin in &options.plugins {
            let bad = |expected| TensorRtError::OptionValue {
                option: BuildOption::Plugins.name(),
                value: format!("`{}`", plugin.display()),
                expected,
            };
            // TensorRT takes a plain name for something that the dynamic linker looks for.
            let full = std::fs::canonicalize(plugin).map_err(|_| bad("it cannot be read"))?;
            let text = str::from_utf8(full.as_os_str().as_bytes())
                .map_err(|_| bad("its path is no UTF-8"))?;
            paths.push(text.to_owned());
        }
        // Only a version-compatible plan can carry them; any other needs them at load time.
        let serialize = options.has(Flag::VersionCompatible);
        self.try_shim(|builder| builder.load_plugins(&paths, serialize))
    }

    /// Sets every option, after parsing.
    pub(crate) fn apply(&mut self, options: &BuildOptions) -> Result<(), TensorRtError> {
        for (number, &value) in &options.numbers {
            self.set(number.raw(), value.into())?;
        }
        for (size, &bytes) in &options.sizes {
            match size.raw() {
                SizeSetting::Pool(pool) => {
                    self.try_shim(|builder| builder.set_memory_limit(pool, bytes))?;
                }
                SizeSetting::TilingL2 => self.set(sys::Setting::TilingL2Bytes, bytes as i64)?,
            }
        }
        for (flag, &on) in &options.flags {
            let flag = flag.raw();
            self.try_shim(|builder| builder.set_flag(flag, on))?;
        }
        self.set(sys::Setting::ProfilingVerbosity, options.profiling_verbosity.raw().into())?;
        let words = [
            (
                sys::Setting::HardwareCompatibility,
                options.hardware_compatible.map(HardwareCompatibility::raw),
            ),
            (
                sys::Setting::TilingOptimizationLevel,
                options.tiling_optimization_level.map(Tiling::raw),
            ),
            (sys::Setting::RuntimePlatform, options.runtime_platform.map(RuntimePlatform::raw)),
        ];
        for (setting, number) in words {
            if let Some(number) = number {
                self.set(setting, number.into())?;
            }
        }
        self.apply_lists(options)?;
        self.apply_refit(options)
    }

    fn set(&mut self, setting: sys::Setting, value: i64) -> Result<(), TensorRtError> {
        self.try_shim(|builder| builder.set(setting, value))
    }

    fn apply_lists(&mut self, options: &BuildOptions) -> Result<(), TensorRtError> {
        if !options.compute_capabilities.is_empty() {
            let numbers: Vec<i32> = options.compute_capabilities.iter().map(|c| c.raw()).collect();
            self.try_shim(|builder| builder.set_compute_capabilities(&numbers))?;
        }
        if let Some(sources) = &options.tactic_sources {
            let sources: Vec<sys::TacticSource> =
                sources.iter().map(|source| source.raw()).collect();
            self.try_shim(|builder| builder.set_tactic_sources(&sources))?;
        }
        for feature in &options.preview_features {
            self.try_shim(|builder| builder.set_preview_feature(feature.raw()))?;
        }
        if let Some(route) = &options.build_route {
            self.try_shim(|builder| builder.set_build_route(route))?;
        }
        Ok(())
    }

    fn apply_refit(&mut self, options: &BuildOptions) -> Result<(), TensorRtError> {
        let Some(refit) = options.refit else { return Ok(()) };
        self.try_shim(|builder| builder.set_flag(refit.raw(), true))?;
        if refit != Refit::Individual {
            return Ok(());
        }
        for weights in &options.refit_weights {
            if !self.try_shim(|builder| builder.mark_refittable(weights))? {
                return Err(TensorRtError::OptionValue {
                    option: BuildOption::RefitWeights.name(),
                    value: format!("`{weights}`"),
                    expected: "the network has no weights of that name that can be refitted",
                });
            }
        }
        Ok(())
    }
}
