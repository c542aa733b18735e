//! A library of TensorRT that was found, opened and found to be the right version.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use trtforge_tensorrt_sys::{InferLibrary, LoadError, ParserLibrary};

use crate::error::TensorRtError;
use crate::locate::Surroundings;
use crate::plan::ExactVersion;
use crate::sdk::{Generation, Part, Sdk, Version};

/// TensorRT's builder with its ONNX parser, or one of its runtimes alone.
#[derive(Debug)]
pub struct Library {
    sdk: Sdk,
    part: Part,
    path: PathBuf,
    pub(crate) infer: InferLibrary,
    pub(crate) parser: Option<ParserLibrary>,
}

impl Library {
    /// Finds the builder and the ONNX parser of `sdk`.
    ///
    /// Looks only in `explicit` (a folder, or the library itself) where given; else only in `TRTFORGE_TENSORRT_PATH` where it is set; else beside
    /// the executable, in the folder that scripts/setup fills, in Python's `site-packages`, in `LD_LIBRARY_PATH` and in
    /// the system's folders.
    pub fn locate(sdk: Sdk, explicit: Option<&Path>) -> Result<Library, TensorRtError> {
        let surroundings = Surroundings::here();
        let mut library = locate_part(&surroundings, sdk, Part::Builder, explicit)?;
        let folder = library.path.parent().map(Path::to_path_buf);
        // Beside the builder first, so that the two are of one installation.
        let beside = folder.as_deref().filter(|folder| holds(sdk, Part::Parser, folder));
        let (_, parser) = open_parser(&surroundings, &library, beside.or(explicit))?;
        library.parser = Some(parser);
        Ok(library)
    }

    /// Finds the ONNX parser of `sdk` alone: where it lies. Its version is its own, not TensorRT's.
    pub(crate) fn locate_parser(
        sdk: Sdk,
        explicit: Option<&Path>,
    ) -> Result<(PathBuf, Option<Version>), TensorRtError> {
        let surroundings = Surroundings::here();
        let library = locate_part(&surroundings, sdk, Part::Builder, explicit);
        match library {
            Ok(library) => Ok((open_parser(&surroundings, &library, explicit)?.0, None)),
            // Without its library a parser cannot be opened; say at least whether it is there.
            Err(error) => {
                let folders = surroundings.folders(sdk, explicit)?;
                match folders.iter().find(|folder| holds(sdk, Part::Parser, folder)) {
                    Some(_) => Err(error),
                    None => Err(not_found(sdk, Part::Parser, folders)),
                }
            }
        }
    }

    /// Finds one runtime of `sdk`; [`Part::Parser`] is none.
    pub fn locate_runtime(
        sdk: Sdk,
        part: Part,
        explicit: Option<&Path>,
    ) -> Result<Library, TensorRtError> {
        locate_part(&Surroundings::here(), sdk, part, explicit)
    }

    /// Which SDK it is of.
    pub fn sdk(&self) -> Sdk {
        self.sdk
    }

    /// What it is for.
    pub fn part(&self) -> Part {
        self.part
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The library's own version.
    pub fn version(&self) -> Version {
        Version::from_number(self.infer.version())
    }

    /// The same with the build number, where the library states it.
    pub fn exact_version(&self) -> ExactVersion {
        let build = self.infer.build_number().and_then(|build| u32::try_from(build).ok());
        ExactVersion { version: self.version(), build }
    }
}

/// A file that may be a library of an SDK by its name.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) path: PathBuf,
    /// Why its folder was looked in.
    pub(crate) why: &'static str,
    /// Its version, or why it does not fit; a parser is not asked.
    pub(crate) version: Result<Option<Version>, TensorRtError>,
}

