//! The SDKs, their libraries, and their versions.

use std::fmt;

use serde::{Deserialize, Serialize};
use trtforge_tensorrt_sys::{self as sys, SdkId};

/// One of NVIDIA's two TensorRT products.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sdk {
    /// The data-centre TensorRT; building and running need a GPU.
    #[serde(rename = "tensorrt")]
    TensorRt,
    /// TensorRT-RTX; builds without a GPU, runs on one.
    #[serde(rename = "tensorrt-rtx")]
    TensorRtRtx,
}

/// A library of an SDK, by what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Builds plans and runs them.
    Builder,
    /// Reads ONNX into the builder's network.
    Parser,
    /// Runs version-compatible plans.
    LeanRuntime,
    /// Picks a lean runtime that fits the plan.
    DispatchRuntime,
}

impl Sdk {
    /// Both, the one to prefer first.
    pub const ALL: [Sdk; 2] = [Sdk::TensorRt, Sdk::TensorRtRtx];

    /// The libraries this SDK consists of.
    pub fn parts(self) -> &'static [Part] {
        match self {
            Sdk::TensorRt => {
                &[Part::Builder, Part::Parser, Part::LeanRuntime, Part::DispatchRuntime]
            }
            Sdk::TensorRtRtx => &[Part::Builder, Part::Parser],
        }
    }

    /// Whether building a plan needs a GPU.
    pub fn build_needs_gpu(self) -> bool {
        self == Sdk::TensorRt
    }

    /// The version of the headers this build was compiled against: the one libraries are asked for.
    pub fn header_version(self) -> Version {
        let versions = self.generations().iter().filter_map(|g| sys::header_version(g.id));
        Version::from_number(versions.max().unwrap_or(0))
    }

    /// The generations of this SDK, the newest first; those without headers in this build never load.
    pub(crate) fn generations(self) -> &'static [Generation] {
        match self {
            Sdk::TensorRt => &[TENSORRT_11, TENSORRT_10],
            Sdk::TensorRtRtx => &[RTX_1],
        }
    }

    /// How to get a library of this SDK.
    pub(crate) fn install_hint(self, part: Part) -> &'static str {
        match (self, part) {
            (Sdk::TensorRtRtx, _) => {
                "run scripts/setup, or `pip install tensorrt-rtx-cu13-libs==1.7.1.116`"
            }
            (Sdk::TensorRt, Part::Builder | Part::Parser) => {
                "install TensorRT 11.4 (`pip install tensorrt-cu13-libs==11.4.0.106`, or NVIDIA's packages)"
            }
            (Sdk::TensorRt, Part::LeanRuntime) => {
                "run scripts/setup, or `pip install tensorrt-lean-cu13-libs==11.4.0.106`"
            }
            (Sdk::TensorRt, Part::DispatchRuntime) => {
                "`pip install tensorrt-dispatch-cu13-libs==11.4.0.106`"
            }
        }
    }

    /// The folders that the Python packages of this SDK put into `site-packages`.
    pub(crate) fn python_folders(self) -> &'static [&'static str] {
        match self {
            Sdk::TensorRt => &["tensorrt_libs", "tensorrt_lean_libs", "tensorrt_dispatch_libs"],
            Sdk::TensorRtRtx => &["tensorrt_rtx_libs"],
        }
    }
}

impl fmt::Display for Sdk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sdk::TensorRt => "TensorRT",
            Sdk::TensorRtRtx => "TensorRT-RTX",
        })
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Builder => "builder",
            Part::Parser => "ONNX parser",
            Part::LeanRuntime => "lean runtime",
            Part::DispatchRuntime => "dispatch runtime",
        })
    }
}

/// A major version of an SDK: its own headers, its own file names.
#[derive(Debug)]
pub(crate) struct Generation {
    pub(crate) id: SdkId,
    files: &'static [(Part, &'static str)],
}

