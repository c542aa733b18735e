use proptest::prelude::*;

use super::*;

fn table(tensors: BTreeMap<String, TensorCalibration>) -> CalibrationTable {
    CalibrationTable {
        schema: SCHEMA,
        tool: "trtforge 0.1.0".into(),
        model: "aa".into(),
        data: "bb".into(),
        tokenizer: None,
        lines: None,
        device: None,
        imported: None,
        search: None,
        options: TableOptions {
            method: Method::Entropy,
            samples: 512,
            seed: 17,
            strategy: "length-stratified".into(),
            max_length: 128,
            smooth: 0.0,
        },
        tensors,
        ranges: BTreeMap::from([("logits".to_owned(), 1.5)]),
        channels: BTreeMap::new(),
    }
}

fn tensor(threshold: f32) -> TensorCalibration {
    TensorCalibration {
        absmax: threshold,
        threshold,
        scale: threshold / 127.0,
        method: Method::Percentile(99.999),
        values: u64::MAX,
        guard: None,
    }
}

fn one_tensor() -> CalibrationTable {
    table(BTreeMap::from([("/gelu: out [1]".to_owned(), tensor(4.2))]))
}

#[test]
fn a_file_holds_the_table_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calibration.json");
    let table = one_tensor();
    table.save(&path).unwrap();
    assert_eq!(CalibrationTable::load(&path).unwrap(), table);
    // Again over the old file, with the same bytes, and nothing else left in the folder.
    let bytes = fs::read(&path).unwrap();
    table.save(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn the_layout_is_the_documented_one() {
    let json: serde_json::Value = serde_json::from_slice(&one_tensor().to_json()).unwrap();
    let tensor = &json["tensors"]["/gelu: out [1]"];
    let keys: Vec<&String> = tensor.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["absmax", "threshold", "scale", "method", "values"]);
    assert_eq!(tensor["method"], "percentile:99.999");
    assert_eq!(json["options"]["method"], "entropy");
    assert_eq!(json["schema"], 1);
}

#[test]
fn smoothing_is_written_only_where_there_is_some() {
    let text = String::from_utf8(one_tensor().to_json()).unwrap();
    assert!(!text.contains("smooth") && !text.contains("channels"), "{text}");
    assert_eq!(serde_json::from_str::<CalibrationTable>(&text).unwrap(), one_tensor());
    let mut smoothed = one_tensor();
    smoothed.options.smooth = 0.8;
    smoothed.channels.insert("x".into(), vec![0.1, 0.0, 3.0]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calibration.json");
    smoothed.save(&path).unwrap();
    assert_eq!(CalibrationTable::load(&path).unwrap(), smoothed);
    let error = smoothed.check("aa", None, Some(&one_tensor().options)).unwrap_err();
    assert!(error.to_string().ends_with("it was made for smooth 0.8, not 0"), "{error}");
    for (old, new, what) in [("0.8", "1.5", "smooth 1.5"), ("3.0", "-3.0", "channel absmax -3")] {
        let text = String::from_utf8(smoothed.to_json()).unwrap().replace(old, new);
        fs::write(&path, text).unwrap();
        let error = CalibrationTable::load(&path).unwrap_err();
        assert!(matches!(&error, TableError::Value { what: w, .. } if w == what), "{error}");
    }
}

#[test]
fn other_schemas_are_refused_before_anything_else_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calibration.json");
    fs::write(&path, r#"{"schema": 2, "tensors": "something new"}"#).unwrap();
    let error = CalibrationTable::load(&path).unwrap_err();
    assert!(matches!(error, TableError::Schema { found: 2, known: 1, .. }), "{error}");
}

#[test]
fn broken_files_are_refused_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calibration.json");
    assert!(matches!(CalibrationTable::load(&path), Err(TableError::Read { .. })));
    for text in ["", "{", "[]", r#"{"schema": "1"}"#, r#"{"schema": 1}"#] {
        fs::write(&path, text).unwrap();
        assert!(matches!(CalibrationTable::load(&path), Err(TableError::Parse { .. })), "{text}");
    }
    for (field, value) in [
        ("scale", "0.0"),
        ("scale", "-1.0"),
        ("threshold", "0.0"),
        ("threshold", "9.0"),
        ("absmax", "-4.0"),
    ] {
        let mut json: serde_json::Value = serde_json::from_slice(&one_tensor().to_json()).unwrap();
        json["tensors"]["/gelu: out [1]"][field] = value.parse().unwrap();
        fs::write(&path, json.to_string()).unwrap();
        let error = CalibrationTable::load(&path).unwrap_err();
        assert!(matches!(error, TableError::Value { .. }), "{field} {value}: {error}");
    }
}

#[test]
fn b09_a_table_of_another_model_is_refused_with_what_differs() {
    let table = one_tensor();
    assert!(table.check_model("aa").is_ok());
    let error = table.check_model("cc").unwrap_err();
    assert_eq!(
        error.to_string(),
        "the calibration table does not fit: it was made for model aa, not cc"
    );
    let options = TableOptions { seed: 18, samples: 64, ..table.options.clone() };
    let error = table.check("aa", Some("dd"), Some(&options)).unwrap_err();
    let TableError::Stale { differences } = error else { panic!("{error}") };
    assert_eq!(
        differences,
        [
            "it was made for data bb, not dd",
            "it was made for samples 512, not 64",
            "it was made for seed 17, not 18"
        ]
    );
    assert!(table.check("aa", Some("bb"), Some(&table.options)).is_ok());
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let error = one_tensor().save(&folder.path().join("missing/calibration.json")).unwrap_err();
    assert!(matches!(error, TableError::Write { .. }), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

proptest! {
    #[test]
    fn every_float_survives_the_file(bits in prop::collection::vec(1_u32..0x7f80_0000, 1..30)) {
        let floats = bits.iter().map(|&bits| f32::from_bits(bits));
        let ranges: BTreeMap<String, f32> = floats.enumerate().map(|(i, x)| (format!("t{i}"), x)).collect();
        let table = CalibrationTable { ranges, ..one_tensor() };
        let back: CalibrationTable = serde_json::from_slice(&table.to_json()).unwrap();
        for (name, x) in &table.ranges {
            prop_assert_eq!(x.to_bits(), back.ranges[name].to_bits());
        }
    }
}
