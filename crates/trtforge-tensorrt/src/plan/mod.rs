//! Plans on disk: what they say of themselves, their manifests, and whether they fit a machine.
//!
//! ```text
//! PlanFile::open(path) ─► header + manifest + BLAKE3 agree ─► check(library, gpu) ─► bytes() ─► TensorRT
//! ```

mod error;
mod file;
mod header;
mod manifest;
mod target;
mod version;

pub use error::PlanError;
pub use file::PlanFile;
pub use header::{HEADER_BYTES, PlanHeader, begins_as_plan};
pub use manifest::{
    BuiltOn, FileHash, IoTensor, MANIFEST_SCHEMA, MOST_MANIFEST_BYTES, PlanManifest, ShortVerdict,
};
pub use target::{AMPERE, Capability, Host, RunsOn};
pub use version::ExactVersion;
