//! The calibration table: one scale per tensor, and what they were made from.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::TableError;
use crate::method::Method;
use crate::row_set::RowSet;
use crate::search_record::SearchRecord;
use crate::threshold::LEVELS;

/// The layout version written by and read by this version.
pub const SCHEMA: u32 = 1;

/// `calibration.json`. The same content gives the same bytes: names are in order and floats in their shortest exact form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibrationTable {
    /// Layout version, [`SCHEMA`].
    pub schema: u32,
    /// Name and version of the tool that wrote it.
    pub tool: String,
    /// Fingerprint (BLAKE3, hexadecimal) of the model's content.
    pub model: String,
    /// Fingerprint (BLAKE3, hexadecimal) of the calibration data.
    pub data: String,
    /// Fingerprint (BLAKE3, hexadecimal) of the tokenizer and the maximum length; unknown in tables of old.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<String>,
    /// How the rows were chosen and the thresholds made.
    pub options: TableOptions,
    /// The rows that were run, by their lines in the data file; unknown in tables of old.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<RowSet>,
    /// The GPU and the library that ran the rows; none when the CPU did. Its figures differ from the CPU's in their last bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The cache that the scales were taken from; none when they were calibrated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
    /// How `auto` chose; none where the profile left nothing open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchRecord>,
    /// Each tensor to be quantized.
    pub tensors: BTreeMap<String, TensorCalibration>,
    /// Largest magnitude of each tensor that is only watched for FP16.
    #[serde(default)]
    pub ranges: BTreeMap<String, f32>,
    /// Largest magnitude of each channel, of the tensors that were smoothed before calibration; names of the original model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub channels: BTreeMap<String, Vec<f32>>,
}

/// Settings that change the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableOptions {
    /// Threshold method asked for.
    pub method: Method,
    /// Rows run.
    pub samples: usize,
    /// Seed of the sampling.
    pub seed: u64,
    /// Sampling strategy.
    pub strategy: String,
    /// Longest row in tokens.
    pub max_length: usize,
    /// Strength of the smoothing that the model went through before calibration, 0 to 1; 0 is none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub smooth: f64,
}

/// Where imported scales come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// First line of the cache, such as `TRT-8501-EntropyCalibration2`; empty when it had none.
    pub header: String,
    /// Fingerprint (BLAKE3, hexadecimal) of the cache file.
    pub file: String,
}

