//! A plan from disk, proven to be whole and to be its manifest's before TensorRT sees a byte of it.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::driver::Gpu;
use crate::error::TensorRtError;
use crate::library::Library;
use crate::plan::error::PlanError;
use crate::plan::header::PlanHeader;
use crate::plan::manifest::{PlanManifest, short_name};
use crate::plan::target::{Host, Known, fits};
use crate::plan::version::ExactVersion;
use crate::sdk::Part;

/// A plan with what is known of it.
#[derive(Debug, Clone)]
pub struct PlanFile {
    path: PathBuf,
    bytes: Vec<u8>,
    blake3: String,
    header: PlanHeader,
    manifest: Option<PlanManifest>,
}

impl PlanFile {
    /// Reads a plan and its manifest, and proves that they belong together.
    pub fn open(path: &Path) -> Result<PlanFile, PlanError> {
        let plan = Self::open_alone(path)?;
        match plan.manifest {
            Some(_) => Ok(plan),
            None => Err(PlanError::NoManifest {
                plan: short_name(path),
                manifest: short_name(&PlanManifest::path_of(path)),
            }),
        }
    }

    /// The same of a plan that may stand alone: then only what it says of itself is known.
    pub fn open_alone(path: &Path) -> Result<PlanFile, PlanError> {
        let bytes = read(path).map_err(|error| PlanError::Unreadable {
            path: path.display().to_string(),
            reason: error.to_string(),
        })?;
        let header = PlanHeader::read(&bytes)?;
        let manifest = PlanManifest::beside(path)?;
        let blake3 = blake3::hash(&bytes).to_hex().to_string();
        let plan = PlanFile { path: path.to_owned(), bytes, blake3, header, manifest };
        plan.check_whole()?;
        Ok(plan)
    }

    /// The plan, for TensorRT.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its BLAKE3, hexadecimal.
    pub fn blake3(&self) -> &str {
        &self.blake3
    }

    /// What it says of itself.
    pub fn header(&self) -> PlanHeader {
        self.header
    }

    /// What was written of it when it was built.
    pub fn manifest(&self) -> Option<&PlanManifest> {
        self.manifest.as_ref()
    }

    /// The version that built it; none where neither header nor manifest says.
    pub fn version(&self) -> Option<ExactVersion> {
        self.header.version.or(self.manifest.as_ref().map(|manifest| manifest.sdk_version))
    }

    /// The library of this machine that the plan needs. `explicit` is where the user says the libraries are, if he does.
    pub fn locate_library(&self, explicit: Option<&Path>) -> Result<Library, TensorRtError> {
        let sdk = self.header.sdk;
        let full = Library::locate_runtime(sdk, Part::Builder, explicit);
        let lean = sdk.parts().contains(&Part::LeanRuntime) && self.version_compatible();
        match full {
            Err(_) if lean => Library::locate_runtime(sdk, Part::LeanRuntime, explicit).or(full),
            other => other,
        }
    }

    /// Proves that a library and a GPU fit the plan; what a person should know of them.
    pub fn check(&self, library: &Library, gpu: Option<&Gpu>) -> Result<Vec<String>, PlanError> {
        self.check_host(Host::of(library, gpu))
    }

    /// The same of a host in words.
    pub fn check_host(&self, host: Host<'_>) -> Result<Vec<String>, PlanError> {
        let manifest = self.manifest.as_ref();
        let known = Known {
            sdk: self.header.sdk,
            // Without a manifest a plan of TensorRT may be version-compatible.
            version: manifest.map_or(self.header.certain_version(), |_| self.version()),
            version_compatible: self.version_compatible(),
            runs_on: manifest.and_then(|manifest| manifest.runs_on.as_ref()),
            built_on: manifest.and_then(|manifest| manifest.built_on.gpu.as_ref()),
        };
        fits(known, host)
    }

    fn version_compatible(&self) -> bool {
        self.manifest.as_ref().is_some_and(|manifest| manifest.version_compatible)
    }

    fn check_whole(&self) -> Result<(), PlanError> {
        let found = self.bytes.len() as u64;
        self.header.check_size(found)?;
        let Some(manifest) = &self.manifest else { return Ok(()) };
        let expected = manifest.plan.bytes.unwrap_or(found);
        // One that is shorter and whole by its own account is another plan.
        if found < expected && self.header.bytes != Some(found) {
            return Err(PlanError::Truncated { found, expected, by: "its manifest" });
        }
        let name = || short_name(&PlanManifest::path_of(&self.path));
        if self.blake3 != manifest.plan.blake3 || found != expected {
            return Err(PlanError::Changed {
                plan: short_name(&self.path),
                manifest: name(),
                found: self.blake3.clone(),
                expected: manifest.plan.blake3.clone(),
            });
        }
        let version = self.header.version;
        let same = version.is_none_or(|version| version.agrees_with(manifest.sdk_version));
        if self.header.sdk != manifest.sdk || !same {
            let words = |sdk, version: Option<ExactVersion>| match version {
                Some(version) => format!("{sdk} {version}"),
                None => format!("{sdk}"),
            };
            return Err(PlanError::Contradiction {
                manifest: name(),
                found: words(self.header.sdk, version),
                expected: words(manifest.sdk, Some(manifest.sdk_version)),
            });
        }
        Ok(())
    }
}

/// Reads a file; a device or FIFO is refused, since it may never end.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"));
    }
    if !metadata.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
