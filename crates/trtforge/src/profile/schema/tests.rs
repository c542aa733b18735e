//! Schema and reader say the same of every profile: a key or value that only one of them knows fails here.
//!
//! Whoever adds a key to the reader adds it to `schema.rs`, then runs `trtforge schema > profiles/profile.schema.json`.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::profile::{Profile, ProfileError};

/// The least a profile can say, for each kind of task.
fn least() -> Vec<Json> {
    let with = |task: Json, calibration: Json, evaluation: Json| {
        json!({
            "version": 1,
            "model": { "onnx": "m.onnx", "tokenizer": "vocab.txt" },
            "task": task,
            "data": { "calibration": calibration, "evaluation": evaluation },
            "max_length": 64,
            "output": "out",
        })
    };
    let rows = || json!({ "path": "rows.jsonl" });
    [
        json!({ "kind": "text-classification", "labels": ["a", "b"] }),
        json!({ "kind": "token-classification", "labels": ["O", "B-X"] }),
        json!({ "kind": "question-answering" }),
        json!({ "kind": "question-answering", "no_answer": true }),
        json!({ "kind": "sentence-similarity", "encoder": "cross" }),
        json!({ "kind": "sentence-similarity", "encoder": "bi" }),
        json!({ "kind": "embedding" }),
    ]
    .map(|task| with(task, rows(), rows()))
    .to_vec()
}

/// The same with what opens further sections.
fn open() -> Vec<Json> {
    let fallback =
        |profile: &Json| set(profile, &["gate".into(), "on_reject".into()], &json!("fallback"));
    least().iter().map(fallback).collect()
}

fn read(profile: &Json) -> Result<Profile, ProfileError> {
    Profile::from_text(&profile.to_string(), "p.yaml", Path::new("folder"), &[])
}

/// Every mistake of a profile on its own.
fn mistakes(profile: &Json) -> Vec<ProfileError> {
    match read(profile) {
        Ok(_) => Vec::new(),
        Err(ProfileError::Several { errors, .. }) => errors,
        Err(error) => vec![error],
    }
}

/// Sets a value by its pointer; numbers index lists, which grow.
fn set(profile: &Json, pointer: &[String], value: &Json) -> Json {
    let Some((first, rest)) = pointer.split_first() else { return value.clone() };
    let mut changed = profile.clone();
    if let Ok(index) = first.parse::<usize>() {
        let mut items = changed.as_array().cloned().unwrap_or_default();
        items.resize((index + 1).max(items.len()), Json::Null);
        items[index] = set(&items[index], rest, value);
        return Json::Array(items);
    }
    if !changed.is_object() {
        changed = json!({});
    }
    changed[first] = set(&changed[first], rest, value);
    changed
}

/// Every place in the schema: its pointer in a profile and its schema; lists are entered at 0.
fn places(schema: &Json, at: &[String], found: &mut Vec<(Vec<String>, Json)>) {
    if !at.is_empty() {
        found.push((at.to_vec(), schema.clone()));
    }
    for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
        places(inner, &[at, std::slice::from_ref(key)].concat(), found);
    }
    if schema["items"].is_object() {
        places(&schema["items"], &[at, &["0".to_owned()]].concat(), found);
    }
    for form in schema["anyOf"].as_array().into_iter().flatten() {
        if form.get("type").is_some() || form.get("enum").is_some() {
            places(form, at, found);
        }
    }
}

fn all_places() -> Vec<(Vec<String>, Json)> {
    let mut found = Vec::new();
    places(&profile_schema(), &[], &mut found);
    found
}

/// The known keys that the reader lists when it meets one that it does not know.
fn keys_of_reader(profile: &Json, pointer: &[String]) -> Option<BTreeSet<String>> {
    let mut stranger = pointer.to_vec();
    stranger.push("zzz".to_owned());
    mistakes(&set(profile, &stranger, &json!(1))).into_iter().find_map(|mistake| match mistake {
        ProfileError::UnknownKey { key, help, .. } if key == "zzz" => {
            let (_, list) = help.split_once("nown keys: ").expect("all keys are listed");
            Some(list.split(", ").map(str::to_owned).collect())
        }
        _ => None,
    })
}

