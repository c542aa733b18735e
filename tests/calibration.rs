//! `trtforge calibrate` end to end: shards and merging, schedulers, the rows that calibrate.

#[path = "support/mod.rs"]
mod support;

use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};
use support::calibrating::{alone, at, read};
use support::{Ran, Workspace, trtforge, trtforge_with};

/// Variables of schedulers that this machine may run under.
const SCHEDULER: [&str; 7] = [
    "SLURM_ARRAY_TASK_ID",
    "SLURM_ARRAY_TASK_COUNT",
    "SLURM_ARRAY_TASK_MIN",
    "SLURM_ARRAY_TASK_MAX",
    "SLURM_ARRAY_TASK_STEP",
    "JOB_COMPLETION_INDEX",
    "TRTFORGE_SHARDS",
];

/// Runs every shard and gives the paths of the parts.
fn run_shards(workspace: &Workspace, of: usize, name: &str, more: &[&str]) -> Vec<String> {
    let run = |index: usize| {
        let (shard, path) =
            (format!("{index}/{of}"), at(workspace, &format!("{name}-{index}-{of}.part")));
        let mut arguments = vec!["-q", "--shard", &shard, "-o", &path];
        arguments.extend(more);
        workspace.run("calibrate", &arguments).expect(0);
        path
    };
    (1..=of).map(run).collect()
}

fn merge(parts: &[String], output: &str) -> Ran {
    let mut arguments = vec!["calibrate", "merge", "-q", "-o", output];
    arguments.extend(parts.iter().map(String::as_str));
    trtforge(&arguments)
}

#[test]
fn any_number_of_machines_gives_the_table_of_one() {
    let mut workspace = Workspace::tiny();
    let merged = at(&workspace, "merged.json");
    let whole = alone(&workspace);
    for of in [1, 2, 3, 7] {
        let mut parts = run_shards(&workspace, of, "part", &[]);
        parts.reverse();
        merge(&parts, &merged).expect(0);
        assert!(read(&merged) == whole, "{of} shards");
    }
    // More machines than rows: some have nothing to do.
    workspace.set("/data/calibration/samples", json!(3));
    let whole = alone(&workspace);
    let parts = run_shards(&workspace, 5, "few", &[]);
    merge(&parts, &merged).expect(0);
    assert!(read(&merged) == whole, "more shards than rows");
}

#[test]
fn shards_give_the_table_of_one_machine_with_every_method() {
    let mut workspace = Workspace::tiny();
    workspace.set("/quantize", json!({ "level": "residual" }));
    let merged = at(&workspace, "merged.json");
    for method in ["minmax", "mse", "percentile"] {
        workspace.set("/calibrate/method", json!(method));
        let whole = alone(&workspace);
        merge(&run_shards(&workspace, 2, method, &[]), &merged).expect(0);
        assert!(read(&merged) == whole, "{method}");
    }
    // The batch size of a machine is its own business.
    let first = run_shards(&workspace, 2, "batched", &[]).remove(0);
    let second = at(&workspace, "second.part");
    let more = ["-q", "--shard", "2/2", "-o", &second, "--set", "calibrate.batch_size=1"];
    workspace.run("calibrate", &more).expect(0);
    merge(&[second, first], &merged).expect(0);
    assert!(read(&merged) == alone(&workspace));
}

