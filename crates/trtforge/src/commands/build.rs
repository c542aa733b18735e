//! `trtforge build`, and `report`, which renders its record again.

use std::io::IsTerminal;
use std::path::Path;

use serde_json::json;
use trtforge_report::{RunOutcome, RunRecord, TerminalStyle, render_terminal};

use super::{ci, print, read_profile};
use crate::cli::{BuildArgs, ReportArgs};
use crate::error::{PipelineError, REFUSED};
use crate::profile::Profile;
use crate::progress::Progress;
use crate::row_texts::show_texts;
use crate::run_folder::RunFolder;
use crate::{pipeline, progress, record};

/// Runs the whole chain; 1 when the gate refused.
pub fn build(args: &BuildArgs) -> Result<u8, PipelineError> {
    let backend = args.backend.map(|backend| format!("engine.backend={}", backend.name()));
    let mut profile = read_profile(&args.profile, backend.as_slice())?;
    if let Some(output) = &args.output {
        profile.output.clone_from(output);
    }
    let progress = Progress::new(args.profile.quiet);
    let record = pipeline::build(&profile, args.stop_after, progress)?;
    ci::announce(&record);
    if args.profile.json {
        print(true, &serde_json::from_str(&record.to_json()).unwrap_or_default(), "")?;
    } else if !args.profile.quiet {
        print(false, &json!(null), &summary(&record, &profile.output))?;
    }
    Ok(if record.outcome() == RunOutcome::Refused { REFUSED } else { 0 })
}

fn summary(record: &RunRecord, output: &Path) -> String {
    format!("{}\nFiles are in {}\n", verdicts(record), output.display())
}

/// The record for a terminal.
pub fn verdicts(record: &RunRecord) -> String {
    let color = progress::colored(std::io::stdout().is_terminal());
    let style = TerminalStyle { color, ..TerminalStyle::default() };
    render_terminal(record, &style)
}

/// Renders the reports of a run folder again.
pub fn report(args: &ReportArgs) -> Result<(), PipelineError> {
    // The help offers both: the folder, or the record in it.
    let mut run = RunFolder::open(&args.run)?;
    if let Some(profile) = &args.show_text {
        let shown = show_texts(&mut run, &Profile::read(profile, &[])?)?;
        progress::say(&format!(
            "report.html holds the texts of {shown} rows: it is as private as they are"
        ));
    }
    record::write(&run.record, &run.path)?;
    if args.json {
        return Ok(print(
            true,
            &serde_json::from_str(&run.record.to_json()).unwrap_or_default(),
            "",
        )?);
    }
    Ok(print(false, &json!(null), &summary(&run.record, &run.path))?)
}
