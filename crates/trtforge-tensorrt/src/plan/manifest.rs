//! The manifest beside a plan: what it was made from, by what, and where it runs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use trtforge_onnx::{Dim, ValueInfo};

use crate::driver::Gpu;
use crate::plan::error::PlanError;
use crate::plan::target::RunsOn;
use crate::plan::version::ExactVersion;
use crate::profile::OptimizationProfile;
use crate::sdk::Sdk;

/// The layout this version writes; it reads this one and the one before.
pub const MANIFEST_SCHEMA: u32 = 2;

/// No manifest is near this size: what is larger is something else, and is not read into memory.
pub const MOST_MANIFEST_BYTES: u64 = 16 << 20;

/// What stands beside a plan as `<plan>.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanManifest {
    /// Layout version, [`MANIFEST_SCHEMA`].
    pub schema: u32,
    /// The program that wrote it, such as `trtforge 0.1.0`.
    pub tool: String,
    /// `fp16` or `int8`.
    pub precision: String,
    /// The plan.
    pub plan: FileHash,
    /// The model that it was built from.
    pub onnx: FileHash,
    /// The calibration table behind that model.
    #[serde(default, deserialize_with = "calibration")]
    pub calibration: Option<FileHash>,
    /// The timing cache that the build read and wrote, as it was afterwards.
    #[serde(default)]
    pub timing_cache: Option<FileHash>,
    /// Whose plan it is.
    #[serde(with = "sdk_by_name")]
    pub sdk: Sdk,
    /// The version of the library that built it, with its build number where the plan states one.
    pub sdk_version: ExactVersion,
    /// The machine that built it.
    #[serde(default)]
    pub built_on: BuiltOn,
    /// The GPUs that it runs on.
    #[serde(default)]
    pub runs_on: Option<RunsOn>,
    /// Whether later versions of TensorRT run it too.
    #[serde(default)]
    pub version_compatible: bool,
    /// The inputs of the engine.
    #[serde(default)]
    pub inputs: Vec<IoTensor>,
    /// The outputs of the engine.
    #[serde(default)]
    pub outputs: Vec<IoTensor>,
    /// The shapes that it was built for.
    pub profiles: Vec<OptimizationProfile>,
    /// The builder's options by the name that a profile gives them.
    #[serde(default)]
    pub options: BTreeMap<String, Value>,
    /// What the gate said.
    #[serde(default)]
    pub verdict: Option<ShortVerdict>,
}

/// A file by its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileHash {
    /// Its name, relative to the run's output folder.
    pub name: String,
    /// Its size.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// BLAKE3 of its content, 64 hexadecimal digits.
    pub blake3: String,
}

/// Where a plan was built. What is missing was not there: TensorRT-RTX builds without GPU and driver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuiltOn {
    /// The newest CUDA version that the driver served, such as `13.0`.
    #[serde(default)]
    pub cuda: Option<String>,
    /// The driver's own version, such as `580.65.06`.
    #[serde(default)]
    pub driver: Option<String>,
    /// The GPU.
    #[serde(default)]
    pub gpu: Option<Gpu>,
}

/// An input or output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoTensor {
    /// Its name.
    pub name: String,
    /// Its element type, such as `int64`.
    #[serde(rename = "type")]
    pub element_type: String,
    /// Each dimension as its size or its name; `?` where neither is known.
    #[serde(default)]
    pub shape: Vec<String>,
}

impl From<&ValueInfo> for IoTensor {
    fn from(info: &ValueInfo) -> IoTensor {
        IoTensor {
            name: info.name.clone(),
            element_type: info.element_type.to_string(),
            shape: info.shape.iter().flatten().map(Dim::to_string).collect(),
        }
    }
}

/// The gate's verdict in brief; the whole one is in `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShortVerdict {
    /// `accepted`, `rejected` or `inconclusive`.
    pub outcome: String,
    /// Whether the engine may be used.
    pub publish: bool,
    /// The metric that headlines, such as `accuracy`.
    pub metric: String,
    /// Its value for the baseline.
    pub baseline: f64,
    /// Its value for this engine.
    pub candidate: f64,
    /// Rows compared.
    pub count: u64,
    /// How much worse the engine is.
    pub drop: f64,
    /// Confidence interval of the drop, low then high.
    pub interval: [f64; 2],
    /// The largest drop allowed.
    pub max_drop: f64,
    /// `device` where the engine itself answered, `reference` where its graph did.
    #[serde(default)]
    pub evaluated_on: Option<String>,
    /// The decision in words.
    #[serde(default)]
    pub reason: String,
}