#[test]
fn smoothing_takes_two_steps_and_gives_the_same_bytes() {
    let mut workspace = Workspace::tiny();
    workspace.set("/quantize", json!({ "level": "attention", "smooth": 0.8 }));
    let whole = alone(&workspace);
    let part = at(&workspace, "part");
    workspace.run("calibrate", &["-q", "--shard", "1/3", "-o", &part]).expect(2).says(&[
        "`quantize.smooth` is 0.8",
        "--observe channels",
        "--channels channels.part",
    ]);
    let (channels, merged) = (at(&workspace, "channels.part"), at(&workspace, "merged.json"));
    let measured = run_shards(&workspace, 3, "channels", &["--observe", "channels"]);
    merge(&measured, &channels).expect(0);
    // One machine measures the same ranges.
    let one = run_shards(&workspace, 1, "all-channels", &["--observe", "channels"]).remove(0);
    assert!(read(&one) == read(&channels), "channel ranges differ");
    let parts = run_shards(&workspace, 3, "part", &["--channels", &channels]);
    merge(&parts, &merged).expect(0);
    assert!(read(&merged) == whole);
    assert!(
        !serde_json::from_slice::<Json>(&whole).unwrap()["channels"]
            .as_object()
            .unwrap()
            .is_empty()
    );
    // A shard's own ranges, activations in their place, and ranges of another calibration are no use.
    let with = |channels: &str, more: &[&str]| {
        let mut arguments = vec!["-q", "--shard", "1/3", "-o", &part, "--channels", channels];
        arguments.extend(more);
        workspace.run("calibrate", &arguments).expect(2)
    };
    with(&measured[1], &[]).says(&["channel ranges of shard 2/3", "merge"]);
    with(&parts[0], &[]).says(&["activations of shard 1/3"]);
    with(&channels, &["--set", "data.calibration.seed=5"]).says(&["seed is 17 there and 5 here"]);
    with(&channels, &["--set", "quantize.smooth=0.5"]).says(&["smooth is 0.8 there and 0.5 here"]);
    with(&channels, &["--set", "quantize.smooth=0"]).says(&["does not smooth", "--channels"]);
    merge(&[measured[0].clone(), parts[1].clone(), parts[2].clone()], &merged)
        .expect(2)
        .says(&["it holds activations there and channel ranges here"]);
}

#[test]
fn merging_says_which_file_is_at_fault() {
    let workspace = Workspace::tiny();
    let parts = run_shards(&workspace, 3, "part", &[]);
    let merged = at(&workspace, "merged.json");
    merge(&parts[1..], &merged).expect(2).says(&["1 of 3 shards are missing: 1"]);
    merge(&[&parts[..], &parts[..1]].concat(), &merged)
        .expect(2)
        .says(&["shard 1/3 is there twice", "part-1-3.part"]);
    let other = run_shards(
        &workspace,
        3,
        "other",
        &["--set", "data.calibration.seed=3", "--set", "data.calibration.samples=20"],
    );
    merge(&[parts[0].clone(), other[1].clone(), parts[2].clone()], &merged).expect(2).says(&[
        "other-2-3.part belongs to another calibration than",
        "seed is 3 there and 17 here",
        "samples is 20 there and 40 here",
    ]);
    let bytes = read(&parts[1]);
    let cut = at(&workspace, "cut.part");
    fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    merge(&[parts[0].clone(), cut, parts[2].clone()], &merged)
        .expect(2)
        .says(&["cut.part is damaged", "cut off"]);
    for (name, content, what) in [
        ("empty.part", &b""[..], "it is empty"),
        ("table.part", &alone(&workspace)[..], "calibration table already"),
        ("cache.part", &b"TRT-8501-EntropyCalibration2\n"[..], "calibrate import"),
    ] {
        let path = at(&workspace, name);
        fs::write(&path, content).unwrap();
        merge(&[path], &merged).expect(2).says(&[name, what]);
    }
    merge(&[at(&workspace, "absent.part")], &merged).expect(2).says(&["absent.part"]);
    merge(&parts, &parts[0]).expect(2).says(&["part-1-3.part", "will not be written over"]);
    assert!(!Path::new(&merged).exists());
}

/// Runs with `--shard auto` and these variables alone.
fn under(workspace: &Workspace, variables: &[(&str, &str)], more: &[&str]) -> Ran {
    let profile = workspace.write();
    let output = at(workspace, "auto-{shard}-{shards}.part");
    let mut arguments = vec!["calibrate", &profile, "-q", "--shard", "auto", "-o", &output];
    arguments.extend(more);
    trtforge_with(&arguments, |command| {
        for name in SCHEDULER {
            command.env_remove(name);
        }
        command.envs(variables.iter().copied())
    })
}

