//! Compiles the shim once per TensorRT SDK, each time against that SDK's own headers, and reads the headers' constants.

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;

/// One SDK that the shim speaks.
struct Sdk {
    /// The namespace its compilation of `sdk.cpp` lives in, and the name of its constants module.
    name: &'static str,
    headers: PathBuf,
}

fn main() {
    let root = workspace_root();
    let cpp = root.join("cpp");
    let headers = find_headers(&root);
    let mut sdks = vec![
        Sdk { name: "rtx", headers: headers.join("TRT-RTX-1.7") },
        Sdk { name: "tensorrt11", headers: headers.join("TRT-Enterprise-11.4") },
    ];
    println!("cargo::rustc-check-cfg=cfg(with_tensorrt10)");
    if let Some(tensorrt10) = find_tensorrt10() {
        println!("cargo::rustc-cfg=with_tensorrt10");
        sdks.push(Sdk { name: "tensorrt10", headers: tensorrt10 });
    }
    // First, since it generates the header that every compilation includes.
    let mut bridge = cxx_build::bridge("src/bridge.rs");
    configure(&mut bridge, &cpp).file(cpp.join("src/bridge.cpp"));
    if sdks.iter().any(|sdk| sdk.name == "tensorrt10") {
        bridge.define("TRTFORGE_WITH_TENSORRT10", None);
    }
    bridge.compile("trtforge_bridge");
    for sdk in &sdks {
        require(&sdk.headers.join("NvInfer.h"));
        compile_sdk(&cpp, &headers, sdk);
        generate_constants(&headers, sdk);
        println!("cargo::rerun-if-changed={}", sdk.headers.display());
    }
    println!("cargo::rerun-if-changed={}", cpp.display());
    println!("cargo::rerun-if-changed=src/bridge.rs");
    println!("cargo::rerun-if-changed=build.rs");
}

fn workspace_root() -> PathBuf {
    let manifest = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it for build scripts");
    Path::new(&manifest)
        .join("../..")
        .canonicalize()
        .expect("the crate lies two folders below the workspace")
}

fn find_headers(root: &Path) -> PathBuf {
    println!("cargo::rerun-if-env-changed=TRTFORGE_TENSORRT_HEADERS");
    let headers = env::var_os("TRTFORGE_TENSORRT_HEADERS")
        .map_or_else(|| root.join(".trtforge/headers"), PathBuf::from);
    require(&headers.join("cuda_runtime_api.h"));
    headers
}

/// The folder of TensorRT 10's headers, when the user gives one; other versions there are not for this build.
fn find_tensorrt10() -> Option<PathBuf> {
    println!("cargo::rerun-if-env-changed=TENSORRT_INCLUDE_DIR");
    let folder = PathBuf::from(env::var_os("TENSORRT_INCLUDE_DIR")?);
    let version = folder.join("NvInferVersion.h");
    require(&version);
    let text = std::fs::read_to_string(&version)
        .unwrap_or_else(|error| fail(&format!("{}: {error}", version.display())));
    let is_major = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        words
            .next()
            .is_some_and(|name| matches!(name, "NV_TENSORRT_MAJOR" | "TRT_MAJOR_ENTERPRISE"))
            && words.next() == Some("10")
    };
    if text.lines().any(is_major) {
        return Some(folder);
    }
    println!("cargo::warning=TENSORRT_INCLUDE_DIR holds no TensorRT 10 headers; they are not used");
    None
}

fn require(file: &Path) {
    if !file.is_file() {
        fail(&format!(
            "TensorRT headers not found: {} is missing; run scripts/setup, or set TRTFORGE_TENSORRT_HEADERS to a folder \
             that holds TRT-RTX-1.7/, TRT-Enterprise-11.4/ and cuda_runtime_api.h",
            file.display()
        ));
    }
}

fn fail(message: &str) -> ! {
    println!("cargo::error={message}");
    std::process::exit(1);
}

fn configure<'b>(build: &'b mut cc::Build, cpp: &Path) -> &'b mut cc::Build {
    if env::var_os("CARGO_FEATURE_ADDRESS_SANITIZER").is_some() {
        build.flag("-fsanitize=address").flag("-fno-omit-frame-pointer");
        link_address_sanitizer();
    }
    build
        .std("c++17")
        .include(cpp.join("include"))
        .warnings(true)
        .extra_warnings(true)
        .flag_if_supported("-fvisibility=hidden")
}

