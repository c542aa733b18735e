//! Which SDK does not have which option, and why.

use super::{BuildOption, BuildOptions, ComputeCapability, Flag, Number, Size};
use crate::sdk::Sdk;

/// An option that an SDK does not have, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// Which option.
    pub option: BuildOption,
    /// Why.
    pub reason: &'static str,
}

impl BuildOption {
    /// Why `sdk` does not have it; nothing where it does.
    pub fn refused_by(self, sdk: Sdk) -> Option<Refusal> {
        let reason = match sdk {
            Sdk::TensorRt => refused_by_tensorrt(self),
            Sdk::TensorRtRtx => refused_by_rtx(self),
        };
        reason.map(|reason| Refusal { option: self, reason })
    }
}

impl BuildOptions {
    /// The options asked for that `sdk` does not have.
    pub fn refused_by(&self, sdk: Sdk) -> Vec<Refusal> {
        self.stated().into_keys().filter_map(|option| option.refused_by(sdk)).collect()
    }
}

fn refused_by_tensorrt(option: BuildOption) -> Option<&'static str> {
    Some(match option {
        BuildOption::ComputeCapabilities => {
            "it builds for the GPU of the machine; `engine.hardware_compatible` widens that"
        }
        BuildOption::Flag(Flag::RequireUserAllocation) => "only TensorRT-RTX builds such engines",
        _ => return None,
    })
}

/// What TensorRT-RTX 1.7 does not have; each was tried on its library, which fails, warns, or does nothing.
fn refused_by_rtx(option: BuildOption) -> Option<&'static str> {
    Some(match option {
        BuildOption::Flag(Flag::VersionCompatible | Flag::ExcludeLeanRuntime) => {
            "it would need a lean runtime, which that SDK does not ship"
        }
        BuildOption::HardwareCompatible => {
            "its plans run on every GPU from Ampere on as they are; `engine.compute_capabilities` narrows that"
        }
        BuildOption::TimingCache => {
            "it times nothing while building; plans are specialised where they run"
        }
        BuildOption::Flag(
            Flag::ErrorOnTimingCacheMiss
            | Flag::EditableTimingCache
            | Flag::DisableTimingCache
            | Flag::DisableCompilationCache,
        ) => "it has no timing cache",
        BuildOption::Number(Number::MaxTactics | Number::AverageTimingIterations)
        | BuildOption::Size(Size::TacticDram) => "it runs no tactics while building",
        BuildOption::RuntimePlatform => "it builds for the platform it runs on",
        BuildOption::BuildRoute => "its library takes none",
        _ => return None,
    })
}

impl BuildOptions {
    /// The option asked for that `sdk` can only apply where there is a GPU, although it builds without one otherwise.
    pub(crate) fn needs_gpu(&self, sdk: Sdk) -> Option<&'static str> {
        if sdk != Sdk::TensorRtRtx {
            return None;
        }
        // Tried without a GPU: the library fails with a CUDA status, or without a word.
        if self.refit.is_some() {
            Some("`engine.refit` with TensorRT-RTX")
        } else if self.has(Flag::StripPlan) {
            Some("`engine.strip_plan` with TensorRT-RTX")
        } else if self.compute_capabilities.contains(&ComputeCapability::Current) {
            Some("`engine.compute_capabilities: [current]`")
        } else {
            None
        }
    }
}
