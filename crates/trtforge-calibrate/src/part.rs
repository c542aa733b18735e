//! What one machine of several found: a part of a calibration, in a file of its own.
//!
//! A part holds exact counts and maxima, never thresholds, so that merging all parts gives what one machine would have
//! found, to the bit. Beside them stands everything that decides the result ([`Recipe`]), so that parts of different
//! calibrations are told apart before they are mixed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::channels::ChannelRanges;
use crate::error::CalibrateError;
use crate::observer::Observer;
use crate::part_error::PartError;
use crate::row_set::RowSet;
use crate::shard::Shard;
use crate::table::{CalibrationTable, SCHEMA, TableOptions, TensorCalibration};

/// The layout version of a part.
pub const PART_SCHEMA: u32 = 1;
/// How every part begins.
const MAGIC: &[u8] = b"{\"trtforge_part\":";
/// More values than any calibration sees; sums of the counts of all shards stay far below 2⁶⁴.
const MOST_VALUES: u64 = 1 << 44;

/// Everything that decides the result of a calibration. Parts with the same recipe merge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Name and version of the tool.
    pub tool: String,
    /// Fingerprint of the model's content.
    pub model: String,
    /// Fingerprint of the calibration data.
    pub data: String,
    /// Fingerprint of the tokenizer and the maximum length.
    pub tokenizer: String,
    /// Sampling, method, smoothing; as the table will state them.
    pub options: TableOptions,
    /// Lines of all sampled rows.
    pub lines: RowSet,
    /// Further settings that decide which tensors are looked at and what ran them ([`DEVICE`]), by their profile key.
    pub settings: BTreeMap<String, String>,
}

/// The setting that names what ran the rows, where it was not the CPU.
pub const DEVICE: &str = "calibrate.device";

impl Recipe {
    /// With what ran the rows; none is the CPU.
    #[must_use]
    pub fn ran_on(mut self, device: Option<String>) -> Self {
        if let Some(device) = device {
            self.settings.insert(DEVICE.to_owned(), device);
        }
        self
    }

    /// Where `other` differs, each difference with both values.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        let mut compare = |what: &str, mine: &str, theirs: &str| {
            if mine != theirs {
                differences.push(format!("{what} is {theirs} there and {mine} here"));
            }
        };
        compare("the tool", &self.tool, &other.tool);
        compare("the model's fingerprint", &self.model, &other.model);
        compare("the data's fingerprint", &self.data, &other.data);
        compare("the tokenizer's fingerprint", &self.tokenizer, &other.tokenizer);
        for (name, mine, theirs) in self.options.compared(&other.options) {
            compare(name, &mine, &theirs);
        }
        compare("the set of sampled lines", &self.lines.to_string(), &other.lines.to_string());
        let nothing = String::from("not stated");
        let keys = self.settings.keys().chain(other.settings.keys());
        let keys: BTreeSet<&String> = keys.collect();
        for key in keys {
            let of =
                |settings: &BTreeMap<String, String>| settings.get(key).unwrap_or(&nothing).clone();
            compare(key, &of(&self.settings), &of(&other.settings));
        }
        differences
    }

    /// The table of this recipe.
    pub fn table(
        self,
        tensors: BTreeMap<String, TensorCalibration>,
        ranges: BTreeMap<String, f32>,
        channels: BTreeMap<String, Vec<f32>>,
    ) -> CalibrationTable {
        CalibrationTable {
            schema: SCHEMA,
            tool: self.tool,
            model: self.model,
            data: self.data,
            tokenizer: Some(self.tokenizer),
            options: self.options,
            lines: Some(self.lines),
            device: self.settings.get(DEVICE).cloned(),
            imported: None,
            search: None,
            tensors,
            ranges,
            channels,
        }
    }
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Content {
    /// The first of two steps, where the model is to be smoothed: ranges by channel.
    Channels(ChannelRanges),
    /// Histograms and ranges of the (smoothed) model.
    Activations {
        /// Of the rows of this part.
        observer: Observer,
        /// The channel ranges of all rows that the model was smoothed by; empty without smoothing.
        channels: BTreeMap<String, Vec<f32>>,
    },
}

impl Content {
    /// As in messages.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Channels(_) => "channel ranges",
            Self::Activations { .. } => "activations",
        }
    }
}

/// One part. The merged whole is a part too, that of shard 1/1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Layout version, [`PART_SCHEMA`]. It stands first, so that a part is known by its first bytes.
    #[serde(rename = "trtforge_part")]
    schema: u32,
    /// Whose it is.
    pub shard: Shard,
    /// Instruction sets of the processor, since they decide how sums round.
    pub processor: String,
    /// What it was made from.
    pub recipe: Recipe,
    /// The rows that ran, by their place in the sample, from 1.
    pub rows: RowSet,
    /// What was found.
    pub content: Content,
}

/// The second line of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seal {
    blake3: String,
}

impl Part {
    /// A part to be written.
    pub fn new(
        shard: Shard,
        processor: String,
        recipe: Recipe,
        rows: RowSet,
        content: Content,
    ) -> Self {
        Self { schema: PART_SCHEMA, shard, processor, recipe, rows, content }
    }