/// Of the keys of a section those that go with the profile's kind of task.
fn keys_for(profile: &Json, pointer: &[String], schema: &Json) -> Option<BTreeSet<String>> {
    let whole = profile_schema();
    let kind = &profile["task"]["kind"];
    let of = "/if/properties/task/properties/kind/const";
    let branch = whole["allOf"].as_array().unwrap().iter().find(|b| b.pointer(of) == Some(kind));
    let mut narrowed = &branch.expect("every kind has its branch")["then"];
    for key in pointer {
        narrowed = &narrowed["properties"][key];
    }
    let names = |list: &Json| -> Option<BTreeSet<String>> {
        Some(list.as_array()?.iter().map(|name| name.as_str().unwrap().to_owned()).collect())
    };
    let all: BTreeSet<String> = schema["properties"].as_object()?.keys().cloned().collect();
    let Some(own) = names(&narrowed["propertyNames"]["enum"]) else { return Some(all) };
    assert!(own.is_subset(&all), "{own:?} {all:?}");
    Some(own)
}

#[test]
fn every_key_of_the_reader_is_in_the_schema_and_the_other_way_round() {
    let mut sections = 0;
    for profile in open() {
        let root = (Vec::new(), profile_schema());
        for (pointer, schema) in std::iter::once(root).chain(all_places()) {
            let known = keys_of_reader(&profile, &pointer);
            let written = keys_for(&profile, &pointer, &schema);
            let section = pointer.join(".");
            match (&known, &written) {
                (Some(known), Some(written)) => assert_eq!(known, written, "keys of `{section}`"),
                (None, Some(_)) => panic!("the reader has no section `{section}`"),
                // Another form of the same place may be the mapping.
                (Some(_), None) => assert!(
                    all_places()
                        .iter()
                        .any(|(at, s)| *at == pointer && s["properties"].is_object()),
                    "the schema has no section `{section}`"
                ),
                (None, None) => {}
            }
            sections += usize::from(written.is_some());
        }
    }
    assert!(sections >= 12, "only {sections} sections were compared");
}

/// Values that most keys refuse and some take, and those at the edges of what the schema says.
fn probes(schema: &Json) -> Vec<Json> {
    let mut probes = vec![
        json!(true),
        json!(0),
        json!(1),
        json!(-1),
        json!(3),
        json!(0.5),
        json!(99.5),
        json!(1e9 + 0.5),
        json!("word"),
        json!(""),
        json!("fp16"),
        json!([]),
        json!(["word"]),
        json!([1, 2]),
        json!([true, false]),
        json!({}),
        json!(["a", "a"]),
        json!(["a", " "]),
    ];
    for bound in ["minimum", "maximum"] {
        let Some(bound) = schema[bound].as_f64() else { continue };
        probes.extend([json!(bound), json!(bound - 0.001), json!(bound + 0.001)]);
        if bound.abs() < 1e9 {
            probes.extend([bound as i64 - 1, bound as i64, bound as i64 + 1].map(Json::from));
        }
    }
    probes.extend(schema["enum"].as_array().into_iter().flatten().cloned());
    probes.extend(["90s", "0", "1.5 h", "3 weeks", "-1s"].map(Json::from));
    probes.extend(schema["const"].as_i64().map(Json::from));
    // YAML's reader tells 1.0 from 1, JSON Schema does not.
    probes.retain(|probe| {
        !(probe.is_f64() && probe.as_f64().is_some_and(|x| x.fract() == 0.0 && x.abs() < 1e9))
    });
    probes
}

/// Where a rule connects values in a way that a schema cannot say.
fn beyond_schema(profile: &Json, pointer: &[String], value: &Json) -> bool {
    let place = pointer.join(".");
    // min ≤ opt ≤ max; a list of one metric twice is told by the schema, a metric of another task is not.
    (place.starts_with("shapes.0") && value != &json!({}))
        // A role is checked against the model's inputs, not when the profile is read.
        || place.starts_with("model.inputs")
        // A window must be longer than what it shares with the next.
        || (place == "task.stride" && value.as_f64().is_some_and(|stride| stride > 60.0))
        || (place == "max_length"
            && profile["task"]["kind"] == "question-answering"
            && value.as_f64().is_some_and(|length| length < 5.0))
}

