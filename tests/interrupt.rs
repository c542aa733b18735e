//! Ctrl-C in the middle of each long stage: the output folder is as it was, and the next run resumes.

#[path = "support/mod.rs"]
mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use support::{Workspace, files};

fn start(profile: &str, more: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_trtforge"))
        .args(["build", profile])
        .args(more)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
}

/// Waits for the line that a stage begins with, sends the signal, and gives the exit code and the rest of the lines.
fn stopped_in(profile: &str, more: &[&str], stage: &str, name: &str) -> (Option<i32>, String) {
    let mut child = start(profile, more);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let begun = lines.by_ref().any(|line| line.starts_with(stage));
    assert!(begun, "`{stage}` never began");
    signal(&child, name);
    let rest: Vec<String> = lines.collect();
    (child.wait().unwrap().code(), rest.join("\n"))
}

/// What is visible of an output folder: everything but the store that the next run resumes from.
fn visible(workspace: &Workspace) -> Vec<String> {
    let folder = workspace.folder.path().join("out");
    if !folder.exists() {
        return Vec::new();
    }
    files(&folder).into_iter().filter(|name| !name.contains("artifacts/")).collect()
}

#[test]
fn a_stage_that_is_interrupted_leaves_nothing_and_the_next_run_resumes() {
    for (stage, name) in [("Calibrating", "INT"), ("Evaluating", "TERM")] {
        let workspace = Workspace::tiny();
        let profile = workspace.write();
        let (code, text) = stopped_in(&profile, &["--backend", "none"], stage, name);
        // A tiny model's stage may be over before the signal arrives; then a later one stops.
        assert_eq!(code, Some(130), "{stage}: {text}");
        assert!(
            text.contains("interrupted") && text.contains("run the same command again"),
            "{text}"
        );
        assert!(visible(&workspace).is_empty(), "{stage}: {:?}", visible(&workspace));
        workspace.run("build", &["--quiet", "--backend", "none"]).expect(0);
    }
}
