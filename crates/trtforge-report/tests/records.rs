//! `run.json` as a file: its schema, records of earlier layouts, and files that are none.

mod sample;

use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::{Value, json};
use trtforge_report::{
    MethodChange, Outcome, Precision, RecordError, RunOutcome, RunRecord, SCHEMA, Search,
    render_html, render_markdown, run_schema,
};

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(here(name)).unwrap()
}

/// Every record that this version may write, made up.
fn written() -> Vec<(&'static str, RunRecord)> {
    let mut searched = sample::accepted(1);
    if let Some(calibration) = &mut searched.calibration {
        calibration.search = Some(Search {
            shift: Some(f64::NAN),
            changes: vec![MethodChange { before: f64::NAN, after: 0.5, ..MethodChange::default() }],
            ..Search::default()
        });
    }
    vec![
        ("checked", sample::checked_only()),
        ("accepted", sample::accepted(2)),
        ("returned", sample::returned(2)),
        ("inconclusive", sample::inconclusive()),
        ("not finite", sample::not_finite()),
        ("searched", searched),
        ("hostile", sample::hostile(&sample::hostile_names().concat())),
    ]
}

#[test]
fn the_committed_schema_is_the_one_of_the_types() {
    let generated = format!("{:#}\n", run_schema());
    if env::var_os("UPDATE_SCHEMA").is_some() {
        fs::write(here("run.schema.json"), &generated).unwrap();
    }
    assert!(
        text("run.schema.json") == generated,
        "a type of the record changed: UPDATE_SCHEMA=1 cargo nextest run -p trtforge-report schema"
    );
}

#[test]
fn what_is_written_fits_the_schema_and_nothing_in_it_is_unknown_there() {
    let schema = run_schema();
    let open = jsonschema::validator_for(&schema).unwrap();
    let mut strict = schema;
    close(&mut strict);
    let closed = jsonschema::validator_for(&strict).unwrap();
    for (name, record) in written() {
        let json: Value = serde_json::from_str(&record.to_json()).unwrap();
        for validator in [&open, &closed] {
            let errors: Vec<String> = validator
                .iter_errors(&json)
                .map(|error| format!("{}: {error}", error.instance_path()))
                .collect();
            assert!(errors.is_empty(), "{name}: {errors:?}");
        }
        assert_eq!(RunRecord::from_json(&record.to_json()).unwrap().to_json(), record.to_json());
    }
}

/// Allows only the fields that the schema names.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.contains_key("properties") {
                fields.entry("additionalProperties").or_insert(json!(false));
            }
            fields.values_mut().for_each(close);
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

#[test]
fn the_schema_refuses_what_the_reader_refuses() {
    let validator = jsonschema::validator_for(&run_schema()).unwrap();
    let good: Value = serde_json::from_str(&sample::accepted(1).to_json()).unwrap();
    for (pointer, wrong) in wrong_values() {
        let mut json = good.clone();
        *json.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = wrong.clone();
        assert!(!validator.is_valid(&json), "{pointer} = {wrong}");
        assert!(RunRecord::from_json(&json.to_string()).is_err(), "{pointer} = {wrong}");
    }
}

/// Fields with values that are not theirs.
fn wrong_values() -> Vec<(&'static str, Value)> {
    vec![
        ("/precisions/int8/evaluation/value", json!("0.5")),
        ("/precisions/int8/evaluation/value", json!("nan")),
        ("/precisions/int8/evaluation/value", json!(null)),
        ("/precisions/int8/evaluation/interval", json!([0.1])),
        ("/precisions/int8/evaluation/interval/1", json!(true)),
        ("/precisions/int8/evaluation/count", json!(-1)),
        ("/precisions/int8/verdict/outcome", json!("maybe")),
        ("/precisions", json!([])),
        ("/precisions", json!({ "int4": {} })),
        ("/decisions/0/precision", json!("int4")),
        ("/machine", json!("here")),
        ("/machine/cores", json!(1.5)),
        ("/calibration/tensors", json!({ "x": 1 })),
        ("/warnings", json!({})),
    ]
}

#[test]
fn a_wrong_field_is_named_by_its_path() {
    let good: Value = serde_json::from_str(&sample::accepted(1).to_json()).unwrap();
    for (pointer, wrong) in wrong_values() {
        let mut json = good.clone();
        *json.pointer_mut(pointer).unwrap() = wrong.clone();
        let error = RunRecord::from_json(&json.to_string()).unwrap_err();
        let RecordError::Field { field, .. } = &error else { panic!("{error:?}") };
        let path = pointer[1..].replace('/', ".").replace(".0.", "[0].").replace(".1", "[1]");
        assert!(field.starts_with(&path), "{field} for {pointer} = {wrong}");
    }
    let mut json = good.clone();
    json["precisions"]["int8"]["evaluation"]["value"] = json!("x".repeat(1_000_000));
    let said = RunRecord::from_json(&json.to_string()).unwrap_err().to_string();
    assert!(said.chars().count() < 500, "{} characters", said.len());
    json = good.clone();
    json["inputs"]["model"]["name"] = json!({ "\u{1b}[2J\n": 1 });
    let said = RunRecord::from_json(&json.to_string()).unwrap_err().to_string();
    assert!(!said.chars().any(char::is_control), "{said:?}");
}

