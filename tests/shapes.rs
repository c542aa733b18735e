//! `trtforge shapes` with the real binary: what buckets bring, from data and from a file of lengths.

mod support;

use std::fs;

use serde_json::{Value as Json, json};
use support::{Workspace, trtforge};

/// 28 requests of 6 tokens and 4 of 60.
fn lengths(folder: &tempfile::TempDir) -> String {
    let path = folder.path().join("lengths.txt");
    let lines: String = (0..32).map(|row| if row % 8 == 3 { "60\n" } else { "6\n" }).collect();
    fs::write(&path, lines).unwrap();
    path.display().to_string()
}

fn share(figure: &Json) -> f64 {
    1.0 - figure["real_tokens"].as_f64().unwrap() / figure["padded_tokens"].as_f64().unwrap()
}

#[test]
fn a_file_of_lengths_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    let path = lengths(&folder);
    let arguments =
        ["shapes", "--lengths", &path, "--max-length", "64", "--max-batch", "8", "--json"];
    let found = trtforge(&arguments).expect(0).json();
    // By hand: 408 of 32 · 64 tokens; each batch of 8 in order holds one row of 60; sorted, three batches of 6 and one with both.
    let wasted: Vec<f64> = found["padding"].as_array().unwrap().iter().map(share).collect();
    assert!((wasted[0] - (1.0 - 408.0 / 2048.0)).abs() < 1e-12, "{wasted:?}");
    assert!((wasted[1] - (1.0 - 408.0 / (32.0 * 60.0))).abs() < 1e-12, "{wasted:?}");
    assert!((wasted[2] - (1.0 - 408.0 / (24.0 * 6.0 + 8.0 * 60.0))).abs() < 1e-12, "{wasted:?}");
    let choices = found["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 8);
    assert_eq!(choices[0]["lengths"], json!([60]));
    assert_eq!(choices[1]["lengths"], json!([6, 60]));
    assert_eq!((&choices[1]["padded_tokens"], &choices[1]["batches"]), (&json!(0.0), &json!(5)));
    assert_eq!(choices[1]["fill"], 32.0 / 40.0);
    let padding = |choice: &Json, what: &str| choice[what].as_f64().unwrap();
    assert!(padding(&choices[0], "padded_flops") > padding(&choices[0], "padded_tokens"));
    assert_eq!(found["profiles"][0]["min"], json!([1, 1]));
    assert_eq!(found["profiles"][1]["max"], json!([8, 64]));
    // 8 rows · 64 tokens · 6 activations of 768 · 2 bytes.
    assert_eq!(found["profiles"][1]["activation_bytes_estimate"], 8 * 64 * 6 * 768 * 2);
    assert!(found["warnings"][0].as_str().unwrap().contains("is assumed"));
    let text = trtforge(&arguments[..7]).expect(0).stdout;
    assert!(text.contains("estimate") && text.contains("6, 60"), "{text}");
}

#[test]
fn a_profile_gives_the_model_and_the_file_the_lengths() {
    let mut workspace = Workspace::tiny();
    workspace.set("/evaluate/batch_size", json!(4));
    let path = lengths(&workspace.folder);
    let found = workspace.run("shapes", &["--lengths", &path, "--json"]).expect(0).json();
    assert_eq!(found["from"], "lengths");
    // The profile's maximum of 32 tokens cuts the four long ones.
    let warning = found["warnings"][0].as_str().unwrap();
    assert!(warning.contains("4 of 32 lengths are beyond the maximum"), "{warning}");
    assert_eq!(found["choices"][1]["lengths"], json!([6, 32]));
    let own = workspace.run("shapes", &["--json"]).expect(0).json();
    assert_eq!(own["from"], "evaluation");
    assert_eq!(own["choices"].as_array().unwrap().len(), 8);
}

#[test]
fn bad_lengths_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("l.txt");
    fs::write(&path, "12\nmany\n").unwrap();
    let path = path.display().to_string();
    trtforge(&["shapes", "--lengths", &path]).expect(2).says(&["line 2", "`many`"]);
    trtforge(&["shapes", "--lengths", "no-such-file"]).expect(2).says(&["cannot read"]);
    fs::write(&path, "[12, 30").unwrap();
    trtforge(&["shapes", "--lengths", &path]).expect(2).says(&["line 1, column 7", "cut off"]);
    trtforge(&["shapes"]).expect(2);
}

#[test]
fn sizes_beyond_any_machine_are_printed_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = lengths(&folder);
    let huge = "4000000000";
    let arguments = ["shapes", "--lengths", &path, "--max-batch", huge, "--hidden", huge];
    let found = trtforge(&[&arguments[..], &["--json"]].concat()).expect(0).json();
    // By hand: 2 bytes · 4e9 rows · 512 tokens · 6 · 4e9.
    let bytes =
        found["profiles"].as_array().unwrap().last().unwrap()["activation_bytes_estimate"].as_f64();
    assert_eq!(bytes, Some(2.0 * 4e9 * 512.0 * 24e9));
    assert!(trtforge(&arguments).expect(0).stdout.contains("93750000000000000 MiB"));
}