    /// Whether every sampled row is in it.
    pub fn is_whole(&self) -> bool {
        self.rows == RowSet::up_to(self.recipe.options.samples as u64)
    }

    /// The bytes of the file: one line with the content, and one with its hash, by which a cut-off or damaged file is known.
    ///
    /// # Panics
    ///
    /// Never: serializing maps with string keys, numbers and strings into memory cannot fail.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).expect("a part always serializes");
        let seal = Seal { blake3: blake3::hash(&bytes).to_hex().to_string() };
        bytes.push(b'\n');
        bytes.extend(serde_json::to_vec(&seal).expect("a seal always serializes"));
        bytes.push(b'\n');
        bytes
    }

    /// Writes the part so that a reader sees the old file or the whole new one.
    pub fn save(&self, path: &Path) -> Result<(), PartError> {
        trtforge_files::write(path, &self.to_bytes())
            .map_err(|source| PartError::Write { path: path.to_owned(), source })
    }

    /// Reads a part and proves that it is whole and that its numbers can be.
    pub fn load(path: &Path) -> Result<Self, PartError> {
        let path_owned = || path.to_owned();
        let bytes =
            fs::read(path).map_err(|source| PartError::Read { path: path_owned(), source })?;
        if !bytes.starts_with(MAGIC) {
            return Err(PartError::NotAPart { path: path_owned(), what: guess(&bytes) });
        }
        let schema: String = bytes[MAGIC.len()..]
            .iter()
            .map(|&b| char::from(b))
            .take_while(char::is_ascii_digit)
            .collect();
        if schema != PART_SCHEMA.to_string() {
            return Err(PartError::Schema {
                path: path_owned(),
                found: schema,
                known: PART_SCHEMA,
            });
        }
        let damaged = |what: &str| PartError::Damaged { path: path_owned(), what: what.to_owned() };
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let end = end.ok_or_else(|| damaged("the file is cut off"))?;
        let seal: Seal = serde_json::from_slice(&bytes[end + 1..])
            .map_err(|_| damaged("the file is cut off, or something was added to its end"))?;
        if blake3::hash(&bytes[..end]).to_hex().as_str() != seal.blake3 {
            return Err(damaged("its content is not what was written"));
        }
        let part: Self = serde_json::from_slice(&bytes[..end])
            .map_err(|source| PartError::Parse { path: path_owned(), source })?;
        match part.impossible() {
            Some(what) => Err(damaged(&what)),
            None => Ok(part),
        }
    }

    /// What cannot be, in words.
    fn impossible(&self) -> Option<String> {
        let samples = self.recipe.options.samples as u64;
        if !self.rows.without(&RowSet::up_to(samples)).is_empty() {
            return Some(format!("it has rows beyond the sample of {samples}"));
        }
        let (observer, channels) = match &self.content {
            Content::Channels(ranges) => return impossible_channels(&ranges.absmax()),
            Content::Activations { observer, channels } => (observer, channels),
        };
        let too_many = |count: Option<u64>| count.is_none_or(|count| count > MOST_VALUES);
        for (tensor, histogram) in observer.histograms() {
            if too_many(histogram.checked_count()) || histogram.nonfinite() > 0 {
                return Some(format!("the counts of tensor `{tensor}` cannot be"));
            }
        }
        for (tensor, range) in observer.ranges() {
            let finite = range.absmax >= 0.0 && range.absmax.is_finite();
            if !finite || too_many(Some(range.count)) || range.nonfinite > 0 {
                return Some(format!("the range of tensor `{tensor}` cannot be"));
            }
        }
        impossible_channels(channels)
    }

    /// Adds everything that `other`, a part of the same recipe, found.
    ///
    /// - returns: how many rows were in both.
    pub(crate) fn absorb(&mut self, other: &Self) -> Result<u64, CalibrateError> {
        match (&mut self.content, &other.content) {
            (Content::Channels(mine), Content::Channels(theirs)) => mine.merge(theirs)?,
            (
                Content::Activations { observer: mine, .. },
                Content::Activations { observer: theirs, .. },
            ) => mine.merge(theirs)?,
            _ => unreachable!("parts of different kinds are told apart before"),
        }
        Ok(self.rows.merge(&other.rows))
    }
}

fn impossible_channels(channels: &BTreeMap<String, Vec<f32>>) -> Option<String> {
    channels.iter().find_map(|(tensor, largest)| {
        let bad = largest.iter().any(|max| !(*max >= 0.0 && max.is_finite()));
        bad.then(|| format!("the channel ranges of tensor `{tensor}` cannot be"))
    })
}

/// What a file that is no part may be instead.
fn guess(bytes: &[u8]) -> &'static str {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]).into_owned();
    if bytes.is_empty() {
        "it is empty"
    } else if head.contains("\"schema\"") && head.contains("\"tool\"") {
        "it is a calibration table already"
    } else if head.starts_with("TRT-") {
        "it is a TensorRT calibration cache; see `trtforge calibrate import`"
    } else {
        "it does not begin like one"
    }
}

#[cfg(test)]
#[path = "part_tests.rs"]
mod tests;
