//! Which SDK builds the engines, or none.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::driver::{DriverInfo, driver_for};
use crate::error::TensorRtError;
use crate::library::Library;
use crate::sdk::Sdk;

/// What the user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// TensorRT where it and a GPU are there, else TensorRT-RTX.
    #[default]
    Auto,
    /// TensorRT; needs a GPU.
    #[serde(rename = "tensorrt")]
    TensorRt,
    /// TensorRT-RTX; builds anywhere.
    #[serde(rename = "tensorrt-rtx")]
    TensorRtRtx,
    /// Stop at ONNX.
    None,
}

impl Backend {
    /// As it is written in a profile and on the command line.
    pub const NAMES: [(&'static str, Backend); 4] = [
        ("auto", Backend::Auto),
        ("tensorrt", Backend::TensorRt),
        ("tensorrt-rtx", Backend::TensorRtRtx),
        ("none", Backend::None),
    ];

    fn name(self) -> &'static str {
        match self {
            Backend::Auto => "auto",
            Backend::TensorRt => "tensorrt",
            Backend::TensorRtRtx => "tensorrt-rtx",
            Backend::None => "none",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Backend {
    type Err = String;

    fn from_str(text: &str) -> Result<Backend, String> {
        let known = Backend::NAMES.iter().find(|(name, _)| *name == text);
        known.map(|(_, backend)| *backend).ok_or_else(|| {
            let names: Vec<&str> = Backend::NAMES.iter().map(|(name, _)| *name).collect();
            format!("`{text}` is no backend; the backends are {}", names.join(", "))
        })
    }
}

/// What will build the engines.
#[derive(Debug)]
pub enum Choice {
    /// This SDK.
    Sdk {
        /// Its builder and parser, opened.
        library: Library,
        /// The GPU's driver, where there is one.
        driver: Option<DriverInfo>,
        /// Why this one, in words for a log.
        reason: String,
    },
    /// Nothing: the run stops at ONNX.
    None,
}

/// Chooses what builds the engines. `libraries` is where the user says the libraries are, if he does.
pub fn choose(backend: Backend, libraries: Option<&Path>) -> Result<Choice, TensorRtError> {
    match backend {
        Backend::None => Ok(Choice::None),
        Backend::TensorRt => {
            let driver = driver_for("backend `tensorrt`")?;
            let library = Library::locate(Sdk::TensorRt, libraries)?;
            Ok(Choice::Sdk { library, driver: Some(driver), reason: "asked for".to_owned() })
        }
        Backend::TensorRtRtx => {
            let library = Library::locate(Sdk::TensorRtRtx, libraries)?;
            let driver = driver_for("running an engine").ok();
            Ok(Choice::Sdk { library, driver, reason: "asked for".to_owned() })
        }
        Backend::Auto => automatic(libraries),
    }
}

fn automatic(libraries: Option<&Path>) -> Result<Choice, TensorRtError> {
    let (driver, no_driver) = match driver_for("TensorRT") {
        Ok(driver) => (Some(driver), None),
        Err(error) => (None, Some(error)),
    };
    // Without a GPU there is no use in opening half a gigabyte of libraries.
    let full = match no_driver {
        None => Library::locate(Sdk::TensorRt, libraries),
        Some(error) => Err(error),
    };
    let without_full = match full {
        Ok(library) => {
            let reason = "TensorRT and a GPU are there".to_owned();
            return Ok(Choice::Sdk { library, driver, reason });
        }
        Err(error) => error.to_string(),
    };
    match Library::locate(Sdk::TensorRtRtx, libraries) {
        Ok(library) => Ok(Choice::Sdk { library, driver, reason: without_full }),
        Err(error) => Err(TensorRtError::BackendUnavailable {
            wanted: Backend::Auto.name(),
            missing: vec![without_full, error.to_string()],
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for (name, backend) in Backend::NAMES {
            assert_eq!(name.parse(), Ok(backend));
            assert_eq!(backend.to_string(), name);
            assert_eq!(serde_json::to_string(&backend).unwrap(), format!("\"{name}\""));
        }
        assert_eq!(
            "cuda".parse::<Backend>().unwrap_err(),
            "`cuda` is no backend; the backends are auto, tensorrt, tensorrt-rtx, none"
        );
    }

    #[test]
    fn none_needs_nothing() {
        assert!(matches!(choose(Backend::None, None), Ok(Choice::None)));
    }
}