impl PlanManifest {
    /// Where the manifest of a plan stands.
    pub fn path_of(plan: &Path) -> PathBuf {
        let mut name = plan.as_os_str().to_owned();
        name.push(".json");
        PathBuf::from(name)
    }

    /// Reads the manifest beside a plan; none where there is none.
    pub fn beside(plan: &Path) -> Result<Option<PlanManifest>, PlanError> {
        let path = Self::path_of(plan);
        let named = || short_name(&path);
        let unreadable =
            |error: io::Error| PlanError::Unreadable { path: named(), reason: error.to_string() };
        let bad = |reason: String| PlanError::BadManifest { path: named(), reason };
        let file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.map_err(unreadable)?,
        };
        let metadata = file.metadata().map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(bad("it is no regular file".to_owned()));
        }
        let mut bytes = Vec::new();
        file.take(MOST_MANIFEST_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > MOST_MANIFEST_BYTES {
            let most = MOST_MANIFEST_BYTES >> 20;
            return Err(bad(format!("it has more than {most} MiB, and a manifest has a few KiB")));
        }
        Self::from_json(&bytes, &named()).map(Some)
    }

    /// Reads a manifest; `path` is its name for errors. The layout is looked at before anything else.
    pub fn from_json(json: &[u8], path: &str) -> Result<PlanManifest, PlanError> {
        #[derive(Deserialize)]
        struct Head {
            schema: u64,
        }
        let bad = |reason: String| PlanError::BadManifest { path: path.to_owned(), reason };
        let head: Head = serde_json::from_slice(json).map_err(|error| bad(error.to_string()))?;
        if head.schema > u64::from(MANIFEST_SCHEMA) {
            let found = head.schema;
            return Err(PlanError::NewerManifest { path: path.to_owned(), found });
        }
        let manifest: PlanManifest =
            serde_json::from_slice(json).map_err(|error| bad(error.to_string()))?;
        match manifest.fault() {
            Some(fault) => Err(bad(fault)),
            None => Ok(manifest),
        }
    }

    /// The text of the file: indented, one trailing newline.
    pub fn to_json(&self) -> String {
        // Only string keys and finite numbers: what JSON cannot hold becomes `null`, never a panic.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Writes the manifest beside a plan; it is there whole or not at all.
    pub fn save(&self, plan: &Path) -> io::Result<()> {
        trtforge_files::write(&Self::path_of(plan), self.to_json().as_bytes())
    }

    /// What a hand may have put in that no build writes.
    fn fault(&self) -> Option<String> {
        let files = [
            ("plan", Some(&self.plan)),
            ("onnx", Some(&self.onnx)),
            ("calibration", self.calibration.as_ref()),
            ("timing_cache", self.timing_cache.as_ref()),
        ];
        files.into_iter().find_map(|(field, file)| file.and_then(|file| file.fault(field)))
    }
}

impl FileHash {
    fn fault(&self, field: &str) -> Option<String> {
        let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if self.blake3.len() != 64 || !self.blake3.bytes().all(hex) {
            return Some(format!(
                "`{field}.blake3` is `{}`, and not 64 hexadecimal digits",
                self.blake3.escape_default()
            ));
        }
        let inside = |part| matches!(part, Component::Normal(_));
        if self.name.is_empty() || !Path::new(&self.name).components().all(inside) {
            let name = self.name.escape_default();
            return Some(format!(
                "`{field}.name` is `{name}`, which leads out of the run's folder"
            ));
        }
        None
    }
}

/// The file name of a path, for messages that travel.
pub(crate) fn short_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The first layout had the table's hash alone.
fn calibration<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<FileHash>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Hash(String),
        File(FileHash),
    }
    Ok(Option::<Either>::deserialize(from)?.map(|either| match either {
        Either::File(file) => file,
        Either::Hash(blake3) => {
            FileHash { name: "calibration.json".to_owned(), bytes: None, blake3 }
        }
    }))
}

/// The SDK as people write it (`TensorRT-RTX`); the names of backends are taken too.
mod sdk_by_name {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::sdk::Sdk;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
    pub fn serialize<S: Serializer>(sdk: &Sdk, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(sdk)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Sdk, D::Error> {
        let text = String::deserialize(from)?;
        let known = Sdk::ALL.into_iter().find(|sdk| sdk.to_string().eq_ignore_ascii_case(&text));
        known.ok_or_else(|| {
            D::Error::custom(format!("`sdk` is `{text}`, and neither TensorRT nor TensorRT-RTX"))
        })
    }
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
pub(crate) mod tests;
