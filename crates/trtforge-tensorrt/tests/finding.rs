//! Libraries that are missing, false, or of another version; plans without a GPU; what doctor sees.

mod common;

use common::{batches, build_plan, compile_library, matmul, rtx};
use trtforge_tensorrt::{
    Backend, Choice, ErrorKind, Library, LibraryState, Part, PlanError, PlanHeader, Sdk,
    TensorRtError, choose, deserialize, driver, probe,
};

fn miette_help(error: &TensorRtError) -> String {
    miette::Diagnostic::help(error).unwrap().to_string()
}

#[test]
fn a_missing_library_says_where_it_looked_and_how_to_get_it() {
    let folder = tempfile::tempdir().unwrap();
    let error = Library::locate(Sdk::TensorRtRtx, Some(folder.path())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the builder of TensorRT-RTX (`libtensorrt_rtx.so.1`) is not installed"
    );
    let help = miette_help(&error);
    assert!(help.contains("scripts/setup") && help.contains("pip install"), "{help}");
    assert!(help.contains(&*folder.path().to_string_lossy()), "{help}");
    assert_eq!(error.kind(), ErrorKind::Missing);
    let error = Library::locate(Sdk::TensorRtRtx, Some(&folder.path().join("gone"))).unwrap_err();
    assert!(matches!(error, TensorRtError::SearchPathMissing { .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::BadInput);
}

#[test]
fn false_libraries_are_refused_with_the_reason() {
    let source = |version: i32, more: &str| {
        format!("int getInferLibVersion(void) {{ return {version}; }}\n{more}")
    };
    let builder = "void *createInferBuilder_INTERNAL(void *l, int v) { return 0; }";
    let cases = [
        ("int nothing(void) { return 0; }".to_owned(), "no `getInferLibVersion` in it"),
        (source(10_500, builder), "is version 1.5.0, but this build speaks TensorRT-RTX 1.7.1"),
        (source(110_400, builder), "is version 11.4.0, but this build speaks TensorRT-RTX 1.7.1"),
        (source(10_701, ""), "no `createInferBuilder_INTERNAL` in it"),
    ];
    for (source, expected) in cases {
        let folder = tempfile::tempdir().unwrap();
        compile_library(&folder.path().join("libtensorrt_rtx.so.1"), &source);
        let error = Library::locate(Sdk::TensorRtRtx, Some(folder.path())).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(error.kind(), ErrorKind::Missing);
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("libtensorrt_rtx.so.1"), "no library").unwrap();
    let error = Library::locate(Sdk::TensorRtRtx, Some(folder.path())).unwrap_err();
    assert!(error.to_string().contains("not a loadable library"), "{error}");
}

#[test]
fn a_builder_without_its_parser_is_not_enough() {
    let folder = tempfile::tempdir().unwrap();
    let real = rtx().path().to_owned();
    std::os::unix::fs::symlink(real, folder.path().join("libtensorrt_rtx.so.1")).unwrap();
    let error = Library::locate(Sdk::TensorRtRtx, Some(folder.path())).unwrap_err();
    assert!(error.to_string().contains("the ONNX parser of TensorRT-RTX"), "{error}");
    compile_library(
        &folder.path().join("libtensorrt_onnxparser_rtx.so.1"),
        "int getNvOnnxParserVersion(void) { return 200; }",
    );
    let error = Library::locate(Sdk::TensorRtRtx, Some(folder.path())).unwrap_err();
    assert!(error.to_string().contains("no `createNvOnnxParser_INTERNAL` in it"), "{error}");
}

#[test]
fn a_builder_that_makes_nothing_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let onnx = folder.path().join("tiny.onnx");
    matmul().save(&onnx).unwrap();
    // Null, and the invalid pointer that TensorRT was seen to return without a driver.
    for pointer in ["0", "0x228"] {
        let folder = tempfile::tempdir().unwrap();
        let builder = format!(
            "int getInferLibVersion(void) {{ return 10701; }}\n\
             void *createInferBuilder_INTERNAL(void *logger, int version) {{ return (void *){pointer}; }}"
        );
        compile_library(&folder.path().join("libtensorrt_rtx.so.1"), &builder);
        compile_library(
            &folder.path().join("libtensorrt_onnxparser_rtx.so.1"),
            "int getNvOnnxParserVersion(void) { return 200; }\n\
             void *createNvOnnxParser_INTERNAL(void *n, void *l, int v) { return 0; }",
        );
        let library = Library::locate(Sdk::TensorRtRtx, Some(folder.path())).unwrap();
        let options = trtforge_tensorrt::BuildOptions::default();
        let error = trtforge_tensorrt::build(
            &library,
            &onnx,
            &[batches(1, 4, 8)],
            &options,
            &common::go_on,
        );
        let error = error.unwrap_err();
        assert_eq!(error.to_string(), "TensorRT-RTX failed: the library made no builder");
        assert_eq!(error.kind(), ErrorKind::Failed);
    }
}

#[test]
fn the_lean_runtime_opens_and_says_its_version_but_builds_nothing() {
    let lean = Library::locate_runtime(Sdk::TensorRt, Part::LeanRuntime, None)
        .unwrap_or_else(|error| panic!("run scripts/setup: {error}"));
    assert_eq!(lean.version().to_string(), "11.4.0");
    let folder = tempfile::tempdir().unwrap();
    let onnx = folder.path().join("tiny.onnx");
    matmul().save(&onnx).unwrap();
    let options = trtforge_tensorrt::BuildOptions::default();
    let error =
        trtforge_tensorrt::build(&lean, &onnx, &[batches(1, 4, 8)], &options, &common::go_on);
    let error = error.unwrap_err();
    let expected = [ErrorKind::Missing, ErrorKind::Failed];
    assert!(expected.contains(&error.kind()), "{error}");
}

#[test]
fn plans_are_not_read_without_a_gpu() {
    let folder = tempfile::tempdir().unwrap();
    let onnx = folder.path().join("tiny.onnx");
    matmul().save(&onnx).unwrap();
    let plan = build_plan(&onnx, &[batches(1, 4, 8)]).unwrap();
    let lean = Library::locate_runtime(Sdk::TensorRt, Part::LeanRuntime, None).unwrap();
    for library in [&rtx(), &lean] {
        let error = deserialize(library, b"garbage").err().unwrap();
        assert!(matches!(error, TensorRtError::Plan(PlanError::NotAPlan { .. })), "{error}");
        assert_eq!(error.kind(), ErrorKind::BadInput);
    }
    // Another SDK's plan never reaches the library, with a GPU or without.
    let error = deserialize(&lean, plan.bytes()).err().unwrap();
    assert_eq!(error.to_string(), "this is a plan of TensorRT-RTX, and TensorRT was to run it");
    assert_eq!(error.kind(), ErrorKind::Missing);
    let cut = &plan.bytes()[..plan.bytes().len() - 1];
    let error = deserialize(&rtx(), cut).err().unwrap();
    assert!(matches!(error, TensorRtError::Plan(PlanError::Truncated { .. })), "{error}");
    if driver().is_err() {
        let error = deserialize(&rtx(), plan.bytes()).err().unwrap();
        assert!(error.to_string().starts_with("reading a plan needs a GPU"), "{error}");
        assert_eq!(error.kind(), ErrorKind::Missing);
    }
}

#[test]
fn a_real_plan_states_its_maker_and_size() {
    let folder = tempfile::tempdir().unwrap();
    let onnx = folder.path().join("tiny.onnx");
    matmul().save(&onnx).unwrap();
    let plan = build_plan(&onnx, &[batches(1, 4, 8)]).unwrap();
    let header = PlanHeader::read(plan.bytes()).unwrap();
    assert_eq!(header.sdk, Sdk::TensorRtRtx);
    assert_eq!(header.bytes, Some(plan.bytes().len() as u64));
    // To the build number: what the plan says of its maker is what the library says of itself.
    assert_eq!(header.version, Some(rtx().exact_version()));
    assert!(rtx().exact_version().build.is_some());
    header.check_library(&rtx()).unwrap();
}

#[test]
fn automatic_choice_falls_back_to_rtx_and_says_why() {
    if driver().is_ok() {
        eprintln!("skipped: this machine has a GPU");
        return;
    }
    let Choice::Sdk { library, driver, reason } = choose(Backend::Auto, None).unwrap() else {
        panic!("nothing was chosen");
    };
    assert_eq!(library.sdk(), Sdk::TensorRtRtx);
    assert!(driver.is_none());
    assert!(reason.contains("needs a GPU"), "{reason}");
    let error = choose(Backend::TensorRt, None).unwrap_err();
    assert!(error.to_string().starts_with("backend `tensorrt` needs a GPU"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Missing);
    let empty = tempfile::tempdir().unwrap();
    let error = choose(Backend::Auto, Some(empty.path())).unwrap_err().to_string();
    assert!(error.contains("GPU") && error.contains("libtensorrt_rtx.so.1"), "{error}");
}

#[test]
fn doctor_sees_what_setup_brought() {
    let report = probe(None);
    let library =
        |sdk, part| report.libraries.iter().find(|l| l.sdk == sdk && l.part == part).unwrap();
    for (sdk, part, version) in
        [(Sdk::TensorRtRtx, Part::Builder, "1.7.1"), (Sdk::TensorRt, Part::LeanRuntime, "11.4.0")]
    {
        let found = library(sdk, part);
        assert_eq!(found.state, LibraryState::Usable, "run scripts/setup: {found:?}");
        assert_eq!(found.version.unwrap().to_string(), version);
        assert_eq!(found.header_version.to_string(), version);
        assert!(found.path.is_some() && found.problem.is_none(), "{found:?}");
    }
    assert_eq!(library(Sdk::TensorRtRtx, Part::Parser).state, LibraryState::Usable);
    let rtx = report.backends.iter().find(|b| b.backend == Backend::TensorRtRtx).unwrap();
    assert!(rtx.builds, "{rtx:?}");
    assert_eq!(rtx.runs, report.driver_problem.is_none());
    assert_eq!(report.gpus.is_empty(), report.driver_problem.is_some());
}

#[test]
fn doctor_lists_every_file_of_a_librarys_name() {
    let source = |version: i32| {
        format!(
            "int getInferLibVersion(void) {{ return {version}; }}\n\
             void *createInferBuilder_INTERNAL(void *l, int v) {{ return 0; }}"
        )
    };
    let name = "libtensorrt_rtx.so.1";
    // In the order of the search: an older version, no library at all, then (in `lib`) one that fits.
    for (first, version, says) in [
        (Some(source(10_500)), Some("1.5.0"), "this build speaks 1.7.1"),
        (None, None, "not a loadable library"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("lib")).unwrap();
        match first {
            Some(source) => compile_library(&folder.path().join(name), &source),
            None => std::fs::write(folder.path().join(name), "no library").unwrap(),
        }
        let used = folder.path().join("lib").join(name);
        std::os::unix::fs::symlink(rtx().path().canonicalize().unwrap(), &used).unwrap();
        let report = probe(Some(folder.path()));
        let found = report.libraries.iter().find(|l| l.path.is_some()).unwrap();
        assert_eq!((found.sdk, found.part), (Sdk::TensorRtRtx, Part::Builder));
        assert_eq!(found.path.as_deref(), used.to_str());
        assert_eq!(found.found_in.as_deref(), Some("the given path"));
        let [other] = found.others.as_slice() else { panic!("{found:?}") };
        assert_eq!(other.path, folder.path().join(name).display().to_string());
        assert_eq!(other.version.map(|version| version.to_string()).as_deref(), version);
        assert!(other.problem.as_ref().unwrap().contains(says), "{other:?}");
    }
    // Two that fit: the first serves. The same file under another folder's name is no other.
    let folder = tempfile::tempdir().unwrap();
    let (first, later) = (folder.path().join(name), folder.path().join("lib").join(name));
    std::fs::create_dir(folder.path().join("lib")).unwrap();
    compile_library(&first, &source(10_701));
    std::fs::copy(&first, &later).unwrap();
    let others = |folder| {
        let report = probe(Some(folder));
        let found = report.libraries.iter().find(|l| l.path.is_some()).unwrap();
        assert_eq!(found.path.as_deref(), first.to_str());
        found.others.clone()
    };
    let [other] = &others(folder.path())[..] else { panic!() };
    assert_eq!(other.path, later.display().to_string());
    assert_eq!((other.version.unwrap().to_string(), &other.problem), ("1.7.1".to_owned(), &None));
    std::fs::remove_file(&later).unwrap();
    std::os::unix::fs::symlink(&first, &later).unwrap();
    assert_eq!(others(folder.path()), []);
}

#[test]
fn every_real_runtime_refuses_what_is_no_plan_and_reports_the_missing_driver() {
    if driver().is_ok() {
        eprintln!("skipped: this machine has a GPU");
        return;
    }
    let parts = [
        (Sdk::TensorRt, Part::LeanRuntime, "11.4.0"),
        (Sdk::TensorRt, Part::DispatchRuntime, "11.4.0"),
        (Sdk::TensorRtRtx, Part::Builder, "1.7.1"),
    ];
    for (sdk, part, version) in parts {
        let library = match Library::locate_runtime(sdk, part, None) {
            Ok(library) => library,
            Err(_) if part == Part::DispatchRuntime => {
                eprintln!("skipped: the dispatch runtime is not installed");
                continue;
            }
            Err(error) => panic!("run scripts/setup: {error}"),
        };
        assert_eq!(library.version().to_string(), version, "{part}");
        let random: Vec<u8> =
            (0..4096_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let plan_like = |magic: &[u8]| [magic, &random].concat();
        let cases = [
            (Vec::new(), ErrorKind::BadInput),
            (random.clone(), ErrorKind::BadInput),
            (b"ONNX-like \x08\x07".to_vec(), ErrorKind::BadInput),
            (plan_like(b"trtf"), ErrorKind::BadInput),
            // These might be plans; who could tell needs a GPU, and its driver is asked before the library is.
            (b"ftrt".to_vec(), ErrorKind::Missing),
            (plan_like(b"ftrt"), ErrorKind::Missing),
            (plan_like(b"vtrt"), ErrorKind::Missing),
        ];
        for (bytes, kind) in cases {
            let error = deserialize(&library, &bytes).err().unwrap();
            assert_eq!(error.kind(), kind, "{part}, {} bytes: {error}", bytes.len());
            assert!(!miette_help(&error).is_empty());
        }
    }
}
