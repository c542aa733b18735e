//! Reads and diagnoses one trace: for measuring time and memory without the rest of the command line.

use std::path::Path;
use std::process::ExitCode;

use trtforge_diagnose::{DiagnoseOptions, ReadOptions, diagnose, read_trace, render_text};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next() else {
        eprintln!("usage: diagnose_trace FILE [--steps] [--partial] [--json]");
        return ExitCode::from(2);
    };
    let flags: Vec<String> = arguments.collect();
    let has = |flag: &str| flags.iter().any(|given| given == flag);
    let read = read_trace(Path::new(&path), ReadOptions { partial: has("--partial") });
    match read.and_then(|trace| diagnose(trace, DiagnoseOptions { steps: has("--steps") })) {
        Ok(diagnosis) if has("--json") => {
            println!("{}", serde_json::to_string_pretty(&diagnosis).expect("plain data"));
            ExitCode::SUCCESS
        }
        Ok(diagnosis) => {
            print!("{}", render_text(&diagnosis));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{:?}", miette::Report::new(error));
            ExitCode::from(2)
        }
    }
}
