use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::part::Recipe;
use crate::row_set::RowSet;
use crate::table::{TableOptions, TensorCalibration};

fn parse(text: impl AsRef<[u8]>) -> Result<Cache, CacheError> {
    Cache::parse(&PathBuf::from("int8.cache"), text.as_ref(), CacheUnits::Scales)
}

const HEADER: &str = "TRT-8501-EntropyCalibration2\n";

fn of_lines(lines: &str) -> Result<Cache, CacheError> {
    parse(format!("{HEADER}{lines}"))
}

#[test]
fn scales_are_read_to_the_bit() {
    // The vendor's own example: 0x3c008912 is 0.0078451 and 127 levels of it reach 0.9963.
    let cache = of_lines(
        "data: 3c008912\n(Unnamed Layer* 4) [Fully Connected]_output: 3D65992f\n/a: b: 3f800000\n",
    )
    .unwrap();
    assert_eq!(cache.scales["data"].to_bits(), 0x3c00_8912);
    assert!((cache.scales["data"] * 127.0 - 0.9963).abs() < 1e-4);
    assert_eq!(cache.scales["(Unnamed Layer* 4) [Fully Connected]_output"].to_bits(), 0x3d65_992f);
    assert_eq!(cache.scales["/a: b"], 1.0);
    assert_eq!(cache.header.unwrap().to_string(), "TRT-8501-EntropyCalibration2");
    assert!(cache.notes.is_empty());
}

#[test]
fn all_four_kinds_are_known_and_no_other() {
    for name in
        ["EntropyCalibration2", "EntropyCalibration", "MinMaxCalibration", "LegacyCalibration"]
    {
        let header = parse(format!("TRT-100300-{name}\nx: 3f800000\n")).unwrap().header.unwrap();
        assert_eq!((header.kind.name(), header.version.as_str()), (name, "100300"));
    }
    for (line, word) in [
        ("TRT-8501-EntropyCalibration3", "EntropyCalibration2, EntropyCalibration, MinMax"),
        ("TRT-8501-entropycalibration2", "is not one of"),
        ("TRT-8501", "no algorithm"),
        ("TRT--EntropyCalibration2", "no version"),
        ("TRT-85 01-EntropyCalibration2", "no version"),
    ] {
        let error = parse(format!("{line}\nx: 3f800000\n")).unwrap_err();
        assert!(matches!(error, CacheError::Header { .. }), "{line}: {error}");
        assert!(error.to_string().contains(word), "{line}: {error}");
    }
    let other = parse("TRT-8XXX-MinMaxCalibration\nx: 3f800000\n").unwrap();
    assert!(other.notes[0].contains("8XXX"), "{:?}", other.notes);
}

#[test]
fn line_ends_marks_and_blank_lines_change_nothing() {
    let plain = of_lines("x: 3f800000\ny: 40000000\n").unwrap();
    for text in [
        "\u{FEFF}TRT-8501-EntropyCalibration2\nx: 3f800000\ny: 40000000\n",
        "TRT-8501-EntropyCalibration2\r\nx: 3f800000\r\ny: 40000000\r\n",
        "TRT-8501-EntropyCalibration2\n\nx: 3f800000\n\ny: 40000000",
        "TRT-8501-EntropyCalibration2 \nx: 3f800000 \ny: 40000000\t\n",
    ] {
        assert_eq!(parse(text).unwrap(), plain, "{text:?}");
    }
}

#[test]
fn lines_at_fault_are_named_one_by_one() {
    for (lines, line, word) in [
        ("x: 7fc00000", 2, "tensor `x` has the scale NaN"),
        ("x: ffc00000", 2, "NaN"),
        ("y: 3f800000\nx: bf800000", 3, "negative scale -1"),
        ("x: 00000000", 2, "the scale 0"),
        ("x: 80000000", 2, "the scale 0"),
        ("x: 7f800000", 2, "no float holds"),
        ("x: ff800000", 2, "negative scale -inf"),
        ("x: 7f000000", 2, "no float holds"),
        ("x: 00000001", 2, "takes for 0"),
        ("x: 3f80000", 2, "`3f80000`, not a scale of 8"),
        ("x: 3f8000000", 2, "not a scale of 8"),
        ("x: 0x3f8000", 2, "not a scale of 8"),
        ("x: 0", 2, "`0`, not a scale of 8"),
        ("x: 3f80zz00", 2, "not a scale of 8"),
        ("x: +3f80000", 2, "not a scale of 8"),
        ("x: 1.5", 2, "not a scale of 8"),
        ("x: ", 2, "not a scale of 8"),
        ("x:3f800000", 2, "no `: `"),
        ("x 3f800000", 2, "no `: `"),
        (": 3f800000", 2, "no tensor name"),
        ("x: 3f800000\ny: 3f800000\nx: 3f800001", 4, "and 1 in line 2"),
    ] {
        let error = of_lines(lines).unwrap_err();
        let place = format!("int8.cache:{line}: ");
        assert!(error.to_string().starts_with(&place), "{lines}: {error}");
        assert!(error.to_string().contains(word), "{lines}: {error}");
    }
    let twice = of_lines("x: 3f800000\nx: 3f800000\n").unwrap();
    assert_eq!(twice.notes, ["tensor `x` stands in lines 2 and 3, with the same scale"]);
}

