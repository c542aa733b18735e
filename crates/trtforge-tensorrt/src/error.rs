//! What can go wrong at the TensorRT boundary.

use std::path::PathBuf;

use miette::Diagnostic;
use thiserror::Error;
use trtforge_exec::ExecError;
use trtforge_onnx::OnnxError;

use crate::fault::ParserFault;
use crate::log::LogLine;
use crate::options::{Pin, Refusal};
use crate::plan::PlanError;
use crate::profile::ProfileError;
use crate::sdk::{Part, Sdk, Version};

/// Whose fault an error is; each has its own exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The model, the shapes or the options cannot be built as they are.
    BadInput,
    /// TensorRT or the GPU is missing or of another version.
    Missing,
    /// The library failed.
    Failed,
    /// The user stopped it.
    Cancelled,
}

/// An error of finding, building with, or running TensorRT.
#[derive(Debug, Diagnostic, Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum TensorRtError {
    #[error("the {part} of {sdk} (`{file}`) is not installed")]
    #[diagnostic(
        code(tensorrt::library_not_found),
        help("{install}; looked in:{}", list(looked_in))
    )]
    LibraryNotFound {
        sdk: Sdk,
        part: Part,
        file: &'static str,
        looked_in: Vec<PathBuf>,
        install: &'static str,
    },

    #[error("`{}` cannot serve as the {part} of {sdk}: {reason}", path.display())]
    #[diagnostic(code(tensorrt::library_unusable), help("{install}"))]
    LibraryUnusable { sdk: Sdk, part: Part, path: PathBuf, reason: String, install: &'static str },

    #[error("`{}` is version {found}, but this build speaks {sdk} {wanted}", path.display())]
    #[diagnostic(
        code(tensorrt::wrong_version),
        help("{install}; or build trtforge against the headers of {found}")
    )]
    WrongVersion { sdk: Sdk, path: PathBuf, found: Version, wanted: Version, install: &'static str },

    #[error("{source_name} names `{}`, which does not exist", folder.display())]
    #[diagnostic(
        code(tensorrt::search_path_missing),
        help(
            "give the folder that holds the TensorRT libraries, or leave it out to search the usual places"
        )
    )]
    SearchPathMissing { source_name: &'static str, folder: PathBuf },

    #[error("{task} needs a GPU: {reason}")]
    #[diagnostic(
        code(tensorrt::no_driver),
        help(
            "run on a machine with an NVIDIA GPU and its driver; `--backend tensorrt-rtx` builds plans without one"
        )
    )]
    NoDriver { task: &'static str, reason: String },

    #[error("backend `{wanted}` cannot be used here: {}", missing.join("; "))]
    #[diagnostic(
        code(tensorrt::backend_unavailable),
        help(
            "`trtforge doctor` lists what was found and what is missing; `--backend none` stops at ONNX"
        )
    )]
    BackendUnavailable { wanted: &'static str, missing: Vec<String> },

    #[error(transparent)]
    #[diagnostic(transparent)]
    Model(#[from] OnnxError),

    #[error("{sdk} cannot parse `{model}`: {}", first(faults))]
    #[diagnostic(code(tensorrt::parse_failed))]
    ParseFailed {
        sdk: Sdk,
        model: String,
        #[related]
        faults: Vec<ParserFault>,
        log: Vec<LogLine>,
    },

    #[error(transparent)]
    #[diagnostic(transparent)]
    Profile(#[from] ProfileError),

    #[error("{sdk} has no `{}`: {}", refusal.option.name(), refusal.reason)]
    #[diagnostic(
        code(tensorrt::option_refused),
        help("remove `engine.{}` from the profile, or use the other backend", refusal.option.name())
    )]
    OptionRefused { sdk: Sdk, refusal: Refusal },

    #[error("`engine.{option}` cannot be {value}: {expected}")]
    #[diagnostic(code(tensorrt::option_value), help("change `engine.{option}` in the profile"))]
    OptionValue { option: &'static str, value: String, expected: &'static str },

    #[error("the timing cache `{}` cannot be {action}: {reason}", path.display())]
    #[diagnostic(
        code(tensorrt::timing_cache),
        help("check the folder's permissions and space, or remove `engine.timing_cache`")
    )]
    TimingCache { path: PathBuf, action: &'static str, reason: String },

    #[error("the timing cache `{}` cannot serve: {reason}", path.display())]
    #[diagnostic(
        code(tensorrt::timing_cache_unfit),
        help(
            "name another file for this version and GPU, or remove the file; `engine.timing_cache: shared` starts a new cache by itself"
        )
    )]
    TimingCacheUnfit { path: PathBuf, reason: &'static str },

    #[error("the timing cache `{}` is {found}, not {wanted}", path.display())]
    #[diagnostic(
        code(tensorrt::timing_cache_pin),
        help("restore the file that was pinned, or correct `engine.timing_cache.hash`")
    )]
    TimingCachePin { path: PathBuf, wanted: Pin, found: Pin },

    #[error("building the plan of `{model}` was cancelled")]
    #[diagnostic(
        code(tensorrt::cancelled),
        help("nothing was written; run the same command again to start over")
    )]
    Cancelled { model: String, log: Vec<LogLine> },

    #[error("{sdk} failed to build the plan of `{model}`: {reason}")]
    #[diagnostic(code(tensorrt::build_failed), help("{help}"))]
    BuildFailed { sdk: Sdk, model: String, reason: String, help: &'static str, log: Vec<LogLine> },

    #[error("the plan cannot be written: {reason}")]
    #[diagnostic(
        code(tensorrt::plan_not_written),
        help("check the folder's permissions and space; nothing was left behind")
    )]
    PlanNotWritten { reason: String },

    #[error(transparent)]
    #[diagnostic(transparent)]
    Plan(#[from] PlanError),

    #[error("{sdk} {version} refused the plan: {reason}")]
    #[diagnostic(
        code(tensorrt::plan_refused),
        help(
            "a plan runs on the SDK version (and, for TensorRT, the GPU) it was built with: build it again here"
        )
    )]
    PlanRefused { sdk: Sdk, version: Version, reason: String, log: Vec<LogLine> },

    #[error("no optimization profile of the engine takes {given}")]
    #[diagnostic(
        code(tensorrt::no_profile_fits),
        help(
            "split the batch or cut the rows, or build again with `shapes` that take them:{}",
            lines(misfits)
        )
    )]
    NoProfileFits { given: String, misfits: Vec<String> },

    #[error(transparent)]
    #[diagnostic(transparent)]
    Inputs(Box<ExecError>),

    #[error("the engine's tensor `{tensor}` cannot be given or taken here: {reason}")]
    #[diagnostic(
        code(tensorrt::unsupported_tensor),
        help(
            "export the model with inputs and outputs of FP32, FP16 or integers, and build it again with {sdk}"
        )
    )]
    UnsupportedTensor { sdk: Sdk, tensor: String, reason: String },

    #[error("{sdk} failed to run the engine: `{call}`: {reason}")]
    #[diagnostic(code(tensorrt::run_failed), help("{help}"))]
    RunFailed {
        sdk: Sdk,
        call: &'static str,
        reason: String,
        help: &'static str,
        log: Vec<LogLine>,
    },

    #[error("the CUDA driver failed: {reason}")]
    #[diagnostic(code(tensorrt::cuda), help("{help}"))]
    CudaFailed { reason: String, help: &'static str },

    #[error("no outputs were copied back from the GPU")]
    #[diagnostic(code(tensorrt::no_outputs), help("run once with copies before outputs are read"))]
    NoOutputs,

    #[error("{sdk} failed: {reason}")]
    #[diagnostic(
        code(tensorrt::shim),
        help("the log says more; `trtforge doctor` checks the installation")
    )]
    Library { sdk: Sdk, reason: String, log: Vec<LogLine> },

    #[error("`{}` cannot be written: {reason}", path.display())]
    #[diagnostic(
        code(tensorrt::write),
        help("check the folder's permissions and space; nothing was left behind")
    )]
    Write { path: PathBuf, reason: String },
}

