//! The CUDA driver, through stand-ins that are compiled here: this needs no GPU.

use std::path::{Path, PathBuf};
use std::process::Command;

use trtforge_tensorrt_sys::{Device, Driver, DriverError};

/// A driver with two GPUs; each macro can make one thing go wrong.
const DRIVER: &str = r#"
#include <stddef.h>
#include <string.h>
#ifndef INIT
#define INIT 0
#endif
#ifndef COUNT
#define COUNT 2
#endif
int cuInit(unsigned flags) { return flags == 0 ? INIT : 1; }
int cuDriverGetVersion(int *version) { *version = 12040; return 0; }
int cuDeviceGetCount(int *count) { *count = COUNT; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal + 10; return ordinal < 2 ? 0 : 101; }
int cuDeviceGetName(char *name, int length, int device) {
    if (length < 8) return 1;
    strcpy(name, device == 10 ? "first" : "second");
    return 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    if (attribute == 75) *value = device == 10 ? 9 : 8;
    else if (attribute == 76) *value = device == 10 ? 0 : 6;
    else return 1;
    return 0;
}
#ifndef NO_MEMORY_FUNCTION
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = (size_t)device << 30; return 0; }
#endif
"#;

fn compile(folder: &Path, defines: &[&str]) -> PathBuf {
    let (code, library) = (folder.join("driver.c"), folder.join("libcuda.so.1"));
    std::fs::write(&code, DRIVER).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC"]).args(defines).arg("-o").arg(&library).arg(&code);
    assert!(cc.status().unwrap().success());
    library
}

fn open(defines: &[&str]) -> Result<Driver, DriverError> {
    let folder = tempfile::tempdir().unwrap();
    Driver::open_library(compile(folder.path(), defines).as_os_str())
}

#[test]
fn gpus_come_with_name_capability_and_memory() {
    let driver = open(&[]).unwrap();
    assert_eq!(driver.cuda_version(), (12, 4));
    let device = |name: &str, compute_capability, gib: u64| Device {
        name: name.to_owned(),
        compute_capability,
        memory_bytes: gib << 30,
    };
    assert_eq!(driver.devices(), [device("first", (9, 0), 10), device("second", (8, 6), 11)]);
}

#[test]
fn each_way_to_have_no_gpu_is_told_apart() {
    let refused = |function, code| DriverError::Refused { function, code };
    let cases: [(&[&str], DriverError); 4] = [
        (&["-DINIT=100"], refused("cuInit", 100)),
        (&["-DCOUNT=0"], DriverError::NoDevice),
        (&["-DCOUNT=3"], refused("cuDeviceGet", 101)),
        (&["-DNO_MEMORY_FUNCTION"], DriverError::NoSymbol { symbol: "cuDeviceTotalMem_v2" }),
    ];
    for (defines, expected) in cases {
        assert_eq!(open(defines).unwrap_err(), expected, "{defines:?}");
    }
    let missing = Driver::open_library("/no/such/libcuda.so.1".as_ref()).unwrap_err();
    assert!(missing.to_string().starts_with("no CUDA driver: "), "{missing}");
}
