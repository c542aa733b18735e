//! The CUDA driver, found at run time. A [`Driver`] is the proof that it has initialised.

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint};
use std::mem::ManuallyDrop;

use libloading::Library;
use thiserror::Error;

const CUDA_SUCCESS: c_int = 0;
const COMPUTE_CAPABILITY_MAJOR: c_int = 75;
const COMPUTE_CAPABILITY_MINOR: c_int = 76;
/// More than any device name has.
const NAME_BYTES: usize = 256;

/// Why no GPU can be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DriverError {
    /// The driver's library cannot be opened.
    #[error("no CUDA driver: {reason}")]
    NotInstalled {
        /// What the dynamic linker said.
        reason: String,
    },
    /// The library is no CUDA driver.
    #[error("the CUDA driver library has no `{symbol}`")]
    NoSymbol {
        /// The function that is missing.
        symbol: &'static str,
    },
    /// A driver function failed.
    #[error("the CUDA driver refused `{function}` with error {code}")]
    Refused {
        /// Name of the function.
        function: &'static str,
        /// `CUresult`; 100 is "no device", 803 is "driver and library versions differ".
        code: i32,
    },
    /// The driver works but has nothing to run on.
    #[error("the CUDA driver sees no GPU")]
    NoDevice,
}

/// One GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// As the driver names it.
    pub name: String,
    /// Compute capability, for example (9, 0).
    pub compute_capability: (u32, u32),
    /// Total memory.
    pub memory_bytes: u64,
}

/// A CUDA driver that has initialised and sees at least one GPU.
#[derive(Debug)]
pub struct Driver {
    version: (u32, u32),
    devices: Vec<Device>,
    init: usize,
}

impl Driver {
    /// Opens and initialises the CUDA driver of this machine.
    pub fn open() -> Result<Driver, DriverError> {
        Driver::open_library(OsStr::new("libcuda.so.1"))
    }

    /// The same with the driver's library named.
    pub fn open_library(library: &OsStr) -> Result<Driver, DriverError> {
        let functions = Functions::of(library)?;
        // SAFETY: cuInit takes flags that must be 0, and may be called any number of times.
        check("cuInit", unsafe { (functions.init)(0) })?;
        let mut version = 0;
        // SAFETY: the pointer is valid for the write of one int.
        check("cuDriverGetVersion", unsafe { (functions.version)(&raw mut version) })?;
        let mut count = 0;
        // SAFETY: as above.
        check("cuDeviceGetCount", unsafe { (functions.count)(&raw mut count) })?;
        let devices = (0..count).map(|i| functions.device(i)).collect::<Result<Vec<_>, _>>()?;
        if devices.is_empty() {
            return Err(DriverError::NoDevice);
        }
        // 13000 is CUDA 13.0, 12040 is 12.4.
        let version = u32::try_from(version).unwrap_or(0);
        let init = functions.init as usize;
        Ok(Driver { version: (version / 1000, version % 1000 / 10), devices, init })
    }

    /// The newest CUDA version the driver serves.
    pub fn cuda_version(&self) -> (u32, u32) {
        self.version
    }

    /// Where its `cuInit` lies: tells one library from another.
    pub(crate) fn init_address(&self) -> usize {
        self.init
    }

    /// The GPUs, at least one.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }
}

/// The few driver functions used here, with the signatures of `cuda.h`.
struct Functions {
    init: unsafe extern "C" fn(c_uint) -> c_int,
    version: unsafe extern "C" fn(*mut c_int) -> c_int,
    count: unsafe extern "C" fn(*mut c_int) -> c_int,
    get: unsafe extern "C" fn(*mut c_int, c_int) -> c_int,
    name: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int,
    attribute: unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int,
    memory: unsafe extern "C" fn(*mut usize, c_int) -> c_int,
}

impl Functions {
    fn of(library: &OsStr) -> Result<Functions, DriverError> {
        // SAFETY: the library is the user's CUDA driver, installed to be run. It is never unloaded (`ManuallyDrop`),
        // so the function pointers stay valid.
        let library = unsafe { Library::new(library) };
        let library =
            library.map_err(|error| DriverError::NotInstalled { reason: error.to_string() })?;
        let library = ManuallyDrop::new(library);
        // SAFETY: each type is the function's declaration in cuda.h, unchanged since CUDA 3.2.
        unsafe {
            Ok(Functions {
                init: symbol(&library, "cuInit")?,
                version: symbol(&library, "cuDriverGetVersion")?,
                count: symbol(&library, "cuDeviceGetCount")?,
                get: symbol(&library, "cuDeviceGet")?,
                name: symbol(&library, "cuDeviceGetName")?,
                attribute: symbol(&library, "cuDeviceGetAttribute")?,
                memory: symbol(&library, "cuDeviceTotalMem_v2")?,
            })
        }
    }

    fn device(&self, ordinal: c_int) -> Result<Device, DriverError> {
        let mut device = 0;
        // SAFETY: the pointer is valid for the write of one CUdevice, which is an int.
        check("cuDeviceGet", unsafe { (self.get)(&raw mut device, ordinal) })?;
        let mut name = [0; NAME_BYTES];
        // SAFETY: the buffer has the length given, and the driver writes at most that, with the terminating zero.
        check("cuDeviceGetName", unsafe {
            (self.name)(name.as_mut_ptr().cast(), NAME_BYTES as c_int, device)
        })?;
        let mut memory = 0;
        // SAFETY: the pointer is valid for the write of one size_t.
        check("cuDeviceTotalMem_v2", unsafe { (self.memory)(&raw mut memory, device) })?;
        let major = self.attribute(COMPUTE_CAPABILITY_MAJOR, device)?;
        let minor = self.attribute(COMPUTE_CAPABILITY_MINOR, device)?;
        let name =
            CStr::from_bytes_until_nul(&name).unwrap_or_default().to_string_lossy().into_owned();
        Ok(Device { name, compute_capability: (major, minor), memory_bytes: memory as u64 })
    }

    fn attribute(&self, attribute: c_int, device: c_int) -> Result<u32, DriverError> {
        let mut value = 0;
        // SAFETY: the pointer is valid for the write of one int.
        let code = unsafe { (self.attribute)(&raw mut value, attribute, device) };
        check("cuDeviceGetAttribute", code)?;
        Ok(u32::try_from(value).unwrap_or(0))
    }
}

fn check(function: &'static str, code: c_int) -> Result<(), DriverError> {
    match code {
        CUDA_SUCCESS => Ok(()),
        code => Err(DriverError::Refused { function, code }),
    }
}

/// # Safety
///
/// `T` must be the type of the function `name`, and the library must never be unloaded.
unsafe fn symbol<T: Copy>(library: &Library, name: &'static str) -> Result<T, DriverError> {
    // SAFETY: the caller vouches for the type.
    let found = unsafe { library.get::<T>(name) };
    found.map(|symbol| *symbol).map_err(|_| DriverError::NoSymbol { symbol: name })
}
