use std::path::Path;

use serde::Deserialize;
use trtforge_onnx::{ElementType, Model};

use super::*;
use crate::positions::position_count;

fn input(name: &str, dims: Vec<Dim>) -> ValueInfo {
    ValueInfo { name: name.to_owned(), element_type: ElementType::I64, shape: Some(dims) }
}

fn named(name: &str) -> Dim {
    Dim::Named(name.to_owned())
}

fn bert() -> Vec<ValueInfo> {
    let dims = || vec![named("batch"), named("sequence")];
    vec![input("input_ids", dims()), input("attention_mask", dims())]
}

fn profile(ranges: &[(&str, [&[i64]; 3])]) -> OptimizationProfile {
    let range = |[min, opt, max]: [&[i64]; 3]| ShapeRange {
        min: min.to_vec(),
        opt: opt.to_vec(),
        max: max.to_vec(),
    };
    OptimizationProfile {
        inputs: ranges.iter().map(|(name, shapes)| ((*name).to_owned(), range(*shapes))).collect(),
    }
}

const GOOD: [&[i64]; 3] = [&[1, 8], &[4, 32], &[8, 64]];

#[test]
fn what_is_wrong_is_said_with_input_and_numbers() {
    let ids = |shapes| profile(&[("input_ids", shapes), ("attention_mask", GOOD)]);
    let cases: [(OptimizationProfile, &str); 9] = [
        (
            ids([&[5, 8], &[4, 32], &[8, 64]]),
            "profile 1: input `input_ids`, min, dimension 0: 5 is above opt, which is 4",
        ),
        (
            ids([&[1, 8], &[4, 65], &[8, 64]]),
            "profile 1: input `input_ids`, opt, dimension 1: 65 is above max, which is 64",
        ),
        (
            ids([&[1], &[4], &[8]]),
            "input `input_ids`, min: [1] has 1 dimension(s), the model's input has rank 2",
        ),
        (
            ids([&[0, 8], &[4, 32], &[8, 64]]),
            "input `input_ids`, min, dimension 0: 0 is not a size",
        ),
        (ids([&[1, 8], &[4, 32], &[8, -1]]), "max, dimension 1: -1 is not a size"),
        (
            ids([&[1, 8], &[4, 32], &[4_294_967_296, 64]]),
            "max, dimension 0: 4294967296 is too large",
        ),
        (
            ids([&[1, 8], &[4, 32], &[8, 48]]),
            "`attention_mask`, max, dimension 1: 64, but the same dimension `sequence` is 48",
        ),
        (profile(&[("input_ids", GOOD)]), "no shapes for input `attention_mask`"),
        (profile(&[("input_ids", GOOD), ("mask", GOOD)]), "the model has no input `mask`"),
    ];
    for (profile, expected) in cases {
        let error = validate(&[profile], &bert(), None).unwrap_err().to_string();
        assert!(error.contains(expected), "expected: {expected}\nfound:    {error}");
    }
    assert_eq!(validate(&[ids(GOOD)], &bert(), Some(64)), Ok(()));
}

#[test]
fn later_profiles_are_checked_and_numbered() {
    let good = OptimizationProfile::uniform(&bert(), [1, 8], [4, 32], [8, 64]);
    let error =
        validate(&[good.clone(), OptimizationProfile::default()], &bert(), None).unwrap_err();
    assert_eq!(error, ProfileError::Missing { profile: 2, input: "input_ids".to_owned() });
    let error = validate(&[good], &bert(), Some(48)).unwrap_err().to_string();
    assert!(error.ends_with("sequences of 64, but the model has only 48 positions"), "{error}");
}

#[test]
fn a_dynamic_model_needs_a_profile_and_a_fixed_one_does_not() {
    let error = validate(&[], &bert(), None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the model has dynamic inputs (input_ids, attention_mask) but no shapes are given"
    );
    let fixed = [input("x", vec![Dim::Fixed(4), Dim::Fixed(8)])];
    assert_eq!(validate(&[], &fixed, None), Ok(()));
    let other = profile(&[("x", [&[1, 8], &[4, 8], &[4, 8]])]);
    let error = validate(&[other], &fixed, None).unwrap_err().to_string();
    assert!(error.contains("1, but the model fixes this dimension to 4"), "{error}");
}

#[test]
fn a_name_ends_at_the_last_colon() {
    let shapes = parse_shapes("input_ids:0:8x128, mask:1x2x3,").unwrap();
    assert_eq!(shapes["input_ids:0"], [8, 128]);
    assert_eq!(shapes["mask"], [1, 2, 3]);
    for bad in ["input_ids", ":8x128", "a:8x", "a:8xb", "a:1,a:2", "a:0:"] {
        let error = parse_shapes(bad).unwrap_err();
        assert!(matches!(error, ProfileError::Spec { .. }), "{bad}: {error}");
    }
}

#[test]
fn specs_name_the_same_inputs() {
    let profile = OptimizationProfile::from_specs("a:1x8", "a:4x8", "a:8x8").unwrap();
    assert_eq!(profile.inputs["a"].opt, [4, 8]);
    let missing = [
        (OptimizationProfile::from_specs("a:1", "", "a:1"), Corner::Opt),
        (OptimizationProfile::from_specs("a:1", "a:1", "b:1"), Corner::Max),
        (OptimizationProfile::from_specs("", "a:1", "a:1"), Corner::Min),
    ];
    for (result, corner) in missing {
        assert_eq!(
            result.unwrap_err(),
            ProfileError::CornerMissing { input: "a".to_owned(), corner }
        );
    }
}

#[test]
fn json_is_a_map_of_three_shapes() {
    let json = r#"{"input_ids":[[1,8],[4,32],[8,64]]}"#;
    let profile: OptimizationProfile = serde_json::from_str(json).unwrap();
    assert_eq!(profile.inputs["input_ids"].max, [8, 64]);
    assert_eq!(serde_json::to_string(&profile).unwrap(), json);
}

#[derive(Deserialize)]
struct Case {
    name: String,
    model: String,
    profile: OptimizationProfile,
    expect: String,
    #[serde(default)]
    mentions_any: Vec<String>,
}

/// Case B35: every wrong profile is refused with its numbers, the good ones are accepted as given.
#[test]
fn case_b35() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases/B35");
    let Ok(text) = std::fs::read_to_string(folder.join("profiles.json")) else {
        eprintln!("skipped: no shared cases here");
        return;
    };
    let cases: Vec<Case> = serde_json::from_str(&text).unwrap();
    assert!(cases.len() >= 12, "{}", cases.len());
    for case in cases {
        let model = Model::open(&folder.join(&case.model)).unwrap();
        let result = validate(&[case.profile], &model.graph().inputs(), position_count(&model));
        match result {
            Ok(()) => assert_eq!(case.expect, "accepted", "{}", case.name),
            Err(error) => {
                assert_eq!(case.expect, "error", "{}: {error}", case.name);
                let text = error.to_string();
                assert!(
                    case.mentions_any.iter().any(|word| text.contains(word)),
                    "{}: {text}",
                    case.name
                );
            }
        }
    }
    let spec = std::fs::read_to_string(folder.join("spec_colon.txt")).unwrap();
    let shapes = parse_shapes(&spec).unwrap();
    assert!(shapes.keys().all(|name| name.ends_with(":0")), "{shapes:?}");
}
