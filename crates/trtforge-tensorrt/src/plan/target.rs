//! The GPUs that a plan runs on, and whether a library and a GPU fit it.
//!
//! | plan | library | GPU |
//! |---|---|---|
//! | TensorRT | the same version to the build | the compute capability it was built on; another model of the same runs, with a note |
//! | TensorRT, version-compatible | the same major version, not older; the lean and dispatch runtimes too | as above |
//! | TensorRT, `kAMPERE_PLUS` | as above | 8.0 or higher |
//! | TensorRT, `kSAME_COMPUTE_CAPABILITY` | as above | the compute capability it was built on |
//! | TensorRT-RTX | the same version to the build | 8.0 or higher, unless built for listed compute capabilities |
//!
//! Sources: NVIDIA's support matrices ("Serialized engines are not portable …"), `HardwareCompatibilityLevel` and `BuilderFlag` in NvInfer.h of 11.4,
//! `ComputeCapability` and `EngineInvalidityDiagnostics` of TensorRT-RTX 1.7, and its "CPU-Only AOT" page: a plan runs on 8.0, 8.6, 8.9, 12.0 and later
//! by default. That list leaves out Hopper (9.0) and 10.0; nothing says that it refuses them, so they are not refused here and TensorRT-RTX decides.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::driver::Gpu;
use crate::library::Library;
use crate::plan::error::PlanError;
use crate::plan::version::ExactVersion;
use crate::sdk::{Part, Sdk};

/// The GPUs that a plan runs on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum RunsOn {
    /// This compute capability and every higher one.
    AtLeast {
        /// Such as 8.0.
        compute_capability: Capability,
    },
    /// This compute capability alone.
    Exactly {
        /// Such as 9.0.
        compute_capability: Capability,
    },
    /// Each of these.
    OneOf {
        /// Such as 7.5.
        compute_capabilities: Vec<Capability>,
    },
}

/// The oldest architecture of hardware-compatible and of portable plans: Ampere.
pub const AMPERE: Capability = Capability { major: 8, minor: 0 };

impl RunsOn {
    /// Whether a GPU is among them.
    pub fn takes(&self, gpu: Capability) -> bool {
        match self {
            RunsOn::AtLeast { compute_capability } => gpu >= *compute_capability,
            RunsOn::Exactly { compute_capability } => gpu == *compute_capability,
            RunsOn::OneOf { compute_capabilities } => compute_capabilities.contains(&gpu),
        }
    }
}

impl fmt::Display for RunsOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunsOn::AtLeast { compute_capability } => {
                write!(f, "compute capability {compute_capability} or higher")
            }
            RunsOn::Exactly { compute_capability } => {
                write!(f, "compute capability {compute_capability} alone")
            }
            RunsOn::OneOf { compute_capabilities } => {
                let names: Vec<String> =
                    compute_capabilities.iter().map(Capability::to_string).collect();
                write!(f, "compute capability {}", names.join(" or "))
            }
        }
    }
}

/// A compute capability, such as 8.9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Capability {
    /// Of the architecture.
    pub major: u32,
    /// Within it.
    pub minor: u32,
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl From<Capability> for String {
    fn from(capability: Capability) -> String {
        capability.to_string()
    }
}

impl TryFrom<String> for Capability {
    type Error = String;

    fn try_from(text: String) -> Result<Capability, String> {
        let numbers = text.split_once('.').and_then(|(major, minor)| {
            Some(Capability { major: major.parse().ok()?, minor: minor.parse().ok()? })
        });
        numbers.ok_or_else(|| format!("`{text}` is no compute capability like 8.9"))
    }
}

impl Gpu {
    /// Its compute capability as a number; none where the driver gave no such thing.
    pub fn capability(&self) -> Option<Capability> {
        self.compute_capability.clone().try_into().ok()
    }
}

/// What would run a plan.
#[derive(Debug, Clone, Copy)]
pub struct Host<'a> {
    /// The library's SDK.
    pub sdk: Sdk,
    /// Which of its libraries.
    pub part: Part,
    /// Its version.
    pub version: ExactVersion,
    /// The GPU, where there is one.
    pub gpu: Option<&'a Gpu>,
}

