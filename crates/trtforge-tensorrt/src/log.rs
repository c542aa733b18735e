//! What the libraries logged.

use std::fmt;

use serde::{Deserialize, Serialize};
use trtforge_tensorrt_sys::RawLine;
use trtforge_tensorrt_sys::constants::rtx::nvinfer1_v_1_0_ILogger_Severity as raw;

/// How bad a log line is, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The library is at fault.
    InternalError,
    /// The request is at fault.
    Error,
    /// Worth a look.
    Warning,
    /// What is done.
    Info,
    /// Every detail.
    Verbose,
}

impl Severity {
    pub(crate) fn to_raw(self) -> i32 {
        match self {
            Severity::InternalError => raw::kINTERNAL_ERROR,
            Severity::Error => raw::kERROR,
            Severity::Warning => raw::kWARNING,
            Severity::Info => raw::kINFO,
            Severity::Verbose => raw::kVERBOSE,
        }
    }

    fn from_raw(number: i32) -> Severity {
        match number {
            raw::kINTERNAL_ERROR => Severity::InternalError,
            raw::kERROR => Severity::Error,
            raw::kWARNING => Severity::Warning,
            raw::kINFO => Severity::Info,
            _ => Severity::Verbose,
        }
    }
}

/// One line that the library logged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// How bad.
    pub severity: Severity,
    /// The message, as the library wrote it but for folders, which artifacts must not carry.
    pub message: String,
}

impl fmt::Display for LogLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = match self.severity {
            Severity::InternalError => "internal error",
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "info",
            Severity::Verbose => "verbose",
        };
        write!(f, "{label}: {}", self.message)
    }
}

/// The lines as values, with `path` cut down to `name`.
pub(crate) fn lines_of(raw: Vec<RawLine>, path: &str, name: &str) -> Vec<LogLine> {
    let line = |raw: RawLine| LogLine {
        severity: Severity::from_raw(raw.severity),
        message: if path.is_empty() { raw.message } else { raw.message.replace(path, name) },
    };
    raw.into_iter().map(line).collect()
}

/// What the library logs as errors on every machine without a GPU, whatever else is wrong.
pub(crate) fn is_noise(message: &str) -> bool {
    message.contains("cudaError 35") || message.contains("Thread context has not been set")
}

/// The line that says why something failed: the first real error.
pub(crate) fn cause(log: &[LogLine]) -> Option<&str> {
    log.iter()
        .filter(|line| line.severity <= Severity::Error && !is_noise(&line.message))
        .map(|line| line.message.trim())
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw_line(severity: i32, message: &str) -> RawLine {
        RawLine { severity, message: message.to_owned() }
    }

    #[test]
    fn paths_are_cut_to_the_file_name() {
        let raw = vec![raw_line(3, "Input filename:   /home/me/model.onnx")];
        let lines = lines_of(raw, "/home/me/model.onnx", "model.onnx");
        assert_eq!(lines[0].to_string(), "info: Input filename:   model.onnx");
    }

    #[test]
    fn the_cause_is_the_first_error_that_is_not_about_the_missing_gpu() {
        let raw = vec![
            raw_line(2, "a warning"),
            raw_line(1, "Cuda Runtime (cudaError 35: driver version is insufficient)"),
            raw_line(1, "no tactics within workspace limit"),
            raw_line(1, "later"),
        ];
        assert_eq!(cause(&lines_of(raw, "", "")), Some("no tactics within workspace limit"));
        assert_eq!(cause(&[]), None);
    }
}
