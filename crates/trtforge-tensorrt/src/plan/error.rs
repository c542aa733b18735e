//! Why a plan is not used, said before TensorRT sees it.

use miette::Diagnostic;
use thiserror::Error;

use crate::error::ErrorKind;
use crate::plan::manifest::MANIFEST_SCHEMA;
use crate::plan::version::ExactVersion;
use crate::sdk::Sdk;

/// Why a plan is not used.
#[derive(Debug, Clone, PartialEq, Eq, Diagnostic, Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum PlanError {
    #[error("cannot read `{path}`: {reason}")]
    #[diagnostic(
        code(plan::unreadable),
        help("check that the path is right, that the file is there, and that you may read it")
    )]
    Unreadable { path: String, reason: String },

    #[error("not a TensorRT plan: {reason}")]
    #[diagnostic(
        code(plan::not_a_plan),
        help("give a plan that `trtforge build` or `trtexec` wrote")
    )]
    NotAPlan { reason: String },

    #[error("the plan is cut off: it has {found} bytes, and by {by} it should have {expected}")]
    #[diagnostic(
        code(plan::truncated),
        help("copy it again, whole; a disk that was full or a transfer that broke leaves this")
    )]
    Truncated { found: u64, expected: u64, by: &'static str },

    #[error("the plan has {found} bytes, and by its own header it should have {expected}")]
    #[diagnostic(
        code(plan::overlong),
        help("something was written behind its end: copy it again from where it was built")
    )]
    Overlong { found: u64, expected: u64 },

    #[error("there is no manifest beside `{plan}`: no `{manifest}`")]
    #[diagnostic(
        code(plan::no_manifest),
        help(
            "without it nothing proves that the plan is whole and fits: copy `{manifest}` beside it from where `trtforge build` put both; `trtforge inspect` shows what the plan itself says"
        )
    )]
    NoManifest { plan: String, manifest: String },

    #[error("the manifest `{path}` cannot be read: {reason}")]
    #[diagnostic(
        code(plan::bad_manifest),
        help(
            "it was edited, or is no manifest: copy it again from where `trtforge build` put both, or build again"
        )
    )]
    BadManifest { path: String, reason: String },

    #[error(
        "the manifest `{path}` has schema {found}, and this version reads up to {MANIFEST_SCHEMA}"
    )]
    #[diagnostic(
        code(plan::newer_manifest),
        help("use the version of trtforge that built the plan, or a newer one")
    )]
    NewerManifest { path: String, found: u64 },

    #[error(
        "`{plan}` is not the plan of its manifest `{manifest}`: its BLAKE3 is {found}, and the manifest states {expected}"
    )]
    #[diagnostic(
        code(plan::changed),
        help(
            "the plan or its manifest was changed or mixed up after `trtforge build` wrote them: copy both again, or build again"
        )
    )]
    Changed { plan: String, manifest: String, found: String, expected: String },

    #[error("the plan says {found} of itself, and its manifest `{manifest}` says {expected}")]
    #[diagnostic(
        code(plan::contradiction),
        help("the manifest was edited, or is another plan's: copy both again, or build again")
    )]
    Contradiction { manifest: String, found: String, expected: String },

    #[error("this is a plan of {found}, and {expected} was to run it")]
    #[diagnostic(
        code(plan::other_sdk),
        help("run it with {found}, or build it again with `--backend` for {expected}")
    )]
    OtherSdk { found: Sdk, expected: Sdk },

    #[error("the plan was built by {sdk} {found}, and {sdk} {expected} is here: {rule}")]
    #[diagnostic(
        code(plan::other_version),
        help(
            "install {sdk} {found}, or build the plan again here; `engine.version_compatible: true` makes plans of TensorRT that later versions run"
        )
    )]
    OtherVersion { sdk: Sdk, found: ExactVersion, expected: ExactVersion, rule: &'static str },

    #[error("the plan runs on {expected}, and the GPU here is {found}")]
    #[diagnostic(
        code(plan::other_gpu),
        help(
            "build the plan on this GPU; with TensorRT, `engine.hardware_compatible` makes plans for every GPU from Ampere on"
        )
    )]
    OtherGpu { found: String, expected: String },
}

impl PlanError {
    /// Whose fault it is: a file that is not what it should be, or a machine that is not the one it was built for.
    pub fn kind(&self) -> ErrorKind {
        match self {
            PlanError::OtherSdk { .. }
            | PlanError::OtherVersion { .. }
            | PlanError::OtherGpu { .. } => ErrorKind::Missing,
            _ => ErrorKind::BadInput,
        }
    }
}
