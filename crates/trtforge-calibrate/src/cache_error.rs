//! Why a calibration cache was not read or written.

use std::path::PathBuf;

use miette::Diagnostic;
use thiserror::Error;

/// Why a cache was refused.
#[derive(Debug, Diagnostic, Error)]
pub enum CacheError {
    /// The file could not be read.
    #[error("cannot read calibration cache {}: {source}", path.display())]
    #[diagnostic(
        code(calibrate::cache_read),
        help("give the file that TensorRT's calibrator wrote, or `trtexec --calib`")
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Not text at all.
    #[error("{} is not a TensorRT calibration cache: it is not text", path.display())]
    #[diagnostic(
        code(calibrate::cache_binary),
        help(
            "an engine or ONNX Runtime's `calibration.flatbuffers` does not do; ONNX Runtime writes `calibration.cache` beside it"
        )
    )]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// JSON.
    #[error("{} is JSON, not a TensorRT calibration cache", path.display())]
    #[diagnostic(
        code(calibrate::cache_json),
        help(
            "a table of trtforge needs no import: name it in the profile as `calibrate.table`; ONNX Runtime writes `calibration.cache` beside its JSON"
        )
    )]
    Json {
        /// The file.
        path: PathBuf,
    },
    /// Nothing in it.
    #[error("{} holds no scales", path.display())]
    #[diagnostic(
        code(calibrate::cache_empty),
        help("the calibrator that wrote it did not finish; use a complete cache")
    )]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The first line is another one.
    #[error("{} does not begin with a header such as TRT-8501-EntropyCalibration2, but with `{line}`", path.display())]
    #[diagnostic(
        code(calibrate::cache_no_header),
        help(
            "a cache without its first line cannot be told from a file of ranges; restore the line if you know where it comes from"
        )
    )]
    NoHeader {
        /// The file.
        path: PathBuf,
        /// Its first line.
        line: String,
    },
    /// The header is no header.
    #[error("{} begins with `{line}`: {reason}", path.display())]
    #[diagnostic(
        code(calibrate::cache_header),
        help(
            "the first line is TRT-, the version and the algorithm, such as TRT-8501-EntropyCalibration2"
        )
    )]
    Header {
        /// The file.
        path: PathBuf,
        /// Its first line.
        line: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A cache of ONNX Runtime.
    #[error("{} is a cache of ONNX Runtime: it holds ranges in decimal, not scales", path.display())]
    #[diagnostic(
        code(calibrate::cache_ranges),
        help("give `--onnx-runtime-ranges` to divide each range by 127")
    )]
    OnnxRuntime {
        /// The file.
        path: PathBuf,
    },
    /// A cache of TensorRT where ranges were promised.
    #[error("{} is a cache of TensorRT: it holds scales, not ranges", path.display())]
    #[diagnostic(code(calibrate::cache_scales), help("leave `--onnx-runtime-ranges` out"))]
    HasScales {
        /// The file.
        path: PathBuf,
    },
    /// A line that cannot be.
    #[error("{}:{line}: {what}", path.display())]
    #[diagnostic(
        code(calibrate::cache_line),
        help(
            "a line is a tensor, `: ` and the 8 hexadecimal digits of its scale, such as `x: 3c008912`; a tensor whose line you remove is treated as missing"
        )
    )]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// A name that a line cannot hold.
    #[error("tensor {tensor:?} has a line end in its name, which a cache cannot hold")]
    #[diagnostic(code(calibrate::cache_name), help("rename the tensor in the model"))]
    Name {
        /// The tensor.
        tensor: String,
    },
    /// The scales belong to another model than TensorRT would be given.
    #[error(
        "the table is of a model smoothed with strength {strength}: its scales do not fit the original model"
    )]
    #[diagnostic(
        code(calibrate::cache_smoothed),
        help("calibrate with `quantize.smooth: 0` for a cache")
    )]
    Smoothed {
        /// Of the table.
        strength: f64,
    },
}
