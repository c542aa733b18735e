//! Compiles the double's shared libraries: TensorRT's two SDKs each against its own headers, the CUDA driver, NVML.

#[path = "build/stubs.rs"]
mod stubs;

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// One shared library.
struct Library<'a> {
    /// Below the output folder.
    file: &'a str,
    sources: &'a [&'a str],
    /// Folder of the SDK's headers, for those of TensorRT.
    headers: Option<&'a Path>,
    /// Links against the part that all share (failures, account, the device).
    shared: bool,
}

fn main() {
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it for build scripts"));
    let headers = find_headers();
    let (tensorrt, rtx) = (headers.join("TRT-Enterprise-11.4"), headers.join("TRT-RTX-1.7"));
    for folder in ["tensorrt", "rtx", "cuda", "nvml"] {
        make_folder(&out.join(folder));
    }
    for (sdk, name) in [(&tensorrt, "tensorrt"), (&rtx, "rtx")] {
        stubs::generate(sdk, &out.join(name).join("stubs.h"));
        println!("cargo::rerun-if-changed={}", sdk.display());
    }
    let shared = ["state.cpp", "device.cpp", "json.cpp"];
    let (infer, parser) = (["tensorrt.cpp", "recording.cpp"], ["parser.cpp", "recording.cpp"]);
    compile(&headers, &out, &[library("libtrtforge_double.so", &shared, None, false)]);
    compile(
        &headers,
        &out,
        &[
            library("tensorrt/libnvinfer.so.11", &infer, Some(&tensorrt), true),
            library("tensorrt/libnvonnxparser.so.11", &parser, Some(&tensorrt), true),
            library("rtx/libtensorrt_rtx.so.1", &infer, Some(&rtx), true),
            library("rtx/libtensorrt_onnxparser_rtx.so.1", &parser, Some(&rtx), true),
            library("cuda/libcuda.so.1", &["cuda.cpp"], None, true),
            library("nvml/libnvidia-ml.so.1", &["nvml.cpp"], None, true),
        ],
    );
    // cudarc asks for `libcuda.so` first, which is the same library by another name.
    for (folder, name) in [("cuda", "libcuda.so"), ("nvml", "libnvidia-ml.so")] {
        compile_alias(&out, folder, name);
    }
    println!("cargo::rustc-env=TRTFORGE_DOUBLE_LIBRARIES={}", out.display());
    for path in ["cpp", "build", "build.rs"] {
        println!("cargo::rerun-if-changed={path}");
    }
}

fn library<'a>(
    file: &'a str,
    sources: &'a [&'a str],
    headers: Option<&'a Path>,
    shared: bool,
) -> Library<'a> {
    Library { file, sources, headers, shared }
}

/// Where trtforge-tensorrt-sys finds them too.
fn find_headers() -> PathBuf {
    println!("cargo::rerun-if-env-changed=TRTFORGE_TENSORRT_HEADERS");
    let manifest = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it for build scripts");
    let headers = env::var_os("TRTFORGE_TENSORRT_HEADERS")
        .map_or_else(|| Path::new(&manifest).join("../../.trtforge/headers"), PathBuf::from);
    let needed = headers.join("cuda_runtime_api.h");
    if !needed.is_file() {
        fail(&format!(
            "TensorRT headers not found: {} is missing; run scripts/setup",
            needed.display()
        ));
    }
    headers
}

fn compile(headers: &Path, out: &Path, libraries: &[Library<'_>]) {
    // All at once: most of the time is spent reading TensorRT's headers.
    let start = |library: &Library<'_>| {
        let child = command(headers, out, library).spawn();
        child.unwrap_or_else(|error| fail(&format!("the C++ compiler: {error}")))
    };
    let running: Vec<Child> = libraries.iter().map(start).collect();
    for (library, mut child) in libraries.iter().zip(running) {
        if !child.wait().is_ok_and(|status| status.success()) {
            fail(&format!("{} does not compile", library.file));
        }
    }
}

fn command(headers: &Path, out: &Path, library: &Library<'_>) -> Command {
    let mut command = compiler();
    command.args(["-O0", "-g", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]);
    command.args(library.sources.iter().map(|source| format!("cpp/{source}")));
    if let Some(sdk) = library.headers {
        let folder = out.join(library.file).parent().map(Path::to_path_buf).unwrap_or_default();
        command.arg("-I").arg(folder).arg("-isystem").arg(sdk).arg("-isystem").arg(headers);
        command.arg("-fvisibility=hidden");
    }
    if library.shared {
        command.arg("-L").arg(out).args(["-ltrtforge_double", "-Wl,-rpath,$ORIGIN/.."]);
    }
    link_as(&mut command, out, library.file);
    command
}

fn compile_alias(out: &Path, folder: &str, name: &str) {
    let mut command = compiler();
    command.args([
        "-shared",
        "-fPIC",
        "-x",
        "c++",
        "/dev/null",
        "-x",
        "none",
        "-Wl,--no-as-needed",
    ]);
    command.arg(out.join(folder).join(format!("{name}.1"))).arg("-Wl,-rpath,$ORIGIN:$ORIGIN/..");
    command.arg("-Wl,-rpath-link").arg(out);
    link_as(&mut command, out, &format!("{folder}/{name}"));
    if !command.status().is_ok_and(|status| status.success()) {
        fail(&format!("{folder}/{name} does not link"));
    }
}

fn link_as(command: &mut Command, out: &Path, file: &str) {
    let name = Path::new(file).file_name().unwrap_or_default().to_string_lossy();
    command.arg(format!("-Wl,-soname,{name}")).arg("-o").arg(out.join(file));
}

fn compiler() -> Command {
    let mut command = cc::Build::new().cpp(true).std("c++17").get_compiler().to_command();
    if env::var_os("CARGO_FEATURE_ADDRESS_SANITIZER").is_some() {
        command.args(["-fsanitize=address", "-fno-omit-frame-pointer"]);
    }
    command
}

fn make_folder(folder: &Path) {
    if let Err(error) = std::fs::create_dir_all(folder) {
        fail(&format!("{}: {error}", folder.display()));
    }
}

fn fail(message: &str) -> ! {
    println!("cargo::error={message}");
    std::process::exit(1);
}