#[test]
fn slurm_and_kubernetes_number_the_shards() {
    let workspace = Workspace::tiny();
    let whole = alone(&workspace);
    let merged = at(&workspace, "merged.json");
    for id in ["10", "12", "14"] {
        let array = [
            ("SLURM_ARRAY_TASK_ID", id),
            ("SLURM_ARRAY_TASK_COUNT", "3"),
            ("SLURM_ARRAY_TASK_MIN", "10"),
            ("SLURM_ARRAY_TASK_MAX", "14"),
            ("SLURM_ARRAY_TASK_STEP", "2"),
        ];
        under(&workspace, &array, &[]).expect(0);
    }
    let parts: Vec<String> = (1..=3).map(|i| at(&workspace, &format!("auto-{i}-3.part"))).collect();
    merge(&parts, &merged).expect(0);
    assert!(read(&merged) == whole);
    let kubernetes = |index| [("JOB_COMPLETION_INDEX", index), ("TRTFORGE_SHARDS", "2")];
    under(&workspace, &kubernetes("0"), &[]).expect(0);
    under(&workspace, &[("JOB_COMPLETION_INDEX", "1")], &["--shards", "2"]).expect(0);
    let parts: Vec<String> = (1..=2).map(|i| at(&workspace, &format!("auto-{i}-2.part"))).collect();
    merge(&parts, &merged).expect(0);
    assert!(read(&merged) == whole);
    under(&workspace, &[], &[]).expect(2).says(&["SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX"]);
    under(&workspace, &[("JOB_COMPLETION_INDEX", "1")], &[])
        .expect(2)
        .says(&["TRTFORGE_SHARDS is not", "--shards N"]);
    under(&workspace, &kubernetes("2"), &[]).expect(2).says(&["JOB_COMPLETION_INDEX says 2"]);
}

#[test]
fn flags_that_do_not_go_together_are_refused_before_any_work() {
    let workspace = Workspace::tiny();
    let part = at(&workspace, "part");
    for (arguments, words) in [
        (vec!["--shard", "4/3"], vec!["4/3", "from 1 to 3"]),
        (vec!["--shard", "three"], vec!["three", "I/N"]),
        (vec!["--shard", "1/3", "--shards", "4"], vec!["--shard 1/3", "--shards says 4"]),
        (vec!["--shards", "4"], vec!["--shard"]),
        (vec!["--channels", "x"], vec!["--shard"]),
        (vec!["--observe", "channels"], vec!["needs `--shard`"]),
        (vec!["--observe", "none", "--shard", "1/2"], vec!["--observe none"]),
        (vec!["--observe", "channels", "--shard", "1/2"], vec!["does not smooth"]),
        (vec!["--observe", "channels", "--shard", "1/2", "--channels", "x"], vec!["one of them"]),
    ] {
        let mut all = vec!["-q", "-o", &part];
        all.extend(arguments);
        workspace.run("calibrate", &all).expect(2).says(&words);
    }
    assert!(!Path::new(&part).exists());
    let pattern = at(&workspace, "x-{shard}.json");
    workspace.run("calibrate", &["-o", &pattern]).expect(2).says(&["needs `--shard`"]);
    assert!(!Path::new(&pattern).exists());
    let import = ["calibrate", "import", "c", "--model", "m", "-o", &part, "--set", "max_length=8"];
    trtforge(&import).expect(2).says(&["cannot be used with"]);
    trtforge(&["calibrate"]).expect(2).says(&["--output"]);
    trtforge(&["calibrate", "merge"]).expect(2).says(&["PART"]);
}

#[test]
fn a_table_names_the_rows_it_was_made_from() {
    let mut workspace = Workspace::tiny();
    let table: Json = serde_json::from_slice(&alone(&workspace)).unwrap();
    assert_eq!(table["lines"], "1-40");
    workspace.set("/data/calibration/samples", json!(3));
    workspace.set("/data/calibration/strategy", json!("first"));
    workspace.run("build", &["-q", "--stop-after", "calibrate"]).expect(0);
    assert_eq!(workspace.read("calibration.json")["lines"], "1-3");
    assert_eq!(workspace.read("run.json")["calibration"]["lines"], "1-3");
}