impl<'a> Host<'a> {
    /// A library with a GPU.
    pub fn of(library: &Library, gpu: Option<&'a Gpu>) -> Host<'a> {
        let version = library.exact_version();
        Host { sdk: library.sdk(), part: library.part(), version, gpu }
    }
}

/// What is known of a plan when it is held against a [`Host`].
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// Whose plan it is.
    pub sdk: Sdk,
    /// The version that built it.
    pub version: Option<ExactVersion>,
    /// Whether later versions run it too.
    pub version_compatible: bool,
    /// The GPUs that it runs on.
    pub runs_on: Option<&'a RunsOn>,
    /// The GPU that it was built on.
    pub built_on: Option<&'a Gpu>,
}

/// Whether a plan fits a host: the first thing that does not, or what a person should know.
pub fn fits(plan: Known<'_>, host: Host<'_>) -> Result<Vec<String>, PlanError> {
    if plan.sdk != host.sdk {
        return Err(PlanError::OtherSdk { found: plan.sdk, expected: host.sdk });
    }
    if let Some(version) = plan.version {
        check_version(plan, version, host)?;
    }
    let mut notes = Vec::new();
    let Some(gpu) = host.gpu else { return Ok(notes) };
    if let (Some(runs_on), Some(capability)) = (plan.runs_on, gpu.capability())
        && !runs_on.takes(capability)
    {
        return Err(PlanError::OtherGpu {
            found: format!("{} (compute capability {capability})", gpu.name),
            expected: runs_on.to_string(),
        });
    }
    if let Some(built_on) = plan.built_on.filter(|_| plan.sdk == Sdk::TensorRt)
        && built_on.name != gpu.name
    {
        notes.push(format!(
            "the plan was built on {}, and this is {}: it runs, and its kernels were chosen for the other",
            built_on.name, gpu.name
        ));
    }
    Ok(notes)
}

