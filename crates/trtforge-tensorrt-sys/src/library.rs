//! Opening the SDK's shared libraries, and asking their version before anything else is asked of them.

use std::mem::ManuallyDrop;
use std::path::Path;

use cxx::{Exception, UniquePtr};
use libloading::Library;
use thiserror::Error;

use crate::bridge::{self, Builder, Factories, Runtime, SdkId};
use crate::driver::Driver;
use crate::observe::{LogSink, Monitor};
use crate::sink::PlanSink;

/// Why a file cannot serve as a library of an SDK.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LoadError {
    /// The dynamic linker refused the file.
    #[error("not a loadable library: {reason}")]
    NotLoadable {
        /// What the dynamic linker said.
        reason: String,
    },
    /// The library lacks the function that states its version: it is something else.
    #[error("no `{symbol}` in it")]
    NoSymbol {
        /// The function that is missing.
        symbol: &'static str,
    },
    /// The headers this build was compiled against describe another version.
    #[error("version {found}, while this build speaks {wanted}")]
    WrongVersion {
        /// As the library states it (10701 is 1.7.1).
        found: i32,
        /// As the headers state it.
        wanted: i32,
    },
}

/// The version of the headers of `sdk`, or nothing where this build has none.
pub fn header_version(sdk: SdkId) -> Option<i32> {
    bridge::header_version(sdk).ok()
}

/// A library with TensorRT's factories: full, lean or dispatch.
#[derive(Debug)]
pub struct InferLibrary {
    sdk: SdkId,
    version: i32,
    build_number: Option<i32>,
    create_builder: usize,
    create_runtime: usize,
}

impl InferLibrary {
    /// Opens the library at `path` and checks that it is the version this build speaks.
    ///
    /// It is never unloaded: TensorRT keeps threads and globals that outlive its objects.
    pub fn open(sdk: SdkId, path: &Path) -> Result<InferLibrary, LoadError> {
        let library = open(path)?;
        let version = call_version(&library, "getInferLibVersion")?;
        let wanted = header_version(sdk).unwrap_or(0);
        // Within one minor version the layouts are the same; the patch may differ.
        if version / 100 != wanted / 100 {
            return Err(LoadError::WrongVersion { found: version, wanted });
        }
        Ok(InferLibrary {
            sdk,
            version,
            build_number: call_version(&library, "getInferLibBuildVersion").ok(),
            create_builder: address(&library, "createInferBuilder_INTERNAL"),
            create_runtime: address(&library, "createInferRuntime_INTERNAL"),
        })
    }

    /// As the library states it (10701 is 1.7.1).
    pub fn version(&self) -> i32 {
        self.version
    }

    /// The fourth number of its version (116 in 1.7.1.116); none of a library that does not state it.
    pub fn build_number(&self) -> Option<i32> {
        self.build_number
    }

    /// Whether it can build plans; lean and dispatch libraries cannot.
    pub fn can_build(&self) -> bool {
        self.create_builder != 0
    }
}

/// A library with the ONNX parser of an SDK.
#[derive(Debug)]
pub struct ParserLibrary {
    sdk: SdkId,
    version: i32,
    create_parser: usize,
}

impl ParserLibrary {
    /// Opens the library at `path`; the library of TensorRT itself must have been opened before.
    pub fn open(infer: &InferLibrary, path: &Path) -> Result<ParserLibrary, LoadError> {
        let library = open(path)?;
        let version = call_version(&library, "getNvOnnxParserVersion")?;
        let create_parser = address(&library, "createNvOnnxParser_INTERNAL");
        if create_parser == 0 {
            return Err(LoadError::NoSymbol { symbol: "createNvOnnxParser_INTERNAL" });
        }
        Ok(ParserLibrary { sdk: infer.sdk, version, create_parser })
    }

    /// The parser's own version, not TensorRT's.
    pub fn version(&self) -> i32 {
        self.version
    }
}

/// A builder of the SDK that both libraries belong to.
pub fn new_builder(
    infer: &InferLibrary,
    parser: &ParserLibrary,
    log: &LogSink,
) -> Result<UniquePtr<Builder>, Exception> {
    debug_assert_eq!(infer.sdk, parser.sdk, "a parser is opened with its own TensorRT library");
    let factories =
        Factories { builder: infer.create_builder, parser: parser.create_parser, runtime: 0 };
    bridge::make_builder(infer.sdk, &factories, Box::new(log.clone()))
}

/// Builds the plan of what `builder` has parsed into `sink`; false when the library failed, the sink took no more, or
/// `monitor` cancelled.
pub fn build(
    builder: &mut UniquePtr<Builder>,
    monitor: &Monitor<'_>,
    sink: &PlanSink<'_>,
) -> Result<bool, Exception> {
    // SAFETY: C++ takes the monitor off the builder's configuration before it returns and its writer lives no longer
    // than the call, so both borrows end with it.
    unsafe { builder.pin_mut().build(monitor, sink) }
}

/// A runtime; only a driver that has initialised proves that it can be made.
pub fn new_runtime(
    infer: &InferLibrary,
    _driver: &Driver,
    log: &LogSink,
) -> Result<UniquePtr<Runtime>, Exception> {
    let factories = Factories { builder: 0, parser: 0, runtime: infer.create_runtime };
    bridge::make_runtime(infer.sdk, &factories, Box::new(log.clone()))
}

/// The library, which is never unloaded.
fn open(path: &Path) -> Result<ManuallyDrop<Library>, LoadError> {
    // SAFETY: opening a library runs its initialisers. The caller names a library of TensorRT, which the user installed
    // to be run; there is no way to know more about a library before it is open.
    let library = unsafe { Library::new(path) };
    library
        .map(ManuallyDrop::new)
        .map_err(|error| LoadError::NotLoadable { reason: error.to_string() })
}

fn address(library: &Library, symbol: &str) -> usize {
    // SAFETY: only the address is taken; what is called through it is decided where the version is known.
    let found = unsafe { library.get::<*const ()>(symbol) };
    found.map_or(0, |symbol| *symbol as usize)
}

fn call_version(library: &Library, symbol: &'static str) -> Result<i32, LoadError> {
    // SAFETY: every version of the headers declares the functions that come here as `int32_t (*)() noexcept`.
    let version = unsafe { library.get::<unsafe extern "C" fn() -> i32>(symbol) };
    let version = version.map_err(|_| LoadError::NoSymbol { symbol })?;
    // SAFETY: as above; they take nothing and touch nothing.
    Ok(unsafe { version() })
}