#[test]
fn rows_that_repeat_judge_or_are_cut_are_counted() {
    let mut workspace = Workspace::tiny();
    let warnings = |workspace: &Workspace| {
        workspace.run("check", &["--json"]).expect(0).json()["warnings"].to_string()
    };
    let plain = warnings(&workspace);
    for absent in ["same as an earlier", "evaluation rows too", "rows calibrate", "cut to"] {
        assert!(!plain.contains(absent), "{absent}: {plain}");
    }
    let row = |text: &str, label: u8| format!("{}\n", json!({ "text": text, "label": label }));
    let long = "good ".repeat(60);
    let rows = [row("the film", 0), row("The  FILM", 1), row("a plot", 0), row(&long, 1)].concat();
    fs::write(workspace.folder.path().join("calib.jsonl"), &rows).unwrap();
    fs::write(
        workspace.folder.path().join("eval.jsonl"),
        [row("bad cast", 0), row("a plot", 1)].concat(),
    )
    .unwrap();
    let said = warnings(&workspace);
    for words in [
        "1 of 4 calibration rows are to the model the same as an earlier one (line 2 is line 1)",
        "1 of 4 calibration rows are evaluation rows too (line 3 is line 2 there)",
        "only 4 rows calibrate",
        "1 of 4 calibration rows were cut to `max_length` 32 (line 4)",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    // Only rows that were sampled count.
    workspace.set("/data/calibration/samples", json!(1));
    workspace.set("/data/calibration/strategy", json!("first"));
    let said = warnings(&workspace);
    assert!(
        !said.contains("same as an earlier") && !said.contains("rows were cut to `max"),
        "{said}"
    );
}

/// The fenced blocks of a language in a document.
fn blocks(document: &str, language: &str) -> Vec<String> {
    let path = support::repository().join("docs").join(document);
    let text = fs::read_to_string(&path).unwrap();
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn the_manifests_of_the_documentation_are_well_formed() {
    let jobs: Vec<Json> = blocks("distributed-calibration.md", "yaml")
        .iter()
        .map(|block| serde_yaml::from_str(block).unwrap())
        .collect();
    assert_eq!(jobs.len(), 2);
    for job in &jobs {
        assert_eq!((&job["apiVersion"], &job["kind"]), (&json!("batch/v1"), &json!("Job")));
        let pod = &job["spec"]["template"]["spec"];
        assert_eq!(pod["volumes"][0]["name"], pod["containers"][0]["volumeMounts"][0]["name"]);
    }
    let indexed = &jobs[0]["spec"];
    let container = &indexed["template"]["spec"]["containers"][0];
    assert_eq!(indexed["completionMode"], "Indexed");
    assert_eq!(container["env"][0]["name"], "TRTFORGE_SHARDS");
    assert_eq!(container["env"][0]["value"], indexed["completions"].to_string());
    // Its very command line, on a model that is there and as the pod of index 1.
    let workspace = Workspace::tiny();
    let profile = workspace.write();
    let mut command: Vec<String> = serde_json::from_value(container["command"].clone()).unwrap();
    let local = |text: &str| text.replace("/data/parts", &at(&workspace, "parts"));
    for argument in &mut command {
        *argument =
            if argument == "/data/profile.yaml" { profile.clone() } else { local(argument) };
    }
    let arguments: Vec<&str> = command[1..].iter().map(String::as_str).collect();
    let shards = container["env"][0]["value"].as_str().unwrap().to_owned();
    trtforge_with(&arguments, |command| {
        for name in SCHEDULER {
            command.env_remove(name);
        }
        command.env("TRTFORGE_SHARDS", shards).env("JOB_COMPLETION_INDEX", "1")
    })
    .expect(0);
    assert!(workspace.folder.path().join("parts/part-2.part").exists());
}

#[test]
fn the_scripts_of_the_documentation_are_well_formed() {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let scripts = ["distributed-calibration.md", "calibration-caches.md"];
    let scripts: Vec<String> = scripts.iter().flat_map(|name| blocks(name, "bash")).collect();
    assert!(scripts.iter().any(|script| script.contains("#SBATCH --array=1-8")));
    for script in scripts {
        let mut bash =
            Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn().expect("bash is there");
        bash.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        assert!(bash.wait().unwrap().success(), "{script}");
    }
}
