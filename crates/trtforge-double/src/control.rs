//! Steering the double in this process: its failures and its account.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char};
use std::mem::ManuallyDrop;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use serde::Deserialize;

use crate::libraries;

/// What the double saw since the last [`reset`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Account {
    /// How many of each kind of object live.
    pub live: BTreeMap<String, u64>,
    /// The kinds of the objects that ended, in order.
    pub destroyed: Vec<String>,
    /// Rules of the real libraries that were broken.
    pub misuses: Vec<String>,
    /// How often each call was used.
    pub calls: BTreeMap<String, u64>,
    /// The builder options that were set, by the double's names.
    pub options: BTreeMap<String, String>,
}

impl Account {
    /// The account that a process wrote at its exit (`TRTFORGE_DOUBLE_ACCOUNT`).
    pub fn read(path: &Path) -> Account {
        let text = std::fs::read_to_string(path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Panics unless everything that was made has ended, in the right order, and no rule was broken.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert!(self.live.is_empty(), "still alive: {:?}", self.live);
        assert!(self.misuses.is_empty(), "misused: {:#?}", self.misuses);
    }
}

/// The double, for one test alone: others that ask wait until this is dropped.
pub struct Exclusive {
    _lock: MutexGuard<'static, ()>,
}

/// Loads the double's driver, waits for other tests of this process, and starts from an empty account.
pub fn exclusive() -> Exclusive {
    static LOCK: Mutex<()> = Mutex::new(());
    // A test that failed has told why; the next one resets.
    let lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    load_driver();
    reset();
    Exclusive { _lock: lock }
}

/// Loads the doubles of the CUDA driver and of NVML: from now on whoever asks this process's dynamic linker for
/// `libcuda.so.1` or `libcuda.so` gets them. Must come before anything asked.
pub fn load_driver() {
    let found = libraries();
    for path in [
        found.cuda.join("libcuda.so.1"),
        found.cuda.join("libcuda.so"),
        found.nvml.join("libnvidia-ml.so.1"),
        found.nvml.join("libnvidia-ml.so"),
    ] {
        open(&path);
    }
}

/// Makes the `nth` use of `call` from now on fail, once; 1 is the next one.
///
/// The calls are the C and C++ functions' names without version suffix: `cuMemAlloc`, `enqueueV3`,
/// `createExecutionContext`, … Some fail in more than one way: `createInferRuntime/garbage` (an invalid pointer instead
/// of null), `deserializeCudaEngine/version` (a plan of another version), `enqueueV3/asynchronous` (accepted, and then
/// wrong on the device), `parseFromFile/silent` (no reason given).
pub fn fail_at(call: &str, nth: u64) {
    let call = CString::new(call).expect("calls have no zero bytes");
    // SAFETY: the string lives through the call, which copies it.
    unsafe { (control().fail_at)(call.as_ptr(), nth) }
}

/// Forgets failures, account and recording, and clears the device's error.
pub fn reset() {
    // SAFETY: takes nothing.
    unsafe { (control().reset)() }
}

/// The recording that the parser's double reads in this process: a file, or a folder with one `<model>.json` each.
pub fn record_from(path: &Path) {
    let path = CString::new(path.as_os_str().as_bytes()).expect("paths have no zero bytes");
    // SAFETY: the string lives through the call, which copies it.
    unsafe { (control().record_from)(path.as_ptr()) }
}

/// What the double saw since the last [`reset`].
pub fn account() -> Account {
    let mut text = vec![0_u8; 1 << 16];
    loop {
        // SAFETY: at most the given length is written.
        let needed = unsafe { (control().account)(text.as_mut_ptr().cast(), text.len() as u64) };
        let needed = usize::try_from(needed).expect("an account fits into memory");
        if needed <= text.len() {
            text.truncate(needed);
            break;
        }
        text.resize(needed, 0);
    }
    serde_json::from_slice(&text).expect("the account is JSON")
}

/// The functions of `state.h`.
struct Control {
    fail_at: unsafe extern "C" fn(*const c_char, u64),
    reset: unsafe extern "C" fn(),
    record_from: unsafe extern "C" fn(*const c_char),
    account: unsafe extern "C" fn(*mut c_char, u64) -> u64,
}

fn control() -> &'static Control {
    static CONTROL: OnceLock<Control> = OnceLock::new();
    CONTROL.get_or_init(|| {
        let folder = libraries().cuda.join("../libtrtforge_double.so");
        let library = open(&folder);
        // SAFETY: each type is the function's declaration in state.h, and the library is never unloaded.
        unsafe {
            Control {
                fail_at: *library.get(b"trtforge_double_fail_at\0").expect("state.h has it"),
                reset: *library.get(b"trtforge_double_reset\0").expect("state.h has it"),
                record_from: *library
                    .get(b"trtforge_double_record_from\0")
                    .expect("state.h has it"),
                account: *library.get(b"trtforge_double_account\0").expect("state.h has it"),
            }
        }
    })
}

/// Opens a library for good.
fn open(path: &Path) -> ManuallyDrop<Library> {
    // SAFETY: the double's libraries have no initialisers that do anything.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) };
    ManuallyDrop::new(library.unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}