impl TensorRtError {
    /// Whose fault it is.
    pub fn kind(&self) -> ErrorKind {
        use TensorRtError as E;
        match self {
            E::Plan(error) => error.kind(),
            E::LibraryNotFound { .. }
            | E::LibraryUnusable { .. }
            | E::WrongVersion { .. }
            | E::NoDriver { .. }
            | E::BackendUnavailable { .. } => ErrorKind::Missing,
            E::SearchPathMissing { .. }
            | E::Model(_)
            | E::ParseFailed { .. }
            | E::Profile(_)
            | E::OptionRefused { .. }
            | E::OptionValue { .. }
            | E::TimingCache { .. }
            | E::TimingCacheUnfit { .. }
            | E::TimingCachePin { .. }
            | E::PlanNotWritten { .. }
            | E::PlanRefused { .. }
            | E::NoProfileFits { .. }
            | E::Inputs(_)
            | E::UnsupportedTensor { .. }
            | E::Write { .. } => ErrorKind::BadInput,
            E::Cancelled { .. } => ErrorKind::Cancelled,
            E::BuildFailed { .. }
            | E::RunFailed { .. }
            | E::CudaFailed { .. }
            | E::NoOutputs
            | E::Library { .. } => ErrorKind::Failed,
        }
    }

    /// What the library logged on the way to the error.
    pub fn log(&self) -> &[LogLine] {
        use TensorRtError as E;
        match self {
            E::ParseFailed { log, .. }
            | E::Cancelled { log, .. }
            | E::BuildFailed { log, .. }
            | E::PlanRefused { log, .. }
            | E::RunFailed { log, .. }
            | E::Library { log, .. } => log,
            _ => &[],
        }
    }
}

impl From<ExecError> for TensorRtError {
    fn from(error: ExecError) -> Self {
        TensorRtError::Inputs(Box::new(error))
    }
}

fn list(folders: &[PathBuf]) -> String {
    let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    lines(&folders)
}

fn lines(texts: &[String]) -> String {
    format!("\n  {}", texts.join("\n  "))
}

fn first(faults: &[ParserFault]) -> String {
    match faults {
        [] => "no reason given".to_owned(),
        [only] => only.to_string(),
        [first, rest @ ..] => format!("{first} (and {} more)", rest.len()),
    }
}
