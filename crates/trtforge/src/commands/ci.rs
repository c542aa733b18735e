//! What a pipeline shows of a run beside its log: a Markdown summary on the job's page, and annotations.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use trtforge_report::{Outcome, RunRecord, render_markdown};

use crate::progress;

/// Appends the summary where `GITHUB_STEP_SUMMARY` says, and annotates where `GITHUB_ACTIONS` is `true`.
///
/// Annotations go to standard error: the runner reads both streams, and standard output is the command's data. A summary that cannot be
/// written is said and does not change the verdict.
pub fn announce(record: &RunRecord) {
    if let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()) {
        let path = Path::new(&path);
        let written = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .and_then(|mut file| writeln!(file, "{}", render_markdown(record)));
        if let Err(error) = written {
            progress::say(&format!("warning: GITHUB_STEP_SUMMARY cannot be written: {error}"));
        }
    }
    if std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true") {
        for line in annotations(record) {
            progress::say(&line);
        }
    }
}

/// One annotation for every refused precision, and one for every rule that only passes since that is tolerated.
fn annotations(record: &RunRecord) -> Vec<String> {
    let mut lines = Vec::new();
    for (precision, one) in &record.precisions {
        let Some(verdict) = &one.verdict else { continue };
        let title = format!("{} {}", precision.name(), verdict.outcome.word());
        if !verdict.lets_through() {
            lines.push(command("error", &title, &verdict.reason));
        }
        let tolerated =
            |rule: &&trtforge_report::Rule| rule.passes && rule.outcome == Outcome::Inconclusive;
        for rule in verdict.rules.iter().filter(tolerated) {
            let title = format!("{} {} tolerated", precision.name(), rule.title());
            lines.push(command("warning", &title, &rule.reason));
        }
    }
    lines
}

/// A workflow command of GitHub Actions, with what would end it early escaped.
fn command(kind: &str, title: &str, message: &str) -> String {
    let data = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let property = |text: &str| data(text).replace(':', "%3A").replace(',', "%2C");
    format!("::{kind} title={}::{}", property(title), data(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_a_command_early() {
        assert_eq!(
            command("error", "INT8: a, b", "95% sure\nthat ::warning::"),
            "::error title=INT8%3A a%2C b::95%25 sure%0Athat ::warning::"
        );
    }
}
