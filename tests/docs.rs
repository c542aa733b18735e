//! The documentation: every command in it runs, and every error code has its line.
//!
//! A block that a machine of its own is needed for says so in its first line, `# not run by the tests: …`; its commands are still parsed
//! (`every_command_of_the_docs_parses`, in the command line's own tests).

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use support::{Workspace, repository, trtforge};

/// How a block begins that is not run.
const NOT_RUN: &str = "# not run by the tests:";

/// Pages with commands, from the top of the repository.
fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = fs::read_dir(repository().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.push(repository().join("README.md"));
    pages.sort();
    pages
}

/// The shell blocks of a page: the line they begin at, and their commands.
fn blocks(text: &str) -> Vec<(usize, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, bool, String)> = None;
    for (number, line) in text.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(language)) => {
                let shell = ["sh", "bash", "console"].contains(&language.trim());
                open = Some((number + 1, shell, String::new()));
            }
            (Some(_), Some(_)) => {
                let (at, shell, body) = open.take().unwrap();
                if shell {
                    blocks.push((at, body));
                }
            }
            (Some((_, _, body)), None) => {
                body.push_str(line.strip_prefix("$ ").unwrap_or(line));
                body.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

/// A folder as the pages speak of it: a model with its rows, a profile, a finished run, tables and caches.
fn stage(folder: &Path) {
    let mut workspace = Workspace::tiny();
    let from = workspace.folder.path().to_owned();
    for (name, to) in [
        ("model.onnx", "model.onnx"),
        ("tokenizer.json", "tokenizer.json"),
        ("calib.jsonl", "train.jsonl"),
        ("eval.jsonl", "test.jsonl"),
    ] {
        fs::copy(from.join(name), folder.join(to)).unwrap();
    }
    workspace.set("/model", json!({ "onnx": "model.onnx", "tokenizer": "tokenizer.json" }));
    workspace.set("/data/calibration", json!({ "path": "train.jsonl", "samples": 16 }));
    workspace.set("/data/evaluation", json!({ "path": "test.jsonl" }));
    workspace.set(
        "/gate",
        json!({ "max_drop": 0.9, "on_inconclusive": "accept", "allow_chance_baseline": true }),
    );
    workspace.set("/engine", json!({ "backend": "none" }));
    workspace.set("/output", json!("out/sentiment"));
    let mut write = |name: &str, pointer: &str, value: serde_json::Value| {
        workspace.set(pointer, value);
        fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
        fs::write(folder.join(name), workspace.profile.to_string()).unwrap();
    };
    write("profile.yaml", "/version", json!(1));
    fs::create_dir_all(folder.join("parts")).unwrap();
    let inside = |arguments: &[&str]| {
        support::trtforge_with(arguments, |command| command.current_dir(folder)).expect(0)
    };
    inside(&["build", "profile.yaml", "--quiet"]);
    inside(&["calibrate", "profile.yaml", "-o", "calibration.json", "--quiet"]);
    let cache =
        ["calibrate", "export", "calibration.json", "--trt-version", "10.3.0", "-o", "int8.cache"];
    inside(&cache);
    fs::copy(folder.join("int8.cache"), folder.join("calibration.cache")).unwrap();
    for (shard, part) in ["1/2", "2/2"].into_iter().zip(["part-1.part", "part-2.part"]) {
        inside(&["calibrate", "profile.yaml", "--shard", shard, "-o", part, "--quiet"]);
        fs::copy(folder.join(part), folder.join("parts").join(part)).unwrap();
    }
    for name in ["demo.yaml", "strict.yaml"] {
        let text = fs::read_to_string(folder.join("profile.yaml")).unwrap();
        let text = ["model.onnx", "tokenizer.json", "train.jsonl", "test.jsonl", "out/"]
            .iter()
            .fold(text, |text, path| text.replace(&format!("\"{path}"), &format!("\"../{path}")));
        fs::create_dir_all(folder.join("profiles")).unwrap();
        fs::write(folder.join("profiles").join(name), text).unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    for name in support::files(from) {
        fs::create_dir_all(to.join(&name).parent().unwrap()).unwrap();
        fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
}

/// A refusal of the gate is an answer: made-up labels are at chance, which is not the docs' fault.
const WRAPPER: &str = "trtforge() { command trtforge \"$@\" || [ $? -eq 1 ]; }\n";

/// Runs a script in a folder with the binary on the path.
fn run(script: &str, folder: &Path) -> Result<(), String> {
    let binary = Path::new(env!("CARGO_BIN_EXE_trtforge")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &format!("{WRAPPER}{script}")])
        .current_dir(folder)
        .env("PATH", path)
        .env("HOME", folder)
        .env_remove("GITHUB_STEP_SUMMARY")
        .output()
        .expect("bash");
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn every_command_of_the_docs_runs() {
    let staged = tempfile::tempdir().unwrap();
    stage(staged.path());
    let (mut ran, mut wrong) = (0, Vec::new());
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let name = page.file_name().unwrap().to_string_lossy().into_owned();
        let folder = tempfile::tempdir().unwrap();
        copy(staged.path(), folder.path());
        if name == "quickstart.md" {
            // It begins without a profile.
            fs::remove_file(folder.path().join("profile.yaml")).unwrap();
        }
        for (line, block) in blocks(&text) {
            if block.contains(NOT_RUN) {
                continue;
            }
            ran += 1;
            if let Err(error) = run(&block, folder.path()) {
                wrong.push(format!("{name}:{line}\n{block}{error}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(ran >= 12, "only {ran} blocks ran");
}

#[test]
fn every_example_of_the_table_of_commands_runs() {
    let folder = tempfile::tempdir().unwrap();
    stage(folder.path());
    fs::remove_file(folder.path().join("profile.yaml")).unwrap();
    fs::create_dir_all(folder.path().join(".local/share/bash-completion/completions")).unwrap();
    let text = fs::read_to_string(repository().join("docs/commands.md")).unwrap();
    let mut ran = 0;
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let example = line.split('|').rev().nth(1).unwrap().trim().trim_matches('`');
        if let Err(error) = run(example, folder.path()) {
            panic!("{example}\n{error}");
        }
        if example.starts_with("trtforge init") {
            copy_profile(folder.path());
        }
        ran += 1;
    }
    assert!(ran >= 18, "only {ran} examples ran");
}

/// The profile of the examples in the place of the one that `init` wrote, whose labels are open.
fn copy_profile(folder: &Path) {
    let text = fs::read_to_string(folder.join("profiles/demo.yaml")).unwrap();
    fs::write(folder.join("profile.yaml"), text.replace("../", "")).unwrap();
}

/// An error as its source states it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Stated {
    message: String,
    help: String,
}

/// Every code of every crate, with what it says and what it advises.
fn codes() -> BTreeMap<String, Stated> {
    let mut found = BTreeMap::new();
    for file in support::files(&repository().join("crates")) {
        let path = repository().join("crates").join(&file);
        let source = path.extension().is_some_and(|extension| extension == "rs");
        if !file.contains("/src/") || !source {
            continue;
        }
        let text = fs::read_to_string(path).unwrap();
        for (at, _) in text.match_indices("#[diagnostic(") {
            let attribute = &text[at..at + closing(&text[at..])];
            let Some(code) = between(attribute, "code(", ")") else { continue };
            let before = &text[..at];
            let message = before.rfind("#[error(").map(|from| literal(&text[from..]));
            let help = attribute.find("help(").map(|from| literal(&attribute[from..]));
            let stated =
                Stated { message: message.unwrap_or_default(), help: help.unwrap_or_default() };
            found.insert(code.to_owned(), stated);
        }
    }
    found
}

/// Where the attribute that a text begins with ends, strings apart.
fn closing(text: &str) -> usize {
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    text.len()
}

fn between<'t>(text: &'t str, from: &str, to: &str) -> Option<&'t str> {
    let rest = &text[text.find(from)? + from.len()..];
    Some(&rest[..rest.find(to)?])
}

/// The first string literal, with what it fills in as `…` and its line continuations closed.
fn literal(text: &str) -> String {
    let text = &text[..closing(text)];
    let Some(start) = text.find('"') else { return String::new() };
    let (mut out, mut filled) = (String::new(), 0);
    let mut characters = text[start + 1..].chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' => break,
            '\\' => match characters.next() {
                Some('\n') => while characters.next_if(|next| next.is_whitespace()).is_some() {},
                Some('n') => out.push(' '),
                Some(other) => out.push(other),
                None => {}
            },
            '{' | '}' if characters.peek() == Some(&character) => {
                characters.next();
                if filled == 0 {
                    out.push(character);
                }
            }
            '{' => {
                filled += 1;
                out.push('…');
            }
            '}' => filled -= 1,
            other if filled == 0 => out.push(other),
            _ => {}
        }
    }
    out.split_whitespace().collect::<Vec<_>>().join(" ").replace("……", "…").replace('|', "\\|")
}

/// The page's lines of one code each: ``| `code` | cause | remedy |``.
fn documented(text: &str) -> BTreeMap<String, (String, String)> {
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    rows.map(|line| {
        let cells: Vec<String> = line
            .replace("\\|", "\u{1}")
            .split('|')
            .map(|cell| cell.trim().replace('\u{1}', "\\|"))
            .collect();
        (cells[1].trim_matches('`').to_owned(), (cells[2].clone(), cells[3].clone()))
    })
    .collect()
}

/// What one does where the source has no advice of its own: the message says what to do, or a cause below it does.
const NO_HELP: &str = "the cause is below the message";

fn page_of(codes: &BTreeMap<String, Stated>, old: &str) -> String {
    let head = old.split("\n## ").next().unwrap_or_default().trim_end();
    let mut text = format!("{head}\n");
    let mut area = "";
    for (code, stated) in codes {
        let now = code.split("::").next().unwrap_or_default();
        if now != area {
            text.push_str(&format!(
                "\n## {now}\n\n| code | what it says | what to do |\n| --- | --- | --- |\n"
            ));
            area = now;
        }
        let help = if stated.help.is_empty() { NO_HELP } else { &stated.help };
        text.push_str(&format!("| `{code}` | {} | {help} |\n", stated.message));
    }
    text
}

#[test]
fn every_error_code_has_its_line() {
    let path = repository().join("docs/troubleshooting.md");
    let codes = codes();
    assert!(codes.len() > 200, "only {} codes were found", codes.len());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let old = fs::read_to_string(&path).unwrap();
        fs::write(&path, page_of(&codes, &old)).unwrap();
    }
    let documented = documented(&fs::read_to_string(&path).unwrap());
    let again = "UPDATE_DOCS=1 cargo test -p trtforge --test docs writes the page anew";
    let missing: Vec<_> = codes.keys().filter(|code| !documented.contains_key(*code)).collect();
    let stale: Vec<_> = documented.keys().filter(|code| !codes.contains_key(*code)).collect();
    assert!(missing.is_empty(), "not in docs/troubleshooting.md: {missing:?}; {again}");
    assert!(stale.is_empty(), "no longer in the source: {stale:?}; {again}");
    for (code, (cause, remedy)) in documented {
        assert!(!cause.is_empty() && !remedy.is_empty(), "{code} has no cause or no remedy");
    }
}

#[test]
fn string_literals_are_read_as_a_person_reads_them() {
    let cases = [
        ("error(\"a {b} c\")", "a … c"),
        ("help(\"x {{y}} \\\n   z\")", "x {y} z"),
        ("error(\"{} of {}: {}\", a(\")\"), b)", "… of …: …"),
        ("error(\"say \\\"no\\\" | yes\")", "say \"no\" \\| yes"),
        ("error(transparent)", ""),
    ];
    for (text, expected) in cases {
        assert_eq!(literal(text), expected);
    }
    let blocks = blocks("```sh\n$ a\nb\n```\n```json\n{}\n```\n");
    assert_eq!(blocks, [(1, "a\nb\n".to_owned())]);
    trtforge(&["--version"]).expect(0);
}