/// Stable Rust instruments C++ only, and its linker knows nothing of the run-time part, which the compiler has.
fn link_address_sanitizer() {
    let compiler = cc::Build::new().cpp(true).get_compiler();
    let output = Command::new(compiler.path()).arg("-print-file-name=libasan.so").output();
    let path = output.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    let path = path.map(|path| PathBuf::from(path.trim())).filter(|path| path.is_absolute());
    let Some(folder) = path.as_deref().and_then(Path::parent) else {
        fail("the C++ compiler has no libasan.so: install GCC's, or leave the feature out")
    };
    println!("cargo::rustc-link-search=native={}", folder.display());
    println!("cargo::rustc-link-lib=dylib=asan");
}

/// The SDKs' headers define the same names with different layouts: each compilation gets namespaces of its own, and
/// the headers are system headers, so that only our own warnings show.
fn compile_sdk(cpp: &Path, headers: &Path, sdk: &Sdk) {
    // No bridge source here, only its include folders.
    let mut build = cxx_build::bridges(std::iter::empty::<&str>());
    configure(&mut build, cpp)
        .file(cpp.join("src/sdk.cpp"))
        .define("TRTFORGE_SDK", sdk.name)
        .define("nvinfer1", &*format!("nvinfer1_{}", sdk.name))
        .define("nvonnxparser", &*format!("nvonnxparser_{}", sdk.name));
    if has_stream_writer(&sdk.headers) {
        build.define("TRTFORGE_HAS_STREAM_WRITER", None);
    }
    for folder in [&sdk.headers, headers] {
        build.flag("-isystem").flag(folder);
    }
    build.compile(&format!("trtforge_{}", sdk.name));
}

/// Whether the headers have the interface that takes a plan piece by piece; early versions of 10 do not, and a class
/// that is not declared cannot be asked for in C++.
fn has_stream_writer(headers: &Path) -> bool {
    let text = std::fs::read_to_string(headers.join("NvInfer.h")).unwrap_or_default();
    text.contains("buildSerializedNetworkToStream")
}

/// The enumerations and version numbers of one SDK, as its headers have them.
fn generate_constants(headers: &Path, sdk: &Sdk) {
    println!("cargo::rerun-if-env-changed=LIBCLANG_PATH");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it for build scripts"));
    let mut builder = bindgen::Builder::default()
        .header_contents("tensorrt.hpp", "#include <NvInfer.h>\n#include <NvOnnxParser.h>\n")
        .clang_args(["-x", "c++", "-std=c++17", "-w"])
        .clang_args([
            format!("-isystem{}", sdk.headers.display()),
            format!("-isystem{}", headers.display()),
        ])
        .default_enum_style(bindgen::EnumVariation::ModuleConsts)
        .layout_tests(false)
        .generate_comments(false);
    // libclang from a wheel has no builtin headers (stddef.h); the compiler's own do, searched last.
    if let Some(folder) = compiler_include_folder() {
        builder = builder.clang_args([format!("-idirafter{folder}")]);
    }
    for name in [
        "BuilderFlag",
        "DataType",
        "ErrorCode",
        "HardwareCompatibilityLevel",
        "LayerInformationFormat",
    ] {
        builder = builder.allowlist_type(format!("nvinfer1::{name}"));
    }
    for name in [
        "ComputeCapability",
        "ILogger_Severity",
        "MemoryPoolType",
        "PreviewFeature",
        "ProfilingVerbosity",
        "RuntimePlatform",
        "TacticSource",
        "TilingOptimizationLevel",
    ] {
        builder = builder.allowlist_type(format!("nvinfer1::{name}"));
    }
    let bindings = builder
        .allowlist_type("nvinfer1::v_1_0::ILogger_Severity")
        .allowlist_type("nvonnxparser::ErrorCode")
        .allowlist_var("NV_TENSORRT_(MAJOR|MINOR|PATCH|BUILD)")
        .allowlist_recursively(false);
    // Without libclang, bindgen panics; say what brings it instead.
    let generated = catch_unwind(AssertUnwindSafe(|| bindings.generate()));
    let bindings = generated
        .unwrap_or_else(|_| {
            fail("libclang cannot be loaded: run scripts/setup, or set LIBCLANG_PATH to its folder")
        })
        .unwrap_or_else(|error| {
            fail(&format!("bindgen could not read the headers of {}: {error}", sdk.name))
        });
    let file = out.join(format!("{}.rs", sdk.name));
    bindings
        .write_to_file(&file)
        .unwrap_or_else(|error| fail(&format!("{}: {error}", file.display())));
}

fn compiler_include_folder() -> Option<String> {
    let compiler = cc::Build::new().cpp(true).get_compiler();
    let output = Command::new(compiler.path()).arg("-print-file-name=include").output().ok()?;
    let folder = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    Path::new(&folder).is_absolute().then_some(folder)
}
