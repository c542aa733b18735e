//! What is installed on this machine, and what each part makes possible.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::backend::Backend;
use crate::driver::{Gpu, driver, driver_version};
use crate::error::TensorRtError;
use crate::library::{Library, candidates};
use crate::options::{BuildOption, ComputeCapability};
use crate::sdk::{Part, Sdk, Version};

/// Everything found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoctorReport {
    /// Each library of each SDK.
    pub libraries: Vec<LibraryReport>,
    /// The version of the driver itself, for example `580.65.06`; none where no kernel module says it.
    #[serde(default)]
    pub driver_version: Option<String>,
    /// Where the driver's library lies, also of one that does not serve.
    #[serde(default)]
    pub driver_path: Option<String>,
    /// The newest CUDA version that the driver serves; none without a driver.
    pub cuda_version: Option<String>,
    /// The GPUs.
    pub gpus: Vec<Gpu>,
    /// Why there is no GPU.
    pub driver_problem: Option<String>,
    /// What each backend can do here.
    pub backends: Vec<BackendReport>,
}

/// How a library was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LibraryState {
    /// There, and the right version.
    Usable,
    /// There, but unfit.
    Unusable,
    /// Not there.
    Missing,
}

/// One library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryReport {
    /// Of which SDK.
    pub sdk: Sdk,
    /// Which of its parts.
    pub part: Part,
    /// Whether it can serve.
    pub state: LibraryState,
    /// Where it lies.
    pub path: Option<String>,
    /// Its own version.
    pub version: Option<Version>,
    /// Why its folder was looked in: a variable, a Python package, the system's folders …
    #[serde(default)]
    pub found_in: Option<String>,
    /// Further files of that name, which are not used: later in the search, or unfit.
    #[serde(default)]
    pub others: Vec<OtherLibrary>,
    /// The version of the headers that this build was compiled against.
    pub header_version: Version,
    /// What it makes possible.
    pub makes_possible: String,
    /// What is wrong with it.
    pub problem: Option<String>,
    /// How to get it.
    pub install: Option<String>,
}

/// A library that was found and is not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherLibrary {
    /// Where it lies.
    pub path: String,
    /// Why its folder was looked in.
    pub found_in: String,
    /// Its own version.
    pub version: Option<Version>,
    /// Why it cannot serve; none where it merely comes later.
    pub problem: Option<String>,
}

/// What a backend can do here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendReport {
    /// Which.
    pub backend: Backend,
    /// Whether it can build plans here.
    pub builds: bool,
    /// Whether it can run them here.
    pub runs: bool,
    /// What is missing for the rest.
    pub missing: Vec<String>,
    /// Options of the builder that this SDK does not have, each with why.
    #[serde(default)]
    pub without: Vec<String>,
    /// What is not known of it on this machine's GPUs.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Looks for everything; never fails. `libraries` is where the user says the libraries are, if he does.
pub fn probe(libraries: Option<&Path>) -> DoctorReport {
    let driver = driver();
    let libraries: Vec<LibraryReport> = Sdk::ALL
        .into_iter()
        .flat_map(|sdk| sdk.parts().iter().map(move |&part| probe_library(sdk, part, libraries)))
        .collect();
    let driver_problem = driver.as_ref().err().map(problem);
    let driver = driver.ok();
    let gpus = driver.as_ref().map_or(&[][..], |driver| &driver.gpus);
    let backends = backends(&libraries, driver_problem.as_deref(), gpus);
    DoctorReport {
        libraries,
        driver_version: driver_version(),
        driver_path: driver_path(),
        cuda_version: driver.as_ref().map(|driver| driver.cuda_version.clone()),
        gpus: driver.map(|driver| driver.gpus).unwrap_or_default(),
        driver_problem,
        backends,
    }
}

fn probe_library(sdk: Sdk, part: Part, explicit: Option<&Path>) -> LibraryReport {
    let mut report = LibraryReport {
        sdk,
        part,
        state: LibraryState::Missing,
        path: None,
        version: None,
        found_in: None,
        others: Vec::new(),
        header_version: sdk.header_version(),
        makes_possible: makes_possible(sdk, part).to_owned(),
        problem: None,
        install: None,
    };
    let found = match part {
        Part::Parser => Library::locate_parser(sdk, explicit),
        _ => Library::locate_runtime(sdk, part, explicit)
            .map(|library| (library.path().to_owned(), Some(library.version()))),
    };
    match found {
        Ok((path, version)) => {
            report.state = LibraryState::Usable;
            report.path = Some(path.display().to_string());
            report.version = version;
        }
        Err(error) => {
            report.install = Some(sdk.install_hint(part).to_owned());
            report.problem = Some(problem(&error));
            if let TensorRtError::WrongVersion { path, found, .. } = &error {
                report.version = Some(*found);
                report.path = Some(path.display().to_string());
                report.state = LibraryState::Unusable;
            }
            if let TensorRtError::LibraryUnusable { path, .. } = &error {
                report.path = Some(path.display().to_string());
                report.state = LibraryState::Unusable;
            }
        }
    }
    add_candidates(&mut report, explicit);
    report
}

/// Every file of that name: where the one in the report comes from, and what the others are.
fn add_candidates(report: &mut LibraryReport, explicit: Option<&Path>) {
    for candidate in candidates(report.sdk, report.part, explicit) {
        let path = candidate.path.display().to_string();
        if report.path.as_ref() == Some(&path) {
            report.found_in = Some(candidate.why.to_owned());
            continue;
        }
        let (version, problem) = match &candidate.version {
            Ok(version) => (*version, None),
            Err(TensorRtError::WrongVersion { found, .. }) => {
                (Some(*found), Some(format!("this build speaks {}", report.header_version)))
            }
            Err(error) => (None, Some(problem(error))),
        };
        let found_in = candidate.why.to_owned();
        report.others.push(OtherLibrary { path, found_in, version, problem });
    }
}