#[test]
fn what_is_no_record_is_refused_in_words() {
    let cases = [
        ("[]", "`.`: a list where the fields of a run belong"),
        ("null", "`.`: null where"),
        ("\"run\"", "`.`: a text where"),
        ("{}", "`schema`: it is missing"),
        ("{\"schema\": null}", "`schema`: it is missing"),
        ("{\"schema\": \"1\"}", "`schema`: a text where a whole number belongs"),
        ("{\"schema\": -1}", "`schema`: -1 is no layout; those of this version are 1 to 2"),
        ("{\"schema\": 1.5}", "`schema`: 1.5 is no layout"),
        ("{\"schema\": 1}", "missing field `tool`"),
    ];
    for (json, expected) in cases {
        let said = RunRecord::from_json(json).unwrap_err().to_string();
        assert!(said.contains(expected), "{json}: {said}");
    }
    let deep =
        format!("{{\"schema\": 1, \"profile\": {}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    for json in ["", "{", "run", "{\"schema\": NaN}", "{\"schema\": 1, \"name\": 1e999}", &deep] {
        let error = RunRecord::from_json(json).unwrap_err();
        assert!(matches!(error, RecordError::NotARecord { .. }), "{error:?}");
    }
}

#[test]
fn layouts_that_are_not_known_are_named() {
    for found in [0_u64, u64::from(SCHEMA) + 1, 7, u64::MAX] {
        let json = format!("{{\"schema\": {found}, \"maker\": 1}}");
        let said = RunRecord::from_json(&json).unwrap_err().to_string();
        let expected =
            format!("this run record has schema {found}; this version reads schemas 1 to {SCHEMA}");
        assert_eq!(said, expected);
    }
}

#[test]
fn the_first_records_still_open_and_mean_the_same() {
    let record = RunRecord::from_json(&text("tests/records/schema-1-first.json")).unwrap();
    assert_eq!(record.schema, SCHEMA);
    let int8 = &record.precisions[&Precision::Int8];
    let verdict = int8.verdict.as_ref().unwrap();
    // Inconclusive and published: the profile of that run tolerated it, which the record of its time did not say.
    assert_eq!((verdict.outcome, verdict.passed), (Outcome::Inconclusive, true));
    assert_eq!(record.outcome(), RunOutcome::Accepted);
    assert_eq!(int8.metrics, [int8.evaluation.clone().unwrap()]);
    assert_eq!(record.precisions[&Precision::Fp32].metrics.len(), 1);
    assert!(render_html(&record).contains("0.7724"));
    assert!(render_markdown(&record).contains("0.7724"));
    let kept_back = text("tests/records/schema-1-first.json")
        .replace("\"published\": true", "\"published\": false");
    let record = RunRecord::from_json(&kept_back).unwrap();
    assert_eq!(record.outcome(), RunOutcome::Refused);
}

#[test]
fn a_record_from_before_the_second_layout_opens_as_it_was() {
    // What the version before wrote of this very run: all fields, and `null` for a shift that was no number.
    let (_, searched) = written().into_iter().find(|(name, _)| *name == "searched").unwrap();
    let mut old: Value = serde_json::from_str(&searched.to_json()).unwrap();
    old["schema"] = json!(1);
    old["calibration"]["search"]["changes"][0]["before"] = json!(null);
    old["calibration"]["search"]["shift"] = json!(null);
    let record = RunRecord::from_json(&old.to_string()).unwrap();
    let found = record.calibration.as_ref().unwrap().search.as_ref().unwrap();
    assert!(found.changes[0].before.is_nan() && found.changes[0].after == 0.5);
    assert_eq!(found.shift, None);
    assert_eq!(record.precisions[&Precision::Int8], searched.precisions[&Precision::Int8]);
    assert_eq!(record.decisions, searched.decisions);
    // Once read it is written in today's layout.
    let again: Value = serde_json::from_str(&record.to_json()).unwrap();
    assert_eq!(again["schema"], json!(SCHEMA));
    assert!(jsonschema::validator_for(&run_schema()).unwrap().is_valid(&again));
}
