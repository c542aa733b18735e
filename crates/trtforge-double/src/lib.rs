//! A test double of TensorRT, the CUDA driver and NVML: shared libraries compiled from the same headers, whose engine
//! plays back recorded outputs, and whose every call can be told to fail.
//!
//! Nothing here computes or measures: the GPU is called `TEST DOUBLE (no GPU)`, every log begins by saying so, times
//! are simulated, and a call that the double lacks ends the process by name. Only tests depend on this crate.
//!
//! In one process:
//!
//! ```no_run
//! let _double = trtforge_double::exclusive(); // the driver is loaded, the account is empty, no other test runs
//! trtforge_double::fail_at("cuMemAlloc", 2);
//! // … use Library::locate(Sdk::TensorRt, Some(&trtforge_double::libraries().tensorrt)) …
//! trtforge_double::account().assert_clean();
//! ```
//!
//! The binary is run with [`environment`], and with `TRTFORGE_DOUBLE_RECORDING` (what the parser's double reads: a file,
//! or a folder with `<model>.json`), `TRTFORGE_DOUBLE_FAIL=call:n,…`, `TRTFORGE_DOUBLE_ACCOUNT=FILE` (the account, written
//! at exit), `TRTFORGE_DOUBLE_BUILD_STEPS` and `TRTFORGE_DOUBLE_STEP_MS` (how long a build takes), and
//! `TRTFORGE_DOUBLE_CAPABILITY` (90 is 9.0).

mod control;
mod recorder;
mod recording;

pub use control::{
    Account, Exclusive, account, exclusive, fail_at, load_driver, record_from, reset,
};
pub use recorder::Recorder;
pub use recording::{Batch, Recording, Row, Tensor, TensorType, Values};

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The folders of the double's libraries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Libraries {
    /// `libnvinfer.so.11` and `libnvonnxparser.so.11`.
    pub tensorrt: PathBuf,
    /// `libtensorrt_rtx.so.1` and its parser.
    pub rtx: PathBuf,
    /// `libcuda.so.1`.
    pub cuda: PathBuf,
    /// `libnvidia-ml.so.1`.
    pub nvml: PathBuf,
}

/// Where the double's libraries lie.
pub fn libraries() -> Libraries {
    let folder = Path::new(env!("TRTFORGE_DOUBLE_LIBRARIES"));
    Libraries {
        tensorrt: folder.join("tensorrt"),
        rtx: folder.join("rtx"),
        cuda: folder.join("cuda"),
        nvml: folder.join("nvml"),
    }
}

/// What a process needs in its environment to find the double instead of the real libraries.
pub fn environment() -> Vec<(&'static str, OsString)> {
    let found = libraries();
    let paths = std::env::join_paths([&found.cuda, &found.nvml]).unwrap_or_default();
    let tensorrt = std::env::join_paths([&found.tensorrt, &found.rtx]).unwrap_or_default();
    vec![("LD_LIBRARY_PATH", paths), ("TRTFORGE_TENSORRT_PATH", tensorrt)]
}
