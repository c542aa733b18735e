//! A step as a process with a time limit.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks at a process.
const LOOK: Duration = Duration::from_millis(20);

/// What is run.
pub struct Task<'t> {
    /// The program.
    pub program: &'t Path,
    /// Its arguments.
    pub arguments: &'t [&'t str],
    /// Where what it says is added.
    pub log: &'t Path,
    /// When it is ended.
    pub limit: Duration,
}

/// How it ended.
pub struct Ended {
    /// None when it was ended, crashed or never began.
    pub exit_code: Option<i32>,
    /// Whether it was ended at its limit.
    pub timed_out: bool,
    /// How long it took.
    pub seconds: f64,
    /// Standard output.
    pub output: String,
    /// Standard error.
    pub said: String,
    /// How a crash is told, for example `signal: 11 (SIGSEGV)`.
    status: String,
}

impl Ended {
    /// Why it failed: the lines of its error message, on one line, or how it crashed.
    pub fn complaint(&self) -> String {
        let crashed = self.exit_code.is_none() && !self.timed_out;
        let lines = self.said.lines().map(str::trim).filter(|line| !line.is_empty());
        let mut words = lines.collect::<Vec<_>>();
        // Progress comes before the message; the message is last.
        let from = words.iter().rposition(|line| line.starts_with("error") || line.contains('×'));
        let words = words.split_off(from.unwrap_or(words.len().saturating_sub(3)));
        let text = words.join(" ");
        match (crashed, text.is_empty()) {
            (true, true) => self.status.clone(),
            (true, false) => format!("{}: {text}", self.status),
            (false, true) => format!("{} without a word", self.status),
            (false, false) => text,
        }
    }
}

impl Task<'_> {
    /// Runs it to its end or its limit.
    pub fn run(&self) -> Ended {
        let start = Instant::now();
        match self.run_in_files(start) {
            Ok(ended) => ended,
            Err(error) => Ended {
                exit_code: None,
                timed_out: false,
                seconds: start.elapsed().as_secs_f64(),
                output: String::new(),
                said: String::new(),
                status: format!("it could not be run: {error}"),
            },
        }
    }

    /// Output goes through files: a pipe that nobody empties would stop the process.
    fn run_in_files(&self, start: Instant) -> std::io::Result<Ended> {
        let (mut output, mut said) = (tempfile::tempfile()?, tempfile::tempfile()?);
        let mut child = Command::new(self.program)
            .args(self.arguments)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(said.try_clone()?)
            .spawn()?;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break Some(status);
            }
            if start.elapsed() >= self.limit {
                child.kill()?;
                child.wait()?;
                break None;
            }
            thread::sleep(LOOK);
        };
        let seconds = start.elapsed().as_secs_f64();
        let (output, said) = (all_of(&mut output)?, all_of(&mut said)?);
        let mut log = OpenOptions::new().append(true).create(true).open(self.log)?;
        writeln!(log, "== {} ({seconds:.1} s)\n{said}", self.arguments.join(" "))?;
        Ok(Ended {
            exit_code: status.and_then(|status| status.code()),
            timed_out: status.is_none(),
            seconds,
            output,
            said,
            status: status.map_or_else(String::new, |status| status.to_string()),
        })
    }
}

fn all_of(file: &mut File) -> std::io::Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Ended {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        Task { program: Path::new("/bin/sh"), arguments: &["-c", script], log: &log, limit }.run()
    }

    #[test]
    fn processes_end_in_every_way() {
        let long = Duration::from_secs(20);
        let fine = shell("echo '{}'; echo hello >&2", long);
        assert_eq!((fine.exit_code, fine.timed_out, fine.output.trim()), (Some(0), false, "{}"));
        let failed = shell(
            "echo progress >&2; echo 'error: no such thing' >&2; echo '  help: get one' >&2; exit 4",
            long,
        );
        assert_eq!(failed.exit_code, Some(4));
        assert_eq!(failed.complaint(), "error: no such thing help: get one");
        let silent = shell("exit 7", long);
        assert!(silent.complaint().ends_with("without a word"), "{}", silent.complaint());
        let crashed = shell("kill -SEGV $$", long);
        assert_eq!(crashed.exit_code, None);
        assert!(crashed.complaint().contains("signal: 11"), "{}", crashed.complaint());
        let hung = shell("sleep 30", Duration::from_millis(100));
        assert!(hung.timed_out && hung.seconds < 10.0);
        let missing = Task {
            program: Path::new("/no/such/program"),
            arguments: &[],
            log: Path::new("/dev/null"),
            limit: long,
        };
        assert!(missing.run().complaint().contains("could not be run"));
    }
}