fn check_version(plan: Known<'_>, version: ExactVersion, host: Host<'_>) -> Result<(), PlanError> {
    let refuse = |rule| {
        Err(PlanError::OtherVersion { sdk: plan.sdk, found: version, expected: host.version, rule })
    };
    if plan.version_compatible {
        let (built, here) = (version.version, host.version.version);
        return match () {
            () if built.major != here.major => {
                refuse("a version-compatible plan runs on its own major version")
            }
            () if here < built => {
                refuse("a version-compatible plan runs on its own version and later ones")
            }
            () => Ok(()),
        };
    }
    match host.part {
        Part::LeanRuntime | Part::DispatchRuntime => {
            refuse("the lean and dispatch runtimes take version-compatible plans alone")
        }
        Part::Builder | Part::Parser if !version.agrees_with(host.version) => {
            refuse("a plan runs on exactly the version that built it")
        }
        Part::Builder | Part::Parser => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(name: &str, capability: &str) -> Gpu {
        Gpu {
            name: name.to_owned(),
            compute_capability: capability.to_owned(),
            memory_bytes: 1 << 30,
        }
    }

    fn version(text: &str) -> ExactVersion {
        text.to_owned().try_into().unwrap()
    }

    fn capability(text: &str) -> Capability {
        text.to_owned().try_into().unwrap()
    }

    const PLAN: Known<'_> = Known {
        sdk: Sdk::TensorRt,
        version: None,
        version_compatible: false,
        runs_on: None,
        built_on: None,
    };

    fn said(plan: Known<'_>, host: Host<'_>) -> String {
        fits(plan, host).map_or_else(|error| error.to_string(), |notes| notes.join("; "))
    }

    #[test]
    fn versions_fit_by_the_rules_of_the_plan() {
        let cases = [
            // plan, compatible, library, part, what does not fit
            ("11.4.0.106", false, "11.4.0.106", Part::Builder, ""),
            ("11.4.0.106", false, "11.4.0", Part::Builder, ""),
            ("11.4.0.106", false, "11.4.0.107", Part::Builder, "exactly"),
            ("11.3.0.1", false, "11.4.0.106", Part::Builder, "exactly"),
            ("11.3.0.1", true, "11.4.0.106", Part::Builder, ""),
            ("11.3.0.1", true, "11.4.0.106", Part::LeanRuntime, ""),
            ("11.5.0.1", true, "11.4.0.106", Part::Builder, "later ones"),
            ("10.9.0.1", true, "11.4.0.106", Part::Builder, "own major version"),
            (
                "11.4.0.106",
                false,
                "11.4.0.106",
                Part::LeanRuntime,
                "version-compatible plans alone",
            ),
            (
                "11.4.0.106",
                false,
                "11.4.0.106",
                Part::DispatchRuntime,
                "version-compatible plans alone",
            ),
        ];
        for (plan, version_compatible, library, part, expected) in cases {
            let known = Known { version: Some(version(plan)), version_compatible, ..PLAN };
            let host = Host { sdk: Sdk::TensorRt, part, version: version(library), gpu: None };
            let said = said(known, host);
            assert_eq!(said.is_empty(), expected.is_empty(), "{plan} on {library}: {said}");
            assert!(said.contains(expected), "{said}");
            let names_both = said.contains(plan) && said.contains(library);
            assert!(expected.is_empty() || names_both, "{said}");
        }
    }

    #[test]
    fn gpus_fit_by_compute_capability() {
        let exactly = RunsOn::Exactly { compute_capability: capability("9.0") };
        let ampere = RunsOn::AtLeast { compute_capability: AMPERE };
        let turing = RunsOn::OneOf { compute_capabilities: vec![capability("7.5")] };
        let cases = [
            (&exactly, "9.0", true),
            (&exactly, "8.9", false),
            (&exactly, "12.0", false),
            (&ampere, "8.0", true),
            (&ampere, "9.0", true),
            // 12.0 is above 8.0, and "12.0" is below "8.0".
            (&ampere, "12.0", true),
            (&ampere, "7.5", false),
            (&turing, "7.5", true),
            (&turing, "8.0", false),
        ];
        for (runs_on, here, fit) in cases {
            let gpu = gpu("NVIDIA Test", here);
            let host = Host {
                sdk: Sdk::TensorRt,
                part: Part::Builder,
                version: version("11.4.0"),
                gpu: Some(&gpu),
            };
            let result = fits(Known { runs_on: Some(runs_on), ..PLAN }, host);
            assert_eq!(result.is_ok(), fit, "{runs_on} on {here}");
            if let Err(error) = result {
                let text = error.to_string();
                assert!(text.contains(here) && text.contains(&runs_on.to_string()), "{text}");
            }
        }
    }

    #[test]
    fn another_model_of_the_same_capability_is_a_note_and_another_sdk_an_error() {
        let (built, here) = (gpu("NVIDIA A10", "8.6"), gpu("NVIDIA A40", "8.6"));
        let host =
            |sdk| Host { sdk, part: Part::Builder, version: version("11.4.0"), gpu: Some(&here) };
        let known = Known { built_on: Some(&built), ..PLAN };
        let note = said(known, host(Sdk::TensorRt));
        assert!(note.contains("NVIDIA A10") && note.contains("NVIDIA A40"), "{note}");
        let error = fits(known, host(Sdk::TensorRtRtx)).unwrap_err();
        assert!(matches!(error, PlanError::OtherSdk { .. }), "{error}");
    }

    #[test]
    fn rules_survive_json() {
        let rules = [
            (
                RunsOn::AtLeast { compute_capability: AMPERE },
                r#"{"rule":"at-least","compute_capability":"8.0"}"#,
            ),
            (
                RunsOn::OneOf { compute_capabilities: vec![capability("12.1")] },
                r#"{"rule":"one-of","compute_capabilities":["12.1"]}"#,
            ),
        ];
        for (rule, json) in rules {
            assert_eq!(serde_json::to_string(&rule).unwrap(), json);
            assert_eq!(serde_json::from_str::<RunsOn>(json).unwrap(), rule);
        }
        for bad in ["8", "8.x", "", "-1.0"] {
            assert!(Capability::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
