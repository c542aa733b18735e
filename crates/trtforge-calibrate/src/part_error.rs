//! Why parts of a calibration do not make a whole.

use std::path::PathBuf;

use miette::Diagnostic;
use thiserror::Error;

use crate::error::CalibrateError;

/// Why a part was not written, read or merged.
#[derive(Debug, Diagnostic, Error)]
pub enum PartError {
    /// The file could not be written.
    #[error("cannot write calibration part {}: {source}", path.display())]
    #[diagnostic(
        code(calibrate::part_write),
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
    #[error("cannot read calibration part {}: {source}", path.display())]
    #[diagnostic(
        code(calibrate::part_read),
        help("give the files that `trtforge calibrate PROFILE --shard I/N -o FILE` wrote")
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Another kind of file.
    #[error("{} is not a calibration part: {what}", path.display())]
    #[diagnostic(
        code(calibrate::not_a_part),
        help("give the files that `trtforge calibrate PROFILE --shard I/N -o FILE` wrote")
    )]
    NotAPart {
        /// The file.
        path: PathBuf,
        /// What it looks like.
        what: &'static str,
    },
    /// Another layout.
    #[error("{} has part schema {found}, this version reads {known}", path.display())]
    #[diagnostic(
        code(calibrate::part_schema),
        help("run the same version of trtforge on every machine, and merge with it")
    )]
    Schema {
        /// The file.
        path: PathBuf,
        /// The schema it states.
        found: String,
        /// The schema understood here.
        known: u32,
    },
    /// The file is not what was written.
    #[error("calibration part {} is damaged: {what}", path.display())]
    #[diagnostic(
        code(calibrate::part_damaged),
        help("copy it again from where it was made, or run that shard again")
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// In words.
        what: String,
    },
    /// The file is whole and has another form than this version writes.
    #[error("calibration part {} cannot be read", path.display())]
    #[diagnostic(
        code(calibrate::part_parse),
        help("run the same version of trtforge on every machine, and merge with it")
    )]
    Parse {
        /// The file.
        path: PathBuf,
        /// Line, column and what was expected there.
        source: serde_json::Error,
    },
    /// Parts of different calibrations.
    #[error("{} belongs to another calibration than {}: {}", path.display(), first.display(), differences.join("; "))]
    #[diagnostic(
        code(calibrate::parts_differ),
        help(
            "run every shard with the same profile, model, data, tokenizer and version of trtforge"
        )
    )]
    Differ {
        /// The part that does not fit.
        path: PathBuf,
        /// The part it was compared with.
        first: PathBuf,
        /// Each thing that differs, with both values: "there" is `path`, "here" is `first`.
        differences: Vec<String>,
    },
    /// One shard twice.
    #[error("shard {shard} is there twice: {} and {}", first.display(), second.display())]
    #[diagnostic(code(calibrate::part_twice), help("give each shard's part once"))]
    Twice {
        /// Which one.
        shard: String,
        /// Where it was first.
        first: PathBuf,
        /// Where it was again.
        second: PathBuf,
    },
    /// Shards are missing.
    #[error("{} of {of} shards are missing: {missing}", of - found)]
    #[diagnostic(
        code(calibrate::part_missing),
        help(
            "run `trtforge calibrate PROFILE --shard I/{of} -o FILE` for each of them and merge all parts"
        )
    )]
    Missing {
        /// Their numbers.
        missing: String,
        /// How many are there.
        found: usize,
        /// How many there must be.
        of: usize,
    },
    /// Nothing to merge.
    #[error("no calibration parts were given")]
    #[diagnostic(
        code(calibrate::no_parts),
        help("for example `trtforge calibrate merge parts/*.part -o calibration.json`")
    )]
    None,
    /// Rows are missing or were run by two shards although all shards are there.
    #[error("the rows of the parts do not make the sample: {what}")]
    #[diagnostic(
        code(calibrate::part_rows),
        help(
            "the parts were edited or made by different builds of trtforge; run the shards again"
        )
    )]
    Rows {
        /// In words.
        what: String,
    },
    /// The parts look at different tensors.
    #[error("{} does not merge: {source}", path.display())]
    #[diagnostic(
        code(calibrate::part_tensors),
        help("run every shard with the same build of trtforge")
    )]
    Tensors {
        /// The part that does not fit.
        path: PathBuf,
        /// What differs.
        source: CalibrateError,
    },
}