/// Where the driver's library was loaded from.
fn driver_path() -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let path = |line: &str| line.find('/').map(|at| line[at..].to_owned());
    maps.lines().filter(|line| line.contains("/libcuda.so")).find_map(path)
}

/// The message without what the report says in fields of its own.
fn problem(error: &TensorRtError) -> String {
    match error {
        TensorRtError::NoDriver { reason, .. } | TensorRtError::LibraryUnusable { reason, .. } => {
            reason.clone()
        }
        TensorRtError::LibraryNotFound { file, looked_in, .. } => {
            format!("no `{file}` in the {} folders searched", looked_in.len())
        }
        error => error.to_string(),
    }
}

fn makes_possible(sdk: Sdk, part: Part) -> &'static str {
    match (sdk, part) {
        (Sdk::TensorRt, Part::Builder) => "build and run TensorRT plans, on a GPU",
        (Sdk::TensorRtRtx, Part::Builder) => {
            "build TensorRT-RTX plans anywhere, run them on a GPU from Ampere on"
        }
        (_, Part::Parser) => "read ONNX models into the builder",
        (_, Part::LeanRuntime) => "run version-compatible TensorRT plans, on a GPU",
        (_, Part::DispatchRuntime) => {
            "run plans through whichever lean runtime they need, on a GPU"
        }
    }
}

fn backends(
    libraries: &[LibraryReport],
    no_driver: Option<&str>,
    gpus: &[Gpu],
) -> Vec<BackendReport> {
    let mut reports: Vec<BackendReport> =
        Sdk::ALL.into_iter().map(|sdk| backend(sdk, libraries, no_driver, gpus)).collect();
    reports.push(BackendReport {
        backend: Backend::None,
        builds: false,
        runs: false,
        missing: Vec::new(),
        without: Vec::new(),
        notes: Vec::new(),
    });
    reports
}

/// Options that `sdk` does not have, those of one reason together.
fn without(sdk: Sdk) -> Vec<String> {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for refusal in BuildOption::all().into_iter().filter_map(|option| option.refused_by(sdk)) {
        by_reason.entry(refusal.reason).or_default().push(refusal.option.name());
    }
    by_reason.into_iter().map(|(reason, names)| format!("{}: {reason}", names.join(", "))).collect()
}

/// GPUs that TensorRT-RTX does not name: whether its plans run there is not known.
fn notes(sdk: Sdk, gpus: &[Gpu]) -> Vec<String> {
    let named = |gpu: &&Gpu| {
        !ComputeCapability::NAMES.iter().any(|(name, _)| *name == gpu.compute_capability)
    };
    let note = |gpu: &Gpu| {
        format!(
            "compute capability {} ({}) is none that {sdk} {} names: whether its plans run there shows when one is loaded",
            gpu.compute_capability,
            gpu.name,
            sdk.header_version()
        )
    };
    match sdk {
        Sdk::TensorRt => Vec::new(),
        Sdk::TensorRtRtx => gpus.iter().filter(named).map(note).collect(),
    }
}

fn backend(
    sdk: Sdk,
    libraries: &[LibraryReport],
    no_driver: Option<&str>,
    gpus: &[Gpu],
) -> BackendReport {
    let of = |part: Part| libraries.iter().find(|l| l.sdk == sdk && l.part == part);
    let usable = |part: Part| of(part).is_some_and(|l| l.state == LibraryState::Usable);
    let mut missing: Vec<String> = [Part::Builder, Part::Parser]
        .into_iter()
        .filter(|&part| !usable(part))
        .map(|part| format!("the {part} of {sdk}: {}", sdk.install_hint(part)))
        .collect();
    let complete = missing.is_empty();
    missing.extend(no_driver.map(|reason| format!("a GPU: {reason}")));
    BackendReport {
        backend: match sdk {
            Sdk::TensorRt => Backend::TensorRt,
            Sdk::TensorRtRtx => Backend::TensorRtRtx,
        },
        builds: complete && (no_driver.is_none() || !sdk.build_needs_gpu()),
        runs: no_driver.is_none() && usable(Part::Builder),
        missing,
        without: without(sdk),
        notes: notes(sdk, gpus),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_sdk_lacks_and_gpus_it_does_not_name_are_listed() {
        let rtx = without(Sdk::TensorRtRtx).join("\n");
        assert!(rtx.contains("timing_cache: it times nothing while building"), "{rtx}");
        assert!(
            without(Sdk::TensorRt).iter().any(|line| line.starts_with("compute_capabilities: "))
        );
        let gpu = |capability: &str| Gpu {
            name: "G".to_owned(),
            compute_capability: capability.to_owned(),
            memory_bytes: 1,
        };
        let notes_of = |capability| notes(Sdk::TensorRtRtx, &[gpu(capability)]).len();
        assert_eq!([notes_of("9.0"), notes_of("8.9"), notes_of("12.0")], [1, 0, 0]);
        assert!(notes(Sdk::TensorRt, &[gpu("9.0")]).is_empty());
    }

    #[test]
    fn in_an_empty_folder_everything_is_missing_with_the_way_to_get_it() {
        let folder = tempfile::tempdir().unwrap();
        let report = probe(Some(folder.path()));
        assert_eq!(report.libraries.len(), 6);
        for library in &report.libraries {
            assert_eq!(library.state, LibraryState::Missing, "{library:?}");
            assert!(library.install.as_ref().unwrap().contains("install"), "{library:?}");
        }
        for backend in &report.backends {
            assert!(!backend.builds && !backend.runs, "{backend:?}");
        }
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<DoctorReport>(&json).unwrap(), report);
    }
}