#[test]
fn other_files_are_recognised() {
    assert!(matches!(parse(""), Err(CacheError::Empty { .. })));
    assert!(matches!(parse("\n \n"), Err(CacheError::Empty { .. })));
    assert!(matches!(parse(HEADER), Err(CacheError::Empty { .. })));
    assert!(matches!(parse("x: 3f800000\n"), Err(CacheError::NoHeader { .. })));
    assert!(matches!(parse("EntropyCalibration2\n"), Err(CacheError::NoHeader { .. })));
    assert!(matches!(parse(b"\x18\x00\x00\x00\xff\xfe"), Err(CacheError::NotText { .. })));
    assert!(matches!(parse("{\"schema\": 1}"), Err(CacheError::Json { .. })));
    assert!(matches!(parse("data_0 2.008338\n"), Err(CacheError::OnnxRuntime { .. })));
    assert!(matches!(parse("/a/b c 1e-3\n"), Err(CacheError::OnnxRuntime { .. })));
}

#[test]
fn ranges_of_onnx_runtime_are_divided_only_when_asked() {
    let ranges = |text: &str| {
        Cache::parse(&PathBuf::from("a"), text.as_bytes(), CacheUnits::OnnxRuntimeRanges)
    };
    let cache = ranges("data_0 2.54\n/a b 127\n").unwrap();
    assert_eq!(
        cache.scales,
        BTreeMap::from([("data_0".into(), 2.54 / 127.0), ("/a b".into(), 1.0)])
    );
    assert_eq!(cache.header, None);
    assert!(matches!(ranges(HEADER), Err(CacheError::HasScales { .. })));
    for text in ["x nan\n", "x -1\n", "x 0\n", "x inf\n", "x: 3f800000\n", "x\n", " 1\n"] {
        assert!(matches!(ranges(text), Err(CacheError::Line { line: 1, .. })), "{text}");
    }
}

#[test]
fn versions_are_written_as_the_library_writes_them() {
    for (given, written) in [
        ("8501", Some("8501")),
        ("100300", Some("100300")),
        ("8.5.1", Some("8501")),
        ("8.6", Some("8600")),
        ("10.3.0", Some("100300")),
        ("10.13.2", Some("101302")),
        ("7.1.3", Some("7103")),
        ("", None),
        ("8", None),
        ("8.x", None),
        ("8.5.1.7", None),
        ("8.5.12", None),
        ("-8.5", None),
    ] {
        assert_eq!(cache_version(given).as_deref(), written, "{given}");
    }
}

fn table(scales: &BTreeMap<String, f32>) -> CalibrationTable {
    let recipe = Recipe {
        tool: "t".into(),
        model: "aa".into(),
        data: "bb".into(),
        tokenizer: "cc".into(),
        options: TableOptions {
            method: Method::Mse,
            samples: 1,
            seed: 0,
            strategy: "first".into(),
            max_length: 8,
            smooth: 0.0,
        },
        lines: RowSet::up_to(1),
        settings: BTreeMap::new(),
    };
    let tensor = |&scale: &f32| {
        let threshold = scale * LEVELS as f32;
        let (method, guard) = (Method::Mse, None);
        TensorCalibration { absmax: threshold, threshold, scale, method, values: 1, guard }
    };
    let tensors = scales.iter().map(|(name, scale)| (name.clone(), tensor(scale))).collect();
    recipe.table(tensors, BTreeMap::new(), BTreeMap::new())
}

#[test]
fn what_a_cache_cannot_say_is_refused() {
    let header: CacheHeader = HEADER.trim_end().parse().unwrap();
    let mut smoothed = table(&BTreeMap::from([("x".into(), 1.0)]));
    smoothed.options.smooth = 0.8;
    assert!(matches!(cache_bytes(&smoothed, &header), Err(CacheError::Smoothed { .. })));
    let odd = table(&BTreeMap::from([("x\ny".into(), 1.0)]));
    assert!(matches!(cache_bytes(&odd, &header), Err(CacheError::Name { .. })));
}

proptest! {
    #[test]
    fn scales_survive_a_cache_to_the_bit(
        scales in prop::collection::btree_map(
            "[ -~]{1,12}",
            (0x0080_0000_u32..0x7c00_0000).prop_map(f32::from_bits),
            1..20,
        ),
        kind in prop::sample::select(CacheKind::ALL.to_vec()),
    ) {
        let header = CacheHeader { version: "8601".into(), kind };
        let bytes = cache_bytes(&table(&scales), &header).unwrap();
        let back = parse(&bytes).unwrap();
        prop_assert_eq!(back.header.as_ref(), Some(&header));
        prop_assert_eq!(&back.scales, &scales);
        prop_assert_eq!(cache_bytes(&table(&back.scales), &header).unwrap(), bytes);
    }

    #[test]
    fn no_bytes_make_the_reader_fail_hard(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes);
        let _ = parse([HEADER.as_bytes(), &bytes].concat());
        let _ = Cache::parse(&PathBuf::from("a"), &bytes, CacheUnits::OnnxRuntimeRanges);
    }
}
