//! Every command has help with examples that parse, and a line in docs/commands.md.

use std::path::Path;

use clap::{Command, CommandFactory, Parser};

use super::Cli;

/// Every command of the tree with its full name, the top one first.
fn commands() -> Vec<(String, Command)> {
    fn walk(command: &Command, name: &str, found: &mut Vec<(String, Command)>) {
        found.push((name.to_owned(), command.clone()));
        // What is hidden is no command for people: a script runs it.
        let shown = |inner: &&Command| inner.get_name() != "help" && !inner.is_hide_set();
        for inner in command.get_subcommands().filter(shown) {
            walk(inner, &format!("{name} {}", inner.get_name()), found);
        }
    }
    let mut top = Cli::command();
    top.build();
    let mut found = Vec::new();
    walk(&top, "trtforge", &mut found);
    found
}

/// The example lines of a text, cut where a shell would take over.
fn examples(text: &str) -> Vec<String> {
    text.lines()
        .flat_map(|line| line.split(" && "))
        .map(|line| line.trim().trim_start_matches("$ "))
        // A usage line has placeholders and options in brackets.
        .filter(|line| line.starts_with("trtforge ") && !line.contains(['<', '[']))
        .map(|line| line.split(" > ").next().unwrap_or(line).trim().to_owned())
        .collect()
}

/// Parses a command line whose only quotes are around whole words.
fn parse(line: &str) {
    let words = line.split_whitespace().map(|word| word.trim_matches('\''));
    if let Err(error) = Cli::try_parse_from(words) {
        panic!("`{line}` does not parse: {error}");
    }
}

#[test]
fn the_definition_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn every_long_help_has_examples_that_parse() {
    let mut parsed = 0;
    for (name, mut command) in commands() {
        let help = command.render_long_help().to_string();
        assert!(help.contains("Example:") || help.contains("Examples:"), "{name}:\n{help}");
        let found = examples(&help);
        assert!(found.iter().any(|line| line.starts_with(&name)), "{name}: {found:?}");
        for line in &found {
            parse(line);
        }
        parsed += found.len();
    }
    assert!(parsed >= 25, "only {parsed} examples");
}

/// Commands of fenced blocks in docs/ and the README, also of those that the tests do not run.
#[test]
fn every_command_of_the_docs_parses() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pages = std::fs::read_dir(top.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut parsed = 0;
    for page in pages
        .chain([top.join("README.md")])
        .filter(|path| path.extension().is_some_and(|e| e == "md"))
    {
        let text = std::fs::read_to_string(&page).unwrap();
        // Between fences: every second piece.
        for block in text.split("\n```").skip(1).step_by(2) {
            for line in examples(block) {
                parse(
                    line.split("  #")
                        .next()
                        .unwrap_or(&line)
                        .split(" # ")
                        .next()
                        .unwrap_or_default(),
                );
                parsed += 1;
            }
        }
    }
    assert!(parsed >= 25, "only {parsed} commands");
}

#[test]
fn every_option_says_what_it_does() {
    for (name, command) in commands() {
        for argument in command.get_arguments() {
            assert!(argument.get_help().is_some(), "{name}: {}", argument.get_id());
        }
    }
}

#[test]
fn every_command_has_its_line_in_the_docs() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md");
    let text = std::fs::read_to_string(path).unwrap();
    // | `name` | what it does | `example` |
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    let documented: Vec<String> =
        rows.iter().map(|row| format!("trtforge {}", row[0].trim_matches('`'))).collect();
    let known: Vec<String> = commands().into_iter().skip(1).map(|(name, _)| name).collect();
    assert_eq!(documented, known, "docs/commands.md lists the commands in the order of --help");
    for (row, name) in rows.iter().zip(&known) {
        let example = row[2].trim_matches('`');
        // Some need another command before them.
        assert!(example.contains(name.as_str()), "{row:?}");
        for line in examples(example) {
            parse(&line);
        }
    }
}