#[test]
fn schema_and_reader_give_the_same_verdict() {
    let validator = jsonschema::validator_for(&profile_schema()).unwrap();
    let all = all_places();
    let (mut verdicts, mut differ) = ([0, 0], Vec::new());
    for (kind, profile) in least().into_iter().chain(open()).enumerate() {
        assert!(validator.is_valid(&profile) && read(&profile).is_ok(), "{profile}");
        for (pointer, schema) in &all {
            // The other sections are the same for every kind of task.
            let depends = ["task", "data", "gate", "max_length"].contains(&pointer[0].as_str());
            if kind > 0 && !depends {
                continue;
            }
            for probe in probes(schema) {
                if beyond_schema(&profile, pointer, &probe) {
                    continue;
                }
                let changed = set(&profile, pointer, &probe);
                let read = read(&changed);
                let valid = validator.is_valid(&changed);
                if valid != read.is_ok() {
                    let says = validator.validate(&changed).err().map(|error| error.to_string());
                    differ.push(format!(
                        "{} = {probe}\n  schema: {says:?}\n  reader: {:?}",
                        pointer.join("."),
                        read.as_ref().err()
                    ));
                }
                verdicts[usize::from(valid)] += 1;
            }
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    assert!(verdicts.iter().all(|&count| count > 100), "{verdicts:?}");
}

#[test]
fn required_keys_are_those_that_the_reader_misses() {
    let validator = jsonschema::validator_for(&profile_schema()).unwrap();
    for profile in least() {
        for (pointer, _) in all_places() {
            let path = format!("/{}", pointer.join("/"));
            let Some((parent, key)) = path.rsplit_once('/') else { continue };
            let mut without = profile.clone();
            let parent = without.pointer_mut(parent).and_then(Json::as_object_mut);
            if parent.and_then(|parent| parent.remove(key)).is_some() {
                assert_eq!(validator.is_valid(&without), read(&without).is_ok(), "without {path}");
            }
        }
    }
}

#[test]
fn defaults_are_those_of_the_reader() {
    // Writing every default changes nothing but what was written.
    let validator = jsonschema::validator_for(&profile_schema()).unwrap();
    let mut compared = BTreeSet::new();
    for profile in open() {
        let plain = read(&profile).unwrap();
        for (pointer, schema) in all_places() {
            let Some(default) = schema.get("default") else { continue };
            // A list has no item by default, and what the profile says itself is another value.
            let written = profile.pointer(&format!("/{}", pointer.join("/"))).is_some();
            if written || pointer.iter().any(|part| part == "0") {
                continue;
            }
            let with_default = set(&profile, &pointer, default);
            // Keys of other kinds of task.
            if !validator.is_valid(&with_default) {
                assert!(read(&with_default).is_err(), "{}", pointer.join("."));
                continue;
            }
            let mut written = read(&with_default).unwrap();
            let mut plain = plain.clone();
            for either in [&mut plain, &mut written] {
                either.as_written = Json::Null;
            }
            assert_eq!(format!("{plain:?}"), format!("{written:?}"), "{}", pointer.join("."));
            compared.insert(pointer.join("."));
        }
    }
    assert!(compared.len() >= 40, "{compared:?}");
}

fn profiles() -> Vec<std::path::PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../profiles");
    let mut found: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    found.sort();
    assert!(found.len() >= 2, "{found:?}");
    found
}

#[test]
fn example_profiles_are_valid_and_name_their_schema() {
    let validator = jsonschema::validator_for(&profile_schema()).unwrap();
    for path in profiles() {
        let text = std::fs::read_to_string(&path).unwrap();
        let first = text.lines().next().unwrap();
        assert_eq!(
            first,
            "# yaml-language-server: $schema=profile.schema.json",
            "{}",
            path.display()
        );
        let written = Profile::read(&path, &[]).unwrap().as_written;
        let complaints: Vec<String> =
            validator.iter_errors(&written).map(|error| error.to_string()).collect();
        assert!(complaints.is_empty(), "{}: {complaints:?}", path.display());
    }
}

#[test]
fn the_schema_in_the_repository_is_this_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../profiles/profile.schema.json");
    let written = std::fs::read_to_string(path).unwrap_or_default();
    let same = written == format!("{:#}\n", profile_schema());
    assert!(same, "run `trtforge schema > profiles/profile.schema.json`");
}

#[test]
fn every_key_is_described() {
    for (pointer, schema) in all_places() {
        let in_list = pointer.last().is_some_and(|key| key == "0");
        let alternative = schema.get("description").is_none()
            && all_places().iter().any(|(at, s)| *at == pointer && s.get("description").is_some());
        assert!(schema.get("description").is_some() || in_list || alternative, "{pointer:?}");
    }
}