/// Every file that may be this part, in the order of the search; two names of one file count once.
pub(crate) fn candidates(sdk: Sdk, part: Part, explicit: Option<&Path>) -> Vec<Candidate> {
    let places = Surroundings::here().places(sdk, explicit).unwrap_or_default();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for place in places {
        for (generation, file) in files(sdk, part) {
            let path = place.folder.join(file);
            let Ok(real) = path.canonicalize() else { continue };
            if path.is_file() && seen.insert(real) {
                // A parser states no version, and opens only with a library.
                let version = match part {
                    Part::Parser => Ok(None),
                    _ => open_part(sdk, part, generation, &path)
                        .map(|infer| Some(Version::from_number(infer.version()))),
                };
                found.push(Candidate { path, why: place.why, version });
            }
        }
    }
    found
}

/// Opens one file as this part.
fn open_part(
    sdk: Sdk,
    part: Part,
    generation: &Generation,
    path: &Path,
) -> Result<InferLibrary, TensorRtError> {
    let unfit = |reason| unusable(sdk, part, path.to_owned(), reason);
    let infer = InferLibrary::open(generation.id, path).map_err(unfit)?;
    if part == Part::Builder && !infer.can_build() {
        return Err(unfit(LoadError::NoSymbol { symbol: "createInferBuilder_INTERNAL" }));
    }
    Ok(infer)
}

fn holds(sdk: Sdk, part: Part, folder: &Path) -> bool {
    files(sdk, part).any(|(_, file)| folder.join(file).is_file())
}

fn files(sdk: Sdk, part: Part) -> impl Iterator<Item = (&'static Generation, &'static str)> {
    sdk.generations()
        .iter()
        .filter_map(move |generation| Some((generation, generation.file(part)?)))
}

/// Opens the first library that fits. One that does not fit is passed over, unless nothing else is found.
fn locate_part(
    surroundings: &Surroundings,
    sdk: Sdk,
    part: Part,
    explicit: Option<&Path>,
) -> Result<Library, TensorRtError> {
    let folders = surroundings.folders(sdk, explicit)?;
    let mut unfit = None;
    for folder in &folders {
        for (generation, file) in files(sdk, part) {
            let path = folder.join(file);
            if !path.is_file() {
                continue;
            }
            match open_part(sdk, part, generation, &path) {
                Ok(infer) => return Ok(Library { sdk, part, path, infer, parser: None }),
                Err(error) => {
                    unfit.get_or_insert(error);
                }
            }
        }
    }
    Err(unfit.unwrap_or_else(|| not_found(sdk, part, folders)))
}

fn open_parser(
    surroundings: &Surroundings,
    library: &Library,
    explicit: Option<&Path>,
) -> Result<(PathBuf, ParserLibrary), TensorRtError> {
    let sdk = library.sdk;
    let folders = surroundings.folders(sdk, explicit)?;
    let mut unfit = None;
    for folder in &folders {
        for (_, file) in files(sdk, Part::Parser) {
            let path = folder.join(file);
            if !path.is_file() {
                continue;
            }
            match ParserLibrary::open(&library.infer, &path) {
                Ok(parser) => return Ok((path, parser)),
                Err(reason) => {
                    unfit.get_or_insert(unusable(sdk, Part::Parser, path, reason));
                }
            }
        }
    }
    Err(unfit.unwrap_or_else(|| not_found(sdk, Part::Parser, folders)))
}

fn not_found(sdk: Sdk, part: Part, looked_in: Vec<PathBuf>) -> TensorRtError {
    let file = files(sdk, part).next().map_or("", |(_, file)| file);
    TensorRtError::LibraryNotFound { sdk, part, file, looked_in, install: sdk.install_hint(part) }
}

fn unusable(sdk: Sdk, part: Part, path: PathBuf, reason: LoadError) -> TensorRtError {
    let install = sdk.install_hint(part);
    match reason {
        LoadError::WrongVersion { found, wanted } => TensorRtError::WrongVersion {
            sdk,
            path,
            found: Version::from_number(found),
            wanted: Version::from_number(wanted),
            install,
        },
        reason => {
            TensorRtError::LibraryUnusable { sdk, part, path, reason: reason.to_string(), install }
        }
    }
}