impl TableOptions {
    /// Every setting by its name, as it is here and in `other`, in words.
    pub fn compared(&self, other: &Self) -> [(&'static str, String, String); 6] {
        [
            ("method", self.method.to_string(), other.method.to_string()),
            ("samples", self.samples.to_string(), other.samples.to_string()),
            ("seed", self.seed.to_string(), other.seed.to_string()),
            ("strategy", self.strategy.clone(), other.strategy.clone()),
            ("max_length", self.max_length.to_string(), other.max_length.to_string()),
            ("smooth", self.smooth.to_string(), other.smooth.to_string()),
        ]
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// The result for one tensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TensorCalibration {
    /// Largest magnitude seen.
    pub absmax: f32,
    /// Magnitude that becomes level 127; at most `absmax` unless `guard` says otherwise.
    pub threshold: f32,
    /// `threshold / 127`.
    pub scale: f32,
    /// How the threshold was chosen.
    pub method: Method,
    /// Values seen.
    pub values: u64,
    /// What was done against a bad choice, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<String>,
}

/// The one field read before the others may be trusted.
#[derive(Deserialize)]
struct Version {
    schema: u64,
}

impl CalibrationTable {
    /// The bytes of `calibration.json`.
    ///
    /// # Panics
    ///
    /// Never: serializing maps with string keys, numbers and strings into memory cannot fail.
    pub fn to_json(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("a table always serializes");
        bytes.push(b'\n');
        bytes
    }

    /// Writes the table so that a reader sees the old file or the whole new one, never a part.
    pub fn save(&self, path: &Path) -> Result<(), TableError> {
        trtforge_files::write(path, &self.to_json())
            .map_err(|source| TableError::Write { path: path.to_owned(), source })
    }

    /// Reads a table and checks that its numbers can be.
    pub fn load(path: &Path) -> Result<Self, TableError> {
        let read = |source| TableError::Read { path: path.to_owned(), source };
        let parse = |source| TableError::Parse { path: path.to_owned(), source };
        let bytes = fs::read(path).map_err(read)?;
        let Version { schema: found } = serde_json::from_slice(&bytes).map_err(parse)?;
        if found != u64::from(SCHEMA) {
            return Err(TableError::Schema { path: path.to_owned(), found, known: SCHEMA });
        }
        let table: Self = match serde_json::from_slice(&bytes) {
            Ok(table) => table,
            Err(error) => {
                return Err(unreadable_tensor(path, &bytes).unwrap_or_else(|| parse(error)));
            }
        };
        for (tensor, calibration) in &table.tensors {
            if let Some(what) = calibration.impossible() {
                return Err(TableError::Value {
                    path: path.to_owned(),
                    tensor: tensor.clone(),
                    what,
                });
            }
        }
        if let Some((tensor, what)) = table.impossible_smoothing() {
            return Err(TableError::Value { path: path.to_owned(), tensor, what });
        }
        Ok(table)
    }

    /// What is wrong with the record of smoothing, and about which tensor.
    fn impossible_smoothing(&self) -> Option<(String, String)> {
        let smooth = self.options.smooth;
        if !(0.0..=1.0).contains(&smooth) {
            return Some(("options".to_owned(), format!("smooth {smooth}")));
        }
        self.channels.iter().find_map(|(tensor, largest)| {
            let bad = largest.iter().find(|max| !(**max >= 0.0 && max.is_finite()))?;
            Some((tensor.clone(), format!("channel absmax {bad}")))
        })
    }

    /// Accepts the table for a model of this fingerprint only.
    pub fn check_model(&self, model: &str) -> Result<(), TableError> {
        self.check(model, None, None)
    }

    /// Accepts the table only for this model and, where given, this data and these options.
    pub fn check(
        &self,
        model: &str,
        data: Option<&str>,
        options: Option<&TableOptions>,
    ) -> Result<(), TableError> {
        let mut differences = Vec::new();
        let mut compare = |what: &str, table: &str, asked: &str| {
            if table != asked {
                differences.push(format!("it was made for {what} {table}, not {asked}"));
            }
        };
        compare("model", &self.model, model);
        compare("data", &self.data, data.unwrap_or(&self.data));
        for (what, made, asked) in options.iter().flat_map(|asked| self.options.compared(asked)) {
            compare(what, &made, &asked);
        }
        if differences.is_empty() { Ok(()) } else { Err(TableError::Stale { differences }) }
    }
}

impl TensorCalibration {
    /// Whether the scale is the threshold's. An imported scale is exact and its threshold the rounded product, so a few
    /// units in the last place are allowed.
    fn scale_fits(&self) -> bool {
        let expected = self.threshold / LEVELS as f32;
        (self.scale - expected).abs() <= expected * (8.0 * f32::EPSILON)
    }

    /// What is wrong with the numbers, if anything.
    fn impossible(&self) -> Option<String> {
        let positive = |x: f32| x > 0.0 && x.is_finite();
        if !positive(self.scale) {
            Some(format!("scale {}", self.scale))
        } else if !positive(self.threshold) {
            Some(format!("threshold {}", self.threshold))
        } else if !(self.absmax >= 0.0 && self.absmax.is_finite()) {
            Some(format!("absmax {}", self.absmax))
        } else if !self.scale_fits() {
            let expected = self.threshold / LEVELS as f32;
            Some(format!("scale {}, and threshold / {LEVELS} is {expected}", self.scale))
        } else if self.threshold > self.absmax && self.guard.is_none() {
            Some(format!("threshold {} above absmax {}", self.threshold, self.absmax))
        } else {
            None
        }
    }
}

/// The first tensor, by name, whose entry is no such entry: the parser alone knows lines, not tensors.
fn unreadable_tensor(path: &Path, bytes: &[u8]) -> Option<TableError> {
    let json: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    json.get("tensors")?.as_object()?.iter().find_map(|(tensor, entry)| {
        let error = serde_json::from_value::<TensorCalibration>(entry.clone()).err()?;
        let (path, tensor) = (path.to_owned(), tensor.clone());
        Some(TableError::Value {
            path,
            tensor,
            what: format!("an entry that cannot be read: {error}"),
        })
    })
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