impl Generation {
    pub(crate) fn file(&self, part: Part) -> Option<&'static str> {
        self.files.iter().find(|(of, _)| *of == part).map(|(_, file)| *file)
    }
}

const RTX_1: Generation = Generation {
    id: SdkId::Rtx,
    files: &[
        (Part::Builder, "libtensorrt_rtx.so.1"),
        (Part::Parser, "libtensorrt_onnxparser_rtx.so.1"),
    ],
};
const TENSORRT_11: Generation = Generation {
    id: SdkId::TensorRt11,
    files: &[
        (Part::Builder, "libnvinfer.so.11"),
        (Part::Parser, "libnvonnxparser.so.11"),
        (Part::LeanRuntime, "libnvinfer_lean.so.11"),
        (Part::DispatchRuntime, "libnvinfer_dispatch.so.11"),
    ],
};
const TENSORRT_10: Generation = Generation {
    id: SdkId::TensorRt10,
    files: &[
        (Part::Builder, "libnvinfer.so.10"),
        (Part::Parser, "libnvonnxparser.so.10"),
        (Part::LeanRuntime, "libnvinfer_lean.so.10"),
        (Part::DispatchRuntime, "libnvinfer_dispatch.so.10"),
    ],
};

/// A version of an SDK.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Version {
    /// Major version.
    pub major: u32,
    /// Minor version.
    pub minor: u32,
    /// Patch.
    pub patch: u32,
}

impl Version {
    /// From TensorRT's single number. Up to version 9 it was 1000·major + 100·minor + patch, since 10 it is
    /// 10000·major + 100·minor + patch, which TensorRT-RTX uses from its 1.0 on.
    pub(crate) fn from_number(number: i32) -> Version {
        let number = u32::try_from(number).unwrap_or(0);
        if number < 10_000 {
            return Version {
                major: number / 1000,
                minor: number % 1000 / 100,
                patch: number % 100,
            };
        }
        Version { major: number / 10_000, minor: number % 10_000 / 100, patch: number % 100 }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl From<Version> for String {
    fn from(version: Version) -> String {
        version.to_string()
    }
}

impl TryFrom<String> for Version {
    type Error = String;

    fn try_from(text: String) -> Result<Version, String> {
        let numbers: Vec<u32> = text.split('.').map_while(|part| part.parse().ok()).collect();
        match numbers[..] {
            [major, minor, patch] => Ok(Version { major, minor, patch }),
            _ => Err(format!("`{text}` is no version like 11.4.0")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_both_number_forms() {
        let cases = [
            (10_701, "1.7.1"),
            (110_400, "11.4.0"),
            (100_305, "10.3.5"),
            (8_601, "8.6.1"),
            (-1, "0.0.0"),
        ];
        for (number, text) in cases {
            assert_eq!(Version::from_number(number).to_string(), text, "{number}");
        }
    }

    #[test]
    fn headers_are_those_the_project_pins() {
        assert_eq!(Sdk::TensorRtRtx.header_version().to_string(), "1.7.1");
        assert_eq!(Sdk::TensorRt.header_version().to_string(), "11.4.0");
    }

    #[test]
    fn a_version_survives_json() {
        let version = Version { major: 11, minor: 4, patch: 0 };
        let json = serde_json::to_string(&version).unwrap();
        assert_eq!(json, r#""11.4.0""#);
        assert_eq!(serde_json::from_str::<Version>(&json).unwrap(), version);
        assert!(serde_json::from_str::<Version>(r#""eleven""#).is_err());
    }

    #[test]
    fn parser_codes_agree_between_the_sdks() {
        // One set of numbers is read from either SDK; this is where a new header would say otherwise.
        use trtforge_tensorrt_sys::constants::{rtx, tensorrt11};
        assert_eq!(
            rtx::nvonnxparser_ErrorCode::kUNSUPPORTED_NODE,
            tensorrt11::nvonnxparser_ErrorCode::kUNSUPPORTED_NODE
        );
    }
}
