//! What calibration refuses, and what to do about it.

use std::path::PathBuf;

use miette::Diagnostic;
use thiserror::Error;

/// Why a histogram gives no threshold.
#[derive(Clone, Debug, Diagnostic, Error, PartialEq)]
pub enum ThresholdError {
    /// The tensor held NaN or infinity.
    #[error("{nonfinite} of {count} values are NaN or infinite")]
    #[diagnostic(
        code(calibrate::not_finite),
        help(
            "the FP32 model itself produces them: look for NaN weights or a row that overflows, and evaluate in FP32 first"
        )
    )]
    NotFinite {
        /// NaN and infinite values.
        nonfinite: u64,
        /// All values, finite or not.
        count: u64,
    },
    /// No value was ever observed.
    #[error("no value was observed")]
    #[diagnostic(
        code(calibrate::no_values),
        help(
            "run at least one calibration row through the model; the tensor may sit in a branch that no row takes"
        )
    )]
    NoValues,
    /// Imported scales are taken over and `auto` stands for other methods: neither is chosen from a histogram.
    #[error("`auto` and imported scales are not chosen from values alone")]
    #[diagnostic(
        code(calibrate::not_chosen),
        help("calibrate with entropy, minmax, percentile or mse")
    )]
    NotChosen,
    /// The percentile is not in (0, 100].
    #[error("percentile {percentile} is not above 0 and at most 100")]
    #[diagnostic(code(calibrate::percentile_range), help("write for example `percentile:99.99`"))]
    PercentileRange {
        /// What was asked for.
        percentile: f64,
    },
}

/// Why calibration of a named tensor, or of a whole model, failed.
#[derive(Clone, Debug, Diagnostic, Error, PartialEq)]
pub enum CalibrateError {
    /// One tensor gives no threshold.
    #[error("tensor `{tensor}` cannot be calibrated: {reason}")]
    #[diagnostic(code(calibrate::tensor), help("{}", help_of(reason)))]
    Tensor {
        /// Name of the tensor in the model.
        tensor: String,
        /// What is wrong with its values.
        reason: ThresholdError,
    },
    /// A method name nobody knows.
    #[error("unknown calibration method `{given}`")]
    #[diagnostic(
        code(calibrate::unknown_method),
        help("known methods: entropy, minmax, percentile, percentile:P (0 < P <= 100), mse, auto")
    )]
    UnknownMethod {
        /// What was written.
        given: String,
    },
    /// A tensor held NaN or infinity where its channels were measured.
    #[error("tensor `{tensor}` is NaN or infinite in channel {channel}")]
    #[diagnostic(
        code(calibrate::channel_not_finite),
        help(
            "the FP32 model itself produces it: look for NaN weights or a row that overflows, and evaluate in FP32 first"
        )
    )]
    ChannelNotFinite {
        /// Name of the tensor in the model.
        tensor: String,
        /// The first such channel along the last axis.
        channel: usize,
    },
    /// The values of a tensor are no whole number of rows, or rows of another length than before.
    #[error(
        "{values} values of tensor `{tensor}` are no rows of {channels} channels; {known} were expected"
    )]
    #[diagnostic(
        code(calibrate::channels),
        help("make all shards from the same model, and give the length of the tensor's last axis")
    )]
    Channels {
        /// Name of the tensor in the model.
        tensor: String,
        /// How many values there were.
        values: usize,
        /// The number of channels given.
        channels: usize,
        /// The number of channels known before.
        known: usize,
    },
    /// Two observers of different tensors were merged.
    #[error("cannot merge calibration shards: tensor `{tensor}` was observed in only one of them")]
    #[diagnostic(
        code(calibrate::shards_differ),
        help("make all shards from the same model with the same options")
    )]
    ShardsDiffer {
        /// The first tensor that only one side has.
        tensor: String,
    },
}

fn help_of(reason: &ThresholdError) -> String {
    reason.help().map(|help| help.to_string()).unwrap_or_default()
}

/// Why a calibration table was not written, read or accepted.
#[derive(Debug, Diagnostic, Error)]
pub enum TableError {
    /// The file could not be written.
    #[error("cannot write calibration table {}", path.display())]
    #[diagnostic(
        code(calibrate::table_write),
        help(
            "check free space and permissions of the folder; nothing half-written is left behind"
        )
    )]
    Write {
        /// Where it should have gone.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file could not be read.
    #[error("cannot read calibration table {}", path.display())]
    #[diagnostic(
        code(calibrate::table_read),
        help("give the `calibration.json` of an earlier run, or run `trtforge calibrate`")
    )]
    Read {
        /// Where it should be.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not a calibration table.
    #[error("{} is not a calibration table", path.display())]
    #[diagnostic(code(calibrate::table_parse), help("make it again with `trtforge calibrate`"))]
    Parse {
        /// The file.
        path: PathBuf,
        /// Line, column and what was expected there.
        source: serde_json::Error,
    },
    /// The file was written by a version this one does not understand.
    #[error("{} has schema {found}, this version reads schema {known}", path.display())]
    #[diagnostic(
        code(calibrate::table_schema),
        help("use the version that wrote it, or calibrate again")
    )]
    Schema {
        /// The file.
        path: PathBuf,
        /// The schema it states.
        found: u64,
        /// The schema understood here.
        known: u32,
    },
    /// A number in the file cannot be.
    #[error("{}: tensor `{tensor}` has {what}", path.display())]
    #[diagnostic(
        code(calibrate::table_value),
        help("the file was edited or damaged; calibrate again")
    )]
    Value {
        /// The file.
        path: PathBuf,
        /// Name of the tensor.
        tensor: String,
        /// Which value is wrong and how.
        what: String,
    },
    /// The table belongs to another model, data set or setting.
    #[error("the calibration table does not fit: {}", differences.join("; "))]
    #[diagnostic(
        code(calibrate::table_stale),
        help("calibrate again, or give the table made for this model, data and options")
    )]
    Stale {
        /// Each thing that differs, with both values.
        differences: Vec<String>,
    },
}
